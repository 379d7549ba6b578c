"""A sweep of small members beside its bare ensembles: `python -m benchmarks.sweeping sweep CONTENDER`, each in its own process.

SA from 16 random tokens on S², the mean overlap at 21 times. `evolve` runs the groups of the sweep one after another, in one
thread as a worker does, and keeps nothing on disk. All times begin with the call, tokenfield being imported, and end with the
results."""

import itertools
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import SMALL

N, D, T, SAVES = 16, 3, 10.0, 21
BETAS = np.linspace(0.5, 8.0, 16).tolist()
SEEDS = list(range(256 if SMALL else 6272))
OVER = {"beta": BETAS, "seed": SEEDS}
CONTENDERS = ("evolve", "sweep, 1 worker", "sweep, 2 workers")
LOOKS = (0.1, 0.5, 1.0)
"""Shares of the groups at which memory is told."""


def flow(beta: float) -> Any:
    import tokenfield as tkf

    return tkf.sa(beta)


def start(seed: int) -> Any:
    import tokenfield as tkf

    return tkf.Tokens.uniform_sphere(n=N, d=D, seed=seed)


def plan() -> Any:
    """The sweep, cut into groups."""
    from tokenfield.sweeps.front import planned
    from tokenfield.sweeps.study import study_of

    return planned(study_of(flow, start, T, {"save": SAVES}), OVER, "mean_overlap", False)[1]


def groups() -> Iterator[np.ndarray]:
    """The overlaps of every group of the sweep, each an ensemble."""
    import tokenfield as tkf

    grid = plan().grid
    for place in grid:
        betas, seeds = grid.slices(place)
        flows, starts = list(map(flow, BETAS[betas])), list(map(start, SEEDS[seeds]))
        runs = tkf.evolve(flows, starts, T, save=SAVES, observe="mean_overlap", progress=False)
        yield np.asarray(runs.observed["mean_overlap"])


def evolve() -> dict[str, Any]:
    ends, sums = [], []
    for overlaps in groups():
        ends.append(time.time())
        sums.append(float(np.sum(overlaps)))
    return {"first": ends[0], "check": sum(sums) / (len(BETAS) * len(SEEDS) * SAVES)}


def sweep(workers: int) -> dict[str, Any]:
    import tokenfield as tkf

    with tempfile.TemporaryDirectory() as folder:
        with Watch(Path(folder) / "grid.zarr") as watch:
            options = {"save": SAVES, "workers": workers, "out": watch.path}
            grid = tkf.sweep(flow, start, T, over=OVER, observe="mean_overlap", **options)
        first = min(entry.stat().st_mtime for entry in os.scandir(watch.path / "blocks"))
    assert bool((grid.status == 0).all())
    return {"first": first, "check": float(grid.mean_overlap.mean()), "memory": watch.peaks}


class Seen:
    """How many groups were finished at a moment, and the megabytes of this process and of its largest worker."""

    def __init__(self, path: Path):
        import psutil

        mine = psutil.Process()
        size = lambda process: process.memory_info().rss / 1e6
        self.groups = sum(1 for name in os.listdir(path / "blocks") if not name.startswith("."))
        self.parent = size(mine)
        self.worker = max(map(size, mine.children()), default=0.0)


class Watch:
    """Looks at a sweep's folder and at memory, twice a second, while there are workers: reading results is another matter."""

    def __init__(self, path: Path):
        self.path, self.over = path, threading.Event()
        self.seen: list[Seen] = []
        self.thread = threading.Thread(target=self._look)

    def __enter__(self) -> "Watch":
        self.thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.over.set()
        self.thread.join()

    def _look(self) -> None:
        while not self.over.wait(0.5):
            if (self.path / "blocks").is_dir() and (seen := Seen(self.path)).groups and seen.worker:
                self.seen.append(seen)

    @property
    def peaks(self) -> dict[str, list[float]]:
        """The most megabytes until so many groups were finished."""
        first, last = self.seen[0].groups, self.seen[-1].groups
        until = [[one for one in self.seen if one.groups <= max(share * last, first)] for share in LOOKS]
        return {who: [max(getattr(one, who) for one in some) for some in until] for who in ("parent", "worker")}


def cpu() -> float:
    """Seconds of this process, and of those that it has started and that have ended."""
    return sum(os.times()[:4])


def warm() -> None:
    """Programs are compiled, and in the cache."""
    from tokenfield.sweeps.group import computed

    swept = plan()
    for place in itertools.islice(swept.grid, 2):
        computed(swept, place)
    list(itertools.islice(groups(), 2))


def main(contender: str) -> None:
    from tokenfield.sweeps.worker import one_thread

    if not contender.startswith("sweep"):
        os.environ.update(one_thread())
    import tokenfield.evolution
    import tokenfield.sweeps  # noqa: F401

    if contender == "warm":
        warm()
        return print("{}")
    began, spent = time.time(), cpu()
    found = evolve() if contender == "evolve" else sweep(int(contender.split()[1]))
    seconds = {"whole": time.time() - began, "first group": found["first"] - began, "CPU": cpu() - spent}
    note = json.dumps(found.get("memory"))
    print(
        json.dumps({name: {"seconds": value, "check": found["check"], "note": note} for name, value in seconds.items()})
    )


if __name__ == "__main__":
    main(sys.argv[2])
