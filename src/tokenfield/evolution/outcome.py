"""What every driver returns."""

from typing import Any, NamedTuple

from tokenfield.mergers import Mergers


class Outcome(NamedTuple):
    """What came of a task: states at saved times, or observables of them, and how the run ended. Arrays of an ensemble have the
    batch's axes in front."""

    times: Any
    states: Any
    reached: Any
    """The time at which the run ended."""
    code: Any
    """How it ended: a `Status`."""
    steps: Any
    accepted: Any
    summation: str
    """How sums were computed."""
    accuracy: float | None = None
    """How far velocities at the end are from dense sums in float64, where that is worth saying."""
    mergers: Mergers | None = None
    rescaled: Any = None
    """The saved times in the rescaled clock."""
    observed: Any = None
    """Observables at the saved times, by name, where they were kept instead of states; `states` is then the last one."""
    seeds: list[int] | None = None
    """The seeds of the noise of an ensemble's members."""
