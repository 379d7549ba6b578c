"""Attention made of attention: several heads, and masks by position."""

import functools
import operator
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._types import Attention, Attentions, Matrix, Scalar, Self
from tokenfield.attention.base import DENSE, AbstractAttention, Points
from tokenfield.attention.matrices import apply, columns
from tokenfield.attention.reductions import (
    on_densities,
    on_equiangular,
    on_gaussians,
    placed,
    rescalable,
    with_energy,
)
from tokenfield.errors import InputError
from tokenfield.harmonics import AbstractHarmonics
from tokenfield.measures import Equiangular, Tokens
from tokenfield.parameters import Parameter, fits, matrix_parameter
from tokenfield.summation import AbstractSummation, ExponentialSums, Halving
from tokenfield.summation.base import AbstractVariant, inner


class MultiHead(AbstractAttention):
    r"""$\Gamma_\mu = \sum_h \Gamma^{(h)}_\mu$; or, with an output matrix, $W_O\,[\Gamma^{(1)}_\mu; \dots; \Gamma^{(H)}_\mu]$.

    Heads that are summed return tokens, V of shape (d, d). Heads that are concatenated may have V of shape (d_h, d)
    [vaswani2017].

    **Arguments**

    - `heads`: a list of attentions.
    - `output`: the matrix W_O of shape (d, Σ d_h), where heads are concatenated; left out, they are summed.

    **Raises** `InputError` where a head is no attention, or the output matrix is not finite.

    >>> from tokenfield.attention import Softmax
    >>> mu = Tokens([[1.0, 0.0], [0.0, 1.0]])
    >>> MultiHead([Softmax(0.0), Softmax(0.0)])(mu).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    >>> MultiHead([Softmax(V=[[1.0, 0.0]]), Softmax(V=[[0.0, 1.0]])], output=[[1.0, 0.0], [0.0, 1.0]])(mu).shape
    (2, 2)
    """

    heads: tuple[AbstractAttention, ...]
    output: Parameter

    @front_door
    def __init__(self, heads: Attentions, output: Matrix = None):
        heads = tuple(heads) if isinstance(heads, list | tuple) else ()
        if not heads or not all(isinstance(head, AbstractAttention) for head in heads):
            raise InputError(
                "MultiHead takes a list of at least one attention, e.g. MultiHead([Softmax(1.0), Softmax(9.0)])."
            )
        self.heads, self.output = heads, matrix_parameter("output", output)

    def field(self, mu: Tokens, x: Points, summation: AbstractSummation) -> Float[Array, "m p"]:
        fields = [head.field(mu, x, summation) for head in self.heads]
        return total(fields) if self.output is None else apply(self.output, jnp.concatenate(fields, axis=1))

    def matrix(self, mu: Tokens, x: Points, summation: AbstractSummation = DENSE) -> Float[Array, "heads m n"]:
        """One attention matrix per head."""
        return jnp.stack([head.matrix(mu, x, summation) for head in self.heads])

    def scores(self, d: int) -> list[tuple[np.ndarray, np.ndarray]] | None:
        found = [head.scores(d) for head in self.heads]
        return None if any(part is None for part in found) else [pair for part in found for pair in part or []]

    @property
    def halved(self) -> bool:
        return any(head.halved for head in self.heads)

    def seen(self, mu: Tokens) -> float | None:
        found = [head.seen(mu) for head in self.heads]
        return None if any(part is None for part in found) else max(part for part in found if part is not None)

    @property
    def isotropic(self) -> bool:
        return self.output is None and all(head.isotropic for head in self.heads)

    @property
    def mean_field(self) -> bool:
        return all(head.mean_field for head in self.heads)

    @property
    def superposes(self) -> bool:
        return all(head.superposes for head in self.heads)

    @property
    def neighbours_move_together(self) -> bool:
        return self.output is None and all(h.mean_field or h.neighbours_move_together for h in self.heads)

    @property
    def own_term_is_radial(self) -> bool:
        return self.output is None and all(head.own_term_is_radial for head in self.heads)

    @property
    def maskable(self) -> str | None:
        return next((head.maskable for head in self.heads if head.maskable is not None), None)

    @property
    def scored(self) -> bool:
        return all(head.scored for head in self.heads)

    def gaussian(
        self, mean: Float[Array, " d"], L: Float[Array, "d k"], directions: Float[Array, "d j"] | None = None
    ) -> tuple[Float[Array, " p"], Float[Array, "p j"]]:
        """Sums of affine fields are affine; so is what an output matrix makes of them."""
        middles, slopes = zip(*(on_gaussians(head).gaussian(mean, L, directions) for head in self.heads), strict=True)
        if self.output is None:
            return total(middles), total(slopes)
        return apply(self.output, jnp.concatenate(middles)), columns(self.output, jnp.concatenate(slopes))

    def equiangular(self, mu: Equiangular) -> tuple[Float[Array, ""], Float[Array, ""]]:
        if self.output is not None:
            raise InputError("Heads that are concatenated break the symmetry of equiangular tokens; sum them instead.")
        p, q = zip(*(on_equiangular(head).equiangular(mu) for head in self.heads), strict=True)
        return total(p), total(q)

    def spectrum(self, d: int, degree: int) -> Any:
        if self.output is not None:
            raise InputError("Heads that are concatenated have no potential on densities; sum them instead.")
        return [on_densities(head).spectrum(d, degree) for head in self.heads]

    def potential(
        self, f: Float[Array, "*batch size"], basis: AbstractHarmonics, spectrum: Any
    ) -> Float[Array, "*batch size"]:
        pairs = zip(self.heads, spectrum, strict=True)
        return total([on_densities(head).potential(f, basis, part) for head, part in pairs])

    def interaction(self, f: Float[Array, "*batch size"], basis: AbstractHarmonics) -> Float[Array, "*batch"]:
        return total([with_energy(head).interaction(f, basis) for head in self.heads])

    def check(self, d: int) -> int:
        rows = [head.check(d) for head in self.heads]
        if self.output is not None:
            return fits("output", self.output, sum(rows))
        if set(rows) != {d}:
            raise InputError(
                f"Heads that are summed must return tokens, V of shape (d, d) = ({d}, {d}), but return {rows} entries. "
                "To concatenate them, give MultiHead an output matrix of shape (d, Σ rows)."
            )
        return d

    def asked_from(self, s: Any) -> "MultiHead":
        return MultiHead([placed(head, s) for head in self.heads], self.output)

    @property
    def remembers(self) -> bool:
        return any(head.remembers for head in self.heads)

    def remember(self, mu: Tokens, memory: Any, summation: AbstractSummation = DENSE) -> Any:
        memory = [None] * len(self.heads) if memory is None else memory
        return [head.remember(mu, part, summation) for head, part in zip(self.heads, memory, strict=True)]

    def recall(self, memory: Any) -> Self:
        if memory is None:
            return self
        heads = tuple(head.recall(part) for head, part in zip(self.heads, memory, strict=True))
        return eqx.tree_at(lambda a: a.heads, self, heads)

    def healthy(self, memory: Any) -> Bool[Array, ""] | bool:
        parts = [] if memory is None else zip(self.heads, memory, strict=True)
        return jnp.all(jnp.array([head.healthy(part) for head, part in parts], dtype=bool))

    def unhealthy(self, memory: Any) -> str:
        parts = zip(self.heads, memory, strict=True)
        return next(head.unhealthy(part) for head, part in parts if not bool(head.healthy(part)))

    def asks(self, tolerance: Any) -> Any:
        return min(head.asks(tolerance) for head in self.heads)


