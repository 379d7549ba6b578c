"""One block of a sweep, computed: in this process, or in that of a worker."""

import dataclasses
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from tokenfield.errors import InputError, RoomError, UnfinishedWarning, short
from tokenfield.evolution.drivers.pace import steadily
from tokenfield.evolution.ensemble import seeds_of
from tokenfield.status import Status
from tokenfield.sweeps.grid import Grid, Variable
from tokenfield.sweeps.observables import Kept
from tokenfield.sweeps.study import Study
from tokenfield.trajectory import Trajectory

REFUSED = -3
"""The status of a member that could not be run; the reason stands beside it."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """A sweep as workers see it: what is swept, over what, and what is kept, how often, as which arrays; `noisy` members have seeds
    of their own."""

    study: Study
    grid: Grid
    kept: Kept
    times: int
    noisy: bool
    variables: dict[str, Variable]


@dataclasses.dataclass(frozen=True)
class Block:
    """What came of a block: arrays with the axes of the grid in front, and why members could not be run, by their numbers."""

    place: tuple[int, ...]
    arrays: dict[str, np.ndarray]
    reasons: dict[int, str]
    seconds: float


def computed(plan: Plan, place: tuple[int, ...]) -> Block:
    """Compute a block.

    **Arguments**

    - `plan`: the sweep.
    - `place`: which block.

    **Returns** the block. It is a function of the two: members are the same, side by side in the same way, wherever and whenever
    it is computed.

    **Raises** `RoomError` or `MemoryError` where there is no room for it at present.
    """
    began = time.perf_counter()
    work = _Work(plan, place)
    with warnings.catch_warnings(), steadily():
        warnings.simplefilter("ignore", UnfinishedWarning)
        warnings.filterwarnings("ignore", message=".*(The run|the worst)")
        work.do()
    return Block(place, work.arrays, work.reasons, time.perf_counter() - began)


class _Work:
    """The members of a block, and what has come of them so far."""

    def __init__(self, plan: Plan, place: tuple[int, ...]):
        self.plan, self.study, grid = plan, plan.study, plan.grid
        self.extent = grid.extent(place)
        first = tuple(part.start for part in grid.slices(place))
        self.indices = [tuple(a + k for a, k in zip(first, index, strict=True)) for index in np.ndindex(*self.extent)]
        self.values = [grid.values(index) for index in self.indices]
        self.numbers = [grid.number(index) for index in self.indices]
        self.reasons: dict[int, str] = {}
        self.found: dict[int, dict[str, np.ndarray]] = {}

    def do(self) -> None:
        flows, flow_of = self._built("flow")
        starts, start_of = self._built("start")
        ready = [k for k in range(len(self.values)) if k not in self.found]
        try:
            if ready:
                self._together(ready, flows, flow_of, starts, start_of)
        except Exception as error:  # of one of them, which is found by going through them one by one
            _pass_on_want(error)
            for k in ready:
                self._alone(k, flows[flow_of[k]], starts[start_of[k]])
        self.arrays = self._arrays()

    def _built(self, part: str) -> tuple[list[Any], list[int]]:
        """The different flows, or starts, of the block, and which each member has. Members without are refused."""
        made: dict[str, int] = {}
        things, which = [], []
        for k, values in enumerate(self.values):
            mine = self.study.only(part, values)
            key = repr(sorted(mine.items()))
            if key not in made:
                made[key] = len(things)
                things.append(self._try(lambda mine=mine: getattr(self.study, part)(mine)))
            which.append(made[key])
            if isinstance(things[which[-1]], _Reason):
                self._refuse(k, things[which[-1]])
        return things, which

    def _try(self, make: Any) -> Any:
        """What a function gives, or why it does not: mistakes of a member are its own."""
        try:
            return make()
        except Exception as error:
            _pass_on_want(error)
            return _Reason(str(error) if isinstance(error, InputError) else told(error))

    def _refuse(self, k: int, reason: "_Reason") -> None:
        self.reasons[self.numbers[k]] = reason.words
        self.found[k] = {"status": np.asarray(REFUSED)}

    def _together(self, ready: list[int], flows: Any, flow_of: Any, starts: Any, start_of: Any) -> None:
        """All members that are ready as one ensemble: every flow with every start where that is what they are, else in pairs."""
        every = len(ready) == len(flows) * len(starts) and len({(flow_of[k], start_of[k]) for k in ready}) == len(ready)
        if every:
            run = self._run(flows, starts, ready[0], {"seed": self._seeds(_in_order(ready, flow_of, start_of))})
            place = {(flow_of[k], start_of[k]): k for k in ready}
            order = [place[i, j] for i in range(len(flows)) for j in range(len(starts))]
        else:
            mine = [flows[flow_of[k]] for k in ready], [starts[start_of[k]] for k in ready]
            run, order = self._run(*mine, ready[0], {"zipped": True, "seed": self._seeds(ready)}), ready
        rows = [self._fitting(row) for row in _members(run, self.plan)]
        self.found |= dict(zip(order, rows, strict=True))

    def _alone(self, k: int, flow: Any, start: Any) -> None:
        """One member by itself, whatever may be wrong with others."""
        run = lambda: self._run(flow, start, k, {"seed": (self._seeds([k]) or [None])[0]})
        row = self._try(lambda: self._fitting(next(iter(_members(run(), self.plan)))))
        if isinstance(row, _Reason):
            self._refuse(k, row)
        else:
            self.found[k] = row

    def _fitting(self, row: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What is kept of a member, which must fit into the arrays of the sweep. (Those of members that are filled up to the size
        of others may not; by themselves they do.)"""
        for name, one in self.plan.variables.items():
            shape = row[name].shape if name in row else one.shape
            if len(shape) != len(one.shape) or any(a > b for a, b in zip(shape, one.shape, strict=True)):
                raise InputError(f"Its {name} has the shape {shape}, but other members let expect {one.shape}.")
        return row

    def _run(self, flow: Any, start: Any, k: int, more: dict[str, Any]) -> Trajectory:
        kept = self.plan.kept
        if not kept.needs_states and kept.traced:
            more["observe"] = dict(kept.traced)
        more = {name: value for name, value in more.items() if value is not None}
        run = self.study.run(flow, start, self.values[k], progress=False, **more)
        if np.any(np.asarray(run.code) == Status.INTERRUPTED):
            raise KeyboardInterrupt
        return run

    def _seeds(self, members: list[int]) -> list[int] | None:
        """The seeds of members' noise, which follow from their numbers in the sweep, or are parameters."""
        if not self.plan.noisy:
            return None
        given = [self.study.only("noise", self.values[k]) for k in members]
        if given[0]:
            return [next(iter(one.values())) for one in given]
        every = seeds_of(self.study.seed({}) or 0, self.plan.grid.members)
        return [int(every[self.numbers[k]]) for k in members]

    def _arrays(self) -> dict[str, np.ndarray]:
        """All members in the shape of the block. Those that are smaller than others, or were refused, are filled up."""
        arrays = {}
        for name, one in self.plan.variables.items():
            whole = np.full((len(self.values), *one.shape), one.fill, one.dtype)
            for k, row in self.found.items():
                if name in row:
                    whole[(k, *(slice(0, n) for n in row[name].shape))] = row[name]
            arrays[name] = whole.reshape(*self.extent, *one.shape)
        return arrays


