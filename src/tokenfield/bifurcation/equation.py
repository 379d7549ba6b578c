"""The equation of axisymmetric stationary states, f ∝ exp(κΦ[f]), in as few unknowns as the kernel has eigenvalues."""

import dataclasses
import functools
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from tokenfield.bifurcation.basis import dimension, zonal
from tokenfield.bifurcation.coupling import Coupling
from tokenfield.harmonics.zonal import Zonal

NEGLIGIBLE = 1e-17
"""Degrees whose share of the kernel is smaller than this are left out of the potential."""

Unknowns = Float[np.ndarray, " L"]
Point = Float[np.ndarray, " p"]


class Density(NamedTuple):
    """On the grid: κΦ, ψ'(q), and the masses f·w, which sum to 1."""

    exponent: np.ndarray
    slope: np.ndarray
    share: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Equation:
    r"""y = T(y, η) for the density f of a stationary state, zonal about e_1  [rigollet2025, section 7].

    With λ_l the strength of degree l (`Coupling.strengths`), λ* the largest and ρ_l = λ_l/λ*:

    - unknowns $y_l = \sqrt{|ρ_l|/d}\, f_l$ for l = 1..L, with f_l the coefficients of f in the zonal basis, and the parameter
      η = log(κλ*), 0 where the uniform state loses its stability; so the numbers are of order 1 at any β and in any unit;
    - the potential κΦ = K ψ(q), K = e^η, q = Σ ρ_l f_l e_l, ψ(q) = q for USA and log(1 + bq)/b, b = βλ*/V, for SA;
    - T: f = e^{κΦ}/∫e^{κΦ}dσ, then its coefficients. Its derivatives are covariances under f.

    A point (y, η) is one array x, η last.
    """

    model: Coupling
    d: int
    degree: int
    strongest: float
    bend: float
    root: Unknowns
    sign: Unknowns
    parent: "Equation | None" = None

    # Tables on the grid.

    @functools.cached_property
    def t(self) -> Float[np.ndarray, " n"]:
        """Heights of the grid points."""
        return _grid(self.d, self.degree)[0]

    @functools.cached_property
    def log_weights(self) -> Float[np.ndarray, " n"]:
        """Logarithms of the quadrature weights."""
        return _grid(self.d, self.degree)[1]

    @functools.cached_property
    def table(self) -> Float[np.ndarray, "n l"]:
        """e_0..e_degree on the grid."""
        return _grid(self.d, self.degree)[2]

    @functools.cached_property
    def e(self) -> Float[np.ndarray, "n L"]:
        """e_1..e_L on the grid: the degrees that the potential contains."""
        return _columns(self.d, self.degree, self.size)

    @property
    def size(self) -> int:
        """L, the number of unknowns."""
        return len(self.root)

    def among(self, kept: int) -> "Equation":
        """The equation among densities of degrees 0, kept, 2·kept, ...: one that cannot leave this symmetry by round-off."""
        mask = np.arange(1, self.size + 1) % kept == 0
        return self if kept == 1 else dataclasses.replace(self, root=np.where(mask, self.root, 0.0), parent=self)

    @property
    def whole(self) -> "Equation":
        """The equation among all zonal densities."""
        return self.parent or self

    @functools.cached_property
    def onsets(self) -> Unknowns:
        """η_l = -log ρ_l, l = 1..L: where degree l begins to grow around the uniform state; inf where it never does."""
        ρ = self.sign * self.d * self.root**2
        return -np.log(ρ, out=np.full(ρ.shape, -np.inf), where=ρ > 0)

    # From unknowns to densities and back.

    def density(self, x: Point) -> "Density":
        """The density e^{κΦ}/Z of the potential that y makes."""
        q = self.e @ (self.d * self.sign * self.root * x[:-1])
        if self.bend:  # 1 + bq is a positive sum; where it is below round-off, so is the density
            total = np.maximum(1 + self.bend * q, 1e-18)
            small = np.log1p(np.maximum(self.bend * q, -0.5))
            q, slope = np.where(abs(self.bend * q) < 0.5, small, np.log(total)) / self.bend, 1 / total
        else:
            slope = np.ones_like(q)
        exponent = math.exp(x[-1]) * q
        return Density(exponent, slope, softmax(exponent + self.log_weights))

    def project(self, share: np.ndarray) -> np.ndarray:
        """The unknowns y of a density given by its masses on the grid."""
        return self.root * (share @ self.e)

    def residual(self, x: Point, density: "Density | None" = None) -> Unknowns:
        """y - T(y, η)."""
        return x[:-1] - self.project((density or self.density(x)).share)

    def jacobian(self, x: Point, density: "Density | None" = None) -> Float[np.ndarray, "L p"]:
        """Derivatives of the residual in y and η: I - K s Cov_f(e, ψ'e) s and -s Cov_f(e, κΦ)."""
        exponent, slope, share = density or self.density(x)
        weighted = (self.e - share @ self.e) * share[:, None]
        in_y = weighted.T @ (slope[:, None] * self.e if self.bend else self.e)
        in_y *= math.exp(x[-1]) * self.d * self.root[:, None] * (self.sign * self.root)
        return np.column_stack([np.eye(self.size) - in_y, -self.root * (exponent @ weighted)])

    def relax(self, share: Float[np.ndarray, " n"], η: float, steps: int = 400) -> Point:
        """The fixed-point iteration f → e^{κΦ[f]}/Z, along which the free energy of an attractive USA never rises."""
        x = np.append(self.project(share), η)
        for _ in range(steps):
            before, x = x, np.append(self.project(self.density(x).share), η)
            if np.max(abs(x - before)) < 1e-10:
                break
        return x

    # What is measured on a state.

    def coefficients(self, x: Point) -> Float[np.ndarray, " l"]:
        """f_0 = 1, f_1, ..., f_degree in the orthonormal zonal basis."""
        return self.density(x).share @ self.table

    def entropy(self, x: Point) -> float:
        """∫f log f dσ ≥ 0."""
        exponent, _, share = self.density(x)
        return float(share @ exponent - log_sum_exp(exponent + self.log_weights))

    def free_energy(self, x: Point) -> float:
        """F(f) - F(uniform) = κ⁻¹ ∫f log f dσ - ½ Σ λ_l f_l², in units of λ*."""
        y = self.project(self.density(x).share)
        return math.exp(-x[-1]) * self.entropy(x) - 0.5 * self.d * float(np.sum(self.sign * y**2))

    def tail(self, x: Point) -> float:
        """The largest of the last coefficients against the largest of all: how well the degree resolves the state."""
        size = abs(self.coefficients(x))
        return float(size[-max(3, self.degree // 16) :].max() / size.max())


@functools.lru_cache(maxsize=8)
def equation(model: Coupling, d: int, degree: int) -> Equation:
    """The equation of a model on S^{d-1}, with densities resolved up to a degree."""
    λ = model.strengths(d, degree)[1:]
    ρ = λ / λ.max()
    size = abs(ρ) * dimension(d, degree)[1:]
    ρ = ρ[: 1 + int(np.flatnonzero(size > NEGLIGIBLE * size.max())[-1])]
    bend = model.beta * λ.max() / model.V if model.kind == "sa" else 0.0
    return Equation(model, d, degree, float(λ.max()), bend, np.sqrt(abs(ρ) / d), np.sign(ρ))


@functools.lru_cache(maxsize=8)
def _grid(d: int, degree: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    basis = Zonal(d, degree)
    return basis.t, np.log(basis.weights), zonal(d, degree, basis.t)


@functools.lru_cache(maxsize=8)
def _columns(d: int, degree: int, size: int) -> np.ndarray:
    return np.ascontiguousarray(_grid(d, degree)[2][:, 1 : size + 1])


def softmax(z: np.ndarray) -> np.ndarray:
    """e^z, divided by its sum."""
    share = np.exp(z - z.max())
    return share / share.sum()


def log_sum_exp(z: np.ndarray) -> float:
    """log Σ e^z, without overflow."""
    return float(z.max() + np.log(np.sum(np.exp(z - z.max()))))
