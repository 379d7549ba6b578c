"""Tokens: the particle equation."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool

from tokenfield._types import Memory, Rows, Self, Time
from tokenfield.evolution.motions.base import AbstractMotion, MotionKind, State, Sums
from tokenfield.flow import Flow
from tokenfield.measures import Tokens
from tokenfield.parameters import at_time
from tokenfield.summation import AbstractSummation


class Particles(AbstractMotion, MotionKind):
    """ẋ_i = v_μ(x_i), μ = Σ w_i δ_{x_i}. A row is a token x, and where weights evolve its log(n w) as one more number."""

    flow: Flow
    start: Tokens
    over_tokens: AbstractSummation

    options: ClassVar[frozenset[str]] = frozenset({"summation", "devices", "coalesce"})
    name: ClassVar[str] = "Tokens without noise are"
    layered: ClassVar[bool] = True

    @classmethod
    def settle(cls, flow: Flow, mu: Tokens) -> Tokens:
        flow.check(mu.d)
        return flow.normalization.settle(mu)

    @classmethod
    def begin(cls, flow: Flow, start: Tokens, t0: Any) -> Tokens:
        return flow.normalization.begin(t0, start)

    @classmethod
    def layer(cls, flow: Flow, k: Any, t: Any, step: Any, mu: Tokens, summation: Any) -> Tokens:
        return flow.layer(k, t, step, mu, summation)

    @classmethod
    def pose(cls, flow: Flow, start: Tokens, sums: Sums, seed: Any) -> Self:
        return cls(flow, start, flow.summation(start, None, *sums))

    @property
    def sums(self) -> AbstractSummation:
        return self.over_tokens

    @property
    def first(self) -> State:
        if self.flow.reweighting is None:
            return self.start.x
        return jnp.column_stack([self.start.x, jnp.log(self.start.n * self.start.w)])

    def tokens(self, y: State) -> Tokens:
        """The measure of a state, as it is."""
        if self.flow.reweighting is None:
            return self.start.with_points(y)
        w = jnp.exp(y[:, -1] - jnp.max(y[:, -1]))
        return eqx.tree_at(lambda mu: (mu.x, mu.w), self.start, (y[:, :-1], w / jnp.sum(w)))

    def measure(self, y: State) -> Tokens:
        """The measure of a state, as the flow returns it (on the sphere, say)."""
        return self.flow.normalization.settle(self.tokens(y))

    def rate(self, t: Time, y: Rows, memory: Memory) -> Any:
        flow = eqx.tree_at(lambda f: f.attention, self.flow, self.flow.attention.recall(memory))
        mu = self.tokens(y)
        v = flow.velocity(t, mu, None, self.over_tokens)
        if flow.reweighting is None:
            return v
        return jnp.column_stack([v, flow.growth(t, mu, self.over_tokens)])

    def remember(self, t: Array, y: State, memory: Memory) -> Any:
        if not self.flow.attention.remembers:
            return None
        flow = at_time(self.flow, t)
        return flow.attention.remember(flow.normalization.reads(self.tokens(y)), memory, self.over_tokens)

    def healthy(self, memory: Memory) -> Bool[Array, ""]:
        return jnp.asarray(self.flow.attention.healthy(memory))
