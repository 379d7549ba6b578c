"""What an attention may be able to do beyond moving tokens.

Every attention has a field on tokens. Some also keep Gaussians Gaussian, keep equiangular tokens equiangular, have a potential
on densities, can be read in rescaled coordinates, or know positions. Each of these abilities is a small protocol: a kind that
has its methods has the ability, and `on_gaussians(attention)` and its relatives refuse the others in a sentence.
"""

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Float

from tokenfield.errors import InputError
from tokenfield.harmonics import AbstractHarmonics
from tokenfield.measures import Equiangular
from tokenfield.parameters import Parameter

if TYPE_CHECKING:
    from tokenfield._types import Self


@runtime_checkable
class OnGaussians(Protocol):
    """Attention whose field on a Gaussian measure is affine."""

    def gaussian(
        self, mean: Float[Array, " d"], L: Float[Array, "d k"], directions: Float[Array, "d j"] | None = None
    ) -> tuple[Float[Array, " p"], Float[Array, "p j"]]:
        """On N(m, LLᵀ) the field is Γ(x) = Γ(m) + B (x - m): Γ(m), and B times directions (None: times L)."""
        ...


@runtime_checkable
class OnEquiangular(Protocol):
    """Attention that keeps equiangular tokens equiangular."""

    def equiangular(self, mu: Equiangular) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The pair (p, q) of the field Γ(x_i) = p x_i + q Σ_{j≠i} x_j."""
        ...


@runtime_checkable
class OnDensities(Protocol):
    """Attention whose tangential field on the sphere is the gradient of a potential."""

    def spectrum(self, d: int, degree: int) -> Any:
        """The eigenvalues of the kernel on harmonics, made once for `potential`."""
        ...

    def potential(
        self, f: Float[Array, "*batch size"], basis: AbstractHarmonics, spectrum: Any
    ) -> Float[Array, "*batch size"]:
        """Coefficients of φ with P_x Γ_μ(x) = ∇φ(x) on the sphere, for the density with coefficients f."""
        ...


@runtime_checkable
class WithEnergy(Protocol):
    """Attention that is the gradient of an interaction energy."""

    def interaction(self, f: Float[Array, "*batch size"], basis: AbstractHarmonics) -> Float[Array, "*batch"]:
        """∬ W dμ dμ where Γ is the gradient of ∫ W(x, y) dμ(y)."""
        ...


@runtime_checkable
class Rescalable(Protocol):
    """Attention that can be read in the coordinates e^{-tV} x: scores of points, and values V y."""

    @property
    def V(self) -> Parameter: ...

    def precompose(self, M: Float[Array, "d d"] | Float[Array, ""]) -> Any:
        """The attention with scores s(Mx, My) and the same values."""
        ...

    def rescaled_scores(self, d: int) -> list[tuple[np.ndarray, np.ndarray]] | None:
        """What fast sums may rely on in these coordinates, at all times; None for nothing."""
        ...


@runtime_checkable
class Placed(Protocol):
    """Attention to which positions of query points matter."""

    def asked_from(self, s: Any) -> "Self":
        """The attention for query points at positions s."""
        ...


def on_gaussians(attention: Any) -> OnGaussians:
    """The attention, if it keeps Gaussians Gaussian; refused otherwise."""
    if isinstance(attention, OnGaussians):
        return attention
    raise InputError(
        f"{type(attention).__name__} attention does not keep Gaussians Gaussian: its field is not affine. Softmax, L2, "
        "Sinkhorn, Linear and MultiHead attention do; for this one, move tokens: Tokens.gaussian(n, d, mean, cov)."
    )


def on_equiangular(attention: Any) -> OnEquiangular:
    """The attention, if it keeps equiangular tokens equiangular; refused otherwise."""
    if isinstance(attention, OnEquiangular):
        return attention
    raise InputError(
        f"{type(attention).__name__} attention does not keep equiangular tokens equiangular, or not in closed form. Move "
        "actual tokens instead: Tokens.equiangular(n, rho)."
    )


def on_densities(attention: Any) -> OnDensities:
    """The attention, if it has a potential on densities; refused otherwise."""
    if isinstance(attention, OnDensities):
        return attention
    raise InputError(
        f"{type(attention).__name__} attention on densities is not available: densities move under Softmax, Unnormalized "
        "and Linear attention with numbers for Q, K, V and A. For this one, move tokens: density.sample(n)."
    )


def with_energy(attention: Any) -> WithEnergy:
    """The attention, if it is the gradient of an interaction energy; refused otherwise."""
    if isinstance(attention, WithEnergy):
        return attention
    raise InputError(
        f"{type(attention).__name__} attention is not the gradient of an energy in this sense; Unnormalized (USA) is."
    )


def rescalable(attention: Any) -> Rescalable:
    """The attention, if it can be read in rescaled coordinates; refused otherwise."""
    if isinstance(attention, Rescalable):
        return attention
    raise InputError(
        f"{type(attention).__name__} attention cannot be read in rescaled coordinates: it is not an average of values "
        "V y of points. Use Free()."
    )


def placed(attention: Any, s: Any) -> Any:
    """The attention for query points at positions s; refused where positions do not matter."""
    if isinstance(attention, Placed):
        return attention.asked_from(s)
    raise InputError(f"Positions of query points matter to Causal attention only, not to {type(attention).__name__}.")
