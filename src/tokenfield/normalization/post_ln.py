"""Post-LN: the sphere."""

from jaxtyping import Array, Float

from tokenfield.measures import Tokens
from tokenfield.normalization.base import AbstractLayerNorm


class PostLN(AbstractLayerNorm):
    r"""Tokens live on the unit sphere: $\dot θ_i = P_{θ_i} a_i$, s = 1, ṙ = 0  [rigollet2025, equation (SA)].

    A start off the sphere is first normalized, x ↦ x/|x|; zero vectors are refused.

    >>> PostLN()
    PostLN()
    """

    def speed(self, t: Float[Array, ""], r: Float[Array, " m"], a: Float[Array, "m d"]) -> float:
        return 1.0

    def growth(self, t: Float[Array, ""], radial: Float[Array, " m"], a: Float[Array, "m d"]) -> float:
        return 0.0

    def settle(self, mu: Tokens) -> Tokens:
        return mu.at(mu.directions)
