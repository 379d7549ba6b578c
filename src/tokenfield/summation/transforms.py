"""The non-uniform FFTs, behind a guard: nothing that is not a number, and no point out of range, reaches compiled code.

A point decides which memory a transform touches, so that NaN for a point ends the process. Here such a point is moved to 0, and
whatever it would have had a part in is NaN.
"""

import math

import jax.numpy as jnp
from jaxtyping import Array, Complex, Float


def to_modes(
    modes: int | tuple[int, ...], charges: Complex[Array, "b n"], points: list[Float[Array, " n"]], precision: float
) -> Complex[Array, "b ..."]:
    r"""$\sum_j c_j e^{-i⟨k, x_j⟩}$ for all modes k; all of them NaN where a point is not a number in [-π, π]."""
    from jax_finufft import nufft1

    tame, fine = _tamed(points)
    return nufft1(modes, charges, *tame, iflag=-1, eps=precision) * jnp.where(jnp.all(fine), 1.0, jnp.nan)


def to_points(
    coefficients: Complex[Array, "b ..."], points: list[Float[Array, " m"]], precision: float
) -> Complex[Array, "b m"]:
    r"""$\sum_k c_k e^{i⟨k, x_j⟩}$ at all points x_j; NaN at a point that is not a number in [-π, π]."""
    from jax_finufft import nufft2

    tame, fine = _tamed(points)
    return nufft2(coefficients, *tame, iflag=1, eps=precision) * jnp.where(fine, 1.0, jnp.nan)


def _tamed(points: list[Array]) -> tuple[list[Array], Array]:
    """The points, with 0 for those out of range, and which are in it."""
    fine = jnp.all(jnp.abs(jnp.stack(points)) <= math.pi * (1 + 1e-6), axis=0)
    return [jnp.where(fine, x, 0.0) for x in points], fine
