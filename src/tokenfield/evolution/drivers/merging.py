r"""Runs that outlive metastable states: tokens that have met become one.

Tokens closer than a radius ε that approach each other move together for ever. Kept apart they cost: their contraction, at a rate
of order one, bounds the step of an explicit solver, while clusters drift at rates like $e^{-β}$. Replaced by one token at
their mean with their mass, at an error of O(ε²), nothing but the motion itself bounds the step, and t = 10³⁰ is some
hundreds of steps away.

The time of a merger is that at which the distance |x_i - x_j| of two tokens that approach each other (on the sphere the chord
between their directions) comes down to ε. So that it is as accurate as the tolerance says, errors of tokens are held small
against the distance to their nearest neighbour, not only against their length.

Two more things are needed to go that far. A token's own term in its sum is radial and moves nobody, but its rounding, 1e-16,
would: it is left out ("apart"). And a time of 10²⁰ cannot be advanced by 1: where the flow does not depend on time, a phase
between two mergers counts from its own beginning.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import diffrax as dfx
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from tokenfield import _checks as check
from tokenfield._compile import compiled
from tokenfield._interrupt import ctrl_c
from tokenfield._norms import sizes, unit
from tokenfield._types import Memory, Rows, Time
from tokenfield.errors import InputError
from tokenfield.evolution.clocks import Clock
from tokenfield.evolution.drivers.single import Company, Walked, walk
from tokenfield.evolution.motions.base import AbstractModified, AbstractMotion, Method, Pacing, State
from tokenfield.evolution.motions.particles import Particles
from tokenfield.evolution.observables import along
from tokenfield.evolution.outcome import Outcome
from tokenfield.evolution.problem import Plan
from tokenfield.evolution.step import Walker
from tokenfield.evolution.task import PAIRWISE, Task
from tokenfield.flow import Flow
from tokenfield.measures import Tokens
from tokenfield.mergers import Mergers
from tokenfield.progress import Progress
from tokenfield.status import Status

ROUNDING = 64
"""Round-off in the distance of two tokens, in units of the last digit of their coordinates, at most."""

SMALLEST = 32
"""Below so many tokens a smaller program saves nothing."""


def run(task: Task) -> Outcome:
    """Phase after phase between mergers, until the end or whatever ends the run."""
    refuse_flow(task.flow)
    return Phases(task).run()


class Merging(AbstractModified):
    """The particle equation of weighted tokens, some of which are only padding, watched for tokens that meet."""

    inner: Particles  # pyright: ignore[reportIncompatibleVariableOverride]
    live: Bool[Array, " n"]
    radius: Float[Array, ""]
    patience: Int[Array, ""]
    """How many tokens must have met before it is worth to merge them: of few tokens, the first two."""

    def rate(self, t: Time, y: Rows, memory: Memory) -> Any:
        return jnp.where(self.live[:, None], self.inner.rate(t, y, memory), 0.0)

    def measure(self, y: State) -> Tokens:
        return self.inner.measure(jnp.where(self.live[:, None], y, y[0]))

    @property
    def may_stop(self) -> str | None:
        return "inside" if len(self.live) <= PAIRWISE else "after"

    def method(self, solver: str | dfx.AbstractSolver, rtol: Array, atol: Array, pacing: Pacing) -> Method:
        """Errors small against distances, down to the radius: below it there is nothing to tell apart."""
        named, control = self.inner.method(solver, rtol, atol, pacing)
        if len(self.live) > PAIRWISE:
            return named, control
        least = jnp.maximum(jnp.minimum(atol, 0.01 * rtol * self.radius), 50 * jnp.finfo(atol.dtype).eps)
        inside = lambda c: c.controller if isinstance(c, dfx.ClipStepSizeController) else c
        finer = dataclasses.replace(inside(control), atol=least, size=Apart(self.live))
        return named, eqx.tree_at(inside, control, finer) if inside(control) is not control else finer

    def stop(self, t: Array, y: State) -> Int[Array, ""]:
        """MEETING where tokens have met that are to become one."""
        x, none = self._places(y), jnp.asarray(0)
        if len(x) > PAIRWISE:
            met = jnp.sum(_in_one_cell(x, self.live, self.radius) < self.radius)
        else:
            near = jnp.any(_closest(x, self.live) < self.radius)
            met = lax.cond(near, lambda: jnp.sum(self._approached(t, y) < self.radius), lambda: none)
        return jnp.where(met >= self.patience, Status.MEETING, Status.RUNNING)

    def _places(self, y: State) -> Float[Array, "n d"]:
        return unit(y) if self.flow.normalization.confines else y

    def _approached(self, t: Array, y: State) -> Float[Array, " n"]:
        """The distance of every live token to the nearest other that comes no farther."""
        x, v, index = self._places(y), self.rate(t, y, None), jnp.arange(len(y))

        def row(i):
            Δ, approaches = x[i] - x, jnp.sum((x[i] - x) * (v[i] - v), axis=1) <= 0
            gap = jnp.where(self.live & (index != i) & approaches, jnp.linalg.norm(Δ, axis=1), jnp.inf)
            return jnp.where(self.live[i], jnp.min(gap), jnp.inf)

        return lax.map(row, index)


class Apart(eqx.Module):
    """The size against which the error of a token is small: its length, or its distance to the nearest other token."""

    live: Bool[Array, " n"]

    def __call__(self, y: Rows) -> Any:
        return jnp.minimum(sizes(y), _closest(y, self.live))


def _closest(x: Rows, live: Bool[Array, " n"]) -> Float[Array, " n"]:
    """The distance of every live token to the nearest other."""
    x = x - x[0]  # distances do not notice, round-off does: groups that are about to merge are where it matters
    squares, index = jnp.sum(x**2, axis=1), jnp.arange(len(x))

    def row(i):
        gap = jnp.where(live & (index != i), squares[i] + squares - 2 * (x @ x[i]), jnp.inf)
        j = jnp.argmin(gap)
        return jnp.where(live[i] & jnp.isfinite(gap[j]), jnp.linalg.norm(x[i] - x[j]), jnp.inf)

    return jax.lax.map(row, index, batch_size=256)


def _in_one_cell(x: Float[Array, "n d"], live: Bool[Array, " n"], radius: Array) -> Float[Array, " n"]:
    """The distance of live tokens to one other in the same cell, of side 2ε; infinite where a token is alone in its cell."""
    cell = jnp.floor(x / (2 * radius)).astype(jnp.int32)
    mixed = jnp.sum(cell.astype(jnp.uint32) * jnp.asarray(_ODD[: x.shape[1]]), axis=1, dtype=jnp.uint32)
    order = jnp.argsort(mixed)
    here, there = order[1:], order[:-1]
    same = (mixed[here] == mixed[there]) & live[here] & live[there]
    gap = jnp.where(same, jnp.linalg.norm(x[here] - x[there], axis=1), jnp.inf)
    return jnp.append(gap, jnp.inf)


_ODD = np.random.default_rng(7).integers(2**31, size=4096).astype(np.uint32) * 2 + 1
"""Multipliers that mix the coordinates of a cell into one number."""


class Ledger:
    """Who is in whom: for every original token the living one that it is part of, and all mergers so far."""

    def __init__(self, n: int):
        self.place = np.arange(n)
        self.first = np.arange(n)
        self.events: list[tuple[float, int, int, int]] = []

    def merge(self, t: float, groups: np.ndarray) -> None:
        """Living token i is now part of living token groups[i]."""
        count = int(groups.max()) + 1
        first = np.full(count, len(self.place))
        np.minimum.at(first, groups, self.first)
        for i in np.argsort(self.first):
            if self.first[i] != first[groups[i]]:
                left = len(self.place) - len(self.events) - 1
                self.events.append((t, int(first[groups[i]]), int(self.first[i]), left))
        self.place, self.first = groups[self.place], first

    def mergers(self) -> Mergers:
        t, into, gone, left = (
            (np.array(column) for column in zip(*self.events, strict=True)) if self.events else [[]] * 4
        )
        whole = lambda values: np.asarray(values, np.int64)
        return Mergers(np.asarray(t, float), whole(into), whole(gone), whole(left), len(self.place))


def groups_of(x: np.ndarray, v: np.ndarray, w: np.ndarray, radius: float) -> np.ndarray:
    """Which tokens become one: heavy ones first, each with those closer than the radius that come no farther. A group stays
    within the radius of its centre, so that chains of neighbours do not collapse."""
    from scipy.spatial import KDTree

    if len(x) == 1:
        return np.zeros(1, int)
    tree, label = KDTree(x), np.arange(len(x))
    met = tree.query(x, k=2)[0][:, 1] <= radius
    free = met.copy()
    for i in np.argsort(-w, kind="stable"):
        if free[i]:
            near = np.array(tree.query_ball_point(x[i], radius))
            near = near[free[near] & (np.sum((x[near] - x[i]) * (v[near] - v[i]), axis=1) <= 0)]
            label[near], free[near] = i, False
    return np.unique(label, return_inverse=True)[1]


def joined(x: np.ndarray, w: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places and weights of the groups: mean and sum."""
    mass = np.bincount(groups, w)
    mean = np.stack([np.bincount(groups, w * column) for column in x.T], axis=1) / mass[:, None]
    return mean.astype(x.dtype), mass.astype(w.dtype)


