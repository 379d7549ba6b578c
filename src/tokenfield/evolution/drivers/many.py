"""Many small runs as one program.

A fixed number of slots walks side by side, one vmapped step at a time. A member whose walk is over leaves its slot to the
next one that waits, so that nobody's steps are repeated while others finish, and memory stays bounded whatever the number
of members. The loops inside the compiled program ask one question for all ("does anyone run?", "has anyone a state to
save?"): under a vmapped condition XLA would compute both sides and copy all saved states at every step.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from tokenfield import _checks as check
from tokenfield._compile import compiled
from tokenfield._interrupt import ctrl_c
from tokenfield._types import AnyArray
from tokenfield.evolution.drivers.pace import is_steady
from tokenfield.evolution.drivers.pieces import Stride, ahead, ending, pages
from tokenfield.evolution.ensemble import picked
from tokenfield.evolution.motions.base import AbstractMotion, MotionKind, Sums, size_of
from tokenfield.evolution.outcome import Outcome
from tokenfield.evolution.problem import Plan, Problem, explodes
from tokenfield.evolution.step import (
    Step,
    Walker,
    arrive,
    attempt,
    dues,
    has_room,
    locate,
    overfull,
    place_of_stop,
    snapshot,
    start,
)
from tokenfield.evolution.task import Task
from tokenfield.flow import Flow
from tokenfield.measures import AbstractMeasure
from tokenfield.progress import Progress
from tokenfield.status import Status

MEMORY = 256e6
"""Bytes that the slots may take together: saved states, stages of the solver, attention between tokens."""

ALBUM = 4e6
"""Bytes of saved states that a slot keeps before they are handed to the host."""

CACHE = 3e6
"""Bytes that a step of all slots may touch: few enough for the caches of one core, and not so few that starting the loops of a
program counts. In steps of 32 tokens in the span of their own (28 slots), and in R^8 (91), 24 MB and 1 MB take longer, half as long
again and more."""

OBSERVED = 512
"""The most pages of an album of observables."""

STRIP = 4
"""How many pages of an album are written at once: what is known of a step is looked up once for all of them, which costs more than
to compute a page. Pages that are too many are computed in vain."""

LOCATED = 8
"""How many members look for the time of their stop side by side."""

WORTH_COMPILING = 3.0
"""Seconds that empty slots may cost before a smaller program is made, which costs about as much."""


def run(task: Task) -> Outcome:
    """Walk everyone to the end, in pieces."""
    assert task.ensemble is not None
    slots, stride, idle, total = Slots(task), Stride(), 0.0, len(task.ensemble)
    with ctrl_c() as interrupted, Progress(task.progress, "evolving") as bar:
        slots.fill()
        while slots.done() < total and not interrupted():
            if slots.waiting and np.sum(~slots.busy) >= slots.worth_filling:
                slots.harvest()
                slots.fill()
                continue
            slots.turn_pages()
            with stride:
                stride.did = slots.advance(stride.piece)
            bar.update(slots.fraction(), f"{slots.done()} of {total} members")
            idle += stride.took * float(np.mean(~slots.busy)) * (not slots.waiting)
            if idle > WORTH_COMPILING and 0 < 2 * slots.busy.sum() <= len(slots.busy) and not is_steady():
                slots.shrink()
                idle = 0.0
    slots.harvest(everyone=True)
    while slots.waiting:  # interrupted: those who never began are where they started
        slots.fill()
        slots.harvest(everyone=True)
    return slots.outcome()


class Members(eqx.Module):
    """Some members, side by side: what varies among them has a leading axis, what they share has none (so that a matrix
    V of all is one matrix, and its product with all tokens one product)."""

    flow: Flow
    start: AbstractMeasure
    seed: Int[AnyArray, " count"]
    ts: Float[AnyArray, "count T"]
    """The save times that each looks at."""
    flows_vary: bool = eqx.field(static=True)
    starts_vary: bool = eqx.field(static=True)

    def of(self, slots: Int[Array, " some"]) -> "Members":
        """Those in some slots."""
        flow = _at(slots, self.flow) if self.flows_vary else self.flow
        start = _at(slots, self.start) if self.starts_vary else self.start
        seed, ts = _at(slots, (self.seed, self.ts))
        return Members(flow, start, seed, ts, self.flows_vary, self.starts_vary)


class Posed(eqx.Module):
    """How the motion of a member is made from its flow, its start and its seed, inside the mapped function: vmap itself then
    knows what varies."""

    plan: Plan
    kind: type[MotionKind] = eqx.field(static=True)
    summation: Any
    tolerance: float = eqx.field(static=True)

    def motion(self, flow: Flow, start: AbstractMeasure, seed: Any) -> AbstractMotion:
        start = self.kind.begin(flow, start, self.plan.t0)
        return self.kind.pose(flow, start, Sums(self.summation, self.tolerance), seed)

    def map(self, members: Members, function: Callable, *arguments: Any) -> Any:
        """function(problem, *arguments) of every member; the arguments have a leading axis."""
        along = lambda varies: eqx.if_array(0) if varies else None
        varying = along(members.flows_vary), along(members.starts_vary)
        axes = (*varying, 0, 0, *[eqx.if_array(0)] * len(arguments))
        one = lambda flow, start, seed, ts, *rest: function(
            self.plan.problem(self.motion(flow, start, seed), ts), *rest
        )
        return eqx.filter_vmap(one, in_axes=axes)(members.flow, members.start, members.seed, members.ts, *arguments)


def slots_for(shape: tuple[int, ...], held: int, dtype: Any, album: int, count: int) -> int:
    """How many members walk side by side, whose states have a shape and whose sums hold so many numbers."""
    size = int(np.prod(shape))
    step = 12 * size + held
    most = min(MEMORY / (2 * album * size + step), CACHE / step) / np.dtype(dtype).itemsize
    return int(np.clip(most, 1, count))


# The compiled programs. All take what is fixed first, and give the memory of the rest to their results.


@compiled
def _begin(posed: Posed, members: Members) -> tuple[Walker, Any]:
    """Walkers at their starts, and the measures there."""
    return posed.map(members, lambda p: (start(p), p.kept(p.motion.first)))


@compiled(donate="all-except-first")
def _enter(fixed: tuple[AnyArray, Walker, Any], walkers: Walker, albums: Any) -> tuple[Walker, Any]:
    """Fresh walkers take the slots that are theirs, with their start on the first page."""
    fresh, new, first = fixed
    put = lambda pages, leaf: pages.at[:, 0].set(_where(fresh, leaf, pages[:, 0]))
    return _where(fresh, new, walkers), jax.tree.map(put, albums, first)


@compiled(donate="all-except-first")
def _advance(
    fixed: tuple[Posed, Members, dict[str, AnyArray]], walkers: Walker, albums: Any
) -> tuple[Array, Walker, Any]:
    """Steps of all who run: `limit` of them, or until no more than `floor` run. How many there were, and what came of them."""
    posed, members, limits = fixed
    runs = lambda walkers: _runs(walkers, members.ts, limits["max_steps"])

    def goes_on(carry):
        done, walkers, _ = carry
        return (done < limits["limit"]) & (jnp.sum(runs(walkers)) > limits["floor"])

    def step(carry):
        done, walkers, albums = carry
        return done + 1, *_step(posed, members, runs(walkers), walkers, albums)

    return lax.while_loop(goes_on, step, (jnp.asarray(0), walkers, albums))


def _runs(walkers: Walker, ts: Array, max_steps: Array) -> Array:
    """Who can take another step: neither ended nor worn out, and with room in the album."""
    return (walkers.status == Status.RUNNING) & (walkers.steps < max_steps) & jax.vmap(has_room)(ts, walkers.saved)


def _step(posed: Posed, members: Members, runs: Array, now: Walker, albums: Any) -> tuple[Walker, Any]:
    """One step of everyone; those who do not run stay where they are."""
    step = posed.map(members, attempt, now)
    if posed.plan.until is not None:
        step = eqx.tree_at(place_of_stop, step, _located(posed, members, step.stopped & runs, now, step))
    count = jnp.where(runs, posed.map(members, dues, step, now.saved), 0)
    saved, albums = now.saved + count, _write(posed, members, count, now, step, albums)
    again = posed.map(members, overfull, step, saved)
    moved = _where(runs & ~again, posed.map(members, arrive, now, step, saved), now)
    return eqx.tree_at(lambda w: w.saved, moved, saved), albums


def _located(posed: Posed, members: Members, stopped: Array, now: Walker, step: Step) -> tuple[Array, Array, Array]:
    """Where those stop who do in this step, LOCATED of them at a time: few do, and finding the time takes as long as many steps."""
    nobody = len(stopped)

    def find(carry):
        left, places = carry
        slot = jnp.nonzero(left, size=min(LOCATED, nobody), fill_value=nobody)[0]
        at = jnp.minimum(slot, nobody - 1)
        found = posed.map(members.of(at), locate, *_at(at, (now, step)))
        put = lambda place, new: place.at[slot].set(new, mode="drop")
        return put(left, False), jax.tree.map(put, places, found)

    return lax.while_loop(lambda carry: jnp.any(carry[0]), find, (stopped, place_of_stop(step)))[1]


def _write(posed: Posed, members: Members, count: Array, now: Walker, step: Step, albums: Any) -> Any:
    """The next `count` pages of every album, half as many strips at a time as there are slots. A strip is STRIP pages or fewer of
    one album. So a slot that has many pages to write, or none, keeps no other waiting."""
    strips = -(-count // STRIP)
    ends, some = jnp.cumsum(strips), jnp.arange(-(-len(count) // 2))

    def write(carry):
        done, albums = carry
        slot = jnp.minimum(jnp.searchsorted(ends, done + some, side="right"), len(count) - 1)
        ahead = STRIP * (done + some - (ends - strips)[slot])[:, None] + jnp.arange(STRIP)
        page = now.saved[slot][:, None] + ahead
        rows = posed.map(members.of(slot), _snapshots, *_at(slot, (now, step)), page)
        page = jnp.where(ahead < count[slot][:, None], page, members.ts.shape[1])
        put = lambda pages, row: pages.at[slot[:, None], page].set(row, mode="drop", unique_indices=True)
        return done + len(some), jax.tree.map(put, albums, rows)

    return lax.while_loop(lambda carry: carry[0] < ends[-1], write, (jnp.zeros_like(ends[-1]), albums))[1]


def _snapshots(p: Problem, now: Walker, step: Step, pages: Array) -> Any:
    """What is kept on these pages."""
    return jax.vmap(lambda page: p.kept(snapshot(p, now, step, page)))(pages)


@compiled
def _present(posed: Posed, members: Members, walkers: Walker) -> tuple[Any, Any]:
    """What is kept of all present states, and their measures."""
    return posed.map(members, lambda p, y: (p.kept(y), p.motion.measure(y)), walkers.y)


@compiled
def _explode(posed: Posed, members: Members, walkers: Walker) -> Array:
    blown = lambda p, w: explodes(p.motion, w.t - p.plan.t0, w.t, w.y, w.memory)
    return posed.map(members, blown, walkers)


def _where(mask: Array, new: Any, old: Any) -> Any:
    """Slot by slot, the new or the old."""
    fits = lambda leaf: mask.reshape(-1, *(1,) * (leaf.ndim - 1))
    return jax.tree.map(lambda a, b: jnp.where(fits(a), a, b), new, old)


def _at(slots: Array, tree: Any) -> Any:
    """What the arrays of a tree have in some slots."""
    return jax.tree.map(lambda leaf: leaf[slots] if eqx.is_array(leaf) else leaf, tree)


class Slots:
    """The slots and who is in them, and the results of those who have left."""

    def __init__(self, task: Task):
        assert task.ensemble is not None
        self.task, self.ensemble = task, task.ensemble
        self.posed = Posed(task.plan, task.kind, self._summation(), task.tolerance)
        self.seeds = self.ensemble.seeds(task.seed)
        self.saves = np.asarray(task.saves)
        self.motion = self._first_motion()
        shape, dtype = size_of(self.motion)
        self.pages = (
            pages(shape, dtype, ALBUM) if task.plan.observe is None else self._observed_pages(task.plan.observe)
        )
        held = 0 if self.motion.sums is None else self.motion.sums.holds(shape[0])
        count = slots_for(shape, held, dtype, min(self.pages, len(self.saves)), len(self.ensemble))
        self.entered, self.left = 0, 0
        self.who, self.kept = np.full(count, -1), np.zeros(count, int)
        self.busy, self.full = np.zeros(count, bool), np.zeros(count, bool)
        self.goal: int | None = None
        self.walkers: Any = None
        self.albums: Any = None
        total = len(self.ensemble)
        self.results: Any = None
        self.last: Any = None
        self.times = np.zeros((total, len(self.saves)), dtype)
        self.numbers = {name: np.zeros(total, int) for name in ("code", "steps", "accepted")}
        self.reached = np.zeros(total, dtype)

    def _summation(self) -> Any:
        """The summation of all members, which are alike, whatever their numbers."""
        task, e = self.task, self.ensemble
        if "summation" not in task.kind.options:
            return task.summation
        return Flow.summation_of_all(e.flows, e.starts[0], task.summation, task.tolerance)

    def _first_motion(self) -> Any:
        """The motion of a member, abstractly: only its shape is asked for."""
        e, task = self.ensemble, self.task
        flow = _shapes_of_one(task.flow, e.many_flows)
        start = _shapes_of_one(task.start, e.many_starts)
        return eqx.filter_eval_shape(self.posed.motion, flow, start, jax.ShapeDtypeStruct((), int))

    def _observed_pages(self, observe: Any) -> int:
        """How many pages an album of observables has: they are small, and a piece of the walk ends where albums are full."""
        kept = eqx.filter_eval_shape(lambda motion: observe(motion.measure(motion.first)), self.motion)
        size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(kept))
        return int(np.clip(ALBUM // max(size, 1), 1, OBSERVED))

    def _take(self, who: np.ndarray) -> Members:
        """These members, side by side, each with the save times that it looks at."""
        e, task = self.ensemble, self.task
        flow, start = e.pairs(who)
        return Members(
            picked(task.flow, flow) if e.many_flows else task.flow,
            picked(task.start, start) if e.many_starts else task.start,
            self.seeds[who],
            self._ahead(),
            e.many_flows,
            e.many_starts,
        )

    def _ahead(self) -> np.ndarray:
        """The save times that each slot looks at."""
        times, which = np.unique(self.kept, return_inverse=True)
        return np.stack([ahead(self.saves, first, self.pages) for first in times.tolist()])[which]

    @property
    def waiting(self) -> int:
        return len(self.ensemble) - self.entered

    @property
    def worth_filling(self) -> int:
        """So many slots must be empty before members that wait are let in: letting in costs a little for all slots."""
        return max(1, len(self.who) // 4)

    def fill(self) -> None:
        """Members that wait enter the empty slots."""
        fresh = (self.who < 0) & (np.cumsum(self.who < 0) <= self.waiting)
        self.who[fresh] = self.entered + np.arange(fresh.sum())
        self.kept[fresh] = 0
        self.entered += int(fresh.sum())
        self.members, self.goal = self._take(np.maximum(self.who, 0)), None
        new, first = _begin(self.posed, self.members)
        if self.walkers is None:
            kept = sum(leaf.nbytes for leaf in jax.tree.leaves(first)) / len(self.who)
            check.room(2 * kept * self.times.size, f"What {len(self.ensemble)} members keep at {len(self.saves)} times")
            empty = lambda leaf, *more: np.zeros((leaf.shape[0], *more, *leaf.shape[1:]), leaf.dtype)
            self.walkers = jax.tree.map(empty, new)
            self.albums = jax.tree.map(lambda leaf: empty(leaf, self.pages), first)
        self._now(*_enter((fresh, new, first), self.walkers, self.albums))

    @property
    def floor(self) -> int:
        """A piece of the walk ends when no more than so many can go on: there is something to do for the others."""
        floor = len(self.who) - self.worth_filling if self.waiting else 0
        return max(floor, 3 * int(self.busy.sum()) // 4) if len(self.saves) > self.pages else floor

    def advance(self, limit: int) -> int:
        """A piece of the walk. It ends as soon as a quarter of the slots is free for others, or has a full album. How many
        steps it was."""
        if self.goal is None or np.sum(self.busy & ~self.full) <= self.goal:
            self.goal = self.floor  # and not at every piece, whose length depends on the pace of the machine
        numbers = {"limit": limit, "floor": self.goal, "max_steps": self.task.max_steps}
        fixed = self.posed, self.members, {name: np.asarray(number) for name, number in numbers.items()}
        did, walkers, albums = jax.block_until_ready(_advance(fixed, self.walkers, self.albums))
        self._now(walkers, albums)
        return int(did)

    def _now(self, walkers: Walker, albums: Any) -> None:
        """Who is busy: in a slot, neither ended nor worn out; and whose album is full."""
        self.walkers, self.albums = walkers, albums
        going = (np.asarray(walkers.status) == Status.RUNNING) & (np.asarray(walkers.steps) < self.task.max_steps)
        self.busy = going & (self.who >= 0)
        more = self.kept + self.pages < len(self.saves)
        self.full = self.busy & (np.asarray(walkers.saved) == self.pages) & more

    def turn_pages(self) -> None:
        """Full albums are emptied, where there are enough of them, and their walks look at the save times after them."""
        if not self.full.any() or np.sum(self.busy & ~self.full) > self.floor:
            return
        slots = np.flatnonzero(self.full)
        self._keep(slots)
        self.kept[slots] += self.pages
        self.members = eqx.tree_at(lambda members: members.ts, self.members, self._ahead())
        self.goal = None
        saved = np.where(self.full, 0, np.asarray(self.walkers.saved))
        self._now(eqx.tree_at(lambda w: w.saved, self.walkers, saved), self.albums)

    def _keep(self, slots: np.ndarray, last: Any = None) -> None:
        """The pages of these slots, among the results; and after the end of a walk its last state."""
        if self.results is None:
            shape = lambda leaf: (len(self.ensemble), len(self.saves), *leaf.shape[2:])
            self.results = jax.tree.map(lambda leaf: np.empty(shape(leaf), leaf.dtype), self.albums)
        saved, leaves = np.asarray(self.walkers.saved), jax.tree.leaves(self.results)
        for k, (kept, album) in enumerate(zip(leaves, jax.tree.leaves(self.albums), strict=True)):
            rows = np.asarray(album)
            for slot in slots:
                who, first, end = self.who[slot], self.kept[slot], self.kept[slot] + saved[slot]
                kept[who, first:end] = rows[slot, : saved[slot]]
                if last is not None:
                    kept[who, end:] = np.asarray(jax.tree.leaves(last)[k])[slot]

    def _keep_last(self, slots: np.ndarray, present: Any) -> None:
        """The last states, where on the way only observables were kept."""
        if self.last is None:
            shape = lambda leaf: (len(self.ensemble), 1, *leaf.shape[1:])
            self.last = jax.tree.map(lambda leaf: np.empty(shape(leaf), leaf.dtype), present)
        for kept, rows in zip(jax.tree.leaves(self.last), jax.tree.leaves(present), strict=True):
            kept[self.who[slots], 0] = np.asarray(rows)[slots]

    def harvest(self, everyone: bool = False) -> None:
        """Those whose walk is over leave with their results; everyone does when the run was interrupted."""
        slots = np.flatnonzero((self.who >= 0) & (everyone | ~self.busy))
        if len(slots) == 0:
            return
        kept, present = _present(self.posed, self.members, self.walkers)
        self._keep(slots, kept)
        members, w = self.who[slots], self.walkers
        if self.task.plan.observe is not None:
            self._keep_last(slots, present)
        self.numbers["code"][members] = self._codes(slots)[slots]
        self.numbers["steps"][members] = np.asarray(w.steps)[slots]
        self.numbers["accepted"][members] = np.asarray(w.accepted)[slots]
        self.reached[members] = np.asarray(w.t)[slots]
        self.times[members] = np.minimum(self.saves, self.reached[members, None])
        self.left += len(slots)
        self.who[slots], self.busy[slots], self.full[slots] = -1, False, False

    def _codes(self, slots: np.ndarray) -> np.ndarray:
        codes, worn = np.array(self.walkers.status), np.asarray(self.walkers.steps) >= self.task.max_steps
        codes[slots] = [ending(int(codes[slot]), bool(worn[slot])) for slot in slots]
        stalled = codes == Status.STALLED
        if np.any(stalled[slots]):
            codes[stalled & np.asarray(_explode(self.posed, self.members, self.walkers))] = Status.BLOW_UP
        return codes

    def shrink(self) -> None:
        """As few slots as those who run need, a power of two, so that few programs are ever compiled."""
        self.harvest()
        running = np.flatnonzero(self.busy)
        kept = np.resize(running, 1 << (len(running) - 1).bit_length())
        self.who = np.where(np.arange(len(kept)) < len(running), self.who[kept], -1)
        self.kept = self.kept[kept]
        take = lambda leaf: np.asarray(leaf)[kept]
        walkers, albums = jax.tree.map(take, (self.walkers, self.albums))
        idle = np.where(self.who < 0, int(Status.COMPLETED), np.asarray(walkers.status))
        self.members, self.goal = self._take(np.maximum(self.who, 0)), None
        self._now(eqx.tree_at(lambda w: w.status, walkers, idle), albums)

    def fraction(self) -> float:
        """The share of the work that is done, in time."""
        t0, t1 = float(self.task.plan.t0), float(self.task.plan.t1)
        share = (np.asarray(self.walkers.t) - t0) / (t1 - t0)
        inside = np.where(self.busy, share, 1.0)[self.who >= 0]
        return (self.left + float(inside.sum())) / len(self.ensemble)

    def done(self) -> int:
        return self.left + int(np.sum((self.who >= 0) & ~self.busy))

    def outcome(self) -> Outcome:
        """The results of all members, in the shape of the batch."""
        e = self.ensemble
        return Outcome(
            times=e.in_batch(self.times),
            states=e.in_batch(self.results if self.last is None else self.last),
            observed=None if self.last is None else e.in_batch(self.results),
            reached=e.in_batch(self.reached),
            **{name: e.in_batch(values) for name, values in self.numbers.items()},
            summation=self.motion.description,
            seeds=self.seeds.tolist() if "seed" in self.task.kind.options else None,
        )


def _shapes_of_one(tree: Any, many: bool) -> Any:
    """The arrays of one of many, as shapes."""
    shape = lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:] if many else leaf.shape, leaf.dtype)
    return jax.tree.map(lambda leaf: shape(leaf) if eqx.is_array(leaf) else leaf, tree)
