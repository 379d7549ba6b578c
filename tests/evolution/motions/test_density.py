"""Densities: the Fokker–Planck equation against tokens, growth rates, known stationary states, and its own convergence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import iv

import tokenfield as tkf
from tokenfield import theory
from tokenfield.errors import InputError
from tokenfield.evolution.motions.density import Spectral
from tokenfield.evolution.solvers.etd4 import phi

LUMPY = tkf.SphereDensity.from_function(lambda x: np.exp(x @ [0.4, -0.5, 0.8] + x[:, 0] * x[:, 1]))
RIPPLED = tkf.CircleDensity.from_function(lambda θ: np.exp(0.7 * np.cos(θ - 0.4) + 0.5 * np.sin(2 * θ)))


@pytest.mark.parametrize(
    "flow",
    [
        tkf.usa(2.0),
        tkf.sa(2.0),
        tkf.sa(0.0),
        tkf.usa(3.0, scaled=True, V=-0.5),
        tkf.Flow(tkf.Linear(1.5), tkf.PostLN()),
    ],
    ids=str,
)
@pytest.mark.parametrize("mu", [RIPPLED, LUMPY], ids=["circle", "sphere"])
def test_the_continuity_equation_against_tokens(mu, flow):
    """d/dt ∫ψ dμ = ∫ ∇ψ·v dμ for ψ = x_i and x_i x_j, with v from weighted tokens that stand for the density."""
    tokens = tkf.Tokens.quadrature(mu, n=40)
    v, x, w = np.asarray(tkf.velocity(flow, tokens)), np.asarray(tokens.x), np.asarray(tokens.w)
    motion = Spectral(flow, mu)
    rate = np.asarray(jax.jit(lambda y: motion.rate(jnp.zeros(()), y, None)[0])(motion.first))
    points, σ = mu.basis.points, mu.basis.weights
    change = np.asarray(mu.basis.synthesize(jnp.asarray(rate))) * σ
    assert np.max(abs(change @ points - w @ v)) < 1e-10
    pairs = np.einsum("n,ni,nj->ij", w, v, x)
    assert np.max(abs(np.einsum("n,ni,nj->ij", change, points, points) - pairs - pairs.T)) < 1e-10
    assert rate[0] == 0, "mass"


@pytest.mark.parametrize("kind", [tkf.usa, tkf.sa])
@pytest.mark.parametrize("d", [2, 3, 8])
def test_growth_rates_of_the_equation(d, kind):
    """The derivative of the right-hand side at the uniform measure is diagonal, with the formula's rates."""
    flow = kind(3.0, kappa=5.0)
    other = {2: tkf.CircleDensity.uniform(12), 3: tkf.SphereDensity.uniform(12)}
    for mu in [tkf.SphereDensity.uniform(12, d=d, zonal=True), *([other[d]] if d in other else [])]:
        motion = Spectral(flow, mu)
        rate = lambda c, motion=motion: motion.rate(jnp.zeros(()), c[None], None)[0]
        J = np.asarray(jax.jit(jax.jacfwd(rate))(mu.coefficients))
        expected = np.asarray(theory.growth_rates(flow, d, 12))[mu.basis.degrees]
        assert np.max(abs(J - np.diag(expected))) < 1e-9 * np.max(abs(expected))


@pytest.mark.parametrize(("d", "l", "kind"), [(2, 3, tkf.usa), (3, 2, tkf.sa), (8, 1, tkf.usa)])
def test_growth_rates_measured_from_small_perturbations(d, l, kind):
    flow, a = kind(4.0, kappa=3.0), 1e-6
    mu = tkf.CircleDensity.wave(a, k=l) if d == 2 else tkf.SphereDensity.wave(a, l=l, d=d, zonal=d != 3)
    run = tkf.evolve(flow, mu, t=0.2, save=2, rtol=1e-13)
    first = np.flatnonzero(mu.basis.degrees == l)[0]
    measured = np.log(run.coefficients[1, first] / run.coefficients[0, first]) / 0.2
    expected = float(theory.growth_rates(flow, d, l)[l])
    assert abs(measured - expected) < 1e-6 * abs(expected)


def test_mass_positivity_and_a_falling_free_energy():
    run = tkf.evolve(tkf.usa(2.0, kappa=3.0), RIPPLED, t=20.0, save=60)
    assert run.status.ok and np.max(abs(np.asarray(run.mass) - 1)) < 1e-12
    assert float(np.min(run.least)) > 0
    F = np.asarray(tkf.observe.free_energy(run))
    assert np.all(np.diff(F) < 1e-12) and F[0] - F[-1] > 0.1
    assert "free energy" in str(run) and "mass to" in str(run)


