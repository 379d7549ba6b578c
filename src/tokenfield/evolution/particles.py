"""Tokens: the particle equation."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from tokenfield.evolution.motion import AbstractMotion, State
from tokenfield.flow import Flow
from tokenfield.measures import Tokens
from tokenfield.parameters import at_time
from tokenfield.summation import AbstractSummation, Span


class Particles(AbstractMotion):
    """ẋ_i = v_μ(x_i), μ = Σ w_i δ_{x_i}. A row is a token x, and where weights evolve its log(n w) as one more number."""

    flow: Flow
    start: Tokens
    summation: AbstractSummation
    basis: Float[Array, "r d"] | None
    """An orthonormal basis of the tokens' span, where `start` and rows are coordinates in it."""

    @staticmethod
    def begin(flow: Flow, start: Tokens, summation: AbstractSummation, seed: Any) -> "Particles":
        if not isinstance(summation, Span):
            return Particles(flow, start, summation, None)
        y, basis = Span.coordinates(start.x)
        return Particles(flow, start.at(y), summation, basis)

    @property
    def sums(self) -> str:
        return self.summation.told

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
        mu = self.tokens(y)
        return self.flow.normalization.settle(mu if self.basis is None else mu.at(mu.x @ self.basis))

    def rate(self, t: Any, y: Any, memory: Any) -> Any:
        flow = eqx.tree_at(lambda f: f.attention, self.flow, self.flow.attention.recall(memory))
        mu = self.tokens(y)
        v = flow.velocity(t, mu, None, self.summation)
        if flow.reweighting is None:
            return v
        return jnp.column_stack([v, flow.growth(t, mu, self.summation)])

    def remember(self, t: Array, y: State, memory: Any) -> Any:
        flow = at_time(self.flow, t)
        return flow.attention.remember(flow.normalization.reads(self.tokens(y)), memory)

    def healthy(self, memory: Any) -> Any:
        return jnp.asarray(self.flow.attention.healthy(memory))
