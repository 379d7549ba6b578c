"""One run, a few steps at a time.

Diffrax supplies the Runge–Kutta steps, their interpolants and the PID control; this loop strings them together so that
between two pieces Python can show progress, hand over states, and stop on Ctrl-C with everything that was computed.
It has no host callbacks, so that JAX can keep the compiled program in its persistent cache (a whole `diffeqsolve`
cannot be kept there). `traced.py` runs the same problem as one Diffrax solve, for gradients and batches.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from tokenfield import _checks as check
from tokenfield._compile import compiled
from tokenfield._interrupt import ctrl_c
from tokenfield._types import AnyArray
from tokenfield.evolution.accuracy import reached_accuracy
from tokenfield.evolution.drivers.pieces import Album, Stride, ending, one_after_another, pages
from tokenfield.evolution.motions.base import AbstractMotion, State, size_of
from tokenfield.evolution.outcome import Outcome
from tokenfield.evolution.problem import Plan, Problem, explodes
from tokenfield.evolution.step import (
    Trail,
    Walker,
    arrive,
    attempt,
    due,
    has_room,
    locate,
    no_trail,
    noted,
    overfull,
    place_of_stop,
    snapshot,
    start,
)
from tokenfield.evolution.task import Task
from tokenfield.measures import AbstractMeasure
from tokenfield.progress import Progress
from tokenfield.status import Status

ALBUM = 32e6
"""Bytes of saved states that are kept on the device before they are handed to the host."""


def run(task: Task) -> Outcome:
    """Walk to the end. A density that its modes no longer resolve goes on with more, from where it stands."""
    t0, t1 = float(task.plan.t0), float(task.plan.t1)
    motion, plan, saves = task.motion(), task.plan, np.asarray(task.saves)
    parts: list[Walked] = []
    with ctrl_c() as interrupted, Progress(task.progress, "evolving") as bar:
        report = lambda walker: bar.update(
            (float(walker.t) - t0) / (t1 - t0), f"t = {float(walker.t):.4g}, {int(walker.steps)} steps"
        )
        while True:
            left = task.max_steps - sum(part.steps for part in parts)
            part = walk(plan, motion, saves, Company(left, interrupted, report, task.watch))
            parts.append(part)
            finer = motion.finer(part.walker.y) if part.status is Status.UNRESOLVED and task.refine else None
            if finer is None or part.steps >= left or not part.reached < t1:
                break
            motion, plan = finer, dataclasses.replace(plan, t0=part.walker.t)
            saves = saves[len(part.times) :]
    times, states = part.with_end(plan, motion)
    parts[-1] = part._replace(times=times, states=states)
    kept = [part for part in parts if len(part.times)]
    times, states = np.concatenate([part.times for part in kept]), one_after_another([part.states for part in kept])
    observed = None
    if plan.observe is not None:
        last = lambda leaf: check.on_device(np.asarray(leaf)[None])
        observed, states = states, jax.tree.map(last, _measure(motion, part.walker.y))
    return Outcome(
        times=times,
        states=states,
        reached=part.walker.t,
        code=int(part.status),
        steps=sum(part.steps for part in parts),
        accepted=sum(int(part.walker.accepted) for part in parts),
        summation=motion.description,
        accuracy=reached_accuracy(motion, states.take(-1), times[-1]),
        observed=observed,
    )


class Company(NamedTuple):
    """Who goes along on a walk: the limit of its steps, whether someone has asked to stop, a progress bar, a watcher."""

    max_steps: int
    interrupted: Callable[[], bool]
    report: Callable[[Walker], None]
    watch: Callable[[float, Any], None] | None = None


class Walked(NamedTuple):
    """A walk that is over: where it stands and why, and what was saved on the way."""

    walker: Walker
    status: Status
    times: np.ndarray
    states: Any
    trail: Trail | None
    """The last steps, where the motion wants to look back."""

    @property
    def steps(self) -> int:
        return int(self.walker.steps)

    @property
    def reached(self) -> float:
        return float(self.walker.t)

    def with_end(self, plan: Plan, motion: AbstractMotion) -> tuple[np.ndarray, Any]:
        """Times and what was kept; a walk that ended between two save times adds the state that it reached."""
        if self.status is Status.COMPLETED or (len(self.times) and self.times[-1] >= self.reached):
            return self.times, self.states
        last = jax.tree.map(lambda leaf: np.asarray(leaf)[None], _kept(plan, motion, self.walker.y))
        times = np.append(self.times, np.asarray(self.walker.t))
        return times, last if self.states is None else one_after_another([self.states, last])


def walk(plan: Plan, motion: AbstractMotion, saves: np.ndarray, company: Company) -> Walked:
    """Walk to the end in pieces, whatever the end may be. States saved on the way are collected album by album."""
    album = Album(saves, pages(*size_of(motion), ALBUM))
    fresh, (walker, kept) = True, _nowhere((plan, motion, album.ts))
    steps, stride = 0, Stride()
    while fresh or not (int(walker.status) != Status.RUNNING or steps >= company.max_steps or company.interrupted()):
        with stride:
            limit = min(steps + stride.piece, company.max_steps)
            fixed = plan, motion, album.ts, {"fresh": np.asarray(fresh), "limit": np.asarray(limit)}
            walker, kept = jax.block_until_ready(_advance(fixed, walker, kept))
            stride.did = int(walker.steps) - steps
        fresh, steps = False, int(walker.steps)
        walker = album.look(walker, kept.states, company.watch)
        company.report(walker)
    album.close(walker, kept.states)
    status = ending(int(walker.status), steps >= company.max_steps)
    if status is Status.STALLED and _runs_away(plan, motion, walker):
        status = Status.BLOW_UP
    return Walked(walker, status, saves[: album.kept], album.states(), kept.trail)


def _runs_away(plan: Plan, motion: AbstractMotion, walker: Walker) -> bool:
    elapsed = np.asarray(walker.t) - np.asarray(plan.t0)
    return bool(explodes(motion, elapsed, walker.t, walker.y, walker.memory))


# The compiled program. What is fixed comes first; the memory of the rest is given to the results.


class Kept(NamedTuple):
    """What a walk leaves on its way: states at save times, in an album, and the last steps, if anybody will ask for them."""

    states: Any
    trail: Trail | None


@compiled
def _begin(fixed: tuple[Plan, AbstractMotion, AnyArray]) -> tuple[Walker, Kept]:
    """The beginning of a walk: a walker, and an album with the start, if it is to be saved."""
    plan, motion, ts = fixed
    saved = lambda leaf: jnp.where((ts[:-1] <= plan.t0).reshape(-1, *(1,) * leaf.ndim), leaf, jnp.zeros_like(leaf))
    p = plan.problem(motion, ts)
    return start(p), Kept(jax.tree.map(saved, p.kept(motion.first)), no_trail(p))


def _nowhere(fixed: tuple[Plan, AbstractMotion, AnyArray]) -> tuple[Walker, Kept]:
    """What has the shapes of a beginning: a walk that has not begun is one with other numbers, not another program."""
    shapes = eqx.filter_eval_shape(_begin, fixed)
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)


@compiled(donate="all-except-first")
def _advance(
    fixed: tuple[Plan, AbstractMotion, AnyArray, dict[str, AnyArray]], walker: Walker, kept: Kept
) -> tuple[Walker, Kept]:
    """Steps until the end, the step limit, a full album, the stop condition, or failure; from the beginning, if fresh."""
    plan, motion, ts, now = fixed
    walk = lax.cond(now["fresh"], lambda: _begin((plan, motion, ts)), lambda: (walker, kept))
    p = plan.problem(motion, ts)

    def goes_on(walk: tuple[Walker, Kept]) -> Array:
        walker, _ = walk
        return (walker.status == Status.RUNNING) & (walker.steps < now["limit"]) & has_room(ts, walker.saved)

    return lax.while_loop(goes_on, lambda walk: _step(p, *walk), walk)


def _step(p: Problem, now: Walker, kept: Kept) -> tuple[Walker, Kept]:
    step = attempt(p, now)
    if p.may_stop == "inside":
        found = lax.cond(step.stopped, lambda: locate(p, now, step), lambda: place_of_stop(step))
        step = eqx.tree_at(place_of_stop, step, found)

    def save(pages: tuple[Array, Any]) -> tuple[Array, Any]:
        saved, album = pages
        write = lambda page, leaf: page.at[saved].set(leaf)
        return saved + 1, jax.tree.map(write, album, p.kept(snapshot(p, now, step, saved)))

    saved, album = lax.while_loop(lambda pages: due(p, step, pages[0]), save, (now.saved, kept.states))
    full = overfull(p, step, saved)
    again = lambda: eqx.tree_at(lambda w: w.saved, now, saved)
    walker = lax.cond(full, again, lambda: arrive(p, now, step, saved))
    return walker, Kept(album, noted(p, now, step, full, kept.trail))


@compiled
def _kept(plan: Plan, motion: AbstractMotion, y: State) -> Any:
    return plan.problem(motion, jnp.zeros(1)).kept(y)


@compiled
def _measure(motion: AbstractMotion, y: State) -> AbstractMeasure:
    return motion.measure(y)
