r"""Runs that outlive metastable states: tokens that have met become one.

Tokens closer than a radius ε that approach each other move together for ever. Kept apart they cost: their contraction, at a rate
of order one, bounds the step of an explicit solver, while clusters drift at rates like $e^{-β}$. Replaced by one token at
their mean with their mass, at an error of O(ε²), nothing but the motion itself bounds the step, and t = 10³⁰ is some
hundreds of steps away.

Two more things are needed to go that far. A token's own term in its sum is radial and moves nobody, but its rounding, 1e-16,
would: it is left out ("apart"). And a time of 10²⁰ cannot be advanced by 1: where the flow does not depend on time, a phase
between two mergers counts from its own beginning.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from tokenfield._norms import unit
from tokenfield.attention import L2, Causal, Krause, MeanShift, MultiHead, Sinkhorn, Softmax, Unnormalized
from tokenfield.errors import InputError
from tokenfield.evolution.clocks import Clock
from tokenfield.evolution.march import ctrl_c, pursue
from tokenfield.evolution.motion import State
from tokenfield.evolution.particles import Particles
from tokenfield.evolution.plan import Plan
from tokenfield.evolution.progress import Progress
from tokenfield.evolution.step import Walker
from tokenfield.flow import Flow
from tokenfield.measures import Tokens
from tokenfield.mergers import Mergers
from tokenfield.normalization import Rescaled
from tokenfield.parameters import scheduled
from tokenfield.status import Status
from tokenfield.summation import AbstractSummation, Dense

PAIRWISE = 256
"""Tokens up to which every pair is looked at to see who has met, and the time is located inside the step; beyond, only those
in one cell of a grid are, at the end of a step."""

SMALLEST = 32
"""Below so many tokens a smaller program saves nothing."""


class Merging(Particles):
    """The particle equation of weighted tokens, some of which are only padding, watched for tokens that meet."""

    flow: Flow
    start: Tokens
    summation: AbstractSummation
    basis: Float[Array, "r d"] | None
    live: Bool[Array, " n"]
    radius: Float[Array, ""]
    patience: Array
    """How many tokens must have met before it is worth to merge them."""

    merges: ClassVar[bool] = True

    def rate(self, t: Any, y: Any, memory: Any) -> Any:
        return jnp.where(self.live[:, None], super().rate(t, y, memory), 0.0)

    def measure(self, y: State) -> Tokens:
        return super().measure(jnp.where(self.live[:, None], y, y[0]))

    @property
    def locates(self) -> bool:
        return len(self.live) <= PAIRWISE

    def meets(self, y: State) -> Bool[Array, ""]:
        x = self._places(y)
        close = _closest(x, self.live) if len(x) <= PAIRWISE else _in_one_cell(x, self.live, self.radius)
        return jnp.sum(close < self.radius) >= self.patience

    def _places(self, y: State) -> Float[Array, "n d"]:
        return unit(y) if self.flow.normalization.confines else y


def _closest(x: Float[Array, "n d"], live: Bool[Array, " n"]) -> Float[Array, " n"]:
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


@dataclasses.dataclass
class Coalescing:
    """A run with mergers: phases between them, one problem each."""

    flow: Flow
    start: Tokens
    plan: Plan
    clock: Clock
    radius: float
    summation: Any
    max_steps: int

    def __post_init__(self):
        refuse_flow(self.flow)
        self.ledger = Ledger(self.start.n)
        self.times: list[np.ndarray] = []
        self.rescaled: list[np.ndarray] = []
        self.states: list[np.ndarray] = []
        self.steps = self.accepted = self.saved = 0
        self.told = ""
        self.timeless = not scheduled(self.flow) and self.flow.normalization.timeless

    def run(self, progress: bool | None, watch: Callable | None) -> Status:
        """Phase after phase, until the end or whatever ends the run."""
        dt, found = 0.0, self.radius
        x, w, capacity = np.asarray(self.start.x), np.asarray(self.start.w), self.start.n
        x, w = self._meet(x, w, np.zeros_like(x), 1e-12)  # who begins in one place
        with ctrl_c() as interrupted, Progress(progress, "evolving") as bar:
            while True:
                capacity, before = fewer(capacity, len(w)), len(w)
                motion = self._motion(x, w, capacity, found)
                problem = self._problem(motion, dt)
                report, see = self._reporter(bar, before), None if watch is None else self._seer(watch)
                walker, states = pursue(problem, self.max_steps - self.steps, interrupted, report, see)
                status, dt = Status(int(walker.status)), float(walker.tnext) - float(walker.t)
                y, v = (np.asarray(part)[:before] for part in _here(motion, walker.t, walker.y))
                self._collect(motion, walker, states)
                if status is Status.MEETING:
                    x, w = self._meet(y, w, v, self.radius)
                    found = self.radius if len(w) < before else 0.5 * found  # some came close without approaching
                elif status in (Status.STALLED, Status.BLOW_UP) and self.timeless and int(walker.accepted) > 1:
                    x = y  # the clock, not the motion, has no finer step: count anew
                else:
                    return self._finish(status, y)

    def _meet(self, x: np.ndarray, w: np.ndarray, v: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
        """Merge who has met."""
        groups = groups_of(x, v, w, radius)
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
        places = jnp.asarray(np.concatenate([x, np.broadcast_to(x[:1], (extra, x.shape[1]))]))
        mass = jnp.asarray(np.concatenate([w, np.zeros(extra, w.dtype)]))
        start = eqx.tree_at(lambda mu: (mu.x, mu.w), self.start, (places, mass))
        sums = self.flow.sums(start, None, self.summation, 0.1 * float(self.plan.rtol))
        self.told = self.told or sums.told
        if isinstance(sums, Dense) and leaves_itself_out(self.flow):
            sums = dataclasses.replace(sums, apart=True)
        live, patience = jnp.arange(capacity) < len(w), max(1, len(w) // 64)
        return Merging(self.flow, start, sums, None, live, jnp.asarray(radius, places.dtype), jnp.asarray(patience))

    def _problem(self, motion: Merging, dt: float) -> Any:
        """The phase from now on, counted from its beginning where the flow allows. The list of save times keeps its
        length, so that the program is the same."""
        base = 0.0 if self.timeless else self.clock.t
        end, saves = self.clock.ahead()
        ts = np.full(len(saves), np.inf)
        ts[: len(saves) - self.saved] = np.maximum(saves[self.saved :], 0.0)
        dtype = motion.first.dtype
        times = tuple(jnp.asarray(part, dtype) for part in (base, base + end, base + ts))
        problem = eqx.tree_at(lambda p: (p.t0, p.t1, p.ts), self.plan, times).problem(motion)
        return dataclasses.replace(problem, origin=jnp.asarray(self.clock.t - base, dtype), dt0=jnp.asarray(dt, dtype))

    def _collect(self, motion: Merging, walker: Walker, states: Any) -> None:
        """Saved states of this phase, for all original tokens; and the clock goes on."""
        self.steps, self.accepted = self.steps + int(walker.steps), self.accepted + int(walker.accepted)
        count = int(walker.saved)
        if count:
            later = np.maximum(self.clock.ahead()[1][self.saved : self.saved + count], 0.0)
            self._keep(later, np.asarray(_places(motion, states))[:count])
        self.saved += count
        self.clock.advance(self._later(walker))

    def _keep(self, later: np.ndarray, x: np.ndarray) -> None:
        """States of the living tokens, some time from now."""
        self.times.append(self.clock.t + later)
        self.rescaled.append(self.clock.rescaled(later))
        self.states.append(x[:, self.ledger.place])

    def _later(self, walker: Walker) -> float:
        """How far a walker is from where its phase began."""
        return float(walker.t) - (0.0 if self.timeless else self.clock.t)

    def _finish(self, status: Status, y: np.ndarray) -> Status:
        """A run that ended between two save times adds the state that it reached."""
        if status is not Status.COMPLETED and (not self.times or self.times[-1][-1] < self.clock.t):
            self._keep(np.zeros(1), y[None])
        return status

    def _reporter(self, bar: Progress, groups: int) -> Callable:
        def report(walker: Walker) -> None:
            later, steps = self._later(walker), self.steps + int(walker.steps)
            bar.update(self.clock.share(later), f"t = {self.clock.t + later:.4g}, {groups} groups, {steps} steps")

        return report

    def _seer(self, watch: Callable) -> Callable:
        place, base = self.ledger.place, self.clock.t if self.timeless else 0.0
        every = lambda mu: eqx.tree_at(lambda nu: (nu.x, nu.w), mu, (mu.x[place], self.start.w))
        return lambda t, mu: watch(base + t, every(mu))

    def tokens(self) -> Tokens:
        """All original tokens at all saved times."""
        x = jnp.asarray(np.concatenate(self.states))
        w = jnp.broadcast_to(self.start.w, x.shape[:2])
        return eqx.tree_at(lambda mu: (mu.x, mu.w), self.start, (x, w))


@eqx.filter_jit
def _here(motion: Merging, t: Array, y: State) -> tuple[State, State]:
    """Where tokens are, and how they move."""
    return motion.measure(y).x, motion.rate(t, y, None)


@eqx.filter_jit
def _places(motion: Merging, states: Float[Array, "T n d"]) -> Float[Array, "T n d"]:
    return jax.vmap(motion.measure)(states).x


def fewer(capacity: int, count: int) -> int:
    """Places for `count` tokens: as many as before, until a quarter of them (of many, a half) would do."""
    enough = capacity // 4 if capacity <= 4096 else capacity // 2
    if count > enough or capacity <= SMALLEST:
        return capacity
    return max(SMALLEST // 2, 1 << math.ceil(math.log2(count)))


def leaves_itself_out(flow: Flow) -> bool:
    """Whether a token's own term is radial and does not move it."""
    heads = flow.attention.heads if isinstance(flow.attention, MultiHead) else (flow.attention,)
    known = all(isinstance(head, Softmax | Unnormalized | L2 | MeanShift | Sinkhorn) for head in heads)
    return known and flow.attention.isotropic and flow.normalization.tangential and flow.mlp is None


def refuse_flow(flow: Flow) -> None:
    """Tokens that have met must stay together, and be told apart by nothing but their place."""
    if not flow.normalization.confines and not isinstance(flow.normalization, Rescaled):
        raise InputError(
            f"Coalescing is for tokens on the sphere (PostLN, NGPT, SqrtScaling) and for Rescaled coordinates, where tokens "
            f"that meet stay together; under {type(flow.normalization).__name__} they may part again. Leave `coalesce` out."
        )
    parts = {
        "kappa": "noise pushes tokens apart again",
        "reweighting": "reweighting gives every token a weight of its own",
    }
    for name, why in parts.items():
        if getattr(flow, name) is not None:
            raise InputError(f"Tokens cannot coalesce here: {why}. Leave `coalesce` out.")
    heads = flow.attention.heads if isinstance(flow.attention, MultiHead) else (flow.attention,)
    if any(isinstance(head, Causal | Krause) for head in heads):
        raise InputError(
            "Tokens cannot coalesce under Causal or Krause attention, which tells them apart by more than their place. "
            "Leave `coalesce` out."
        )
