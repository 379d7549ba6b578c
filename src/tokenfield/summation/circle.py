"""Exponential sums over tokens on the circle, by a pair of non-uniform FFTs."""

import abc
import copy
import functools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from tokenfield._norms import sizes
from tokenfield.summation import series
from tokenfield.summation.base import Related
from tokenfield.summation.spectral import AbstractSpectral, Split, coarse
from tokenfield.summation.transforms import arctan2, to_modes, to_points


class Circle(AbstractSpectral):
    r"""Exponential sums over tokens on the circle, in O(n): $e^{β\cos(θ-φ)} = \sum_k I_k(β)\,e^{ik(θ-φ)}$ is diagonal in Fourier
    modes.

    Non-uniform FFTs take tokens to coefficients, these are multiplied by $e^{-β} I_k(β)$, and taken back to the queries. There
    are about $\sqrt{2β \log 1/ε}$ modes, and the time is O(n + modes). Queries must share one length and keys another.

    Where values are the tokens themselves, $\sum_j w_j e^{iφ_j} e^{-ikφ_j}$ is the coefficient of the weights at k - 1: weights
    alone are transformed. Where only tangents are read, total and tangent are real and imaginary part of one series with factors
    $e^{-β}(I_k - \tfrac12(I_{k-1} - I_{k+1})) = e^{-β} I_k (1 - k/β)$: one transform each way.

    **Arguments**

    - `beta`: the largest product of the two lengths. Where β is traced, it is a bound: beyond it sums are dense.
    - `tolerance`: how large a row's error may be, relative to its own total.
    - `tangents`: whether only tangents are read.
    - `direct`: whether series are summed point by point, in O(n · modes), instead of by non-uniform FFTs; left out, whichever is
      faster for so many points. Under vmap it is to be true, since transforms would be planned one by one.

    >>> θ = np.linspace(0, 6, 1000)
    >>> x = jnp.asarray(np.stack([np.cos(θ), np.sin(θ)], axis=1))
    >>> sums = Circle(beta=9.0).exponential(9.0 * x, x, x, jnp.full(1000, 1e-3))
    >>> bool(abs(sums.total[0] - np.mean(np.exp(9 * (np.cos(θ) - 1)))) < 1e-13)
    True
    """

    frequencies: int = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)
    tangents: bool = eqx.field(static=True)
    direct: bool | None = eqx.field(static=True)

    def __init__(self, beta: float, tolerance: float = 1e-9, tangents: bool = False, direct: bool | None = None):
        self.frequencies = coarse(1 + reach(beta, 2, self.errors(0, float, tolerance)[0]))
        self.tolerance, self.tangents, self.direct = tolerance, tangents, direct

    @property
    def modes(self) -> int:
        return self.frequencies

    def tangential(self) -> "Circle":
        sums = copy.copy(self)
        object.__setattr__(sums, "tangents", True)
        return sums

    def split(self, q: Float[Array, "m 2"], k: Float[Array, "n 2"]) -> Split:
        return on_sphere(q, k, bound(self.modes - 1, 2, self.errors(0, float, self.tolerance)[0]))

    def convolve(
        self, x: Float[Array, "m 2"], y: Float[Array, "n 2"], charges: Complex[Array, "b n"], precision: float
    ) -> Complex[Array, "b m"]:
        way = self._way(len(x) + len(y), precision)
        c = way.to_modes(2 * self.modes + 1, charges, way.places(y))
        return way.to_points(self._kernel(coupling(x, y))[1:-1] * c, way.places(x))

    def own(
        self,
        x: Float[Array, "m 2"],
        y: Float[Array, "n 2"],
        mass: Float[Array, " n"],
        precision: float,
        related: Related,
    ) -> tuple[Float[Array, " m"], Float[Array, "m p"]]:
        way, β = self._way(len(x) + len(y), precision), coupling(x, y)
        there = way.places(y)
        if related.multiple is not None:
            here, β = there, β * jnp.where(related.multiple < 0, -1.0, 1.0)
        else:
            here = way.places(x) if related.turn is None else way.turned(there, related.turn)
        c, κ = way.to_modes(2 * self.modes + 3, mass[None], there)[0], self._kernel(β)
        if self.tangents and related.multiple is not None:
            both = way.to_points((c[1:-1] * (κ[1:-1] - 0.5 * (κ[:-2] - κ[2:])))[None], here)[0]
            across = jnp.stack([-y[:, 1], y[:, 0]], axis=1)  # of length |y|
            return jnp.real(both), related.back * jnp.imag(both)[:, None] * across
        total, sums = way.to_points(jnp.stack([c[1:-1], c[:-2]]) * κ[1:-1], here)
        keys = sizes(y[0]) * jnp.stack([jnp.real(sums), jnp.imag(sums)], axis=1)
        return jnp.real(total), keys * related.back if related.back.ndim == 0 else keys @ related.back.T

    def _way(self, points: int, precision: float) -> "Way":
        """How series are summed over so many points, queries and keys together."""
        if self.direct is None:
            return Directly() if direct_cost(self.modes, points) < transforms_cost(points) else Transformed(precision)
        return Directly() if self.direct else Transformed(precision)

    def _kernel(self, β: Float[Array, ""]) -> Float[Array, " k"]:
        """e^{-|β|} I_k(β) for k = -M-1..M+1, from samples of the kernel: to rounding, which is all that an absolute error needs."""
        samples = 2 * self.modes + 4
        kernel = jnp.exp(β * jnp.cos(2 * math.pi * jnp.arange(samples) / samples) - jnp.abs(β))
        half = jnp.real(jnp.fft.rfft(kernel))[: self.modes + 2] / samples
        return jnp.concatenate([half[:0:-1], half])


