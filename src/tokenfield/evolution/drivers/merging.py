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

Under a causal mask tokens that have met stay together where they are neighbours in position and attention is a plain sum: the later
one sees one term more, its own, k(x, x) V x, which is radial. Everybody before them sees neither, everybody after them both. The
first, which does not see the others, leads: they come to it, and there the group is.

Many tokens are merged in bulk, some steps after they have met. Each has the date of its own, by the steps in between.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from tokenfield import _checks as check
from tokenfield._compile import compiled
from tokenfield._interrupt import ctrl_c
from tokenfield.attention.wrappers import positions
from tokenfield.errors import InputError
from tokenfield.evolution.clocks import Clock
from tokenfield.evolution.drivers.groups import (
    MOST,
    Ledger,
    Met,
    companies,
    dated,
    first_neighbours,
    joined,
    leaders_of,
)
from tokenfield.evolution.drivers.meeting import Merging
from tokenfield.evolution.drivers.single import Company, Walked, walk
from tokenfield.evolution.motions.base import State
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
    """Phase after phase between mergers, until the end or whatever ends the run; of an ensemble, one member after another, since
    no two have the same phases. Members share their programs."""
    refuse_flow(task.model)
    with ctrl_c() as interrupted, Progress(task.progress, "evolving") as bar:
        if task.ensemble is None:
            return Phases(task, interrupted, bar.update).run()
        members, total = [], len(task.ensemble)
        for k in range(total):
            flow, start = task.ensemble.member(task.flow, task.start, k)
            one = dataclasses.replace(task, flow=flow, start=start, ensemble=None)
            report = lambda share, text, k=k: bar.update((k + share) / total, f"member {k + 1} of {total}: {text}")
            members.append(Phases(one, interrupted, report).run())
    return _side_by_side(task, members)


def _side_by_side(task: Task, members: list[Outcome]) -> Outcome:
    """What came of all members, in the shape of the batch. One that ended early holds its last state."""
    e, count = task.ensemble, len(task.saves)
    assert e is not None

    def held(values: Any) -> np.ndarray:
        array = np.asarray(values)[:count]
        return np.concatenate([array, np.repeat(array[-1:], count - len(array), axis=0)])

    stack = lambda trees: e.in_batch(jax.tree.map(lambda *leaves: np.stack(leaves), *trees))
    column = lambda name: stack([getattr(one, name) for one in members])
    along_time = lambda name: stack([jax.tree.map(held, getattr(one, name)) for one in members])
    real = lambda tree: jax.tree.map(lambda leaf: leaf.astype(task.start.dtype), tree)
    observed = members[0].observed is not None
    return Outcome(
        times=real(along_time("times")),
        states=column("states") if observed else along_time("states"),
        observed=along_time("observed") if observed else None,
        reached=real(column("reached")),
        **{name: column(name) for name in ("code", "steps", "accepted")},
        summation=" and ".join(sorted({one.summation for one in members})),
        mergers=Mergers.stacked([one.mergers for one in members if one.mergers is not None], e.batch),
        rescaled=None if any(one.rescaled is None for one in members) else real(along_time("rescaled")),
    )


class Living(NamedTuple):
    """The tokens that are left: places, weights and, where only neighbours may become one, positions."""

    x: np.ndarray
    w: np.ndarray
    s: np.ndarray | None

    @property
    def n(self) -> int:
        return len(self.w)


