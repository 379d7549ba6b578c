"""Densities: the continuity and Fokker–Planck equations in harmonics."""

from typing import Any, ClassVar

import diffrax as dfx
import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool

from tokenfield._types import Memory, Rows, Self, Time
from tokenfield.attention.reductions import on_densities
from tokenfield.errors import InputError
from tokenfield.evolution.motions.base import AbstractMotion, Method, MotionKind, Pacing, State, Sums, refuse_parts
from tokenfield.evolution.solvers.etd4 import ETD4
from tokenfield.flow import Flow
from tokenfield.measures import AbstractDensity
from tokenfield.measures.density import NEGATIVE
from tokenfield.parameters import at_time, scheduled


class Spectral(AbstractMotion, MotionKind):
    r"""$∂_t f = -\mathrm{div}(f ∇φ) + κ^{-1} Δf$ with φ the potential of attention  [rigollet2025, section 7].

    $\mathrm{div}(f∇φ) = \frac12 (Δ(fφ) + fΔφ - φΔf)$: products are taken on the grid, which integrates them exactly, and Δ
    is a number per harmonic. The first coefficient, the mass, does not move. There is one row, the coefficients, so errors
    are norms in L²(σ).
    """

    flow: Flow
    start: AbstractDensity
    solvers: ClassVar[tuple[str, ...]] = ("etd4",)
    rtol: ClassVar[float] = 1e-8
    options: ClassVar[frozenset[str]] = frozenset({"refine"})
    name: ClassVar[str] = "Densities are"

    @classmethod
    def settle(cls, flow: Flow, mu: AbstractDensity) -> AbstractDensity:
        refuse_parts(flow, "A density", noise=True)
        if not flow.normalization.tangential:
            raise InputError(
                "A density lives on the sphere and moves under PostLN or SqrtScaling, without a gain, but the flow has "
                f"{type(flow.normalization).__name__}. For other schemes move tokens: density.sample(n)."
            )
        return mu

    @classmethod
    def pose(cls, flow: Flow, start: AbstractDensity, sums: Sums, seed: Any) -> Self:
        return cls(flow, start)

    def method(self, solver: str | dfx.AbstractSolver, rtol: Array, atol: Array, pacing: Pacing) -> Method:
        return ETD4(), super().method("tsit5", rtol, atol, pacing)[1]

    @property
    def description(self) -> str:
        return "spectral"

    @property
    def first(self) -> State:
        return self.start.coefficients[None]

    def measure(self, y: State) -> AbstractDensity:
        return self.start.with_coefficients(y[0])

    def remember(self, t: Array, y: State, memory: Memory) -> Any:
        """The kernel's eigenvalues, made once where the attention does not change."""
        if memory is not None or scheduled(self.flow.attention):
            return memory
        return on_densities(self.flow.attention).spectrum(self.start.d, self.start.degree)

    def transport(self, t: Time, y: Rows, memory: Memory) -> Any:
        """-div(f∇φ)."""
        flow, basis, f = at_time(self.flow, t), self.start.basis, y[0]
        attention = on_densities(flow.attention)
        spectrum = attention.spectrum(self.start.d, self.start.degree) if memory is None else memory
        φ = flow.normalization.speed(t, f.dtype) * attention.potential(f, basis, spectrum)
        Δ = jnp.asarray(basis.laplacian, f.dtype)
        f_, φ_, Δf, Δφ = basis.synthesize(jnp.stack([f, φ, Δ * f, Δ * φ]))
        product, commutator = basis.analyze(jnp.stack([f_ * φ_, f_ * Δφ - φ_ * Δf]))
        return (-0.5 * (Δ * product + commutator)).at[0].set(0.0)[None]

    def diffusion(self, t: Time, y: Rows, memory: Memory) -> Any:
        """κ⁻¹Δf."""
        rate = jnp.zeros((), y.dtype) if self.flow.kappa is None else 1 / self.flow.kappa
        return rate * jnp.asarray(self.start.basis.laplacian, y.dtype) * y

    def rate(self, t: Time, y: Rows, memory: Memory) -> Any:
        return self.transport(t, y, memory) + self.diffusion(t, y, memory)

    @property
    def term(self) -> dfx.MultiTerm:
        return dfx.MultiTerm(dfx.ODETerm(self.transport), dfx.ODETerm(self.diffusion))

    def resolved(self, y: State, rtol: Array) -> Bool[Array, ""]:
        """The last eighth of the degrees is below the tolerance, and f is not negative beyond it."""
        mu = self.measure(y)
        tolerance = jnp.maximum(rtol, 5e3 * jnp.finfo(y.dtype).eps)  # which round-off leaves in the last coefficients
        dip = jnp.maximum(NEGATIVE, 100 * tolerance)
        return (mu.tail < tolerance) & (mu.least > -dip * jnp.max(mu.values))

    def finer(self, y: State) -> Self | None:
        """The same motion from a state, with more degrees; None beyond the most that are sensible."""
        mu = self.measure(y)
        finer = min(mu.degree * mu.basis.refinement, mu.basis.most)
        return None if finer <= mu.degree else eqx.tree_at(lambda motion: motion.start, self, mu.refined(finer))