def total(parts: Sequence[Array]) -> Array:
    return functools.reduce(operator.add, parts)


class Causal(AbstractAttention):
    r"""Masked attention: a token at position σ sees the tokens at τ ≤ σ, itself included  [castin2025].

    Positions are the measure's `s`, or the order of the tokens when it has none.

    **Arguments**

    - `attention`: any kind that makes sense with a mask.
    - `window`: see only σ - window ≤ τ.
    - `alibi`: add -alibi·(σ - τ) to the scores [press2022].
    - `rotary`: rotate pairs of coordinates of queries and keys by angles rotary·σ·10000^{-2i/k}, so that scores depend on
      σ - τ [su2024]; positions usually differ by 1/n, so rotary ≈ n.

    **Raises** `InputError` where what is wrapped is no attention, or a number is not finite.

    >>> from tokenfield.attention import Softmax
    >>> mu = Tokens([[1.0, 0.0], [0.0, 1.0]])
    >>> Causal(Softmax(0.0))(mu).tolist()          # the first feels only itself, the last feels all
    [[1.0, 0.0], [0.5, 0.5]]
    """

    attention: AbstractAttention
    window: Float[Array, ""] | None
    alibi: Float[Array, ""] | None
    rotary: Float[Array, ""] | None
    sigma: Float[Array, " m"] | None

    @front_door
    def __init__(self, attention: Attention, window: Scalar = None, alibi: Scalar = None, rotary: Scalar = None):
        if not isinstance(attention, AbstractAttention):
            raise InputError(
                f"Causal wraps an attention, e.g. Causal(Softmax(9.0)), but got {type(attention).__name__}."
            )
        self.attention = attention
        self.window = None if window is None else check.scalar("window", window)
        if self.window is not None and not check.traced(self.window) and float(self.window) < 0:
            raise InputError(f"Argument `window` must not be negative, but is {float(self.window):g}.")
        self.alibi = None if alibi is None else check.scalar("alibi", alibi)
        self.rotary = None if rotary is None else check.scalar("rotary", rotary)
        self.sigma = None

    def field(self, mu: Tokens, x: Points, summation: AbstractSummation) -> Float[Array, "m p"]:
        return self.attention.field(mu, x, self._masked(mu, x, summation))

    def matrix(self, mu: Tokens, x: Points, summation: AbstractSummation = DENSE) -> Float[Array, "*heads m n"]:
        return self.attention.matrix(mu, x, self._masked(mu, x, summation))

    def _masked(self, mu: Tokens, x: Points, summation: AbstractSummation) -> AbstractSummation:
        τ = positions(mu)
        if x is not None and self.sigma is None:
            raise InputError("Causal attention at other points needs their positions: attention(mu, x, s=positions).")
        σ = τ if x is None or self.sigma is None else jnp.broadcast_to(self.sigma, len(x)).astype(τ.dtype)
        if x is None and self.halved and summation.halves:
            masked = Halving(summation, τ, self.window)  # pyright: ignore[reportArgumentType]  # one that halves is fast
        else:
            masked = summation.masked(σ, τ, self.window)
        return (
            masked if self.alibi is None and self.rotary is None else Positional(masked, σ, τ, self.alibi, self.rotary)
        )

    def check(self, d: int) -> int:
        if self.attention.maskable is not None:
            raise InputError(self.attention.maskable)
        if (self.alibi is not None or self.rotary is not None) and not self.attention.scored:
            raise InputError(
                "ALiBi and rotary scores go with softmax and unnormalized attention, not with "
                f"{type(self.attention).__name__}."
            )
        return self.attention.check(d)

    @property
    def isotropic(self) -> bool:
        return self.rotary is None and self.attention.isotropic

    @property
    def scored(self) -> bool:
        return self.attention.scored

    @property
    def neighbours_move_together(self) -> bool:
        """The later one sees one term more, its own, k(x, x) V x: radial where attention is a plain sum and V a number. (A
        softmax divides by more, too: both move in one direction, but not at one speed.)"""
        plain = self.window is None and self.alibi is None and self.rotary is None
        return plain and self.attention.superposes and self.attention.isotropic

    @property
    def halved(self) -> bool:
        """Rotary scores turn queries and keys by angles of their own: those are no tokens of one circle or sphere any more."""
        return self.rotary is None

    def seen(self, mu: Tokens) -> float | None:
        if self.window is None or check.traced((mu, self.window)):
            return None
        τ = np.sort(np.asarray(positions(mu)))
        return float(np.mean(np.arange(1, mu.n + 1) - np.searchsorted(τ, τ - np.asarray(self.window))))

    def scores(self, d: int) -> list[tuple[np.ndarray, np.ndarray]] | None:
        return self.attention.scores(d) if self.halved else None

    def asked_from(self, s: Any) -> "Causal":
        σ = check.finite("s", check.real_array("s", s, like="positions of the query points"))
        return eqx.tree_at(lambda a: a.sigma, self, σ, is_leaf=lambda leaf: leaf is None)

    def precompose(self, M: Any) -> "Causal":
        return eqx.tree_at(lambda a: a.attention, self, rescalable(self.attention).precompose(M))

    def rescaled_scores(self, d: int) -> list[tuple[np.ndarray, np.ndarray]] | None:
        return None

    @property
    def V(self) -> Parameter:
        return self.attention.V  # pyright: ignore[reportAttributeAccessIssue]  # without one, there are no such coordinates


