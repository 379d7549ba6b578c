"""The dense sum in blocks: O(m n) time, O(n + block²) memory, no overflow at any inverse temperature."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from tokenfield.errors import InputError
from tokenfield.summation.base import AbstractSummation, ExponentialSums, Related, inner

TIE = 1e-12
"""Scores closer than this, relative to the largest, are a tie of hardmax."""

ENTRIES = 2**20
"""Scores that hardmax looks at in one block, as long as it has 16 to 512 rows."""

WIDE = 512
"""Coordinates from which blocks of 1024 queries are summed as fast as any, and smaller ones a twentieth slower."""

NARROW = 8
"""Below so many columns of values, a column of ones beside them sums the kernel in the same product: at d = 3 this saves a
fifth. Beside many columns it costs more than a sum of its own: a third of a velocity's time at n = 32, d = 128 in float64."""


class Dense(AbstractSummation):
    """The dense sum, which visits every pair. Blocks of queries meet blocks of keys; the running maximum of the scores is
    carried from block to block ("online softmax") so that no exponent is ever positive and no m × n array ever exists.

    **Arguments**

    - `queries`, `keys`: the sizes of blocks. Those when left out were measured on two cores: 512 queries against 2048 keys keep
      a block in cache; from 512 coordinates on, where products of matrices are all that counts, 1024 queries.
    - `query_positions` σ, `key_positions` τ, `window`: where given, a pair is seen only where σ - window ≤ τ ≤ σ, and blocks
      in which no pair is seen are passed over.
    - `apart`: whether queries are the keys and no token sees its own value (it still counts in the total): for those who need
      only what others do to a token, however little that is beside its own.

    >>> x = jnp.eye(2)
    >>> Dense().exponential(0.0 * x, x, x, jnp.full(2, 0.5)).average.tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """

    queries: int | None = eqx.field(static=True, default=None)
    keys: int = eqx.field(static=True, default=2048)
    query_positions: Float[Array, " m"] | None = None
    key_positions: Float[Array, " n"] | None = None
    window: Float[Array, ""] | None = None
    apart: bool = eqx.field(static=True, default=False)

    @property
    def exact(self) -> bool:
        return True

    def without_own_term(self) -> "Dense":
        return dataclasses.replace(self, apart=True)

    def with_own_term(self) -> "Dense":
        return dataclasses.replace(self, apart=False)

    @property
    def keepable(self) -> bool:
        return self.query_positions is None

    def exponential(
        self,
        q: Float[Array, "m k"],
        k: Float[Array, "n k"],
        v: Float[Array, "n p"],
        w: Float[Array, " n"],
        score: Any = inner,
        bias: Float[Array, " n"] | None = None,
        related: Related | None = None,
    ) -> ExponentialSums:
        if bias is not None:  # as one more coordinate, in which every query is 1
            q, k = jnp.column_stack([q, jnp.ones(len(q), q.dtype)]), jnp.column_stack([k, bias])

        @jax.checkpoint  # the backward pass recomputes a block instead of keeping all n² exponentials
        def pairs(q, k, values, σ, τ):
            seen = self._seen(σ, τ)
            line = score is inner and q.shape[1] == 1
            shift, exponents = (
                _on_the_line(q, k, seen) if line else _below_the_top(score(q, k), seen, in_memory=score is inner)
            )
            kernel = jnp.exp(exponents)
            if self.apart:
                return ExponentialSums(shift, *_summed_apart(kernel, τ == σ[:, None], *values))
            return ExponentialSums(shift, *_summed(kernel, *values))

        nothing = lambda q: ExponentialSums(
            jnp.full(len(q), jnp.finfo(q.dtype).min),
            jnp.zeros(len(q), q.dtype),
            jnp.zeros((len(q), v.shape[1]), q.dtype),
        )
        return self._blocks(pairs, join, nothing, q, k, (v, w[:, None]))

    def elementwise(
        self,
        function: Any,
        q: Float[Array, "m k"],
        k: Float[Array, "n k"],
        v: Float[Array, "n p"],
        w: Float[Array, " n"],
    ) -> Float[Array, "m p"]:
        @jax.checkpoint
        def pairs(q, k, values, σ, τ):
            kernel, seen = function(q @ k.T), self._seen(σ, τ)
            return (kernel if seen is None else jnp.where(seen, kernel, 0.0)) @ values

        nothing = lambda q: jnp.zeros((len(q), v.shape[1]), q.dtype)
        return self._blocks(pairs, jnp.add, nothing, q, k, v * w[:, None])

    def linear(
        self, q: Float[Array, "m k"], k: Float[Array, "n k"], v: Float[Array, "n p"], w: Float[Array, " n"]
    ) -> Float[Array, "m p"]:
        if self.query_positions is not None:
            return self.elementwise(lambda scores: scores, q, k, v, w)
        return q @ (k.T @ (v * w[:, None]))

    def masked(self, σ: Float[Array, " m"], τ: Float[Array, " n"], window: Float[Array, ""] | None) -> "Dense":
        return Dense(self.queries, self.keys, σ, τ, window)

    def largest(
        self,
        q: Float[Array, "m k"],
        k: Float[Array, "n k"],
        v: Float[Array, "n p"],
        w: Float[Array, " n"],
        alone: bool,
    ) -> Float[Array, "m p"]:
        if self.query_positions is not None:
            raise InputError("Hardmax sums know no positions.")
        keys = jnp.arange(len(k))

        def rows(block):
            q, i = block
            scores = q @ k.T
            if alone:
                scores = jnp.where(keys == i[:, None], -jnp.inf, scores)
            top = scores.max(axis=1, keepdims=True)
            tied = scores >= top - TIE * jnp.maximum(1.0, jnp.abs(top))
            # One pass counts the ties and adds up their numbers; that of a row without ties is the number of its largest score.
            number = jnp.minimum(jnp.sum(jnp.where(tied, keys, 0), axis=1), len(k) - 1)

            def shared():
                share = jnp.where(tied, w, 0.0)
                return share @ v / share.sum(axis=1, keepdims=True)

            return lax.cond(jnp.all(jnp.sum(tied, axis=1) == 1), lambda: v[number], shared)

        size = max(16, min(512, ENTRIES // len(k)))
        blocks = _split(q, size, _repeat_first), _split(jnp.arange(len(q))[:, None], size, _repeat_first)[..., 0]
        return _map(rows, blocks).reshape(-1, v.shape[1])[: len(q)]

    def _blocks(self, pairs, join, nothing, q, k, values):
        """Sum over blocks of keys, for blocks of queries. Positions travel with the rows; blocks without a pair are skipped."""
        masked = self.query_positions is not None
        rows = self.queries or (512 if masked or q.shape[1] < WIDE else 1024)
        number = lambda rows: jnp.arange(len(rows), dtype=q.dtype) if self.apart else jnp.zeros(len(rows), q.dtype)
        σ = number(q) if self.query_positions is None else self.query_positions
        τ = number(k) if self.key_positions is None else self.key_positions
        size = min(rows, self.keys) if masked else self.keys
        # Padding repeats a key, so that no maximum changes, and gives it no weight, so that no sum does.
        parts = (
            _split(k, size, _repeat_first),
            jax.tree.map(lambda part: _split(part, size, _zeros), values),
            _split(τ[:, None], size, _repeat_first)[..., 0],
        )

        def against(q, σ, part):
            k, values, τ = part
            if not masked:
                return pairs(q, k, values, σ, τ)
            some = jnp.min(τ) <= jnp.max(σ)
            if self.window is not None:
                some = some & (jnp.max(τ) >= jnp.min(σ) - self.window)
            return lax.cond(some, lambda: pairs(q, k, values, σ, τ), lambda: nothing(q))

        @jax.checkpoint  # nor the partial sums of every block of keys
        def one_block_of_queries(block):
            q, σ = block
            sums = against(q, σ, jax.tree.map(lambda part: part[0], parts))
            if len(parts[0]) > 1:
                rest = jax.tree.map(lambda part: part[1:], parts)
                sums, _ = lax.scan(lambda sums, part: (join(sums, against(q, σ, part)), None), sums, rest)
            return sums

        blocks = _split(q, rows, _repeat_first), _split(σ[:, None], rows, _repeat_first)[..., 0]
        found = _map(one_block_of_queries, blocks, few=2 if q.shape[1] >= WIDE else 1)
        return jax.tree.map(lambda part: part.reshape(part.shape[0] * part.shape[1], *part.shape[2:])[: len(q)], found)

    def _seen(self, σ, τ):
        """Which keys a query sees: those at its position and before, within the window."""
        if self.query_positions is None:
            return None
        seen = τ <= σ[:, None]
        return seen if self.window is None else seen & (τ >= σ[:, None] - self.window)


def _below_the_top(scores: Float[Array, "m n"], seen: Array | None, in_memory: bool = False) -> tuple[Array, Array]:
    """The top score of each row, and every score less that: no exponent is positive, and one of them is 0. Scores that come from
    a product of matrices with more than one column are in memory, rounded, and need no guard, which costs a quarter of a velocity's
    time at n = 32."""
    if seen is not None:
        scores = jnp.where(seen, scores, -jnp.inf)
    top = scores.max(axis=1)
    if seen is not None:
        top = jnp.where(jnp.isneginf(top), jnp.finfo(top.dtype).min, top)  # a row that sees no key of the block
    return top, (scores - top[:, None] if in_memory else _less(scores, top[:, None]))


@jax.custom_jvp
def _less(score: Array, top: Array) -> Array:
    """score - top ≤ 0, rounded once. XLA may write the product that is a score into the difference, where it is not rounded,
    while it was for `top`: beside scores of 10²⁰ that is an exponent of 10⁴ instead of 0. It cannot look through a minimum."""
    return jnp.minimum(score, top) - top


@_less.defjvp
def _less_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    return _less(*primals), tangents[0] - tangents[1]


def _on_the_line(q: Float[Array, "m 1"], k: Float[Array, "n 1"], seen: Array | None) -> tuple[Array, Array]:
    """The same for numbers q_i, k_j: q_i k_j - q_i k_* = q_i (k_j - k_*), where k_* is the largest or the least key, so that
    keys are compared before they are multiplied: two huge scores differ by more than their rounding."""
    sign = jnp.where(q > 0, 1.0, -1.0).astype(q.dtype)
    top, below = _below_the_top(sign * k[:, 0], seen)
    shift, exponents = (sign * q)[:, 0] * top, sign * q * below
    if seen is None:
        return shift, exponents
    least = jnp.finfo(q.dtype).min
    return jnp.where(jnp.any(seen, axis=1), shift, least), jnp.where(seen, exponents, -jnp.inf)


def _summed(kernel: Float[Array, "m n"], v: Float[Array, "n p"], w: Float[Array, "n 1"]) -> tuple[Array, Array]:
    """Σ_j w_j kernel_ij, and Σ_j w_j kernel_ij v_j."""
    if v.shape[1] < NARROW:
        sums = kernel @ (w * jnp.concatenate([v, jnp.ones_like(w)], axis=1))
        return sums[:, -1], sums[:, :-1]
    kernel = w[:, 0] * kernel
    return kernel.sum(axis=1), kernel @ v


def _summed_apart(kernel: Float[Array, "m n"], own: Array, v: Float[Array, "n p"], w: Float[Array, "n 1"]) -> Any:
    """The same, without a token's own value."""
    return (kernel @ w)[:, 0], jnp.where(own, 0.0, kernel) @ (w * v)


def join(one: ExponentialSums, other: ExponentialSums) -> ExponentialSums:
    """Two partial sums over disjoint sets of keys, brought to the larger of their shifts."""
    ahead = one.shift - other.shift  # computed once: shifts that are computed twice may be rounded differently
    a, b = jnp.exp(jnp.minimum(ahead, 0.0)), jnp.exp(jnp.minimum(-ahead, 0.0))
    return ExponentialSums(
        jnp.maximum(one.shift, other.shift),
        a * one.total + b * other.total,
        a[:, None] * one.weighted + b[:, None] * other.weighted,
    )


def _map(function, blocks, few=1):
    """`function` of every block. A few blocks are written out instead of looped over, which saves copies of rows in and out."""
    count = len(jax.tree.leaves(blocks)[0])
    if count > few:
        return lax.map(function, blocks)
    found = [function(jax.tree.map(lambda part, i=i: part[i], blocks)) for i in range(count)]
    return jax.tree.map(lambda *parts: jnp.stack(parts), *found)


def _split(rows: Array, size: int, fill) -> Array:
    """Rows in the fewest blocks of at most `size`, all of one length, the last one filled up."""
    count = -(-len(rows) // size)
    length = -(-len(rows) // count)
    return jnp.concatenate([rows, fill(rows, count * length - len(rows))]).reshape(count, length, rows.shape[1])


def _repeat_first(rows, count):
    return jnp.broadcast_to(rows[:1], (count, rows.shape[1]))


def _zeros(rows, count):
    return jnp.zeros((count, rows.shape[1]), rows.dtype)
