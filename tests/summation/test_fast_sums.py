"""Sums in O(n) against the dense ones, and against another library's transforms; and who is chosen when."""

import ducc0
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special as sp

import tokenfield as tkf
from tests import fast_first
from tokenfield.errors import InputError
from tokenfield.summation import Circle, Dense, Euclidean, Request, Sphere, choose
from tokenfield.summation.circle import bound, reach
from tokenfield.summation.spectral import coarse
from tokenfield.summation.transforms import arctan2


def directions(n, d, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, d))
    return jnp.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


@eqx.filter_jit
def fast(summation, *arguments, **more):
    return summation.exponential(*arguments, **more)


@eqx.filter_jit
def unguarded(summation, *arguments):
    return summation.fast(*arguments)


def same_sums(ours, dense, tolerance):
    """Every row relative to its own total, whatever the shifts."""
    lift = jnp.exp(ours.shift - dense.shift)
    total = np.max(abs(ours.total * lift / dense.total - 1))
    weighted = np.max(abs(ours.average - dense.average))
    assert total < tolerance and weighted < tolerance, (total, weighted)


@pytest.mark.parametrize(("kind", "d"), [(Circle, 2), (Sphere, 3)])
@pytest.mark.parametrize("beta", fast_first([0.0, 1.0, -9.0, 100.0, 1000.0], "0.0", "-9.0", "1000.0"))
def test_sums_on_the_sphere(kind, d, beta):
    """Weights, queries apart from tokens, any number of values, a bias on the keys; keys of another length."""
    rng = np.random.default_rng(1)
    q, k, v = beta / 2 * directions(150, d, 1), 2.0 * directions(300, d, 2), jnp.asarray(rng.normal(size=(300, 3)))
    w = jnp.asarray(rng.dirichlet(np.ones(300)))
    bias = jnp.asarray(rng.uniform(-2, 5, size=300))
    same_sums(fast(kind(abs(beta)), q, k, v, w, bias=bias), fast(Dense(), q, k, v, w, bias=bias), 1e-9)


def point_by_point(beta, tolerance=1e-9):
    return Circle(beta, tolerance, direct=True)


@pytest.mark.parametrize("beta", fast_first([0.0, -9.0, 300.0], "-9.0"))
def test_series_point_by_point(beta):
    """Any values, a bias, other queries (complex charges); tokens as values, and their tangents alone."""
    test_sums_on_the_sphere(point_by_point, 2, beta)
    mu, x = tkf.Tokens(directions(300, 2), np.random.default_rng(1).dirichlet(np.ones(300))), directions(50, 2, 9)
    turn = np.array([[0.6, 0.8], [-0.8, 0.6]])
    for parts in ({}, {"Q": turn, "K": 1.5, "V": np.diag([1.0, -0.5])}, {"K": turn}):
        for normalization in (tkf.PostLN(), tkf.PreLN()):
            flow = tkf.Flow(tkf.Softmax(beta, **parts), normalization)
            for points in (None, x):
                ours = tkf.velocity(flow, mu, points, summation=point_by_point(1.6 * abs(beta)))
                assert np.max(abs(ours - tkf.velocity(flow, mu, points, summation="dense"))) < 1e-13


def test_a_token_that_is_no_number_spoils_its_sums_alone_not_the_process():
    x = directions(100, 2).at[7, 0].set(jnp.nan)
    assert np.all(np.isnan(fast(point_by_point(4.0), 4.0 * x, x, x, jnp.full(100, 0.01)).total[7]))


def in_a_batch(summation, betas):
    """Velocities of four measures, and a gradient of theirs."""
    x, w = jnp.stack([directions(150, 2, seed) for seed in range(4)]), jnp.full(150, 1 / 150)
    field = lambda x, beta: tkf.velocity(tkf.sa(beta), tkf.Tokens.unchecked(x, w), summation=summation)
    slope = jax.grad(lambda x, beta: jnp.sum(jnp.sin(field(x, beta))))
    return jax.vmap(field)(x, betas), jax.vmap(slope)(x, betas)


