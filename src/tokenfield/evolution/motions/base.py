"""How a measure moves along a flow, as solvers see it. One file per kind of measure."""

import abc
from typing import Any, ClassVar, NamedTuple

import diffrax as dfx
import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from tokenfield._types import Memory, Rows, Self, Time
from tokenfield.errors import InputError
from tokenfield.evolution.solvers import SOLVERS, checked_solver, control_with_jumps, with_tolerances
from tokenfield.flow import Flow
from tokenfield.measures import AbstractMeasure
from tokenfield.status import Status
from tokenfield.summation import AbstractSummation

State = Float[Array, "rows k"]
"""What a solver moves. Each row has its own error control: a token, a mean, a column of a square root, ..."""

Method = tuple[dfx.AbstractSolver, dfx.AbstractStepSizeController]


class Sums(NamedTuple):
    """How sums over tokens are to be computed: as asked (None: as is cheapest), and to what accuracy."""

    asked: str | AbstractSummation | None
    tolerance: float


class MotionKind(abc.ABC):
    """What a kind of motion declares before anything moves: how it begins, and what `evolve` may be asked of it."""

    solvers: ClassVar[tuple[str, ...]] = tuple(SOLVERS)
    """The names of the solvers that suit the equation, the usual one first."""
    rtol: ClassVar[float] = 1e-6
    """The relative tolerance when none is given."""
    options: ClassVar[frozenset[str]] = frozenset()
    """Which of summation, devices, coalesce, step, seed and refine are used; the others are refused."""
    name: ClassVar[str] = "This measure is"
    """The beginning of a sentence about what moves."""

    @classmethod
    @abc.abstractmethod
    def settle(cls, flow: Flow, mu: Any) -> Any:
        """The start as the flow can move it, checked; refuses what flow and measure cannot do together. The arrays of mu may
        have a leading axis of members."""

    @classmethod
    @abc.abstractmethod
    def pose(cls, flow: Flow, start: Any, sums: Sums, seed: Any) -> "AbstractMotion":
        """The motion from a settled start, unchecked and traceable."""

    @classmethod
    def begin(cls, flow: Flow, start: Any, t0: Any) -> Any:
        """A settled start as it is just after the time t0, where the flow moves it at once; traceable."""
        return start

    layered: ClassVar[bool] = False
    """Whether layers of the discrete Transformer act on this kind of measure: `layer` says how."""

    @classmethod
    def layer(cls, flow: Flow, k: Array, t: Array, step: Array, mu: Any, summation: AbstractSummation | None) -> Any:
        """The measure after layer k of the discrete Transformer, at time t; only tokens need a summation."""
        raise InputError(f"{cls.name} moved by `evolve` alone: there are no layers for them.")

    @classmethod
    def solver(cls, given: Any, start: AbstractMeasure) -> str | dfx.AbstractSolver:
        """The solver that was asked for, by its name or itself, or the usual one; refused if it does not suit."""
        if given is None:
            return cls.solvers[0]
        unknowns = sum(int(np.prod(array.shape)) for array in start.arrays.values() if array.ndim > 1)
        return checked_solver(given, cls.solvers, cls.name, unknowns)


