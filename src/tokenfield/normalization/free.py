"""No normalization, and the same seen in moving coordinates."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenfield.attention.base import AbstractAttention, Points
from tokenfield.attention.matrices import apply, scale
from tokenfield.attention.reductions import on_equiangular, on_gaussians, rescalable
from tokenfield.errors import InputError
from tokenfield.measures import Equiangular, Tokens
from tokenfield.normalization.base import AbstractNormalization, Gamma, Places
from tokenfield.parameters import is_scheduled


class Free(AbstractNormalization):
    r"""No normalization: tokens move in all of R^d, $\dot x_i = \Gamma_\mu(x_i)$  [geshkovski2023, equation (1.1)].

    Its layer is $x \mapsto x + \text{step}\cdot\Gamma(x)$.

    >>> Free()
    Free()
    """

    def reads(self, mu: Tokens) -> Tokens:
        return mu

    def velocity(self, t: Float[Array, ""], mu: Tokens, x: Points, gamma: Gamma) -> Float[Array, "m d"]:
        return gamma(mu, x)

    def layer(self, t: Float[Array, ""], step: Float[Array, ""], mu: Tokens, gamma: Gamma) -> Tokens:
        return mu.with_points(mu.x + step * self.velocity(t, mu, None, gamma))

    def settle(self, mu: Any) -> Any:
        return mu

    def places(self, k: int) -> Places:
        return Places()

    @property
    def keeps_gaussians(self) -> bool:
        return True

    def gaussian(
        self, t: Float[Array, ""], mean: Float[Array, " d"], L: Float[Array, "d k"], attention: AbstractAttention
    ) -> tuple[Float[Array, " d"], Float[Array, "d k"]]:
        return on_gaussians(attention).gaussian(mean, L)

    def equiangular(
        self, t: Float[Array, ""], mu: Equiangular, attention: AbstractAttention
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        return _linear_in_tokens(*on_equiangular(attention).equiangular(mu), mu)

    def equiangular_layer(
        self, t: Float[Array, ""], step: Float[Array, ""], mu: Equiangular, attention: AbstractAttention
    ) -> Equiangular:
        p, q = on_equiangular(attention).equiangular(mu)
        return mu.mixed(mu.r * (1 + step * p), mu.r * step * q)


def _linear_in_tokens(p: Array, q: Array, mu: Equiangular) -> tuple[Array, Array]:
    """ẋ_i = p x_i + q Σ_{j≠i} x_j makes u̇ = 2nq and ṙ = r(p + (n-1)qρ)."""
    return 2 * mu.n * q, mu.r * (p + (mu.n - 1) * q * mu.rho)


class Rescaled(AbstractNormalization):
    r"""The free flow in the moving coordinates $z = e^{-tV} x$  [geshkovski2023]:
    $\dot z_i = \sum_j P_{ij}(t)\, V (z_j - z_i)$ with $P_{ij} \propto w_j e^{\beta\langle Q e^{tV} z_i, K e^{tV} z_j\rangle}$.

    The states of a run are z, and $x = e^{tV} z$. V is the attention's own, a constant matrix of shape (d, d) or a number. An
    MLP around attention acts as $W σ(\sum_j P_{ij} V (z_j - z_i))$; a flow refuses one added to attention, and a V that changes
    with depth.

    >>> Rescaled()
    Rescaled()
    """

    @property
    def timeless(self) -> bool:
        return False

    @property
    def keeps_together(self) -> bool:
        return True

    @property
    def takes_noise(self) -> bool:
        return False

    def scores(self, attention: AbstractAttention, d: int) -> list[tuple[np.ndarray, np.ndarray]] | None:
        return rescalable(attention).rescaled_scores(d)

    def reads(self, mu: Tokens) -> Tokens:
        return mu

    def attends(self, t: Float[Array, ""], attention: AbstractAttention) -> AbstractAttention:
        """In moving coordinates the scores are s(e^{tV}z, e^{tV}z')."""
        return rescalable(attention).precompose(_growth(t, rescalable(attention).V))

    def velocity(self, t: Float[Array, ""], mu: Tokens, x: Points, gamma: Gamma) -> Float[Array, "m d"]:
        """The drift -Vz is taken out of the field."""
        z = mu.x if x is None else x
        field = self.attends(t, gamma.attention).field(mu, x, gamma.summation)
        return gamma.block(field - apply(rescalable(gamma.attention).V, z), z)

    def layer(self, t: Float[Array, ""], step: Float[Array, ""], mu: Tokens, gamma: Gamma) -> Tokens:
        return mu.with_points(mu.x + step * self.velocity(t, mu, None, gamma))

    def settle(self, mu: Any) -> Any:
        return mu

    @property
    def keeps_gaussians(self) -> bool:
        return True

    def gaussian(
        self, t: Float[Array, ""], mean: Float[Array, " d"], L: Float[Array, "d k"], attention: AbstractAttention
    ) -> tuple[Float[Array, " d"], Float[Array, "d k"]]:
        V = rescalable(attention).V
        middle, slope = on_gaussians(self.attends(t, attention)).gaussian(mean, L)
        return middle - apply(V, mean), slope - apply(V, L.T).T

    def equiangular(
        self, t: Float[Array, ""], mu: Equiangular, attention: AbstractAttention
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        return _linear_in_tokens(*self._pull(t, mu, attention), mu)

    def equiangular_layer(
        self, t: Float[Array, ""], step: Float[Array, ""], mu: Equiangular, attention: AbstractAttention
    ) -> Equiangular:
        p, q = self._pull(t, mu, attention)
        return mu.mixed(mu.r * (1 + step * p), mu.r * step * q)

    def _pull(self, t: Float[Array, ""], mu: Equiangular, attention: AbstractAttention) -> tuple[Array, Array]:
        """(p, q) of the velocity p z_i + q Σ_{j≠i} z_j."""
        p, q = on_equiangular(self.attends(t, attention)).equiangular(mu)
        return p - scale(rescalable(attention).V, 1.0), q

    def check(self, attention: AbstractAttention, d: int, block: str | None) -> None:
        if is_scheduled(rescalable(attention).V):
            raise InputError("Rescaled coordinates e^{-tV} x need one constant V, that of the attention.")
        if block == "added":
            raise InputError(
                "An MLP added to attention does not commute with e^{tV}; use MLP(..., around=True) or Free()."
            )


def _growth(t: Float[Array, ""], V: Array | None) -> Array:
    """e^{tV}."""
    if V is None:
        return jnp.exp(t)
    return jnp.exp(t * V) if V.ndim == 0 else jax.scipy.linalg.expm(t * V)
