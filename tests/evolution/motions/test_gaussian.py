"""Gaussians: the affine field against quadrature, the covariance's course against closed forms, tokens and SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tokenfield as tkf
from tests import fast_first
from tokenfield import theory
from tokenfield.errors import InputError

RNG = np.random.default_rng(3)
A = np.array([[0.3, 0.2], [-0.4, 0.25]])
V = np.array([[0.7, -0.2], [0.1, 0.5]])
MEAN, COV = np.array([0.3, -0.5]), np.array([[0.9, 0.3], [0.3, 0.5]])
POINTS = RNG.normal(size=(4, 2))
MU = tkf.Gaussian(MEAN, COV)


def hermite(order, mean=MEAN, cov=COV):
    """Nodes and weights of N(m, Σ)."""
    t, w = np.polynomial.hermite_e.hermegauss(order)
    grid = np.stack(np.meshgrid(t, t, indexing="ij"), axis=-1).reshape(-1, 2)
    return mean + grid @ np.linalg.cholesky(cov).T, np.outer(w, w).ravel() / w.sum() ** 2


KERNELS = {
    "softmax": (tkf.Softmax(1.2, A=A, V=V), lambda x, y: np.exp(1.2 * y @ A @ x), True),
    "l2": (
        tkf.L2(0.4, Q=A, K=np.eye(2) + A.T, V=V),
        lambda x, y: np.exp(-0.4 * np.sum((A @ x - y @ (np.eye(2) + A.T).T) ** 2, axis=1)),
        True,
    ),
    "linear": (tkf.Linear(0.8, A=A, V=V), lambda x, y: 0.8 * y @ A @ x, False),
}


@pytest.mark.parametrize("kind", KERNELS)
def test_the_field_against_quadrature_of_the_attention_map(kind):
    attention, kernel, normalized = KERNELS[kind]
    y, w = hermite(64)
    for x in POINTS:
        k = kernel(x, y) * w
        exact = V @ (k @ y) / (k.sum() if normalized else 1)
        assert np.max(abs(np.asarray(attention(MU, x)) - exact)) < 1e-10


def test_sinkhorn_against_a_converged_discrete_one():
    y, w = hermite(36)
    y, w = y[w > 1e-22], w[w > 1e-22] / w[w > 1e-22].sum()
    beta = 0.7
    K = np.exp(beta * y @ A @ y.T).T  # K[i, j] = e^{s(x_i, y_j)}
    f = g = np.ones(len(w))
    for _ in range(300):
        f = 1 / (K @ (g * w))
        new = 1 / (K.T @ (f * w))
        change, g = np.max(abs(new / g - 1)), new
        if change < 1e-14:
            break
    assert change < 1e-12
    attention = tkf.Sinkhorn(beta, A=A, V=V)
    for x in POINTS:
        k = np.exp(beta * y @ A @ x) * g * w
        assert np.max(abs(np.asarray(attention(MU, x)) - V @ (k @ y) / k.sum())) < 1e-8


def test_heads_add_and_concatenate():
    one, two = tkf.Softmax(A=A, V=V), tkf.L2(0.3, V=V)
    assert np.allclose(tkf.MultiHead([one, two])(MU, POINTS), one(MU, POINTS) + two(MU, POINTS), atol=1e-14)
    W = RNG.normal(size=(2, 4))
    both = np.concatenate([one(MU, POINTS), two(MU, POINTS)], axis=1)
    assert np.allclose(tkf.MultiHead([one, two], output=W)(MU, POINTS), both @ W.T, atol=1e-13)


def rhs(kind, p, y, t=0.0):
    """(ṁ, Σ̇) of section 5's formulas in plain numpy, β and schedules included."""
    m, S = y[:2], y[2:].reshape(2, 2)
    V_, A_ = p["V"](t) if callable(p["V"]) else p["V"], p["beta"] * A
    if kind == "softmax":
        B, b = V_ @ S @ A_, V_ @ m
    elif kind == "linear":
        B, b = V_ @ (S + np.outer(m, m)) @ A_, np.zeros(2)
    else:
        values, vectors = np.linalg.eigh(S)
        H = vectors @ np.diag(np.sqrt(values)) @ vectors.T
        U, s, W = np.linalg.svd(H @ A_.T @ H)
        C = H @ U @ np.diag((np.sqrt(1 + 4 * s**2) - 1) / (2 * s)) @ W @ H
        G = C.T @ np.linalg.inv(S)
        B, b = V_ @ G, V_ @ (m - G @ m)
    return np.concatenate([B @ m + b, (B @ S + S @ B.T).ravel()])