def test_noisy_kuramoto_reaches_its_known_state():
    """β = 0, κ = 4: R = I₁(κR)/I₀(κR) = 0.83146, and the density is von Mises."""
    run = tkf.evolve(tkf.kuramoto(kappa=4.0), tkf.CircleDensity.wave(0.2), t=60.0, save=2)
    R = float(run.order[-1])
    assert abs(R - 0.83146) < 1e-5 and abs(R - iv(1, 4 * R) / iv(0, 4 * R)) < 1e-7
    θ = np.linspace(0, 6, 7)
    assert np.allclose(run.final(θ), tkf.CircleDensity.von_mises(4 * R)(θ), atol=1e-6)


@pytest.mark.parametrize(
    ("mu", "t"),
    [pytest.param(RIPPLED, 0.8, id="circle"), pytest.param(LUMPY, 0.5, id="sphere", marks=pytest.mark.slow)],
)
def test_spectral_convergence(mu, t):
    """The error against the number of modes falls exponentially: at least threefold for two more degrees."""
    flow = tkf.sa(2.0, kappa=20.0)
    final = lambda degree: tkf.evolve(flow, mu.refined(degree), t=t, save=1, rtol=1e-12, refine=False).final
    exact = final(28)
    degrees = [6, 12]
    errors = [np.linalg.norm(np.asarray(final(n).refined(28).coefficients - exact.coefficients)) for n in degrees]
    assert errors[0] < 0.1 and errors[1] < errors[0] / 27, errors


def test_the_whole_run_against_scipy():
    """The same spectral right-hand side moved by SciPy's DOP853, and by an independent grid of Fourier modes."""
    β, κ, t = 1.5, 4.0, 2.0
    mu = tkf.CircleDensity.from_function(lambda θ: np.exp(np.cos(θ) + 0.3 * np.sin(θ)), 24)
    run = tkf.evolve(tkf.usa(β, kappa=κ), mu, t=t, save=1, rtol=1e-10, refine=False)
    k = np.arange(-24, 25)

    def rhs(_, y):
        c = y[:49] + 1j * y[49:]  # ∫ e^{-ikθ} dμ
        v = 1j * k * iv(abs(k), β) / β * c
        product = np.convolve(c, v)[24:73]
        dc = -1j * k * product - k**2 / κ * c
        return np.concatenate([dc.real, dc.imag])

    start = np.asarray(mu.coefficients)
    half = (start[1::2] - 1j * start[2::2]) / np.sqrt(2)
    c0 = np.concatenate([np.conj(half[::-1]), [1], half])
    exact = solve_ivp(rhs, (0, t), np.concatenate([c0.real, c0.imag]), method="DOP853", rtol=1e-11, atol=1e-13).y[:, -1]
    final = np.asarray(run.coefficients[-1])
    assert np.max(abs((final[1::2] - 1j * final[2::2]) / np.sqrt(2) - (exact[25:49] + 1j * exact[74:]))) < 1e-8


@pytest.mark.slow
def test_zonal_and_full_series_agree_on_the_sphere():
    flow = tkf.sa(3.0, kappa=8.0)
    full = tkf.evolve(flow, tkf.SphereDensity.von_mises(1.0, degree=24), t=1.0, save=1)
    zonal = tkf.evolve(flow, tkf.SphereDensity.von_mises(1.0, degree=24, zonal=True), t=1.0, save=1)
    assert (
        abs(float(full.order[-1] - zonal.order[-1])) < 1e-9 and abs(float(full.entropy[-1] - zonal.entropy[-1])) < 1e-8
    )


@pytest.mark.parametrize(
    "mu", [pytest.param(RIPPLED, id="circle"), pytest.param(LUMPY, id="sphere", marks=pytest.mark.slow)]
)
def test_many_tokens_approach_the_density(mu):
    """n = 10³ and 10⁵ tokens under linear attention, which costs O(n): second moments differ by O(n^{-1/2}). (β = 1: at larger
    β the instability of the uniform state multiplies the sampling error by e^{rate·t}.)"""
    flow = tkf.Flow(tkf.Linear(1.0), tkf.PostLN())
    final = tkf.evolve(flow, mu, t=1.0, save=1).final
    x, f = final.basis.points, np.asarray(final.values) * final.basis.weights
    exact = np.einsum("n,ni,nj->ij", f, x, x)
    errors = []
    for n in (1000, 100_000):
        ends = [tkf.evolve(flow, mu.sample(n, seed), t=1.0, save=1, rtol=1e-5).final.x for seed in range(4)]
        errors.append(np.sqrt(np.mean([np.sum((np.asarray(y).T @ np.asarray(y) / n - exact) ** 2) for y in ends])))
    assert abs(np.log10(errors[1] / errors[0]) / 2 + 0.5) < 0.2 and errors[1] < 0.01, errors


