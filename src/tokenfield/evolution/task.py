"""What is to be done: the arguments of `evolve`, read into one typed task and checked once."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import diffrax as dfx
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool

from tokenfield import _checks as check
from tokenfield._types import no_type_check
from tokenfield.attention.base import as_dtype
from tokenfield.errors import InputError, suggest
from tokenfield.evolution.clocks import clock_named, log_times
from tokenfield.evolution.ensemble import Ensemble
from tokenfield.evolution.motions import AbstractMotion, MotionKind, Sums, motion_for
from tokenfield.evolution.observables import observables
from tokenfield.evolution.problem import Plan
from tokenfield.flow import Flow, no_measure
from tokenfield.measures import AbstractMeasure
from tokenfield.summation import AbstractSummation, Sharded
from tokenfield.summation.choose import KINDS as SUMMATIONS

ADJOINTS = ("reverse", "forward")

PAIRWISE = 256
"""Tokens up to which every pair is looked at to see who has met, and a phase of the run ends inside the step where two have;
beyond, only those in one cell of a grid are, at the end of steps, and the steps since then say who met when."""

DATING = 1e-8
"""The usual relative tolerance of runs whose mergers are located. A cluster waits e^{β(1 - cos α)} for another, which multiplies
errors of the angle by β sin α: two meet within 1e-7 of their time with this, and within 3e-5 with 1e-6."""

Until = Callable[[Array, Any], Bool[Array, ""] | bool]
"""A stop condition: whether to stop at this time, in this state."""
Watch = Callable[[float, Any], None]
"""A watcher: called with the time and the state."""


@no_type_check
@dataclasses.dataclass(frozen=True)
class Options:
    """The options of `evolve`, as they were given; None where one was left out."""

    save: Any
    until: Until | None
    solver: str | dfx.AbstractSolver[Any] | None
    rtol: Any
    atol: Any
    max_steps: Any
    summation: str | AbstractSummation | None
    coalesce: Any
    clock: str | None
    devices: Any
    step: Any
    seed: Any
    refine: bool | None
    progress: bool | None
    watch: Watch | None
    adjoint: str | None
    observe: Any = None
    taken: int | None = None
    """How many steps a run that goes on has taken."""


@dataclasses.dataclass(frozen=True)
class Task:
    """A flow, a start, and how to go from there. Of an ensemble, `flow` and `start` have its members along a first axis,
    where they differ, and `model` is one of the flows, to be asked what it can do."""

    kind: type[MotionKind]
    model: Flow
    flow: Flow
    start: Any
    ensemble: Ensemble | None
    plan: Plan
    rtol: float
    atol: float
    saves: Any
    traced: bool
    """Whether values are unknown, since somebody differentiates, maps or compiles: asked here, and nowhere else."""
    summation: str | AbstractSummation | None
    seed: Any
    refine: bool
    radius: float | None
    clock: str
    max_steps: int
    progress: bool | None
    watch: Watch | None
    adjoint: str

    def motion(self) -> AbstractMotion:
        """The motion from the start. Sums are ten times as accurate as steps."""
        start = self.kind.begin(self.flow, self.start, self.plan.t0)
        return self.kind.pose(self.flow, start, Sums(self.summation, self.tolerance), self.seed)

    @property
    def tolerance(self) -> float:
        """The accuracy of sums."""
        return 0.1 * self.rtol


def read(flow: Any, mu0: Any, t: Any, given: Options, ensemble: Ensemble | None = None) -> Task:
    """The task that the arguments describe, of one run or of an ensemble. Whatever does not fit is refused here, in a
    sentence."""
    parts = [flow, mu0, t, given.save, given.step, given.seed, given.until]
    pytrees = [part for part in parts if isinstance(part, eqx.Module | jax.Array | list | tuple)]
    traced = check.traced(pytrees) or check.under_jit()
    model, start = (flow, mu0) if ensemble is None else (ensemble.flows[0], ensemble.start)
    if not isinstance(model, Flow):
        raise InputError(
            f"evolve(flow, mu0, t) needs a Flow first, e.g. tkf.sa(beta=9.0), but got {type(model).__name__}."
        )
    if not isinstance(start, AbstractMeasure):
        raise no_measure(start)
    start.refuse_nonfinite()
    kind = motion_for(model, type(start))
    _refuse_options(kind, given)
    _refuse_companions(given, ensemble is not None, traced)
    start = kind.settle(model, start)
    radius = None if given.coalesce is None else _radius(given.coalesce, start)
    rtol, atol = _tolerances(given, start.dtype, _usual(kind, start, radius))
    _refuse_two_spacings(given.save, given.clock)
    times, clock = _interval(t), clock_named(given.clock, radius is not None)
    saves = _save_times(given.save, times, clock)
    number = lambda value: _number(value, start.dtype)
    cast = as_dtype(model, start.dtype) if ensemble is None else ensemble.flow
    task = Task(
        kind=kind,
        model=model,
        flow=cast,
        start=start,
        ensemble=ensemble,
        plan=Plan(
            t0=number(times[0]),
            t1=number(times[1]),
            rtol=number(rtol),
            atol=number(atol),
            step=number(_step(given.step)),
            solver=kind.solver(given.solver, start),
            until=_stop_condition(given.until),
            strict=given.refine is not False,
            taken=None if given.step is None else check.on_device(np.asarray(given.taken or 0)),
            observe=observables(given.observe),
        ),
        rtol=rtol,
        atol=atol,
        saves=check.as_floats(saves, start.dtype),
        traced=traced,
        summation=_summation(given),
        seed=_seed(given.seed, ensemble),
        refine=given.refine is not False,
        radius=radius,
        clock=clock,
        max_steps=check.whole("max_steps", given.max_steps, 1, "the most steps that a run may take"),
        progress=given.progress,
        watch=_watcher(given.watch),
        adjoint=_adjoint(given.adjoint),
    )
    _refuse_close_times(task)
    count = len(task.saves) if task.plan.observe is None else 1
    check.room(2 * count * _held(start, ensemble), f"{count} saved states of {type(start).__name__}")
    return task


def _held(start: Any, ensemble: Ensemble | None) -> float:
    """The bytes of one state, or of one of every member."""
    size = sum(array.nbytes for array in start.arrays.values())
    if ensemble is None or not ensemble.many_starts:
        return size * (1 if ensemble is None else len(ensemble))
    return size * len(ensemble) / len(ensemble.starts)


# Who takes part, and which options they have.


OPTIONS = {
    "summation": "says how sums over tokens are computed, and here nothing is summed over tokens",
    "devices": "deals sums over tokens out to devices, and here nothing is summed over tokens",
    "coalesce": "is for Tokens without noise, which become one where they meet (noise pushes them apart again)",
    "step": "is for flows with noise (kappa); without noise steps adapt to rtol",
    "seed": "is the seed of the noise, and this flow has none (kappa)",
    "refine": "is for densities, whose modes may become too few",
}
"""Options that not every motion has, and what is said where one is given in vain."""


def _refuse_options(kind: type[MotionKind], given: Options) -> None:
    """Every option is used or refused."""
    for name, reason in OPTIONS.items():
        if getattr(given, name) is not None and name not in kind.options:
            raise InputError(f"Argument `{name}` {reason}. {kind.name} moved without it: leave it out.")


def _refuse_companions(given: Options, many: bool, traced: bool) -> None:
    """Refuse options that leave each other nothing to do, and what ensembles and traced runs cannot have."""
    if given.step is not None and given.atol is not None:
        raise InputError(
            "Argument `atol` is for steps that adapt, and `step` says how long they are. Leave one of them out."
        )
    if many and given.watch is not None:
        raise InputError("Argument `watch` follows one run, and these are many. Leave it out, or evolve one member.")
    if many and given.refine:
        raise InputError(
            "Argument `refine` changes the number of modes, and members of an ensemble stay alike. Leave it out."
        )
    if traced and given.coalesce is not None:
        raise InputError("Tokens cannot coalesce under jit, grad and vmap: their number changes. Call evolve outside.")
    if traced and given.refine:
        raise InputError(
            "Argument `refine` changes the number of modes, which is part of a compiled program. Leave it out under jit, "
            "grad and vmap."
        )
    if traced and given.watch is not None:
        raise InputError("Argument `watch` sees values, and there are none under jit, grad and vmap. Leave it out.")
    if traced and given.progress:
        raise InputError("There is no progress to show under jit, grad and vmap: the run is one program. Leave it out.")


# Each option, read.


def _summation(given: Options) -> str | AbstractSummation | None:
    summation = given.summation
    if given.devices is not None:
        if summation not in (None, "dense"):
            raise InputError(
                f"Only dense sums are dealt out to devices, not {check.brief(summation)}. Leave `summation` out."
            )
        return Sharded(given.devices)
    known = (*SUMMATIONS, "span")
    if summation is None or isinstance(summation, AbstractSummation):
        return summation
    if not isinstance(summation, str) or summation not in known:
        raise InputError(f"Unknown summation {check.brief(summation)}. {suggest(summation, known)}")
    return summation


def _radius(coalesce: Any, mu: AbstractMeasure) -> float:
    radius = check.number("coalesce", coalesce, positive=True)
    least = 20 * float(jnp.finfo(mu.dtype).eps) ** 0.5
    if not least <= radius <= 0.1:
        raise InputError(
            f"Argument `coalesce` must be between {least:.0e} (below that, {mu.dtype} cannot tell distances) and 0.1, but is "
            f"{radius:g}. 1e-5 is a good choice."
        )
    return radius


def _adjoint(adjoint: Any) -> str:
    if adjoint is None:
        return "reverse"
    if not isinstance(adjoint, str) or adjoint not in ADJOINTS:
        raise InputError(f"Unknown adjoint {adjoint!r}. {suggest(adjoint, ADJOINTS)}")
    return adjoint


def _seed(seed: Any, ensemble: Ensemble | None) -> Any:
    """The seed of the noise, or one for every member of an ensemble."""
    if isinstance(seed, Tracer):
        return seed
    if isinstance(seed, list | tuple) and ensemble is not None:
        return np.asarray([check.whole("seed", one, 0, "the seed of a member's noise") for one in seed])
    return np.asarray(0 if seed is None else check.whole("seed", seed, 0, "the seed of the noise"))


def _number(value: Any, dtype: Any) -> Any:
    """A number as an array in the tokens' precision; None stays."""
    if value is None:
        return None
    return jnp.asarray(value, dtype) if check.traced(value) else check.on_device(np.asarray(value, dtype))


