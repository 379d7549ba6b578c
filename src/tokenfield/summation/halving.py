"""Fast sums under a causal mask, in O(n log n): the earlier half speaks to the later half by one fast sum, and each half goes on
by itself, down to blocks that are summed densely. Windows are made of such blocks, too."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from tokenfield._compile import compiled
from tokenfield.summation.base import AbstractSummation, AbstractVariant, ExponentialSums, inner
from tokenfield.summation.dense import Dense, join
from tokenfield.summation.spectral import ROWS, AbstractSpectral, resummed
from tokenfield.summation.windows import Pairs, firsts, gathered, partly, wholly

BLOCK = 1024
"""Tokens below which halving a block costs more than its dense sum."""

LEAF = 256
"""Tokens of the smallest blocks that windows are made of: about two of them are summed densely for nothing, per block."""


class Halving(AbstractVariant):
    r"""Exponential sums over earlier tokens, $\sum_{τ_j \le τ_i} w_j e^{\langle q_i, k_j\rangle}$, by fast sums of halves.

    Tokens are brought into the order of their positions. Of the sum over pairs (i, j) with j before i, those that lie in different
    halves are a full sum, from the earlier half to the later, for which `fast` serves; the others are two sums of the same kind.
    There are $\log_2(n/\text{block})$ rounds of cost O(n). What fast sums get wrong is added up along the way, and rows whose total
    is too small for it are summed again, densely. Where two tokens share a position, and so see each other, all sums are dense.

    With a window, $τ_i - \text{window} \le τ_j \le τ_i$, a block of queries is summed against the largest blocks of keys that
    all of it sees whole (`windows.wholly`), and densely against those that it sees in part.

    **Arguments**

    - `fast`: sums without a mask.
    - `τ`: the positions of the tokens, which are the queries, too.
    - `window`: how far back a query sees; None for all the way.
    """

    fast: AbstractSpectral
    τ: Float[Array, " n"]
    window: Float[Array, ""] | None = None

    @property
    def name(self) -> str:
        return f"{self.fast.name}, by halves"

    @property
    def other(self) -> AbstractSummation:
        return Dense().masked(self.τ, self.τ, self.window)

    def exponential(
        self, q: Any, k: Any, v: Any, w: Any, score: Any = inner, bias: Any = None, related: Any = None
    ) -> ExponentialSums:
        if score is not inner or len(q) <= BLOCK:
            return self.other.exponential(q, k, v, w, score, bias)
        return _exponential(self, q, k, v, w, bias)

    def in_order(self, q: Any, k: Any, v: Any, w: Any, bias: Any) -> tuple[ExponentialSums, Array, Array]:
        """The sums of tokens that stand in the order of their positions; what is wrong with every row's total, in its units; and
        whether the series reaches all tokens."""
        n, rounds = len(q), rounds_for(len(q))
        precision, δ = self.fast.errors(self.fast.modes, q.dtype, self.fast.tolerance)
        parts = [_filled(rows, 2**rounds) for rows in (q, k, v)]
        parts += [jnp.pad(w, (0, len(parts[0]) - n)), _filled(bias, 2**rounds)]
        sums = _rows(_noted(lax.map(_own, _cut(parts, 2**rounds)), jnp.zeros(2**rounds)))
        reaches = jnp.asarray(True)
        for level in range(rounds):
            halves = _cut(parts, 2 ** (level + 1))
            later, earlier = halves[0][1::2], [rows[0::2] for rows in halves[1:]]
            found, mass, fine = lax.map(lambda part: self.fast.fast(*part, precision=precision), (later, *earlier))
            sums, reaches = join(sums, _rows(_after_nothing(_noted(found, δ * mass)))), reaches & jnp.all(fine)
        sums = jax.tree.map(lambda rows: rows[:n], sums)
        return sums._replace(weighted=sums.weighted[:, :-1]), sums.weighted[:, -1], reaches

    def in_windows(self, q: Any, k: Any, v: Any, w: Any, bias: Any, τ: Any) -> tuple[ExponentialSums, Array, Array]:
        """The same, of tokens that see a window each."""
        assert self.window is not None
        n, rounds = len(q), rounds_for(len(q), LEAF)
        precision, δ = self.fast.errors(self.fast.modes, q.dtype, self.fast.tolerance)
        more = -n % 2**rounds
        parts = [_filled(rows, 2**rounds) for rows in (q, k, v)]
        parts += [jnp.pad(w, (0, more)), _filled(bias, 2**rounds), jnp.pad(τ, (0, more), constant_values=jnp.inf)]
        first = jnp.pad(firsts(τ, self.window), (0, more), mode="edge")

        def masked(blocks: Any) -> tuple[ExponentialSums, Array, Array]:
            (q, σ), (k, v, w, bias, τ) = blocks
            sums = Dense().masked(σ, τ, self.window).exponential(q, k, v, w, bias=bias)
            return sums, jnp.zeros((), q.dtype), jnp.asarray(True)

        def dense(blocks: Any) -> tuple[ExponentialSums, Array, Array]:
            (q, _), (k, v, w, bias, _) = blocks
            return Dense().exponential(q, k, v, w, bias=bias), jnp.zeros((), q.dtype), jnp.asarray(True)

        def fast(blocks: Any) -> tuple[ExponentialSums, Array, Array]:
            (q, _), (k, v, w, bias, _) = blocks
            sums, mass, fine = self.fast.fast(q, k, v, w, bias, precision)
            return sums, δ * mass, fine

        sums, reaches = _between(partly(first, len(first) >> rounds), masked, parts, 2**rounds)
        for level in range(rounds):
            count, block = 2 ** (level + 1), len(first) >> (level + 1)
            found, fine = _between(wholly(first, block), dense if block < BLOCK else fast, parts, count)
            sums, reaches = join(sums, found), reaches & fine
        sums = jax.tree.map(lambda rows: rows[:n], sums)
        return sums._replace(weighted=sums.weighted[:, :-1]), sums.weighted[:, -1], reaches


@compiled
def _exponential(sums: Halving, q: Any, k: Any, v: Any, w: Any, bias: Any) -> ExponentialSums:
    """In float64 wherever there is one, in the order of positions, and back."""
    wide = jnp.result_type(float)
    order = jnp.argsort(sums.τ)
    bias = jnp.zeros(len(k), k.dtype) if bias is None else bias
    q, k, v, w, bias, τ = (part[order].astype(wide) for part in (q, k, v, w, bias, sums.τ))
    found, error, reaches = (
        sums.in_order(q, k, v, w, bias) if sums.window is None else sums.in_windows(q, k, v, w, bias, τ)
    )
    low = ~(found.total * sums.fast.tolerance > 2 * error)
    tied = jnp.any(τ[1:] == τ[:-1])

    def dense(rows: Any) -> ExponentialSums:
        some = slice(None) if rows is None else rows
        blocks = Dense() if rows is None else Dense(queries=ROWS)
        return blocks.masked(τ[some], τ, sums.window).exponential(q[some], k, v, w, bias=bias)

    found = resummed(found, low, ~reaches | tied, dense)
    back = jnp.zeros_like(order).at[order].set(jnp.arange(len(order)))
    return jax.tree.map(lambda rows: rows[back].astype(q.dtype), found)


def rounds_for(n: int, block: int = BLOCK) -> int:
    """How often n tokens are halved until a block of so many holds them.

    >>> rounds_for(1024), rounds_for(1025), rounds_for(100_000)
    (0, 1, 7)
    """
    return max(0, (-(-n // block) - 1).bit_length())


def _own(part: list[Array]) -> ExponentialSums:
    """Of a block whose tokens stand in order, the sums over those before and oneself."""
    q, k, v, w, bias = part
    place = jnp.arange(len(q), dtype=q.dtype)
    return Dense().masked(place, place, None).exponential(q, k, v, w, bias=bias)


def _between(pairs: Pairs, summed: Any, parts: list[Array], count: int) -> tuple[ExponentialSums, Array]:
    """The sums of all rows over the pairs of blocks, `summed` one by one, with their errors as one more value; and whether the
    series reaches all tokens. Empty places of the list are passed over."""
    q, k, v, w, bias, τ = _cut(parts, count)

    def one(pair: Any) -> tuple[ExponentialSums, Array, Array]:
        i, j, there = pair
        blocks = (q[i], τ[i]), (k[j], v[j], w[j], bias[j], τ[j])
        some = jax.eval_shape(summed, blocks)
        least = jnp.finfo(q.dtype).min
        nothing = ExponentialSums(
            jnp.full(some[0].shift.shape, least),
            jnp.zeros(some[0].total.shape),
            jnp.zeros(some[0].weighted.shape),
        )
        return lax.cond(there, lambda: summed(blocks), lambda: (nothing, jnp.zeros_like(least), jnp.asarray(True)))

    found, error, fine = lax.map(one, tuple(pairs))
    return _rows(gathered(_noted(found, error), pairs.queries, count)), jnp.all(fine)


def _noted(sums: ExponentialSums, error: Float[Array, " blocks"]) -> ExponentialSums:
    """The error of every total as one more value, so that it is joined as they are."""
    column = jnp.broadcast_to(error[:, None, None], (*sums.total.shape, 1)).astype(sums.total.dtype)
    return sums._replace(weighted=jnp.concatenate([sums.weighted, column], axis=-1))


def _after_nothing(later: ExponentialSums) -> ExponentialSums:
    """Sums of later halves, with empty ones for the earlier halves before each."""
    nothing = ExponentialSums(
        jnp.full_like(later.shift, jnp.finfo(later.shift.dtype).min),
        jnp.zeros_like(later.total),
        jnp.zeros_like(later.weighted),
    )
    return jax.tree.map(lambda none, some: jnp.stack([none, some], axis=1), nothing, later)


def _rows(sums: ExponentialSums) -> ExponentialSums:
    """All rows one after another."""
    p = sums.weighted.shape[-1]
    return ExponentialSums(sums.shift.reshape(-1), sums.total.reshape(-1), sums.weighted.reshape(-1, p))


def _cut(parts: list[Array], count: int) -> list[Array]:
    return [rows.reshape(count, -1, *rows.shape[1:]) for rows in parts]


def _filled(rows: Array, blocks: int) -> Array:
    """Rows filled up by the first one, to a multiple of a number of blocks."""
    more = -len(rows) % blocks
    return jnp.concatenate([rows, jnp.broadcast_to(rows[:1], (more, *rows.shape[1:]))])
