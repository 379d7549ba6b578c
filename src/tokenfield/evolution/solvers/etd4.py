"""Exponential time differencing: a stiff linear part that is a number per coefficient is treated exactly."""

import math
from typing import Any, ClassVar

import diffrax as dfx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from tokenfield._types import Memory, Rows, Time


class ETD4(dfx.AbstractAdaptiveSolver):
    r"""Exponential time differencing for $\dot y = N(t, y) + Λy$ with a diagonal Λ: Krogstad's method of order 4
    [krogstad2005], which treats Λ exactly and leaves stationary states where they are.

    The error is estimated by a solution of order 3: the last stage's N is replaced by that of the new state, which the next
    step needs anyway.
    """

    term_structure: ClassVar = dfx.MultiTerm[tuple[dfx.ODETerm, dfx.ODETerm]]
    interpolation_cls: ClassVar = dfx.ThirdOrderHermitePolynomialInterpolation

    def order(self, terms: Any) -> int:
        return 4

    def init(self, terms: Any, t0: Time, t1: Time, y0: Rows, args: Memory) -> Any:
        return terms.terms[0].vf(t0, y0, args)

    def func(self, terms: Any, t0: Time, y0: Rows, args: Memory) -> Any:
        return terms.terms[0].vf(t0, y0, args) + terms.terms[1].vf(t0, y0, args)

    def step(
        self, terms: Any, t0: Time, t1: Time, y0: Rows, args: Memory, solver_state: Any, made_jump: Any
    ) -> tuple[Any, Any, Any, Any, Any]:
        N, h = lambda t, y: terms.terms[0].vf(t, y, args), t1 - t0
        Λ = terms.terms[1].vf(t0, jnp.ones_like(y0), args)
        decay, weights = tableau(h * Λ)
        times = jnp.stack([t0 + 0.5 * h, t0 + 0.5 * h, t1, t1])
        n0 = lax.cond(made_jump, lambda: N(t0, y0), lambda: solver_state)

        def stage(i, carry):  # one place for N, so that it is compiled once
            slopes, _ = carry
            y = decay[i] * y0 + h * jnp.sum(weights[i] * slopes, axis=0)
            return slopes.at[i + 1].set(N(times[i], y)), y

        slopes = jnp.zeros((5, *y0.shape), y0.dtype).at[0].set(n0)
        slopes, y1 = lax.fori_loop(0, 4, stage, (slopes, y0))
        error = h * weights[3, 3] * (slopes[3] - slopes[4])
        ends = {"y0": y0, "y1": y1, "k0": h * (n0 + Λ * y0), "k1": h * (slopes[4] + Λ * y1)}
        return y1, error, ends, slopes[4], dfx.RESULTS.successful


def tableau(z: Float[Array, "*shape"]) -> tuple[Float[Array, "4 *shape"], Float[Array, "4 5 *shape"]]:
    r"""Krogstad's coefficients for z = hΛ. Stage i is $e^{c_i z} y_0 + h \sum_j a_{ij}(z) N_j$; the last is the new state."""
    e1, p1, p2, _ = phi(0.5 * z)
    e, q1, q2, q3 = phi(z)
    no = jnp.zeros_like(z)
    rows = [
        [0.5 * p1, no, no, no, no],
        [0.5 * p1 - p2, p2, no, no, no],
        [q1 - 2 * q2, no, 2 * q2, no, no],
        [q1 - 3 * q2 + 4 * q3, 2 * q2 - 4 * q3, 2 * q2 - 4 * q3, 4 * q3 - q2, no],
    ]
    return jnp.stack([e1, e1, e, e]), jnp.stack([jnp.stack(row) for row in rows])


def phi(z: Float[Array, "*shape"]) -> tuple[Array, ...]:
    r"""$φ_0 = e^z$, $φ_{k+1} = (φ_k - 1/k!)/z$, for z ≤ 0; by Taylor's series where that would cancel.

    >>> [round(float(part), 12) for part in phi(jnp.zeros(()))]
    [1.0, 1.0, 0.5, 0.166666666667]
    """
    near = jnp.abs(z) < 1.5
    small, large = jnp.where(near, z, 0.0), jnp.where(near, -2.0, z)
    series = [_taylor(small, k) for k in (1, 2, 3)]
    one = jnp.expm1(large) / large
    two = (one - 1) / large
    three = (two - 0.5) / large
    return jnp.exp(z), *(jnp.where(near, s, f) for s, f in zip(series, (one, two, three), strict=True))


def _taylor(z: Array, k: int, terms: int = 22) -> Array:
    """Σ_j z^j / (j + k)!, by Horner's rule."""
    total = jnp.ones_like(z)
    for j in range(terms, 0, -1):
        total = 1 + total * z / (j + k)
    return total / math.factorial(k)
