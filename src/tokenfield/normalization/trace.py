"""One scale for all tokens: the measure is kept at total variance 1."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenfield import _checks as check
from tokenfield.attention.base import AbstractAttention, Points
from tokenfield.attention.reductions import on_gaussians
from tokenfield.errors import InputError
from tokenfield.measures import Gaussian, Tokens
from tokenfield.normalization.base import AbstractNormalization, Gamma, moved


class TraceNorm(AbstractNormalization):
    r"""A LayerNorm of the whole measure, Σ ↦ Σ/tr Σ: the flow in R^d with one common scale taken out,
    $\dot x = \Gamma_\mu(x) - λx$ with λ such that the total variance tr Σ stays 1  [castin2025].

    It keeps Gaussians Gaussian and, like LayerNorm, lets nothing blow up. A start is first brought to total variance 1; one
    with all mass at a point is refused. Its layer is $x \mapsto x + \text{step}\cdot\Gamma(x)$, divided by the new √(tr Σ).

    >>> TraceNorm().settle(Tokens([[3.0, 0.0], [-3.0, 0.0]])).x.tolist()
    [[1.0, 0.0], [-1.0, 0.0]]
    """

    @property
    def takes_noise(self) -> bool:
        return False

    def reads(self, mu: Tokens) -> Tokens:
        return mu

    def velocity(self, t: Float[Array, ""], mu: Tokens, x: Points, gamma: Gamma) -> Float[Array, "m d"]:
        field = gamma(mu, None)
        spread = mu.x - mu.mean
        λ = jnp.sum(mu.w[:, None] * spread * field) / jnp.sum(mu.w[:, None] * spread**2)
        return field - λ * mu.x if x is None else gamma(mu, x) - λ * x

    def layer(self, t: Float[Array, ""], step: Float[Array, ""], mu: Tokens, gamma: Gamma) -> Tokens:
        return self.settle(mu.with_points(mu.x + step * gamma(mu, None)))

    def settle(self, mu: Any) -> Any:
        _refuse_points(mu.variance)
        return mu.normalized

    @property
    def keeps_gaussians(self) -> bool:
        return True

    def gaussian(
        self, t: Float[Array, ""], mean: Float[Array, " d"], L: Float[Array, "d k"], attention: AbstractAttention
    ) -> tuple[Float[Array, " d"], Float[Array, "d k"]]:
        middle, slope = on_gaussians(attention).gaussian(mean, L)
        λ = jnp.sum(L * slope) / jnp.sum(L**2)
        return middle - λ * mean, slope - λ * L

    def gaussian_layer(
        self, t: Float[Array, ""], step: Float[Array, ""], mu: Gaussian, attention: AbstractAttention
    ) -> Gaussian:
        L = mu.factor
        mean, slope = on_gaussians(attention).gaussian(mu.mean, L)
        return self.settle(moved(mu, L, step * mean, step * slope))


def _refuse_points(variance: Array) -> None:
    if not check.traced(variance) and not bool(np.all(np.asarray(variance) > 0)):
        raise InputError("TraceNorm divides by the total variance, but all mass lies at one point. Use Free().")