@pytest.mark.parametrize(
    "flow", [pytest.param(tkf.usa(2.0), marks=pytest.mark.slow, id="usa"), pytest.param(tkf.sa(2.0), id="sa")]
)
def test_tokens_at_quadrature_nodes_are_the_mean_field_equation(flow):
    """The density solver and the particle code, which share nothing, on the noiseless equation."""
    density = tkf.evolve(flow, RIPPLED, t=0.7, save=1, rtol=1e-11).final
    tokens = tkf.evolve(flow, tkf.Tokens.quadrature(RIPPLED, n=40), t=0.7, save=1, rtol=1e-11).final
    assert np.max(abs(np.asarray(density.mean - tokens.mean))) < 1e-8


@pytest.mark.slow
def test_modes_are_added_when_the_spectrum_needs_them():
    start = tkf.CircleDensity.wave(0.5, degree=16)
    run = tkf.evolve(tkf.usa(1.0), start, t=2.2, save=8)
    assert run.status.ok and run.degree >= 64 and float(run.tail[-1]) < 1e-8
    assert np.allclose(np.asarray(run.times), np.linspace(0, 2.2, 8)) and np.max(abs(np.asarray(run.mass) - 1)) < 1e-12
    fine = tkf.evolve(tkf.usa(1.0), start.refined(256), t=2.2, save=8)
    assert np.max(abs(np.asarray(run.order - fine.order))) < 1e-7
    kept = tkf.evolve(tkf.usa(1.0), start, t=2.2, save=8, refine=False)
    assert kept.status is tkf.Status.UNRESOLVED and kept.degree == 16 and len(kept) == 8
    assert "too sharp for its modes" in kept.message


def test_a_density_that_outgrows_all_modes_says_so(monkeypatch):
    monkeypatch.setattr(tkf.harmonics.Fourier, "most", 64)
    run = tkf.evolve(tkf.usa(1.0), tkf.CircleDensity.wave(0.5, degree=32), t=50.0)
    assert run.status is tkf.Status.UNRESOLVED and 1.0 < float(run.reached) < 50 and run.degree == 64
    assert np.isfinite(np.asarray(run.coefficients)).all()


@pytest.mark.slow
def test_schedules_and_square_root_scaling():
    """SqrtScaling is PostLN in the clock 2(√(t+1) - 1), if β changes accordingly not at all."""
    clock = 2 * (np.sqrt(3.0) - 1)
    slow = tkf.evolve(tkf.Flow(tkf.Softmax(2.0), tkf.SqrtScaling()), RIPPLED, t=2.0, save=1).final
    plain = tkf.evolve(tkf.sa(2.0), RIPPLED, t=clock, save=1).final
    n = min(slow.degree, plain.degree)
    assert np.max(abs(np.asarray(slow.refined(n).coefficients - plain.refined(n).coefficients))) < 1e-6
    turned = tkf.evolve(tkf.sa(lambda t: 2.0 + 0 * t), RIPPLED, t=0.5, save=1).final
    assert np.allclose(
        turned.coefficients, tkf.evolve(tkf.sa(2.0), RIPPLED, t=0.5, save=1).final.coefficients, atol=1e-9
    )


def test_order_of_the_exponential_integrator():
    """Halving fixed steps divides the error by 2⁴, with diffusion far too stiff for an explicit method."""
    import diffrax as dfx

    from tokenfield.evolution.solvers.etd4 import ETD4

    motion = Spectral(tkf.usa(2.0, kappa=2.0), RIPPLED.refined(48))
    spectrum = motion.remember(jnp.zeros(()), motion.first, None)

    @jax.jit
    def final(h):
        return dfx.diffeqsolve(motion.term, ETD4(), 0.0, 1.0, h, motion.first, args=spectrum, max_steps=400).ys[0, 0]

    exact = final(1 / 256)
    errors = [float(jnp.linalg.norm(final(h) - exact)) for h in (1 / 8, 1 / 16, 1 / 32)]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all(abs(orders - 4) < 0.5), (errors, orders)


