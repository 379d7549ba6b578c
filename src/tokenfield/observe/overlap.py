"""How aligned tokens are: inner products of their directions."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._norms import sizes, unit
from tokenfield._types import Count, Number, no_type_check
from tokenfield.errors import InputError
from tokenfield.measures import AbstractDensity, Tokens
from tokenfield.observe.base import Measured, blind, each, states
from tokenfield.summation import Dense


@blind
@front_door
@no_type_check
def overlaps(thing: Measured) -> Float[Array, "*time pairs"]:
    r"""The overlaps of all pairs of tokens: the inner products $\langle θ_i, θ_j\rangle$ of their directions, for i < j.

    **Arguments**

    - `thing`: tokens, or a run of them.

    **Returns** one row of n(n-1)/2 numbers, (0, 1), (0, 2), ..., (1, 2), ...; of a run one row per saved time.

    **Raises** `InputError` where `thing` is not made of tokens, there is only one, or one is the zero vector.

    >>> overlaps(Tokens([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]])).tolist()
    [0.0, 1.0, 0.0]
    """
    mu = states(thing)
    _two(mu)
    mu.refuse_zero_vectors()
    check.room(2 * mu.x.size * mu.n / mu.d * mu.x.dtype.itemsize, "The overlaps of all pairs of tokens")
    return each(_pairs, thing)


def _pairs(mu: Tokens) -> Float[Array, " pairs"]:
    θ = mu.directions
    return jnp.clip(θ @ θ.T, -1, 1)[np.triu_indices(mu.n, 1)]


class Histogram(NamedTuple):
    """Shares of pairs in bins.

    - `share`: the share of each bin, which sums to 1; of a run one row per saved time.
    - `edges`: the edges of the bins, one more than there are bins.
    """

    share: Float[np.ndarray, "*time bins"]
    edges: Float[np.ndarray, " bins+1"]


@blind
@front_door
@no_type_check
def overlap_histogram(thing: Measured, bins: Count = 100) -> Histogram:
    """The histogram of all overlaps over [-1, 1], in which each pair counts by its weight w_i w_j.

    It is computed in blocks of rows, so that no n² numbers are ever held at once.

    **Arguments**

    - `thing`: tokens, or a run of them.
    - `bins`: how many bins of equal width.

    **Returns** a pair `share, edges`: the shares of the bins, which sum to 1 (of a run one row per saved time), and their edges.

    **Raises** `InputError` where `thing` is not made of tokens, there is only one, one is the zero vector, or `bins` is not a
    positive whole number.

    >>> share, edges = overlap_histogram(Tokens.orthonormal(4), bins=3)
    >>> share.tolist()
    [0.0, 1.0, 0.0]
    """
    bins = check.whole("bins", bins, 1, "how many bins")
    mu = states(thing)
    _two(mu)
    check.room(4 * 8 * bins * max(1, mu.x.size // (mu.n * mu.d)), f"Histograms of {bins} bins")
    edges = np.linspace(-1, 1, bins + 1)
    θ, w = np.asarray(mu.directions), np.asarray(mu.w)
    shares = [_share(*pair, edges) for pair in zip(θ.reshape(-1, mu.n, mu.d), w.reshape(-1, mu.n), strict=True)]
    return Histogram(np.reshape(shares, (*θ.shape[:-2], bins)), edges)


def _share(θ: np.ndarray, w: np.ndarray, edges: np.ndarray, block: int = 512) -> np.ndarray:
    """Pairs i < j, by blocks of rows i; with weights only where they differ."""
    bins, n = len(edges) - 1, len(θ)
    alike = bool(np.all(w == w[0]))
    total = np.zeros(bins)
    for start in range(0, n, block):
        rows, columns = slice(start, min(start + block, n)), slice(start, n)
        index = ((θ[rows] @ θ[columns].T + 1) * (bins / 2)).astype(np.int32)
        index = np.clip(index, 0, bins - 1, out=index)
        later = np.arange(index.shape[1]) > np.arange(index.shape[0])[:, None]
        weight = None if alike else (w[rows, None] * w[columns])[later]
        total += np.bincount(index[later], weight, minlength=bins)
    return total / total.sum()


@blind
@front_door
@no_type_check
def mean_overlap(thing: Measured) -> Float[Array, "*time"]:
    r"""The mean overlap of two tokens: $\sum_{i \neq j} w_i w_j \langle θ_i, θ_j\rangle / \sum_{i \neq j} w_i w_j$.

    It is computed in O(n), from the mean of the directions.

    **Arguments**

    - `thing`: tokens, or a run of them.

    **Returns** the mean overlap, of a run one number per saved time.

    **Raises** `InputError` where `thing` is not made of tokens, there is only one, or one is the zero vector.

    >>> round(float(mean_overlap(Tokens.equiangular(5, rho=0.3))), 12)
    0.3
    """
    mu = states(thing)
    _two(mu)
    xp, w, mean = check.known(mu.w, mu.with_points(mu.directions).mean)
    alone = xp.sum(w**2, axis=-1)
    return check.on_device((xp.sum(mean**2, axis=-1) - alone) / xp.sum(w * (1 - w), axis=-1))


@blind
@front_door
@no_type_check
def fraction_close(thing: Measured, cosine: Number = 0.999) -> Float[Array, "*time"]:
    r"""The share of pairs whose overlap is at least a given cosine: $\sum_{i \neq j} w_i w_j 1[\langle θ_i, θ_j\rangle ≥ c] /
    \sum_{i \neq j} w_i w_j$.

    **Arguments**

    - `thing`: tokens, or a run of them.
    - `cosine`: c, between -1 and 1.

    **Returns** the share, of a run one number per saved time.

    **Raises** `InputError` where `thing` is not made of tokens, there is only one, one is the zero vector, or the cosine is outside
    [-1, 1].

    >>> float(fraction_close(Tokens([[1.0, 0.0], [1.0, 1e-3], [0.0, 1.0]])).round(6))
    0.333333
    """
    cosine = check.scalar("cosine", cosine)
    if not check.traced(cosine) and not -1 <= float(cosine) <= 1:
        raise InputError(f"Argument `cosine` must lie in [-1, 1], but is {float(cosine):g}.")
    _two(states(thing))
    states(thing).refuse_zero_vectors()
    return each(_close, thing, cosine)


def _close(mu: Tokens, cosine: Float[Array, ""]) -> Float[Array, ""]:
    θ = unit(mu.x)
    near = Dense().elementwise(
        lambda s: jnp.where(s >= cosine.astype(s.dtype), 1.0, 0.0), θ, θ, jnp.ones((mu.n, 1), θ.dtype), mu.w
    )
    alone = jnp.sum(mu.w**2) * (cosine <= 1)
    return jnp.clip((jnp.sum(mu.w * near[:, 0]) - alone) / jnp.sum(mu.w * (1 - mu.w)), 0.0, 1.0)


@blind
@front_door
@no_type_check
def order_parameter(thing: Measured) -> Float[Array, "*time"]:
    r"""The order parameter $R = |\sum_i w_i θ_i|$, of a density $|\int x\,dμ|$.

    It is 1 when all tokens point the same way; on the circle it is Kuramoto's order parameter.

    **Arguments**

    - `thing`: tokens or a density, or a run of them.

    **Returns** the order parameter, of a run one number per saved time.

    **Raises** `InputError` where `thing` is of another kind, or a token is the zero vector.

    >>> float(order_parameter(Tokens([[1.0, 0.0], [1.0, 0.0]])))
    1.0
    """
    mu = states(thing, Tokens | AbstractDensity)
    return mu.order if isinstance(mu, AbstractDensity) else sizes(mu.with_points(mu.directions).mean)


def _two(mu: Tokens) -> None:
    if mu.n < 2:
        raise InputError("Overlaps are between two tokens, but the measure has only one.")
