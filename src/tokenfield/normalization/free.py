"""No normalization."""

from jaxtyping import Array, Float

from tokenfield.measures import Tokens
from tokenfield.normalization.base import AbstractNormalization, Field


class Free(AbstractNormalization):
    r"""Tokens move in all of R^d: $\dot x_i = \Gamma_\mu(x_i)$  [geshkovski2023, equation (1.1)].

    >>> Free()
    Free()
    """

    def reads(self, mu: Tokens) -> Tokens:
        return mu

    def velocity(self, t: Float[Array, ""], mu: Tokens, x: Float[Array, "m d"], gamma: Field) -> Float[Array, "m d"]:
        return gamma(mu, x)

    def settle(self, mu: Tokens) -> Tokens:
        return mu