def test_phi_functions():
    z = np.array([-1e-9, -0.3, -1.49, -1.51, -40.0])
    one, two, three = (np.asarray(part) for part in phi(jnp.asarray(z))[1:])
    s = np.polynomial.legendre.leggauss(60)
    θ, w = 0.5 * (s[0] + 1), 0.5 * s[1]
    for k, got in ((1, one), (2, two), (3, three)):
        weight = np.exp(np.outer(z, 1 - θ)) * θ ** (k - 1) / {1: 1, 2: 1, 3: 2}[k]
        assert np.allclose(got, weight @ w, rtol=1e-12)


@pytest.mark.parametrize(
    "mu",
    [
        pytest.param(RIPPLED, id="circle"),
        pytest.param(LUMPY, id="sphere", marks=pytest.mark.slow),
        pytest.param(tkf.SphereDensity.von_mises(4.0, d=6, zonal=True), id="zonal"),
    ],
)
def test_to_tokens_and_back(mu):
    n = 40_000
    tokens = mu.sample(n, seed=2)
    assert np.max(abs(np.asarray(tokens.radii) - 1)) < 1e-12
    low = mu.basis.refined(3)
    moments = low.moments(np.asarray(tokens.x), np.asarray(tokens.w))
    exact = np.asarray(mu.refined(3).coefficients)
    assert np.max(abs(moments - exact)) < 5 * np.max(abs(low.synthesize(jnp.eye(low.size)))) / np.sqrt(n)
    again = type(mu).from_tokens(tokens, **({} if mu.d == 2 else {"zonal": mu.d != 3}))
    assert float(again.least) > -1e-6 and np.max(abs(np.asarray(again.mean - mu.mean))) < 0.05
    assert np.array_equal(np.asarray(mu.sample(9, seed=2).x), np.asarray(mu.sample(9, seed=2).x))


def test_quantities_of_a_density():
    mu = tkf.CircleDensity.von_mises(2.0, angle=0.5)
    R = iv(1, 2) / iv(0, 2)
    assert abs(float(mu.order) - R) < 1e-12 and abs(np.arctan2(*np.asarray(mu.mean)[::-1]) - 0.5) < 1e-12
    assert abs(float(mu.entropy) - (np.log(iv(0, 2)) - 2 * R)) < 1e-12
    tokens = tkf.Tokens.quadrature(mu, n=40)
    assert abs(float(mu.energy(3.0)) - float(tkf.observe.energy(tokens, 3.0))) < 1e-10
    assert (
        abs(float(tkf.observe.energy(LUMPY, 2.0)) - float(tkf.observe.energy(tkf.Tokens.quadrature(LUMPY, n=24), 2.0)))
        < 1e-9
    )
    F = -(1 / 4) * float(mu.entropy) - 0.5 * R**2
    assert abs(float(mu.free_energy(tkf.kuramoto(kappa=4.0))) - F) < 1e-12
    assert float(tkf.observe.order_parameter(mu)) == float(mu.order)


@pytest.mark.slow
def test_quadrature_in_space_converges_exponentially():
    """A Gaussian on an interval and on a ball under softmax attention: tokens at n nodes against the exact covariance."""
    exact = float(tkf.evolve(tkf.Flow(tkf.Softmax(-0.5)), tkf.Gaussian([0.0], [[1.0]]), t=1.0, save=1).cov[-1, 0, 0])
    errors = []
    for n in (20, 40):
        mu = tkf.Tokens.quadrature(lambda x: np.exp(-(x[:, 0] ** 2) / 2), interval=(-9, 9), n=n)
        final = tkf.evolve(tkf.Flow(tkf.Softmax(-0.5)), mu, t=1.0, save=1, rtol=1e-11).final
        errors.append(abs(float(jnp.sum(final.w * final.x[:, 0] ** 2)) - exact))
    assert errors[1] < 1e-7 and errors[1] < 1e-3 * errors[0], errors


