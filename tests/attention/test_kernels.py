"""Γ_μ(x) against its definition, and the sums behind it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tests import naive

rng = np.random.default_rng(3)
X, Y = rng.normal(size=(40, 3)), rng.normal(size=(7, 3))
W = rng.uniform(0.2, 2, 40)
W /= W.sum()
Q, K, V = rng.normal(size=(2, 3)), rng.normal(size=(2, 3)), rng.normal(size=(3, 3))
MU = tkf.Tokens(X, W)


@pytest.mark.parametrize("beta", [-1.0, 0.0, 0.5, 3.0])
def test_the_formula_at_any_point(beta):
    kernel = np.exp(beta * (Y @ Q.T) @ (X @ K.T).T) * W
    assert np.allclose(tkf.Unnormalized(beta, Q=Q, K=K, V=V)(MU, Y), kernel @ X @ V.T, rtol=1e-11)
    assert np.allclose(tkf.Unnormalized(beta, A=K.T @ Q, V=V)(MU, Y), kernel @ X @ V.T, rtol=1e-11)
    softmax = kernel / kernel.sum(1, keepdims=True)
    assert np.allclose(tkf.Softmax(beta, Q=Q, K=K, V=V)(MU, Y), softmax @ X @ V.T, rtol=1e-11)
    assert np.allclose(tkf.Softmax(beta, Q=Q, K=K, V=V)(MU, Y[0]), (softmax @ X @ V.T)[0], rtol=1e-11)
    assert np.allclose(tkf.Softmax(beta)(MU), naive.field(X, W, beta, *[np.eye(3)] * 3, softmax=True), rtol=1e-11)


def test_a_number_is_a_multiple_of_the_identity():
    a, b = tkf.Softmax(2.0, Q=3.0, V=-1.0), tkf.Softmax(2.0, Q=3 * np.eye(3), V=-np.eye(3))
    assert np.allclose(a(MU, Y), b(MU, Y), rtol=1e-14)


@pytest.mark.parametrize("kind", [tkf.Softmax, tkf.Unnormalized])
def test_the_matrix_makes_the_field(kind):
    attention = kind(0.7, Q=Q, K=K, V=V)
    P = attention.matrix(MU, jnp.asarray(Y))
    assert np.allclose(P @ X @ V.T, attention(MU, Y), rtol=1e-12)
    if kind is tkf.Softmax:
        assert np.allclose(P.sum(1), 1, rtol=1e-14)


@pytest.mark.parametrize("beta", [1e2, 1e4])
def test_large_beta_is_finite_and_right(beta):
    sphere = tkf.Tokens.uniform_sphere(n=60, d=3, seed=1)
    field = tkf.Softmax(beta)(sphere)
    assert np.all(np.isfinite(field))
    gram = np.array(sphere.gram)
    gap = np.sort(gram, axis=1)[:, -1] - np.sort(gram, axis=1)[:, -2]
    alone = beta * gap > 40  # only the token itself is left
    assert (beta < 1e3 or alone.sum() > 5) and np.allclose(field[alone], sphere.x[alone], atol=1e-15)
    far = np.array([-1.0, 0.0, 0.0])  # a query that no token is near: nothing underflows
    assert np.all(np.isfinite(tkf.Softmax(beta)(tkf.Tokens([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0]]), far)))
    assert np.allclose(tkf.Softmax(beta)(tkf.Tokens([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0]]), far), [0.8, 0.6, 0.0])


@pytest.mark.parametrize("sizes", [(512, 2048), (16, 16), (7, 5), (1, 1), (100, 3)])
@pytest.mark.parametrize("n", [1, 40])
def test_blocks_do_not_change_sums(sizes, n):
    q, k, v, w = (
        5 * rng.normal(size=(23, 3)),
        5 * rng.normal(size=(n, 3)),
        rng.normal(size=(n, 2)),
        rng.uniform(1, 2, n),
    )
    sums = tkf.Dense(*sizes).exponential(*map(jnp.asarray, (q, k, v, w)))
    kernel = np.exp(q @ k.T) * w
    assert np.allclose(np.exp(sums.shift) * sums.total, kernel.sum(1), rtol=1e-12)
    assert np.allclose(np.exp(sums.shift)[:, None] * sums.weighted, kernel @ v, rtol=1e-11)


def test_blocks_of_very_unequal_scores():
    """A key block of hopeless scores before one of good ones, and after."""
    k = np.concatenate([np.full((4, 1), -500.0), np.full((4, 1), 500.0), np.full((4, 1), -500.0)])
    sums = tkf.Dense(2, 4).exponential(jnp.ones((3, 1)), jnp.asarray(k), jnp.asarray(k), jnp.ones(12))
    assert np.allclose(sums.average, 500) and np.allclose(sums.shift, 500) and np.allclose(sums.total, 4)


def test_memory_stays_far_below_n_squared():
    n = 20_000
    shapes = [jax.ShapeDtypeStruct(s, float) for s in ((n, 3), (n, 3), (n, 3), (n,))]
    compiled = jax.jit(lambda *a: tkf.Dense().exponential(*a)).lower(*shapes).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 100e6 < 8 * n**2 / 10


def test_backward_pass_keeps_no_pairs_either():
    n = 8192
    shapes = [jax.ShapeDtypeStruct(s, float) for s in ((n, 3), (n, 3), (n, 3), (n,))]
    loss = lambda *a: jnp.sum(tkf.Dense().exponential(*a).average)
    compiled = jax.jit(jax.grad(loss)).lower(*shapes).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 150e6 < 8 * n**2 / 3


def test_velocity_of_one_point_and_many():
    mu = tkf.Tokens.uniform_sphere(20, 3, seed=0)
    v = tkf.velocity(tkf.sa(4.0), mu)
    assert np.allclose(tkf.velocity(tkf.sa(4.0), mu, mu.x[3]), v[3], atol=1e-15)
    assert np.max(abs(np.sum(v * mu.x, axis=1))) < 1e-15, "tangent to the sphere"
    assert np.allclose(tkf.velocity(tkf.sa(4.0), mu.with_points(5 * mu.x)), v, atol=1e-14), (
        "a start off the sphere is normalized"
    )
    free = tkf.Flow(tkf.Softmax(4.0))
    assert np.allclose(tkf.velocity(free, mu), tkf.Softmax(4.0)(mu), atol=1e-15)