class AbstractMotion(eqx.Module):
    """An equation ẏ = rate(t, y) for rows of numbers y, and the measure that such rows stand for."""

    flow: eqx.AbstractVar[Flow]

    @property
    @abc.abstractmethod
    def first(self) -> State:
        """The state at the start."""

    @abc.abstractmethod
    def rate(self, t: Time, y: Rows, memory: Memory) -> Any:
        """ẏ. `memory` is attention's own, where it has one."""

    @abc.abstractmethod
    def measure(self, y: State) -> AbstractMeasure:
        """The measure of a state."""

    @property
    def term(self) -> Any:
        """The equation as Diffrax's solvers take it."""
        return dfx.ODETerm(self.rate)

    def method(self, solver: str | dfx.AbstractSolver, rtol: Array, atol: Array, pacing: "Pacing") -> Method:
        """The solver, which was checked before, and its step control."""
        named = SOLVERS[solver](rtol) if isinstance(solver, str) else with_tolerances(solver, rtol)
        return named, control_with_jumps(rtol, atol, [jump.astype(pacing.ts.dtype) for jump in self.flow.jumps()])

    # What is looked at after every step.

    def remember(self, t: Array, y: State, memory: Memory) -> Any:
        """What attention carries to the next step."""
        return None

    def healthy(self, memory: Memory) -> Bool[Array, ""]:
        """Whether attention's own equations were solved to their tolerance."""
        return jnp.asarray(True)

    def resolved(self, y: State, rtol: Array) -> Bool[Array, ""]:
        """Whether the state can still be represented to the accuracy asked for."""
        return jnp.asarray(True)

    def representable(self, y: State) -> Bool[Array, ""]:
        """Whether the measure of a finite state is finite."""
        return jnp.asarray(True)

    @property
    def may_stop(self) -> str | None:
        """Whether the motion itself may ask for a stop: None, "inside" a step, where its time is located, or "after" it."""
        return None

    def stop(self, t: Array, y: State, steps: Array) -> Int[Array, ""]:
        """RUNNING, or why the run is to stop here, after so many steps of this walk."""
        return jnp.asarray(Status.RUNNING)

    @property
    def trail(self) -> int:
        """How many of its last steps a walk keeps, for those who look back."""
        return 0

    def finer(self, y: State) -> Self | None:
        """The same motion from a state, in a finer representation, where there is one."""
        return None

    @property
    def sums(self) -> AbstractSummation | None:
        """How the motion sums over tokens; None where it does not."""
        return None

    @property
    def description(self) -> str:
        """How integrals against the measure are computed, for the record."""
        return "" if self.sums is None else self.sums.name


class Pacing(eqx.Module):
    """What step controls may need to know beside tolerances: the save times ahead, the end, and a fixed step, if one is asked
    for."""

    ts: Float[Array, " T"]
    t1: Float[Array, ""]
    step: Float[Array, ""] | None
    taken: Int[Array, ""] | None = None
    """How many steps were taken before, where a run goes on."""


class AbstractModified(AbstractMotion):
    """A motion that differs from another one in some ways, and is like it in all others."""

    inner: eqx.AbstractVar[AbstractMotion]

    @property
    def flow(self) -> Flow:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inner.flow

    @property
    def first(self) -> State:
        return self.inner.first

    def rate(self, t: Time, y: Rows, memory: Memory) -> Any:
        return self.inner.rate(t, y, memory)

    def measure(self, y: State) -> AbstractMeasure:
        return self.inner.measure(y)

    def method(self, solver: str | dfx.AbstractSolver, rtol: Array, atol: Array, pacing: Pacing) -> Method:
        return self.inner.method(solver, rtol, atol, pacing)

    def remember(self, t: Array, y: State, memory: Memory) -> Any:
        return self.inner.remember(t, y, memory)

    def healthy(self, memory: Memory) -> Bool[Array, ""]:
        return self.inner.healthy(memory)

    @property
    def sums(self) -> AbstractSummation | None:
        return self.inner.sums


def refuse_parts(flow: Flow, what: str, *, noise: bool = False) -> None:
    """Refuse what breaks a reduction: an MLP, reweighting, and unless `noise` is allowed, noise."""
    parts = {"an MLP": flow.mlp, "reweighting": flow.reweighting}
    parts |= {} if noise else {"noise (kappa)": flow.kappa}
    for name, part in parts.items():
        if part is not None:
            raise InputError(f"{what} cannot be moved with {name}, which breaks it. Leave it out, or move Tokens.")


def size_of(motion: AbstractMotion) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and precision of a motion's state, without computing it."""
    first = eqx.filter_eval_shape(lambda motion: motion.first, motion)
    return first.shape, first.dtype
