"""`sweep`: many members over a grid of parameters, kept as they finish, and gone on with after whatever has stopped it."""

import contextlib
import dataclasses
import math
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenfield import _checks as check
from tokenfield import _interrupt
from tokenfield._front import front_door
from tokenfield._types import no_type_check
from tokenfield.errors import InputError, UnfinishedWarning, short
from tokenfield.progress import Progress
from tokenfield.status import Status
from tokenfield.sweeps import ranges
from tokenfield.sweeps.folder import ALWAYS, Folder, Layout
from tokenfield.sweeps.grid import TAKEN, Axis, Grid, Variable, block_shape, short_names
from tokenfield.sweeps.group import Block, Plan
from tokenfield.sweeps.observables import Kept
from tokenfield.sweeps.runners import Lost, cluster
from tokenfield.sweeps.study import Study, study_of

if TYPE_CHECKING:
    import xarray

MEMORY = 128e6
"""Bytes that the results of a block may have."""
MOST_MEMBERS = 10**9
SAMPLES = 1000
"""How many members along an axis are made beforehand, where they are unlike."""


@front_door
@no_type_check
def sweep(  # noqa: PLR0913
    what: Any,
    mu0: Any = None,
    t: Any = None,
    *,
    over: Mapping[str, Iterable[Any]],
    observe: Any = None,
    out: str | os.PathLike[str] | None = None,
    keep: str | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: bool | None = None,
    watch: Callable[[str], None] | None = None,
    **options: Any,
) -> "xarray.Dataset":
    """Run a member for every combination of parameters, and keep observables of it along time.

    Members that are alike in shape are computed together, as `evolve` computes ensembles, in groups that follow from the sweep
    alone: results do not depend on the number of workers, on what was killed, or on order, to the last bit. Every group is written
    as it finishes. The same call goes on with a sweep that was stopped, and computes nothing twice.

    **Arguments**

    - `what`: a spec (a `Spec`, plain data, or the path of a TOML file), whose fields `over` varies by their paths; or a flow, or a
      function of some of the parameters that gives one.
    - `mu0`, `t`: where `what` is no spec: the start, or a function of some of the parameters that gives one, and the end time.
    - `over`: the values of every parameter, by name: `{"flow.attention.beta": [1, 4, 9], "measure.seed": range(100)}` for a spec;
      for flows the names of the functions' arguments, or of options: `{"beta": [1, 4], "seed": range(9), "rtol": [1e-3, 1e-6]}`.
    - `observe`: what to keep, as in `evolve`: names, functions written with jax.numpy, a list or a dict of these; also "clusters",
      of which the number is kept, and quantities of the measure itself, such as "rho".
    - `out`: a folder for the results, such as grid.zarr, which xarray opens at any time. In memory when left out.
    - `keep`: "states" to keep the states themselves, too.
    - `workers`: how many processes compute; as many as there are cores when left out, and 0 for this process itself, where more
      threads than a worker's may change the last bits.
    - `scheduler`: the address of a Dask cluster instead, such as "tcp://10.0.0.5:8786".
    - `progress`: a bar on the terminal; None shows one if anyone is watching.
    - `watch`: called with a sentence whenever there is something to tell.
    - `options`: for flows, those of `evolve`: save, until, rtol, atol, max_steps, step, seed, solver, ...

    **Returns** an xarray data set: one axis per parameter, then time. `status` says how each member ended (the numbers of
    `tkf.Status`, -3 where it could not be run at all, and why in the attribute `failures`), `reached` and `steps` how far it came.

    **Raises** `InputError` where something does not fit, `StoreError` where `out` holds something else, another sweep (with the
    difference), or the disk is full. A member that blows up, does not converge, or is refused stops nothing.

    >>> import tokenfield as tkf
    >>> grid = tkf.sweep(
    ...     lambda beta: tkf.sa(beta),
    ...     lambda seed: tkf.Tokens.uniform_sphere(n=8, d=3, seed=seed),
    ...     t=5.0,
    ...     over={"beta": [1.0, 4.0, 9.0], "seed": range(4)},
    ...     observe="mean_overlap",
    ...     save=11,
    ...     workers=0,
    ... )
    >>> dict(grid.sizes), bool((grid.status == 0).all())
    ({'beta': 3, 'seed': 4, 'time': 11}, True)
    >>> grid.mean_overlap.mean("seed").sel(beta=1.0)[-1].item() > 0.9
    True
    """
    if keep is not None and keep != "states":
        raise InputError(f"Argument `keep` is 'states' or left out, but is {short(keep)}.")
    if workers is not None:
        check.whole("workers", workers, 0, "how many processes compute")
    study = study_of(what, mu0, t, options)
    layout, plan = planned(study, over, observe, keep == "states")
    with tempfile.TemporaryDirectory() if out is None else contextlib.nullcontext(out) as place:
        folder = Folder.begun(Path(place) / "sweep.zarr" if out is None else place, layout)
        left = carry_out(folder, plan, workers, scheduler, progress, watch)
        if left:
            warnings.warn(left, UnfinishedWarning, stacklevel=3)
        return folder.read()


