"""Gaussians: the equations of mean and covariance."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Bool

from tokenfield._types import Memory, Rows, Self, Time
from tokenfield.evolution.motions.base import AbstractMotion, MotionKind, State, Sums, refuse_parts
from tokenfield.flow import Flow
from tokenfield.measures import Gaussian
from tokenfield.parameters import at_layer, at_time


class Affine(AbstractMotion, MotionKind):
    """Gaussians: ṁ = Γ(m) and L̇ = BL with Σ = LLᵀ, so that Σ has no negative eigenvalue and keeps its rank whatever
    the solver does  [castin2025]. Rows are m and the columns of L."""

    flow: Flow
    start: Gaussian
    rtol: ClassVar[float] = 1e-9
    name: ClassVar[str] = "A Gaussian is"
    layered: ClassVar[bool] = True

    @classmethod
    def settle(cls, flow: Flow, mu: Gaussian) -> Gaussian:
        refuse_parts(flow, "A Gaussian", noise=True)
        flow.check(mu.d)
        if not flow.normalization.keeps_gaussians:
            raise flow.normalization.no_gaussians()
        return flow.normalization.settle(mu)

    @classmethod
    def layer(cls, flow: Flow, k: Any, t: Any, step: Any, mu: Gaussian, summation: Any) -> Gaussian:
        now = at_layer(flow, k, t)
        return now.normalization.gaussian_layer(t, step, mu, now.attention)

    @classmethod
    def pose(cls, flow: Flow, start: Gaussian, sums: Sums, seed: Any) -> Self:
        return cls(flow, start)

    @property
    def first(self) -> State:
        return jnp.vstack([self.start.mean, self.start.factor.T])

    def measure(self, y: State) -> Gaussian:
        cov = y[1:].T @ y[1:]
        return self.flow.normalization.settle(self.start.with_moments(y[0], 0.5 * (cov + cov.T)))

    def rate(self, t: Time, y: Rows, memory: Memory) -> Any:
        flow = at_time(self.flow, t)
        mean, factor = flow.normalization.gaussian(t, y[0], y[1:].T, flow.attention)
        return jnp.where(self.representable(y), jnp.vstack([mean, factor.T]).astype(y.dtype), jnp.nan)

    def representable(self, y: State) -> Bool[Array, ""]:
        """LLᵀ is finite too."""
        return jnp.max(jnp.abs(y[1:])) < (0.25 * jnp.finfo(y.dtype).max / y.shape[1]) ** 0.5


class Widening(AbstractMotion, MotionKind):
    """Gaussians with noise: Σ̇ = BΣ + ΣBᵀ + (2/κ)I. Rows are m and those of Σ."""

    flow: Flow
    start: Gaussian
    rtol: ClassVar[float] = 1e-9
    name: ClassVar[str] = "A Gaussian is"

    @classmethod
    def settle(cls, flow: Flow, mu: Gaussian) -> Gaussian:
        return Affine.settle(flow, mu)

    @classmethod
    def pose(cls, flow: Flow, start: Gaussian, sums: Sums, seed: Any) -> Self:
        return cls(flow, start)

    @property
    def first(self) -> State:
        return jnp.vstack([self.start.mean, self.start.cov])

    def measure(self, y: State) -> Gaussian:
        return self.start.with_moments(y[0], 0.5 * (y[1:] + y[1:].T))

    def rate(self, t: Time, y: Rows, memory: Memory) -> Any:
        flow = at_time(self.flow, t)
        L = self.measure(y).factor
        mean, slope = flow.normalization.gaussian(t, y[0], L, flow.attention)
        growth = slope @ L.T
        assert flow.kappa is not None
        spread = growth + growth.T + 2 / flow.kappa * jnp.eye(len(mean), dtype=L.dtype)
        return jnp.vstack([mean, spread]).astype(y.dtype)