@pytest.mark.parametrize("kind", ["softmax", "linear", "sinkhorn"])
def test_runs_against_scipy(kind):
    beta, t = 0.8, 0.7
    make = {"softmax": tkf.Softmax, "linear": tkf.Linear, "sinkhorn": tkf.Sinkhorn}[kind]
    run = tkf.evolve(tkf.Flow(make(beta, A=A, V=V)), MU, t=t, save=3)
    exact = solve_ivp(
        lambda _, y: rhs(kind, {"V": V, "beta": beta}, y),
        (0, t),
        np.concatenate([MEAN, COV.ravel()]),
        method="DOP853",
        rtol=1e-12,
        atol=1e-13,
    ).y[:, -1]
    assert np.allclose(np.asarray(run.mean[-1]), exact[:2], atol=1e-8)
    assert np.allclose(np.asarray(run.cov[-1]), exact[2:].reshape(2, 2), atol=1e-8)


@pytest.mark.parametrize("kappa", [None, 3.0])
@pytest.mark.parametrize("kind", fast_first(["softmax", "linear", "sinkhorn", "l2"], "softmax"))
def test_runs_in_float32(kind, kappa):
    """With matrices and without, with noise and without: those of float64, to float32."""
    make = {"softmax": tkf.Softmax, "linear": tkf.Linear, "sinkhorn": tkf.Sinkhorn, "l2": tkf.L2}[kind]
    single = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), MU)
    for attention in (make(0.8, V=V), make(0.8)):
        ours, exact = (tkf.evolve(tkf.Flow(attention, kappa=kappa), mu, t=0.3, save=2) for mu in (single, MU))
        assert ours.cov.dtype == jnp.float32 and ours.status is exact.status is tkf.Status.COMPLETED
        assert np.max(abs(ours.cov - exact.cov)) < 2e-5


def test_parameters_that_change_with_depth():
    schedule = lambda t: jnp.asarray(V) * jnp.cos(t)
    run = tkf.evolve(tkf.Flow(tkf.Softmax(0.8, A=A, V=schedule)), MU, t=1.0, save=2)
    p = {"V": lambda t: V * np.cos(t), "beta": 0.8}
    start = np.concatenate([MEAN, COV.ravel()])
    exact = solve_ivp(lambda t, y: rhs("softmax", p, y, t), (0, 1), start, method="DOP853", rtol=1e-12, atol=1e-13)
    assert np.allclose(np.asarray(run.cov[-1]).ravel(), exact.y[2:, -1], atol=1e-8)


@pytest.mark.slow
def test_tokens_approach_it_at_the_monte_carlo_rate():
    """Linear attention costs O(n), so that 10⁵ tokens are moved whole."""
    flow = tkf.Flow(tkf.Linear(0.8, A=A, V=V))
    exact = np.asarray(tkf.evolve(flow, MU, t=0.7, save=1).cov[-1])
    moved = lambda mu: np.cov(np.asarray(tkf.evolve(flow, mu, t=0.7, save=1, rtol=1e-4).final.x).T)
    assert_monte_carlo_rate(lambda mu: moved(mu) - exact)


def test_attention_on_tokens_approaches_that_on_their_gaussian():
    """Softmax attention at a few points, at the Monte Carlo rate."""
    attention = tkf.Softmax(1.0, A=A, V=V)
    gamma = np.asarray(attention(MU, POINTS))
    assert_monte_carlo_rate(lambda mu: np.asarray(attention(mu, POINTS)) - gamma)


