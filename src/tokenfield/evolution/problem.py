"""What is integrated: a motion over an interval of time, with everything that a solver needs."""

from typing import Any

import diffrax as dfx
import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from tokenfield.errors import InputError
from tokenfield.evolution.motion import AbstractMotion, State


class Problem(eqx.Module):
    """A motion over [t0, t1], saved at `ts`, perhaps until a condition is met."""

    motion: AbstractMotion
    t0: Float[Array, ""]
    t1: Float[Array, ""]
    ts: Float[Array, " T"]
    solver: dfx.AbstractSolver
    control: dfx.AbstractStepSizeController
    until: Any
    strict: bool = eqx.field(static=True, default=True)
    """Whether a state that is no longer resolved ends the walk, or is only told of at the end."""
    origin: Any = None
    """What is added to times before a stop condition sees them, where a walk counts from its own beginning."""
    dt0: Any = None
    """A first step that was good before; a longer one may be tried."""

    @property
    def term(self) -> Any:
        return self.motion.term

    def stops(self, t: Float[Array, ""], y: State) -> Bool[Array, ""]:
        """Whether the stop condition is met."""
        if self.until is None:
            return jnp.asarray(False)
        t = t if self.origin is None else t + self.origin
        answer = jnp.asarray(self.until(t, self.motion.measure(y)))
        if answer.shape != ():
            raise InputError(f"Argument `until` must return one true or false, but returned shape {answer.shape}.")
        return answer.astype(bool)

    @property
    def pauses(self) -> bool:
        """Whether something may end a step early."""
        return self.until is not None or self.motion.locates

    def halts(self, t: Float[Array, ""], y: State) -> Bool[Array, ""]:
        """Whether the stop condition is met, or tokens have met."""
        return self.stops(t, y) | self.motion.meets(y) if self.motion.merges else self.stops(t, y)


@eqx.filter_jit
def explodes(p: Problem, t: Float[Array, ""], y: State, memory: Any) -> Bool[Array, ""]:
    """Whether steps shrank because the solution runs away: its speed is out of all proportion to its time and size, or
    its size has reached the end of the range of numbers."""
    speed, size = jnp.max(jnp.abs(p.motion.rate(t, y, memory))), jnp.max(jnp.abs(y))
    return ~(speed * (t - p.t0) < 1e6 * size) | (size > jnp.finfo(y.dtype).max ** 0.95)
