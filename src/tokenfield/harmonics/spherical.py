"""Spherical harmonics on S²."""

import dataclasses
import functools
import math
from collections.abc import Iterator
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenfield._checks import room
from tokenfield._types import AnyArray, Count
from tokenfield.harmonics.base import AbstractHarmonics
from tokenfield.harmonics.fourier import (
    checked_degree,
    fast_even,
    from_orders,
    frozen,
    parts,
    resized,
    to_orders,
    turns,
)
from tokenfield.harmonics.zonal import gauss


@dataclasses.dataclass(frozen=True)
class Spherical(AbstractHarmonics):
    r"""The real spherical harmonics on S²: $\bar P_l^0(z), \sqrt2\,\bar P_l^m(z)\cos mφ, \sqrt2\,\bar P_l^m(z)\sin mφ$.

    They are ordered by degree l, then by order m, with $x = (\sqrt{1-z^2}\cosφ, \sqrt{1-z^2}\sinφ, z)$ and
    $\bar P_l^m = \sqrt{(2l+1)\frac{(l-m)!}{(l+m)!}}\,P_l^m$ without the sign of Condon and Shortley, and orthonormal with
    respect to the uniform probability measure. The grid has Gauss–Legendre latitudes (z increasing) times equally spaced
    longitudes, latitude by latitude.

    **Arguments**

    - `degree`: the highest degree, 1 or more.

    **Raises** `InputError` where it is not.

    >>> basis = Spherical(1)                                    # 1, √3 z, √3 x, √3 y
    >>> f = basis.synthesize(jnp.array([0.0, 0.0, 1.0, 0.0]))
    >>> bool(np.allclose(f, np.sqrt(3) * basis.points[:, 0]))
    True
    """

    most: ClassVar[int] = 128
    variables: ClassVar[int] = 2
    degree: Count
    d: int = dataclasses.field(default=3, init=False, repr=False)

    def __post_init__(self):
        object.__setattr__(self, "degree", checked_degree(self.degree))
        room(3 * 8 * 1.5 * self.degree**3, f"Spherical harmonics of degree {self.degree}")

    @property
    def degrees(self) -> np.ndarray:
        return np.repeat(np.arange(self.degree + 1), 2 * np.arange(self.degree + 1) + 1)

    @property
    def shape(self) -> tuple[int, int]:
        """How many latitudes and longitudes the grid has."""
        return (3 * self.degree) // 2 + 1, fast_even(3 * self.degree + 1)

    @property
    def points(self) -> np.ndarray:
        return _globe(*self.shape)

    @property
    def weights(self) -> np.ndarray:
        latitudes, longitudes = self.shape
        return np.repeat(gauss(3, latitudes)[1] / longitudes, longitudes)

    def synthesize(self, coefficients: Float[Array, "*batch size"]) -> Float[Array, "*batch m"]:
        table = jnp.asarray(_legendre_table(self.degree, self.shape[0]), coefficients.dtype)
        spread = resized(coefficients, self.size + 1)[..., _places(self.degree)]
        cosines, sines = jnp.einsum("...cml,mli->c...im", spread, table)
        values = from_orders(cosines[..., :1], cosines[..., 1:], sines[..., 1:], self.shape[1])
        return values.reshape(*coefficients.shape[:-1], math.prod(self.shape))

    def analyze(self, values: Float[Array, "*batch m"]) -> Float[Array, "*batch size"]:
        table = jnp.asarray(_legendre_table(self.degree, self.shape[0]), values.dtype)
        grid = values.reshape(*values.shape[:-1], *self.shape) * gauss(3, self.shape[0])[1][:, None].astype(
            values.dtype
        )
        mean, cosines, sines = to_orders(grid, self.degree)
        orders = jnp.concatenate([jnp.stack([mean, jnp.zeros_like(mean)]), jnp.stack([cosines, sines])], axis=-1)
        spread = jnp.einsum("c...im,mli->...cml", orders, table)
        return spread.reshape(*values.shape[:-1], 2 * self.size)[..., _origins(self.degree)]

    def evaluate(self, coefficients: Float[np.ndarray, " size"], x: Float[np.ndarray, "k d"]) -> np.ndarray:
        cosines, sines = np.append(coefficients, 0.0)[_places(self.degree)]
        blocks = parts(len(x), self.degree + 1)
        return np.concatenate([_evaluate(cosines, sines, x[part]) for part in blocks] or [np.zeros(0)])

    def moments(self, x: Float[np.ndarray, "n d"], w: Float[np.ndarray, " n"]) -> np.ndarray:
        spread = np.zeros((2, self.degree + 1, self.degree + 1))
        for part in parts(len(x), self.degree + 1):
            spread += _moments(x[part], w[part], self.degree)
        return spread.ravel()[_origins(self.degree)]

    def refined(self, degree: int) -> "Spherical":
        return Spherical(degree)

    def resize(self, coefficients: Float[AnyArray, "*batch size"], degree: int) -> Float[Array, "*batch other"]:
        return resized(coefficients, self.refined(degree).size)


