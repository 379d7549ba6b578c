"""Sinkhorn's equations: by every solver and sum, beside plain iterations of numpy in another order of operations."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import tokenfield as tkf
from tests import fast_first
from tokenfield.attention import kernels
from tokenfield.attention.balancing import Outcome
from tokenfield.attention.base import as_dtype
from tokenfield.summation import Circle, Dense, Euclidean, Sphere

rng = np.random.default_rng(5)


def on_sphere(n, d, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def coupling(scores, w, rounds):
    """k(x_i, y_j) w_j by alternating normalization in the log domain, rows last."""
    g = np.zeros(len(w))
    for _ in range(rounds):
        f = -logsumexp(scores + g, axis=1, b=w)
        g = -logsumexp(scores.T + f, axis=1, b=w)
    f = -logsumexp(scores + g, axis=1, b=w)
    return np.exp(f[:, None] + scores + g) * w


def marginals(scores, w, log_g):
    """The largest error of a column, rows exact."""
    log_f = -logsumexp(scores + log_g, axis=1, b=w)
    return np.max(abs(np.expm1(logsumexp(scores.T + log_f, axis=1, b=w) + log_g)))


@pytest.mark.parametrize("case", fast_first([(64, 1000), (2, 1000), (8, 100), (64, 10)], "(64, 1000)"))
def test_random_matrices_at_large_beta(case):
    n, (d, beta) = 500, case
    Q, K = np.random.default_rng(1).normal(size=(2, d, d))
    mu = tkf.Tokens(on_sphere(n, d))
    found = eqx.filter_jit(lambda a, mu: a.potentials(mu))(tkf.Sinkhorn(beta, Q=Q, K=K), mu)
    assert int(found.outcome) == Outcome.SOLVED and int(found.rounds) < 200
    x, scale = np.asarray(mu.x), np.max(abs(found.log_g))
    error = marginals(beta * (x @ Q.T) @ (x @ K.T).T, np.asarray(mu.w), np.asarray(found.log_g))
    assert error < 1e-10 + 20 * np.finfo(float).eps * scale, "scores summed in another order are rounded differently"


@pytest.mark.parametrize("matrices", ["identity", "random"])
def test_field_is_that_of_plain_iterations(matrices):
    n, d, w = 40, 3, rng.uniform(1, 3, 40)
    mu, V = tkf.Tokens(rng.normal(size=(n, d)), w / w.sum()), rng.normal(size=(d, d))
    Q, K = (None, None) if matrices == "identity" else 0.7 * rng.normal(size=(2, d, d))
    x = np.asarray(mu.x)
    scores = 1.5 * x @ x.T if Q is None else 1.5 * (x @ Q.T) @ (x @ K.T).T
    exact = coupling(scores, np.asarray(mu.w), 2000) @ x @ V.T
    assert np.max(abs(tkf.Sinkhorn(1.5, Q=Q, K=K, V=V)(mu) - exact)) < 1e-9


def test_scores_of_thousands_from_nothing():
    """Tokens of any weight on a long line: the first potentials are off by hundreds, where exponentials overflow."""
    y = np.linspace(-6.0, 6.0, 201)
    w = np.exp(-(y**2))
    mu = tkf.Tokens(y[:, None], w / w.sum())
    found = tkf.Sinkhorn(200.0).potentials(mu)
    assert int(found.outcome) == Outcome.SOLVED and int(found.rounds) < 40
    assert marginals(200.0 * y[:, None] * y, np.asarray(mu.w), np.asarray(found.log_g)) < 1e-9


SPACES = {
    "circle": (2, True, Circle(9.0, 1e-11)),
    "sphere": (3, True, Sphere(9.0, 1e-11)),
    "plane": (2, False, Euclidean(np.diag([1.2, 0.8]), 12.0, 2, 1e-11)),
}


@pytest.mark.parametrize("space", fast_first(list(SPACES), "circle"))
def test_fast_sums_solve_the_same_equations(space):
    d, unit, sums = SPACES[space]
    x = on_sphere(300, d) if unit else np.random.default_rng(0).normal(size=(300, d))
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    attention = tkf.Sinkhorn(9.0, Q=turn) if unit else tkf.Sinkhorn(A=np.diag([1.44, 0.64]))
    mu = tkf.Tokens(x)
    assert np.max(abs(attention(mu, summation=sums) - attention(mu, summation="dense"))) < 1e-9


@pytest.mark.slow
def test_large_ones_are_summed_fast_and_as_accurately_as_asked():
    mu = tkf.Tokens.uniform_sphere(6000, 2, seed=0)
    attention = tkf.Sinkhorn(4.0)
    assert attention.asks(1e-6) == attention.tolerance
    angles = np.arctan2(*np.asarray(mu.x).T[::-1])
    log_g = np.asarray(attention.potentials(mu, Circle(4.0, attention.tolerance)).log_g)
    rows = slice(0, 6000, 300)
    f = -np.log(np.mean(np.exp(4 * np.cos(angles[:, None] - angles) + log_g), axis=1))
    columns = np.mean(np.exp(4 * np.cos(angles[rows, None] - angles) + f), axis=1) * np.exp(log_g[rows])
    assert np.max(abs(columns - 1)) < 1e-10


def test_kept_and_summed_kernels_agree(monkeypatch):
    mu, attention = tkf.Tokens(on_sphere(60, 3)), tkf.Sinkhorn(20.0, Q=rng.normal(size=(3, 3)))
    kept = attention.potentials(mu)
    monkeypatch.setattr(kernels, "KEPT", 0)
    summed = attention.potentials(mu)
    assert int(summed.outcome) == Outcome.SOLVED
    assert np.max(abs((kept.log_g - kept.log_g[0]) - (summed.log_g - summed.log_g[0]))) < 1e-8


def loss(x, beta, Q, matrices, iterate):
    """A number that depends on everything, through the fixed point or through 400 plain rounds."""
    mu = tkf.Tokens.unchecked(x, jnp.full(len(x), 1 / len(x)))
    attention = tkf.Sinkhorn(beta, Q=Q if matrices else None)
    values = jnp.cos(jnp.arange(x.size)).reshape(x.shape)
    if not iterate:
        return jnp.sum(values * attention.field(mu, None, Dense()))
    s, w = attention.queries(mu, None) @ attention.keys(mu).T, mu.w

    def plain(g, _):
        f = -jax.scipy.special.logsumexp(s + g, axis=1, b=w)
        return -jax.scipy.special.logsumexp(s.T + f, axis=1, b=w), None

    g = jax.lax.scan(plain, jnp.zeros(len(x)), length=400)[0]
    P = jax.nn.softmax(s + g + jnp.log(w), axis=1)
    return jnp.sum(values * (P @ x))


GRADIENTS = [("random", "kept"), ("random", "summed"), ("identity", "kept"), ("identity", "summed")]


@pytest.mark.parametrize("case", fast_first(GRADIENTS, "random kept", name=" ".join))
def test_gradients_are_those_of_the_fixed_point(case, monkeypatch):
    matrices = case[0] == "random"
    if case[1] == "summed":
        monkeypatch.setattr(kernels, "KEPT", 0)
    x, Q, beta = (
        jnp.asarray(on_sphere(12, 3)),
        jnp.asarray(np.random.default_rng(2).normal(size=(3, 3))),
        jnp.array(1.3),
    )
    of = lambda iterate: lambda x, beta: loss(x, beta, Q, matrices, iterate)
    unrolled = jax.grad(of(True), argnums=(0, 1))(x, beta)
    implicit = jax.jit(jax.grad(of(False), argnums=(0, 1)))(x, beta)
    for one, other in zip(implicit, unrolled, strict=True):
        assert np.max(abs(one - other)) < 1e-8
    ahead = jax.jvp(lambda beta: of(False)(x, beta), (beta,), (jnp.ones(()),))[1]
    assert abs(ahead - unrolled[1]) < 1e-8


def test_in_a_batch():
    x = jnp.stack([jnp.asarray(on_sphere(16, 3, seed)) for seed in range(3)])
    attention = tkf.Sinkhorn(5.0, Q=np.diag([2.0, 1.0, -1.0]))
    solve = lambda x: attention.potentials(tkf.Tokens.unchecked(x, jnp.full(16, 1 / 16)))
    together = jax.vmap(solve)(x)
    for k in range(3):
        alone = solve(x[k])
        assert np.max(abs(together.log_g[k] - alone.log_g)) < 1e-9 and int(together.rounds[k]) == int(alone.rounds)


def test_tokens_without_weight_take_no_part():
    x, w = on_sphere(10, 3), np.full(10, 1 / 7)
    w[7:] = 0.0
    attention = tkf.Sinkhorn(3.0, Q=rng.normal(size=(3, 3)))
    some = attention.potentials(tkf.Tokens.unchecked(jnp.asarray(x[:7]), jnp.asarray(w[:7])))
    every = attention.potentials(tkf.Tokens.unchecked(jnp.asarray(x), jnp.asarray(w)))
    assert np.all(np.isfinite(every.log_g))
    assert np.max(abs((every.log_g[:7] - every.log_g[0]) - (some.log_g - some.log_g[0]))) < 1e-9
    slope = jax.grad(lambda x: jnp.sum(attention.field(tkf.Tokens.unchecked(x, jnp.asarray(w)), None, Dense())[0]))
    assert np.all(np.isfinite(slope(jnp.asarray(x))))


def test_what_cannot_be_solved_says_why():
    mu, Q = tkf.Tokens(on_sphere(60, 8)), rng.normal(size=(8, 8))
    with pytest.raises(tkf.errors.InputError, match=r"after 3 rounds .* Give it more rounds"):
        tkf.Sinkhorn(50.0, Q=Q, iterations=3)(mu)
    single = tkf.Tokens(np.asarray(mu.x, np.float32))
    with pytest.raises(tkf.errors.InputError, match="more do not help: potentials as large as"):
        tkf.Sinkhorn(3e4, Q=Q)(single)
    found = as_dtype(tkf.Sinkhorn(3e4, Q=Q), np.float32).potentials(single)
    assert np.all(np.isfinite(found.log_g)) and int(found.rounds) < 1000
