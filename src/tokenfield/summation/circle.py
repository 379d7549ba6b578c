"""Exponential sums over tokens on the circle, by a pair of non-uniform FFTs."""

import math

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float

from tokenfield._norms import sizes
from tokenfield.summation.spectral import AbstractSpectral, Split, coarse
from tokenfield.summation.transforms import to_modes, to_points


class Circle(AbstractSpectral):
    r"""Exponential sums over tokens on the circle, in O(n): $e^{β\cos(θ-φ)} = \sum_k I_k(β)\,e^{ik(θ-φ)}$ is diagonal in Fourier
    modes.

    Non-uniform FFTs take tokens to coefficients, these are multiplied by $e^{-β} I_k(β)$, and taken back to the queries. There
    are about $\sqrt{2β \log 1/ε}$ modes, and the time is O(n + modes). Queries must share one length and keys another.

    **Arguments**

    - `beta`: the largest product of the two lengths.
    - `tolerance`: how large a row's error may be, relative to its own total.

    >>> import numpy as np
    >>> θ = np.linspace(0, 6, 1000)
    >>> x = jnp.asarray(np.stack([np.cos(θ), np.sin(θ)], axis=1))
    >>> sums = Circle(beta=9.0).exponential(9.0 * x, x, x, jnp.full(1000, 1e-3))
    >>> bool(abs(sums.total[0] - np.mean(np.exp(9 * (np.cos(θ) - 1)))) < 1e-13)
    True
    """

    frequencies: int = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)

    def __init__(self, beta: float, tolerance: float = 1e-9):
        self.frequencies, self.tolerance = coarse(reach(beta)), tolerance

    @property
    def modes(self) -> int:
        return self.frequencies

    def split(self, q: Float[Array, "m 2"], k: Float[Array, "n 2"]) -> Split:
        return on_sphere(q, k)

    def convolve(
        self, x: Float[Array, "m 2"], y: Float[Array, "n 2"], charges: Complex[Array, "b n"], precision: float
    ) -> Complex[Array, "b m"]:
        c = to_modes(2 * self.modes + 1, charges, [angle(y)], precision)
        return to_points(c * self._kernel(coupling(x, y)), [angle(x)], precision)

    def _kernel(self, β: Float[Array, ""]) -> Float[Array, " k"]:
        """e^{-β} I_k(β) for k = -M..M, from samples of the kernel: to rounding, which is all that an absolute error needs."""
        samples = 2 * self.modes + 2
        kernel = jnp.exp(β * (jnp.cos(2 * math.pi * jnp.arange(samples) / samples) - 1))
        half = jnp.real(jnp.fft.rfft(kernel))[: self.modes + 1] / samples
        return jnp.concatenate([half[:0:-1], half])


def reach(beta: float, precision: float = 1e-15) -> float:
    """Modes up to which e^{-β} I_k(β) exceeds the precision: a Gaussian of variance β, with tails at small β."""
    log = math.log(1 / precision)
    return math.sqrt(2 * beta * log) + 0.5 * log**0.9


def on_sphere(q: Float[Array, "m k"], k: Float[Array, "n k"]) -> Split:
    """<q, k> = β + log e^{β(cos - 1)}: the kernel never exceeds 1."""
    shift = jnp.broadcast_to(coupling(q, k), len(q))
    return Split(q, k, shift, jnp.zeros(len(k), k.dtype), jnp.asarray(True))


def coupling(q: Float[Array, "m k"], k: Float[Array, "n k"]) -> Float[Array, ""]:
    """β = |q||k|, which all queries and keys share."""
    return sizes(q[0]) * sizes(k[0])


def angle(x: Float[Array, "n 2"]) -> Float[Array, " n"]:
    """The angle of every row; 0 (and no gradient) where a row is 0, as queries are at β = 0."""
    zero = jnp.all(x == 0, axis=1)
    return jnp.arctan2(x[:, 1], jnp.where(zero, 1.0, x[:, 0]))