def _step(step: Any) -> Any:
    if step is None or (check.traced(step) and isinstance(step, jax.Array)):
        return step
    return check.number("step", step, positive=True)


def _stop_condition(until: Any) -> Until | None:
    if until is not None and not callable(until):
        raise InputError(
            f"Argument `until` must be a function of (t, mu), e.g. tkf.collapsed, but is {check.brief(until)}."
        )
    _refuse_other_arguments("until", until)
    return until  # pyright: ignore[reportReturnType]


def _refuse_other_arguments(name: str, function: Any) -> None:
    """Refuse a function that cannot be called as function(t, mu), where its signature is known."""
    try:
        signature = None if function is None else inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        if signature is not None:
            signature.bind(0.0, None)
    except TypeError:
        raise InputError(
            f"Argument `{name}` must be a function of (t, mu), but its arguments are {signature}."
        ) from None


def _watcher(watch: Any) -> Watch | None:
    if watch is not None and not callable(watch):
        raise InputError(f"Argument `watch` must be a function of (t, mu), but is {check.brief(watch)}.")
    _refuse_other_arguments("watch", watch)
    return watch  # pyright: ignore[reportReturnType]


def _usual(kind: type[MotionKind], start: Any, radius: float | None) -> float:
    """The relative tolerance of a run that was given none."""
    if radius is None:
        return kind.rtol
    return min(kind.rtol if start.n > PAIRWISE else DATING, 0.1 * radius)


