"""Which blocks of earlier tokens a block of tokens sees whole, and which in part, where each sees a window: the lists of pairs that
sums over windows are made of. Their lengths do not depend on positions, so that nothing is compiled twice."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from tokenfield.summation.base import ExponentialSums


class Pairs(NamedTuple):
    """Blocks of queries and the blocks of keys that they see; some places of the list may be empty."""

    queries: Int[Array, " pairs"]
    keys: Int[Array, " pairs"]
    there: Bool[Array, " pairs"]


def partly(first: Int[Array, " n"], block: int) -> Pairs:
    """The blocks that some queries of a block see in part: its own, and those in which windows begin. Windows of one block begin in
    those from that of its first query to that of its last, and those are never before the ones of the block before, so that there
    are at most four pairs per block, all in all.

    **Arguments**

    - `first`: the number of the first key that a query sees, for queries in order: it never decreases.
    - `block`: how many tokens a block has.

    **Returns** the pairs.

    >>> found = partly(jnp.array([0, 0, 1, 2, 3, 3]), 2)  # windows of one to three tokens, blocks of two
    >>> found.queries[found.there].tolist(), found.keys[found.there].tolist()
    ([0, 1, 1, 2, 2], [0, 0, 1, 1, 2])
    """
    m = len(first) // block
    own = jnp.arange(m)
    start = jnp.minimum(first[::block] // block, own)
    return _listed([(start, jnp.minimum(_whole(first, block), own)), (own, own + 1)], 4 * m)


def wholly(first: Int[Array, " n"], block: int) -> Pairs:
    """The blocks that all queries of a block see whole, those left out that are part of a block twice as large which the block
    of queries twice as large sees whole. What is left is the block before, within the same larger one, and some where windows
    begin: at most three pairs per block, all in all.

    **Arguments**

    - `first`, `block`: as for `partly`.

    **Returns** the pairs.
    """
    m = len(first) // block
    own = jnp.arange(m)
    seen, larger = _whole(first, block), own // 2
    left = 2 * jnp.minimum(jnp.repeat(_whole(first, 2 * block), 2), larger)
    return _listed([(seen, left), (jnp.maximum(seen, 2 * larger), own)], 3 * m)


def _whole(first: Int[Array, " n"], block: int) -> Int[Array, " m"]:
    """The first block of keys that the last query of a block, and so every one of them, sees from its beginning."""
    return -(-first[block - 1 :: block] // block)


def _listed(ranges: list[tuple[Array, Array]], length: int) -> Pairs:
    """Every block of queries with the blocks of keys in its ranges, one after another, in a list of given length."""
    start, stop = (jnp.stack(ends, axis=1).reshape(-1) for ends in zip(*ranges, strict=True))
    ends = jnp.cumsum(jnp.maximum(stop - start, 0))
    place = jnp.arange(length)
    at = jnp.minimum(jnp.searchsorted(ends, place, side="right"), len(ends) - 1)
    there = place < ends[-1]
    keys = stop[at] - (ends[at] - place)
    return Pairs(jnp.where(there, at // len(ranges), 0), jnp.where(there, keys, 0), there)


def gathered(found: ExponentialSums, queries: Int[Array, " pairs"], count: int) -> ExponentialSums:
    """The sums of every block of queries, from those of its pairs, brought to the largest of their shifts.

    **Arguments**

    - `found`: the sums of pairs of blocks, with a leading axis of pairs.
    - `queries`: the blocks of queries of the pairs.
    - `count`: how many blocks of queries there are.

    **Returns** the sums, with a leading axis of blocks; empty ones for blocks that are in no pair.
    """
    least = jnp.finfo(found.shift.dtype).min
    top = jnp.maximum(jax.ops.segment_max(found.shift, queries, count), least)  # of nothing, it would be -∞
    scale = jnp.exp(found.shift - top[queries])
    add = lambda parts: jax.ops.segment_sum(parts, queries, count)
    return ExponentialSums(top, add(scale * found.total), add(scale[..., None] * found.weighted))


def firsts(τ: Float[Array, " n"], window: Float[Array, ""]) -> Int[Array, " n"]:
    """The number of the first token at τ_i - window or later, for positions that are in order.

    >>> firsts(jnp.array([0.0, 0.1, 0.5, 0.6]), jnp.asarray(0.2)).tolist()
    [0, 0, 2, 2]
    """
    return jnp.searchsorted(τ, τ - window, side="left")