@dataclasses.dataclass(frozen=True)
class _Reason:
    """Why a member cannot be run."""

    words: str


def told(error: Exception) -> str:
    """An exception in a line."""
    return f"{type(error).__name__}: {short(str(error), 300)[1:-1]}"


def _pass_on_want(error: Exception) -> None:
    """Want of memory is no property of a member: it may be computed at another time, or elsewhere.

    **Raises** the error where it is that.
    """
    if isinstance(error, RoomError | MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        raise error


def _in_order(ready: list[int], flow_of: Any, start_of: Any) -> list[int]:
    """Members in the order in which an ensemble of all pairs has them."""
    return sorted(ready, key=lambda k: (flow_of[k], start_of[k]))


def _members(run: Trajectory, plan: Plan) -> Iterator[dict[str, np.ndarray]]:
    """What is kept of each member of a run or a batch, one after another, by name. A run that ended early holds its last state."""
    kept, front = plan.kept, len(run.batch)
    flat = lambda array: np.asarray(array).reshape(-1, *np.shape(array)[front:])
    along: dict[str, Any] = {**(run.observed or {}), "times": run.times}
    if run.observed is None:
        along |= kept.of_run(run)
    if kept.states:
        along |= run.states.arrays
    columns = {name: _held(flat(array), plan.times) for name, array in along.items()}
    columns |= {"status": flat(run.code), "reached": flat(run.reached), "steps": flat(run.steps)}
    if run.provenance.noise is not None:
        columns["noise"] = np.ravel(run.provenance.noise)
    for k in range(len(columns["status"])):
        yield {name: np.asarray(column[k]) for name, column in columns.items()}


def _held(rows: np.ndarray, count: int) -> np.ndarray:
    """Values along time, as many as there should be: the last is held."""
    missing = count - rows.shape[1]
    return rows if missing <= 0 else np.concatenate([rows, np.repeat(rows[:, -1:], missing, axis=1)], axis=1)
