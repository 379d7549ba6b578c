"""Densities on spheres, as coefficients of harmonics."""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenfield import _checks as check
from tokenfield._compile import compiled
from tokenfield._front import front_door
from tokenfield._types import Count, Numbers, Scalar, Vector, Whole, no_type_check
from tokenfield.errors import InputError
from tokenfield.harmonics import AbstractHarmonics, Fourier, Spherical, Zonal, kernel_eigenvalues
from tokenfield.measures.base import AbstractMeasure
from tokenfield.measures.sampling import inverted, sample_sphere, sample_zonal
from tokenfield.measures.tokens import Tokens

if TYPE_CHECKING:
    from tokenfield.flow import Flow

FINE = 1e-12
"""A function's harmonics are raised until the last ones are this small beside the first."""
FLAT = 1e3
"""From this bandwidth on, the heat kernel on a sphere is 1 to all digits."""
NEGATIVE = 1e-6
"""How far below zero, beside its largest value, a truncated series may dip and still pass for a density."""


class AbstractDensity(AbstractMeasure):
    r"""A density on a sphere: $μ = fσ$ with $f = \sum_j f_j e_j$, $f_0 = 1$.

    Here σ is the uniform probability measure and the e_j are orthonormal harmonics, so that f = 1 is the uniform measure.
    Calling a density, `mu(x)`, gives f at points of the sphere.
    """

    coefficients: eqx.AbstractVar[Float[Array, "*batch size"]]
    axes: ClassVar = {"coefficients": ("mode",)}
    quantities: ClassVar = ("order", "entropy")

    @property
    @abc.abstractmethod
    def basis(self) -> AbstractHarmonics:
        """The harmonics of the coefficients."""

    @property
    def d(self) -> int:
        """The sphere is S^{d-1}."""
        return self.basis.d

    @property
    def kind(self) -> str:
        """What kind of density it is, in a few words."""
        return f"density on the {'circle' if self.d == 2 else 'sphere'}"

    @property
    def degree(self) -> int:
        """The highest degree of the harmonics."""
        return self.basis.degree

    def with_coefficients(self, coefficients: Float[Array, "*batch size"]) -> "AbstractDensity":
        """The density of the same kind with other coefficients.

        **Arguments**

        - `coefficients`: f_j along the last axis, unchecked; their number decides the degree.

        **Returns** that density.
        """
        return eqx.tree_at(lambda mu: mu.coefficients, self, coefficients)

    @front_door
    def refined(self, degree: int) -> "AbstractDensity":
        """The same density with harmonics up to another degree.

        **Arguments**

        - `degree`: the highest degree; what is above is cut off, what is missing is zero.

        **Returns** that density.
        """
        return self.with_coefficients(self.basis.resize(self.coefficients, degree))

    @front_door
    def __call__(self, x: Numbers) -> np.ndarray:
        """The density f at points of the sphere.

        **Arguments**

        - `x`: points of shape (m, d); on the circle also angles of shape (m,).

        **Returns** f, shape (m,).

        **Raises** `InputError` where the shape does not fit.
        """
        return self.basis.evaluate(np.asarray(self.coefficients), self._points(x))

    def _points(self, x: Any) -> np.ndarray:
        points = np.asarray(check.real_array("x", x), float)
        if points.ndim != 2 or points.shape[1] != self.d:
            raise InputError(f"Argument `x` must have shape (m, d) with d = {self.d}, but has shape {points.shape}.")
        largest = np.max(np.abs(check.finite("x", points)), axis=1, keepdims=True, initial=0.0)
        if not np.all(largest > 0):
            raise InputError("Argument `x` must hold points with a direction, but one of them is the zero vector.")
        return points / largest if np.any(largest > 1e100) else points

    # What the density is like

    @property
    def values(self) -> Float[Array, "*batch m"]:
        """f on the grid of the basis."""
        return self.basis.synthesize(self.coefficients)

    @property
    def least(self) -> Float[Array, "*batch"]:
        """The least value of f on the grid: negative where modes are missing."""
        return jnp.min(self.values, axis=-1)

    @property
    def mass(self) -> Float[Array, "*batch"]:
        """∫ f dσ, which is 1."""
        return self.coefficients[..., 0]

    @property
    def tail(self) -> Float[Array, "*batch"]:
        """The norm of the last eighth of the degrees beside that of all: how well the modes resolve the density."""
        last = self.basis.degrees > 0.875 * self.degree
        size = lambda c: jnp.sqrt(jnp.sum(c**2, axis=-1))
        return size(self.coefficients * last) / size(self.coefficients)

    @property
    @abc.abstractmethod
    def mean(self) -> Float[Array, "*batch d"]:
        """∫ x dμ."""

    @property
    def order(self) -> Float[Array, "*batch"]:
        """R = |∫ x dμ|, the order parameter."""
        return jnp.linalg.norm(self.mean, axis=-1)

    @property
    def entropy(self) -> Float[Array, "*batch"]:
        """-∫ f log f dσ: 0 for the uniform measure, negative for all others."""
        return _entropy(self)

    @front_door
    def energy(self, beta: Scalar, scaled: bool = False) -> Float[Array, "*batch"]:
        r"""The energy $E_β(μ) = \frac1{2β}\iint e^{β⟨x,y⟩} dμ dμ = \frac1{2β}\sum_j c_{l_j} f_j^2$ that attention climbs.

        [rigollet2025, equation (3)], with the eigenvalues c_l of the kernel (`tokenfield.harmonics.kernel_eigenvalues`).

        **Arguments**

        - `beta`: the inverse temperature β; at β = 0 the constant 1/(2β) is left out, $E_0 = |\int x\,dμ|^2/2$.
        - `scaled`: whether to multiply by $e^{-β}$.

        **Returns** the energy, of the states of a run one number per time.

        **Raises** `InputError` where the energy leaves the range of floating-point numbers.

        >>> bool(abs(CircleDensity.uniform().energy(1.0) - 0.6330329388) < 1e-9)        # I_0(1)/2
        True
        """
        β = check.scalar("beta", beta)
        c = kernel_eigenvalues(β, self.d, self.degree)
        total = jnp.sum(c.ratio[self.basis.degrees] * self.coefficients**2, axis=-1)
        plain = jnp.exp(c.log_first - (β if scaled else 0.0)) * total / (2 * jnp.where(β == 0, 1.0, β))
        return within_range(jnp.where(β == 0, 0.5 * self.order**2, plain), β)

    @front_door
    @no_type_check
    def free_energy(self, flow: "Flow") -> Float[Array, "*batch"]:
        r"""The free energy $\frac1κ \int f \log f \,dσ - \frac V2 \iint \frac{e^{β⟨x,y⟩} - 1}{β} dμ dμ$, which falls along noisy
        USA  [rigollet2025, section 7].

        **Arguments**

        - `flow`: what gives β, V and κ; without noise the first term is nothing.

        **Returns** the free energy, of the states of a run one number per time.

        **Raises** `InputError` where attention is not the gradient of an energy, or changes with depth, or the free energy leaves
        the range of floating-point numbers.
        """
        if not hasattr(flow, "interaction") or not hasattr(flow, "kappa"):  # flows are made in a room above
            raise InputError(
                f"Argument `flow` must be a Flow, such as tkf.usa(1.0, kappa=4.0), but is {check.brief(flow)}."
            )
        noise = 0.0 if flow.kappa is None else self.entropy / flow.kappa
        energy = -0.5 * flow.interaction(self.coefficients, self.basis) - noise
        if not check.traced(energy) and not np.all(np.isfinite(np.asarray(energy))):
            raise InputError(
                "The free energy exceeds the largest number. Measure time in units of exp(-β), tkf.usa(beta, scaled=True), or "
                "take a smaller β or a larger κ."
            )
        return energy

    # Tokens from a density

    @abc.abstractmethod
    def sample(self, n: Count, seed: Count = 0) -> Tokens:
        """Independent tokens of this law, by inverting its distribution function.

        **Arguments**

        - `n`: how many.
        - `seed`: the seed of the random numbers.

        **Returns** n tokens on the sphere.

        **Raises** `InputError` where n or the seed is not a whole number.
        """

    @staticmethod
    def joined(parts: "Sequence[Any]") -> Any:
        """States of several stretches of time as one, in the harmonics of the last.

        **Arguments**

        - `parts`: densities with a leading axis of time each, in order.

        **Returns** one density with all their times.
        """
        last = parts[-1]
        rows = [np.asarray(part.basis.resize(check.on_device(part.coefficients), last.degree)) for part in parts]
        return last.with_coefficients(check.on_device(np.concatenate(rows)))

    def __repr__(self) -> str:
        name = type(self).__name__
        if check.traced(self) or self.coefficients.ndim > 1:
            return f"{name}(d={self.d}, degree={self.degree})"
        return f"{name}(d={self.d}, degree={self.degree}, R={float(self.order):.4g}, entropy={float(self.entropy):.4g})"