def assert_monte_carlo_rate(error):
    """Of 10³ and of 10⁵ samples: the error falls as n^{-1/2}."""
    size = lambda n: np.sqrt(np.mean([np.linalg.norm(error(MU.sample(n, seed))) ** 2 for seed in range(4)]))
    few, many = size(1000), size(100_000)
    assert abs(np.log10(many / few) / 2 + 0.5) < 0.2 and many < 0.02, (few, many)


@pytest.mark.parametrize("top", [0.5, 0.0, -0.3])
def test_the_closed_form_and_its_blow_up(top):
    """V = I, Σ₀ = (Σ₀⁻¹ - tM)⁻¹ with λ_max(M) = 2·top: blow-up, a limit of rank 1, and a limit of rank 0."""
    turn = np.linalg.qr(np.array([[1.0, 0.3], [-0.7, 2.0]]))[0]
    S = turn @ np.diag([top, -0.8]) @ turn.T + np.array([[0, 0.3], [-0.3, 0]])
    flow = tkf.Flow(tkf.Softmax(A=S))
    start = tkf.Gaussian(np.zeros(2), COV)
    form = theory.closed_form(flow, start)
    run = tkf.evolve(flow, start, t=8.0, save=9)
    for t, cov in zip(np.asarray(run.times), np.asarray(run.cov), strict=True):
        if t < 0.99 * form.blow_up_time:
            exact = np.linalg.inv(np.linalg.inv(COV) - t * (S + S.T))
            assert np.allclose(cov, exact, rtol=1e-7) and np.allclose(form(t), exact, rtol=1e-11)
    if top > 0:
        assert run.status is tkf.Status.BLOW_UP and abs(float(run.reached) / form.blow_up_time - 1) < 1e-6
        assert form.limit is None and form.limit_rank is None
        scaled = theory.closed_form(flow, tkf.Gaussian(np.zeros(2), 3 * np.eye(2)))
        assert abs(scaled.blow_up_time - 1 / (3 * np.linalg.eigvalsh(S + S.T)[-1])) < 1e-12
    else:
        assert run.status.ok and form.blow_up_time == np.inf and form.limit_rank == (1 if top == 0 else 0)
        assert np.allclose(form(1e12), form.limit, atol=1e-9)


def test_symmetric_and_positive_to_round_off_and_rank_is_kept():
    rng = np.random.default_rng(8)
    u = rng.normal(size=(5, 2))
    start = tkf.Gaussian(rng.normal(size=5), u @ u.T)
    big = rng.normal(size=(5, 5))
    for attention in (tkf.Softmax(0.02, A=big), tkf.Sinkhorn(0.3, A=big), tkf.L2(0.3, Q=big)):
        run = tkf.evolve(tkf.Flow(attention), start, t=1.0, save=5)
        cov = np.asarray(run.cov)
        assert np.array_equal(cov, np.swapaxes(cov, 1, 2))
        assert np.linalg.eigvalsh(cov).min() > -1e-14 * abs(cov).max()
        assert np.asarray(run.states.rank()).tolist() == [2] * 5


def test_rank_one_is_preserved_until_it_blows_up():
    flow = tkf.Flow(tkf.Softmax(A=np.eye(3)))
    run = tkf.evolve(flow, tkf.Gaussian(np.zeros(3), np.outer([1.0, 2, 2], [1.0, 2, 2]) / 9), t=1.0, save=6)
    assert np.asarray(run.states.rank()).tolist() == [1] * len(run)
    assert run.status is tkf.Status.BLOW_UP and abs(float(run.reached) - 0.5) < 1e-6
    assert "blows up near t = 0.5" in run.message


E11, E22, J = np.diag([1.0, 0]), np.diag([0, 1.0]), np.array([[0, 1.0], [-1, 0]])
COMPETING = [tkf.Softmax(A=E22, V=-E11), tkf.Softmax(A=E11, V=-E22)]
FATES = {
    "to zero": tkf.Softmax(A=-np.eye(2) + 0.5 * J, V=np.array([[1.0, 0.3], [0.3, 0.6]])),
    "to a line": tkf.Softmax(A=-E11),
    "to a plane": tkf.MultiHead(COMPETING),
    "to two lines": tkf.MultiHead([*COMPETING, tkf.Softmax(A=J, V=0.5 * J)]),
}