def test_quadrature_on_balls_boxes_and_spheres():
    """Gaussians of covariance 1/2, and a von Mises density."""
    for domain, d in ({"ball": (6.0, 2)}, 2), ({"box": [(-6, 6)] * 2}, 2), ({"ball": (6.0, 3)}, 3):
        mu = tkf.Tokens.quadrature(lambda x: np.exp(-np.sum(x**2, axis=1)), n=40, **domain)
        assert np.allclose(np.asarray(tkf.Gaussian.of(mu).cov), 0.5 * np.eye(d), atol=1e-10)
    mu = tkf.Tokens.quadrature(lambda x: np.exp(2 * x[:, 0]), sphere=5, n=8)
    assert abs(float(mu.mean[0]) - float(tkf.SphereDensity.von_mises(2.0, d=5, zonal=True).order)) < 1e-6


@pytest.mark.slow
def test_batches_and_gradients():
    def order(β):
        return tkf.evolve(tkf.usa(β, kappa=4.0), RIPPLED.refined(16), t=0.5, save=1).order[-1]

    grads = jax.jit(jax.vmap(jax.grad(order)))(jnp.array([0.0, 1.0]))
    step = 1e-4
    assert np.allclose(grads, [(order(b + step) - order(b - step)) / (2 * step) for b in (0.0, 1.0)], atol=1e-5)


def unit_circle(n=10):
    return tkf.Tokens.uniform_sphere(n, 2)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tkf.CircleDensity([1.0, 2.0, 0.0]), "must not be negative"),
        (lambda: tkf.CircleDensity([2.0, 0.0, 0.0]), "mass and must be 1"),
        (lambda: tkf.CircleDensity([1.0, 0.0]), "an odd number"),
        (lambda: tkf.SphereDensity([1.0, 0.0, 0.0]), "harmonics up to a degree"),
        (lambda: tkf.SphereDensity([1.0, 0.0], d=4), "zonal=True"),
        (lambda: tkf.CircleDensity.from_function(np.cos), "must not be negative"),
        (lambda: tkf.CircleDensity.from_function(lambda θ: 0 * θ), "must have mass"),
        (lambda: tkf.CircleDensity.from_function(lambda θ: θ[:3]), "one finite number per point"),
        (lambda: tkf.CircleDensity.von_mises(200.0, degree=8), "Too few modes"),
        (lambda: tkf.CircleDensity.from_function(lambda θ: (abs(θ) < 1) * 1.0), "not resolved"),
        (lambda: tkf.CircleDensity.from_tokens(unit_circle(), bandwidth=0.01, degree=8), "Too few modes"),
        (lambda: tkf.CircleDensity.from_tokens(tkf.Tokens.gaussian(5, 2)), "unit sphere"),
        (lambda: tkf.CircleDensity.uniform(0), "at least 1"),
        (lambda: RIPPLED([[1.0, 0.0, 0.0]]), "shape \\(m, d\\)"),
        (lambda: tkf.usa(1.0, kappa=0.0), "must be positive"),
        (lambda: tkf.usa(1.0, kappa=-1.0), "must be positive"),
        (lambda: tkf.evolve(tkf.Flow(tkf.Softmax()), RIPPLED, t=1.0), "PostLN or SqrtScaling"),
        (lambda: tkf.evolve(tkf.Flow(tkf.ReLU(), tkf.PostLN()), RIPPLED, t=1.0), "Softmax, Unnormalized"),
        (lambda: tkf.evolve(tkf.sa(1.0, A=np.eye(2)), RIPPLED, t=1.0), "multiples of the identity"),
        (lambda: tkf.evolve(tkf.sa(1.0), RIPPLED, t=1.0, solver="tsit5"), "etd4"),
        (lambda: tkf.observe.clusters(RIPPLED), "not one of a CircleDensity"),
        (lambda: tkf.observe.entropy(unit_circle()), "not one of a Tokens"),
        (lambda: tkf.observe.free_energy(RIPPLED), "needs a flow"),
        (lambda: tkf.observe.free_energy(RIPPLED, tkf.sa(1.0)), "not the gradient of an energy"),
        (lambda: tkf.Tokens.quadrature(lambda x: x[:, 0], interval=(-1, 1)), "not negative"),
        (lambda: tkf.Tokens.quadrature(lambda x: np.exp(-900 * x[:, 0] ** 2), interval=(-9, 9), n=9), "Too few nodes"),
        (lambda: tkf.Tokens.quadrature(lambda x: x), "one domain"),
        (lambda: tkf.Tokens.quadrature(lambda x: x, interval=(1, 0)), "low < high"),
        (lambda: tkf.Tokens.quadrature(lambda x: x, sphere=9, n=32), "too many"),
    ],
)  # fmt: skip
def test_refusals(make, words):
    with pytest.raises(InputError, match=words):
        make()
