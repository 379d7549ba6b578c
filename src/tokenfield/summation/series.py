"""Fourier series on the circle, point by point: as the non-uniform FFTs of `transforms`, by recurrences that XLA compiles.

The time is O(n · modes), and a batch of circles is one program: for some thousands of tokens, and for ensembles.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Complex, Float

from tokenfield._norms import unit

UNROLLED = 4
"""Steps of a recurrence that are compiled as one."""

Turn = tuple[Float[Array, " n"], Float[Array, " n"]]
"""Points on the circle as (cos θ, sin θ): z = e^{iθ}."""


def turns(x: Float[Array, "n 2"]) -> Turn:
    """The directions of vectors; NaN where one is not a number."""
    u = unit(x)
    return u[:, 0], u[:, 1]


def to_modes(modes: int, charges: Float[Array, " n"] | Complex[Array, " n"], z: Turn) -> Complex[Array, " k"]:
    r"""$c_k = \sum_j q_j \bar z_j^k$ for k = -M..M, modes = 2M + 1 of them. Those of real charges at -k are the conjugates of those
    at k."""
    if not jnp.iscomplexobj(charges):
        return _mirrored(*_moments(charges, jnp.zeros_like(charges), z, modes // 2))
    of = lambda part: to_modes(modes, part, z)
    return of(jnp.real(charges)) + 1j * of(jnp.imag(charges))


def _moments(a: Array, b: Array, z: Turn, top: int) -> tuple[Array, Array]:
    """Σ_j q_j z_j^k for k = 0..top, real and imaginary parts, of q = a + ib."""

    def step(power: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        return _times(power, z), (jnp.sum(power[0]), jnp.sum(power[1]))

    return lax.scan(step, (a, b), None, length=top + 1, unroll=UNROLLED)[1]


def _mirrored(real: Float[Array, " k"], imag: Float[Array, " k"]) -> Complex[Array, " m"]:
    """c_k = conj(Σ q z^k) for k ≥ 0, and its conjugates for k < 0."""
    return lax.complex(jnp.concatenate([real[:0:-1], real]), jnp.concatenate([imag[:0:-1], -imag]))


def to_points(c: Complex[Array, " k"], z: Turn) -> Complex[Array, " n"]:
    r"""$\sum_{k=-M}^M c_k z^k$, by Horner's rule in z and in z̄ side by side."""
    top, back = len(c) // 2, (z[0], -z[1])
    parts = jnp.stack([jnp.real(c), jnp.imag(c)], axis=1)
    later, earlier = parts[:top:-1], parts[:top]  # k = M..1, and -M..-1

    def step(sums: tuple[Turn, Turn], coefficients: tuple[Array, Array]) -> tuple[tuple[Turn, Turn], None]:
        (a, b), (up, down) = coefficients, sums
        return (_times(_plus(up, a), z), _times(_plus(down, b), back)), None

    zero = jnp.zeros_like(z[0])
    (up, down), _ = lax.scan(step, ((zero, zero), (zero, zero)), (later, earlier), unroll=UNROLLED)
    return lax.complex(up[0] + down[0] + parts[top, 0], up[1] + down[1] + parts[top, 1])


def _plus(a: Turn, b: Float[Array, " 2"]) -> Turn:
    return a[0] + b[0], a[1] + b[1]


def _times(a: Turn, b: Turn) -> Turn:
    """The product of complex numbers."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]
