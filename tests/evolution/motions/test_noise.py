"""Noisy tokens: Brownian motion on spheres, the stationary law, and measured orders."""

from functools import partial

import diffrax as dfx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tests import fast_first
from tokenfield.errors import InputError
from tokenfield.evolution.solvers.splitting import AbstractNoise, Brownian, Splitting

STILL = tkf.Unnormalized(0.0, V=0.0)  # no field: nothing but noise


class Silence(AbstractNoise):
    """No increments."""

    shape: tuple = (64, 2)

    def begin(self, t0):
        return None

    def halves(self, t0, t1, state):
        return jnp.zeros(self.shape), jnp.zeros(self.shape), None


class Tree(AbstractNoise):
    """The increments of Diffrax's own Brownian paths."""

    path: dfx.VirtualBrownianTree

    def begin(self, t0):
        return None

    def halves(self, t0, t1, state):
        middle = t0 + 0.5 * (t1 - t0)
        return self.path.evaluate(t0, middle), self.path.evaluate(middle, t1), None


def moved(flow, x, h, steps, seed=0):
    """Independent copies of one token after a few steps of a given length, with increments of our own."""
    solver = Splitting(flow, Silence())

    def step(x, key):
        a, b = jnp.sqrt(0.5 * h) * jax.random.normal(key, (2, *x.shape))
        return solver._wander(0.0, solver._wander(0.0, x, a, 0.5 * h), b, 0.5 * h), None

    return jax.lax.scan(step, x, jax.random.split(jax.random.key(seed), steps))[0]


@pytest.mark.parametrize("d", [2, 3, 5])
def test_brownian_motion_on_the_sphere(d):
    """⟨x(t), x(0)⟩ has mean e^{-(d-1)t/κ}, and degree 2 the mean e^{-2dt/κ}: within three standard errors, at long steps."""
    κ, t, n = 2.0, 0.8, 200_000
    flow = tkf.Flow(STILL, tkf.PostLN(), kappa=κ)
    x = np.asarray(moved(flow, jnp.broadcast_to(jnp.eye(d)[0], (n, d)), 0.2, 4))
    s = x[:, 0]
    assert np.max(abs(np.linalg.norm(x, axis=1) - 1)) < 1e-14
    for values, exact in ((s, np.exp(-(d - 1) * t / κ)), ((d * s**2 - 1) / (d - 1), np.exp(-2 * d * t / κ))):
        assert abs(values.mean() - exact) < 3 * values.std() / np.sqrt(n) + 2e-3 * (d > 2)


def test_weak_order_of_brownian_motion_on_the_sphere():
    """One step's mean of a degree-l harmonic errs by O(h³): exactly, by quadrature over the increment."""
    t, w = np.polynomial.hermite_e.hermegauss(40)
    grid = np.stack([np.zeros(1600), *(g.ravel() for g in np.meshgrid(t, t))], axis=1)
    weight = np.outer(w, w).ravel() / (2 * np.pi)
    solver = Splitting(tkf.Flow(STILL, tkf.PostLN(), kappa=1.0), Silence())
    errors = []
    for h in (0.02, 0.01, 0.005):
        x = solver._wander(0.0, jnp.broadcast_to(jnp.eye(3)[0], (1600, 3)), jnp.asarray(np.sqrt(h) * grid), h)
        s = np.asarray(x[:, 0])
        errors.append([weight @ s - np.exp(-2 * h), weight @ (1.5 * s**2 - 0.5) - np.exp(-6 * h)])
    orders = np.log2(np.abs(np.array(errors[:-1]) / errors[1:]))
    assert np.all(orders > 2.8), orders


def test_measured_weak_order():
    """A token in a fixed field, θ̇ = -sin θ, on the circle: E cos θ(1) from θ(0) = π/2 errs by O(h²).

    Without sampling: Brownian motion on the circle is exact, e^{-k²h/κ} a mode; the drift's map is the solver's own step."""
    κ = 2.0
    solver = Splitting(tkf.Flow(STILL, tkf.PostLN(), kappa=κ), Silence())
    terms = dfx.ODETerm(lambda t, y, args: jnp.stack([y[:, 1] ** 2, -y[:, 0] * y[:, 1]], axis=1))
    θ, k = 2 * np.pi * np.arange(64) / 64, np.fft.fftfreq(64, 1 / 64)
    errors = []
    for steps in (2, 4, 8):
        h = 1 / steps
        y = solver.step(terms, 0.0, h, jnp.asarray(np.stack([np.cos(θ), np.sin(θ)], axis=1)), None, None, False)[0]
        after = np.exp(1j * np.outer(np.arctan2(*np.asarray(y).T[::-1]), k)) / 64
        u = np.cos(θ).astype(complex)
        for _ in range(steps):
            u = after @ (np.exp(-(k**2) * h / (2 * κ)) * np.fft.fft(u))
            u = np.fft.ifft(np.exp(-(k**2) * h / (2 * κ)) * np.fft.fft(u))
        errors.append(abs(u[16].real - exact_mean(κ, 1.0)))
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all(abs(orders - 2) < 0.3), (errors, orders)


