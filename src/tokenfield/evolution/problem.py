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

    @property
    def term(self) -> Any:
        return self.motion.term

    def stops(self, t: Float[Array, ""], y: State) -> Bool[Array, ""]:
        """Whether the stop condition is met."""
        if self.until is None:
            return jnp.asarray(False)
        answer = jnp.asarray(self.until(t, self.motion.measure(y)))
        if answer.shape != ():
            raise InputError(f"Argument `until` must return one true or false, but returned shape {answer.shape}.")
        return answer.astype(bool)


@eqx.filter_jit
def explodes(p: Problem, t: Float[Array, ""], y: State, memory: Any) -> Bool[Array, ""]:
    """Whether steps shrank because the solution runs away: its speed is out of all proportion to its time and size, or
    its size has reached the end of the range of numbers."""
    speed, size = jnp.max(jnp.abs(p.motion.rate(t, y, memory))), jnp.max(jnp.abs(y))
    return ~(speed * (t - p.t0) < 1e6 * size) | (size > jnp.finfo(y.dtype).max ** 0.95)
