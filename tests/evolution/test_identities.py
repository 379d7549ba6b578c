"""What the models have to do with each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.special import exp1

import tokenfield as tkf
from tests import naive
from tokenfield import observe

rng = np.random.default_rng(11)
SPHERE = tkf.Tokens.uniform_sphere(n=20, d=3, seed=2)
CLOUD = tkf.Tokens.gaussian(n=12, d=3, seed=3)
V = 0.4 * np.eye(3) + 0.3 * rng.normal(size=(3, 3))


def test_l2_on_the_sphere_is_softmax_at_twice_beta():
    assert np.allclose(tkf.L2(3.0)(SPHERE), tkf.Softmax(6.0)(SPHERE), atol=1e-13)


@pytest.mark.parametrize("beta", [0.5, 3.0, 20.0])
def test_sinkhorn_is_doubly_stochastic(beta):
    w = rng.uniform(1, 3, 20)
    mu = tkf.Tokens(SPHERE.x, w / w.sum())
    P = np.asarray(observe.attention_matrix(mu, tkf.Sinkhorn(beta, Q=naive.orthogonal(3, rng))))
    assert np.max(abs(P.sum(1) - 1)) < 1e-13
    assert np.max(abs(np.asarray(mu.w) @ P / mu.w - 1)) < 1e-10
    alike = tkf.Tokens(np.tile([0.6, 0.8, 0.0], (5, 1)))
    assert np.allclose(
        observe.attention_matrix(alike, tkf.Sinkhorn(beta)), observe.attention_matrix(alike, tkf.Softmax(beta))
    )


def test_sinkhorn_reports_its_own_iteration():
    easy, hard = tkf.Sinkhorn(2.0), tkf.Sinkhorn(60.0, Q=naive.orthogonal(3, rng), iterations=3)
    solved = easy.potentials(SPHERE)
    assert float(solved.error) < 1e-10 and 1 < int(solved.rounds) < 1000
    warm = easy.recall(solved).potentials(SPHERE)
    assert int(warm.rounds) < int(solved.rounds) / 3, "a memory saves rounds"
    with pytest.raises(tkf.errors.InputError, match="did not reach its own tolerance"):
        hard(SPHERE)
    run = tkf.evolve(tkf.Flow(hard, tkf.PostLN()), SPHERE, t=1.0)
    assert (
        run.status is tkf.Status.UNSOLVED
        and np.all(np.isfinite(run.x))
        and "did not reach its tolerance" in run.message
    )


def test_one_head_is_the_attention_itself():
    head = tkf.Softmax(2.0, Q=rng.normal(size=(2, 3)), K=rng.normal(size=(2, 3)), V=V)
    assert np.array_equal(tkf.MultiHead([head])(CLOUD), head(CLOUD))
    assert np.allclose(tkf.MultiHead([head], output=np.eye(3))(CLOUD), head(CLOUD))


def test_concatenated_heads_of_another_width():
    one, two = tkf.Softmax(2.0, V=rng.normal(size=(2, 3))), tkf.L2(1.0, V=rng.normal(size=(4, 3)))
    W = rng.normal(size=(3, 6))
    direct = np.concatenate([one(CLOUD), two(CLOUD)], axis=1) @ W.T
    assert np.allclose(tkf.MultiHead([one, two], output=W)(CLOUD), direct, atol=1e-13)
    assert observe.attention_matrix(CLOUD, tkf.MultiHead([one, two], output=W)).shape == (2, 12, 12)


def test_under_a_mask_the_first_feels_itself_and_the_last_feels_all():
    mu = tkf.Tokens(CLOUD.x, s=np.linspace(0, 1, 12)[::-1])
    masked, full = tkf.Causal(tkf.Softmax(2.0))(mu), tkf.Softmax(2.0)(mu)
    assert np.allclose(masked[-1], mu.x[-1]) and np.allclose(masked[0], full[0])
    window = tkf.Causal(tkf.Softmax(2.0), window=1 / 11 + 1e-9)
    two = observe.attention_matrix(tkf.Tokens(CLOUD.x), window)
    assert np.allclose(np.triu(two, 1), 0) and np.allclose(np.tril(two, -2), 0) and np.allclose(two.sum(1), 1)
    apart = tkf.Causal(tkf.Softmax(2.0))(tkf.Tokens(CLOUD.x), CLOUD.x[:2], s=[0.0, 1.0])
    assert np.allclose(apart[0], CLOUD.x[0]) and np.allclose(apart[1], tkf.Softmax(2.0)(CLOUD, CLOUD.x[1]))


def test_masks_over_many_blocks():
    """Blocks without a pair are passed over; the result is the same."""
    x = rng.normal(size=(90, 3))
    P = np.exp(2.0 * x @ x.T) * np.tri(90)
    P /= P.sum(1, keepdims=True)
    for sizes in ((512, 2048), (16, 8), (7, 100)):
        assert np.allclose(tkf.Causal(tkf.Softmax(2.0))(tkf.Tokens(x), summation=tkf.Dense(*sizes)), P @ x, atol=1e-12)


def test_alibi_and_rotary_scores():
    s, slope = np.linspace(0, 1, 12), 3.0
    x = np.asarray(CLOUD.x)
    scores = 2.0 * x @ x.T - slope * (s[:, None] - s)
    P = np.exp(scores) * np.tri(12)
    assert np.allclose(tkf.Causal(tkf.Softmax(2.0), alibi=slope)(CLOUD), P / P.sum(1, keepdims=True) @ x, atol=1e-12)
    P = np.exp(scores) * np.tri(12) / 12
    assert np.allclose(tkf.Causal(tkf.Unnormalized(2.0), alibi=slope)(CLOUD), P @ x, rtol=1e-11)
    plane = tkf.Tokens(x[:, :2])
    z = (x[:, 0] + 1j * x[:, 1]) * np.exp(1j * 12.0 * s)  # in the plane rotary scores are Re(z_i conj(z_j))
    P = np.exp(2.0 * np.real(z[:, None] * z.conj())) * np.tri(12)
    assert np.allclose(
        tkf.Causal(tkf.Softmax(2.0), rotary=12.0)(plane), P / P.sum(1, keepdims=True) @ x[:, :2], atol=1e-12
    )


def test_blurring_mean_shift_on_the_sphere_is_beta_times_sa():
    shift = tkf.velocity(tkf.mean_shift(5.0, sphere=True), SPHERE)
    assert np.allclose(shift, 5.0 * tkf.velocity(tkf.sa(5.0), SPHERE), atol=1e-13)


def test_mean_shift_climbs_the_density():
    data = rng.normal(size=(30, 2))
    log_density = lambda x: jax.nn.logsumexp(-2.0 * jnp.sum((x - data) ** 2, axis=1))
    mu = tkf.Tokens(rng.normal(size=(5, 2)))
    assert np.allclose(tkf.velocity(tkf.mean_shift(4.0, data), mu), jax.vmap(jax.grad(log_density))(mu.x), atol=1e-12)
    run = tkf.evolve(tkf.mean_shift(4.0, data), mu, t=20.0)
    assert np.max(abs(tkf.velocity(tkf.mean_shift(4.0, data), run.final))) < 1e-4


def test_krause_is_linear():
    P = rng.uniform(size=(6, 6))
    P /= P.sum(1, keepdims=True)
    x = rng.normal(size=(6, 2))
    run = tkf.evolve(tkf.krause(P), tkf.Tokens(x), t=2.0, rtol=1e-10)
    assert np.allclose(run.final.x, expm(2.0 * (P - np.eye(6))) @ x, atol=1e-9)


@pytest.mark.parametrize(
    "attention", [lambda: tkf.Softmax(1.0, V=V), lambda: tkf.L2(0.5, V=V), lambda: tkf.Causal(tkf.Softmax(1.0, V=0.7))]
)
def test_rescaled_is_the_free_flow_in_moving_coordinates(attention):
    t = 1.3
    free = tkf.evolve(tkf.Flow(attention(), tkf.Free()), CLOUD, t, save=2, rtol=1e-11).final.x
    z = tkf.evolve(tkf.Flow(attention(), tkf.Rescaled()), CLOUD, t, save=2, rtol=1e-11).final.x
    matrix = attention().V
    back = expm(-t * (np.asarray(matrix) if matrix.ndim else float(matrix) * np.eye(3)))
    assert np.max(abs(z - free @ back.T)) < 1e-8


@pytest.mark.slow
def test_rescaled_tokens_reach_a_polytope():
    """V = I, A = I: clusters at vertices, long after the free flow has left the range of numbers."""
    mu = tkf.Tokens.uniform_box(n=40, d=2, low=-5, high=5, seed=0)
    run = tkf.evolve(tkf.Flow(tkf.Softmax(1.0), tkf.Rescaled()), mu, t=20.0)
    assert run.status is tkf.Status.COMPLETED
    assert len(observe.clusters(run.final, distance=1e-2)) < 12


@pytest.mark.parametrize("rho", [0.0, 0.3])
@pytest.mark.parametrize(
    ("norm", "row"),
    [
        (tkf.PostLN(), lambda t, r, c, size: (1.0, 0.0)),
        (tkf.PreLN(), lambda t, r, c, size: (r, c)),
        (tkf.PeriLN(), lambda t, r, c, size: (r * size, c / size)),
        (tkf.MixLN(0.7), lambda t, r, c, size: (1.0, 0.0) if t <= 0.7 else (r, c)),
        (tkf.NGPT(0.5), lambda t, r, c, size: (size / 0.5, 0.0)),
        (tkf.SqrtScaling(), lambda t, r, c, size: (np.sqrt(t + 1), 0.0)),
    ],
    ids=["post", "pre", "peri", "mix", "ngpt", "sqrt"],
)
def test_equiangular_formulas(norm, row, rho):
    """ρ̇ = 2(b - ρc)/s with the b, c, |a| of equiangular tokens  [rigollet2025, section 6]."""
    n, beta, t_end = 6, 2.0, 2.0

    def rate(t, y):
        ρ, r = y
        e = np.exp(beta * (ρ - 1))
        Z = 1 + (n - 1) * e
        c, b = (1 + (n - 1) * e * ρ) / Z, (ρ + e * (1 + (n - 2) * ρ)) / Z
        size = np.sqrt(1 + (n - 1) * e**2 + 2 * (n - 1) * e * ρ + (n - 1) * (n - 2) * e**2 * ρ) / Z
        s, growth = row(t, r, c, size)
        return [2 * (b - ρ * c) / s, growth]

    y = [rho, 1.0]
    for a, b in ((0.0, 0.7), (np.nextafter(0.7, 1), t_end)):
        y = solve_ivp(rate, (a, b), y, method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
    run = tkf.evolve(tkf.Flow(tkf.Softmax(beta), norm), tkf.Tokens.equiangular(n, rho), t_end, save=2, rtol=1e-10)
    assert np.max(abs(observe.overlaps(run.final) - y[0])) < 1e-8
    assert np.max(abs(run.final.radii - y[1])) < 1e-8 and abs(y[0] - rho) > 0.05


@pytest.mark.slow
def test_mix_ln_switches_by_an_event():
    """The step control lands on τ: halving the tolerance does not reveal a kink that was stepped over."""
    flow = tkf.Flow(tkf.Softmax(3.0), tkf.MixLN(0.7))
    exact = tkf.evolve(flow, SPHERE, t=2.0, save=2, rtol=1e-12, solver="dopri8").final.x
    errors = [np.max(abs(tkf.evolve(flow, SPHERE, t=2.0, save=2, rtol=r).final.x - exact)) for r in (1e-4, 1e-6, 1e-8)]
    assert errors[0] < 1e-4 and errors[1] < 1e-6 and errors[2] < 1e-8
    by_hand = tkf.evolve(tkf.sa(3.0), SPHERE, t=0.7, save=2, rtol=1e-12, solver="dopri8").final
    by_hand = tkf.evolve(
        tkf.Flow(tkf.Softmax(3.0), tkf.PreLN()), by_hand, t=1.3, save=2, rtol=1e-12, solver="dopri8"
    ).final
    assert np.max(abs(by_hand.x - exact)) < 1e-9
    traced = jax.jit(
        lambda b: tkf.evolve(tkf.Flow(tkf.Softmax(b), tkf.MixLN(0.7)), SPHERE, t=2.0, save=2, rtol=1e-8).final.x
    )(3.0)
    assert np.max(abs(traced - exact)) < 1e-7


def test_hardmax_is_the_limit_of_softmax_without_self():
    x = np.asarray(SPHERE.x)
    scores = 1e8 * (x @ x.T - 2 * np.eye(20))
    P = np.exp(scores - scores.max(1, keepdims=True))
    assert np.allclose(tkf.Hardmax()(SPHERE), P / P.sum(1, keepdims=True) @ x, atol=1e-8)
    square = tkf.Tokens([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    assert np.allclose(tkf.Hardmax()(square), 0, atol=1e-15), "ties are shared"


def test_layer_norm_gain():
    g = np.array([1.0, 2.0, 0.5])
    a = tkf.Softmax(1.0)(tkf.Tokens(g * np.asarray(SPHERE.x) * np.sqrt(3)))
    v = a - np.sum(a * SPHERE.x, axis=1, keepdims=True) * SPHERE.x
    assert np.allclose(tkf.velocity(tkf.Flow(tkf.Softmax(1.0), tkf.PostLN(gain=g)), SPHERE), v, atol=1e-13)


@pytest.mark.parametrize(
    "attention",
    [
        tkf.Softmax(1.0, V=V),
        tkf.L2(1.0, V=V),
        tkf.Sinkhorn(1.0, V=V),
        tkf.Causal(tkf.Softmax(1.0, V=V)),
        tkf.Additive(V=V),
    ],
    ids=["softmax", "l2", "sinkhorn", "causal", "additive"],
)
def test_support_bound(attention):
    """supp μ(t) ⊂ B(0, R₀ exp(t‖V‖))  [castin2025]."""
    run = tkf.evolve(tkf.Flow(attention), CLOUD, t=2.0, save=9)
    bound = float(CLOUD.radii.max()) * np.exp(np.asarray(run.times) * np.linalg.norm(V, 2))
    assert np.all(np.asarray(run.states.radii).max(1) <= bound * (1 + 1e-6))


@pytest.mark.parametrize(
    ("attention", "exact"),
    [
        (tkf.Linear(1.0), 0.5 / 4.0),  # one token: ẋ = x³, blow-up at 1/(2x₀²)
        (tkf.ReLU(2.0), 0.25 / 4.0),
        (tkf.Unnormalized(0.5), 0.5 * exp1(2.0)),  # ẋ = e^{x²/2} x, blow-up at ½E₁(x₀²/2)
    ],
    ids=["linear", "relu", "usa"],
)
def test_blow_up_is_reported_with_its_time(attention, exact):
    run = tkf.evolve(tkf.Flow(attention), tkf.Tokens([[2.0]]), t=40.0, save=20_000, rtol=1e-9)
    assert run.status is tkf.Status.BLOW_UP and "blows up near" in run.message
    assert float(run.reached) == pytest.approx(exact, rel=1e-8)
    assert np.all(np.isfinite(run.x)) and len(run) > 10


def test_sigmoid_attention_is_global():
    """Its kernel is below 1, so that |x| ≤ R₀ e^{t‖V‖}: growth, even beyond the range of numbers, but no blow-up in time."""
    run = tkf.evolve(tkf.Flow(tkf.Sigmoid(5.0, V=V)), CLOUD, t=2.0, save=9)
    bound = float(CLOUD.radii.max()) * np.exp(np.asarray(run.times) * np.linalg.norm(V, 2))
    assert run.status is tkf.Status.COMPLETED and np.all(np.asarray(run.states.radii).max(1) <= bound * (1 + 1e-6))
    late = tkf.evolve(tkf.Flow(tkf.Sigmoid(1.0, V=3.0)), tkf.Tokens([[2.0]]), t=1000.0, save=2)
    assert late.status is tkf.Status.BLOW_UP and 200 < float(late.reached) < 250, (
        "e^{3t} leaves the numbers near t = 236"
    )


def test_fisher_rao_climbs_the_energy():
    """Along Wasserstein–Fisher–Rao: dE/dt = Σ w|v|² + λ Var(φ)·…; both parts push E up, and masses stay masses."""
    flow = tkf.Flow(tkf.Unnormalized(2.0), tkf.PostLN(), reweighting=tkf.FisherRao(3.0))
    run = tkf.evolve(flow, SPHERE, t=1.0, save=30, rtol=1e-9)
    assert np.all(run.states.w > 0) and np.max(abs(run.states.w.sum(1) - 1)) < 1e-13
    E = np.asarray(observe.energy(run, 2.0))
    assert np.all(np.diff(E) > 0) and float(jnp.std(run.final.w)) > 1e-3
    φ = lambda mu: np.exp(2.0 * mu.gram) @ mu.w / 2.0
    h = 1e-5
    soon = tkf.evolve(flow, SPHERE, t=h, save=2, rtol=1e-12).final
    rate = 3.0 * SPHERE.w * (φ(SPHERE) - SPHERE.w @ φ(SPHERE))
    assert np.allclose((soon.w - SPHERE.w) / h, rate, atol=1e-4 * np.max(abs(rate)) + 1e-9)
    without = tkf.evolve(tkf.usa(2.0), SPHERE, t=1.0, save=2).final
    assert float(observe.energy(run.final, 2.0)) > float(observe.energy(without, 2.0))