def exact_mean(κ, t, modes=40):
    """∫ cos θ dμ_t for ∂_t μ = ∂_θ(sin θ μ) + μ''/κ from a point at θ = π/2, by the matrix exponential of Fourier modes."""
    from scipy.linalg import expm

    k = np.arange(-modes, modes + 1)
    L = np.diag(-(k**2) / κ).astype(complex)
    for row, wave in enumerate(k):  # ik (sin θ μ)^_k = ik (μ_{k-1} - μ_{k+1})/2i
        if row > 0:
            L[row, row - 1] += wave / 2
        if row < len(k) - 1:
            L[row, row + 1] -= wave / 2
    c = expm(t * L) @ np.exp(-1j * k * np.pi / 2)
    return float(np.real(c[modes + 1] + c[modes - 1]) / 2)


def test_the_stationary_law_of_many_noisy_tokens():
    """n = 10⁴ noisy tokens on the circle under linear attention: moments of the stationary law within three standard errors.

    Its potential is (β/4) S cos 2θ, S = <cos 2θ>; at βκ = 16 the doubled angle is noisy Kuramoto's at κ = 4: it is von Mises
    with S = I₁(4S)/I₀(4S) = 0.83146. A fluctuation of S feeds back, so that standard errors grow by 1/(1 - 4 Var cos 2θ)."""
    n, S = 10_000, 0.8314615
    law = tkf.CircleDensity.von_mises(4 * S)
    doubled = np.asarray(tkf.CircleDensity.von_mises(2.5).sample(n, seed=3).x)
    θ = 0.5 * np.arctan2(doubled[:, 1], doubled[:, 0]) + np.pi * (np.arange(n) % 2)
    start = tkf.Tokens(np.stack([np.cos(θ), np.sin(θ)], axis=1))
    run = tkf.evolve(tkf.Flow(tkf.Linear(4.0), tkf.PostLN(), kappa=4.0), start, t=4.0, save=2, step=0.02, seed=5)
    θ = 2 * np.arctan2(*np.asarray(run.x[-1]).T[::-1])
    θ = θ - np.angle(np.mean(np.exp(1j * θ)))
    response = 1 / (1 - 4 * np.var(np.cos(θ)))
    for k in (1, 2, 3):
        values, exact = np.cos(k * θ), float(law.coefficients[2 * k - 1]) / np.sqrt(2)
        assert abs(values.mean() - exact) < 3 * response * values.std() / np.sqrt(n), k


@pytest.mark.parametrize(
    ("norm", "order"),
    [pytest.param(tkf.PostLN(), 0.5, id="sphere"), pytest.param(tkf.Free(), 1.0, id="space", marks=pytest.mark.slow)],
)
def test_strong_order(norm, order):
    """Pathwise errors of x(1) along one Brownian path fall as √h on the sphere, where noise does not commute, as h in R^d."""
    flow = tkf.Flow(tkf.Softmax(1.0), norm, kappa=2.0)
    mu = tkf.Tokens.uniform_sphere(100, 2, seed=1)
    rate = lambda t, y, args: flow.velocity(t, mu.with_points(y), None, tkf.Dense())
    path = dfx.VirtualBrownianTree(0.0, 1.0, 2.0**-12, (100, 2), jax.random.key(3))

    @jax.jit
    def end(h):
        solver = Splitting(flow, Tree(path))
        body = lambda i, y: solver.step(dfx.ODETerm(rate), i * h, (i + 1) * h, y, None, None, False)[0]
        return jax.lax.fori_loop(0, jnp.round(1 / h).astype(int), body, mu.x)

    exact = end(2.0**-10)
    errors = [float(jnp.sqrt(jnp.mean((end(h) - exact) ** 2))) for h in (2.0**-3, 2.0**-6)]
    assert abs(np.log2(errors[0] / errors[1]) / 3 - order) < 0.15, errors


@partial(jax.jit, static_argnums=2)
def _path_at(seed, ts, count):
    path = Brownian(jax.random.key(seed), (count, 1))
    return jax.lax.map(lambda t: path.between(path.at(jnp.zeros(())), path.at(t)), ts)[:, :, 0]


