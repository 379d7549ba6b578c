"""Sums in O(n) by Fourier series, and the guard that makes every row of them as accurate as the dense sum.

A kernel that depends on differences is a multiplication of Fourier coefficients: tokens to coefficients and back are two
non-uniform FFTs [barnett2019]. What they get wrong is a fixed share δ of *all* mass, whoever asks, while the error that
counts is one relative to a row's own total: a token in an empty region would see noise. So every row looks at its total,
and rows with less than δ over the tolerance are summed again, densely.
"""

import abc
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Complex, Float

from tokenfield._compile import compiled
from tokenfield.summation.base import AbstractVariant, ExponentialSums, Related, inner
from tokenfield.summation.dense import Dense

PRECISION = 1e-14
"""The most that is asked of the non-uniform FFTs in float64; they cost half as much again as at 1e-9."""

SHARE = 1e-5
"""Rows that see this share of all mass are to be summed fast: what is asked of transforms is this times the tolerance."""

SINGLE = 2e-2
"""Transforms are in float32 where rows with more than this share of all mass are then accurate enough."""

ROWS = 64
"""The fewest rows that are summed again; then 32 times as many, and so on. Each count is a program of its own."""


class Split(NamedTuple):
    """<q_i, k_j> = shift_i + outer_j + log kernel(x_i, y_j), where `reaches`; outer None for zeros."""

    x: Float[Array, "m k"]
    y: Float[Array, "n k"]
    shift: Float[Array, " m"]
    outer: Float[Array, " n"] | None
    reaches: Bool[Array, ""]


class AbstractSpectral(AbstractVariant):
    """Exponential sums through Fourier series. A kind says how a score splits, how far its series reaches and how to
    convolve; sums of other kinds, and masks, are the dense ones."""

    tolerance: eqx.AbstractVar[float]
    """How large a row's error may be, relative to its own total."""

    @abc.abstractmethod
    def split(self, q: Float[Array, "m k"], k: Float[Array, "n k"]) -> "Split":
        """<q_i, k_j> as a part of the query's, a part of the key's, and a kernel of points x_i, y_j."""

    @abc.abstractmethod
    def convolve(
        self, x: Float[Array, "m k"], y: Float[Array, "n k"], charges: Complex[Array, "b n"], precision: float
    ) -> Complex[Array, "b m"]:
        """Σ_j charges_j kernel(x_i, y_j)."""

    @property
    @abc.abstractmethod
    def modes(self) -> int:
        """The highest frequency of the series."""

    @property
    def name(self) -> str:
        return f"{type(self).__name__.lower()}, {self.modes} modes"

    @property
    def halves(self) -> bool:
        return True

    def holds(self, n: int) -> int:
        return 16 * n

    def dtype(self, given: Any) -> Any:
        """The precision of the transforms: float64 where there is one, unless float32 errs little beside the tolerance."""
        _, δ = self.errors(self.modes, given, self.tolerance)
        return given if 2 * δ < SINGLE * self.tolerance else jnp.result_type(float)

    @property
    def other(self) -> Dense:
        return Dense()

    def exponential(
        self, q: Any, k: Any, v: Any, w: Any, score: Any = inner, bias: Any = None, related: Related | None = None
    ) -> ExponentialSums:
        if score is not inner:
            return self.other.exponential(q, k, v, w, score, bias)
        return _exponential(self, q, k, v, w, bias, related)

    def guarded(self, q: Any, k: Any, v: Any, w: Any, bias: Any, related: Related | None) -> ExponentialSums:
        """Rows whose total is too small for its error are summed again; all of them where the series does not reach."""
        precision, δ = self.errors(self.modes, q.dtype, self.tolerance)
        sums, mass, reaches = self.fast(q, k, v, w, bias, precision, related)
        low = ~(sums.total > 2 * δ / self.tolerance * mass)
        multiple = None if related is None else related.multiple

        def dense(rows: Any) -> ExponentialSums:
            queries = q if multiple is None else multiple * k  # computed again, not kept
            if rows is None:
                return Dense().exponential(queries, k, v, w, bias=bias)
            return Dense(queries=ROWS).exponential(queries[rows], k, v, w, bias=bias)

        return resummed(sums, low, ~reaches, dense)

    def fast(
        self, q: Any, k: Any, v: Any, w: Any, bias: Any, precision: float, related: Related | None = None
    ) -> tuple[ExponentialSums, Any, Any]:
        """The sums without the guard, the mass to which their error is relative, and whether the series reaches."""
        x, y, shift, outer, reaches = self.split(q, k)
        mass, highest = w, jnp.zeros((), w.dtype)
        if bias is not None or outer is not None:
            exponent = sum(part for part in (outer, bias) if part is not None)
            highest = lax.stop_gradient(jnp.max(exponent))
            mass = w * jnp.exp(exponent - highest)
        own = None if related is None else self.own(x, y, mass, precision, related)
        if own is None:
            charges = mass[:, None] * jnp.column_stack([v, jnp.ones_like(mass)])
            found = unpaired(self.convolve(x, y, paired(charges), precision), charges.shape[1])
            own = found[:, -1], found[:, :-1]
        return ExponentialSums(shift + highest, *own), jnp.sum(mass), reaches

    def own(
        self,
        x: Float[Array, "m k"],
        y: Float[Array, "n k"],
        mass: Float[Array, " n"],
        precision: float,
        related: Related,
    ) -> tuple[Float[Array, " m"], Float[Array, "m p"]] | None:
        """Total and weighted values where values are the keys under a matrix, by fewer transforms; None where the kind has no
        such way."""
        return None

    @staticmethod
    def errors(modes: float, dtype: Any, tolerance: float = 0.0) -> tuple[float, float]:
        """What is asked of the transforms for sums to a tolerance, and δ: what the sums of unit mass then get wrong,
        truncation and rounding."""
        eps = float(jnp.finfo(dtype).eps)
        precision = max(PRECISION, 10 * eps, SHARE * tolerance)
        return precision, precision + eps * modes


