"""Equiangular tokens: the equations of their common angle and length."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp

from tokenfield import _checks as check
from tokenfield._types import Memory, Rows, Self, Time
from tokenfield.evolution.motions.base import AbstractMotion, MotionKind, State, Sums, refuse_parts
from tokenfield.flow import Flow
from tokenfield.measures import Equiangular
from tokenfield.parameters import at_layer, at_time


class Cosine(AbstractMotion, MotionKind):
    """Equiangular tokens: the equations of u = log[(1 + (n-1)ρ)/(1 - ρ)] and r  [rigollet2025, section 6]."""

    flow: Flow
    start: Equiangular
    rtol: ClassVar[float] = 1e-10
    name: ClassVar[str] = "Equiangular tokens are"
    layered: ClassVar[bool] = True

    @classmethod
    def settle(cls, flow: Flow, mu: Equiangular) -> Equiangular:
        refuse_parts(flow, "Equiangular tokens")
        return mu

    @classmethod
    def begin(cls, flow: Flow, start: Equiangular, t0: Any) -> Equiangular:
        """On the sphere lengths are 1."""
        xp, r, on = check.known(start.r, flow.normalization.on_sphere(t0))
        return eqx.tree_at(lambda mu: mu.r, start, xp.where(on, xp.ones_like(r), r))

    @classmethod
    def layer(cls, flow: Flow, k: Any, t: Any, step: Any, mu: Equiangular, summation: Any) -> Equiangular:
        now = at_layer(flow, k, t)
        return now.normalization.equiangular_layer(t, step, mu, now.attention)

    @classmethod
    def pose(cls, flow: Flow, start: Equiangular, sums: Sums, seed: Any) -> Self:
        return cls(flow, start)

    @property
    def first(self) -> State:
        return jnp.stack([self.start.alignment, self.start.r])[:, None]

    def measure(self, y: State) -> Equiangular:
        return self.start.with_alignment(y[0, 0], y[1, 0])

    def rate(self, t: Time, y: Rows, memory: Memory) -> Any:
        flow = at_time(self.flow, t)
        return jnp.stack(flow.normalization.equiangular(t, self.measure(y), flow.attention))[:, None]
