"""What a harmonic basis is: orthonormal functions on S^{d-1} that diagonalize the Laplacian and every attention kernel."""

import abc
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenfield._types import AnyArray


class AbstractHarmonics(abc.ABC):
    r"""A harmonic basis: real functions $e_0 = 1, e_1, \dots$ on S^{d-1} up to a degree, orthonormal in L²(σ), σ the uniform
    probability measure; and a grid whose quadrature integrates products of three of them exactly.

    A function is $f = \sum_j f_j e_j$: `synthesize` takes its coefficients to values on the grid, `analyze` takes them back,
    `evaluate` gives values anywhere. Bases are small frozen dataclasses: equal ones are the same to JAX, and their tables are
    made once.
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
        """Values of a function on the grid.

        **Arguments**

        - `coefficients`: f_j along the last axis.

        **Returns** Σ_j f_j e_j at the grid points, along the last axis.
        """

    @abc.abstractmethod
    def analyze(self, values: Float[Array, "*batch m"]) -> Float[Array, "*batch size"]:
        """Coefficients of a function from its values on the grid; the inverse of `synthesize`.

        **Arguments**

        - `values`: f at the grid points, along the last axis.

        **Returns** ∫ f e_j dσ, along the last axis.
        """

    @abc.abstractmethod
    def evaluate(self, coefficients: Float[np.ndarray, " size"], x: Float[np.ndarray, "k d"]) -> np.ndarray:
        """Values of a function at any points of the sphere, with numpy.

        **Arguments**

        - `coefficients`: f_j, shape (size,).
        - `x`: the points, shape (k, d).

        **Returns** Σ_j f_j e_j(x), shape (k,).
        """

    @abc.abstractmethod
    def moments(self, x: Float[np.ndarray, "n d"], w: Float[np.ndarray, " n"]) -> np.ndarray:
        """The moments of weighted points μ = Σ w_i δ_{x_i}, with numpy.

        **Arguments**

        - `x`: the points, shape (n, d).
        - `w`: their weights, shape (n,).

        **Returns** ∫ e_j dμ, shape (size,).
        """

    @abc.abstractmethod
    def refined(self, degree: int) -> "AbstractHarmonics":
        """The same kind of basis up to another degree.

        **Arguments**

        - `degree`: the highest degree.

        **Returns** that basis.
        """

    @abc.abstractmethod
    def resize(self, coefficients: Float[AnyArray, "*batch size"], degree: int) -> Float[Array, "*batch other"]:
        """Coefficients in the basis up to another degree.

        **Arguments**

        - `coefficients`: those in this basis, along the last axis.
        - `degree`: the highest degree of the other basis.

        **Returns** the coefficients there: cut off, or filled with zeros.
        """

    @property
    def size(self) -> int:
        """How many basis functions."""
        return len(self.degrees)

    @property
    def laplacian(self) -> np.ndarray:
        """Eigenvalues -l(l+d-2) of the Laplacian, shape (size,)."""
        return -self.degrees * (self.degrees + self.d - 2.0)

    def integrate(self, values: Float[Array, "*batch m"]) -> Float[Array, "*batch"]:
        """The integral of a function from its values on the grid.

        **Arguments**

        - `values`: f at the grid points, along the last axis.

        **Returns** ∫ f dσ.
        """
        return values @ jnp.asarray(self.weights, values.dtype)