def _tolerances(given: Options, dtype: Any, usual: float) -> tuple[float, float]:
    least = 50 * float(jnp.finfo(dtype).eps)
    rtol = max(usual, 2 * least) if given.rtol is None else check.number("rtol", given.rtol, positive=True)
    if rtol < least:
        raise InputError(f"Argument `rtol` must be at least {least:.1e} in {dtype}, but is {rtol:g}.")
    return rtol, rtol / 1000 if given.atol is None else check.number("atol", given.atol, positive=True)


# Times.


def _interval(t: Any) -> Any:
    """Start and end times as one array, from an end time or a pair."""
    pair = t if isinstance(t, tuple | list) and len(t) == 2 else None
    if pair is not None and check.traced(pair):
        return jnp.stack([check.scalar("t", part) for part in pair])
    times = check.real_array("t", t, like="an end time or a pair (start, end)")
    if times.shape not in ((), (2,)):
        raise InputError(f"Argument `t` must be an end time or a pair (start, end), but has shape {times.shape}.")
    if check.traced(times):
        return times if times.ndim else times * np.array([0.0, 1.0], times.dtype) + 0.0
    check.finite("t", times)
    times = np.asarray(times)
    times = times if times.ndim else times * np.array([0.0, 1.0], times.dtype) + 0.0
    if not times[0] < times[1]:
        raise InputError(
            f"Time must run forward, from start {times[0]:g} to a later end, but the end is {times[1]:g}. "
            "(Backward in time the flow is ill-posed: clusters would have to come apart.)"
        )
    return times