@pytest.mark.parametrize("beyond", [1.0, 40.0])
def test_in_a_batch(beyond):
    """Traced β below the bound of the summation, or one of them far above, for which all members are summed densely."""
    betas = jnp.array([1.0, 3.0, 9.0, beyond])
    ours, dense = in_a_batch(point_by_point(10.0), betas), in_a_batch(Dense(), betas)
    for one, other in zip(ours, dense, strict=True):
        assert np.max(abs(one - other)) < 1e-13 * (1 + np.max(abs(other)))


def test_a_batch_chooses_once():
    """Both choices of the guard stay choices under vmap, where one that differed among members would become a selection between
    branches that are all computed."""
    x, w = jnp.stack([directions(2000, 2, seed) for seed in range(3)]), jnp.full(2000, 1 / 2000)
    sums = jax.vmap(lambda x: point_by_point(9.0).exponential(9.0 * x, x, x, w).total)
    assert str(jax.make_jaxpr(sums)(x)).count("cond[") == 2


def test_vmap_over_starts_is_summed_fast():
    x, w = jnp.stack([directions(1500, 2, seed) for seed in range(2)]), jnp.full(1500, 1 / 1500)
    chosen = []

    def field(x):
        mu = tkf.Tokens.unchecked(x, w)
        chosen.append(tkf.sa(9.0).summation(mu, None, None, 1e-9))
        return tkf.velocity(tkf.sa(9.0), mu)

    ours = jax.vmap(field)(x)
    assert isinstance(chosen[0], Circle) and chosen[0].direct
    for k in range(2):
        assert np.max(abs(ours[k] - tkf.velocity(tkf.sa(9.0), tkf.Tokens(x[k]), summation="dense"))) < 1e-13


@pytest.mark.parametrize("beta", fast_first([1.0, 9.0, 100.0], "100.0"))
def test_transforms_are_exact_to_rounding(beta):
    """Without the guard: the error is a share of all mass, and that share is at most what the guard counts with."""
    for kind, d in ((Circle, 2), (Sphere, 3)):
        x, w = directions(2000, d), jnp.full(2000, 1 / 2000)
        summation = kind(beta)
        precision, δ = summation.errors(summation.modes, x.dtype)
        ours, mass, _ = unguarded(summation, beta * x, x, x, w, None, precision)
        dense = fast(Dense(), beta * x, x, x, w)
        lift = jnp.exp(dense.shift - ours.shift)
        error = max(
            np.max(abs(ours.total - dense.total * lift)), np.max(abs(ours.weighted - dense.weighted * lift[:, None]))
        )
        assert error < δ * float(mass)


@pytest.mark.parametrize("d", fast_first([1, 2, 3], "2"))
def test_sums_in_space(d):
    """A symmetric positive definite A; a bias that makes it L2 attention, where nothing outshines anything."""
    rng = np.random.default_rng(d)
    x, y = (jnp.asarray(0.7 * rng.normal(size=(n, d))) for n in (200, 300))
    w = jnp.asarray(rng.dirichlet(np.ones(300)))
    M = rng.normal(size=(d, d))
    A = M @ M.T / d + np.eye(d)
    values, vectors = np.linalg.eigh(A)
    summation = Euclidean((vectors * np.sqrt(values)) @ vectors.T, 20.0, d, tolerance=1e-7)
    for bias in (None, -0.5 * jnp.sum((y @ A.T) * y, axis=1)):
        same_sums(fast(summation, x @ A.T, y, y, w, bias=bias), fast(Dense(), x @ A.T, y, y, w, bias=bias), 1e-7)
    far = 10 * y  # beyond the series: dense, not wrong
    same_sums(fast(summation, x @ A.T, far, y, w), fast(Dense(), x @ A.T, far, y, w), 1e-12)


def lonely_beside_a_cluster(n, d, seed=0):
    rng = np.random.default_rng(seed)
    cluster = np.eye(d)[0] + 1e-3 * rng.normal(size=(n, d))
    x = np.concatenate([cluster, rng.normal(size=(60, d))])
    return jnp.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


