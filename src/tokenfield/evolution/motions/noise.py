"""Noisy tokens: dX_i = v_μ(X_i) dt + √(2/κ) dW_i, on the sphere or in R^d  [rigollet2025, section 7]."""

from typing import Any, ClassVar

import diffrax as dfx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tokenfield._types import Self
from tokenfield.errors import InputError
from tokenfield.evolution.motions.base import AbstractModified, Method, MotionKind, Pacing, Sums
from tokenfield.evolution.motions.particles import Particles
from tokenfield.evolution.solvers import Pace
from tokenfield.evolution.solvers.splitting import Brownian, Increments, Splitting
from tokenfield.flow import Flow
from tokenfield.measures import Tokens

LARGEST_TURN = 0.2
"""A step's Brownian motion on the sphere turns a token by an angle of variance at most twice this."""


class Noisy(AbstractModified, MotionKind):
    """The particle equation with independent Brownian motions."""

    inner: Particles  # pyright: ignore[reportIncompatibleVariableOverride]
    seed: Any

    solvers: ClassVar[tuple[str, ...]] = ("splitting",)
    rtol: ClassVar[float] = 1e-3
    options: ClassVar[frozenset[str]] = frozenset({"summation", "devices", "step", "seed"})
    name: ClassVar[str] = "Noisy tokens are"

    @classmethod
    def settle(cls, flow: Flow, mu: Tokens) -> Tokens:
        if not flow.normalization.takes_noise:
            raise InputError(
                f"Noise with {type(flow.normalization).__name__} normalization has no agreed meaning: it would be scaled as "
                "tokens are. Use Free() or a scheme on directions, such as PostLN()."
            )
        return Particles.settle(flow, mu)

    @classmethod
    def begin(cls, flow: Flow, start: Tokens, t0: Any) -> Tokens:
        return flow.normalization.begin(t0, start)

    @classmethod
    def pose(cls, flow: Flow, start: Tokens, sums: Sums, seed: Any) -> Self:
        parts = Particles.pose(flow, start, sums, seed), seed
        return cls(*parts)  # pyright: ignore[reportCallIssue]

    def method(self, solver: str | dfx.AbstractSolver, rtol: Array, atol: Array, pacing: Pacing) -> Method:
        jumps = [jnp.atleast_1d(jump).astype(pacing.ts.dtype) for jump in self.flow.jumps()]
        ends = jnp.concatenate([pacing.ts, *jumps])
        key, shape = jax.random.key(self.seed), self.inner.start.x.shape
        noise = Brownian(key, shape) if pacing.step is None else Increments(key, shape, pacing.taken)
        return Splitting(self.flow, noise), Pace(rtol, pacing.step, self.longest_step, ends, pacing.t1)

    @property
    def longest_step(self) -> Float[Array, ""]:
        """Steps over which Brownian motion stays local, if tokens are ever on the sphere; in R^d, where its law is exact, any."""
        assert self.flow.kappa is not None
        local = LARGEST_TURN * self.flow.kappa / max(self.inner.start.d - 1, 1)
        return jnp.where(self.flow.normalization.on_sphere(-jnp.inf), local, jnp.inf)