def _save_times(save: Any, times: Any, clock: str) -> Any:
    """Save times: equally spaced, in equal ratios, or as given."""
    if isinstance(save, str):
        if save != "log":
            raise InputError(f"Argument `save` must be a count, an array of times or 'log', but is {save!r}.")
        save, clock = 100, "log"
    if isinstance(save, int | np.integer) and not isinstance(save, bool):
        return _spaced(check.whole("save", save, 1, "how many states to keep"), times, clock)
    ts = check.real_array("save", save, like="a count or an increasing array of times")
    if ts.ndim != 1 or len(ts) == 0:
        raise InputError(f"Argument `save` must be a count or a one-dimensional array of times, not shape {ts.shape}.")
    if check.traced((ts, times)):
        return ts
    check.finite("save", ts)
    values = np.asarray(ts)
    if np.any(np.diff(values) <= 0):
        raise InputError("Argument `save` must hold strictly increasing times. Sort them: np.unique(times).")
    if values[0] < times[0] or values[-1] > times[1]:
        raise InputError(
            f"Argument `save` must lie in [start, end] = [{times[0]:g}, {times[1]:g}], but spans "
            f"[{values[0]:g}, {values[-1]:g}]."
        )
    return values


def _refuse_two_spacings(save: Any, clock: Any) -> None:
    """A clock spaces a count of states; save times that are spaced already leave it nothing to do."""
    if clock == "linear" and isinstance(save, str):
        raise InputError("Argument `save` asks for equal ratios, and `clock` for equal spacing. Leave one of them out.")
    if clock == "log" and not isinstance(save, str | int | np.integer):
        raise InputError(
            "Argument `clock` spaces a count of saved states, and `save` is an array of times. Leave one of them out."
        )


def _spaced(count: int, times: Any, clock: str) -> Any:
    """So many times from start to end, exact at both ends."""
    check.room(4 * 8 * count, f"{count} saved times")
    if clock == "log":
        if check.traced(times):
            raise InputError("Logarithmic save times need an end time that is known. Give an array of times instead.")
        return times[0] + log_times(times[1] - times[0], count)
    share = np.linspace(0, 1, count) if count > 1 else np.ones(1)
    return times[0] * (1 - share) + times[1] * share


def _refuse_close_times(task: Task) -> None:
    """Times must still differ after they were rounded to the tokens' precision."""
    if check.traced((task.saves, task.plan.t0, task.plan.t1)):
        return
    saves, t0, t1 = (np.asarray(part) for part in (task.saves, task.plan.t0, task.plan.t1))
    if not t0 < t1 or len(np.unique(saves)) < len(saves):
        raise InputError(
            f"Times between {min(t0, saves[0]):.9g} and {max(t1, saves[-1]):.9g} are too close together for {saves.dtype}. "
            "Start nearer to 0, save fewer states, or use float64 tokens."
        )
