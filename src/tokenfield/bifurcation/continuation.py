"""Pseudo-arclength continuation: a branch of solutions is a curve in (y, η), and folds are nothing special on it."""

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from tokenfield.bifurcation.equation import Equation, Point

TOLERANCE = 1e-12
"""Residual of a solution, relative to 1 + |y|."""

LONGEST = 4000
"""Points of one branch, at most."""


CLEAR = 1e-7
"""Crossings count where the null direction is this clear on both sides. Clusters far apart hardly feel each other, and
their positions are neutral to round-off: no branch bifurcates there."""


@dataclasses.dataclass(frozen=True)
class Place:
    """A point of a branch and its unit tangent. `crossing` is the smallest singular value of [∂G; tangent] with the sign of
    its determinant, which changes where another branch crosses, but not at folds; 0 where this branch leaves another."""

    x: Point
    tangent: Point
    crossing: float

    @property
    def η(self) -> float:
        """The parameter, log(κλ*)."""
        return float(self.x[-1])


@dataclasses.dataclass
class Trace:
    """One branch of an equation: places in order, which of them are folds, and how it ended."""

    equation: Equation
    places: list[Place]
    folds: list[int] = dataclasses.field(default_factory=list)
    ending: str = ""


def solve(equation: Equation, guess: Point, normal: Point, offset: float) -> Point | None:
    """Newton's method for a solution x on the plane <normal, x> = offset; None where it does not converge."""
    x = guess
    for _ in range(12):
        density = equation.density(x)
        gap = np.append(equation.residual(x, density), normal @ x - offset)
        if np.max(abs(gap)) < TOLERANCE * (1 + np.max(abs(x[:-1]))):
            return x
        try:
            x = x - np.linalg.solve(np.vstack([equation.jacobian(x, density), normal]), gap)
        except np.linalg.LinAlgError:
            return None
        if not np.max(abs(x - guess)) < 5:
            return None
    return None


def at_parameter(equation: Equation, guess: Point, η: float) -> Point | None:
    """The solution near a guess at a given η."""
    normal = np.zeros_like(guess)
    normal[-1] = 1.0
    return solve(equation, np.append(guess[:-1], η), normal, η)


def place(equation: Equation, x: Point, towards: Point) -> Place:
    """A solution with its tangent, which points along `towards`."""
    jacobian = equation.jacobian(x)
    tangent = np.linalg.svd(np.vstack([jacobian, np.zeros(len(x))]))[2][-1]  # the null vector
    tangent = tangent if tangent @ towards > 0 else -tangent
    bordered = np.vstack([jacobian, tangent])
    sign = np.linalg.slogdet(bordered)[0]
    return Place(x, tangent, float(sign * np.linalg.svd(bordered, compute_uv=False)[-1]))


def crossed(a: Place, b: Place) -> bool:
    """Whether another branch crosses between two neighbours."""
    return a.crossing * b.crossing < 0 and min(abs(a.crossing), abs(b.crossing)) > CLEAR


def between(equation: Equation, a: Place, b: Place, value: Callable[[Place], float]) -> Place | None:
    """The place between two neighbours where a value that changes sign vanishes.

    Places are named by their projection on the chord from a to b, which folds do not disturb.
    """
    chord = b.x - a.x
    normal = chord / np.linalg.norm(chord)

    def seen(s: float) -> Place:
        if s in (0.0, 1.0):
            return b if s else a
        guess = a.x + s * chord
        x = solve(equation, guess, normal, float(normal @ guess))
        if x is None:
            raise ArithmeticError
        return place(equation, x, a.tangent if s < 0.5 else b.tangent)

    try:
        return seen(brentq(lambda s: value(seen(s)), 0.0, 1.0, xtol=1e-13))  # pyright: ignore
    except (ArithmeticError, ValueError):
        return None


