"""Unnormalized attention, the kernel of the USA model."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from tokenfield._front import front_door
from tokenfield._types import Matrix, Scalar
from tokenfield.attention.base import Coupling, Points
from tokenfield.attention.dot_product import AbstractExponential, dot_product_parameters
from tokenfield.attention.matrices import scale
from tokenfield.harmonics import AbstractHarmonics, Eigenvalues, kernel_eigenvalues
from tokenfield.measures import Equiangular, Tokens
from tokenfield.parameters import Parameter
from tokenfield.summation import AbstractSummation


class Unnormalized(AbstractExponential):
    r"""$\Gamma_\mu(x) = \int e^{\beta\langle Qx, Ky\rangle} V y \, d\mu(y)$.

    [rigollet2025, equation (USA)]. With `scaled=True` time is measured in units of $e^{-\beta}$: the kernel is
    $e^{\beta(\langle Qx, Ky\rangle - 1)}$: on the sphere with Q = K = I it never exceeds 1, so any β is finite, where
    the plain kernel leaves double precision near β = 700. The trajectories are the same; only the clock differs.

    **Arguments**

    - `beta`, `Q`, `K`, `V`, `A`: as for `Softmax`.
    - `scaled`: whether time is measured in units of $e^{-\beta}$.

    **Raises** `InputError` as `Softmax` does.

    >>> mu = Tokens([[1.0, 0.0], [0.0, 1.0]])
    >>> Unnormalized(beta=0.0)(mu, [1.0, 0.0]).tolist()
    [0.5, 0.5]
    >>> Unnormalized(beta=1e4, scaled=True)(mu, [1.0, 0.0]).tolist()
    [0.5, 0.0]
    """

    beta: Parameter
    Q: Parameter
    K: Parameter
    V: Parameter
    A: Parameter
    scaled: bool = eqx.field(static=True)

    @front_door
    def __init__(
        self,
        beta: Scalar = 1.0,
        Q: Matrix = None,
        K: Matrix = None,
        V: Matrix = None,
        A: Matrix = None,
        scaled: bool = False,
    ):
        self.beta, self.Q, self.K, self.V, self.A = dot_product_parameters(beta, Q, K, V, A)
        self.scaled = bool(scaled)

    @property
    def unit(self) -> Array:
        """Logarithm of the unit of time: β when scaled, else 0."""
        return self.beta if self.scaled else jnp.zeros_like(self.beta)

    @property
    def superposes(self) -> bool:
        return True

    def weigh(
        self, mu: Tokens, x: Points, values: Float[Array, "n p"], summation: AbstractSummation
    ) -> Float[Array, "m p"]:
        sums = self.sums(mu, x, values, summation)
        return jnp.exp(sums.shift - self.unit)[:, None] * sums.weighted

    def coupling(self) -> Coupling:
        return self.couple("usa", self.beta if self.scaled else 0.0)

    def equiangular(self, mu: Equiangular) -> tuple[Float[Array, ""], Float[Array, ""]]:
        kernel = lambda cosine: scale(self.V, jnp.exp(self.strength() * cosine * mu.r**2 - self.unit) / mu.n)
        return kernel(1.0), kernel(mu.rho)

    def spectrum(self, d: int, degree: int) -> Eigenvalues:
        return kernel_eigenvalues(self.strength(), d, degree)

    def potential(
        self, f: Float[Array, "*batch size"], basis: AbstractHarmonics, spectrum: Eigenvalues
    ) -> Float[Array, "*batch size"]:
        """φ = (V/β) ∫ e^{β<x,y>} dμ(y): coefficients V f_j c_l/β."""
        return scale(self.V, jnp.exp(spectrum.log_first - self.unit)) * spectrum.slope[basis.degrees] * f

    def interaction(self, f: Float[Array, "*batch size"], basis: AbstractHarmonics) -> Float[Array, "*batch"]:
        """∬ W dμ dμ with W = V (e^{β<x,y>} - 1)/β, which is V <x,y> at β = 0."""
        spectrum, β = self.spectrum(basis.d, basis.degree), self.strength()
        safe = jnp.where(β == 0, 1.0, β)
        mean = scale(self.V, jnp.exp(-self.unit) * jnp.where(β == 0, 0.0, jnp.expm1(spectrum.log_first) / safe))
        return mean + jnp.sum(self.potential(f, basis, spectrum) * f, axis=-1)
