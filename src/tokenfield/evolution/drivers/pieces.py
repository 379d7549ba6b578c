"""Walking in pieces: between two of them Python shows progress, hands over states, and stops on Ctrl-C."""

import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tokenfield.measures import AbstractMeasure
from tokenfield.status import Status

PIECE_SECONDS = 0.2
"""A piece of a walk is as many steps as take about this long."""

MOST_PAGES = 128


def pages(shape: tuple[int, ...], dtype: Any, memory: float) -> int:
    """How many saved states an album holds before it is emptied: the shape of a state alone decides, so that the number of
    save times is not part of a compiled program."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return int(np.clip(memory // size, 1, MOST_PAGES))


def ahead(saves: np.ndarray, first: int, count: int) -> np.ndarray:
    """The save times of an album of `count` pages, beginning with number `first`, and the one after them; infinite where there
    are none."""
    times = np.full(count + 1, np.inf, saves.dtype)
    left = saves[first : first + count + 1]
    times[: len(left)] = left
    return times


class Album:
    """Saved states on their way from the device to the host."""

    def __init__(self, saves: np.ndarray, pages: int):
        self.saves, self.pages = saves, pages
        self.kept = self.seen = 0
        self.parts: list[Any] = []

    @property
    def ts(self) -> np.ndarray:
        """The save times of the pages that are empty, and the next."""
        return ahead(self.saves, self.kept, self.pages)

    def look(self, walker: Any, states: Any, watch: Callable[[float, Any], None] | None) -> Any:
        """Hand newly saved states to the watcher; empty an album that is full."""
        count = int(walker.saved)
        if watch is not None:
            for i in range(self.seen, count):
                watch(float(self.saves[self.kept + i]), _page(states, i))
        self.seen = count
        if count < self.pages:
            return walker
        self.close(walker, states)
        return eqx.tree_at(lambda w: w.saved, walker, np.zeros_like(walker.saved))

    def close(self, walker: Any, states: Any) -> None:
        """Keep what is in the album."""
        count = int(walker.saved)
        if count:
            self.parts.append(jax.tree.map(lambda leaf: np.array(np.asarray(leaf)[:count]), states))
            self.kept, self.seen = self.kept + count, 0

    def states(self) -> Any:
        """All states that were saved, as one measure along time."""
        return one_after_another(self.parts) if self.parts else None


def one_after_another(parts: list[Any]) -> Any:
    """What was kept on several stretches of time, as one: measures in the representation of the last, or observables."""
    if isinstance(parts[-1], AbstractMeasure):
        return parts[-1].joined(parts)
    return jax.tree.map(lambda *leaves: np.concatenate([np.asarray(leaf) for leaf in leaves]), *parts)


def _page(states: Any, i: int) -> Any:
    return (
        states.take(i)
        if isinstance(states, AbstractMeasure)
        else jax.tree.map(lambda leaf: np.asarray(leaf)[i], states)
    )


class Stride:
    """How many steps make a piece of about PIECE_SECONDS, learnt from the last one: `with stride: walk(stride.piece)`. A
    piece that ended before its time says how many steps it `did`."""

    def __init__(self) -> None:
        self.piece, self.did, self.took, self.began = 4, 4, 0.0, 0.0

    def __enter__(self) -> "Stride":
        self.did, self.began = self.piece, time.perf_counter()
        return self

    def __exit__(self, *_: Any) -> None:
        self.took = time.perf_counter() - self.began
        self.piece = max(1, int(max(self.did, 1) * min(4.0, max(0.25, PIECE_SECONDS / self.took))))


def ending(code: int, worn_out: bool) -> Status:
    """How a walk ended that is over: one that would still run has used up its steps, or was interrupted."""
    status = Status(code)
    if status is not Status.RUNNING:
        return status
    return Status.MAX_STEPS if worn_out else Status.INTERRUPTED
