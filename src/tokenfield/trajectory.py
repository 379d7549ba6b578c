"""Trajectory: what a run computed, how, and how well."""

import dataclasses
import datetime
import functools
import importlib.metadata
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int

from tokenfield import _checks as check
from tokenfield import config
from tokenfield._doors import door
from tokenfield._types import Number
from tokenfield.errors import InputError
from tokenfield.flow import Flow
from tokenfield.measures import AbstractMeasure
from tokenfield.mergers import Mergers
from tokenfield.status import Status

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

    from tokenfield.measures import AbstractDensity, Equiangular, Gaussian, Tokens

M = TypeVar("M", bound=AbstractMeasure, covariant=True)


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
    coalesce: float | None = None
    clock: str = "linear"
    accuracy: float | None = None
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
        return dataclasses.replace(self, origin=origin, noise=noise)

    def after(self, seconds: float) -> "Provenance":
        return dataclasses.replace(self, seconds=seconds)


class Trajectory(eqx.Module, Generic[M]):
    """The states of a measure along a flow.

    - `run.times` (T,), `run.states` (a measure whose arrays have a leading axis of time), `run[i]`, `run.final`, `run.at(t)`
    - every quantity of the measure, along the run: `run.x` (T, n, d) of tokens, `run.rho`, `run.cov`, `run.entropy`, ...
    - `run.mergers`, `run.rescaled`: of a run that coalesces, who met when, and its times in the rescaled clock
    - `run.status`, `run.message`, `run.steps`, `run.rejected`, `run.provenance`
    - `run.to_xarray()`, `run.save(path)`, `Trajectory.load(path)`, `run.plot(path)`, `run.animate(path)`
    - of an ensemble all arrays have its axes in front, `run.batch`; `run.member(i, j)` is one run of it

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
    flow: Flow | None
    reached: Float[Array, "*batch"]
    code: Int[Array, "*batch"]
    steps: Int[Array, "*batch"]
    accepted: Int[Array, "*batch"]
    provenance: Provenance = eqx.field(static=True)
    mergers: Mergers | None = None
    rescaled: Float[Array, " T"] | None = None

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
            states = self.__dict__.get("states")
            known = hasattr(type(states), name) or name in getattr(states, "__dict__", ())
            if name.startswith("_") or states is None or not known:
                raise AttributeError(f"Neither a run nor its {type(states).__name__} states have {name!r}.")
            return getattr(states, name)

    @property
    def final(self) -> M:
        """The last saved state: the end of the run, unless `save` left the end out."""
        return self[-1]

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

    def __getitem__(self, index: int) -> M:
        """The state at a saved time; of a batch of runs, every member's."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"The run has {len(self)} saved states, but state {index} was asked for.")
        return self.states.take(index % len(self))

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
        if len(index) != len(self.batch) or not all(-n <= i < n for i, n in zip(index, self.batch, strict=True)):
            raise InputError(f"Members of this batch have indices below {self.batch}, but {index} was asked for.")
        taken = lambda leaf, where: check.on_device(np.asarray(leaf)[where]) if eqx.is_array(leaf) else leaf
        one = jax.tree.map(lambda leaf: taken(leaf, index), self)
        real = np.append(True, np.diff(np.asarray(one.times, float)) > 0)  # a run that ended early holds its last state
        states = jax.tree.map(lambda leaf: taken(leaf, real), one.states)
        how = self.provenance.member(index, self.batch)
        return dataclasses.replace(one, times=taken(one.times, real), states=states, provenance=how)

    def __len__(self) -> int:
        return self.times.shape[-1]

    def at(self, t: Number) -> M:
        """The state at any time of the run, to the run's own accuracy.

        **Arguments**

        - `t`: a time between the first saved one and the end.

        **Returns** the measure at that time. Between saved times the flow is solved again from the last one before.

        **Raises** `InputError` where the time is outside, or the run has noise or does not know its flow.
        """
        return door("state_at")(self, t)

    # Telling

    def __repr__(self) -> str:
        if check.traced(self):
            return f"Trajectory(traced, times {self.times.shape}, of {type(self.states).__name__})"
        return door("story")(self)

    # Keeping

    def to_xarray(self) -> "xarray.Dataset":
        """The run as a labelled data set: of tokens x(time, token, component) and w(time, token), of other measures their
        own arrays; and everything known about it."""
        return door("to_xarray")(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run as zarr, whole or not at all: whatever happens, `path` holds the old run or the new one. xarray opens it.

        **Arguments**

        - `path`: the name of a folder, such as "run.zarr".

        **Raises** `StoreError` where it cannot be written, or something else is there.
        """
        door("save")(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Trajectory[Any]":
        """Read a saved run. Only what `save` writes is read, and everything in it is checked; no code in it can run.

        **Arguments**

        - `path`: where `save` wrote it.

        **Returns** the run.

        **Raises** `StoreError` where there is none, or it is incomplete, damaged or not what `save` writes.
        """
        return door("load")(path)

    def describe(self) -> dict[str, Any]:
        """Everything but the arrays, as plain data."""
        return {
            "status": self.status.name,
            "reached": float(self.reached),
            "steps": int(self.steps),
            "accepted": int(self.accepted),
            "flow": None if self.flow is None else config.encode(self.flow),
            **dataclasses.asdict(self.provenance),
        }

    # Showing

    def plot(self, path: str | os.PathLike[str] | None = None) -> "Figure | Path":
        """A picture of the run: snapshots, and how the overlaps evolve.

        **Arguments**

        - `path`: where to write it, as .png, .pdf or .svg; left out, nothing is written.

        **Returns** the path, or the figure where nothing was written.

        **Raises** `InputError` for a batch of runs, `StoreError` where it cannot be written.
        """
        self.refuse_batches("drawn")
        return door("picture")(self, path)

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


@functools.cache
def _versions() -> dict[str, str]:
    names = ("tokenfield", "jax", "diffrax", "equinox", "numpy")
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in names}
