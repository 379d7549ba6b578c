"""From a flow and a measure to a problem for solvers."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from tokenfield.evolution.density import Spectral
from tokenfield.evolution.motion import AbstractMotion
from tokenfield.evolution.noise import NoisyParticles
from tokenfield.evolution.particles import Particles
from tokenfield.evolution.problem import Problem
from tokenfield.evolution.reductions import Affine, Cosine
from tokenfield.flow import Flow
from tokenfield.measures import AbstractDensity, AbstractMeasure, Equiangular, Gaussian


def motion_of(flow: Flow, mu: AbstractMeasure) -> type[AbstractMotion]:
    """How this kind of measure moves along the flow."""
    if isinstance(mu, Equiangular):
        return Cosine
    if isinstance(mu, Gaussian):
        return Affine
    if isinstance(mu, AbstractDensity):
        return Spectral
    return Particles if flow.kappa is None else NoisyParticles


def begin(flow: Flow, mu: AbstractMeasure, summation: Any, seed: Any, rtol: Any) -> AbstractMotion:
    """The motion from this start; refuses what flow and measure cannot do together. Sums are ten times as accurate as
    steps."""
    kind: Any = motion_of(flow, mu)
    if kind not in (Particles, NoisyParticles):
        return kind.begin(flow, mu)
    start = flow.settle(mu)
    sums = flow.sums(start, None, summation, 0.1 * rtol, run=True)
    return kind.begin(flow, start, sums, seed)


class Plan(eqx.Module):
    """How to solve, whatever moves: times, solver, tolerances. One plan serves every member of an ensemble."""

    t0: Float[Array, ""]
    t1: Float[Array, ""]
    ts: Float[Array, " T"]
    rtol: Float[Array, ""]
    atol: Float[Array, ""]
    solver: Any
    step: Any
    summation: Any
    until: Any
    strict: bool = eqx.field(static=True)

    def problem(self, motion: AbstractMotion) -> Problem:
        ends = jnp.append(self.ts, self.t1)
        method, control = motion.method(self.solver, self.rtol, self.atol, self.step, ends)
        return Problem(
            motion=motion.to_tolerance(self.rtol),
            t0=self.t0,
            t1=self.t1,
            ts=self.ts,
            solver=method,
            control=control,
            until=self.until,
            strict=self.strict,
        )

    def of(self, flow: Flow, mu0: AbstractMeasure, seed: Any) -> Problem:
        """The problem of one member, from a start that was checked before."""
        return self.problem(begin(flow, mu0, self.summation, seed, self.rtol))
