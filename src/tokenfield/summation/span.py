"""Fewer tokens than dimensions: everything happens in their span."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from tokenfield.summation.base import AbstractSummation, ExponentialSums, inner
from tokenfield.summation.dense import Dense


class Span(AbstractSummation):
    """Dense sums in coordinates of the tokens' span. n tokens in R^d, n < d, span at most n dimensions, which a flow
    without matrices, offsets or noise never leaves: a run moves n × n numbers instead of n × d.

    >>> x = jnp.array([[3.0, 0.0, 4.0], [0.0, 0.0, 1.0]])
    >>> y, basis = Span.coordinates(x)
    >>> y.shape, bool(jnp.allclose(y @ basis, x))
    ((2, 2), True)
    """

    @staticmethod
    def coordinates(x: Float[Array, "n d"]) -> tuple[Float[Array, "n r"], Float[Array, "r d"]]:
        """y and an orthonormal basis B of the span with x = y B."""
        basis, triangle = jnp.linalg.qr(x.T)
        return triangle.T, basis.T

    def exponential(
        self,
        q: Float[Array, "m k"],
        k: Float[Array, "n k"],
        v: Float[Array, "n p"],
        w: Float[Array, " n"],
        score: Any = inner,
        bias: Float[Array, " n"] | None = None,
    ) -> ExponentialSums:
        return Dense().exponential(q, k, v, w, score, bias)

    def elementwise(self, function: Any, q: Any, k: Any, v: Any, w: Any) -> Any:
        return Dense().elementwise(function, q, k, v, w)

    def linear(self, q: Any, k: Any, v: Any, w: Any) -> Any:
        return Dense().linear(q, k, v, w)

    def masked(self, σ: Any, τ: Any, window: Any) -> AbstractSummation:
        return Dense().masked(σ, τ, window)

    def largest(self, q: Any, k: Any, v: Any, w: Any, alone: bool) -> Any:
        return Dense().largest(q, k, v, w, alone)