def guarded_error(kind, d, beta, n, tolerance):
    """The largest error of a velocity among some of the cluster and all who are lonely; with and without the guard."""
    x = lonely_beside_a_cluster(n, d)
    w, summation = jnp.full(n + 60, 1 / (n + 60)), kind(beta, tolerance)
    rows = jnp.concatenate([jnp.arange(0, n, n // 50), jnp.arange(n, n + 60)])
    exact = fast(Dense(), beta * x[rows], x, x, w).average
    across = lambda a: a - jnp.sum(a * x[rows], axis=1, keepdims=True) * x[rows]
    guarded = fast(summation, beta * x, x, x, w).average[rows]
    bare = unguarded(summation, beta * x, x, x, w, None, 1e-14)[0].average[rows]
    return [float(np.max(abs(across(found - exact)))) for found in (guarded, bare)]


@pytest.mark.parametrize("beta", fast_first([9.0, 100.0, 1000.0], "100.0"))
def test_a_million_beside_sixty(beta):
    """Lonely tokens see 1e-6 of all mass; the guard sums their rows densely."""
    guarded, _ = guarded_error(Circle, 2, beta, 10**6, 1e-9)
    assert guarded < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("beta", fast_first([9.0, 100.0, 1000.0], "100.0"))
def test_a_million_beside_sixty_on_the_sphere(beta):
    guarded, _ = guarded_error(Sphere, 3, beta, 10**6, 1e-9)
    assert guarded < 1e-9


@pytest.mark.parametrize(("kind", "d"), [pytest.param(Circle, 2, marks=pytest.mark.slow), (Sphere, 3)])
def test_the_guard_is_needed(kind, d):
    """At a tolerance that transforms alone miss for lonely tokens, guarded rows meet it."""
    guarded, bare = guarded_error(kind, d, 100.0, 20_000, 2e-13)
    assert guarded < 2e-13 < bare


def ducc_circle(θ, beta):
    """ẋ on the circle from ducc0's transforms: imaginary over real part of one series."""
    k = np.arange(-80, 81)
    common = dict(coord=θ[:, None], epsilon=1e-13, nthreads=1, periodicity=2 * np.pi, fft_order=False)
    c = ducc0.nufft.nu2u(points=np.ones(len(θ), complex), forward=True, out=np.zeros(161, complex), **common)
    r = ducc0.nufft.u2nu(grid=c * sp.ive(abs(k), beta) * (1 - k / beta), forward=False, **common)
    return r.imag / r.real


def ducc_sphere(x, beta, degree=60):
    """∇ log of the kernel sum over β, from ducc0's spherical harmonics at scattered points."""
    l = np.concatenate([np.arange(m, degree + 1) for m in range(degree + 1)])
    factor = 4 * np.pi * np.sqrt(np.pi / (2 * beta)) * sp.ive(np.arange(degree + 1) + 0.5, beta)
    θ, φ = np.arctan2(np.hypot(x[:, 0], x[:, 1]), x[:, 2]), np.arctan2(x[:, 1], x[:, 0]) % (2 * np.pi)
    common = dict(lmax=degree, loc=np.stack([θ, φ], 1), epsilon=1e-13, nthreads=1)
    alm = ducc0.sht.adjoint_synthesis_general(map=np.ones((1, len(x))), spin=0, **common) * factor[l]
    total = ducc0.sht.synthesis_general(alm=alm, spin=0, **common)[0]
    g = ducc0.sht.synthesis_general(alm=alm * np.sqrt(l * (l + 1.0)), spin=1, mode="GRAD_ONLY", **common)
    e_θ = np.stack([np.cos(θ) * np.cos(φ), np.cos(θ) * np.sin(φ), -np.sin(θ)], 1)
    e_φ = np.stack([-np.sin(φ), np.cos(φ), 0 * φ], 1)
    return (g[0][:, None] * e_θ + g[1][:, None] * e_φ) / (beta * total[:, None])


def test_another_library_agrees():
    for d, other in ((2, None), (3, ducc_sphere)):
        mu = tkf.Tokens.uniform_sphere(3000, d, seed=4)
        x = np.asarray(mu.x)
        if other is None:
            speed = ducc_circle(np.arctan2(x[:, 1], x[:, 0]), 9.0)
            theirs = speed[:, None] * np.stack([-x[:, 1], x[:, 0]], axis=1)
        else:
            theirs = other(x, 9.0)
        ours = tkf.velocity(tkf.sa(9.0), mu, summation="circle" if d == 2 else "sphere")
        assert np.max(abs(ours - theirs)) < 1e-12


R = np.array([[np.cos(0.7), -np.sin(0.7)], [np.sin(0.7), np.cos(0.7)]])
FLOWS = {
    "usa": tkf.usa(9.0),
    "rotated": tkf.sa(4.0, Q=R, K=2.0, V=[[0.0, 1.0], [-1.0, 0.3]]),
    "l2 and heads": tkf.Flow(tkf.MultiHead([tkf.L2(3.0), tkf.Softmax(-2.0, V=-1.0), tkf.MeanShift(5.0)]), tkf.PreLN()),
    "reweighted": tkf.Flow(tkf.Unnormalized(2.0), tkf.NGPT(), reweighting=tkf.FisherRao(1.0)),
}


@pytest.mark.parametrize("name", FLOWS)
def test_every_exponential_kernel_on_the_circle(name):
    flow, mu = FLOWS[name], tkf.Tokens.uniform_sphere(400, 2, seed=5)
    fast, dense = (tkf.velocity(flow, mu, summation=how) for how in ("circle", "dense"))
    assert np.max(abs(fast - dense)) < 1e-11 * max(1.0, float(np.max(abs(dense))))
    points = directions(7, 2, seed=6)
    fast, dense = (tkf.velocity(flow, mu, points, summation=how) for how in ("circle", "dense"))
    assert np.max(abs(fast - dense)) < 1e-11 * max(1.0, float(np.max(abs(dense))))


@pytest.mark.parametrize(("kind", "d"), [pytest.param(Circle, 2, marks=pytest.mark.slow), (Sphere, 3)])
def test_derivatives(kind, d):
    """In tokens and in β, backward and forward."""
    x, w = directions(120, d, 3), jnp.full(120, 1 / 120)
    targets = jnp.asarray(np.random.default_rng(2).normal(size=(120, d)))

    def score(summation):
        return lambda x, beta: jnp.sum(targets * summation.exponential(beta * x, x, x, w).average)

    ours, dense = (jax.jit(jax.grad(score(s), argnums=(0, 1)))(x, 9.0) for s in (kind(12.0), Dense()))
    across = lambda g: g - jnp.sum(g * x, axis=1, keepdims=True) * x  # off the sphere the two mean different things
    assert np.max(abs(across(ours[0] - dense[0]))) < 1e-10
    assert abs(ours[1] - dense[1]) < 1e-10
    turn = lambda s: jax.jit(lambda b: jax.jvp(lambda b: score(s)(x, b), (b,), (1.0,))[1])(9.0)
    assert abs(turn(kind(12.0)) - turn(Dense())) < 1e-10


@pytest.mark.slow
def test_inside_one_differentiable_solve():
    mu = tkf.Tokens.uniform_sphere(60, 2, seed=1)
    end = lambda how: lambda beta: tkf.evolve(tkf.sa(beta), mu, t=1.0, save=2, summation=how).x[-1, 0, 0]
    ours, dense = (jax.jit(jax.value_and_grad(end(how)))(4.0) for how in (Circle(5.0), "dense"))
    assert abs(ours[0] - dense[0]) < 1e-9 and abs(ours[1] - dense[1]) < 1e-8


def request(n=50_000, d=2, beta=9.0, unit=True, tolerance=1e-7, **more):
    Q = beta * np.eye(d)
    return Request(
        n=n, d=d, queries=n, tolerance=tolerance, dtype=jnp.float64, scores=[(Q, np.eye(d))], unit=unit, **more
    )


def test_choice_by_size_dimension_kernel_and_tolerance():
    assert isinstance(choose(None, request()), Circle)
    assert isinstance(choose(None, request(d=3)), Sphere)
    assert isinstance(choose(None, request(n=100)), Dense)
    assert isinstance(choose(None, request(n=500, d=3)), Dense)
    assert isinstance(choose(None, request(d=4)), Dense)
    assert isinstance(choose(None, request(unit=False)), Dense)
    assert isinstance(choose(None, request(tolerance=1e-14)), Dense)
    assert isinstance(choose(None, request(d=3, beta=1e5)), Dense)
    points = np.random.default_rng(0).normal(size=(50_000, 2))
    assert isinstance(choose(None, request(beta=0.5, unit=False, points=points)), Euclidean)
    assert isinstance(choose(None, request(beta=0.5, unit=False, points=100 * points)), Dense)
    assert isinstance(choose("dense", request()), Dense)


def test_neighbouring_temperatures_share_a_program():
    assert len({coarse(float(modes)) for modes in range(50, 501)}) < 32
    assert all(modes <= coarse(float(modes)) <= 1.15 * modes + 4 for modes in range(1, 2000))


@pytest.mark.parametrize(
    ("flow", "mu", "name", "why"),
    [
        (tkf.sa(1.0), tkf.Tokens.uniform_sphere(9, 3), "circle", "unit vectors"),
        (tkf.sa(1.0, Q=[[1.0, 0.0], [0.0, 2.0]]), tkf.Tokens.uniform_sphere(9, 2), "circle", "multiples of rotations"),
        (
            tkf.Flow(tkf.ReLU(), tkf.PostLN()),
            tkf.Tokens.uniform_sphere(9, 2),
            "circle",
            "exponentials of inner products",
        ),
        (tkf.sa(lambda t: 1.0 + t), tkf.Tokens.uniform_sphere(9, 2), "circle", "do not change"),
        (tkf.sa(1e6), tkf.Tokens.uniform_sphere(9, 3), "sphere", "degrees"),
        (tkf.Flow(tkf.Softmax(1.0, V=-1.0)), tkf.Tokens.gaussian(9, 4), "euclidean", "d ≤ 3"),
        (tkf.sa(1.0, kappa=2.0), tkf.Tokens.uniform_sphere(3, 9), "span", "noise"),
        (tkf.sa(1.0), tkf.Tokens.uniform_sphere(9, 2), "spin", "Unknown summation"),
    ],
)
def test_refusals(flow, mu, name, why):
    with pytest.raises(InputError, match=why):
        tkf.evolve(flow, mu, t=1.0, summation=name)


def test_runs_tell_their_sums_and_what_they_reached():
    mu = tkf.Tokens.uniform_sphere(300, 2, seed=0)
    run, dense = (tkf.evolve(tkf.sa(20.0), mu, t=1.0, save=3, summation=how) for how in ("circle", "dense"))
    modes = coarse(1 + reach(20.0, 2, 1e-12))  # a tolerance of 1e-7 for every row, and rows that see 1e-5 of all mass
    assert f"circle sums with {modes} modes" in repr(run) and "dense sums" in repr(dense)
    assert run.provenance.accuracy < 1e-12 and "agree with dense sums in float64" in repr(run)
    assert dense.provenance.accuracy is None
    assert np.max(abs(run.x - dense.x)) < 1e-11


def test_span():
    """Fewer tokens than dimensions: the same run, in fewer numbers; and whatever would leave the span does not use it."""
    mu = tkf.Tokens.uniform_sphere(6, 40, seed=0)
    flow = tkf.Flow(tkf.Causal(tkf.Softmax(4.0)), tkf.PreLN())
    run, dense = (tkf.evolve(flow, mu, t=2.0, save=3, summation=how) for how in (None, "dense"))
    assert run.provenance.summation == "span" and dense.provenance.summation == "dense"
    assert np.max(abs(run.x - dense.x)) < 1e-12
    V = np.eye(40)
    for flow in (
        tkf.sa(4.0, V=V),
        tkf.Flow(tkf.Causal(tkf.Softmax(), rotary=5.0)),
        tkf.Flow(tkf.Softmax(), mlp=tkf.MLP()),
    ):
        assert not flow.rotates


def test_float32_end_to_end():
    x = np.asarray(tkf.Tokens.uniform_sphere(300, 2, seed=0).x, np.float32)
    for how in ("dense", "circle"):
        run = tkf.evolve(tkf.sa(9.0), tkf.Tokens(x), t=2.0, save=3, summation=how)
        assert run.x.dtype == jnp.float32 and run.times.dtype == jnp.float32
        assert 1e-9 < run.provenance.accuracy < 2e-6 and "float32" in repr(run)


def test_energy_by_fast_sums():
    mu = tkf.Tokens.uniform_sphere(3000, 2, seed=2)
    exact = fast(Dense(), 20.0 * mu.x, mu.x, mu.x, mu.w)
    expected = float(jnp.sum(mu.w * exact.total * jnp.exp(exact.shift - 20.0))) / 40
    assert abs(float(tkf.observe.energy(mu, 20.0, scaled=True)) / expected - 1) < 1e-12


SCORES = {
    "repelling": {"beta": -5.0},
    "no temperature": {"beta": 0.0},
    "keys of another length": {"beta": 3.0, "K": 2.0},
    "queries turned": {"beta": 5.0, "Q": "turn"},
    "keys turned": {"beta": 5.0, "K": "turn", "V": "values"},
}


@pytest.mark.parametrize("scores", fast_first(SCORES, "no temperature", "keys turned"))
@pytest.mark.parametrize("d", [2, 3])
def test_values_that_are_tokens(scores, d):
    """Weights alone are transformed, whatever stands between queries, keys and values; whole fields, and tangents alone."""
    turn, _ = np.linalg.qr(np.random.default_rng(d).normal(size=(d, d)))
    matrices = {"turn": 1.5 * turn, "values": np.diag([1.0, -0.5, 2.0][:d])}
    parts = {name: matrices.get(value, value) for name, value in SCORES[scores].items()}  # pyright: ignore[reportArgumentType, reportCallIssue]
    mu = tkf.Tokens(directions(400, d), np.random.default_rng(1).dirichlet(np.ones(400)))
    for normalization in (tkf.PostLN(), tkf.PreLN()):
        flow, name = tkf.Flow(tkf.Softmax(**parts), normalization), {2: "circle", 3: "sphere"}[d]
        for x in (None, directions(50, d, 9)):
            ours, dense = (np.asarray(tkf.velocity(flow, mu, x, summation=how)) for how in (name, "dense"))
            assert np.max(abs(ours - dense)) < 1e-13


@pytest.mark.parametrize(("kind", "d"), [(Circle, 2), (Sphere, 3)])
def test_beyond_their_bound_sums_are_dense(kind, d):
    """A traced β may exceed what the modes were counted for: the sums are then slow, not wrong."""
    x, w = directions(200, d), jnp.full(200, 1 / 200)
    same_sums(fast(kind(4.0), 400.0 * x, x, x, w), fast(Dense(), 400.0 * x, x, x, w), 1e-12)


@pytest.mark.parametrize("d", [2, 3])
def test_modes_are_as_many_as_the_precision_needs(d):
    """The tail of the series, by SciPy: below a tenth of the precision, and above it with one degree less."""
    for β in (0.5, 9.0, 300.0):
        l = np.arange(400)
        terms = (
            np.where(l == 0, 1, 2) * sp.ive(l, β)
            if d == 2
            else (2 * l + 1) * np.sqrt(np.pi / 2 / β) * sp.ive(l + 0.5, β)
        )
        degree = reach(β, d, 1e-11)
        assert terms[degree + 1 :].sum() < 1e-12 < terms[degree:].sum()
        assert β <= bound(degree, d, 1e-11) and reach(bound(degree, d, 1e-11), d, 1e-11) == degree


def test_angles_to_rounding():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 10_000)) * 10.0 ** rng.uniform(-200, 100, size=10_000)
    x[:8], y[:8] = [0, 0, 1, -1, 0, 1, -1, -0.0], [0, 1, 0, 0, -1, 1, -1, 0.0]
    found = np.asarray(arctan2(jnp.asarray(y), jnp.asarray(x)))
    assert (
        np.max(abs(found[:7] - np.arctan2(y, x)[:7])) < 4e-16 and np.max(abs(found[8:] - np.arctan2(y, x)[8:])) < 1e-15
    )
    slope = jax.grad(arctan2, argnums=(0, 1))(jnp.asarray(0.6), jnp.asarray(-0.8))
    np.testing.assert_allclose(slope, (-0.8, -0.6), atol=1e-15)
