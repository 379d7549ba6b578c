"""The non-uniform FFTs, behind a guard: nothing that is not a number, and no point out of range, reaches compiled code.

A point decides which memory a transform touches, so that NaN for a point ends the process. Here such a point is moved to 0, and
whatever it would have had a part in is NaN.
"""

import functools
import math
import os
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Complex, Float

ALONE = 20_000
"""Below so many points a second thread costs more than it brings."""

NEAR = 2**16
"""Modes of two or three dimensions whose grid lies in a core's own cache: there points are not sorted first, which would take
a third of the time of a transform of 10⁶ points."""


def to_modes(
    modes: int | tuple[int, ...], charges: Complex[Array, "b n"], points: list[Float[Array, " n"]], precision: float
) -> Complex[Array, "b ..."]:
    r"""$\sum_j c_j e^{-i⟨k, x_j⟩}$ for all modes k; all of them NaN where a point is not a number in [-π, π]."""
    tame, fine = _tamed(points)
    sizes = (modes,) if isinstance(modes, int) else modes
    options = _options(len(points[0]), sizes)
    found = _library().nufft1(modes, charges, *tame, iflag=-1, eps=precision, opts=options)
    return found * jnp.where(jnp.all(fine), 1.0, jnp.nan)


def to_points(
    coefficients: Complex[Array, "b ..."], points: list[Float[Array, " m"]], precision: float
) -> Complex[Array, "b m"]:
    r"""$\sum_k c_k e^{i⟨k, x_j⟩}$ at all points x_j; NaN at a point that is not a number in [-π, π]."""
    tame, fine = _tamed(points)
    options = _options(len(points[0]), coefficients.shape[1:])
    found = _library().nufft2(coefficients, *tame, iflag=1, eps=precision, opts=options)
    return found * jnp.where(fine, 1.0, jnp.nan)


def _tamed(points: list[Array]) -> tuple[list[Array], Array]:
    """The points, with 0 for those out of range, and which are in it. Points are put into memory: whoever uses them would otherwise
    compute the angles again, each by itself."""
    points = [lax.optimization_barrier(x) for x in points]
    inside = [jnp.abs(x) <= math.pi * (1 + 1e-6) for x in points]
    fine = functools.reduce(jnp.logical_and, inside)
    return [jnp.where(fine, x, 0.0) for x in points], fine


@functools.cache
def _library() -> Any:
    """jax_finufft, whose threads are told to sleep while they wait. XLA calls it from several threads, each with workers of its
    own, and workers that wait in a loop take the cores from those who work: transforms of 10⁴ points take 4 ms instead of 1. The
    library's own copy of OpenMP reads this setting when it is loaded; whoever has set it decides."""
    if "jax_finufft" in sys.modules or "OMP_WAIT_POLICY" in os.environ:
        import jax_finufft

        return jax_finufft
    os.environ["OMP_WAIT_POLICY"] = "passive"
    try:
        import jax_finufft
    finally:
        del os.environ["OMP_WAIT_POLICY"]
    return jax_finufft


@functools.cache
def _options(n: int, modes: tuple[int, ...]) -> Any:
    _library()
    from jax_finufft.options import Opts, SpreadSort

    unsorted = len(modes) > 1 and math.prod(modes) <= NEAR
    return Opts(nthreads=1 if n < ALONE else 0, spread_sort=SpreadSort.NoSort if unsorted else SpreadSort.Heuristic)


# Angles. XLA's arctan2 is computed number by number; this one vectorizes, and is five times as fast.

_CORNER = math.tan(math.pi / 8)


def _series() -> np.ndarray:
    """Coefficients of arctan(√s)/√s in powers of s ≤ tan²(π/8), from Chebyshev interpolation, to rounding."""
    top = _CORNER**2
    function = lambda u: np.arctan(root := np.sqrt((u + 1) * top / 2)) / root
    fit = np.polynomial.chebyshev.Chebyshev(np.polynomial.chebyshev.chebinterpolate(function, 12), domain=[0.0, top])
    return fit.convert(kind=np.polynomial.Polynomial, domain=[-1, 1], window=[-1, 1]).coef


_SERIES = _series()


@jax.custom_jvp
def arctan2(y: Float[Array, "*n"], x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The angle of (x, y) in [-π, π], to rounding; 0 at the origin."""
    high, low = jnp.maximum(jnp.abs(x), jnp.abs(y)), jnp.minimum(jnp.abs(x), jnp.abs(y))
    far = low > _CORNER * high  # beyond 22.5°: arctan(t) = 45° + arctan((t - 1)/(t + 1))
    below, above = jnp.where(far, low - high, low), jnp.where(far, low + high, high)
    t = below / jnp.where(above == 0, 1.0, above)
    series = functools.reduce(lambda sum, a: sum * (t * t) + a, _SERIES[-2::-1], jnp.full_like(t, _SERIES[-1]))
    angle = t * series + jnp.where(far, math.pi / 4, 0.0)
    angle = jnp.where(jnp.abs(y) > jnp.abs(x), math.pi / 2 - angle, angle)
    return jnp.copysign(jnp.where(x < 0, math.pi - angle, angle), y)


@arctan2.defjvp
def _arctan2_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (y, x), (dy, dx) = primals, tangents
    square = x * x + y * y
    return arctan2(y, x), (x * dy - y * dx) / jnp.where(square == 0, 1.0, square)