def planned(study: Study, over: Any, observe: Any, states: bool) -> tuple[Layout, Plan]:
    """What is to be computed, and how it will lie on disk; some members are made, so that mistakes are found before anything runs:
    the first must be right."""
    axes = _axes(study, over)
    first = _made(study, {axis.path: axis.values[0] for axis in axes})
    kept = Kept.read(observe, states, first.start)
    made, shapes = [first], [_shapes(kept, first)]
    for values in _samples(axes):
        with contextlib.suppress(Exception):  # a member that cannot be run is recorded when its turn comes
            one = _made(study, values)
            shapes.append(_shapes(kept, one))
            made.append(one)
    noisy = any(one.task is not None and "seed" in one.task.kind.options for one in made)
    times = max(len(one.times) for one in made)
    shared = None if _times_vary(study, axes, made) else tuple(np.asarray(first.times, float).tolist())
    variables = {name: Variable(dtype) for name, dtype in ALWAYS.items()}
    variables |= {"noise": Variable("int64")} if noisy else {}
    variables |= {"times": Variable("float64", (times,), ("time",))} if shared is None else {}
    variables |= _variables(shapes, times)
    grid = _grid(axes, variables, times * _largest(made) if kept.needs_states else 0)
    swept = study.describe([first.values, made[-1].values], {axis.path: axis.values for axis in axes})
    about = {"study": swept, "observe": list(kept.names), "states": states}
    return Layout(about, grid, variables, shared), Plan(study, grid, kept, times, noisy, variables)


@dataclasses.dataclass(frozen=True)
class _Member:
    """One member, made and checked but not run."""

    values: dict[str, Any]
    flow: Any
    start: Any
    task: Any
    times: np.ndarray


def _made(study: Study, values: dict[str, Any]) -> _Member:
    flow, start = study.flow(values), study.start(values)
    task = study.task(flow, start, values)  # which checks that the member can be run
    return _Member(values, flow, start if task is None else task.start, task, study.times(flow, start, values))


def _times_vary(study: Study, axes: tuple[Axis, ...], made: list[_Member]) -> bool:
    """Whether every member has times of its own."""
    own = any("how" in study.parts(axis.path) for axis in axes)
    return own or any(
        one.task is not None and (one.task.clock != "linear" or one.task.radius is not None) for one in made
    )


def _largest(made: list[_Member]) -> int:
    """Bytes of the largest state."""
    return 8 * max(sum(array.size for array in one.start.arrays.values()) for one in made)


def _variables(shapes: list[dict[str, "_Shape"]], times: int) -> dict[str, Variable]:
    """The arrays of what is kept along time, large enough for every member."""
    found = {}
    for name, (_, first, axes) in shapes[0].items():
        mine = [one[name] for one in shapes]
        if any(len(shape) != len(first) for _, shape, _ in mine):
            raise InputError(f"The observable {name!r} is a number for some members and an array for others.")
        largest = tuple(max(sizes) for sizes in zip(*(shape for _, shape, _ in mine), strict=True))
        found[name] = Variable(
            np.result_type(*(dtype for dtype, _, _ in mine)).name, (times, *largest), ("time", *axes)
        )
    return found


