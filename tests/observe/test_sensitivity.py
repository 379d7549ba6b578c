"""Local Lipschitz constants against dense Jacobians, closed forms, and the faults that are easily made."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield import observe
from tokenfield.errors import InputError
from tokenfield.observe import sensitivity
from tokenfield.observe.sensitivity import largest

N, D = 7, 3


def matrix(rng):
    return rng.normal(size=(D, D))


def two_heads(rng):
    return tkf.MultiHead([tkf.Softmax(1.0, A=matrix(rng), V=matrix(rng)) for _ in range(2)])


KINDS = {
    "softmax": lambda rng: tkf.Softmax(rng.uniform(0, 4), A=matrix(rng), V=matrix(rng)),
    "unnormalized": lambda rng: tkf.Unnormalized(0.3, Q=matrix(rng), K=matrix(rng)),
    "L2": lambda rng: tkf.L2(0.5, Q=matrix(rng), K=matrix(rng)),
    "Sinkhorn": lambda rng: tkf.Sinkhorn(0.5, Q=matrix(rng)),
    "sigmoid": lambda rng: tkf.Sigmoid(1.0, A=matrix(rng)),
    "linear": lambda rng: tkf.Linear(1.0, A=matrix(rng)),
    "ReLU": lambda rng: tkf.ReLU(1.0, A=matrix(rng)),
    "hardmax": lambda rng: tkf.Hardmax(A=matrix(rng), V=matrix(rng)),
    "additive": lambda rng: tkf.Additive(W=matrix(rng), U=matrix(rng), v=rng.normal(size=D)),
    "Krause": lambda rng: tkf.Krause(rng.dirichlet(np.ones(N), N)),
    "mean shift": lambda rng: tkf.MeanShift(rng.uniform(0.5, 2)),
    "two heads": two_heads,
    "causal": lambda rng: tkf.Causal(tkf.Softmax(2.0, A=matrix(rng)), window=0.5, alibi=1.0),
    "causal, two heads": lambda rng: tkf.Causal(two_heads(rng)),
}


@jax.jit
def jacobian(attention, mu):
    of = jax.jacfwd(lambda x: attention.field(mu.with_points(x), None, tkf.Dense()))(mu.x)
    return of.reshape(-1, mu.x.size)


def tokens(rng, n=N, d=D):
    w = rng.uniform(0.5, 2, n)
    return tkf.Tokens(rng.normal(size=(n, d)), w / w.sum())


@pytest.mark.parametrize("name", KINDS)
def test_against_a_dense_singular_value_decomposition(name):
    """Four random problems of every kind: the value, and that the vectors are singular vectors."""
    rng = np.random.default_rng(len(name))
    for _ in range(4):
        attention, mu = KINDS[name](rng), tokens(rng)
        J = np.asarray(jacobian(attention, mu))
        found = observe.lipschitz(attention, mu, full=True)
        top = np.linalg.svd(J, compute_uv=False)[0]
        assert float(found.value) == pytest.approx(top, rel=1e-6)
        assert np.linalg.norm(found.right) == pytest.approx(1) == np.linalg.norm(found.left)
        assert np.allclose(J @ np.ravel(found.right), float(found.value) * np.ravel(found.left), atol=1e-9 * top)
        assert float(found.residual) <= 2e-6


def test_the_weighted_norm():
    """√w J /√w, where tokens weigh differently."""
    rng = np.random.default_rng(1)
    attention, mu = KINDS["softmax"](rng), tokens(rng)
    root = np.repeat(np.sqrt(np.asarray(mu.w)), D)
    dense = np.linalg.norm(root[:, None] * np.asarray(jacobian(attention, mu)) / root, 2)
    assert float(observe.lipschitz(attention, mu, weighted=True)) == pytest.approx(dense, rel=1e-6)
    assert abs(dense - float(observe.lipschitz(attention, mu))) > 1e-3


def test_the_value_is_not_taken_for_the_derivative():
    """Γ(x) = V·mean: its values grow with the tokens, its derivative does not. A script that takes the function's value for
    its product with the Jacobian finds other numbers in both places."""
    mu = tkf.Tokens(np.random.default_rng(2).normal(size=(6, 2)))
    V = np.array([[2.0, 1.0], [0.0, 3.0]])
    norms = [
        float(observe.lipschitz(tkf.Softmax(0.0, V=V), mu.with_points(size * mu.x + shift)))
        for size, shift in ((1.0, 0.0), (50.0, 0.0), (1.0, 100.0))
    ]
    assert norms == pytest.approx([np.linalg.norm(V, 2)] * 3, rel=1e-6)


def map_of(J):
    forward = lambda v: (J @ v.ravel())[:, None]
    backward = lambda u: (J.T @ u.ravel())[:, None]
    return forward, backward, jnp.zeros((J.shape[1], 1))


def with_singular_values(values, n=120):
    rng = np.random.default_rng(3)
    Q, R = (np.linalg.qr(rng.normal(size=(n, n)))[0] for _ in range(2))
    return jnp.asarray((Q * values) @ R)


def test_a_search_does_not_stop_early():
    """A tiny gap below the largest value, and many values crowded there: fifty power iterations stop at a wrong number,
    which no longer changes much; here the number is right and the residual says so."""
    n = 120
    values = np.append(1 + 1e-2 * np.linspace(0, 1, n - 1) ** 2, 1.0102)
    J = with_singular_values(values)
    v = jax.random.normal(jax.random.key(0), (n,))
    for _ in range(50):
        last, v = v, J.T @ (J @ (v / jnp.linalg.norm(v)))
    estimate = jnp.sqrt(jnp.linalg.norm(v))
    change = abs(jnp.sqrt(jnp.linalg.norm(last)) - estimate)
    assert change < 1e-4 and abs(estimate - 1.0102) > 1e-3, "the fault is there to be made"
    found = jax.jit(lambda J: largest(*map_of(J), jnp.asarray(2e-6)))(J)
    assert float(found.value) == pytest.approx(1.0102, rel=1e-6) and float(found.residual) <= 2e-6


@pytest.mark.parametrize(
    "values",
    [
        np.ones(120),
        np.append(np.ones(119), 1 + 1e-7),
        np.append(np.zeros(119), 3.0),
        np.zeros(120),
        np.repeat([1.0, 2.0], 60),
        10.0 ** -np.arange(120),
        1e200 * np.linspace(1, 2, 120),
        1e-200 * np.linspace(1, 2, 120),
    ],
    ids=["rotation", "cluster", "rank one", "nothing", "two values", "falling", "huge", "tiny"],
)
def test_awkward_spectra(values):
    found = SEARCH(with_singular_values(values))
    assert float(found.value) == pytest.approx(values.max(), rel=1e-6)


SEARCH = jax.jit(lambda J: largest(*map_of(J), jnp.asarray(2e-6)))


def test_one_token_and_no_derivative():
    assert float(observe.lipschitz(tkf.Softmax(5.0), tkf.Tokens([[1.0, 2.0]]))) == pytest.approx(1.0, rel=1e-9)
    assert float(observe.lipschitz(tkf.Softmax(5.0, V=0.0), tkf.Tokens([[1.0, 2.0]]))) == 0.0
    assert float(observe.lipschitz(tkf.Hardmax(), tkf.Tokens([[1.0]]))) == 0.0


def test_of_runs_and_batches_and_under_vmap():
    """One value per saved time; members with fewer tokens as if alone; a batch at once as one after another."""
    attention = tkf.Softmax(2.0)
    starts = [tkf.Tokens.uniform_sphere(n=n, d=3, seed=n) for n in (4, 6)]
    runs = tkf.evolve(tkf.sa(2.0), starts, t=2.0, save=3)
    found = observe.lipschitz(attention, runs)
    assert found.shape == (2, 3)
    alone = np.linalg.norm(np.asarray(jacobian(attention, runs.member(0)[2])), 2)
    assert float(found[0, 2]) == pytest.approx(alone, rel=1e-6)
    full = observe.lipschitz(attention, runs.member(1), full=True)
    assert full.right.shape == (3, 6, 3) and np.allclose(full.value, found[1], rtol=1e-6)
    several = jax.vmap(lambda x: observe.lipschitz(attention, tkf.Tokens(x)))(runs.member(1).x)
    assert np.allclose(several, found[1], rtol=1e-6)


def test_single_precision():
    mu = tkf.Tokens(np.random.default_rng(5).normal(size=(N, D)).astype(np.float32))
    attention = tkf.Softmax(1.0)
    found = observe.lipschitz(attention, mu)
    wide = np.linalg.norm(np.asarray(jacobian(attention, tkf.Tokens(np.asarray(mu.x, float)))), 2)
    assert found.dtype == jnp.float32 and float(found) == pytest.approx(wide, rel=1e-4)


@pytest.mark.slow
def test_fast_sums_have_the_same_derivatives():
    """Sums in O(n) on the line beside dense ones: all changes of tokens count, also those off the sphere."""
    mu = tkf.Tokens.uniform_sphere(n=3000, d=2, seed=0)
    attention = tkf.Softmax(3.0)
    fast = float(observe.lipschitz(attention, mu))
    dense = jax.jit(lambda x: observe.lipschitz(attention, tkf.Tokens(x)))(mu.x)
    assert not sensitivity._sums(attention, mu).exact
    assert fast == pytest.approx(float(dense), rel=1e-6)


def test_a_layer_of_usual_size_takes_few_products():
    rng = np.random.default_rng(0)
    Q, K, V = (rng.normal(size=(64, 64)) / 8 for _ in range(3))
    mu = tkf.Tokens(rng.normal(size=(1024, 64)))
    found = observe.lipschitz(tkf.Softmax(1 / 8, Q=Q, K=K, V=V), mu, full=True)
    assert int(found.products) < 60 and float(found.residual) <= 2e-6


# Flows.

PLANE = tkf.Tokens(np.random.default_rng(6).normal(size=(5, 2)))


def test_the_map_of_a_flow_against_differences():
    """Differences of runs, column by column."""
    flow, mu = tkf.sa(2.0), tkf.Tokens.uniform_sphere(n=4, d=2, seed=0)
    run = lambda x: tkf.evolve(flow, tkf.Tokens(x), t=1.0, save=2, rtol=1e-11).final.x
    x, h = np.asarray(mu.x), 1e-5
    steps = h * np.eye(8).reshape(8, 4, 2)
    J = np.stack([(np.asarray(run(x + s)) - np.asarray(run(x - s))).ravel() / (2 * h) for s in steps], axis=1)
    found = observe.flow_lipschitz(flow, mu, t=1.0, full=True)
    assert float(found.value) == pytest.approx(np.linalg.norm(J, 2), rel=1e-6)
    assert abs(np.sum(np.asarray(found.right) * x, axis=1)).max() < 1e-6, "along their radius tokens change nothing"


@pytest.mark.slow  # the example of the docstring is the quick variant
def test_the_map_of_a_linear_flow():
    """ẋ_i = V·mean: the mean grows by e^{tV}, differences stay. So D = I + 11ᵀ/n ⊗ (e^{tV} - I)."""
    V = np.array([[0.5, 1.0], [0.0, -0.3]])
    growth = np.array([[np.exp(0.5), (np.exp(0.5) - np.exp(-0.3)) / 0.8], [0.0, np.exp(-0.3)]])
    flow = tkf.Flow(tkf.Softmax(0.0, V=V), tkf.Free())
    exact = max(1.0, np.linalg.norm(growth, 2))
    assert float(observe.flow_lipschitz(flow, PLANE, t=1.0)) == pytest.approx(exact, rel=1e-6)
    assert float(observe.flow_lipschitz(flow, PLANE, t=(2.0, 3.0))) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: observe.lipschitz(tkf.sa(1.0), tkf.Tokens(np.eye(2))), "`attention` must be one"),
        (lambda: observe.lipschitz(tkf.Softmax(), tkf.Gaussian([0.0], [[1.0]])), "not one of a Gaussian"),
        (lambda: observe.lipschitz(tkf.Softmax(A=np.eye(3)), tkf.Tokens(np.eye(2))), "`A`"),
        (lambda: observe.lipschitz(tkf.Softmax(), tkf.Tokens(np.eye(2)), tolerance=0.5), "at most 0.1"),
        (lambda: observe.lipschitz(tkf.Unnormalized(800.0), tkf.Tokens(np.eye(2))), "leaves the range"),
        (lambda: observe.flow_lipschitz(tkf.sa(1.0, kappa=2.0), tkf.Tokens(np.eye(2)), 1.0), "without noise"),
        (lambda: observe.flow_lipschitz(tkf.sa(1.0), tkf.Tokens(np.eye(2)), (2.0, 1.0)), "must end after t = 2"),
        (
            lambda: observe.flow_lipschitz(tkf.Flow(tkf.Softmax(0.0, V=np.eye(2)), tkf.Free()), PLANE, 1e5),
            "reach t, but one from here ended as (BLOW_UP|MAX_STEPS|STALLED)",
        ),
    ],
)
def test_what_has_no_constant_is_refused(ask, sentence):
    with pytest.raises(InputError, match=sentence):
        ask()


def test_a_search_that_is_given_up_is_refused(monkeypatch):
    monkeypatch.setattr(sensitivity, "ROUNDS", 2)
    with pytest.raises(InputError, match=r"not found to a residual of 2\.0e-06 in 4 products"):
        observe.lipschitz(tkf.Softmax(1.5), tkf.Tokens(np.random.default_rng(7).normal(size=(N + 1, D))))
