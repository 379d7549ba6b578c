"""Trajectory: what a run computed, how, and how well."""

import dataclasses
import datetime
import importlib.metadata
import os
import platform
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tokenfield import _checks as check
from tokenfield import config
from tokenfield.errors import InputError
from tokenfield.flow import Flow
from tokenfield.mergers import Mergers
from tokenfield.status import Status

if TYPE_CHECKING:
    import xarray


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


class Trajectory(eqx.Module):
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
    states: Any
    flow: Flow | None
    reached: Float[Array, "*batch"]
    code: Int[Array, "*batch"]
    steps: Int[Array, "*batch"]
    accepted: Int[Array, "*batch"]
    provenance: Provenance = eqx.field(static=True)
    mergers: Mergers | None = None
    rescaled: Float[Array, " T"] | None = None

    # Looking

    def __getattr__(self, name: str) -> Any:
        """The measure's own quantities, at every saved time."""
        states = self.__dict__.get("states")
        if name.startswith("_") or states is None or (not hasattr(type(states), name) and name not in states.__dict__):
            raise AttributeError(f"Neither a run nor its {type(states).__name__} states have {name!r}.")
        return getattr(states, name)

    @property
    def final(self) -> Any:
        """The last saved state: the end of the run, unless `save` left the end out."""
        return self[-1]

    @property
    def rejected(self) -> Int[Array, "*batch"]:
        return self.steps - self.accepted

    @property
    def status(self) -> Status:
        """How the run ended; of a batch, how the worst member did."""
        return Status(int(jnp.max(self.code)))

    @property
    def message(self) -> str:
        worst = int(jnp.argmax(jnp.ravel(self.code)))
        return f"The run {self.status.sentence(float(jnp.ravel(self.reached)[worst]))}."

    def __getitem__(self, index: int) -> Any:
        """The state at a saved time; of a batch of runs, every member's."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"The run has {len(self)} saved states, but state {index} was asked for.")
        return self.states.take(index % len(self))

    def __iter__(self) -> Iterator[Any]:
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

    def member(self, *index: int) -> "Trajectory":
        """One run of a batch, as `evolve` would have returned it alone.

        >>> import tokenfield as tkf
        >>> starts = [tkf.Tokens.uniform_sphere(n=8, d=3, seed=seed) for seed in range(3)]
        >>> runs = tkf.evolve([tkf.sa(1.0), tkf.sa(4.0)], starts, t=2.0, save=5)
        >>> runs.batch, runs.member(1, 2).x.shape
        ((2, 3), (5, 8, 3))
        """
        if len(index) != len(self.batch) or not all(-n <= i < n for i, n in zip(index, self.batch, strict=True)):
            raise InputError(f"Members of this batch have indices below {self.batch}, but {index} was asked for.")
        take = lambda tree: jax.tree.map(lambda leaf: leaf[index] if eqx.is_array(leaf) else leaf, tree)
        one = take(self)
        times = np.asarray(one.times)
        real = np.append(True, np.diff(times) > 0)  # a run that ended early holds its last state from there on
        states = jax.tree.map(lambda leaf: leaf[real] if eqx.is_array(leaf) else leaf, one.states)
        how = self.provenance.member(index, self.batch)
        return dataclasses.replace(one, times=one.times[real], states=states, provenance=how)

    def __len__(self) -> int:
        return self.times.shape[-1]

    def at(self, t: Any) -> Any:
        """The state at any time of the run, to the run's own accuracy."""
        from tokenfield.evolution import SOLVERS, evolve

        self.refuse_batches("asked for a time")
        times, end = np.asarray(self.times), float(self.reached)
        t = float(np.asarray(check.number("t", t), times.dtype))
        if not times[0] <= t <= end:
            raise InputError(f"The run has t in [{times[0]:g}, {end:g}], but was asked for t = {t:g}.")
        before = int(np.searchsorted(times, t, side="right")) - 1
        if times[before] == t:
            return self[before]
        if self.provenance.solver == "splitting":
            raise InputError(
                f"t = {t:g} is not a saved time, and noise is not drawn twice alike between saved times. Save that time too: "
                "evolve(..., save=times)."
            )
        if self.flow is None or self.provenance.solver not in (*SOLVERS, "etd4"):
            raise InputError(
                f"t = {t:g} is not a saved time, and the run does not know its flow and solver to solve it again. "
                f"The nearest saved times are {times[before]:g} and {times[min(before + 1, len(times) - 1)]:g}."
            )
        how = self.provenance
        again = evolve(
            self.flow,
            self[before],
            (times[before], t),
            save=1,
            solver=how.solver,
            rtol=how.rtol,
            atol=how.atol,
            max_steps=100_000 + 2 * int(self.steps),
            coalesce=how.coalesce,
        )
        if not again.status.ok:
            raise InputError(f"The state at t = {t:g} could not be computed: {again.message}")
        return again.final

    # Telling

    def __repr__(self) -> str:
        if check.traced(self):
            return f"Trajectory(traced, times {self.times.shape}, of {type(self.states).__name__})"
        from tokenfield.story import story, story_of_many

        return story_of_many(self) if self.batch else story(self)

    # Keeping

    def to_xarray(self) -> "xarray.Dataset":
        """The run as a labelled data set: of tokens x(time, token, component) and w(time, token), of other measures their
        own arrays; and everything known about it."""
        from tokenfield.store import to_xarray

        return to_xarray(self)

    def save(self, path: str | os.PathLike) -> None:
        """Write the run as zarr, whole or not at all: whatever happens, `path` holds the old run or the new one."""
        from tokenfield.store import save

        save(self, path)

    @staticmethod
    def load(path: str | os.PathLike) -> "Trajectory":
        """Read a saved run; an incomplete or damaged one is refused."""
        from tokenfield.store import load

        return load(path)

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

    def plot(self, path: str | os.PathLike | None = None) -> Any:
        """A picture of the run: snapshots, and how the overlaps evolve. Written to `path`, or returned as a figure."""
        from tokenfield.draw import picture

        self.refuse_batches("drawn")
        return picture(self, path)

    def animate(self, path: str | os.PathLike, *, seconds: Any = 8.0, progress: bool | None = None) -> Any:
        """A movie of the run: mp4 where ffmpeg is found, a gif otherwise. Returns the path that was written."""
        from tokenfield.draw import animation

        self.refuse_batches("drawn")
        return animation(self, path, seconds=seconds, progress=progress)


def _versions() -> dict[str, str]:
    names = ("tokenfield", "jax", "diffrax", "equinox", "numpy")
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in names}