@pytest.mark.parametrize("fate", fast_first(FATES, *(set(FATES) - {"to two lines", "to a plane"})))
def test_fates_in_the_cone(fate):
    """Where covariances of trace 1 end, as points (a-b, 2c, a+b) of the cone."""
    angles = np.linspace(0.2, 6.0, 6)
    starts = [
        0.5 * np.array([[1 + 0.7 * np.cos(θ), 0.7 * np.sin(θ)], [0.7 * np.sin(θ), 1 - 0.7 * np.cos(θ)]]) for θ in angles
    ]
    end = lambda cov: tkf.evolve(tkf.Flow(FATES[fate]), tkf.Gaussian(np.zeros(2), cov), t=1e5, save=1).cone[-1]
    x, y, z = np.asarray(jax.jit(jax.vmap(end))(jnp.asarray(starts))).T
    if fate == "to zero":
        assert np.max(z) < 1e-4
    elif fate == "to a line":  # the ray of e₂e₂ᵀ
        assert np.min(z) > 0.1 and np.max(np.hypot(x + z, y)) < 1e-4
    elif fate == "to a plane":  # c = 0, on which det Σ and a - b keep their values
        assert np.max(abs(y)) < 1e-6 and np.min(z - abs(x)) > 0.1
        assert np.allclose(z**2 - x**2, [4 * np.linalg.det(cov) for cov in starts], atol=1e-6)
    else:  # the two rays of e₁e₁ᵀ and e₂e₂ᵀ, both reached
        assert np.max(z - abs(x)) < 1e-4 and np.max(abs(y)) < 1e-2 and min(np.sum(x > 0.05), np.sum(x < -0.05)) >= 2


TURN = np.linalg.qr(np.array([[1.0, 0.3], [-0.7, 2.0]]))[0]


@pytest.mark.parametrize("solver", ["tsit5", "kvaerno5"])
@pytest.mark.parametrize("rtol", [1e-9, 1e-6])
def test_what_round_off_adds_up_to(solver, rtol):
    """Where nothing restores a state, the round-off of the field, some 1e-16, moves it for all the time: by no more than εt, which
    no tolerance can mend. Σ = (Σ₀⁻¹ + 2t uuᵀ)⁻¹ keeps its part across u; to t = 10⁹, in coordinates where no entry is 0."""
    S, t = -np.outer(TURN[:, 0], TURN[:, 0]), np.array([1e3, 1e6, 1e9])
    run = tkf.evolve(
        tkf.Flow(tkf.Softmax(A=S)), tkf.Gaussian(np.zeros(2), COV), t=1e9, save=t, rtol=rtol, solver=solver
    )
    exact = np.stack([np.linalg.inv(np.linalg.inv(COV) - s * (S + S.T)) for s in t])
    errors = np.max(abs(np.asarray(run.cov) - exact), axis=(1, 2))
    assert run.status.ok and np.all(errors < 10 * rtol + np.finfo(float).eps * t), errors


def test_l2_does_not_blow_up():
    run = tkf.evolve(tkf.Flow(tkf.L2()), tkf.Gaussian(np.zeros(2), 5 * np.eye(2)), t=20.0, save=2)
    assert run.status.ok


def test_normalized_by_the_trace():
    """The flow of Σ/tr Σ: unit trace for ever where the free flow blows up, and that flow's direction at the start."""
    run = tkf.evolve(tkf.Flow(tkf.Softmax(A=A + np.eye(2)), tkf.TraceNorm()), MU, t=30.0, save=5)
    assert run.status.ok and np.allclose(np.asarray(run.trace), 1, atol=1e-12)
    start = MU.normalized
    dot = rhs("softmax", {"V": np.eye(2), "beta": 1.0}, np.concatenate([start.mean, np.ravel(start.cov)]))
    free = tkf.evolve(tkf.Flow(tkf.Softmax(A=A), tkf.TraceNorm()), MU, t=1e-4, save=2)
    Σ̇ = dot[2:].reshape(2, 2)
    expected = Σ̇ - np.trace(Σ̇) * np.asarray(start.cov)
    assert np.allclose((np.asarray(free.cov[-1]) - np.asarray(start.cov)) / 1e-4, expected, atol=1e-3)


