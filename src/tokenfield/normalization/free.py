"""No normalization, and the same seen in moving coordinates."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tokenfield.attention.base import AbstractAttention, Points, apply
from tokenfield.errors import InputError
from tokenfield.measures import Tokens
from tokenfield.normalization.base import AbstractNormalization, Gamma
from tokenfield.parameters import is_scheduled


class Free(AbstractNormalization):
    r"""Tokens move in all of R^d: $\dot x_i = \Gamma_\mu(x_i)$  [geshkovski2023, equation (1.1)]. Layer: x + step·Γ(x).

    >>> Free()
    Free()
    """

    def reads(self, mu: Tokens) -> Tokens:
        return mu

    def velocity(self, t: Float[Array, ""], mu: Tokens, x: Points, gamma: Gamma) -> Float[Array, "m d"]:
        return gamma(mu, x)

    def layer(self, t: Float[Array, ""], step: Float[Array, ""], mu: Tokens, gamma: Gamma) -> Tokens:
        return mu.at(mu.x + step * self.velocity(t, mu, None, gamma))

    def settle(self, mu: Tokens) -> Tokens:
        return mu


class Rescaled(AbstractNormalization):
    r"""The free flow in the coordinates $z = e^{-tV} x$  [geshkovski2023]:
    $\dot z_i = \sum_j P_{ij}(t)\, V (z_j - z_i)$ with $P_{ij} \propto w_j e^{\beta\langle Q e^{tV} z_i, K e^{tV} z_j\rangle}$.

    The states of a run are z; x = e^{tV} z. V is the attention's own (constant, (d, d)). An MLP around attention acts as
    W σ(Σ_j P_ij V (z_j - z_i)).

    >>> Rescaled()
    Rescaled()
    """

    def reads(self, mu: Tokens) -> Tokens:
        return mu

    def velocity(self, t: Float[Array, ""], mu: Tokens, x: Points, gamma: Gamma) -> Float[Array, "m d"]:
        """In moving coordinates the scores are s(e^{tV}z, e^{tV}z'), and the drift -Vz is taken out of the field."""
        V, z = getattr(gamma.attention, "V", None), mu.x if x is None else x
        growth = jnp.exp(t) if V is None else jnp.exp(t * V) if V.ndim == 0 else jax.scipy.linalg.expm(t * V)
        field = gamma.attention.precompose(growth).field(mu, x, gamma.summation)
        return gamma.block(field - apply(V, z), z)

    def layer(self, t: Float[Array, ""], step: Float[Array, ""], mu: Tokens, gamma: Gamma) -> Tokens:
        return mu.at(mu.x + step * self.velocity(t, mu, None, gamma))

    def settle(self, mu: Tokens) -> Tokens:
        return mu

    def check(self, attention: AbstractAttention, d: int, block: str | None) -> None:
        attention.precompose(jnp.ones(()))
        if not hasattr(attention, "V") or is_scheduled(getattr(attention, "V", None)):
            raise InputError("Rescaled coordinates e^{-tV} x need one constant V, that of the attention.")
        if block == "added":
            raise InputError(
                "An MLP added to attention does not commute with e^{tV}; use MLP(..., around=True) or Free()."
            )
