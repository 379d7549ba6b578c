"""Eigenvalues of the kernel e^{β<x,y>} on harmonics, to full relative accuracy at any β and in any dimension."""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._types import Count, Number

ORDERS = 2048
"""Orders beyond the highest degree at which the backward recurrence starts."""
FAR = 1600.0
"""From this |β| on, log c_0 comes from an expansion: its error is below 2e-14, while the series would need more orders."""


MANY = 4000
"""The same goes for dimensions beyond this, where the numbers of harmonics have too many digits."""


class Eigenvalues(NamedTuple):
    """Eigenvalues c_l of the kernel e^{β<x,y>} for l = 0..L, in a form that never overflows.

    - `ratio`: c_l/c_0.
    - `slope`: (c_l/β)/c_0, finite at β = 0; 0 at l = 0.
    - `log_first`: log c_0.
    """

    ratio: Float[Array, " L+1"]
    slope: Float[Array, " L+1"]
    log_first: Float[Array, ""]


@front_door
def kernel_eigenvalues(beta: Number, d: Count, degree: Count) -> Eigenvalues:
    r"""The eigenvalues of the kernel $e^{β⟨x,y⟩}$ on the harmonics of S^{d-1}: $\int e^{β⟨x,y⟩} Y_l(y) dσ(y) = c_l Y_l(x)$.

    They are $c_l = Γ(d/2)(2/β)^{d/2-1} I_{l+d/2-1}(β)$ (Funk and Hecke). The ratios $r_ν = I_{ν+1}/I_ν$ come from Gauss's
    continued fraction $r_ν = β / (2(ν+1) + β r_{ν+1})$, from high orders down, where they are nearly
    $β / (ν + 1/2 + \sqrt{(ν+1)^2 + β^2})$; $c_0$ comes from the value of the kernel at x = y,
    $e^{|β|} = \sum_l \dim_l |c_l|$, and at large β or d from Debye's expansion. Every step adds positive numbers.

    **Arguments**

    - `beta`: β, one number; it may be traced.
    - `d`: the sphere is S^{d-1}.
    - `degree`: the highest degree.

    **Returns** `Eigenvalues` for l = 0..degree, to full relative accuracy.

    **Raises** `InputError` where β is not one finite number, d not a whole number of at least 2, or the degree not one of at
    least 0, or beyond the memory that there is.

    >>> c = kernel_eigenvalues(jnp.asarray(2.0), 3, 1)          # on S²: c_0 = sinh β / β
    >>> bool(abs(jnp.exp(c.log_first) - math.sinh(2.0) / 2.0) < 1e-14)
    True
    """
    beta = check.scalar("beta", beta)
    d = check.whole("d", d, 2, "the sphere is S^{d-1}")
    degree = check.whole("degree", degree, 0, "the highest degree")
    check.room(16 * 8 * (degree + ORDERS), f"The eigenvalues up to degree {degree}")
    return _eigenvalues(beta, d, degree)


@functools.partial(jax.jit, static_argnums=(1, 2))
def _eigenvalues(beta: Float[Array, ""], d: int, degree: int) -> Eigenvalues:
    ν = np.arange(degree + ORDERS)[::-1] + d / 2 - 1
    step = lambda r, order: ((part := 1 / (2 * (order + 1) + beta * (beta * r))), part)
    top = 1 / (ν[0] + 1.5 + jnp.hypot(ν[0] + 2.0, beta))
    _, parts = lax.scan(step, top.astype(beta.dtype), jnp.asarray(ν, beta.dtype))
    parts = parts[::-1]  # r_ν / β
    ratio = jnp.concatenate([jnp.ones_like(parts[:1]), jnp.cumprod(beta * parts)])
    slope = jnp.concatenate([jnp.zeros_like(parts[:1]), parts[:1], parts[0] * jnp.cumprod(beta * parts[1:])])
    growth = np.exp(np.diff(log_dimension(np.arange(len(ratio)), d)))
    size = jnp.abs(beta)
    far = (size > FAR) | (d > MANY)
    near = jnp.where(far, 0.0, size)
    log_first = jnp.where(far, _log_debye(jnp.where(far, size, FAR), d), near - _log_series(growth * near * parts))
    return Eigenvalues(ratio[: degree + 1], slope[: degree + 1], log_first)


def _log_debye(beta: Float[Array, ""], d: int) -> Float[Array, ""]:
    """log c_0 = log Γ(d/2)(2/β)^ν I_ν(β), ν = d/2 - 1, by Debye's uniform expansion of I_ν in powers of 1/√(ν² + β²)."""
    ν = d / 2 - 1
    s = jnp.hypot(ν, beta)
    beyond = beta * (beta / (s + ν))  # s - ν
    if ν < 16:
        size = math.lgamma(d / 2) + s + ν * jnp.log(2 / (ν + s)) - 0.5 * jnp.log(2 * math.pi * s)
    else:  # log Γ by Stirling's series, so that nothing cancels where β is small beside d
        stirling = 1 / (12 * ν) - 1 / (360 * ν**3) + 1 / (1260 * ν**5) - 1 / (1680 * ν**7)
        size = beyond - ν * jnp.log1p(beyond / (2 * ν)) - 0.5 * jnp.log1p(beyond / ν) + stirling
    p = (ν / s) ** 2
    terms = (
        (3 - 5 * p) / (24 * s)
        + (81 - 462 * p + 385 * p**2) / (1152 * s**2)
        + (30375 - 369603 * p + 765765 * p**2 - 425425 * p**3) / (414720 * s**3)
    )
    return size + jnp.log1p(terms)


def _log_series(g: Float[Array, " k"]) -> Float[Array, ""]:
    """log(1 + g_0 (1 + g_1 (1 + ...))) for g ≥ 0, whatever the size of the sum."""

    def step(log_sum, factor):
        small = log_sum < 300
        near = jnp.log1p(factor * jnp.exp(jnp.where(small, log_sum, 0.0)))
        far = log_sum + jnp.log(jnp.where(small, 1.0, factor))
        return jnp.where(small, near, far), None

    return lax.scan(step, jnp.zeros_like(g[0]), g[::-1])[0]


def log_dimension(l: np.ndarray, d: int) -> np.ndarray:
    """log of the number of independent harmonics of degree l on S^{d-1}; for d = 2: 1, 2, 2, ..."""
    if d == 2:
        return np.where(l == 0, 0.0, math.log(2))
    lgamma = np.vectorize(math.lgamma)
    return np.log(2 * l + d - 2) + lgamma(l + d - 2.0) - lgamma(l + 1.0) - math.lgamma(d - 1.0)