def legendre(z: np.ndarray, s: np.ndarray, degree: int) -> Iterator[np.ndarray]:
    r"""$\bar P_l^m(z)$ for m = 0..l, shape (l+1, k), one l after the other; s = √(1-z²).

    $\bar P_l^m = a_l^m (z \bar P_{l-1}^m - \bar P_{l-2}^m / a_{l-1}^m)$, $a_l^m = \sqrt{(4l^2-1)/(l^2-m^2)}$, and
    $\bar P_l^l = \sqrt{1 + 1/2l}\; s\,\bar P_{l-1}^{l-1}$. Near the poles high orders underflow to zero, as they should.
    """
    before, now = np.zeros((0, len(z))), np.ones((1, len(z)))
    yield now
    for l in range(1, degree + 1):
        after = np.empty((l + 1, len(z)))
        after[:l] = z * now
        after[: l - 1] -= before / _a(l - 1)
        after[:l] *= _a(l)
        after[l] = np.sqrt(1 + 1 / (2 * l)) * s * now[l - 1]
        before, now = now, after
        yield now


def _a(l: int) -> np.ndarray:
    """a_l^m for m = 0..l-1, as a column."""
    m = np.arange(l)[:, None]
    return np.sqrt((4 * l * l - 1) / (l * l - m * m))


def _angles(x: np.ndarray, degree: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """z and √(1-z²) of points; 1, √2 cos mφ, ... and 0, √2 sin mφ, ... for m = 0..degree as rows."""
    r = np.linalg.norm(x, axis=1)
    powers = np.broadcast_to(turns(x), (degree + 1, len(x))).copy()
    powers[0] = 1
    np.cumprod(powers, axis=0, out=powers)
    powers[1:] *= np.sqrt(2)
    return x[:, 2] / r, np.hypot(x[:, 0], x[:, 1]) / r, np.real(powers).copy(), np.imag(powers).copy()


def _evaluate(cosines: np.ndarray, sines: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Σ_m (Σ_l cosines_ml P_l^m) √2 cos mφ + (Σ_l sines_ml P_l^m) √2 sin mφ."""
    z, s, cos, sin = _angles(x, len(cosines) - 1)
    even, odd = np.zeros_like(cos), np.zeros_like(sin)
    for l, P in enumerate(legendre(z, s, len(cosines) - 1)):
        even[: l + 1] += cosines[: l + 1, l, None] * P
        odd[: l + 1] += sines[: l + 1, l, None] * P
    return np.sum(even * cos + odd * sin, axis=0)


def _moments(x: np.ndarray, w: np.ndarray, degree: int) -> np.ndarray:
    """Σ_i w_i P_l^m √2 cos mφ and the same with sines, shape (2, orders, degrees)."""
    z, s, cos, sin = _angles(x, degree)
    sums, cos, sin = np.zeros((2, degree + 1, degree + 1)), w * cos, w * sin
    for l, P in enumerate(legendre(z, s, degree)):
        sums[0, : l + 1, l] = np.einsum("mk,mk->m", P, cos[: l + 1])
        sums[1, : l + 1, l] = np.einsum("mk,mk->m", P, sin[: l + 1])
    return sums


@functools.lru_cache(maxsize=16)
def _places(degree: int) -> np.ndarray:
    """Where the coefficients of cos mφ and sin mφ of degree l are in the flat order, shape (2, orders, degrees).

    What does not exist (l < m; sin 0φ) is at the place behind the last coefficient, where callers put a zero.
    """
    m, l = np.meshgrid(np.arange(degree + 1), np.arange(degree + 1), indexing="ij")
    cosines, sines = l * l + np.maximum(2 * m - 1, 0), l * l + 2 * m
    none = (degree + 1) ** 2
    return frozen(np.stack([np.where(m <= l, cosines, none), np.where((m > 0) & (m <= l), sines, none)]))


@functools.lru_cache(maxsize=16)
def _origins(degree: int) -> np.ndarray:
    """The inverse of `_places`: where in the flattened (2, orders, degrees) every coefficient is, shape (size,)."""
    return frozen(np.argsort(_places(degree).ravel(), kind="stable")[: (degree + 1) ** 2])


@functools.lru_cache(maxsize=4)
def _legendre_table(degree: int, latitudes: int) -> np.ndarray:
    """P_l^m at the Gauss latitudes, shape (orders, degrees, latitudes), zero for l < m."""
    z, _ = gauss(3, latitudes)
    table = np.zeros((degree + 1, degree + 1, latitudes))
    for l, P in enumerate(legendre(z, np.sqrt((1 - z) * (1 + z)), degree)):
        table[: l + 1, l] = P
    return frozen(table)


@functools.lru_cache(maxsize=4)
def _globe(latitudes: int, longitudes: int) -> np.ndarray:
    z = np.repeat(gauss(3, latitudes)[0], longitudes)
    φ = np.tile(2 * np.pi * np.arange(longitudes) / longitudes, latitudes)
    s = np.sqrt((1 - z) * (1 + z))
    return frozen(np.stack([s * np.cos(φ), s * np.sin(φ), z], axis=1))


def longitude_series(coefficients: np.ndarray, z: np.ndarray, degree: int) -> np.ndarray:
    """The Fourier series in φ at given heights z, f = Re Σ_m series_m e^{imφ}, shape (orders, k)."""
    cosines, sines = np.append(coefficients, 0.0)[_places(degree)]
    series = np.zeros((degree + 1, len(z)), complex)
    for l, P in enumerate(legendre(z, np.sqrt((1 - z) * (1 + z)), degree)):
        series[: l + 1] += (cosines[: l + 1, l, None] - 1j * sines[: l + 1, l, None]) * P
    series[1:] *= np.sqrt(2)
    return series