def test_rescaled_coordinates():
    flow = lambda scheme: tkf.Flow(tkf.Softmax(0.3, A=A, V=0.5), scheme)
    free, moving = (tkf.evolve(flow(s), MU, t=1.0, save=1).final for s in (tkf.Free(), tkf.Rescaled()))
    assert np.allclose(free.cov, np.e * moving.cov, rtol=1e-7)


def test_noise_widens():
    """Without interaction Σ(t) = Σ₀ + 2t/κ, from a point too; with V = -1 in linear attention the width settles."""
    run = tkf.evolve(tkf.Flow(tkf.Softmax(0.0), kappa=4.0), tkf.Gaussian([0.0], [[0.0]]), t=3.0, save=2)
    assert np.allclose(run.cov[-1], 1.5)
    still = tkf.evolve(tkf.Flow(tkf.Linear(V=-1.0), kappa=2.0), tkf.Gaussian([0.0], [[0.3]]), t=40.0, save=2)
    assert np.allclose(still.cov[-1], np.sqrt(0.5), atol=1e-7)  # -2Σ² + 2/κ = 0


@pytest.mark.slow
def test_gradients_where_eigenvalues_coincide():
    def size(c):
        mu = tkf.Gaussian(jnp.zeros(2), c * jnp.eye(2))
        return tkf.evolve(tkf.Flow(tkf.Sinkhorn(0.5)), mu, t=0.5, save=1, rtol=1e-9).trace[-1]

    grad = jax.jit(jax.grad(size))(1.0)
    assert np.isfinite(grad) and abs(grad - (size(1.0 + 1e-5) - size(1.0 - 1e-5)) / 2e-5) < 1e-4


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tkf.Gaussian([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]]), "must be symmetric"),
        (lambda: tkf.Gaussian([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]]), "no negative eigenvalue"),
        (lambda: tkf.Gaussian([0.0, 0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]]), "shape \\(d, d\\) = \\(3, 3\\)"),
        (lambda: tkf.Gaussian([[0.0]], [[1.0]]), "shape \\(d,\\)"),
        (lambda: tkf.Gaussian([np.nan], [[1.0]]), "must be finite"),
        (lambda: tkf.evolve(tkf.Flow(tkf.ReLU()), MU, t=1.0), "does not keep Gaussians"),
        (lambda: tkf.evolve(tkf.Flow(tkf.Sigmoid()), MU, t=1.0), "does not keep Gaussians"),
        (lambda: tkf.evolve(tkf.Flow(tkf.Unnormalized()), MU, t=1.0), "does not keep Gaussians"),
        (lambda: tkf.evolve(tkf.Flow(tkf.Causal(tkf.Softmax())), MU, t=1.0), "does not keep Gaussians"),
        (lambda: tkf.evolve(tkf.sa(1.0), MU, t=1.0), "acts on directions"),
        (lambda: tkf.evolve(tkf.Flow(tkf.Softmax(), mlp=tkf.MLP()), MU, t=1.0), "an MLP"),
        (lambda: tkf.evolve(tkf.Flow(tkf.Softmax(A=np.eye(3))), MU, t=1.0), "shape \\(d, d\\)"),
        (
            lambda: tkf.evolve(tkf.Flow(tkf.Softmax(), tkf.TraceNorm()), tkf.Gaussian([0.0], [[0.0]]), t=1.0),
            "one point",
        ),
        (lambda: tkf.Gaussian(np.zeros(3), np.eye(3)).cone, "d = 2"),
        (lambda: theory.closed_form(tkf.Flow(tkf.Softmax(V=np.diag([1.0, 2.0]), A=A)), MU), "to commute"),
        (lambda: theory.closed_form(tkf.Flow(tkf.L2()), MU), "is known for"),
        (lambda: tkf.evolve(tkf.Flow(tkf.Softmax()), MU, t=1.0, step=0.1), "`step`"),
    ],
)
def test_refusals(make, words):
    with pytest.raises(InputError, match=words):
        make()
