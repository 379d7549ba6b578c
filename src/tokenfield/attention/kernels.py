"""The kernel e^{s(x, y)} between n queries and n keys, as the solver of Sinkhorn's equations asks for it: by products."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from tokenfield.summation import AbstractSummation

KEPT = 64 * 2**20
"""Bytes that a kernel may take to be kept: n ≤ 2896 in float64, 4096 in float32. Larger ones are summed anew in every round."""

RANGE = {8: 100.0, 4: 25.0}
"""How far potentials may move before a kept kernel is made anew, by bytes of a number: what e^{-2 RANGE} makes of the least number
must stay below rounding."""


class Kept(eqx.Module):
    """A kernel in memory, E_ij = e^{t s_ij + base_j - top_i} ≤ 1, finite at any β. A half round is one product with E, which is
    made anew where potentials have moved away from `base` [schmitzer2019]."""

    E: Float[Array, "n n"]
    top: Float[Array, " n"]
    base: Float[Array, " n"]
    t: Float[Array, ""]
    w: Float[Array, " n"]

    def __init__(self, q: Any, k: Any, w: Any, t: Any, log_g: Any):
        self.base, self.t, self.w = lax.stop_gradient(log_g), t, w
        ones = jnp.ones((len(q), 1), q.dtype)  # the base is one more coordinate, which spares a pass over all pairs
        scores = jnp.concatenate([t * q, ones], axis=1) @ jnp.column_stack([k, self.base]).T
        self.top = lax.stop_gradient(jnp.max(scores, axis=1))
        self.E = jnp.exp(scores - self.top[:, None])

    def covers(self, t: Float[Array, ""], log_g: Float[Array, " n"]) -> Bool[Array, ""]:
        """Whether these potentials lie in its range."""
        return (t == self.t) & ~(jnp.max(jnp.abs(log_g - self.base)) > RANGE[log_g.dtype.itemsize])

    def rows(self, log_g: Float[Array, " n"]) -> Float[Array, " n"]:
        """log f = -log ∫ e^s g dμ(y)."""
        return -self.top - jnp.log(_times(self.E, self._right(log_g)))

    def columns(self, log_f: Float[Array, " n"]) -> Float[Array, " n"]:
        """log g = -log ∫ e^s f dμ(x)."""
        return self.base - jnp.log(_times(self.E.T, self._left(log_f) * self.w))

    def forward(self, v: Float[Array, " n"], log_g: Any, log_f: Any) -> Float[Array, " n"]:
        """P v = ∫ k(x, y) v(y) dμ(y)."""
        return self._left(log_f) * _times(self.E, self._right(log_g) * v)

    def backward(self, v: Float[Array, " n"], log_g: Any, log_f: Any) -> Float[Array, " n"]:
        """P* v = ∫ k(x, y) v(x) dμ(x)."""
        return jnp.exp(log_g - self.base) * _times(self.E.T, self._left(log_f) * self.w * v)

    def matrix(self, log_g: Any, log_f: Any) -> Float[Array, "n n"]:
        """P itself."""
        return self._left(log_f)[:, None] * self.E * self._right(log_g)

    def _left(self, log_f: Any) -> Float[Array, " n"]:
        return jnp.exp(log_f + self.top)

    def _right(self, log_g: Any) -> Float[Array, " n"]:
        return self.w * jnp.exp(log_g - self.base)


def _times(E: Float[Array, "n n"], v: Float[Array, " n"]) -> Float[Array, " n"]:
    return E @ v


class Summed(eqx.Module):
    """A kernel that no memory holds: every half round is a sum over tokens, by whatever summation serves."""

    q: Float[Array, "n k"]
    k: Float[Array, "n k"]
    w: Float[Array, " n"]
    t: Float[Array, ""]
    summation: AbstractSummation

    def covers(self, t: Float[Array, ""], log_g: Float[Array, " n"]) -> Bool[Array, ""]:
        return t == self.t

    def rows(self, log_g: Float[Array, " n"]) -> Float[Array, " n"]:
        sums = self._sums(jnp.zeros((len(self.w), 0), self.w.dtype), log_g)
        return -sums.shift - jnp.log(sums.total)

    def columns(self, log_f: Float[Array, " n"]) -> Float[Array, " n"]:
        sums = self._transposed(jnp.zeros((len(self.w), 0), self.w.dtype), log_f)
        return -sums.shift - jnp.log(sums.total)

    def forward(self, v: Float[Array, " n"], log_g: Any, log_f: Any) -> Float[Array, " n"]:
        return self._sums(v[:, None], log_g).average[:, 0]

    def backward(self, v: Float[Array, " n"], log_g: Any, log_f: Any) -> Float[Array, " n"]:
        sums = self._transposed(v[:, None], log_f)
        return jnp.exp(log_g + sums.shift) * sums.weighted[:, 0]

    def _sums(self, values: Float[Array, "n p"], log_g: Any) -> Any:
        return self.summation.exponential(self.t * self.q, self.k, values, self.w, bias=log_g)

    def _transposed(self, values: Float[Array, "n p"], log_f: Any) -> Any:
        """Keys ask queries."""
        return self.summation.transposed().exponential(self.k, self.t * self.q, values, self.w, bias=log_f)


class Kernel(eqx.Module):
    """e^{<q_i, k_j>} between tokens of weights w, kept where one device visits all pairs and `KEPT` allows it."""

    q: Float[Array, "n k"]
    k: Float[Array, "n k"]
    w: Float[Array, " n"]
    summation: AbstractSummation

    @property
    def kept(self) -> bool:
        return self.summation.keepable and self.w.dtype.itemsize * len(self.w) ** 2 <= KEPT

    def at(self, t: Float[Array, ""], log_g: Float[Array, " n"]) -> Kept | Summed:
        """The kernel of scores t <q, k>, for potentials about these."""
        if self.kept:
            return Kept(self.q, self.k, self.w, t, log_g)
        return Summed(self.q, self.k, self.w, t, self.summation.with_own_term())
