"""Densities: the continuity and Fokker–Planck equations in harmonics."""

import math
from typing import Any, ClassVar

import diffrax as dfx
import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from tokenfield.errors import InputError
from tokenfield.evolution.motion import AbstractMotion, State, refuse_parts
from tokenfield.flow import Flow
from tokenfield.harmonics import Fourier, Spherical, Zonal
from tokenfield.measures import AbstractDensity
from tokenfield.measures.density import MOST, NEGATIVE
from tokenfield.normalization import PostLN, SqrtScaling
from tokenfield.parameters import at_time, scheduled

MORE = {Fourier: 4, Zonal: 2, Spherical: 2}
"""How many times more degrees a refinement takes: as many as are cheap, since every change is compiled anew."""


class Spectral(AbstractMotion):
    r"""$∂_t f = -\mathrm{div}(f ∇φ) + κ^{-1} Δf$ with φ the potential of attention  [rigollet2025, section 7].

    $\mathrm{div}(f∇φ) = \frac12 (Δ(fφ) + fΔφ - φΔf)$: products are taken on the grid, which integrates them exactly, and Δ
    is a number a harmonic. The first coefficient, the mass, does not move. There is one row, the coefficients, so errors
    are norms in L²(σ).
    """

    flow: Flow
    start: AbstractDensity
    tolerance: Float[Array, ""]
    solver: ClassVar[str] = "etd4"
    rtol: ClassVar[float] = 1e-8

    @staticmethod
    def begin(flow: Flow, mu: AbstractDensity) -> "Spectral":
        refuse_parts(flow, "A density", noise=True)
        if not isinstance(flow.normalization, PostLN | SqrtScaling) or flow.normalization.gain is not None:
            raise InputError(
                "A density lives on the sphere and moves under PostLN or SqrtScaling, without a gain, but the flow has "
                f"{type(flow.normalization).__name__}. For other schemes move tokens: density.sample(n)."
            )
        motion = Spectral(flow, mu, jnp.asarray(Spectral.rtol, mu.dtype))
        motion.trace()
        return motion

    def method(self, solver: Any, rtol: Array, atol: Array, step: Any, ts: Array) -> tuple[Any, Any]:
        if solver not in (None, "etd4"):
            raise InputError(f"Densities are moved by the solver 'etd4', but got {solver!r}. Leave it out.")
        return ETD4(), super().method("tsit5", rtol, atol, step, ts)[1]

    def to_tolerance(self, rtol: Float[Array, ""]) -> "Spectral":
        least = 5e3 * float(jnp.finfo(self.first.dtype).eps)  # what round-off leaves in the last coefficients
        return eqx.tree_at(lambda motion: motion.tolerance, self, jnp.maximum(rtol, least).astype(self.tolerance.dtype))

    @property
    def sums(self) -> str:
        return "spectral"

    @property
    def first(self) -> State:
        return self.start.coefficients[None]

    def measure(self, y: State) -> AbstractDensity:
        return self.start.at(y[0])

    def remember(self, t: Array, y: State, memory: Any) -> Any:
        """The kernel's eigenvalues, made once where the attention does not change."""
        if memory is not None or scheduled(self.flow.attention):
            return memory
        return self.flow.attention.spectrum(self.start.d, self.start.degree)

    def transport(self, t: Any, y: Any, memory: Any) -> Any:
        """-div(f∇φ)."""
        flow, basis, f = at_time(self.flow, t), self.start.basis, y[0]
        spectrum = flow.attention.spectrum(self.start.d, self.start.degree) if memory is None else memory
        speed = flow.normalization.drive(t, jnp.ones((1, 1), f.dtype))[0, 0]
        φ, Δ = speed * flow.attention.potential(f, basis, spectrum), jnp.asarray(basis.laplacian, f.dtype)
        f_, φ_, Δf, Δφ = basis.synthesize(jnp.stack([f, φ, Δ * f, Δ * φ]))
        product, commutator = basis.analyze(jnp.stack([f_ * φ_, f_ * Δφ - φ_ * Δf]))
        return (-0.5 * (Δ * product + commutator)).at[0].set(0.0)[None]

    def diffusion(self, t: Any, y: Any, memory: Any) -> Any:
        """κ⁻¹Δf."""
        rate = jnp.zeros((), y.dtype) if self.flow.kappa is None else 1 / self.flow.kappa
        return rate * jnp.asarray(self.start.basis.laplacian, y.dtype) * y

    def rate(self, t: Any, y: Any, memory: Any) -> Any:
        return self.transport(t, y, memory) + self.diffusion(t, y, memory)

    @property
    def term(self) -> dfx.MultiTerm:
        return dfx.MultiTerm(dfx.ODETerm(self.transport), dfx.ODETerm(self.diffusion))

    def resolved(self, y: State) -> Bool[Array, ""]:
        """The last eighth of the degrees is below the tolerance, and f is not negative beyond it."""
        mu = self.measure(y)
        dip = jnp.maximum(NEGATIVE, 100 * self.tolerance)
        return (mu.tail < self.tolerance) & (mu.least > -dip * jnp.max(mu.values))

    def finer(self, y: State) -> "Spectral | None":
        """The same motion from a state, with more degrees; None beyond the most that are sensible."""
        mu = self.measure(y)
        finer = min(mu.degree * MORE[type(mu.basis)], MOST[type(mu.basis)])
        return None if finer <= mu.degree else eqx.tree_at(lambda motion: motion.start, self, mu.refined(finer))


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

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> Any:
        return terms.terms[0].vf(t0, y0, args)

    def func(self, terms: Any, t0: Any, y0: Any, args: Any) -> Any:
        return terms.terms[0].vf(t0, y0, args) + terms.terms[1].vf(t0, y0, args)

    def step(
        self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: Any, made_jump: Any
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