class Phases:
    """A run with mergers: phases between them, one problem each."""

    def __init__(self, task: Task):
        self.task, self.flow, self.start, self.timeless = task, task.flow, task.start, task.flow.timeless
        ends = np.array([float(task.plan.t0), float(task.plan.t1)])
        self.clock = Clock(task.clock, task.flow, ends, np.asarray(task.saves), np.asarray(task.start.x))
        self.ledger = Ledger(self.start.n)
        self.times: list[np.ndarray] = []
        self.rescaled: list[np.ndarray] = []
        self.states: list[np.ndarray] = []
        self.steps = self.accepted = self.saved = 0
        self.description = ""

    def run(self) -> Outcome:
        """All phases."""
        radius, dt, found = self.radius, 0.0, self.radius
        x, w, capacity = np.asarray(self.start.x), np.asarray(self.start.w), self.start.n
        x, w = self._merge(x, w, np.zeros_like(x), 1e-12)  # who begins in one place
        with ctrl_c() as interrupted, Progress(self.task.progress, "evolving") as bar:
            while True:
                capacity, before = fewer(capacity, len(w)), len(w)
                motion = self._motion(x, w, capacity, found)
                company = Company(
                    self.task.max_steps - self.steps, interrupted, self._reporter(bar, before), self._watcher()
                )
                phase = walk(self._plan(motion, dt), motion, self._saves(motion), company)
                walker, dt = phase.walker, float(phase.walker.tnext) - float(phase.walker.t)
                y, v = (np.asarray(part)[:before] for part in _here(motion, walker.t, walker.y))
                self._collect(phase)
                if phase.status is Status.MEETING:
                    x, w = self._merge(y, w, v, radius)
                    found = radius if len(w) < before else 0.5 * found  # of many, some came close without approaching
                elif phase.status in (Status.STALLED, Status.BLOW_UP) and self.timeless and int(walker.accepted) > 1:
                    x = y  # the clock, not the motion, has no finer step: count anew
                else:
                    return self._outcome(phase.status, y)

    @property
    def radius(self) -> float:
        assert self.task.radius is not None
        return self.task.radius

    def _merge(self, x: np.ndarray, w: np.ndarray, v: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
        """Merge who has met. Where they are was found to round-off, and so is the radius."""
        groups = groups_of(x, v, w, radius + ROUNDING * float(np.finfo(x.dtype).eps) * float(np.max(np.abs(x))))
        if groups.max() + 1 == len(w):
            return x, w
        self.ledger.merge(self.clock.t, groups)
        x, w = joined(x, w, groups)
        x = x / np.linalg.norm(x, axis=1, keepdims=True) if self.flow.normalization.confines else x
        self.clock.merged(x)
        return x, w

    def _motion(self, x: np.ndarray, w: np.ndarray, capacity: int, radius: float) -> Merging:
        """The tokens that live, filled up to the capacity with weightless copies of the first."""
        extra = capacity - len(w)
        places = check.on_device(np.concatenate([x, np.broadcast_to(x[:1], (extra, x.shape[1]))]))
        mass = check.on_device(np.concatenate([w, np.zeros(extra, w.dtype)]))
        start = eqx.tree_at(lambda mu: (mu.x, mu.w), self.start, (places, mass))
        sums = self.flow.summation(start, None, self.task.summation, self.task.tolerance)
        self.description = self.description or sums.name
        if self.flow.own_term_is_radial:
            sums = sums.without_own_term()
        live, patience = (
            check.on_device(np.arange(capacity) < len(w)),
            check.on_device(np.asarray(1 if capacity <= PAIRWISE else max(1, len(w) // 64))),
        )
        parts = Particles(self.flow, start, sums), live, check.on_device(np.asarray(radius, x.dtype)), patience
        return Merging(*parts)  # pyright: ignore[reportCallIssue]

    @property
    def _base(self) -> float:
        """When a phase begins in its own time: at 0 where the flow allows, since 10²⁰ + 1 is 10²⁰."""
        return 0.0 if self.timeless else self.clock.t

    def _plan(self, motion: AbstractMotion, dt: float) -> Plan:
        """The phase from now on, counted from its beginning where the flow allows."""
        number = lambda value: check.on_device(np.asarray(value, self.start.dtype))
        end, _ = self.clock.ahead()
        return dataclasses.replace(
            self.task.plan,
            t0=number(self._base),
            t1=number(self._base + end),
            elapsed=number(self.clock.t - self._base),
            dt0=number(dt),
            observe=None,
        )

    def _saves(self, motion: AbstractMotion) -> np.ndarray:
        """The save times ahead, in the phase's own time."""
        _, saves = self.clock.ahead()
        return (self._base + np.maximum(saves[self.saved :], 0.0)).astype(self.start.dtype)

    def _collect(self, phase: Walked) -> None:
        """Saved states of this phase, for all original tokens; and the clock goes on."""
        walker, count = phase.walker, len(phase.times)
        self.steps, self.accepted = self.steps + int(walker.steps), self.accepted + int(walker.accepted)
        if count:
            later = np.maximum(self.clock.ahead()[1][self.saved : self.saved + count], 0.0)
            self._keep(later, np.asarray(phase.states.x))
        self.saved += count
        self.clock.advance(self._later(walker))

    def _keep(self, later: np.ndarray, x: np.ndarray) -> None:
        """States of the living tokens, some time from now."""
        self.times.append(self.clock.t + later)
        self.rescaled.append(self.clock.rescaled(later))
        self.states.append(x[:, self.ledger.place])

    def _later(self, walker: Walker) -> float:
        """How far a walker is from where its phase began."""
        return float(walker.t) - self._base

    def _outcome(self, status: Status, y: np.ndarray) -> Outcome:
        """All original tokens at all saved times. A run that ended between two of them adds the state that it reached."""
        if status is not Status.COMPLETED and (not self.times or self.times[-1][-1] < self.clock.t):
            self._keep(np.zeros(1), y[None])
        x = np.concatenate(self.states)
        w = np.broadcast_to(np.asarray(self.start.w), x.shape[:2])
        states = eqx.tree_at(lambda mu: (mu.x, mu.w), self.start, (check.on_device(x), check.on_device(w)))
        observe = self.task.plan.observe
        return Outcome(
            times=np.concatenate(self.times),
            states=states if observe is None else jax.tree.map(lambda leaf: leaf[-1:], states),
            observed=None if observe is None else along(observe, states),
            reached=self.clock.t,
            code=int(status),
            steps=self.steps,
            accepted=self.accepted,
            summation=self.description,
            mergers=self.ledger.mergers(),
            rescaled=None if self.clock.coupling is None else np.concatenate(self.rescaled),
        )

    def _reporter(self, bar: Progress, groups: int) -> Callable[[Walker], None]:
        def report(walker: Walker) -> None:
            later, steps = self._later(walker), self.steps + int(walker.steps)
            bar.update(self.clock.share(later), f"t = {self.clock.t + later:.4g}, {groups} groups, {steps} steps")

        return report

    def _watcher(self) -> Callable[[float, Any], None] | None:
        watch, place, shift = self.task.watch, self.ledger.place, self.clock.t - self._base
        if watch is None:
            return None
        every = lambda mu: eqx.tree_at(
            lambda nu: (nu.x, nu.w), mu, (check.on_device(np.asarray(mu.x)[place]), self.start.w)
        )
        seen = self.task.plan.observe or (lambda mu: mu)
        return lambda t, mu: watch(shift + t, seen(every(mu)))


@compiled
def _here(motion: Merging, t: Array, y: State) -> tuple[State, State]:
    """Where tokens are, and how they move."""
    return motion.measure(y).x, motion.rate(t, y, None)


def fewer(capacity: int, count: int) -> int:
    """Places for `count` tokens: as many as before, until a quarter of them (of many, a half) would do, or every pair can be
    looked at."""
    enough = capacity // 4 if capacity <= 4096 else capacity // 2
    enough = max(enough, PAIRWISE) if capacity > PAIRWISE else enough
    if count > enough or capacity <= SMALLEST:
        return capacity
    return max(SMALLEST // 2, 1 << math.ceil(math.log2(count)))


def refuse_flow(flow: Flow) -> None:
    """Tokens that have met must stay together, and be told apart by nothing but their place."""
    if not flow.normalization.keeps_together:
        raise InputError(
            f"Coalescing is for tokens on the sphere (PostLN, NGPT, SqrtScaling) and for Rescaled coordinates, where tokens "
            f"that meet stay together; under {type(flow.normalization).__name__} they may part again. Leave `coalesce` out."
        )
    if flow.reweighting is not None:
        raise InputError(
            "Tokens cannot coalesce here: reweighting gives every token a weight of its own. Leave `coalesce` out."
        )
    if not flow.attention.mean_field:
        raise InputError(
            f"Tokens cannot coalesce under {type(flow.attention).__name__} attention, which tells them apart by more than their "
            "place (an attention of your own that does not says so: mean_field = True). Leave `coalesce` out."
        )
