"""The history of clusters along a run: who was born when, who joined whom, who lived how long."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._types import Number, no_type_check
from tokenfield.errors import InputError
from tokenfield.mergers import Mergers
from tokenfield.observe.base import over_members, states
from tokenfield.observe.clustering import clusters
from tokenfield.trajectory import Trajectory

SHOWN = 12
"""How many lives a history prints."""


class Life(NamedTuple):
    """The life of one cluster.

    - `born`, `ended`: the saved times at which it was first seen, and first no longer; at the end of the run, that end.
    - `into`: the cluster that it joined when it ended; None where it is alive or dissolved.
    - `out_of`: the cluster that it split off from; None where it was there from the beginning.
    - `alive`: whether it was there when the run ended.
    - `size`: the largest number of tokens that it had.
    """

    born: float
    ended: float
    into: int | None
    out_of: int | None
    alive: bool
    size: int

    @property
    def lifetime(self) -> float:
        return self.ended - self.born


@dataclasses.dataclass(frozen=True, eq=False)
class History:
    """The lives of clusters, in order of birth, larger ones first; it prints as a small table of those that lived longest.

    - `lives`: one `Life` per cluster; clusters are named by their number in this list.
    - `labels`: for every saved time and every token the number of its cluster.
    - `times`: the times.

    >>> import tokenfield as tkf
    >>> near = [[[1.0, a], [1.0, -a], [-1.0, 0.0]] for a in (1.0, 0.5, 0.01)]
    >>> print(history(tkf.Trajectory.from_states(near)))
    3 clusters in 3 saved states: 1 merger, 0 splits, 2 alive at t = 2
     cluster  born  ended  lifetime  tokens  fate
           0     0      2         2       2  alive
           2     0      2         2       1  alive
           1     0      2         2       1  joined 0
    """

    lives: tuple[Life, ...]
    labels: Int[np.ndarray, "T n"]
    times: Float[np.ndarray, " T"]

    def __len__(self) -> int:
        return len(self.lives)

    @property
    def counts(self) -> Int[np.ndarray, " T"]:
        """How many clusters there were at every saved time."""
        return np.array([len(np.unique(row)) for row in self.labels])

    @property
    def lifetimes(self) -> Float[np.ndarray, " k"]:
        """How long each cluster lived, in this run."""
        return np.array([life.lifetime for life in self.lives])

    @property
    def mergers(self) -> list[tuple[float, int, int]]:
        """When which cluster was joined by which: (time, into, gone), in the order of time."""
        found = [(life.ended, life.into, i) for i, life in enumerate(self.lives) if life.into is not None]
        return sorted(found, key=lambda one: one[0])

    @property
    def births(self) -> list[tuple[float, int, int]]:
        """When which cluster split off from which after the beginning: (time, out of, new), in the order of time."""
        found = [(life.born, life.out_of, i) for i, life in enumerate(self.lives) if life.out_of is not None]
        return sorted(found, key=lambda one: one[0])

    def __repr__(self) -> str:
        count = lambda number, what: f"{number} {what}{'' if number == 1 else 's'}"
        alive = sum(life.alive for life in self.lives)
        first = (
            f"{count(len(self), 'cluster')} in {count(len(self.times), 'saved state')}: {count(len(self.mergers), 'merger')}, "
            f"{count(len(self.births), 'split')}, {alive} alive at t = {self.times[-1]:.6g}"
        )
        order = sorted(range(len(self)), key=lambda i: (not self.lives[i].alive, -self.lives[i].lifetime, i))
        rows = [("cluster", "born", "ended", "lifetime", "tokens", "fate"), *(self._row(i) for i in order[:SHOWN])]
        widths = [max(len(row[k]) for row in rows) for k in range(5)]
        lines = [" " + "  ".join([*(f"{row[k]:>{widths[k]}}" for k in range(5)), row[5]]) for row in rows]
        more = [f" and {len(self) - SHOWN} more"] if len(self) > SHOWN else []
        return "\n".join([first, *lines, *more])

    def _row(self, i: int) -> tuple[str, ...]:
        life = self.lives[i]
        fate = "alive" if life.alive else "dissolved" if life.into is None else f"joined {life.into}"
        fate += "" if life.out_of is None else f", split off {life.out_of}"
        return (str(i), f"{life.born:.4g}", f"{life.ended:.4g}", f"{life.lifetime:.4g}", str(life.size), fate)


@front_door
@no_type_check
def history(run: Trajectory, angle: Number | None = 0.1, *, distance: Number | None = None) -> Any:
    """Births, mergers and lifetimes of clusters along a run.

    Clusters are found at every saved time, as `clusters` does, and followed by their tokens. A cluster goes on as the one that
    most of its weight is in next; where several go on as one, the heaviest does and the others have joined it. A cluster as
    which none goes on has split off from where most of its weight was. Times are saved times, so save often. A run that
    coalesces knows its mergers better: with `angle=None` every token is a cluster at first, and lives end at the times of
    `run.mergers`.

    **Arguments**

    - `run`: a run of tokens.
    - `angle`: the radius of a cluster, in radians between directions, below π; None for the mergers that the run kept itself.
    - `distance`: the radius as a Euclidean distance, for tokens in R^d; given, it takes the place of the angle.

    **Returns** a `History`, of a batch of runs one per member in an array of its shape.

    **Raises** `InputError` where `run` is not a run of tokens, a radius is not a positive number, or the angle is None and the
    run has no mergers.

    >>> import tokenfield as tkf
    >>> run = tkf.evolve(tkf.sa(9.0), tkf.Tokens.uniform_sphere(20, 2, seed=3), t=1e10, coalesce=1e-5, save="log")
    >>> len(history(run, angle=None).mergers), int(history(run).counts[-1])
    (19, 1)
    """
    if not isinstance(run, Trajectory):
        raise InputError(
            f"history(run) takes a run, which evolve returns, but got {type(run).__name__}. For one state, use clusters(mu)."
        )
    mu = states(run)
    if check.traced(mu):
        raise InputError("history looks at values, so it cannot be traced by jit, grad or vmap. Call it outside.")
    if run.batch:
        return over_members(lambda member: history(member, angle, distance=distance), run)
    times = np.asarray(run.times, np.float64)
    if angle is None and distance is None:
        if run.mergers is None:
            raise InputError(
                "This run did not coalesce, so it kept no mergers. Give an angle, e.g. history(run, angle=0.1)."
            )
        return _of_mergers(run.mergers, times)
    found = clusters(run, 0.1 if angle is None else angle, distance=distance)
    w = np.broadcast_to(np.asarray(mu.w, np.float64), (len(times), mu.n))
    return _followed([one.labels for one in found], w, times)


def _followed(labels: list[np.ndarray], w: np.ndarray, times: np.ndarray) -> History:
    """Clusters by number, from one saved time to the next."""
    names = [labels[0]]
    lives = [Life(float(times[0]), float(times[-1]), None, None, True, 0) for _ in range(labels[0].max() + 1)]
    for k in range(1, len(times)):
        names.append(_next(names[-1], labels[k], w[k], float(times[k]), float(times[-1]), lives))
        for i in np.setdiff1d(names[-2], names[-1]):
            lives[i] = lives[i]._replace(ended=float(times[k]), alive=False)
    whole = np.stack(names)
    sizes = np.max([np.bincount(row, minlength=len(lives)) for row in whole], axis=0)
    return History(tuple(life._replace(size=int(size)) for life, size in zip(lives, sizes, strict=True)), whole, times)


def _next(before: np.ndarray, label: np.ndarray, w: np.ndarray, t: float, end: float, lives: list[Life]) -> np.ndarray:
    """The numbers of clusters at the next time; `lives` learns who joined whom, and who is new."""
    old, position = np.unique(before, return_inverse=True)
    shared = np.zeros((len(old), label.max() + 1))
    np.add.at(shared, (position, label), w)
    heir = shared.argmax(axis=1)
    number = np.full(shared.shape[1], -1)
    for a in np.argsort(-shared[np.arange(len(old)), heir], kind="stable"):
        if number[heir[a]] < 0:
            number[heir[a]] = old[a]
        else:
            lives[old[a]] = lives[old[a]]._replace(into=int(number[heir[a]]))
    for b in np.flatnonzero(number < 0):
        number[b] = len(lives)
        lives.append(Life(t, end, None, int(old[shared[:, b].argmax()]), True, 0))
    return number[label]


def _of_mergers(mergers: Mergers, times: np.ndarray) -> History:
    """Every token a cluster, until it joins another at a time that the run knows."""
    start, end = float(times[0]), float(times[-1])
    lives = [Life(start, end, None, None, True, 1) for _ in range(mergers.n)]
    for one in mergers:
        joined = lives[one.into].size + lives[one.gone].size
        lives[one.gone] = lives[one.gone]._replace(ended=one.t, into=one.into, alive=False)
        lives[one.into] = lives[one.into]._replace(size=joined)
    return History(tuple(lives), np.stack([mergers.labels(t) for t in times]), times)