# Milliseconds of one sum in a run on two cores, of so many points, queries and keys together (`python -m benchmarks circle`).


def direct_cost(modes: int, points: int) -> float:
    """Point by point; beyond 5·10⁵ points what is carried from mode to mode leaves the caches."""
    return 0.1 + (2.5e-6 if points <= 500_000 else 4.2e-6) * modes * points


def transforms_cost(points: int) -> float:
    """By non-uniform FFTs, whose second thread helps little up to 10⁵ points."""
    return 1.0 + min(6e-5 * points, 4 + 4.3e-5 * points)


class Way(abc.ABC):
    """How series on the circle are summed. Who asks does not look at places."""

    @abc.abstractmethod
    def places(self, x: Float[Array, "n 2"]) -> Any:
        """Points as this way takes them."""

    @abc.abstractmethod
    def turned(self, places: Any, M: Float[Array, "2 2"]) -> Any:
        """The places of M x, M a multiple of a rotation or a reflection."""

    @abc.abstractmethod
    def to_modes(self, count: int, charges: Array, places: Any) -> Complex[Array, "b k"]:
        """Coefficients of charges at so many modes about 0."""

    @abc.abstractmethod
    def to_points(self, c: Complex[Array, "b k"], places: Any) -> Complex[Array, "b m"]:
        """The series with these coefficients."""


class Directly(Way):
    """Series point by point, where a point is (cos, sin)."""

    def places(self, x: Float[Array, "n 2"]) -> series.Turn:
        return series.turns(x)

    def turned(self, places: series.Turn, M: Float[Array, "2 2"]) -> series.Turn:
        return series.turns(jnp.stack(places, axis=1) @ M.T)

    def to_modes(self, count: int, charges: Array, places: series.Turn) -> Complex[Array, "b k"]:
        return jax.vmap(lambda q: series.to_modes(count, q, places))(charges)

    def to_points(self, c: Complex[Array, "b k"], places: series.Turn) -> Complex[Array, "b m"]:
        return jax.vmap(lambda c: series.to_points(c, places))(c)


