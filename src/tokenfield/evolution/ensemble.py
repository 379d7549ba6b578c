"""Many small walks as one program.

A fixed number of slots walks side by side, one vmapped step at a time. A member whose walk is over leaves its slot to the
next one that waits, so that nobody's steps are repeated while others finish, and memory stays bounded whatever the number
of members. The loops inside the compiled program ask one question for all ("does anyone run?", "has anyone a state to
save?"): under a vmapped condition XLA would compute both sides and copy all saved states at every step.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from tokenfield.evolution.march import Stride, ctrl_c, ending
from tokenfield.evolution.members import Ensemble, Members
from tokenfield.evolution.plan import Plan
from tokenfield.evolution.problem import Problem, explodes
from tokenfield.evolution.progress import Progress
from tokenfield.evolution.step import Walker, arrive, attempt, due, locate, snapshot, start
from tokenfield.status import Status

MEMORY = 256e6
"""Bytes that the slots may take together: saved states, stages of the solver, attention between tokens."""

CACHE = 24e6
"""Bytes that a step of all slots may touch. At n = 32, d = 128, 50 slots do the work of a member's step in three quarters of
the time that 100 take."""

WORTH_COMPILING = 3.0
"""Seconds that empty slots may cost before a smaller program is made, which costs about as much."""


def slots_for(problem: Problem, count: int) -> int:
    """How many members walk side by side."""
    y, T = problem.motion.first, len(problem.ts)
    step = 12 * y.size + len(y) * min(len(y), 2048)
    most = min(MEMORY / (2 * T * y.size + step), CACHE / step) / y.dtype.itemsize
    return int(np.clip(most, 1, count))


# The compiled programs. All take what is fixed first, and give the memory of the rest to their results.


@eqx.filter_jit
def _begin(plan: Plan, members: Members) -> Walker:
    return members.map(plan, start)


@eqx.filter_jit(donate="all-except-first")
def _enter(fixed: tuple[Array, Walker], walkers: Walker, states: Array) -> tuple[Walker, Array]:
    """Fresh walkers take the slots that are theirs."""
    fresh, new = fixed
    return _where(fresh, new, walkers), states.at[:, 0].set(_where(fresh, new.y, states[:, 0]))


@eqx.filter_jit(donate="all-except-first")
def _advance(
    fixed: tuple[Plan, Members, dict[str, Array]], walkers: Walker, states: Array
) -> tuple[Array, Walker, Array]:
    """Steps of all who run: `limit` of them, or until no more than `floor` run. How many there were, and what came of them."""
    plan, members, until = fixed

    def goes_on(carry):
        done, walkers, _ = carry
        return (done < until["limit"]) & (jnp.sum(_runs(walkers, until["max_steps"])) > until["floor"])

    def step(carry):
        done, walkers, states = carry
        return done + 1, *_step(plan, members, _runs(walkers, until["max_steps"]), walkers, states)

    return lax.while_loop(goes_on, step, (jnp.asarray(0), walkers, states))


def _runs(walkers: Walker, max_steps: Array) -> Array:
    return (walkers.status == Status.RUNNING) & (walkers.steps < max_steps)


def _step(plan: Plan, members: Members, runs: Array, now: Walker, states: Array) -> tuple[Walker, Array]:
    """One step of everyone; those who do not run stay where they are."""
    step = members.map(plan, attempt, now)
    if plan.until is not None:
        stopped, here = step.stopped & runs, (step.t, step.y)
        found = lambda: _where(stopped, members.map(plan, locate, now, step), here)
        step = eqx.tree_at(lambda s: (s.t, s.y), step, lax.cond(jnp.any(stopped), found, lambda: here))

    def waiting(saved):
        return runs & members.map(plan, due, step, saved)

    def write(album):
        saved, states = album
        writes = waiting(saved)
        rows = members.map(plan, snapshot, now, step, saved)
        slots, at = jnp.arange(len(saved)), jnp.where(writes, saved, states.shape[1])
        return saved + writes, states.at[slots, at].set(rows, mode="drop", unique_indices=True)

    saved, states = lax.while_loop(lambda album: jnp.any(waiting(album[0])), write, (now.saved, states))
    return _where(runs, members.map(plan, arrive, now, step, saved), now), states


@eqx.filter_jit
def _develop(plan: Plan, members: Members, walkers: Walker, states: Array) -> tuple[Array, Any]:
    """Times and measures of every slot, as a run returns them: after its end a walk holds its last state."""

    def one(p: Problem, walker: Walker, rows: Array) -> tuple[Array, Any]:
        reached = (jnp.arange(len(p.ts)) < walker.saved)[:, None, None]
        return jnp.minimum(p.ts, walker.t), jax.vmap(p.motion.measure)(jnp.where(reached, rows, walker.y))

    return members.map(plan, one, walkers, states)


@eqx.filter_jit
def _explode(plan: Plan, members: Members, walkers: Walker) -> Array:
    return members.map(plan, lambda p, walker: explodes(p, walker.t, walker.y, walker.memory), walkers)


def _where(mask: Array, new: Any, old: Any) -> Any:
    """Slot by slot, the new or the old."""
    fits = lambda leaf: mask.reshape(-1, *(1,) * (leaf.ndim - 1))
    return jax.tree.map(lambda a, b: jnp.where(fits(a), a, b), new, old)


class Slots:
    """The slots and who is in them, and the results of those who have left."""

    def __init__(self, ensemble: Ensemble, plan: Plan, problem: Problem, seeds: np.ndarray, max_steps: int):
        self.ensemble, self.plan, self.seeds, self.max_steps = ensemble, plan, seeds, max_steps
        self.entered, self.left = 0, 0
        self.results: Any = None
        count = slots_for(problem, len(ensemble))
        self.who = np.full(count, -1)
        self.runs = np.zeros(count, bool)
        self.walkers: Any = None
        self.states = jnp.zeros((count, len(plan.ts), *problem.motion.first.shape), problem.motion.first.dtype)

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
        self.entered += int(fresh.sum())
        self.members = self.ensemble.take(np.maximum(self.who, 0), self.seeds)
        new = _begin(self.plan, self.members)
        old = jax.tree.map(jnp.zeros_like, new) if self.walkers is None else self.walkers
        self._now(*_enter((jnp.asarray(fresh), new), old, self.states))

    def advance(self, limit: int) -> int:
        """A piece of the walk. While others wait it ends as soon as a quarter of the slots is free for them. How many steps
        it was."""
        floor = len(self.who) - self.worth_filling if self.waiting else 0
        numbers = {"limit": limit, "floor": floor, "max_steps": self.max_steps}
        fixed = self.plan, self.members, {name: jnp.asarray(number) for name, number in numbers.items()}
        did, walkers, states = jax.block_until_ready(_advance(fixed, self.walkers, self.states))
        self._now(walkers, states)
        return int(did)

    def _now(self, walkers: Walker, states: Array) -> None:
        self.walkers, self.states = walkers, states
        self.runs = np.array(_runs(walkers, jnp.asarray(self.max_steps))) & (self.who >= 0)

    def harvest(self, everyone: bool = False) -> None:
        """Those whose walk is over leave with their results; everyone does when the run was interrupted."""
        slots = np.flatnonzero((self.who >= 0) & (everyone | ~self.runs))
        if len(slots) == 0:
            return
        times, states = _develop(self.plan, self.members, self.walkers, self.states)
        w = self.walkers
        told = {"times": times, "reached": w.t, "code": self._codes(slots), "steps": w.steps, "accepted": w.accepted}
        arrays, self.rest = eqx.partition(states, eqx.is_array)
        self._keep(slots, (told, arrays))
        self.left += len(slots)
        self.who[slots], self.runs[slots] = -1, False

    def _codes(self, slots: np.ndarray) -> np.ndarray:
        codes, worn = np.array(self.walkers.status), np.asarray(self.walkers.steps) >= self.max_steps
        codes[slots] = [ending(int(codes[slot]), bool(worn[slot])) for slot in slots]
        stalled = codes == Status.STALLED
        if np.any(stalled[slots]):
            codes[stalled & np.asarray(_explode(self.plan, self.members, self.walkers))] = Status.BLOW_UP
        return codes

    def _keep(self, slots: np.ndarray, leaving: Any) -> None:
        if self.results is None:
            empty = lambda leaf: np.empty((len(self.ensemble), *leaf.shape[1:]), leaf.dtype)
            self.results = jax.tree.map(empty, leaving)
        for kept, leaf in zip(jax.tree.leaves(self.results), jax.tree.leaves(leaving), strict=True):
            kept[self.who[slots]] = np.asarray(leaf)[slots]

    def shrink(self) -> None:
        """As few slots as those who run need, a power of two, so that few programs are ever compiled."""
        self.harvest()
        running = np.flatnonzero(self.runs)
        kept = np.resize(running, 1 << (len(running) - 1).bit_length())
        self.who = np.where(np.arange(len(kept)) < len(running), self.who[kept], -1)
        take = lambda leaf: jnp.asarray(np.asarray(leaf)[kept])
        walkers, states = jax.tree.map(take, (self.walkers, self.states))
        idle = jnp.where(jnp.asarray(self.who) < 0, int(Status.COMPLETED), walkers.status)
        self.members = self.ensemble.take(np.maximum(self.who, 0), self.seeds)
        self._now(eqx.tree_at(lambda w: w.status, walkers, idle), states)

    def fraction(self) -> float:
        """The share of the work that is done, in time."""
        share = (np.asarray(self.walkers.t) - float(self.plan.t0)) / float(self.plan.t1 - self.plan.t0)
        inside = np.where(self.runs, share, 1.0)[self.who >= 0]
        return (self.left + float(inside.sum())) / len(self.ensemble)

    def done(self) -> int:
        return self.left + int(np.sum((self.who >= 0) & ~self.runs))


def march_all(slots: Slots, progress: bool | None) -> tuple[dict[str, Array], Any]:
    """Walk everyone to the end, in pieces: times, endings and steps, and the states, by member."""
    stride, idle, total = Stride(), 0.0, len(slots.ensemble)
    with ctrl_c() as interrupted, Progress(progress, "evolving") as bar:
        slots.fill()
        while slots.done() < total and not interrupted():
            if slots.waiting and np.sum(~slots.runs) >= slots.worth_filling:
                slots.harvest()
                slots.fill()
                continue
            with stride:
                stride.did = slots.advance(stride.piece)
            bar.update(slots.fraction(), f"{slots.done()} of {total} members")
            idle += stride.took * float(np.mean(~slots.runs)) * (not slots.waiting)
            if idle > WORTH_COMPILING and 0 < 2 * slots.runs.sum() <= len(slots.runs):
                slots.shrink()
                idle = 0.0
    slots.harvest(everyone=True)
    while slots.waiting:  # interrupted: those who never began are where they started
        slots.fill()
        slots.harvest(everyone=True)
    told, arrays = jax.tree.map(jnp.asarray, slots.results)
    return told, eqx.combine(arrays, slots.rest)
