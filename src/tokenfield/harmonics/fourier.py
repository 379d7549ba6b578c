"""Fourier series on the circle."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from tokenfield._checks import room, whole
from tokenfield._types import AnyArray, Count
from tokenfield.harmonics.base import AbstractHarmonics

CHUNK = 1 << 16
"""Numbers that a pass over scattered points holds per array: half a megabyte stays in the cache."""


@dataclasses.dataclass(frozen=True)
class Fourier(AbstractHarmonics):
    r"""The Fourier basis on the circle: $1, \sqrt2\cosθ, \sqrt2\sinθ, \sqrt2\cos2θ, \sqrt2\sin2θ, \dots$

    It is orthonormal with respect to dθ/2π. The grid is equally spaced in θ from 0; the transforms are fast Fourier transforms.

    **Arguments**

    - `degree`: the highest degree, 1 or more.

    **Raises** `InputError` where it is not.

    >>> basis = Fourier(2)
    >>> basis.degrees
    array([0, 1, 1, 2, 2])
    >>> f = basis.synthesize(jnp.array([0.0, 1.0, 0.0, 0.0, 0.0]))
    >>> bool(np.allclose(f, np.sqrt(2) * basis.points[:, 0]))
    True
    """

    most: ClassVar[int] = 4096
    refinement: ClassVar[int] = 4
    degree: Count
    d: int = dataclasses.field(default=2, init=False, repr=False)

    def __post_init__(self):
        object.__setattr__(self, "degree", checked_degree(self.degree))
        room(16 * 8 * 3 * self.degree, f"Fourier series of degree {self.degree}")

    @property
    def degrees(self) -> np.ndarray:
        return (np.arange(2 * self.degree + 1) + 1) // 2

    @property
    def points(self) -> np.ndarray:
        return _circle(fast_even(3 * self.degree + 1))

    @property
    def weights(self) -> np.ndarray:
        m = len(self.points)
        return np.full(m, 1 / m)

    def synthesize(self, coefficients: Float[Array, "*batch size"]) -> Float[Array, "*batch m"]:
        pairs = coefficients[..., 1:].reshape(*coefficients.shape[:-1], self.degree, 2)
        return from_orders(coefficients[..., :1], pairs[..., 0], pairs[..., 1], len(self.points))

    def analyze(self, values: Float[Array, "*batch m"]) -> Float[Array, "*batch size"]:
        mean, cosines, sines = to_orders(values, self.degree)
        pairs = jnp.stack([cosines, sines], axis=-1).reshape(*values.shape[:-1], 2 * self.degree)
        return jnp.concatenate([mean, pairs], axis=-1)

    def evaluate(self, coefficients: Float[np.ndarray, " size"], x: Float[np.ndarray, "k d"]) -> np.ndarray:
        # f = c_0 + √2 Re Σ (a_l - i b_l) u^l with u = e^{iθ}: Horner's rule, nothing larger than the points.
        series = math.sqrt(2) * (coefficients[1::2] - 1j * coefficients[2::2])
        horner = lambda u: coefficients[0] + np.real(u * np.polynomial.polynomial.polyval(u, series))
        return np.concatenate([horner(turns(x[part])) for part in parts(len(x))] or [np.zeros(0)])

    def moments(self, x: Float[np.ndarray, "n d"], w: Float[np.ndarray, " n"]) -> np.ndarray:
        sums = np.zeros(self.degree + 1, complex)
        for part in parts(len(x)):
            sums += _powers(turns(x[part]), w[part], self.degree)
        pairs = math.sqrt(2) * np.stack([np.real(sums), np.imag(sums)], axis=1)
        return np.concatenate([np.real(sums[:1]), pairs[1:].ravel()])

    def refined(self, degree: int) -> "Fourier":
        return Fourier(degree)

    def resize(self, coefficients: Float[AnyArray, "*batch size"], degree: int) -> Float[Array, "*batch other"]:
        return resized(coefficients, self.refined(degree).size)


def checked_degree(degree: Count) -> int:
    """The highest degree of a basis, refused where it is not a whole number of at least 1."""
    return whole("degree", degree, 1, "the highest degree of the harmonics; 32 is a good start")


def fast_even(least: int) -> int:
    """The least even 2^a 3^b 5^c that is not below `least`: a length on which FFTs are fast."""
    smooth = lambda n: pow(30, 64, n) == 0  # n divides a high power of 2·3·5
    return next(n for n in itertools.count(least + least % 2, 2) if smooth(n))


def frozen(array: np.ndarray) -> np.ndarray:
    """The array, closed to writing: tables are shared by everyone who asks for them."""
    array.setflags(write=False)
    return array


def parts(count: int, each: int = 1) -> Iterator[slice]:
    """Slices that cover `count` points, each of about CHUNK numbers when a point takes `each` of them."""
    step = max(1, CHUNK // each)
    return (slice(start, start + step) for start in range(0, count, step))


def turns(x: np.ndarray) -> np.ndarray:
    """e^{iθ} of points in the plane, θ their angle; 1 at the origin, where every angle will do."""
    r = np.hypot(x[:, 0], x[:, 1])
    return np.where(r > 0, x[:, 0] + 1j * x[:, 1], 1) / np.where(r > 0, r, 1)


def resized(coefficients: AnyArray, size: int) -> Array:
    """The first `size` coefficients, zeros where there are not so many: all bases here are ordered by degree."""
    kept = coefficients[..., :size]
    return jnp.pad(kept, [(0, 0)] * (kept.ndim - 1) + [(0, size - kept.shape[-1])])


def from_orders(mean: Array, cosines: Array, sines: Array, m: int) -> Array:
    """mean + √2 Σ_k (cosines_k cos kθ + sines_k sin kθ), k = 1, 2, ..., at m equally spaced angles, on the last axis."""
    spectrum = jnp.concatenate(
        [lax.complex(mean, jnp.zeros_like(mean)), lax.complex(cosines, -sines) / math.sqrt(2)], -1
    )
    return jnp.fft.irfft(spectrum, n=m, norm="forward")


def to_orders(values: Array, degree: int) -> tuple[Array, Array, Array]:
    """What `from_orders` takes, up to k = degree, from values at equally spaced angles."""
    spectrum = jnp.fft.rfft(values, norm="forward")[..., : degree + 1]
    higher = math.sqrt(2) * spectrum[..., 1:]
    return spectrum[..., :1].real, higher.real, -higher.imag


def _powers(u: np.ndarray, w: np.ndarray, degree: int) -> np.ndarray:
    """Σ_i w_i u_i^l for l = 0..degree."""
    sums, power = np.zeros(degree + 1, complex), w.astype(complex)
    for l in range(degree + 1):
        sums[l] = power.sum()
        power *= u
    return sums


@functools.lru_cache(maxsize=16)
def _circle(m: int) -> np.ndarray:
    θ = 2 * np.pi * np.arange(m) / m
    return frozen(np.stack([np.cos(θ), np.sin(θ)], axis=1))