class Phases:
    """A run with mergers: phases between them, one problem each."""

    def __init__(self, task: Task, interrupted: Callable[[], bool], report: Callable[[float, str], None]):
        self.task, self.flow, self.start, self.timeless = task, task.flow, task.start, task.flow.timeless
        self.interrupted, self.report = interrupted, report
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
        tokens, capacity = Living(np.asarray(self.start.x), np.asarray(self.start.w), self._positions()), self.start.n
        tokens = self._merge(tokens, np.zeros_like(tokens.x), 1e-12, None)  # who begins in one place
        if self.interrupted():  # before it began: a member of an ensemble
            return self._outcome(Status.INTERRUPTED, tokens.x)
        while True:
            capacity, before = fewer(capacity, tokens.n), tokens.n
            motion = self._motion(tokens, capacity, found)
            left = self.task.max_steps - self.steps
            company = Company(left, self.interrupted, self._reporter(before), self._watcher())
            phase = walk(self._plan(dt), motion, self._saves(), company)
            walker, dt = phase.walker, float(phase.walker.tnext) - float(phase.walker.t)
            y, v = (np.asarray(part)[:before] for part in _here(motion, walker.t, walker.y))
            tokens = tokens._replace(x=y)
            if phase.status is Status.MEETING:
                tokens = self._merge(tokens, v, radius, phase)
                found = radius if tokens.n < before else 0.5 * found  # of many, some came close without approaching
            else:
                self._collect(phase, tokens, None)
                ended = phase.status not in (Status.STALLED, Status.BLOW_UP) or not self.timeless
                if ended or int(walker.accepted) <= 1:  # else the clock, not the motion, has no finer step: count anew
                    return self._outcome(phase.status, y)

    @property
    def radius(self) -> float:
        assert self.task.radius is not None
        return self.task.radius

    def _positions(self) -> np.ndarray | None:
        """The positions of tokens, where they matter: all different, so that it is clear who sees whom."""
        if self.flow.attention.mean_field:
            return None
        s = np.asarray(positions(self.start))
        if len(np.unique(s)) < len(s):
            raise InputError(
                "Under a causal mask tokens become one where they are neighbours in position, and here some share theirs. Give "
                "every token a position of its own, or leave `coalesce` out."
            )
        return s

    def _merge(self, tokens: Living, v: np.ndarray, radius: float, phase: Walked | None) -> Living:
        """Merge who has met, and go on from there. Where they are was found to round-off, and so is the radius."""
        x = tokens.x
        wide = radius + ROUNDING * float(np.finfo(x.dtype).eps) * float(np.max(np.abs(x)))
        met = self._met(tokens, v, wide, phase)
        if phase is not None:
            self._collect(phase, tokens, met)
        if len(met.pairs) == 0:
            return tokens
        self.ledger.merge(met)
        tokens = self._joined(tokens, met.groups())
        self.clock.merged(tokens.x)
        return tokens

    def _joined(self, tokens: Living, groups: np.ndarray) -> Living:
        """The groups: at their mean, or where the first is, which does not feel the others."""
        (x, w), s = joined(tokens.x, tokens.w, groups), tokens.s
        if s is None:
            return Living(self._placed(x), w, None)
        order = np.argsort(s, kind="stable")
        first = order[np.unique(groups[order], return_index=True)[1]]
        return Living(tokens.x[first], w, s[first])

    def _placed(self, y: np.ndarray) -> np.ndarray:
        """The places of tokens, on the sphere where they live there."""
        return y / np.linalg.norm(y, axis=-1, keepdims=True) if self.flow.normalization.confines else y

    def _met(self, tokens: Living, v: np.ndarray, radius: float, phase: Walked | None) -> Met:
        """Who met whom when: now, where the phase ended there, or during its last steps."""
        x, w, s = tokens
        lead = lambda who: leaders_of(x[who], v[who], w[who], radius)
        everyone = np.arange(tokens.n)
        if phase is None or phase.trail is None:
            now = self.clock.t if phase is None else self.clock.t + self._later(phase.walker)
            return Met.at(now, lead(everyone) if s is None else first_neighbours(x, v, s, radius))
        if s is None:
            company, leader = companies(x, v, radius), everyone.copy()
            large = np.flatnonzero(np.bincount(company)[company] > MOST)
            leader[large] = large[lead(large)]
        else:
            company, leader = everyone, first_neighbours(x, v, s, radius)
        met = dated(phase.trail, company, leader, w, (radius, self._placed))
        return met._replace(dates=self.clock.t - self._base + met.dates)

    def _motion(self, tokens: Living, capacity: int, radius: float) -> Merging:
        """The tokens that live, filled up to the capacity with weightless copies of the first, last in position."""
        (x, w, s), extra = tokens, capacity - tokens.n
        filled = lambda array, value: np.concatenate([array, np.broadcast_to(value, (extra, *array.shape[1:]))])
        number = lambda value, dtype=None: check.on_device(np.asarray(value, dtype))
        places, mass = number(filled(x, x[:1])), number(filled(w, np.zeros((), w.dtype)))
        start = Tokens.unchecked(places, mass, None if s is None else number(filled(s, s.max())))
        sums = self.flow.summation(start, None, self.task.summation, self.task.tolerance)
        self.description = self.description or sums.name
        if self.flow.own_term_is_radial:
            sums = sums.without_own_term()
        return Merging(  # pyright: ignore[reportCallIssue]
            inner=Particles(self.flow, start, sums),
            live=number(np.arange(capacity) < len(w)),
            radius=number(radius, x.dtype),
            patience=number(1 if capacity <= PAIRWISE else max(1, len(w) // 64)),
            order=None if s is None else number(np.argsort(filled(s, np.inf), kind="stable")),
        )

    @property
    def _base(self) -> float:
        """When a phase begins in its own time: at 0 where the flow allows, since 10²⁰ + 1 is 10²⁰."""
        return 0.0 if self.timeless else self.clock.t

    def _plan(self, dt: float) -> Plan:
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

    def _saves(self) -> np.ndarray:
        """The save times ahead, in the phase's own time."""
        _, saves = self.clock.ahead()
        return (self._base + np.maximum(saves[self.saved :], 0.0)).astype(self.start.dtype)

    def _collect(self, phase: Walked, tokens: Living, met: Met | None) -> None:
        """Saved states of this phase, for all original tokens; and the clock goes on."""
        walker, count = phase.walker, len(phase.times)
        self.steps, self.accepted = self.steps + int(walker.steps), self.accepted + int(walker.accepted)
        if count:
            later = np.maximum(self.clock.ahead()[1][self.saved : self.saved + count], 0.0)
            x = np.array(phase.states.x)[:, : tokens.n]
            self._keep(later, x if met is None else self._together(self.clock.t + later, x, tokens, met))
        self.saved += count
        self.clock.advance(self._later(walker))

    def _together(self, times: np.ndarray, x: np.ndarray, tokens: Living, met: Met) -> np.ndarray:
        """Saved states in which those who had met by then are in one place."""
        for k in np.flatnonzero(times >= np.min(met.dates, initial=np.inf)):
            groups = met.groups(times[k])
            x[k] = self._joined(tokens._replace(x=x[k]), groups).x[groups]
        return x

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
        own = {name: array for name, array in self.start.arrays.items() if name != "x"}
        every = {name: np.broadcast_to(np.asarray(array), x.shape[:2]) for name, array in own.items()}
        parts = {name: check.on_device(array) for name, array in {"x": x, **every}.items()}
        states = eqx.tree_at(lambda mu: [getattr(mu, name) for name in parts], self.start, list(parts.values()))
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

    def _reporter(self, groups: int) -> Callable[[Walker], None]:
        def report(walker: Walker) -> None:
            later, steps = self._later(walker), self.steps + int(walker.steps)
            self.report(self.clock.share(later), f"t = {self.clock.t + later:.4g}, {groups} groups, {steps} steps")

        return report

    def _watcher(self) -> Callable[[float, Any], None] | None:
        watch, place, shift = self.task.watch, self.ledger.place, self.clock.t - self._base
        if watch is None:
            return None
        every = lambda mu: Tokens.unchecked(check.on_device(np.asarray(mu.x)[place]), self.start.w, self.start.s)
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
    if not flow.attention.mean_field and not flow.neighbours_move_together:
        raise InputError(
            f"Tokens cannot coalesce under {type(flow.attention).__name__} attention, which tells them apart by more than their "
            "place (an attention of your own that does not says so: mean_field = True). Under a causal mask neighbours that met "
            "stay together where attention is a plain sum on the sphere, Causal(Unnormalized(beta)) with numbers for Q, K, V "
            "and no window; a softmax divides that of the later one by more, and they part. Leave `coalesce` out."
        )
