"""Drivers: four ways to carry out a task, each a file with one function `run` from a `Task` to an `Outcome`."""

from collections.abc import Callable

from tokenfield.evolution.drivers import many, merging, single, traced
from tokenfield.evolution.outcome import Outcome
from tokenfield.evolution.task import Task


def driver_for(task: Task) -> Callable[[Task], Outcome]:
    """Many runs side by side, one that is traced, one whose tokens merge, or simply one."""
    if task.ensemble is not None:
        return many.run
    if task.traced:
        return traced.run
    return single.run if task.radius is None else merging.run
