"""What a harmonic basis is: orthonormal functions on S^{d-1} that diagonalize the Laplacian and every attention kernel."""

import abc
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class AbstractHarmonics(abc.ABC):
    """Real functions e_0 = 1, e_1, ... on S^{d-1}, orthonormal in L²(σ), σ the uniform probability measure, up to a
    degree; and a grid whose quadrature integrates products of three of them exactly.

    Bases are small frozen dataclasses: equal ones are the same to JAX, and their tables are made once.
    """

    d: int
    degree: int
    most: ClassVar[int]
    """The highest degree that densities are raised to."""
    refinement: ClassVar[int] = 2
    """How many times more degrees a refinement takes: as many as are cheap, since every change is compiled anew."""
    variables: ClassVar[int] = 1
    """How many variables the functions depend on."""

    @property
    @abc.abstractmethod
    def degrees(self) -> np.ndarray:
        """The degree l of every basis function, shape (size,), increasing from 0 (ties allowed)."""

    @property
    @abc.abstractmethod
    def points(self) -> np.ndarray:
        """Grid points on S^{d-1}, shape (m, d)."""

    @property
    @abc.abstractmethod
    def weights(self) -> np.ndarray:
        """Quadrature weights of the grid points, shape (m,): positive, sum 1."""

    @abc.abstractmethod
    def synthesize(self, coefficients: Float[Array, "*batch size"]) -> Float[Array, "*batch m"]:
        """Values of Σ_j f_j e_j on the grid."""

    @abc.abstractmethod
    def analyze(self, values: Float[Array, "*batch m"]) -> Float[Array, "*batch size"]:
        """Coefficients ∫ f e_j dσ from values on the grid."""

    @abc.abstractmethod
    def evaluate(self, coefficients: Float[np.ndarray, " size"], x: Float[np.ndarray, "k d"]) -> np.ndarray:
        """Σ_j f_j e_j(x) at any points of the sphere, shape (k,). NumPy."""

    @abc.abstractmethod
    def moments(self, x: Float[np.ndarray, "n d"], w: Float[np.ndarray, " n"]) -> np.ndarray:
        """∫ e_j dμ for μ = Σ w_i δ_{x_i}, shape (size,). NumPy."""

    @abc.abstractmethod
    def refined(self, degree: int) -> "AbstractHarmonics":
        """The same kind of basis up to another degree."""

    @abc.abstractmethod
    def resize(self, coefficients: Float[Array, "*batch size"], degree: int) -> Float[Array, "*batch other"]:
        """Coefficients in the basis up to another degree: cut off, or filled with zeros."""

    @property
    def size(self) -> int:
        """How many basis functions."""
        return len(self.degrees)

    @property
    def laplacian(self) -> np.ndarray:
        """Eigenvalues -l(l+d-2) of the Laplacian, shape (size,)."""
        return -self.degrees * (self.degrees + self.d - 2.0)

    def integrate(self, values: Float[Array, "*batch m"]) -> Float[Array, "*batch"]:
        """∫ f dσ from values on the grid."""
        return values @ jnp.asarray(self.weights, values.dtype)
