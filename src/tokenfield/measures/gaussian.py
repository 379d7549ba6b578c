"""Gaussian measures: attention moves them as Gaussians."""

from collections.abc import Callable, Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._types import Count, Matrix, Vector, no_type_check
from tokenfield.errors import InputError
from tokenfield.measures.base import AbstractMeasure
from tokenfield.measures.tokens import Tokens


def _axes(cov: Float[Array, "*batch d d"]) -> tuple[Array, Array, Array]:
    """Axes of Σ as columns, their lengths √λ, and 1/√λ; both zero where an eigenvalue is round-off."""
    values, vectors = jnp.linalg.eigh(cov)
    real = values > 8 * cov.shape[-1] * jnp.finfo(cov.dtype).eps * values[..., -1:]
    size = jnp.sqrt(jnp.where(real, values, 1.0))
    return vectors, jnp.where(real, size, 0.0)[..., None, :], jnp.where(real, 1 / size, 0.0)[..., None, :]


@jax.custom_jvp
def _factor(cov: Float[Array, "*batch d d"]) -> Float[Array, "*batch d d"]:
    vectors, size, _ = _axes(cov)
    return vectors * size


@_factor.defjvp
def _factor_jvp(primals, tangents):
    """L̇ = (Σ̇ - PΣ̇/2) L⁻ᵀ, P the projection on the range of Σ: LL̇ᵀ + L̇Lᵀ = Σ̇ for changes that keep the rank, and no
    division by differences of eigenvalues."""
    vectors, size, inverse = _axes(primals[0])
    onto = (vectors * (size > 0)) @ jnp.swapaxes(vectors, -1, -2)
    return vectors * size, (tangents[0] - 0.5 * onto @ tangents[0]) @ (vectors * inverse)


