"""Drivers: four ways to carry out a task, each a file with one function `run` from a `Task` to an `Outcome`."""

from collections.abc import Callable

from tokenfield.evolution.drivers import many, merging, single, traced
from tokenfield.evolution.outcome import Outcome
from tokenfield.evolution.task import Task


def driver_for(task: Task) -> Callable[[Task], Outcome]:
    """Runs whose tokens merge, many runs side by side, one that is traced, or simply one."""
    if task.radius is not None:
        return merging.run
    if task.ensemble is not None:
        return many.run
    return traced.run if task.traced else single.run
