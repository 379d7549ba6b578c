r"""Clocks: when a run ends and which states it saves, in units of time that suit it.

- "linear": t itself, states equally spaced.
- "log": t itself, states in equal ratios.
- "rescaled": $dt = e^{β(1 - c)} ds$ with c the largest inner product of two different groups  [rigollet2025, theorem 6], taken anew
  after every merger. In this time the closest pair moves at a speed of order one, however large β is; `t` and equal
  spacing are then those of s.
"""

import math
from typing import Any

import numpy as np

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield.errors import InputError, suggest
from tokenfield.flow import Flow

CLOCKS = {"linear": None, "log": None, "rescaled": None}
FIRST = 1e-2
"""The first time that a logarithmic clock shows after the start."""
LONGEST = 690.0
"""Logarithm of the longest unit of time; beyond it nothing moves in any number of the machine."""


def clock_named(name: Any, merging: bool) -> str:
    """A clock by its name, if runs like this one have it."""
    if name is None:
        return "linear"
    if not isinstance(name, str) or name not in CLOCKS:
        raise InputError(f"Unknown clock {name!r}. {suggest(name, CLOCKS)}")
    if name == "rescaled" and not merging:
        raise InputError("The rescaled clock starts anew at every merger: it needs coalesce=1e-5, say.")
    return name


@front_door
def log_times(t: Any, count: int = 100, first: Any = FIRST) -> np.ndarray:
    """Times in equal ratios from 0 to t, as `evolve(..., save="log")` has them.

    **Arguments**

    - `t`: the end time.
    - `count`: how many times, both ends included.
    - `first`: the first time after 0, at most a thousandth of t.

    **Returns** the times: 0, `first`, and so on in equal ratios to t.

    **Raises** `InputError` where t or `first` is not positive, or the count is no whole number of 1 or more.

    >>> log_times(100.0, 6).round(6).tolist()
    [0.0, 0.01, 0.1, 1.0, 10.0, 100.0]
    """
    end, first = check.number("t", t, positive=True), check.number("first", first, positive=True)
    count = check.whole("count", count, 1, "how many times")
    check.room(4 * 8 * count, f"{count} times")
    if count == 1:
        return np.array([end])
    times = np.geomspace(min(first, 1e-3 * end), end, max(count - 1, 1))
    return np.append(0.0, np.append(times[:-1], end))


class Clock:
    """What a run with mergers asks: how far its end and its save times lie ahead, and how late it is in rescaled time.

    Both are durations from now, since a time of 10²⁰ cannot be advanced by 1."""

    def __init__(self, name: str, flow: Flow, times: np.ndarray, saves: np.ndarray, x: np.ndarray):
        self.name, self.saves = name, np.asarray(saves, float)
        self.start, self.end = float(times[0]), float(times[1])
        self.coupling = _coupling(flow)
        if name == "rescaled" and self.coupling is None:
            raise InputError(
                "The rescaled clock is that of softmax or unnormalized attention on the sphere with numbers for Q, K, V "
                "and A and a positive β. Use clock='log'."
            )
        self.t = self.s = self.start
        self.unit = 0.0
        self.merged(x)

    def merged(self, x: np.ndarray) -> None:
        """Groups at x go on. log dt/ds = β(1 - c); the plain clock of USA runs e^β times as fast as that of SA."""
        if self.coupling is not None and len(x) > 1:
            β, offset = self.coupling
            self.unit = min(β * nearest_gap(x) - offset, LONGEST)

    def ahead(self) -> tuple[float, np.ndarray]:
        """The time until the end and until all save times, if nothing merges any more."""
        if self.name != "rescaled":
            return self.end - self.t, self.saves - self.t
        unit = math.exp(self.unit)
        return (self.end - self.s) * unit, (self.saves - self.s) * unit

    def rescaled(self, later: Any) -> Any:
        """s, some time from now."""
        return self.s + later * math.exp(-self.unit)

    def advance(self, later: float) -> None:
        self.t, self.s = self.t + later, self.rescaled(later)

    def share(self, later: float) -> float:
        """How much of the run is over some time from now, for its progress bar."""
        if self.name == "rescaled":
            return (self.rescaled(later) - self.start) / (self.end - self.start)
        return math.log1p(self.t + later - self.start) / math.log1p(self.end - self.start)


def _coupling(flow: Flow) -> tuple[float, float] | None:
    """β and what is taken from β(1 - c): 0, and for USA β less the unit of its clock."""
    coupling = flow.coupling_if_any()
    if coupling is None or not flow.normalization.confines or not float(coupling.beta) > 0:
        return None
    β = float(coupling.beta)
    return β, β - float(coupling.log_unit) if coupling.kind == "usa" else 0.0


def nearest_gap(x: np.ndarray) -> float:
    """1 - c for the closest two of unit vectors, without cancellation: half the squared distance."""
    from scipy.spatial import KDTree

    distance, _ = KDTree(x).query(x, k=2)
    return 0.5 * float(np.min(distance[:, 1])) ** 2