@compiled
def _exponential(
    sums: AbstractSpectral, q: Any, k: Any, v: Any, w: Any, bias: Any, related: Related | None
) -> ExponentialSums:
    """In float64 wherever there is one, unless float32 leaves room."""
    wide = sums.dtype(q.dtype)
    parts = jax.tree.map(lambda part: part.astype(wide), (q, k, v, w, bias, related))
    return jax.tree.map(lambda part: part.astype(q.dtype), sums.guarded(*parts))


def _counts(m: int) -> list[int]:
    """How many rows may be summed again: none, few, more, ..., all."""
    few = [ROWS * 32**i for i in range(math.ceil(math.log(max(m / ROWS, 1), 32)))]
    return [0, *(count for count in few if count < m), m]


def resummed(
    sums: ExponentialSums, low: Bool[Array, " m"], everything: Bool[Array, ""], dense: Callable[[Any], ExponentialSums]
) -> ExponentialSums:
    """The sums, with some rows summed again.

    **Arguments**

    - `sums`: all sums.
    - `low`: the rows that are not accurate enough.
    - `everything`: whether none is.
    - `dense`: the sums of given rows, or, given None, of all.

    **Returns** sums of which every row is accurate.
    """
    m, counts = len(low), _counts(len(low))

    def again(count: int, sums: ExponentialSums) -> ExponentialSums:
        """At most `count` rows are low."""
        if count == 0:
            return sums
        if count == m:
            return dense(None)
        rows = jnp.nonzero(low, size=count, fill_value=0)[0]
        place = jnp.where(jnp.arange(count) < jnp.sum(low), rows, m)  # what is not needed is written nowhere
        return jax.tree.map(lambda old, new: old.at[place].set(new, mode="drop"), sums, dense(rows))

    def some(sums: ExponentialSums) -> ExponentialSums:
        level = jnp.searchsorted(jnp.asarray(counts), jnp.where(everything, m, jnp.sum(low)))
        return lax.switch(of_a_batch(level), [functools.partial(again, count) for count in counts], sums)

    return lax.cond(of_a_batch(everything | jnp.any(low)), some, lambda sums: sums, sums)


@jax.custom_batching.custom_vmap
def of_a_batch(choice: Array) -> Array:
    """Which branch is taken. Under vmap the whole batch takes the same, that of the largest number: a choice that differed among
    members would make all of them compute every branch."""
    return choice


@of_a_batch.def_vmap
def _of_a_batch(size: int, batched: Any, choice: Array) -> tuple[Array, bool]:
    return of_a_batch(jnp.max(choice)), False


def paired(charges: Float[Array, "n c"]) -> Complex[Array, "b n"]:
    """Real charges two by two as complex ones: a real kernel keeps real and imaginary parts apart."""
    even = charges if charges.shape[1] % 2 == 0 else jnp.pad(charges, ((0, 0), (0, 1)))
    return lax.complex(even[:, 0::2], even[:, 1::2]).T


def unpaired(sums: Complex[Array, "b m"], count: int) -> Float[Array, "m c"]:
    """The inverse of `paired`, for so many charges."""
    return jnp.stack([jnp.real(sums), jnp.imag(sums)], axis=1).reshape(-1, sums.shape[1]).T[:, :count]


def coarse(modes: float) -> int:
    """Rounded up to one of few numbers of modes, 12% apart, so that neighbouring β share a compiled program."""
    step = max(4, 2 ** (int(math.log2(max(modes, 1))) - 3))
    return step * math.ceil(modes / step)