def advance(equation: Equation, last: Place, step: float, first: bool) -> Place | None:
    """The next place at a distance `step` along the tangent; None where the step is too bold."""
    guess = last.x + step * last.tangent
    x = solve(equation, guess, last.tangent, float(last.tangent @ guess))
    if x is None:
        return None
    new = place(equation, x, last.tangent)
    calm = np.linalg.norm(x - guess) < 0.3 * step and new.tangent @ last.tangent > 0.95
    return new if first or calm else None  # the first step off another branch may turn: its tangent was not known


def trace(
    equation: Equation,
    start: Place,
    bounds: tuple[float, float],
    met: Callable[[Place], bool],
    step: float = 0.02,
) -> Trace:
    """Follow a branch from a place along its tangent until it leaves the bounds of η, ends at the uniform state, closes on
    itself, or meets a branch that `met` knows."""
    branch, branching = Trace(equation, [start]), start.crossing == 0
    while not branch.ending and len(branch.places) < LONGEST:
        last = branch.places[-1]
        new = advance(equation, last, step, first=branching and len(branch.places) == 1)
        if new is None:
            step *= 0.5
            if step < 1e-7:
                branch.ending = "lost"
            continue
        _extend(branch, last, new, bounds, met)
        step = min(
            1.4 * step if new.tangent @ last.tangent > 0.995 else step, 0.03 * (1 + float(np.linalg.norm(new.x[:-1])))
        )
    return branch


def _extend(branch: Trace, last: Place, new: Place, bounds: tuple[float, float], met: Callable[[Place], bool]) -> None:
    """Add the next place, with the fold or crossing before it and the end behind it, if there are any."""
    equation = branch.equation
    if last.x[:-1] @ new.x[:-1] < 0:
        branch.places.append(_uniform(equation, last))
        branch.ending = "uniform"
        return
    if crossed(last, new):
        crossing = between(equation, last, new, lambda p: p.crossing)
        if crossing is not None and met(crossing):
            branch.places.append(crossing)
            branch.ending = "met"
            return
    if last.tangent[-1] * new.tangent[-1] < 0 and last.crossing != 0:
        fold = between(equation, last, new, lambda p: p.tangent[-1])
        if fold is not None:
            branch.folds.append(len(branch.places))
            branch.places.append(fold)
    for bound in bounds:
        if (last.η - bound) * (new.η - bound) < 0:
            branch.ending, new = "bound", _cut(equation, last, new, bound)
    branch.places.append(new)
    if len(branch.places) > 8 and _closed(branch):
        branch.ending = "closed"


def _cut(equation: Equation, last: Place, new: Place, bound: float) -> Place:
    """Where a branch leaves the range, with exactly that η."""
    end = between(equation, last, new, lambda p: p.η - bound)
    exact = None if end is None else at_parameter(equation, end.x, bound)
    return new if exact is None else place(equation, np.append(exact[:-1], bound), new.tangent)


def _uniform(equation: Equation, last: Place) -> Place:
    """The uniform state where a branch that comes near it must end: at the κ_l of its largest degree."""
    l = int(np.argmax(abs(last.x[:-1])))
    x = np.zeros_like(last.x)
    x[-1] = equation.onsets[l]
    return Place(x, last.tangent, 0.0)


def _closed(branch: Trace) -> bool:
    """Whether the last step passed the first place again."""
    first, before, now = branch.places[0], branch.places[-2], branch.places[-1]
    step = np.linalg.norm(now.x - before.x)
    near = min(np.linalg.norm(p.x - first.x) for p in (before, now)) < 0.6 * step
    passed = (first.tangent @ (before.x - first.x)) * (first.tangent @ (now.x - first.x)) <= 0
    return bool(near and passed and first.tangent @ now.tangent > 0.9)


def other_direction(equation: Equation, crossing: Place) -> Float[np.ndarray, " p"]:
    """At a crossing, the direction in the null space of ∂G that is orthogonal to the branch: where the other one goes."""
    null = np.linalg.svd(equation.jacobian(crossing.x))[2][-2:]
    across = null - np.outer(null @ crossing.tangent, crossing.tangent)
    best = across[np.argmax(np.linalg.norm(across, axis=1))]
    return best / np.linalg.norm(best)