def path_at(ts, count=10_000, seed=0):
    """W(t) - W(0) of many independent paths, one row per time."""
    return np.asarray(_path_at(seed, jnp.asarray(ts), count))


def test_the_law_of_brownian_paths():
    """Cov(W(s), W(t)) = min(s, t) across octaves and inside the smallest cells, and 0 across t = 0: within four standard errors;
    fourth moments are those of normal variables; increments over disjoint intervals are independent, squares included."""
    ts = np.array([1e-9, 1e-7, 0.013, 0.25, 0.3, 0.30001, 0.5, 0.7, 1.0, 1.3, 2.0, 3.7, 100.3, 1e6 / 3])
    n, w = 10_000, path_at(ts)
    exact = np.minimum.outer(ts, ts)
    error = np.sqrt((np.outer(ts, ts) + exact**2) / n)
    assert np.max(abs(w @ w.T / n - exact) / error) < 4
    increments = np.diff(w, axis=0) / np.sqrt(np.diff(ts))[:, None]
    assert np.max(abs(np.mean(increments**4, axis=1) - 3)) < 4 * np.sqrt(96 / n)
    squares = np.corrcoef(increments**2)
    assert np.max(abs(squares - np.eye(len(squares)))) < 5 / np.sqrt(n)
    before, after = np.split(path_at([-0.7, -0.2, 0.2, 0.7]), 2)
    assert abs(np.mean(before[0] ** 2) - 0.7) < 4 * 0.7 * np.sqrt(2 / n)
    assert np.max(abs(before @ after.T / n)) < 4 * 0.7 / np.sqrt(n)


def test_brownian_paths_are_continuous_to_round_off():
    """A Brownian path moves by √Δt: at most 1e-7 or so where Δt is round-off, and far less away from the ends of cells."""
    ts = np.random.default_rng(0).uniform(0.01, 30, 20)
    moved = abs(path_at(ts * (1 + 4e-16), 500) - path_at(ts, 500))
    assert np.max(moved) < 1e-6 and np.median(moved) < 1e-11
    assert not np.allclose(path_at(ts, 500), path_at(ts, 500, seed=1))


SPACES = {
    "sphere": (tkf.sa(2.0, kappa=8.0), 0.5),
    "space": (tkf.Flow(tkf.Softmax(1.0), tkf.Free(), kappa=4.0), 1.0),
}


@pytest.mark.parametrize("where", fast_first(SPACES, "sphere"))
def test_the_path_does_not_depend_on_steps(where):
    """Runs with other tolerances and other save times approach one and the same path, at the strong order; other seeds do not."""
    flow, order = SPACES[where]
    mu = tkf.Tokens.uniform_sphere(100, 3, seed=0)
    run = lambda **how: tkf.evolve(flow, mu, t=1.0, **{"seed": 3, "save": 2, **how})
    fine = run(rtol=1e-7).final.x
    ends = [run(rtol=1e-2), run(rtol=1e-4), run(rtol=1e-4, save=8)]
    errors = [float(np.sqrt(np.mean((end.final.x - fine) ** 2))) for end in ends]
    finer = np.log(int(ends[1].steps) / int(ends[0].steps))
    assert np.log(errors[0] / errors[1]) / finer > order - 0.25, errors
    assert errors[2] < 2 * errors[1] < errors[0]
    other = float(np.sqrt(np.mean((run(rtol=1e-4, seed=4).final.x - fine) ** 2)))
    assert other > 5 * errors[1]


@pytest.mark.parametrize("where", fast_first(SPACES, "sphere"))
def test_a_member_alone_sees_the_path_that_it_sees_among_others(where):
    """With steps that adapt, which differ in no digit."""
    flow, mu, how = SPACES[where][0], tkf.Tokens.uniform_sphere(9, 3, seed=0), {"t": 3.0, "save": 7}
    runs = tkf.evolve([flow] * 3, mu, seed=7, **how)
    member = runs.member(1)
    alone = tkf.evolve(flow, mu, seed=member.provenance.noise, **how)
    assert int(member.steps) == int(alone.steps) and np.max(abs(member.x - alone.x)) < 1e-9


@pytest.mark.slow
def test_a_traced_run_sees_the_same_path():
    flow, mu, how = SPACES["sphere"][0], tkf.Tokens.uniform_sphere(9, 3, seed=0), {"t": 3.0, "save": 7}
    mapped = jax.vmap(lambda seed: tkf.evolve(flow, mu, seed=seed, **how).x)(jnp.arange(2))
    for seed in range(2):
        assert np.max(abs(mapped[seed] - tkf.evolve(flow, mu, seed=seed, **how).x)) < 1e-9


