"""Which branches there are: those that leave the uniform state, those that cross them, and those that touch neither."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from tokenfield.bifurcation.continuation import (
    Place,
    Trace,
    advance,
    at_parameter,
    between,
    crossed,
    other_direction,
    place,
    trace,
)
from tokenfield.bifurcation.equation import Equation, Point, softmax

DEPTH = 2
"""Crossings of crossings that are followed."""

MOST = 60
"""Branches, at most."""

ALIKE = 1e-6
"""States that differ by less, up to rotation or reflection, are the same."""


@dataclasses.dataclass
class Start:
    """Where a branch is to be followed from, and what it will be called."""

    place: Place
    equation: Equation
    origin: str
    name: str
    depth: int = 0


@dataclasses.dataclass
class Found:
    """A branch and where it came from."""

    trace: Trace
    origin: str
    name: str


class Search:
    """All branches of an equation with η up to a bound, as far as they are connected or can be guessed."""

    def __init__(self, equation: Equation, low: float, high: float, tell: Callable[[float, str], None]):
        self.equation, self.low, self.high, self.tell = equation, low, high, tell
        self.found: list[Found] = []

    def run(self) -> list[Found]:
        """Follow all of them: those that leave the uniform state, what crosses them, and isolated ones."""
        self.follow(list(self.primary()), 0.0, 0.7)
        for i, seed in enumerate(seeds := self.seeds()):
            self.follow(self.isolated(*seed), 0.7 + 0.3 * i / len(seeds), 0.7 + 0.3 * (i + 1) / len(seeds))
        self.found = [one for one in self.found if min(p.η for p in one.trace.places) < self.high]
        return self.found

    def follow(self, queue: list[Start], begin: float, end: float) -> None:
        """Follow every start, and what crosses it, unless the branch is known already."""
        done = 0
        while queue and len(self.found) < MOST:
            start = queue.pop(0)
            self.tell(begin + (end - begin) * done / (done + 1 + len(queue)), start.name)
            done += 1
            branch = self.traced(start)
            if branch is not None:
                self.found.append(Found(branch, start.origin, start.name))
                queue += self.crossings(branch, start) if start.depth < DEPTH else []

    def traced(self, start: Start) -> Trace | None:
        """The branch from a start; None where it is a known one. An isolated branch is followed both ways."""
        high = max(self.high, start.place.η + 1e-6)
        step = advance(start.equation, start.place, 0.01, first=True)
        if step is None or self.knows(step):
            return None
        first = trace(start.equation, start.place, (self.low, high), self.knows)
        if start.origin != "isolated" or first.ending == "closed":
            return first
        back = Place(start.place.x, -start.place.tangent, -start.place.crossing)
        return joined(trace(start.equation, back, (self.low, high), self.knows), first)

    # Where branches begin.

    def primary(self) -> Iterator[Start]:
        """Branches that leave the uniform state at κ_l. On the circle, and for odd l, the two sides are the same state turned."""
        for l, η in enumerate(self.equation.onsets, start=1):
            if not η < self.high + 0.5:
                continue
            twins = self.equation.d == 2 or l % 2 == 1
            for side in (1.0,) if twins else (1.0, -1.0):
                x, tangent = np.zeros(self.equation.size + 1), np.zeros(self.equation.size + 1)
                x[-1], tangent[l - 1] = η, side
                name = f"degree {l}" + ("" if twins else " (poles)" if side > 0 else " (belts)")
                yield Start(Place(x, tangent, 0.0), self.equation.among(self.symmetry(l)), f"degree {l}", name)

    def symmetry(self, l: int) -> int:
        """States made of e_l contain multiples of its degree on the circle; even degrees where l is even on spheres."""
        return l if self.equation.d == 2 else 2 - l % 2

    def crossings(self, branch: Trace, start: Start) -> list[Start]:
        """Both sides of every branch that crosses this one."""
        starts = []
        for crossing in crossings(self.equation, branch):
            across = other_direction(self.equation, crossing)
            name = f"secondary, from {start.name} at {math.exp(crossing.η):.4g} κ_c"
            for side in (1.0, -1.0):
                begin = Place(crossing.x, side * across, 0.0)
                starts.append(Start(begin, self.equation, "secondary", name, start.depth + 1))
        return starts

    def seeds(self) -> list[tuple[int, float]]:
        """Waves e_l and -e_l to start from."""
        reach = min(int(np.sum(self.equation.onsets < self.high)) + 2, self.equation.size)
        return [(l, side) for l in range(1, reach + 1) for side in (1.0, -1.0)]

    def isolated(self, l: int, side: float) -> list[Start]:
        """What a density that is concentrated at the peaks of a wave relaxes to, unless it is known."""
        equation = self.equation.among(self.symmetry(l))
        wave = side * equation.e[:, l - 1] / abs(equation.e[:, l - 1]).max()
        x = at_parameter(equation, equation.relax(softmax(20 * wave + equation.log_weights), self.high), self.high)
        if x is None or np.linalg.norm(x[:-1]) < 1e-3:
            return []
        along = place(equation, x, -np.eye(len(x))[-1])
        return [] if self.knows(along) else [Start(along, equation, "isolated", "isolated")]

    # What is known.

    def knows(self, state: Place) -> bool:
        """Whether a known branch contains this state, up to rotation or reflection."""
        if np.linalg.norm(state.x[:-1]) < ALIKE:
            return True
        others = (x for one in self.found for x in solutions_at(one.trace, state.η))
        return any(alike(self.equation, state.x, x) for x in others)


def solutions_at(branch: Trace, η: float) -> list[Point]:
    """The states of a branch at a given η: one in every stretch between folds that contains it."""
    found, equation = [], branch.equation
    η = next((p.η for p in (branch.places[0], branch.places[-1]) if abs(p.η - η) < 1e-13), η)
    for a, b in pairwise(branch.places):
        if (a.η - η) * (b.η - η) > 0 or a.η == b.η or (b.η == η and b is not branch.places[-1]):
            continue
        near = a if a.η == η else between(equation, a, b, lambda p: p.η - η)
        if near is not None:
            exact = at_parameter(equation, near.x, η)
            found.append(near.x if exact is None or np.max(abs(exact - near.x)) > 1e-6 else exact)
    return found


def alike(equation: Equation, x: Point, z: Point) -> bool:
    """The same state at the same η, turned or reflected: on the circle the sizes of all harmonics agree."""
    y, other = x[:-1], z[:-1]
    if equation.d == 2:
        same = np.max(abs(abs(y) - abs(other))) < ALIKE
        return bool(same and abs(equation.free_energy(x) - equation.free_energy(z)) < ALIKE)
    mirror = (-1.0) ** np.arange(1, len(y) + 1)
    return bool(min(np.max(abs(y - other)), np.max(abs(mirror * y - other))) < ALIKE)


def crossings(equation: Equation, branch: Trace) -> list[Place]:
    """Where other branches cross this one, also those of less symmetry."""
    found = [_crossings(equation, branch, turn) for turn in turns(equation, branch)]
    return [crossing for some in found for crossing in some]


def _crossings(equation: Equation, branch: Trace, turn: Point) -> Iterator[Place]:
    seen = lambda p: p if p.crossing == 0 else place(equation, turn * p.x, turn * p.tangent)
    for (a, b), (c, d) in zip(pairwise(branch.places), pairwise(map(seen, branch.places)), strict=True):
        here = between(branch.equation, a, b, lambda p: seen(p).crossing) if crossed(c, d) else None
        if here is not None:
            yield seen(here)


def turns(equation: Equation, branch: Trace) -> list[Point]:
    """A branch as it is; on the circle, states of an even number k of equal parts also turned by π/k: then troughs are
    where peaks were, and other branches that are even about e_1 cross there."""
    l, size = np.arange(1, equation.size + 1), np.max([abs(p.x[:-1]) for p in branch.places], axis=0)
    k = math.gcd(*(int(i) + 1 for i in np.flatnonzero(size > 1e-7)))
    same = np.ones(equation.size + 1)
    if equation.d > 2 or k % 2 or k == 0:
        return [same]
    return [same, np.append(np.where(l % k == 0, (-1.0) ** (l // k), 0.0), 1.0)]


def joined(back: Trace, forth: Trace) -> Trace:
    """One branch from two that leave the same place."""
    places = [Place(p.x, -p.tangent, -p.crossing) for p in back.places[:0:-1]] + forth.places
    folds = [len(back.places) - 1 - i for i in back.folds[::-1]] + [i + len(back.places) - 1 for i in forth.folds]
    return Trace(forth.equation, places, folds, forth.ending)