class Positional(AbstractVariant):
    """Scores that know positions: ALiBi's bias and rotary embeddings, as changes of queries and keys."""

    summation: AbstractSummation
    σ: Float[Array, " m"]
    τ: Float[Array, " n"]
    alibi: Float[Array, ""] | None
    rotary: Float[Array, ""] | None

    @property
    def other(self) -> AbstractSummation:
        return self.summation

    def exponential(
        self, q: Any, k: Any, v: Any, w: Any, score: Any = inner, bias: Any = None, related: Any = None
    ) -> ExponentialSums:
        if self.rotary is not None:
            q, k = rotate(q, self.rotary * self.σ), rotate(k, self.rotary * self.τ)
        if self.alibi is None:
            return self.other.exponential(q, k, v, w, score, bias)
        tilt = self.alibi * self.τ  # of -alibi (σ - τ), one part is the key's, and the other all keys share
        sums = self.other.exponential(q, k, v, w, score, tilt if bias is None else bias + tilt)
        return sums._replace(shift=sums.shift - self.alibi * self.σ)

    def masked(self, σ: Any, τ: Any, window: Any) -> AbstractSummation:
        return Positional(self.other.masked(σ, τ, window), self.σ, self.τ, self.alibi, self.rotary)


def rotate(x: Float[Array, "n k"], angle: Float[Array, " n"]) -> Float[Array, "n k"]:
    """Coordinates (2i, 2i+1) turned by angle·10000^{-2i/k}; a last odd coordinate stays."""
    pairs = x.shape[1] // 2
    turn = angle[:, None] * 10000.0 ** (-2 * jnp.arange(pairs) / x.shape[1]).astype(x.dtype)
    even, odd = x[:, 0 : 2 * pairs : 2], x[:, 1 : 2 * pairs : 2]
    c, s = jnp.cos(turn), jnp.sin(turn)
    turned = jnp.stack([c * even - s * odd, s * even + c * odd], axis=-1).reshape(len(x), -1)
    return jnp.concatenate([turned, x[:, 2 * pairs :]], axis=1)


def positions(mu: Tokens) -> Float[Array, " n"]:
    """The positions of the tokens: their s, or their order on [0, 1]."""
    if mu.s is not None:
        return mu.s
    return jnp.linspace(0, 1, mu.n, dtype=mu.x.dtype) if mu.n > 1 else jnp.zeros(1, mu.x.dtype)
