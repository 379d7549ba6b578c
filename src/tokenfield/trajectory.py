"""Trajectory: what a run computed, how, and how well."""

import dataclasses
import datetime
import functools
import importlib.metadata
import os
import platform
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int

from tokenfield import _checks as check
from tokenfield import config
from tokenfield._doors import door
from tokenfield._front import front_door
from tokenfield._types import Number, Numbers, no_type_check
from tokenfield.errors import InputError, UnfinishedWarning
from tokenfield.flow import Flow, Flows
from tokenfield.measures import AbstractMeasure, Tokens
from tokenfield.mergers import Mergers
from tokenfield.status import Status

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

    from tokenfield.lab.widget import View
    from tokenfield.measures import AbstractDensity, Equiangular, Gaussian

M = TypeVar("M", bound=AbstractMeasure, covariant=True)

USER = 5
"""How many calls above `warn_unfinished` somebody called `evolve` or `layers`: the warning names that line."""


@dataclasses.dataclass(frozen=True, eq=False)
class Provenance:
    """Where numbers come from: solver, tolerances, the start's constructor and seed, the noise's seed, spec, versions,
    time spent."""

    solver: str
    rtol: float
    atol: float
    summation: str
    origin: dict[str, Any] | None = None
    spec: dict[str, Any] | None = None
    noise: Any = None
    step: float | None = None
    coalesce: float | None = None
    clock: str = "linear"
    accuracy: float | None = None
    axes: tuple[str, ...] = ()
    seconds: float = float("nan")
    created: str = dataclasses.field(
        default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    )
    versions: dict[str, str] = dataclasses.field(default_factory=lambda: _versions())

    # To JAX all provenances are alike: a run made later must not compile a user's function anew.

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Provenance)

    def __hash__(self) -> int:
        return hash(Provenance)

    @property
    def seed(self) -> int | None:
        return None if self.origin is None else self.origin.get("seed")

    def member(self, index: tuple[int, ...], batch: tuple[int, ...]) -> "Provenance":
        """That of one run of a batch: its own start and noise."""
        starts = (self.origin or {}).get("starts")
        origin = self.origin if starts is None else starts[index[-1]]
        noise = np.reshape(self.noise, batch)[index].item() if isinstance(self.noise, list) else self.noise
        return dataclasses.replace(self, origin=origin, noise=noise, axes=())

    def after(self, seconds: float) -> "Provenance":
        return dataclasses.replace(self, seconds=seconds)


