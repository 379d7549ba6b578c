"""Measures of a few numbers that attention moves in closed form: equiangular tokens and Gaussians."""

from typing import Any, ClassVar

import jax.numpy as jnp

from tokenfield.evolution.motion import AbstractMotion, State, refuse_parts
from tokenfield.flow import Flow
from tokenfield.measures import Equiangular, Gaussian
from tokenfield.parameters import at_time


class Cosine(AbstractMotion):
    """Equiangular tokens: the equations of u = log[(1 + (n-1)ρ)/(1 - ρ)] and r  [rigollet2025, section 6]."""

    flow: Flow
    start: Equiangular
    rtol: ClassVar[float] = 1e-10

    @staticmethod
    def begin(flow: Flow, mu: Equiangular) -> "Cosine":
        refuse_parts(flow, "Equiangular tokens")
        motion = Cosine(flow, mu)
        motion.trace()
        return motion

    @property
    def first(self) -> State:
        r = jnp.where(self.flow.normalization.confines, 1.0, self.start.r)
        return jnp.stack([self.start.alignment, r])[:, None]

    def measure(self, y: State) -> Equiangular:
        return self.start.at(y[0, 0], y[1, 0])

    def rate(self, t: Any, y: Any, memory: Any) -> Any:
        flow = at_time(self.flow, t)
        return jnp.stack(flow.normalization.equiangular(t, self.measure(y), flow.attention))[:, None]


class Affine(AbstractMotion):
    """Gaussians: ṁ = Γ(m) and L̇ = BL with Σ = LLᵀ, so that Σ has no negative eigenvalue and keeps its rank whatever
    the solver does  [castin2025]. Rows are m and the columns of L."""

    flow: Flow
    start: Gaussian
    rtol: ClassVar[float] = 1e-9

    @staticmethod
    def begin(flow: Flow, mu: Gaussian) -> AbstractMotion:
        refuse_parts(flow, "A Gaussian", noise=True)
        flow.check(mu.d)
        make = Affine if flow.kappa is None else Widening
        make(flow, mu).trace()
        return make(flow, flow.normalization.settle(mu))

    @property
    def first(self) -> State:
        return jnp.vstack([self.start.mean, self.start.factor.T])

    def measure(self, y: State) -> Gaussian:
        cov = y[1:].T @ y[1:]
        return self.flow.normalization.settle(self.start.at(y[0], 0.5 * (cov + cov.T)))

    def rate(self, t: Any, y: Any, memory: Any) -> Any:
        flow = at_time(self.flow, t)
        mean, factor = flow.normalization.gaussian(t, y[0], y[1:].T, flow.attention)
        return jnp.vstack([mean, factor.T])


class Widening(AbstractMotion):
    """Gaussians with noise: Σ̇ = BΣ + ΣBᵀ + (2/κ)I. Rows are m and those of Σ."""

    flow: Flow
    start: Gaussian
    rtol: ClassVar[float] = 1e-9

    @property
    def first(self) -> State:
        return jnp.vstack([self.start.mean, self.start.cov])

    def measure(self, y: State) -> Gaussian:
        return self.start.at(y[0], 0.5 * (y[1:] + y[1:].T))

    def rate(self, t: Any, y: Any, memory: Any) -> Any:
        flow = at_time(self.flow, t)
        L = self.measure(y).factor
        mean, slope = flow.normalization.gaussian(t, y[0], L, flow.attention)
        growth = slope @ L.T
        assert flow.kappa is not None
        return jnp.vstack([mean, growth + growth.T + 2 / flow.kappa * jnp.eye(len(mean), dtype=L.dtype)])
