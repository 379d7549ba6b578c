"""The dense sums: hardmax with and without ties, blocks by shape, and the memory that they take."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tokenfield.summation import Dense
from tokenfield.summation.dense import ENTRIES, TIE, WIDE

rng = np.random.default_rng(9)


def shared(q, k, v, w, alone):
    """Hardmax row by row, by its definition."""
    rows = []
    for i, scores in enumerate(q @ k.T):
        others = np.where(np.arange(len(k)) == i, -np.inf, scores) if alone else scores
        tied = others >= others.max() - TIE * max(1.0, abs(others.max()))
        rows.append((w * tied) @ v / (w * tied).sum())
    return np.array(rows)


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("ties", ["none", "few", "all"])
def test_hardmax(ties, alone):
    """More rows than a block has, of which none, a few, or all tie."""
    n = 1500
    q = rng.normal(size=(n, 3))
    k, v, w = q.copy(), rng.normal(size=(n, 4)), rng.random(n)
    if ties == "few":
        k[7] = k[900] = k[1200]
    if ties == "all":
        k[:] = [1.0, -2.0, 0.5]
    found = Dense().largest(*map(jnp.asarray, (q, k, v, w)), alone=alone)
    assert ENTRIES // n < n and np.allclose(found, shared(q, k, v, w, alone), rtol=1e-12, atol=1e-13)


def test_scores_that_nearly_tie():
    """A tie is relative to the largest score, and no closer than 1e-12."""
    k = jnp.asarray([[1.0], [1 - 0.5e-12], [1 - 3e-12]])
    value = jnp.eye(3)
    found = Dense().largest(jnp.asarray([[1.0], [1e3]]), k, value, jnp.ones(3), alone=False)
    assert np.allclose(found, [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]])


@pytest.mark.parametrize("twins", [False, True])
def test_gradients_of_hardmax_with_respect_to_values(twins):
    x, w, probe = rng.normal(size=(40, 3)), jnp.full(40, 1 / 40), rng.normal(size=(40, 3))
    if twins:
        x[5] = x[6]
    field = lambda v: jnp.sum(probe * Dense().largest(jnp.asarray(x), jnp.asarray(x), v, w, alone=True))
    weights = shared(x, x, np.eye(40), np.asarray(w), True)
    assert np.allclose(jax.grad(field)(jnp.asarray(x)), weights.T @ probe, atol=1e-13)


def test_hardmax_of_no_number_is_none():
    x = jnp.asarray(rng.normal(size=(8, 2))).at[3, 0].set(jnp.nan)
    assert np.all(np.isnan(Dense().largest(x, x, x, jnp.ones(8), alone=False)[3]))


@pytest.mark.parametrize("d", [2, WIDE])
@pytest.mark.parametrize("n", [70, 1100, 2100])
def test_blocks_of_any_size_give_the_same_sums(n, d):
    x, w = rng.normal(size=(n, d)) / d**0.5, rng.random(n)
    kernel = np.exp(x @ x.T) * w
    for sums in (Dense(), Dense(queries=64, keys=96)):
        found = sums.exponential(*map(jnp.asarray, (x, x, x, w)))
        assert np.allclose(found.average, kernel @ x / kernel.sum(1, keepdims=True), rtol=1e-12, atol=1e-14)
        assert np.allclose(np.exp(found.shift) * found.total, kernel.sum(1), rtol=1e-12)


@pytest.mark.parametrize(("n", "d"), [(20_000, 2), (8_000, WIDE)])
def test_memory_does_not_grow_with_pairs(n, d):
    """Of one velocity and its gradient, as the compiler counts it; all pairs would take 8 n² bytes."""
    x = jax.ShapeDtypeStruct((n, d), float)
    field = lambda x: Dense().exponential(x, x, x, jnp.full(n, 1 / n)).average
    slope = jax.grad(lambda x: jnp.sum(field(x) ** 2))
    for function, rows in ((field, 8), (slope, 16)):
        taken = jax.jit(function).lower(x).compile().memory_analysis().temp_size_in_bytes
        assert taken < 8 * (rows * n * (d + 4) + 6 * 1024 * 2048)
