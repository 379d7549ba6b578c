"""Fewer tokens than dimensions: everything happens in their span."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from tokenfield.summation.base import AbstractVariant
from tokenfield.summation.dense import Dense


class Span(AbstractVariant):
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

    @property
    def other(self) -> Dense:
        return Dense()
