"""What is integrated: the particle ODE of a flow."""

from typing import Any

import diffrax as dfx
import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from tokenfield.errors import InputError
from tokenfield.flow import Flow
from tokenfield.measures import Tokens
from tokenfield.parameters import at_time
from tokenfield.summation import AbstractSummation

State = Float[Array, "n k"]
"""What the solver moves, a row a token: its point x, and where weights evolve its log(n w) as one more coordinate."""


class Problem(eqx.Module):
    """A flow from a start over [t0, t1], saved at `ts`, perhaps until a condition is met."""

    flow: Flow
    start: Tokens
    t0: Float[Array, ""]
    t1: Float[Array, ""]
    ts: Float[Array, " T"]
    solver: dfx.AbstractSolver
    control: dfx.AbstractStepSizeController
    until: Any
    summation: AbstractSummation

    @property
    def first(self) -> State:
        if self.flow.reweighting is None:
            return self.start.x
        return jnp.column_stack([self.start.x, jnp.log(self.start.n * self.start.w)])

    def tokens(self, y: State) -> Tokens:
        """The measure of a state, as it is."""
        if self.flow.reweighting is None:
            return self.start.at(y)
        w = jnp.exp(y[:, -1] - jnp.max(y[:, -1]))
        return eqx.tree_at(lambda mu: (mu.x, mu.w), self.start, (y[:, :-1], w / jnp.sum(w)))

    def measure(self, y: State) -> Tokens:
        """The measure of a state, as the flow returns it (on the sphere, say)."""
        return self.flow.normalization.settle(self.tokens(y))

    @property
    def term(self) -> dfx.ODETerm:
        """ẋ_i = v_μ(x_i), μ = Σ w_i δ_{x_i}; and d log w_i / dt where weights evolve. `memory` is attention's own."""

        def rate(t: Any, y: Any, memory: Any) -> Any:
            flow = eqx.tree_at(lambda f: f.attention, self.flow, self.flow.attention.recall(memory))
            mu = self.tokens(y)
            v = flow.velocity(t, mu, None, self.summation)
            if flow.reweighting is None:
                return v
            return jnp.column_stack([v, flow.growth(t, mu, self.summation)])

        return dfx.ODETerm(rate)

    def remember(self, t: Array, y: State, memory: Any) -> Any:
        """What attention carries to the next step."""
        flow = at_time(self.flow, t)
        return flow.attention.remember(flow.normalization.reads(self.tokens(y)), memory)

    def healthy(self, memory: Any) -> Any:
        return jnp.asarray(self.flow.attention.healthy(memory))

    def stops(self, t: Float[Array, ""], y: State) -> Bool[Array, ""]:
        """Whether the stop condition is met."""
        if self.until is None:
            return jnp.asarray(False)
        answer = jnp.asarray(self.until(t, self.measure(y)))
        if answer.shape != ():
            raise InputError(f"Argument `until` must return one true or false, but returned shape {answer.shape}.")
        return answer.astype(bool)


@eqx.filter_jit
def explodes(p: Problem, t: Float[Array, ""], y: State, memory: Any) -> Bool[Array, ""]:
    """Whether steps shrank because the solution runs away: its speed is out of all proportion to its time and size, or
    its size has reached the end of the range of numbers."""
    speed, size = jnp.max(jnp.abs(p.term.vf(t, y, memory))), jnp.max(jnp.abs(y))
    return ~(speed * (t - p.t0) < 1e6 * size) | (size > jnp.finfo(y.dtype).max ** 0.95)
