"""Exponential sums over tokens in R^d, d ≤ 3, by non-uniform FFTs of a Gaussian."""

import functools
import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Complex, Float

from tokenfield.summation.spectral import AbstractSpectral, Split, coarse
from tokenfield.summation.transforms import to_modes, to_points

TAIL = math.sqrt(2 * math.log(1e15))
"""Where a Gaussian of unit width is over: e^{-TAIL²/2} is 1e-15."""


class Euclidean(AbstractSpectral):
    r"""Exponential sums over tokens in R^d, d ≤ 3, in O(n): a symmetric positive definite score is a Gaussian between two
    exponentials, $e^{⟨Ax,y⟩} = e^{|Rx|²/2}\, e^{|Ry|²/2}\, e^{-|Rx-Ry|²/2}$ with $R = A^{1/2}$.

    The middle factor is a convolution, summed through Fourier series with a period that holds all points (`extent`, in
    units of the Gaussian's width) and its tails. Outside of that, all rows are summed densely; and where the outer factors
    differ by so much that a row drowns in the errors of others, this row is.

    **Arguments**

    - `root`: R, or a number for a multiple of I; queries are R²x and keys y.
    - `extent`: how far apart points may come in a coordinate of Rx.
    - `d`: their dimension.
    - `tolerance`: how large a row's error may be, relative to its own total.

    >>> x = jnp.asarray(np.random.default_rng(0).normal(size=(500, 2)))
    >>> sums = Euclidean(root=1.0, extent=10.0, d=2).exponential(x, x, x, jnp.full(500, 0.002))
    >>> dense = jnp.mean(jnp.exp(x @ x[0]))
    >>> bool(abs(sums.total[0] * jnp.exp(sums.shift[0]) / dense - 1) < 1e-10)
    True
    """

    root: Float[Array, "d d"]
    inverse: Float[Array, "d d"]
    period: Float[Array, ""]
    frequencies: int = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)

    def __init__(self, root: Any, extent: float, d: int, tolerance: float = 1e-9):
        matrix = np.asarray(root, float) * np.eye(d) if np.ndim(root) == 0 else np.asarray(root, float)
        self.root, self.inverse = jnp.asarray(matrix), jnp.asarray(np.linalg.inv(matrix))
        self.frequencies, self.tolerance = frequencies(extent), tolerance
        self.period = jnp.asarray(2 * math.pi * self.frequencies / TAIL)

    @property
    def modes(self) -> int:
        return self.frequencies

    def transposed(self) -> "Euclidean":
        """Queries y and keys R²x are those of the root R⁻¹: both are read at Rx and Ry again."""
        return eqx.tree_at(lambda sums: (sums.root, sums.inverse), self, (self.inverse, self.root))

    def split(self, q: Float[Array, "m d"], k: Float[Array, "n d"]) -> Split:
        x, y = q @ self.inverse.astype(q.dtype).T, k @ self.root.astype(k.dtype).T
        outer = [0.5 * jnp.sum(points**2, axis=1) for points in (x, y)]
        every = lax.stop_gradient(jnp.concatenate([x, y]))
        low, high = jnp.min(every, axis=0), jnp.max(every, axis=0)
        middle = 0.5 * (low + high)
        return Split(x - middle, y - middle, outer[0], outer[1], jnp.all(high - low <= self.period - TAIL))

    def convolve(
        self, x: Float[Array, "m d"], y: Float[Array, "n d"], charges: Complex[Array, "b n"], precision: float
    ) -> Complex[Array, "b m"]:
        d, scale = x.shape[1], 2 * math.pi / self.period.astype(x.dtype)
        inside = lambda points: list(jnp.clip(scale * points, -math.pi, math.pi).T)  # others are summed densely
        c = to_modes((2 * self.modes + 1,) * d, charges, inside(y), precision)
        return to_points(c * self._kernel(d, scale), inside(x), precision)

    def _kernel(self, d: int, scale: Array) -> Float[Array, "..."]:
        """Fourier coefficients of the Gaussian of unit width, periodic: a product of those of its coordinates."""
        k = jnp.arange(-self.modes, self.modes + 1)
        one = scale / math.sqrt(2 * math.pi) * jnp.exp(-0.5 * (scale * k) ** 2)
        return functools.reduce(lambda kernel, _: kernel[..., None] * one, range(d - 1), one)


def frequencies(extent: float) -> int:
    """Modes per dimension, for points within `extent` in units of the Gaussian's width."""
    return coarse(TAIL * (extent + TAIL) / (2 * math.pi))