@pytest.mark.parametrize("how", ["one value per layer", "a switch"])
def test_steps_land_on_jumps(how):
    """Where the flow jumps between steps of a given length, its order is still 2: with next to no noise, against a run without."""
    parts = {
        "one value per layer": (tkf.Softmax(tkf.PerLayer([1.0, 6.0, 0.5], step=0.3)), tkf.PostLN()),
        "a switch": (tkf.Softmax(2.0), tkf.MixLN(0.37)),
    }[how]
    mu = tkf.Tokens.uniform_sphere(12, 3, seed=1)
    exact = tkf.evolve(tkf.Flow(*parts), mu, t=0.9, save=1, rtol=1e-11).final.x
    end = lambda h: tkf.evolve(tkf.Flow(*parts, kappa=1e30), mu, t=0.9, save=1, step=h).final.x
    errors = [float(np.max(abs(end(h) - exact))) for h in (0.08, 0.04, 0.02, 0.01)]
    order = np.polyfit(np.log([0.08, 0.04, 0.02, 0.01]), np.log(errors), 1)[0]
    assert 1.8 < order < 2.3, errors


def test_runs_are_reproducible_and_stay_on_the_sphere():
    flow, mu = tkf.usa(2.0, kappa=3.0), tkf.Tokens.uniform_sphere(30, 3, seed=0)
    one, two, other = (tkf.evolve(flow, mu, t=2.0, save=5, seed=s) for s in (4, 4, 5))
    assert np.array_equal(one.x, two.x) and not np.allclose(one.x[-1], other.x[-1])
    assert np.max(abs(np.linalg.norm(np.asarray(one.x), axis=-1) - 1)) < 1e-14
    assert (
        one.provenance.noise == 4 and "seed of the noise 4" in str(one) and np.allclose(one.times, np.linspace(0, 2, 5))
    )
    with pytest.raises(InputError, match="noise is not drawn twice"):
        one.at(0.7)


def test_ensembles_and_noise_in_space():
    """N(0, 2t/κ) in R^d without a field, over an ensemble made by vmap."""
    flow = tkf.Flow(STILL, tkf.Free(), kappa=4.0)
    run = jax.jit(
        jax.vmap(lambda seed: tkf.evolve(flow, tkf.Tokens(jnp.zeros((500, 2))), t=3.0, save=1, step=0.5, seed=seed).x)
    )
    x = np.asarray(run(jnp.arange(8)))[:, 0].reshape(-1, 2)
    assert np.allclose(np.cov(x.T), 1.5 * np.eye(2), atol=3 * 1.5 * np.sqrt(2 / 4000) + 0.01)
    assert not np.allclose(x[:500], x[500:1000])


def test_noise_beside_other_parts():
    """Pre-LN, Mix-LN, reweighting and weights go on with noise."""
    mu = tkf.Tokens.uniform_sphere(12, 3, seed=1)
    flow = tkf.Flow(tkf.Softmax(2.0), tkf.MixLN(0.5), reweighting=tkf.FisherRao(0.5), kappa=20.0)
    run = tkf.evolve(flow, mu, t=1.0, save=3)
    assert run.status.ok and np.allclose(np.sum(np.asarray(run.states.w), axis=1), 1)
    assert np.allclose(np.linalg.norm(np.asarray(run.x[1]), axis=1), 1) and not np.allclose(
        np.linalg.norm(np.asarray(run.x[2]), axis=1), 1
    )


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda mu: tkf.evolve(tkf.usa(1.0, kappa=1.0), mu, t=1.0, solver="tsit5"), "'splitting'"),
        (lambda mu: tkf.evolve(tkf.usa(1.0, kappa=1.0), mu, t=1.0, step=0.0), "must be positive"),
        (lambda mu: tkf.evolve(tkf.usa(1.0, kappa=1.0), mu, t=1.0, seed=-1), "at least 0"),
        (lambda mu: tkf.evolve(tkf.usa(1.0), mu, t=1.0, step=0.1), "flows with noise"),
        (lambda mu: tkf.evolve(tkf.Flow(tkf.Softmax(), tkf.Rescaled(), kappa=1.0), mu, t=1.0), "no agreed meaning"),
        (lambda mu: tkf.layers(tkf.usa(1.0, kappa=1.0), mu, 3), "noise"),
        (lambda mu: tkf.usa(1.0, kappa="much"), "one real number"),
    ],
)
def test_refusals(make, words):
    with pytest.raises(InputError, match=words):
        make(tkf.Tokens.uniform_sphere(5, 2))
