"""Sums over the whole range of numbers: huge scores stay exact, and what is not a number stays that."""

import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tests import fast_first
from tokenfield.summation import Circle, Dense, Euclidean, Sphere

rng = np.random.default_rng(8)


def exactly(q, k, v, w, seen):
    """The softmax average with scores in rational arithmetic."""
    rows = []
    for i in range(len(q)):
        scores = [sum(Fraction(a) * Fraction(b) for a, b in zip(q[i], key, strict=True)) for key in k]
        top = max(s for s, see in zip(scores, seen[i], strict=True) if see)
        p = w * np.array([math.exp(min(max(s - top, -1000), 0)) for s in scores]) * seen[i]
        rows.append(p @ v / p.sum())
    return np.array(rows)


@pytest.mark.parametrize(
    "scale", fast_first([1.0, 1e5, 1e10, 1e50, 1e100, 1e150], "1e+10", "1e+150", name="{:g}".format)
)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_averages_are_exact_at_every_scale(d, scale):
    """In one dimension XLA writes products into differences; in any, keys come in blocks that are brought together."""
    grow = jax.jit(lambda x, w, c, s: Dense(8, 7).exponential(c * x, c * x, x, w).average)
    masked = jax.jit(lambda x, w, c, s: Dense(8, 7).masked(s, s, None).exponential(c * x, c * x, x, w).average)
    x, w, s = rng.uniform(-1, 1, (20, d)), rng.dirichlet(np.ones(20)), np.linspace(0, 1, 20)
    for sums, seen in ((grow, np.ones((20, 20), bool)), (masked, s <= s[:, None])):
        found = np.asarray(sums(x, w, scale, s))
        assert np.max(abs(found - exactly(scale * x, scale * x, x, w, seen))) < 1e-11 * max(1.0, min(scale, 1e5)), seen[
            0
        ]


def test_derivatives_on_the_line_are_those_of_the_plain_formula():
    """Ties included: the tokens of a cluster have equal scores, and a query may be 0."""
    x = np.array([0.3, 0.3, -0.5, 0.0, 0.7, 0.7])[:, None]
    w, probe = jnp.asarray(rng.dirichlet(np.ones(6))), rng.normal(size=6)
    ours = lambda x: jnp.sum(probe * Dense().exponential(2 * x, x, x, w).average[:, 0])
    plain = lambda x: jnp.sum(probe * (jax.nn.softmax(2 * x @ x.T + jnp.log(w), axis=1) @ x)[:, 0])
    for mode in (jax.grad, jax.jacfwd):
        assert np.max(abs(mode(ours)(x) - jax.grad(plain)(x))) < 1e-13


@pytest.mark.parametrize(
    "sums",
    [Circle(2.0), Sphere(2.0), Euclidean(1.0, 10.0, 1), Euclidean(1.0, 10.0, 3)],
    ids=["circle", "sphere", "line", "space"],
)
@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_no_point_that_is_no_number_reaches_a_transform(sums, bad):
    """A non-uniform FFT of NaN ends the process. Sums in which NaN has a part are NaN, others are not."""
    d = {"Circle": 2, "Sphere": 3}.get(type(sums).__name__, getattr(sums, "root", np.eye(1)).shape[0])
    x = np.asarray(tkf.Tokens.uniform_sphere(50, d, seed=1).x)
    w = np.full(50, 0.02)
    average = jax.jit(lambda q, k: sums.exponential(q, k, x, w).average)
    q = x.copy()
    q[7, 0] = bad
    found = np.asarray(average(2 * q, x))
    assert np.all(np.isfinite(np.delete(found, 7, axis=0))), "one query is not a number"
    backward = np.asarray(average(2 * x, q))
    if np.isnan(bad):
        assert np.all(np.isnan(found[7])) and np.all(np.isnan(backward)), (
            "one key is not a number, which all queries see"
        )


@pytest.mark.parametrize(
    ("norm", "how"),
    [
        pytest.param(tkf.Free(), {"summation": "dense"}, id="dense"),
        pytest.param(tkf.Free(), {"summation": "euclidean"}, id="euclidean"),
        pytest.param(tkf.Rescaled(), {"summation": "euclidean"}, id="rescaled"),
    ],
)
def test_tokens_on_the_line_may_run_away(norm, how):
    """The end tokens grow as e^t, whatever their scores: x' = x at the ends once others are far behind."""
    mu = tkf.Tokens(np.random.default_rng(40).uniform(-3, 3, (40, 1)))
    run = tkf.evolve(tkf.Flow(tkf.Softmax(), norm), mu, t=30.0, save=4, rtol=1e-8, **how)
    assert run.status is tkf.Status.COMPLETED and np.all(np.isfinite(run.x))
    ends = np.stack([run.x[..., 0].min(axis=1), run.x[..., 0].max(axis=1)])
    growth = np.exp(10.0) if isinstance(norm, tkf.Free) else 1.0
    assert np.max(abs(ends[:, 3] / ends[:, 2] / growth - 1)) < 1e-6
    assert run.provenance.accuracy is None or run.provenance.accuracy < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("norm", "n", "t"), [(tkf.Free(), 2000, 25.0), (tkf.Rescaled(), 2500, 30.0)], ids=["free", "rescaled"]
)
def test_thousands_of_tokens_on_the_line_with_all_defaults(norm, n, t):
    mu = tkf.Tokens(np.random.default_rng(40).uniform(-5, 5, (n, 1)))
    run = tkf.evolve(tkf.Flow(tkf.Softmax(), norm), mu, t=t)
    assert run.status is tkf.Status.COMPLETED and np.all(np.isfinite(run.x)) and run.provenance.accuracy < 1e-6
