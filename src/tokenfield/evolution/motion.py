"""How a measure moves along a flow, as solvers see it. One file a kind of measure; `begin` picks."""

import abc
from typing import Any, ClassVar

import diffrax as dfx
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from tokenfield.errors import InputError
from tokenfield.evolution.solvers import control_with_jumps, solver_named
from tokenfield.flow import Flow
from tokenfield.measures import AbstractMeasure

State = Float[Array, "rows k"]
"""What a solver moves. Each row has its own error control: a token, a mean, a column of a square root, ..."""


class AbstractMotion(eqx.Module):
    """An equation ẏ = rate(t, y) for rows of numbers y, and the measure that such rows stand for."""

    flow: eqx.AbstractVar[Flow]

    solver: ClassVar[str] = "tsit5"
    """Which solver suits the equation, and its relative tolerance."""
    rtol: ClassVar[float] = 1e-6
    merges: ClassVar[bool] = False
    """Whether tokens that meet become one."""

    @property
    @abc.abstractmethod
    def first(self) -> State:
        """The state at the start."""

    @abc.abstractmethod
    def rate(self, t: Any, y: Any, memory: Any) -> Any:
        """ẏ. `memory` is attention's own, where it has one."""

    @abc.abstractmethod
    def measure(self, y: State) -> AbstractMeasure:
        """The measure of a state."""

    @property
    def sums(self) -> str:
        """How integrals against the measure are computed, for the record."""
        return ""

    @property
    def term(self) -> Any:
        """The equation as Diffrax's solvers take it."""
        return dfx.ODETerm(self.rate)

    def method(self, solver: Any, rtol: Array, atol: Array, step: Any, ts: Array) -> tuple[Any, Any]:
        """The solver, by its name or itself (None: the one that suits), and its step control. `ts` are the save times."""
        if step is not None:
            raise InputError("Argument `step` is for flows with noise (kappa); without noise steps adapt to rtol.")
        named = solver_named(self.solver if solver is None else solver, rtol, atol, self.first.size)
        return named, control_with_jumps(rtol, atol, [jump.astype(ts.dtype) for jump in self.flow.jumps()])

    def to_tolerance(self, rtol: Float[Array, ""]) -> "AbstractMotion":
        """The same motion, watched to this accuracy."""
        return self

    def trace(self) -> None:
        """Follow the rate once without computing it: attention or normalization may refuse this measure."""
        jax.eval_shape(lambda: self.rate(jnp.zeros((), self.first.dtype), self.first, None))

    def remember(self, t: Array, y: State, memory: Any) -> Any:
        """What attention carries to the next step."""
        return None

    def healthy(self, memory: Any) -> Any:
        """Whether attention's own equations were solved to their tolerance."""
        return jnp.asarray(True)

    def resolved(self, y: State) -> Bool[Array, ""]:
        """Whether the state can still be represented to the accuracy asked for."""
        return jnp.asarray(True)

    @property
    def locates(self) -> bool:
        """Whether the time at which tokens meet is found inside the step."""
        return False

    def meets(self, y: State) -> Bool[Array, ""]:
        """Whether tokens have met that are to become one."""
        return jnp.asarray(False)

    def finer(self, y: State) -> "AbstractMotion | None":
        """The same motion from a state, in a finer representation, where there is one."""
        return None


def refuse_parts(flow: Flow, what: str, *, noise: bool = False) -> None:
    """Refuse what breaks a reduction: an MLP, reweighting, and unless `noise` is allowed, noise."""
    parts = {"mlp": "an MLP", "reweighting": "reweighting"} | ({} if noise else {"kappa": "noise (kappa)"})
    for name, told in parts.items():
        if getattr(flow, name) is not None:
            raise InputError(f"{what} cannot be moved with {told}, which breaks it. Leave it out, or move Tokens.")
