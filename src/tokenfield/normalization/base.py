"""What a normalization is: how the field moves a token."""

import abc
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from tokenfield.measures import Tokens

Field = Callable[[Tokens, Float[Array, "m d"]], Float[Array, "m d"]]
"""Γ: a measure and points to the field at these points."""


class AbstractNormalization(eqx.Module):
    """A normalization scheme: what attention reads, and how a token answers the field."""

    @abc.abstractmethod
    def reads(self, mu: Tokens) -> Tokens:
        """The measure that attention sees."""

    @abc.abstractmethod
    def velocity(self, t: Float[Array, ""], mu: Tokens, x: Float[Array, "m d"], gamma: Field) -> Float[Array, "m d"]:
        """ẋ at the points x of the flow that μ generates."""

    @abc.abstractmethod
    def settle(self, mu: Tokens) -> Tokens:
        """The nearest state that the scheme allows: how a run starts, and what it returns. Refuses what has none."""


class AbstractLayerNorm(AbstractNormalization):
    r"""Schemes on directions: x = rθ with |θ| = 1, a = Γ(θ) on the directions, and
    $\dot θ = P_θ a / s$, $\dot r = $ growth, hence $\dot x = r P_θ a / s + \dot r θ$  [rigollet2025, section 6.2].

    Everything is evaluated at θ = x/|x| and the tangent part is multiplied by r: the equation of θ is then exact
    whatever |x| has drifted to, and the radial direction is neutral. (Projecting with an unnormalized x would add a
    stiff radial mode that caps the step near 3/rate for ever.)
    """

    @abc.abstractmethod
    def speed(self, t: Float[Array, ""], r: Float[Array, " m"], a: Float[Array, "m d"]) -> Float[Array, " m"] | float:
        """s: what divides the tangent velocity."""

    @abc.abstractmethod
    def growth(
        self, t: Float[Array, ""], radial: Float[Array, " m"], a: Float[Array, "m d"]
    ) -> Float[Array, " m"] | float:
        """ṙ, from the radial part <θ, a> of the field."""

    def reads(self, mu: Tokens) -> Tokens:
        return mu.at(mu.directions)

    def velocity(self, t: Float[Array, ""], mu: Tokens, x: Float[Array, "m d"], gamma: Field) -> Float[Array, "m d"]:
        r = jnp.linalg.norm(x, axis=1)
        θ = x / r[:, None]
        a = gamma(self.reads(mu), θ)
        radial = jnp.sum(θ * a, axis=1)
        tangent = a - radial[:, None] * θ
        angular = (r / self.speed(t, r, a))[:, None] * tangent
        growth = self.growth(t, radial, a)
        return angular + jnp.broadcast_to(growth, r.shape)[:, None] * θ
