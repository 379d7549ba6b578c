"""How aligned tokens are: inner products of their directions."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenfield import _checks as check
from tokenfield.errors import InputError
from tokenfield.measures import AbstractDensity, Tokens
from tokenfield.observe.base import each, states


def overlaps(thing: Any) -> Float[Array, "*time pairs"]:
    """The inner products <θ_i, θ_j> of all pairs i < j, as one row of n(n-1)/2 numbers (a row a time).

    >>> overlaps(Tokens([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]])).tolist()
    [0.0, 1.0, 0.0]
    """
    _two(states(thing))
    states(thing).refuse_zero_vectors()
    return each(_pairs, thing)


def _pairs(mu: Tokens) -> Float[Array, " pairs"]:
    θ = mu.directions
    return jnp.clip(θ @ θ.T, -1, 1)[np.triu_indices(mu.n, 1)]


class Histogram(NamedTuple):
    """Shares of pairs in bins; `share` sums to 1 (a row a time)."""

    share: Float[np.ndarray, "*time bins"]
    edges: Float[np.ndarray, " bins+1"]


def overlap_histogram(thing: Any, bins: Any = 100) -> Histogram:
    """The histogram over [-1, 1] of all overlaps, each pair counted by w_i w_j; blocks of rows, never all n² at once.

    >>> share, edges = overlap_histogram(Tokens.orthonormal(4), bins=3)
    >>> share.tolist()
    [0.0, 1.0, 0.0]
    """
    bins = check.whole("bins", bins, 1, "how many bins")
    edges = np.linspace(-1, 1, bins + 1)
    mu = states(thing)
    _two(mu)
    θ, w = np.asarray(mu.directions), np.asarray(mu.w)
    shares = [_share(*pair, edges) for pair in zip(θ.reshape(-1, mu.n, mu.d), w.reshape(-1, mu.n), strict=True)]
    return Histogram(np.reshape(shares, (*θ.shape[:-2], bins)), edges)


def _share(θ: np.ndarray, w: np.ndarray, edges: np.ndarray, block: int = 512) -> np.ndarray:
    bins, n = len(edges) - 1, len(θ)
    total = np.zeros(bins)
    for start in range(0, n, block):
        rows = slice(start, min(start + block, n))
        index = np.clip(((θ[rows] @ θ.T + 1) * (bins / 2)).astype(np.intp), 0, bins - 1)
        weight = w[rows, None] * w
        weight[np.arange(weight.shape[0]), np.arange(rows.start, rows.stop)] = 0.0  # i ≠ j
        total += np.bincount(index.ravel(), weight.ravel(), minlength=bins)
    return total / total.sum()


def mean_overlap(thing: Any) -> Float[Array, "*time"]:
    r"""$\sum_{i \neq j} w_i w_j \langle θ_i, θ_j\rangle / \sum_{i \neq j} w_i w_j$, in O(n).

    >>> round(float(mean_overlap(Tokens.equiangular(5, rho=0.3))), 12)
    0.3
    """
    mu = states(thing)
    _two(mu)
    alone = jnp.sum(mu.w**2, axis=-1)
    return (jnp.sum(mu.with_points(mu.directions).mean ** 2, axis=-1) - alone) / jnp.sum(mu.w * (1 - mu.w), axis=-1)


def order_parameter(thing: Any) -> Float[Array, "*time"]:
    r"""$R = |\sum_i w_i θ_i|$: 1 when all tokens point the same way. On the circle, Kuramoto's order parameter.

    >>> float(order_parameter(Tokens([[1.0, 0.0], [1.0, 0.0]])))
    1.0
    """
    mu = states(thing, Tokens | AbstractDensity)
    return mu.order if isinstance(mu, AbstractDensity) else jnp.linalg.norm(mu.with_points(mu.directions).mean, axis=-1)


def _two(mu: Tokens) -> None:
    if mu.n < 2:
        raise InputError("Overlaps are between two tokens, but the measure has only one.")
