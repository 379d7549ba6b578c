"""What is integrated: a motion over an interval of time, with everything that a solver needs."""

from typing import Any

import diffrax as dfx
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from tokenfield._compile import compiled
from tokenfield._norms import sizes
from tokenfield._types import AnyArray
from tokenfield.errors import InputError
from tokenfield.evolution.motions.base import AbstractMotion, Pacing, State
from tokenfield.status import Status


class Plan(eqx.Module):
    """How to solve, whatever moves. One plan serves every member of an ensemble and every phase of a merging run.

    A walk keeps its saved states in an album of fixed size, and looks at as many save times ahead as the album has pages, and
    one more. So neither the number of save times nor anything else in a plan is part of a compiled program's shape."""

    t0: Float[Array, ""]
    t1: Float[Array, ""]
    rtol: Float[Array, ""]
    atol: Float[Array, ""]
    step: Float[Array, ""] | None
    solver: Any
    """The name of a solver, or a Diffrax solver."""
    until: Any
    strict: bool = eqx.field(static=True)
    """Whether a state that is no longer resolved ends the walk, or is only mentioned at the end."""
    elapsed: Float[Array, ""] | None = None
    """What is added to times before a stop condition sees them, where a walk counts from its own beginning."""
    dt0: Float[Array, ""] | None = None
    """A first step that was good before; a longer one may be tried."""
    taken: Int[Array, ""] | None = None
    """How many steps were taken before, where a run goes on in steps of a given length."""
    observe: Any = None
    """Observables that are kept instead of states."""

    def problem(self, motion: AbstractMotion, ts: Float[Array, " T"]) -> "Problem":
        """The problem of one motion, whose states are saved at `ts`."""
        solver, control = motion.method(self.solver, self.rtol, self.atol, Pacing(ts, self.t1, self.step, self.taken))
        return Problem(self, motion, ts, solver, control)


class Problem(eqx.Module):
    """A motion over [t0, t1], saved at `ts`, perhaps until a condition is met."""

    plan: Plan
    motion: AbstractMotion
    ts: Float[Array, " T"]
    solver: dfx.AbstractSolver
    control: dfx.AbstractStepSizeController

    def kept(self, y: State) -> Any:
        """What is kept of a state: its measure, or observables of it."""
        mu = self.motion.measure(y)
        return mu if self.plan.observe is None else self.plan.observe(mu)

    def met(self, t: Float[Array, ""], y: State) -> Bool[Array, ""]:
        """Whether the stop condition `until` is met."""
        if self.plan.until is None:
            return jnp.asarray(False)
        t = t if self.plan.elapsed is None else t + self.plan.elapsed
        returned = self.plan.until(t, self.motion.measure(y))
        if not isinstance(returned, bool | float | int | np.generic | np.ndarray | jax.Array):
            raise InputError(f"Argument `until` must return one true or false, but returned {type(returned).__name__}.")
        answer = jnp.asarray(returned)
        if answer.shape != ():
            raise InputError(f"Argument `until` must return one true or false, but returned shape {answer.shape}.")
        return answer.astype(bool)

    def stop(self, t: Float[Array, ""], y: State, steps: Int[Array, ""]) -> Int[Array, ""]:
        """RUNNING, or why the walk is to stop here: its stop condition is met, or the motion itself asks for it."""
        return jnp.where(self.met(t, y), Status.STOPPED, self.motion.stop(t, y, steps))

    @property
    def may_stop(self) -> str | None:
        """Whether a walk may stop early: None, "inside" a step, where the time is located, or "after" it."""
        return self.motion.may_stop if self.plan.until is None else "inside"


LEAST_GROWTH = 1e4
"""Growth, in units of one over the time that has passed, that no exponential growth between two numbers of the machine has."""


@compiled
def explodes(motion: AbstractMotion, elapsed: AnyArray, t: Array, y: State, memory: Any) -> Bool[Array, ""]:
    """Whether steps shrank because the solution runs away: it grows at a rate out of all proportion to the time that has passed,
    or its size has reached the end of the range of numbers."""
    rate, end = motion.rate(t, y, memory), jnp.finfo(y.dtype).max ** 0.05
    growing = sizes(y) * (1 + 1e-6) >= sizes(motion.first)  # not those that pass the origin
    growth = jnp.max(jnp.where(growing, jnp.sum(y * rate, axis=1) / jnp.maximum(sizes(y), 1e-300) ** 2, 0.0))
    least = jnp.minimum(1e6, 1e-4 / jnp.finfo(y.dtype).eps)  # which steps of the least length can tell
    full = (jnp.max(jnp.abs(y)) > jnp.finfo(y.dtype).max / end) | ~motion.representable(y * end)
    return ~(growth * elapsed < least) | full


def runs_off(p: Problem, t: Array, y: State, growth: Float[Array, " rows"]) -> Bool[Array, ""]:
    """Whether a solution that has come to its end grows so fast there that it runs away at this very time, to the tolerance."""
    least = jnp.maximum(LEAST_GROWTH, 0.01 / p.plan.rtol)
    growing = sizes(y) > sizes(p.motion.first)
    return jnp.any(growing & ~(growth * (t - p.plan.t0) < least))