def _grid(axes: tuple[Axis, ...], variables: dict[str, Variable], state: int) -> Grid:
    """The grid, in blocks that leave room, whose axes have names that nothing else has; `state` bytes are held beside."""
    members = math.prod(map(len, axes))
    if members > MOST_MEMBERS:
        raise InputError(
            f"A sweep has at most {MOST_MEMBERS} members, but these would be {members}. Cut it into several."
        )
    size = sum(np.dtype(one.dtype).itemsize * math.prod(one.shape) for one in variables.values())
    taken = TAKEN | set(variables) | {axis for one in variables.values() for axis in one.axes}
    names = short_names([axis.path for axis in axes], taken)
    renamed = tuple(dataclasses.replace(axis, name=name) for axis, name in zip(axes, names, strict=True))
    return Grid(renamed, block_shape(axes, max(1, int(MEMORY // max(size, state)))))


def _axes(study: Study, over: Any) -> tuple[Axis, ...]:
    """The axes; members along one are alike where those at its ends and in its middle are."""
    if not isinstance(over, Mapping) or not over:
        raise InputError(
            "Argument `over` must name one parameter or more, with their values: {'flow.attention.beta': [1, 4, 9]}."
        )
    for path in over:
        if not isinstance(path, str):
            raise InputError(f"The parameters of `over` are names, but one is {short(path)}.")
        study.parts(path)
    values = {path: ranges.checked(path, given) for path, given in over.items()}
    first = {path: some[0] for path, some in values.items()}
    axes = []
    for path, name in zip(values, short_names(list(values)), strict=True):
        some = [values[path][k] for k in sorted({0, len(values[path]) // 2, len(values[path]) - 1})]
        axes.append(
            Axis(path, name, tuple(values[path]), _alike(study, path, [{**first, path: value} for value in some]))
        )
    return tuple(axes)


def _alike(study: Study, path: str, members: list[dict[str, Any]]) -> bool:
    """Whether members differ by numbers alone, so that one program computes all of them."""
    from tokenfield.evolution.ensemble import alike

    parts = study.parts(path)
    if "how" in parts:
        return False
    for part in [part for part in ("flow", "start") if part in parts]:
        made = []
        for one in members:
            with contextlib.suppress(Exception):  # likewise
                made.append(getattr(study, part)(one))
        if made and not alike(made):
            return False
    return True


def _samples(axes: tuple[Axis, ...]) -> Iterator[dict[str, Any]]:
    """Those who differ from the first member along one axis on which members are unlike, and the last member of all."""
    first = {axis.path: axis.values[0] for axis in axes}
    for axis in axes:
        if not axis.alike:
            some = np.unique(np.linspace(0, len(axis) - 1, min(len(axis), SAMPLES)).round().astype(int))
            yield from ({**first, axis.path: axis.values[k]} for k in some.tolist()[1:])
    yield {axis.path: axis.values[-1] for axis in axes}


_Shape = tuple[str, tuple[int, ...], tuple[str, ...]]
"""The kind of numbers, a shape, and the names of axes."""


def _shapes(kept: Kept, one: _Member) -> dict[str, _Shape]:
    """Of what is kept of a member at one time."""
    kinds = lambda array: array.dtype.name if array.dtype.name in ("float32", "float64") else "int64"
    found = {
        name: (kinds(value), value.shape, tuple(f"{name}_{k}" for k in range(value.ndim)))
        for name, value in kept.of_one(one.start).items()
    }
    if kept.states:
        arrays = {name: np.asarray(array) for name, array in one.start.arrays.items()}
        found |= {name: (kinds(array), array.shape, one.start.axes[name]) for name, array in arrays.items()}
    return found


def carry_out(
    folder: Folder, plan: Plan, workers: int | None, scheduler: str | None, progress: bool | None, watch: Any
) -> str | None:
    """Compute what is missing.

    **Returns** a sentence on what is still missing, if anything is; None when all is done.

    **Raises** `StoreError` where the folder cannot be written to, or another process writes to it.
    """
    tell = watch or (lambda words: None)
    with folder.held():
        tally = Tally(folder)
        tell(tally.opening)
        if not tally.missing:
            return None
        with (
            cluster(workers, scheduler) as (blocks, where),
            _interrupt.ctrl_c() as stopped,
            Progress(progress, "sweeping") as bar,
        ):
            tell(f"Computing {where}.")
            try:
                for came in blocks(plan, tally.missing):
                    if came is not None:
                        tally.take(*came)
                        bar.update(tally.share, tally.note)
                    if stopped():
                        return tally.so_far("The sweep was stopped.")
            except KeyboardInterrupt:
                return tally.so_far("The sweep was stopped.")
            except Lost as error:
                return tally.so_far(str(error))
    return tally.left()


class Tally:
    """What is finished of a sweep, what is missing, and what could not be computed."""

    def __init__(self, folder: Folder):
        self.folder, self.grid = folder, folder.layout.grid
        done = folder.sound()
        self.missing = [place for place in self.grid if place not in done]
        self.before = sum(map(self._size, done))
        self.now, self.failed, self.lost = 0, 0, []

    def _size(self, place: tuple[int, ...]) -> int:
        return int(np.prod(self.grid.extent(place)))

    def take(self, place: tuple[int, ...], came: Block | str) -> None:
        """Keep a block that was computed, or remember why it was not."""
        if isinstance(came, Block):
            self.folder.keep(came)
            self.now += self._size(place)
            self.failed += int(np.sum(~np.isin(came.arrays["status"], (Status.COMPLETED, Status.STOPPED))))
        else:
            self.lost.append(f"group {'.'.join(map(str, place))}: {came}")

    @property
    def opening(self) -> str:
        there = f"; {self.before} are there already" if self.before else ""
        return f"A sweep of {self.grid.members} members in {len(self.grid)} groups{there}."

    @property
    def share(self) -> float:
        return self.now / (self.grid.members - self.before)

    @property
    def note(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.before + self.now} of {self.grid.members} members{failed}"

    def so_far(self, why: str) -> str:
        return f"{why} {self.before + self.now} of {self.grid.members} members are kept; the same call goes on."

    def left(self) -> str | None:
        if not self.lost:
            return None
        return f"{len(self.lost)} groups were not computed ({self.lost[0]}). The same call tries them again."


@front_door
def load_sweep(path: str | os.PathLike[str]) -> "xarray.Dataset":
    """The results of a sweep, finished or not.

    **Arguments**

    - `path`: its folder.

    **Returns** the data set that `sweep` returns. What is not computed yet is NaN, and its `status` is -1.

    **Raises** `StoreError` where there is no sweep, or its numbers are damaged.
    """
    return Folder.opened(path).read()
