"""The dense sum in blocks: O(m n) time, O(n + block²) memory, no overflow at any inverse temperature."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from tokenfield.summation.base import AbstractSummation, ExponentialSums


class Dense(AbstractSummation):
    """Every pair is visited. Blocks of queries meet blocks of keys; the running maximum of the scores is carried from
    block to block ("online softmax") so that no exponent is ever positive and no m × n array ever exists.

    The default block sizes were measured on two cores: 512 queries against 2048 keys keep a block in cache.
    """

    queries: int = eqx.field(static=True, default=512)
    keys: int = eqx.field(static=True, default=2048)

    def exponential(
        self, q: Float[Array, "m k"], k: Float[Array, "n k"], v: Float[Array, "n p"], w: Float[Array, " n"]
    ) -> ExponentialSums:
        values = jnp.concatenate([v, jnp.ones_like(w)[:, None]], axis=1) * w[:, None]  # the last column sums the kernel
        # Padding repeats a key, so that no maximum changes, and gives it no weight, so that no sum does.
        key_blocks = _split(k, self.keys, _repeat_first), _split(values, self.keys, _zeros)

        def one_block_of_queries(q):
            sums = _pairs(q, key_blocks[0][0], key_blocks[1][0])
            if len(key_blocks[0]) > 1:
                rest = jax.tree.map(lambda blocks: blocks[1:], key_blocks)
                sums, _ = lax.scan(lambda sums, kv: (_join(sums, _pairs(q, *kv)), None), sums, rest)
            return sums

        shift, sums = _map(one_block_of_queries, _split(q, self.queries, _repeat_first))
        shift, sums = shift.reshape(-1)[: len(q)], sums.reshape(-1, values.shape[1])[: len(q)]
        return ExponentialSums(shift, sums[:, -1], sums[:, :-1])


@jax.checkpoint  # the backward pass recomputes a block instead of keeping all n² exponentials
def _pairs(q, k, values):
    scores = q @ k.T
    shift = scores.max(axis=1)
    return shift, jnp.exp(scores - shift[:, None]) @ values


def _join(one, other):
    """Two partial sums over disjoint sets of keys, brought to the larger of their shifts."""
    shift = jnp.maximum(one[0], other[0])
    return shift, jnp.exp(one[0] - shift)[:, None] * one[1] + jnp.exp(other[0] - shift)[:, None] * other[1]


def _map(function, blocks):
    if len(blocks) == 1:
        return function(blocks[0])
    return lax.map(function, blocks)


def _split(rows: Array, size: int, fill) -> Array:
    """Rows in the fewest blocks of at most `size`, all of one length, the last one filled up."""
    count = -(-len(rows) // size)
    length = -(-len(rows) // count)
    return jnp.concatenate([rows, fill(rows, count * length - len(rows))]).reshape(count, length, rows.shape[1])


def _repeat_first(rows, count):
    return jnp.broadcast_to(rows[:1], (count, rows.shape[1]))


def _zeros(rows, count):
    return jnp.zeros((count, rows.shape[1]), rows.dtype)