class Transformed(Way):
    """Series by non-uniform FFTs, where a point is an angle."""

    def __init__(self, precision: float):
        self.precision = precision

    def places(self, x: Float[Array, "n 2"]) -> Float[Array, " n"]:
        return angle(x)

    def turned(self, places: Float[Array, " n"], M: Float[Array, "2 2"]) -> Float[Array, " n"]:
        return turned(places, M)

    def to_modes(self, count: int, charges: Array, places: Float[Array, " n"]) -> Complex[Array, "b k"]:
        return to_modes(count, charges.astype(complex_like(charges)), [places], self.precision)

    def to_points(self, c: Complex[Array, "b k"], places: Float[Array, " n"]) -> Complex[Array, "b m"]:
        return to_points(c, [places], self.precision)


@functools.lru_cache(maxsize=4096)
def reach(beta: float, d: int, precision: float) -> int:
    r"""The degree beyond which $e^{-β} e^{β⟨x,y⟩} = \sum_l \dim_l\,e^{-β}c_l\,Z_l(⟨x,y⟩)$, |Z_l| ≤ 1, on S^{d-1}, d = 2 or 3, adds
    up to less than a tenth of the precision at any point; the c_l are those of `harmonics.kernel_eigenvalues`.

    >>> reach(9.0, 2, 1e-14), reach(9.0, 3, 1e-14)
    (28, 29)
    """
    beta = abs(float(beta))
    if not beta < FAR:
        return math.ceil(math.sqrt(2 * beta * math.log(10 / precision)) + 20) if math.isfinite(beta) else 2**62
    top = math.ceil(1.1 * math.sqrt(2 * beta * math.log(10 / precision)) + 30)
    ratios, ratio = np.empty(top), 0.0
    for l in range(top - 1, -1, -1):  # I_{ν+1}/I_ν by Gauss's continued fraction, ν = l + d/2 - 1
        ratios[l] = ratio = beta / (2 * l + d + beta * ratio)
    count = np.where(np.arange(top + 1) == 0, 1, 2) if d == 2 else 2 * np.arange(top + 1) + 1
    terms = count * np.concatenate([[1.0], np.cumprod(ratios)])
    tails = np.cumsum((terms / terms.sum())[::-1])[::-1]  # all terms together are 1, the kernel at x = y
    return int(np.argmax(tails < 0.1 * precision)) - 1


FAR = 1e7
"""β from which on the number of modes comes from that of a Gaussian."""


@functools.lru_cache(maxsize=4096)
def bound(degree: int, d: int, precision: float) -> float:
    """The largest β, to one part in a million, whose kernel needs no more than this degree.

    >>> 9.0 < bound(reach(9.0, 2, 1e-14), 2, 1e-14) < 10.0
    True
    """
    low, high = 0.0, 1.0
    while reach(high, d, precision) <= degree:
        low, high = high, 2 * high
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if reach(middle, d, precision) <= degree else (low, middle)
    return low


def on_sphere(q: Float[Array, "m k"], k: Float[Array, "n k"], largest: float) -> Split:
    """<q, k> = β + log e^{β(cos - 1)}: the kernel never exceeds 1."""
    β = coupling(q, k)
    return Split(q, k, jnp.broadcast_to(β, len(q)), None, β <= largest * (1 + 1e-6))


def coupling(q: Float[Array, "m k"], k: Float[Array, "n k"]) -> Float[Array, ""]:
    """β = |q||k|, which all queries and keys share."""
    return sizes(q[0]) * sizes(k[0])


def angle(x: Float[Array, "n 2"]) -> Float[Array, " n"]:
    """The angle of every row; 0 (and no gradient) where a row is 0, as queries are at β = 0."""
    return arctan2(x[:, 1], x[:, 0])


def turned(θ: Float[Array, " n"], M: Float[Array, "2 2"]) -> Float[Array, " n"]:
    """The angles of M x, in [-π, π], for x at angles θ and M a multiple of a rotation or a reflection."""
    after = arctan2(M[1, 0], M[0, 0]) + jnp.where(M[0, 0] * M[1, 1] < M[0, 1] * M[1, 0], -θ, θ)
    return after - 2 * math.pi * jnp.round(after / (2 * math.pi))


def complex_like(x: Array) -> Any:
    return jnp.result_type(x.dtype, jnp.complex64)