class Trajectory(eqx.Module, Generic[M]):
    """The states of a measure along a flow.

    - `run.times` (T,), `run.states` (a measure whose arrays have a leading axis of time), `run[i]`, `run[3:7]`, `run.final`,
      `run.at(t)`, `run.extend(t)`
    - every quantity of the measure, along the run: `run.x` (T, n, d) of tokens, `run.rho`, `run.cov`, `run.entropy`, ...
    - `run.mergers`, `run.rescaled`: of runs that coalesce, who met when, and their times in the rescaled clock
    - `run.status`, `run.message`, `run.steps`, `run.rejected`, `run.provenance`
    - `run.to_xarray()`, `run.save(path)`, `Trajectory.load(path)`, `run.plot(path)`, `run.animate(path)`,
      `run.film(path)`, `run.view()`
    - `run.observed`: of a run that kept observables instead of states, these by name; each is an attribute as well
    - of an ensemble all arrays have its axes in front, `runs.batch`; `runs[i, j]` or `runs.member(i, j)` is one run of it

    >>> import tokenfield as tkf
    >>> run = tkf.evolve(tkf.kuramoto(), tkf.Tokens.uniform_sphere(n=10, d=2, seed=3), t=8.0, save=5)
    >>> run.times.tolist()
    [0.0, 2.0, 4.0, 6.0, 8.0]
    >>> run.final
    Tokens(n=10, d=2 on the circle)
    >>> run.at(3.0).x.shape                     # between saved times the flow is solved again from the last one before
    (10, 2)
    """

    times: Float[Array, "*batch T"]
    states: M
    flow: Flow | Flows | None
    reached: Float[Array, "*batch"]
    code: Int[Array, "*batch"]
    steps: Int[Array, "*batch"]
    accepted: Int[Array, "*batch"]
    provenance: Provenance = eqx.field(static=True)
    mergers: Mergers | None = None
    rescaled: Float[Array, "*batch T"] | None = None
    observed: dict[str, Array] | None = None

    # Looking

    if TYPE_CHECKING:  # what `__getattr__` finds, for type checkers, by the kind of measure

        @property
        def x(self: "Trajectory[Tokens]") -> Array: ...
        @property
        def w(self: "Trajectory[Tokens]") -> Array: ...
        @property
        def s(self: "Trajectory[Tokens]") -> Array | None: ...
        @property
        def n(self: "Trajectory[Tokens] | Trajectory[Equiangular]") -> Any: ...
        @property
        def d(self: "Trajectory[Tokens] | Trajectory[Gaussian] | Trajectory[AbstractDensity]") -> int: ...
        @property
        def mean(self: "Trajectory[Tokens] | Trajectory[Gaussian] | Trajectory[AbstractDensity]") -> Array: ...
        @property
        def variance(self: "Trajectory[Tokens] | Trajectory[Gaussian]") -> Array: ...
        @property
        def gram(self: "Trajectory[Tokens]") -> Array: ...
        @property
        def radii(self: "Trajectory[Tokens]") -> Array: ...
        @property
        def directions(self: "Trajectory[Tokens]") -> Array: ...
        @property
        def spread(self) -> Array: ...
        @property
        def rho(self: "Trajectory[Equiangular]") -> Array: ...
        @property
        def gap(self: "Trajectory[Equiangular]") -> Array: ...
        @property
        def log_gap(self: "Trajectory[Equiangular]") -> Array: ...
        @property
        def r(self: "Trajectory[Equiangular]") -> Array: ...
        @property
        def alignment(self: "Trajectory[Equiangular]") -> Array: ...
        @property
        def cov(self: "Trajectory[Gaussian]") -> Array: ...
        @property
        def trace(self: "Trajectory[Gaussian]") -> Array: ...
        @property
        def spectrum(self: "Trajectory[Gaussian]") -> Array: ...
        @property
        def cone(self: "Trajectory[Gaussian]") -> Array: ...
        @property
        def coefficients(self: "Trajectory[AbstractDensity]") -> Array: ...
        @property
        def degree(self: "Trajectory[AbstractDensity]") -> int: ...
        @property
        def values(self: "Trajectory[AbstractDensity]") -> Array: ...
        @property
        def least(self: "Trajectory[AbstractDensity]") -> Array: ...
        @property
        def mass(self: "Trajectory[AbstractDensity]") -> Array: ...
        @property
        def tail(self: "Trajectory[AbstractDensity]") -> Array: ...
        @property
        def order(self: "Trajectory[AbstractDensity]") -> Array: ...
        @property
        def entropy(self: "Trajectory[AbstractDensity]") -> Array: ...

    else:

        def __getattr__(self, name: str) -> Any:
            """The measure's own quantities, at every saved time."""
            states, observed = self.__dict__.get("states"), self.__dict__.get("observed")
            if observed is not None and name in observed:
                return observed[name]
            if observed is not None and not name.startswith("_"):
                raise AttributeError(
                    f"This run kept {', '.join(observed)} instead of its states; {name!r} has run.final alone."
                )
            known = hasattr(type(states), name) or name in getattr(states, "__dict__", ())
            if name.startswith("_") or states is None or not known:
                raise AttributeError(f"Neither a run nor its {type(states).__name__} states have {name!r}.")
            return getattr(states, name)

    @property
    def final(self) -> M:
        """The last saved state: the end of the run, unless `save` left the end out."""
        return self.states.take(-1)

    @property
    def rejected(self) -> Int[Array, "*batch"]:
        return self.steps - self.accepted

    @property
    def status(self) -> Status:
        """How the run ended; of a batch, how the worst member did."""
        return Status(int(np.max(np.asarray(self.code))))

    @property
    def message(self) -> str:
        """What happened, as a sentence; of a batch, what happened to the worst member."""
        worst = int(np.argmax(np.ravel(np.asarray(self.code))))
        return f"The run {self.status.sentence(float(np.ravel(np.asarray(self.reached))[worst]))}."

    @overload
    def __getitem__(self, index: int) -> M: ...
    @overload
    def __getitem__(self, index: slice) -> "Trajectory[M]": ...
    @overload
    def __getitem__(self, index: tuple[int, ...]) -> "Trajectory[M]": ...
    def __getitem__(self, index: Any) -> Any:
        """`run[i]` is the state at a saved time, of a batch of runs every member's; `run[3:7]` the run at those times alone;
        `runs[i, j]` a member of a batch."""
        if isinstance(index, tuple):
            return self.member(*index)
        if isinstance(index, slice):
            return self._between(index)
        if isinstance(index, bool) or not isinstance(index, int | np.integer):
            raise InputError(
                f"A run is asked for states by whole numbers or slices, run[3] or run[3:7], not by {index!r:.60}."
            )
        if not -len(self) <= index < len(self):
            raise IndexError(f"The run has {len(self)} saved states, but state {index} was asked for.")
        if self.observed is not None:
            raise InputError(
                f"This run kept {', '.join(self.observed)} instead of its states: there is no state {index}. The last one is "
                "run.final."
            )
        return self.states.take(int(index) % len(self))

    def _between(self, where: slice) -> "Trajectory[M]":
        """The run at some of its saved times; it ends where it ended."""
        try:
            chosen = np.arange(len(self))[where]
        except (TypeError, ValueError):
            raise InputError(f"A run is sliced by whole numbers, run[3:7], not by {where}.") from None
        if len(chosen) == 0 or np.any(np.diff(chosen) < 0):
            raise InputError(f"The slice {where} leaves no saved state of {len(self)}, or turns time around.")
        axis = len(self.batch)
        cut = lambda leaf: check.on_device(np.take(np.asarray(leaf), chosen, axis=axis))
        return dataclasses.replace(
            self,
            times=cut(self.times),
            states=self.states if self.observed is not None else jax.tree.map(cut, self.states),
            rescaled=None if self.rescaled is None else cut(self.rescaled),
            observed=None if self.observed is None else jax.tree.map(cut, self.observed),
        )

    def __iter__(self) -> Iterator[M]:
        return (self[i] for i in range(len(self)))

    def refuse_batches(self, what: str) -> None:
        if self.times.ndim != 1:
            raise InputError(
                f"A batch of runs cannot be {what} as one run. Take a member: run.member({', '.join('ijkl'[: len(self.batch)])})."
            )

    @property
    def batch(self) -> tuple[int, ...]:
        """The shape of a batch of runs, () for one: flows by starts, where both were lists."""
        return self.times.shape[:-1]

    def member(self, *index: int) -> "Trajectory[M]":
        """One run of a batch, as `evolve` would have returned it alone.

        **Arguments**

        - `index`: one whole number per axis of the batch; negative ones count from the end.

        **Returns** the run.

        **Raises** `InputError` where there is no such member.

        >>> import tokenfield as tkf
        >>> starts = [tkf.Tokens.uniform_sphere(n=8, d=3, seed=seed) for seed in range(3)]
        >>> runs = tkf.evolve([tkf.sa(1.0), tkf.sa(4.0)], starts, t=2.0, save=5)
        >>> runs.batch, runs.member(1, 2).x.shape
        ((2, 3), (5, 8, 3))
        """
        whole = all(isinstance(i, int | np.integer) and not isinstance(i, bool) for i in index)
        if (
            not self.batch
            or not whole
            or len(index) != len(self.batch)
            or not all(-n <= i < n for i, n in zip(index, self.batch, strict=True))
        ):
            raise InputError(f"Members of this batch have indices below {self.batch}, but {index} was asked for.")
        index = tuple(int(i) % n for i, n in zip(index, self.batch, strict=True))
        taken = lambda leaf, where: check.on_device(np.asarray(leaf)[where]) if eqx.is_array(leaf) else leaf
        flows = self.flow if isinstance(self.flow, Flows) else None
        plain = dataclasses.replace(self, mergers=None, flow=self.flow if flows is None else None)
        one = jax.tree.map(lambda leaf: taken(leaf, index), plain)
        goes_on = [np.diff(np.asarray(ts, float)) > 0 for ts in (one.times, one.rescaled) if ts is not None]
        real = np.append(True, np.any(goes_on, axis=0))  # a run that ended early holds its last state
        cut = lambda tree: jax.tree.map(lambda leaf: taken(leaf, real), tree)
        states = (cut(one.states) if one.observed is None else one.states).present
        return dataclasses.replace(
            one,
            times=taken(one.times, real),
            states=states,
            mergers=None if self.mergers is None else self.mergers.member(index, states.n),
            rescaled=cut(one.rescaled),
            flow=one.flow if flows is None else flows[index[0]],
            observed=None if one.observed is None else cut(one.observed),
            provenance=self.provenance.member(index, self.batch),
        )

    def members(self) -> "Iterator[Trajectory[M]]":
        """The runs of a batch one after another, in the order of an array; one run is its own only member."""
        return (self.member(*index) if index else self for index in np.ndindex(*self.batch))

    def stacked(self, values: "Sequence[Any]") -> Any:
        """One measure or array per member, in the order of an array, with the batch's axes in front. Tokens that are fewer than
        others' are filled up."""
        if isinstance(values[0], AbstractMeasure):
            values = values[0].of_one_size(values)
        join = lambda *leaves: check.on_device(np.stack(leaves).reshape(*self.batch, *np.shape(leaves[0])))
        return jax.tree.map(lambda *leaves: join(*(np.asarray(leaf) for leaf in leaves)), *values)

    def of_members(self, members: "Sequence[Trajectory[M]]") -> "Trajectory[M]":
        """A batch of the same shape and flows as this one, of other runs.

        **Arguments**

        - `members`: the runs, in the order of an array, all with the same number of saved states.

        **Returns** the batch.
        """
        stack = lambda *leaves: check.on_device(
            np.stack([np.asarray(leaf) for leaf in leaves]).reshape(*self.batch, *np.shape(leaves[0]))
        )
        parts = [dataclasses.replace(run, flow=None, mergers=None, provenance=self.provenance) for run in members]
        if len({jax.tree.structure(part) for part in parts}) > 1 or len({part.times.shape for part in parts}) > 1:
            raise InputError("Runs with different numbers of saved states or tokens are no batch. Keep them in a list.")
        mergers = [run.mergers for run in members if run.mergers is not None]
        return dataclasses.replace(
            jax.tree.map(stack, *parts),
            flow=self.flow,
            mergers=Mergers.stacked(mergers, self.batch) if len(mergers) == len(members) else None,
        )

    def __len__(self) -> int:
        return self.times.shape[-1]

    @front_door
    def at(self, t: Number) -> M:
        """The state at any time of the run, to the run's own accuracy.

        **Arguments**

        - `t`: a time between the first saved one and the end.

        **Returns** the measure at that time. Between saved times the flow is solved again from the last one before.

        **Raises** `InputError` where the time is outside, or the run has noise or does not know its flow.
        """
        return door("state_at")(self, t)

    # Going on

    @front_door
    def extend(self, t: Number, *, save: int | Numbers | None = None, **options: Any) -> "Trajectory[M]":
        """The run after it went on to a later time: its states, and those of the time since. With noise the same Brownian path
        goes on, as long as steps adapt (steps of a given length go on with `step=`, and draw new noise); of a batch, every
        member goes on.

        **Arguments**

        - `t`: the new end.
        - `save`: what to save of the new stretch, as `evolve` takes it; left out, states as far apart as the last two.
        - `options`: other options of `evolve`. Solver, tolerances and the radius of coalescing are those of the run.

        **Returns** the whole run, from its first time to `t`.

        **Raises** `InputError` where the run does not know its flow, ended by itself, or `t` is not later than its end.

        >>> import tokenfield as tkf
        >>> run = tkf.evolve(tkf.sa(4.0), tkf.Tokens.uniform_sphere(n=8, d=3), t=2.0, save=3)
        >>> run.extend(4.0).times.tolist()
        [0.0, 1.0, 2.0, 3.0, 4.0]
        """
        return door("extended")(self, t, save, options)

    def last(self) -> M:
        """The state where the run ended, also where `save` left that out."""
        return self.final if bool(self.times[-1] >= self.reached) else self.at(self.reached)

    def followed_by(self, more: "Trajectory[M]") -> "Trajectory[M]":
        """This run and one that went on from its end, as one.

        **Arguments**

        - `more`: the run that began where this one ended.

        **Returns** the whole run.
        """
        later = np.asarray(more.times) > np.asarray(self.times)[-1]
        cut = lambda tree: jax.tree.map(lambda leaf: np.asarray(leaf)[later], tree)
        join = lambda one, other: check.on_device(np.concatenate([np.asarray(one), np.asarray(other)[later]]))
        both = lambda of, one, other: None if one is None or other is None else of(one, other)
        how = self.provenance
        return dataclasses.replace(
            more,
            times=join(self.times, more.times),
            states=more.states.joined([self.states, cut(more.states)]) if self.observed is None else more.states,
            observed=both(lambda one, other: jax.tree.map(join, one, other), self.observed, more.observed),
            rescaled=both(lambda one, other: join(one, one[-1] + other), self.rescaled, more.rescaled),
            mergers=both(lambda one, other: one.followed_by(other, float(self.reached)), self.mergers, more.mergers),
            steps=self.steps + more.steps,
            accepted=self.accepted + more.accepted,
            provenance=dataclasses.replace(how, seconds=how.seconds + more.provenance.seconds),
        )

    def refuse_unfinished(self) -> None:
        """Refuse to go on with a run that ended where there is no going on."""
        if self.status not in (Status.COMPLETED, Status.STOPPED, Status.INTERRUPTED, Status.MAX_STEPS):
            raise InputError(f"There is no going on from where this run ended. {self.message}")

    def warn_unfinished(self) -> None:
        """Warn once of a run that ended before its time though nobody asked for it."""
        if self.status.ok or self.status is Status.INTERRUPTED:
            return
        count = int(np.sum([not Status(int(code)).ok for code in np.ravel(np.asarray(self.code))]))
        many = f"{count} of {int(np.prod(self.batch))} runs did not finish; the worst: " if self.batch else ""
        warnings.warn(f"{many}{self.message}", UnfinishedWarning, stacklevel=USER)

    # Telling

    def __repr__(self) -> str:
        if check.traced(self):
            return f"Trajectory(traced, times {self.times.shape}, of {type(self.states).__name__})"
        return door("story")(self)

    # Keeping

    def to_xarray(self) -> "xarray.Dataset":
        """The run as a labelled data set: of tokens x(time, token, component) and w(time, token), of other measures their
        own arrays; observables, where those were kept; and everything known about it.

        Of a batch all have its dimensions in front, flow and start (or run, where flow i ran from start i), with coordinates for
        what varies along them, such as beta and seed; `times`, `reached`, `code`, `steps` and `accepted` are those of each
        member, and where tokens are fewer than in other members their places are NaN and their weights 0."""
        return door("to_xarray")(self)

    @front_door
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run as zarr, whole or not at all: whatever happens, `path` holds the old run or the new one. xarray opens it.

        **Arguments**

        - `path`: the name of a folder, such as "run.zarr".

        **Raises** `StoreError` where it cannot be written, or something else is there.
        """
        door("save")(self, path)

    @staticmethod
    @front_door
    @no_type_check
    def from_states(states: Any, times: Any = None, flow: Flow | None = None) -> "Trajectory[Any]":
        """A run of states that were computed elsewhere, such as the hidden states of a model, layer by layer: with its story,
        picture, movie, clusters, energies and place on disk.

        **Arguments**

        - `states`: an array of shape (T, n, d), of numpy, JAX or PyTorch, one row per token; or a list of T measures of one kind.
        - `times`: T increasing times; 0, 1, 2, ... when left out.
        - `flow`: the flow that made them, if there is one.

        **Returns** a `Trajectory`.

        **Raises** `InputError` where shapes do not fit, an entry is not finite, or times do not increase.

        >>> import numpy as np
        >>> hidden = np.random.default_rng(0).normal(size=(13, 20, 8))        # 12 layers and what went in
        >>> run = Trajectory.from_states(hidden)
        >>> run.x.shape, run.final, float(run.times[-1])
        ((13, 20, 8), Tokens(n=20, d=8), 12.0)
        """
        return _from_states(states, times, flow)

    @staticmethod
    @front_door
    def load(path: str | os.PathLike[str]) -> "Trajectory[Any]":
        """Read a saved run. Only what `save` writes is read, and everything in it is checked; no code in it can run.

        **Arguments**

        - `path`: where `save` wrote it.

        **Returns** the run.

        **Raises** `StoreError` where there is none, or it is incomplete, damaged or not what `save` writes.
        """
        return door("load")(path)

    def describe(self) -> dict[str, Any]:
        """Everything but the arrays, as plain data; of a batch, everything that its members share."""
        alone = (
            {}
            if self.batch
            else {"reached": float(self.reached), "steps": int(self.steps), "accepted": int(self.accepted)}
        )
        flows = [None if flow is None else config.encode(flow) for flow in self.flows()]
        axes = None if self.observed is None else {name: v.ndim - self.times.ndim for name, v in self.observed.items()}
        return {
            "status": self.status.name,
            **alone,
            "flow": None if None in flows else flows if self.batch else flows[0],
            "observed": axes,
            **dataclasses.asdict(self.provenance),
        }

    @property
    def own_flow(self) -> Flow | None:
        """The flow of the run; None where it is not known, or where a batch has flows of different parts."""
        return self.flow if isinstance(self.flow, Flow) else None

    def flows(self) -> list[Flow | None]:
        """The flows of a batch: one per entry of its first axis, where that counts flows; one for all, where members differ by
        their starts alone; else one per member. Of one run, its own."""
        if self.flow is None or not self.batch:
            return [self.own_flow]
        if isinstance(self.flow, Flows):
            return list(self.flow.flows)
        axes, rest = self.provenance.axes, (0,) * (len(self.batch) - 1)
        every = (
            [(i, *rest) for i in range(1 if axes == ("start",) else self.batch[0])] if axes else np.ndindex(*self.batch)
        )
        taken = lambda leaf, where: check.on_device(np.asarray(leaf)[where]) if eqx.is_array(leaf) else leaf
        return [jax.tree.map(lambda leaf, where=where: taken(leaf, where), self.flow) for where in every]

    # Showing

    @front_door
    def plot(self, path: str | os.PathLike[str] | None = None) -> "Figure | Path":
        """A picture of the run: snapshots, and how the overlaps evolve; of a batch, how its members fared.

        **Arguments**

        - `path`: where to write it, as .png, .pdf or .svg; left out, nothing is written.

        **Returns** the path, or the figure where nothing was written.

        **Raises** `StoreError` where it cannot be written.
        """
        return door("picture")(self, path)

    @front_door
    def animate(self, path: str | os.PathLike[str], *, seconds: float = 8.0, progress: bool | None = None) -> Path:
        """A movie of the run.

        **Arguments**

        - `path`: where to write it, as .mp4 or .gif; without ffmpeg an .mp4 becomes a .gif.
        - `seconds`: how long it is.
        - `progress`: a bar on the terminal.

        **Returns** the path that was written.

        **Raises** `InputError` for a batch of runs or another ending, `StoreError` where it cannot be written.
        """
        self.refuse_batches("drawn")
        return door("animation")(self, path, seconds=seconds, progress=progress)

    @front_door
    def film(self, path: str | os.PathLike[str]) -> Path:
        """The run as one HTML file that plays offline in any browser, with a time slider; of a batch, its members side by side.

        **Arguments**

        - `path`: where to write it, as .html. Of more than 400 saved states every so-many-th is in it.

        **Returns** the path that was written.

        **Raises** `InputError` for another ending, `StoreError` where it cannot be written.
        """
        return door("filmed")(self, path)

    @front_door
    def view(self, *, height: int = 600) -> "View":
        """The run in a notebook, to be turned and played; once shown it plays without a kernel, too.

        **Arguments**

        - `height`: how high the view is, in pixels.

        **Returns** a widget; the last line of a cell shows it.

        **Raises** `InputError` where the `play` extra is not installed.
        """
        return door("view")(self, height)


def _from_states(states: Any, times: Any, flow: Any) -> "Trajectory[Any]":
    if flow is not None and not isinstance(flow, Flow):
        raise InputError(f"Argument `flow` must be a Flow, or be left out, but is a {type(flow).__name__}.")
    if isinstance(states, Sequence) and states and all(isinstance(one, AbstractMeasure) for one in states):
        if len({(type(one), *(array.shape for array in one.arrays.values())) for one in states}) > 1:
            raise InputError(
                "States must be measures of one kind and one shape, but they differ. Give each run its own."
            )
        for one in states:
            one.refuse_nonfinite()
        whole = jax.tree.map(lambda *leaves: check.on_device(np.stack([np.asarray(leaf) for leaf in leaves])), *states)
    else:
        if isinstance(states, list | tuple) and any(hasattr(one, "detach") for one in states):  # tensors, one per layer
            states = [np.asarray(check.real_array("states", one)) for one in states]
        x = check.real_array("states", states, like="an array of shape (T, n, d)")
        if x.ndim != 3 or 0 in x.shape:
            raise InputError(
                f"Argument `states` must have shape (T, n, d), one matrix of tokens per time, but has shape {x.shape}."
                + {
                    2: " For one state, write states[None].",
                    4: " For one sequence of a batch, write states[:, 0].",
                }.get(x.ndim, "")
            )
        x = check.finite("states", x)
        weights = np.full(x.shape[:2], 1 / x.shape[1], x.dtype)
        first = Tokens(np.asarray(x)[0])
        whole = eqx.tree_at(lambda mu: (mu.x, mu.w), first, (x, check.on_device(weights)))
    count = len(next(iter(whole.arrays.values())))
    ts = np.arange(count) if times is None else times
    ts = np.asarray(check.finite("times", check.as_floats(check.real_array("times", ts), whole.dtype)))
    if ts.shape != (count,) or np.any(np.diff(ts) <= 0):
        raise InputError(
            f"Argument `times` must hold {count} increasing numbers, one per state, but has shape {ts.shape} or falls."
        )
    number = lambda value: check.on_device(np.asarray(value))
    how = Provenance(solver="given", rtol=0.0, atol=0.0, summation="")
    return Trajectory(
        times=check.on_device(ts),
        states=whole,
        flow=flow,
        reached=check.on_device(ts[-1]),
        code=number(int(Status.COMPLETED)),
        steps=number(count - 1),
        accepted=number(count - 1),
        provenance=how,
    )


@functools.cache
def _versions() -> dict[str, str]:
    names = ("tokenfield", "jax", "diffrax", "equinox", "numpy")
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in names}
