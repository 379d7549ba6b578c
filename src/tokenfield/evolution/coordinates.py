"""In which coordinates a run is computed: those of its tokens, or of their span.

n tokens in R^d, n < d, span at most n dimensions, which a flow that commutes with rotations never leaves: a run moves n × n
numbers instead of n × d. A change of coordinates is a pair (into, back) around the drivers, whichever of them runs.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from tokenfield import _checks as check
from tokenfield.errors import InputError
from tokenfield.evolution.outcome import Outcome
from tokenfield.evolution.task import Task
from tokenfield.evolution.until import sees_axes
from tokenfield.measures import Tokens


class Coordinates(eqx.Module):
    """The coordinates that tokens came in: nothing changes."""

    def into(self, task: Task) -> Task:
        """The task in these coordinates."""
        return task

    def back(self, outcome: Outcome) -> Outcome:
        """What came of it, in the coordinates that tokens came in."""
        return outcome


class Span(Coordinates):
    """Coordinates in an orthonormal basis B of the tokens' span, x = y B; of an ensemble, one basis per start.

    >>> x = np.array([[3.0, 0.0, 4.0], [0.0, 0.0, 1.0]])
    >>> span = Span(x)
    >>> span.y.shape, bool(np.allclose(span.y @ span.basis, x))
    ((2, 2), True)
    """

    y: Float[np.ndarray, "*batch n r"]
    basis: Float[np.ndarray, "*batch r d"]
    starts: np.ndarray | None = None
    """Of an ensemble that does not consist of all pairs, the start of each member."""

    def __init__(self, x: Any, starts: np.ndarray | None = None):
        self.starts = starts
        basis, triangle = np.linalg.qr(np.swapaxes(np.asarray(x), -1, -2))
        self.basis, self.y = np.swapaxes(basis, -1, -2), np.swapaxes(triangle, -1, -2)

    def into(self, task: Task) -> Task:
        plan = task.plan
        if sees_axes(plan.until):
            plan = dataclasses.replace(plan, until=Turned(plan.until, check.on_device(self.basis)))
        if plan.observe is not None and plan.observe.sees_axes:
            plan = dataclasses.replace(plan, observe=Seen(plan.observe, check.on_device(self.basis)))
        watch = task.watch if task.watch is None or plan.observe is not None else self._watching(task.watch)
        start = task.start.with_points(self.y)
        return dataclasses.replace(task, start=start, plan=plan, watch=watch, summation="dense")

    def back(self, outcome: Outcome) -> Outcome:
        """`basis` has the batch's last axis in front, where starts differ, and none for time."""
        basis = self.basis if self.basis.ndim == 2 or self.starts is None else self.basis[self.starts]
        basis = basis if basis.ndim == 2 else basis[:, None]
        states = outcome.states.with_points(np.asarray(outcome.states.x) @ basis)
        return outcome._replace(states=states, summation="span")

    def _watching(self, watch: Callable[[float, Any], None]) -> Callable[[float, Any], None]:
        return lambda t, mu: watch(t, mu.with_points(np.asarray(mu.x) @ self.basis))


class Seen(eqx.Module):
    """Observables of tokens in the coordinates that they came in."""

    observe: Callable[[Tokens], Any]
    basis: Float[Array, "r d"]

    def __call__(self, mu: Tokens) -> Any:
        return self.observe(mu.with_points(mu.x @ self.basis))


class Turned(eqx.Module):
    """A stop condition that looks at tokens in the coordinates that they came in."""

    until: Callable[[Array, Tokens], Any]
    basis: Float[Array, "r d"]

    def __call__(self, t: Float[Array, ""], mu: Tokens) -> Any:
        return self.until(t, mu.with_points(mu.x @ self.basis))


def coordinates_for(task: Task) -> Coordinates:
    """The tokens' span where it is smaller than their space and nothing speaks against it; else their own coordinates."""
    if task.summation not in (None, "span"):
        return Coordinates()
    reason = _why_no_span(task)
    if reason is None:
        e = task.ensemble
        return Span(task.start.x, None if e is None or e.every_pair else e.start_of)
    if task.summation == "span":
        raise InputError(f"Summation 'span' does not serve here: {reason}. Leave `summation` out to have one chosen.")
    return Coordinates()


def _why_no_span(task: Task) -> str | None:
    """Why the tokens' span does not serve; None where it does."""
    if "summation" not in task.kind.options or task.start.n >= task.start.d or not task.model.rotates:
        return (
            "it needs fewer tokens than dimensions, and a flow that commutes with rotations (numbers for Q, K, V and A, "
            "no MLP, noise or gain)"
        )
    if check.traced(task.start):
        return "it needs to know where tokens are"
    looks = [sees_axes(task.plan.until), task.plan.observe is not None and task.plan.observe.sees_axes]
    if task.ensemble is not None and any(looks):
        return (
            "members of an ensemble have bases of their own, and `until` or `observe` may see axes (functions that do not "
            "say so: `sees_axes = False`)"
        )
    return None