class Gaussian(AbstractMeasure):
    r"""The Gaussian measure N(m, Σ) on R^d, which softmax attention moves as a Gaussian  [castin2025, section 4].

    **Arguments**

    - `mean`: m, shape (d,).
    - `cov`: Σ, symmetric and without negative eigenvalues, shape (d, d); it may be singular.

    **Raises** `InputError` where shapes do not fit, an entry is not finite, or Σ is no covariance.

    >>> mu = Gaussian([0.0, 0.0], [[2.0, 0.0], [0.0, 1.0]])
    >>> mu.d, mu.trace.item(), mu.cone.tolist()
    (2, 3.0, [1.0, 0.0, 3.0])
    """

    mean: Float[Array, "*batch d"]
    cov: Float[Array, "*batch d d"]
    axes: ClassVar = {"mean": ("component",), "cov": ("component", "component2")}
    quantities: ClassVar = ("trace",)

    @classmethod
    def constructors(cls) -> Mapping[str, Callable[..., "Gaussian"]]:
        return {"gaussian_measure": cls}

    @front_door
    def __init__(self, mean: Vector, cov: Matrix):
        mean = check.finite("mean", check.real_array("mean", mean, like="the mean, shape (d,)"))
        if mean.ndim != 1 or len(mean) == 0:
            raise InputError(f"Argument `mean` must have shape (d,), but has shape {mean.shape}.")
        self.mean = mean
        self.cov = check.covariance("cov", cov, len(mean)).astype(mean.dtype)

    @property
    def d(self) -> int:
        """Dimension of the space."""
        return self.mean.shape[-1]

    @property
    def ambient(self) -> int:
        return self.d

    @property
    def trace(self) -> Float[Array, "*batch"]:
        """tr Σ, the total variance."""
        return jnp.trace(self.cov, axis1=-2, axis2=-1)

    @property
    def variance(self) -> Float[Array, "*batch"]:
        """The total variance ∫ |x - mean|² dμ = tr Σ."""
        return self.trace

    @property
    def spread(self) -> Float[Array, "*batch"]:
        """√(tr Σ), the standard deviation."""
        return jnp.sqrt(self.trace)

    @property
    def spectrum(self) -> Float[Array, "*batch d"]:
        """Eigenvalues of Σ, the largest first."""
        return jnp.maximum(jnp.linalg.eigvalsh(self.cov)[..., ::-1], 0.0)

    @front_door
    def rank(self, tolerance: float = 1e-9) -> Int[Array, "*batch"]:
        """The rank of the covariance: how many eigenvalues of Σ exceed `tolerance` times the largest.

        **Arguments**

        - `tolerance`: from which share of the largest on an eigenvalue counts.

        **Returns** the rank, of the states of a run one number per time.

        >>> Gaussian([0.0, 0.0], [[1.0, 1.0], [1.0, 1.0]]).rank().item()
        1
        """
        values = self.spectrum
        return jnp.sum(values > tolerance * values[..., :1], axis=-1)

    @property
    def cone(self) -> Float[Array, "*batch 3"]:
        """Σ = (a c; c b) as (a - b, 2c, a + b), a point of the cone z ≥ √(x² + y²), for d = 2  [castin2025]."""
        if self.d != 2:
            raise InputError(
                f"The cone of covariances is drawn for d = 2, but d = {self.d}. `spectrum` works for any d."
            )
        a, b, c = self.cov[..., 0, 0], self.cov[..., 1, 1], self.cov[..., 0, 1]
        return jnp.stack([a - b, 2 * c, a + b], axis=-1)

    @property
    def normalized(self) -> "Gaussian":
        """The same shape at total variance 1: x ↦ x/√(tr Σ)."""
        scale = jnp.sqrt(self.trace)
        return self.with_moments(self.mean / scale[..., None], self.cov / self.trace[..., None, None])

    def with_moments(self, mean: Array, cov: Array) -> "Gaussian":
        """The Gaussian with another mean and covariance, unchecked.

        **Arguments**

        - `mean`: of shape (d,); `cov`: of shape (d, d); both may have leading axes.

        **Returns** that Gaussian.
        """
        new = object.__new__(Gaussian)
        object.__setattr__(new, "mean", mean)
        object.__setattr__(new, "cov", cov)
        return new

    @property
    def factor(self) -> Float[Array, "*batch d d"]:
        """A square root: Σ = L Lᵀ, the columns of L along the axes of Σ, largest last; those without extent are zero."""
        return _factor(self.cov)

    @staticmethod
    @front_door
    @no_type_check
    def of(mu: Tokens) -> "Gaussian":
        """The Gaussian with the mean and covariance of some tokens.

        **Arguments**

        - `mu`: the tokens.

        **Returns** the Gaussian; its covariance is singular where tokens span less than the space.

        **Raises** `InputError` for anything but tokens.

        >>> Gaussian.of(Tokens([[1.0, 0.0], [-1.0, 0.0]])).cov.tolist()
        [[1.0, 0.0], [0.0, 0.0]]
        """
        if not isinstance(mu, Tokens):
            raise InputError(f"Gaussian.of takes Tokens, but got {type(mu).__name__}.")
        spread = mu.x - mu.mean
        return Gaussian(mu.mean, jnp.einsum("n,ni,nj->ij", mu.w, spread, spread))

    @front_door
    def sample(self, n: Count, seed: Count = 0) -> Tokens:
        """Independent tokens of this law.

        **Arguments**

        - `n`: how many.
        - `seed`: the seed of the random numbers.

        **Returns** n tokens in R^d.

        **Raises** `InputError` where n or the seed is not a whole number.

        >>> Gaussian([0.0], [[4.0]]).sample(5).x.shape
        (5, 1)
        """
        return Tokens.gaussian(n, self.d, self.mean, self.cov, seed)

    def __repr__(self) -> str:
        if check.traced(self) or self.mean.ndim > 1:
            return f"Gaussian(d={self.d}, {'traced' if check.traced(self) else f'{self.mean.shape[:-1]} states'})"
        rank = int(self.rank())
        return f"Gaussian(d={self.d}, |mean|={float(np.linalg.norm(self.mean)):.4g}, tr Σ={float(self.trace):.6g}" + (
            f", rank {rank})" if rank < self.d else ")"
        )