class CircleDensity(AbstractDensity):
    r"""A density on the circle by its Fourier series $f = 1 + \sqrt2 \sum_k (a_k \cos kθ + b_k \sin kθ)$, with respect to
    dθ/2π.

    **Arguments**

    - `coefficients`: 1, a_1, b_1, a_2, b_2, ...

    **Raises** `InputError` where their number is not odd or below 3, the first is not 1, or f is negative somewhere.

    >>> mu = CircleDensity.von_mises(concentration=2.0)
    >>> bool(abs(mu.order - 0.6977746579) < 1e-9)                           # I_1(2)/I_0(2)
    True
    >>> CircleDensity.from_function(lambda θ: 1 + 0.5 * np.cos(3 * θ)).coefficients.shape
    (129,)
    """

    coefficients: Float[Array, "*batch size"]

    @classmethod
    def constructors(cls) -> Mapping[str, Callable[..., "CircleDensity"]]:
        return {"circle_wave": cls.wave, "circle_von_mises": cls.von_mises}

    @front_door
    def __init__(self, coefficients: Vector):
        coefficients = _coefficients(coefficients)
        if len(coefficients) < 3 or len(coefficients) % 2 == 0:
            raise InputError(
                "A CircleDensity needs coefficients 1, a_1, b_1, ..., a_k, b_k: an odd number, 3 or more, but has "
                f"{len(coefficients)}."
            )
        self.coefficients = coefficients
        refuse_negative(self)

    @property
    def basis(self) -> Fourier:
        return Fourier((self.coefficients.shape[-1] - 1) // 2)

    @property
    def mean(self) -> Float[Array, "*batch 2"]:
        return self.coefficients[..., 1:3] / 2**0.5

    def _points(self, x: Any) -> np.ndarray:
        points = np.asarray(check.real_array("x", x), float)
        return circle_points(np.asarray(check.finite("x", points))) if points.ndim == 1 else super()._points(points)

    @staticmethod
    @front_door
    def uniform(degree: Count = 128) -> "CircleDensity":
        """The uniform measure on the circle, f = 1.

        **Arguments**

        - `degree`: the highest degree of the harmonics.

        **Returns** the density.

        >>> CircleDensity.uniform(degree=2).coefficients.tolist()
        [1.0, 0.0, 0.0, 0.0, 0.0]
        """
        return CircleDensity(np.eye(1, Fourier(degree).size)[0])

    @staticmethod
    @front_door
    def wave(amplitude: Scalar = 0.1, k: Count = 1, degree: Count = 128) -> "CircleDensity":
        """A wave on the circle: f = 1 + amplitude·cos kθ.

        **Arguments**

        - `amplitude`: between -1 and 1.
        - `k`: the wave number.
        - `degree`: the highest degree of the harmonics; at least 2k are taken.

        **Returns** the density.

        **Raises** `InputError` where f would be negative.

        >>> round(CircleDensity.wave(0.5, k=2)([0.0]).item(), 12)
        1.5
        """
        amplitude, k, degree = _wave(amplitude, k, degree, "the wave number")
        return CircleDensity.from_function(lambda θ: 1 + amplitude * np.cos(k * θ), degree)

    @staticmethod
    @front_door
    def von_mises(concentration: Scalar, angle: Scalar = 0.0, degree: Whole = None) -> "CircleDensity":
        """The von Mises law on the circle: f ∝ e^{concentration·cos(θ - angle)}.

        **Arguments**

        - `concentration`: how narrow it is; 0 is uniform.
        - `angle`: where its peak is.
        - `degree`: the highest degree of the harmonics; found when left out.

        **Returns** the density.

        **Raises** `InputError` where harmonics of this degree, or of any that is tried, do not resolve it.
        """
        concentration, angle = check.number("concentration", concentration), check.number("angle", angle)
        top = abs(concentration)  # the exponent at the peak, which for a negative concentration is opposite the angle
        return CircleDensity.from_function(lambda θ: np.exp(concentration * np.cos(θ - angle) - top), degree)

    @staticmethod
    @front_door
    def from_function(function: Callable[[Any], Any], degree: Whole = None) -> "CircleDensity":
        """The density that is proportional to a function of the angle.

        **Arguments**

        - `function`: from angles, shape (m,), to values that are not negative, shape (m,); not necessarily of mass 1.
        - `degree`: the highest degree of the harmonics; found when left out.

        **Returns** the density, divided by its mass.

        **Raises** `InputError` where the function is negative, not finite or zero, or harmonics do not resolve it.
        """
        f = lambda basis: function(np.arctan2(basis.points[:, 1], basis.points[:, 0]))
        return CircleDensity(_series(f, Fourier(64), degree, Fourier.most))

    @staticmethod
    @front_door
    def from_tokens(mu: Tokens, bandwidth: Scalar = None, degree: Whole = None) -> "CircleDensity":
        r"""The density of tokens on the circle, smoothed by the heat kernel: positive, and of mass 1.

        **Arguments**

        - `mu`: tokens on the unit circle.
        - `bandwidth`: the width of the kernel, $n^{-1/5}$ when left out.
        - `degree`: the highest degree of the harmonics; found when left out.

        **Returns** the density.

        **Raises** `InputError` where tokens are not on the circle, or there are too few modes for the bandwidth.
        """
        return CircleDensity(_smoothed(mu, Fourier(1), bandwidth, degree))

    @front_door
    def sample(self, n: Count, seed: Count = 0) -> Tokens:
        rng, n = _draws(n, seed, self.d)
        θ = np.linspace(-np.pi, np.pi, 32 * max(self.degree, 64) + 1)
        return Tokens(circle_points(inverted(θ, self(θ), rng.random(n))))


class SphereDensity(AbstractDensity):
    r"""A density $f = 1 + \sum_{j \geq 1} f_j e_j$ on S² by its spherical harmonics; or, with `zonal=True`, on S^{d-1} for any d
    one that depends only on the height t = x_1, by its Gegenbauer series.

    **Arguments**

    - `coefficients`: 1, f_1, f_2, ... of the orthonormal harmonics `tokenfield.harmonics.Spherical` or `Zonal` up to a degree L:
      (L+1)² of them, or L + 1 if zonal.
    - `d`: the sphere is S^{d-1}; 3 unless zonal.
    - `zonal`: whether f depends only on the height.

    **Raises** `InputError` where d or the number of coefficients does not fit, the first is not 1, or f is negative somewhere.

    >>> mu = SphereDensity.von_mises(concentration=3.0)
    >>> bool(abs(mu.order - (1 / np.tanh(3.0) - 1 / 3)) < 1e-9)              # Langevin's function
    True
    >>> SphereDensity.von_mises(concentration=3.0, d=8, zonal=True).mean.shape
    (8,)
    """

    coefficients: Float[Array, "*batch size"]
    dimension: int = eqx.field(static=True)
    zonal: bool = eqx.field(static=True)

    @classmethod
    def constructors(cls) -> Mapping[str, Callable[..., "SphereDensity"]]:
        return {"sphere_wave": cls.wave, "sphere_von_mises": cls.von_mises}

    @front_door
    def __init__(self, coefficients: Vector, d: Count = 3, zonal: bool = False):
        self.dimension, self.zonal = check.whole("d", d, 2, "the sphere is S^{d-1}"), bool(zonal)
        if not zonal and d != 3:
            raise InputError(
                f"Densities that are not zonal live on S², d = 3, but d = {check.brief(d)}. On the circle use "
                "CircleDensity, in other dimensions zonal=True or Tokens."
            )
        self.coefficients = _coefficients(coefficients)
        size = len(self.coefficients)
        if size < 2 or (not zonal and round(size**0.5) ** 2 != size):
            raise InputError(
                f"Argument `coefficients` must hold all harmonics up to a degree L ≥ 1: L + 1 of them if zonal, (L+1)² "
                f"otherwise, but there are {size}."
            )
        refuse_negative(self)

    @property
    def kind(self) -> str:
        return f"zonal density, d = {self.d}" if self.zonal else super().kind

    @property
    def plain(self) -> dict[str, Any]:
        return {"d": self.dimension, "zonal": self.zonal}

    @property
    def basis(self) -> Spherical | Zonal:
        size = self.coefficients.shape[-1]
        return Zonal(self.dimension, size - 1) if self.zonal else Spherical(round(size**0.5) - 1)

    @property
    def mean(self) -> Float[Array, "*batch d"]:
        first = self.coefficients / self.d**0.5
        if not self.zonal:
            return first[..., jnp.array([2, 3, 1])]
        return jnp.pad(first[..., 1:2], [(0, 0)] * (first.ndim - 1) + [(0, self.d - 1)])

    @staticmethod
    @front_door
    def uniform(degree: Count = 32, d: Count = 3, zonal: bool = False) -> "SphereDensity":
        """The uniform measure on the sphere, f = 1.

        **Arguments**

        - `degree`: the highest degree of the harmonics.
        - `d`, `zonal`: the sphere S^{d-1}, and whether as a zonal density; d is 3 unless zonal.

        **Returns** the density.

        **Raises** `InputError` where d is not 3 and the density is not zonal.

        >>> SphereDensity.uniform(degree=2, d=8, zonal=True).coefficients.tolist()
        [1.0, 0.0, 0.0]
        """
        return SphereDensity(np.eye(1, _sphere(degree, d, zonal).size)[0], d, zonal)

    @staticmethod
    @front_door
    def wave(
        amplitude: Scalar = 0.1, l: Count = 1, degree: Count = 32, d: Count = 3, zonal: bool = False
    ) -> "SphereDensity":
        """A wave on the sphere: f = 1 + amplitude·P_l(t), P_l the zonal harmonic of degree l with P_l(1) = 1.

        The height t is x_1 if the density is zonal, x_3 otherwise.

        **Arguments**

        - `amplitude`: between -1 and 1.
        - `l`: the degree of the wave.
        - `degree`: the highest degree of the harmonics; at least 2l are taken.
        - `d`, `zonal`: the sphere S^{d-1}, and whether as a zonal density; d is 3 unless zonal.

        **Returns** the density.

        **Raises** `InputError` where f would be negative, or d is not 3 and the density is not zonal.

        >>> bool(abs(SphereDensity.wave(0.5, l=2)([[0.0, 0.0, 1.0]])[0] - 1.5) < 1e-12)
        True
        """
        amplitude, l, degree = _wave(amplitude, l, degree, "the degree of the wave")
        basis = _sphere(degree, d, zonal)
        pole = np.eye(1, d, 0 if zonal else 2)
        coefficients = np.eye(1, basis.size)[0]
        index = int(np.searchsorted(basis.degrees, l))
        coefficients[index] = amplitude / basis.evaluate(np.eye(basis.size)[index], pole)[0]
        return SphereDensity(coefficients, d, zonal)

    @staticmethod
    @front_door
    def von_mises(
        concentration: Scalar, axis: Vector = None, degree: Whole = None, d: Count = 3, zonal: bool = False
    ) -> "SphereDensity":
        """The von Mises–Fisher law on the sphere: f ∝ e^{concentration·<x, axis>}.

        **Arguments**

        - `concentration`: how narrow it is; 0 is uniform.
        - `axis`: a vector of shape (d,) towards its peak; left out, e_3, or e_1 for zonal densities, which have no other.
        - `degree`: the highest degree of the harmonics; found when left out.
        - `d`, `zonal`: the sphere S^{d-1}, and whether as a zonal density; d is 3 unless zonal.

        **Returns** the density.

        **Raises** `InputError` where harmonics do not resolve it, a zonal density is given an axis, or d is not 3 and the density
        is not zonal.
        """
        if zonal and axis is not None:
            raise InputError("A zonal density has the axis e_1; leave `axis` out.")
        concentration = check.number("concentration", concentration)
        basis = _sphere(1, d, zonal)  # which refuses a d that does not fit
        pole, top = _pole(axis, basis.d, zonal), abs(concentration)
        return SphereDensity._of_points(lambda x: np.exp(concentration * (x @ pole) - top), degree, d, zonal)

    @staticmethod
    @front_door
    def from_function(
        function: Callable[[Any], Any], degree: Whole = None, d: Count = 3, zonal: bool = False
    ) -> "SphereDensity":
        """The density that is proportional to a function on the sphere.

        **Arguments**

        - `function`: from points, shape (m, d), or if zonal from heights t = x_1, shape (m,), to values that are not negative,
          shape (m,); not necessarily of mass 1.
        - `degree`: the highest degree of the harmonics; found when left out.
        - `d`, `zonal`: the sphere S^{d-1}, and whether as a zonal density; d is 3 unless zonal.

        **Returns** the density, divided by its mass.

        **Raises** `InputError` where the function is negative, not finite or zero, harmonics do not resolve it, or d is not 3 and
        the density is not zonal.
        """
        return SphereDensity._of_points((lambda x: function(x[:, 0])) if zonal else function, degree, d, zonal)

    @staticmethod
    def _of_points(function: Callable, degree: Any, d: int, zonal: bool) -> "SphereDensity":
        basis = _sphere(16, d, zonal)
        return SphereDensity(_series(lambda b: function(b.points), basis, degree, basis.most), d, zonal)

    @staticmethod
    @front_door
    def from_tokens(mu: Tokens, bandwidth: Scalar = None, degree: Whole = None, zonal: bool = False) -> "SphereDensity":
        r"""The density of tokens on the sphere, smoothed by the heat kernel: positive, and of mass 1.

        **Arguments**

        - `mu`: tokens on the unit sphere.
        - `bandwidth`: the width of the kernel; when left out $n^{-1/6}$, or $n^{-1/5}$ if zonal.
        - `degree`: the highest degree of the harmonics; found when left out.
        - `zonal`: whether to average over rotations about e_1, in any dimension; otherwise d is 3.

        **Returns** the density.

        **Raises** `InputError` where tokens are not on the sphere, or there are too few modes for the bandwidth.
        """
        return SphereDensity(_smoothed(mu, _sphere(1, mu.d, zonal), bandwidth, degree), mu.d, zonal)

    @front_door
    def sample(self, n: Count, seed: Count = 0) -> Tokens:
        rng, n = _draws(n, seed, self.d)
        draw: Callable[..., np.ndarray] = sample_zonal if self.zonal else sample_sphere
        return Tokens(draw(self.basis, np.asarray(self.coefficients), n, rng))


@compiled
def _entropy(mu: AbstractDensity) -> Float[Array, "*batch"]:
    f = jnp.maximum(mu.values, 0.0)
    return 0.0 - mu.basis.integrate(f * jnp.log(jnp.where(f > 0, f, 1.0)))


def _wave(amplitude: Any, k: Any, degree: Any, what: str) -> tuple[float, int, int]:
    """The numbers of a wave, checked; of the degree at least twice its own are taken."""
    amplitude, k = check.number("amplitude", amplitude), check.whole("k" if "number" in what else "l", k, 1, what)
    return amplitude, k, max(check.whole("degree", degree, 1, "the highest degree of the harmonics"), 2 * k)


def _pole(axis: Any, d: int, zonal: bool) -> np.ndarray:
    """The unit vector towards the peak of a law."""
    if axis is None:
        return np.eye(1, d, 0 if zonal else 2)[0]
    pole = np.asarray(check.finite("axis", check.real_array("axis", axis)), float)
    if pole.shape != (d,) or not np.any(pole):
        raise InputError(
            f"Argument `axis` must be a vector of shape (d,) = ({d},), not zero, but is {check.brief(axis)}."
        )
    pole = pole / np.abs(pole).max()
    return pole / np.linalg.norm(pole)


def within_range(energy: Any, beta: Any) -> Any:
    """An energy that is a number; refused where it exceeds them all, and values are known."""
    if not check.traced(energy) and not np.all(np.isfinite(np.asarray(energy))):
        raise InputError(
            f"The energy at β = {float(beta):g} exceeds the largest number. Use energy(..., scaled=True), which is "
            "multiplied by exp(-β)."
        )
    return energy


def _sphere(degree: Any, d: Any, zonal: bool) -> Spherical | Zonal:
    if not zonal and d != 3:
        raise InputError(
            f"Densities that are not zonal live on S², d = 3, but d = {check.brief(d)}. Use zonal=True, or Tokens."
        )
    return Zonal(d, degree) if zonal else Spherical(degree)


def circle_points(θ: np.ndarray) -> np.ndarray:
    """Points of the circle at given angles."""
    return np.stack([np.cos(θ), np.sin(θ)], axis=-1)


def _coefficients(coefficients: Any) -> Float[Array, " size"]:
    array = check.finite("coefficients", check.real_array("coefficients", coefficients))
    if array.ndim != 1:
        raise InputError(f"Argument `coefficients` must be a list of numbers, but has shape {array.shape}.")
    if len(array) == 0:
        raise InputError("Argument `coefficients` must hold 1, the mass, and those of the harmonics, but is empty.")
    if not check.traced(array) and abs(float(array[0]) - 1) > 1e-9:
        raise InputError(
            f"The first coefficient is the mass and must be 1, but is {float(array[0]):.6g}. Divide by it, or use "
            "from_function, which does."
        )
    return array


def refuse_negative(mu: AbstractDensity) -> None:
    """Refuse a density that is negative somewhere by more than its truncation explains, where its values are known."""
    if check.traced(mu.coefficients):
        return
    values = np.asarray(mu.values)
    if values.min() < -NEGATIVE * values.max():
        raise InputError(
            f"A density must not be negative, but this one falls to {values.min():.3g}. If the function is positive, the "
            "series is cut too short: give more modes (degree=...)."
        )


def _series(function: Callable, basis: Any, degree: Any, most: int) -> Float[Array, " size"]:
    """Coefficients of a function on the grids of a basis, which is refined until it resolves the function."""
    if degree is not None:
        basis = basis.refined(degree)
    while True:
        values = _called(function, basis)
        if values.shape != basis.weights.shape or not np.isfinite(values).all():
            raise InputError(
                f"The function must give one finite number per point, shape {basis.weights.shape}, but gave shape "
                f"{values.shape}{'' if np.isfinite(values).all() else ' with entries that are not finite'}."
            )
        if values.min() < 0:
            raise InputError(f"A density must not be negative, but the function falls to {values.min():.3g}.")
        if not values.max() > 0:
            raise InputError("A density must have mass, but the function is zero everywhere.")
        c = np.asarray(basis.analyze(jnp.asarray(values)))
        last = float(np.max(np.abs(c[basis.degrees > 0.875 * basis.degree])) / abs(c[0]))
        if degree is not None and last > NEGATIVE:
            raise InputError(
                f"Too few modes: at degree {basis.degree} the last coefficients are still {last:.1e} of the first. Give a "
                "higher degree, or leave it out to have it found."
            )
        if degree is not None or last < FINE or 2 * basis.degree > most:
            if last > NEGATIVE:
                raise InputError(
                    f"The function is not resolved by harmonics of degree {basis.degree}, the highest tried: the last "
                    f"coefficients are {last:.1e} of the first. Smooth it, or use Tokens.quadrature."
                )
            return jnp.asarray(c / c[0])
        basis = basis.refined(2 * basis.degree)


def _called(function: Callable, basis: Any) -> np.ndarray:
    """Values of a user's function, which may raise anything. What is not finite is refused by who asks, without warnings."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(function(basis), float)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"The function must take an array of points or angles and give one number for each, but it raised "
            f"{type(error).__name__}: {check.brief(str(error))}."
        ) from error


def _smoothed(mu: Any, basis: Any, bandwidth: Any, degree: Any) -> Float[Array, " size"]:
    """Moments of tokens times e^{-l(l+d-2)h²/2}: the heat kernel of width h."""
    if mu.d != basis.d or not bool(jnp.all(abs(mu.radii - 1) < 1e-6)):
        raise InputError(
            f"from_tokens takes Tokens on the unit sphere of R^{basis.d}, but got {mu!r}. Use their directions: "
            "Tokens(mu.directions, mu.w)."
        )
    h = (
        mu.n ** (-1 / (basis.variables + 4))
        if bandwidth is None
        else min(check.number("bandwidth", bandwidth, positive=True), FLAT)
    )
    enough = int(np.ceil(np.sqrt(-2 * np.log(FINE)) / h)) + 1
    basis = basis.refined(min(enough, basis.most) if degree is None else degree)
    damping = np.exp(0.5 * basis.laplacian * h**2)
    if damping[-1] > 1e-3:
        raise InputError(
            f"Too few modes for a bandwidth of {h:.3g}: degree {basis.degree}, but {enough} are needed. Give a larger "
            "bandwidth or a higher degree."
        )
    return jnp.asarray(damping * basis.moments(np.asarray(mu.x, float), np.asarray(mu.w, float)))


def _draws(n: Any, seed: Any, d: int) -> tuple[np.random.Generator, int]:
    n = check.whole("n", n, 1, "the number of tokens")
    check.room(8 * 8 * n * d, f"{n} tokens in {d} dimensions")
    return np.random.default_rng(check.whole("seed", seed, 0, "the seed of the random numbers")), n
