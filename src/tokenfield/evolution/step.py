"""One step of a walk, in parts: try, look where to stop, save, arrive. `drivers/single.py` strings them together for one
walk, `drivers/many.py` for many at once."""

from typing import Any

import diffrax as dfx
import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from tokenfield._norms import sizes
from tokenfield._types import Memory
from tokenfield.evolution.problem import Problem, runs_off
from tokenfield.status import Status


class Walker(eqx.Module):
    """Where a walk stands: everything that the next step needs. The states saved so far are kept apart, in an album, since
    they are large and a step touches few of them; `saved` counts its pages."""

    t: Float[Array, ""]
    tnext: Float[Array, ""]
    y: Float[Array, "n k"]
    memory: Memory
    jumped: Bool[Array, ""]
    solver_state: Any
    control_state: Any
    steps: Int[Array, ""]
    accepted: Int[Array, ""]
    saved: Int[Array, ""]
    status: Int[Array, ""]


class Step(eqx.Module):
    """A step that was tried: where it led (nowhere, if it was not kept), and how to look inside it."""

    keep: Bool[Array, ""]
    t: Float[Array, ""]
    y: Float[Array, "n k"]
    tnext: Float[Array, ""]
    jumped: Bool[Array, ""]
    solver_state: Any
    control_state: Any
    advances: Bool[Array, ""]
    stop: Int[Array, ""]
    """RUNNING, or why the walk stops in this step."""
    dense: Any

    @property
    def stopped(self) -> Bool[Array, "*slots"]:
        return self.stop != Status.RUNNING

    def inside(self, p: Problem, now: Walker) -> Any:
        """The solution between the step's ends."""
        return p.solver.interpolation_cls(t0=now.t, t1=now.tnext, **self.dense)


def start(p: Problem) -> Walker:
    """Where a walk begins."""
    y0, plan = p.motion.first, p.plan
    memory = p.motion.remember(plan.t0, y0, None)
    solver_state = p.solver.init(p.motion.term, plan.t0, plan.t1, y0, memory)
    tnext, control_state = p.control.init(
        p.motion.term, plan.t0, plan.t1, y0, None, memory, p.solver.func, _error_order(p)
    )
    if plan.dt0 is not None:
        tnext = jnp.maximum(tnext, plan.t0 + plan.dt0)
    stopped = jnp.where(p.met(plan.t0, y0), Status.STOPPED, Status.RUNNING)
    walker = Walker(
        t=jnp.asarray(plan.t0),
        tnext=_clip(p, tnext),
        y=y0,
        memory=memory,
        jumped=jnp.asarray(False),
        solver_state=solver_state,
        control_state=control_state,
        steps=jnp.asarray(0),
        accepted=jnp.asarray(0),
        saved=jnp.sum(p.ts <= plan.t0),
        status=jnp.where(p.motion.healthy(memory), stopped, Status.UNSOLVED),
    )
    # no weak types: a walker that has walked is to JAX what one is that has not
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(leaf)), walker)


def attempt(p: Problem, now: Walker) -> Step:
    """One step of the solver, kept if its error is small enough."""
    y, error, dense, solver_state, solved = p.solver.step(
        p.motion.term, now.t, now.tnext, now.y, now.memory, now.solver_state, now.jumped
    )
    y = jnp.where(p.motion.representable(y), y, jnp.nan)
    keep, t, tnext, jumped, control_state, controlled = p.control.adapt_step_size(
        now.t, now.tnext, now.y, y, now.memory, error, _error_order(p), now.control_state
    )
    keep = jnp.asarray(keep) & (solved == dfx.RESULTS.successful)
    kept = lambda new, old: jax.tree.map(lambda a, b: jnp.where(keep, a, b), new, old)
    y, t = kept(y, now.y), kept(t, now.t)
    return Step(
        keep=keep,
        t=t,
        y=y,
        tnext=jnp.asarray(tnext),
        jumped=kept(jnp.asarray(jumped), now.jumped),
        solver_state=kept(solver_state, now.solver_state),
        control_state=control_state,
        advances=controlled == dfx.RESULTS.successful,
        stop=jnp.where(keep, p.stop(t, y, now.accepted), Status.RUNNING) if p.may_stop else jnp.asarray(Status.RUNNING),
        dense=dense,
    )


def locate(p: Problem, now: Walker, step: Step) -> tuple[Array, Array, Array]:
    """The time inside the step at which the walk is to stop, by bisection on its interpolant; the state there, and why."""
    interpolant = step.inside(p, now)

    def halve(_, bracket):
        low, high = bracket
        middle = 0.5 * (low + high)
        hit = p.stop(middle, interpolant.evaluate(middle), now.accepted) != Status.RUNNING
        return jnp.where(hit, low, middle), jnp.where(hit, middle, high)

    digits = min(50, jnp.finfo(now.t.dtype).nmant + 3)  # halving further changes nothing
    _, t = lax.fori_loop(0, digits, halve, (now.t, now.tnext))
    y = interpolant.evaluate(t)
    why = p.stop(t, y, now.accepted)  # which rounding may miss, here on the edge
    return t, y, jnp.where(why == Status.RUNNING, step.stop, why)


def place_of_stop(step: Step) -> tuple[Any, Any, Any]:
    """What `locate` finds: the time, the state and the reason of a stop."""
    return step.t, step.y, step.stop


# Saving. The last of the times ahead belongs to the next album: it only tells whether a step reaches that far.


def due(p: Problem, step: Step, saved: Array) -> Bool[Array, ""]:
    """Whether the step has passed the next save time, and the album has a page for it."""
    return step.keep & (saved < len(p.ts) - 1) & (p.ts[saved] <= step.t)


def dues(p: Problem, step: Step, saved: Array) -> Int[Array, ""]:
    """How many save times the step has passed for which the album has a page."""
    passed = jnp.sum(p.ts[:-1] <= step.t, dtype=saved.dtype)
    return jnp.where(step.keep, jnp.maximum(passed - saved, 0), 0)


def snapshot(p: Problem, now: Walker, step: Step, saved: Array) -> Array:
    """The state at the next save time, inside the step."""
    return step.inside(p, now).evaluate(p.ts[saved])


def overfull(p: Problem, step: Step, saved: Array) -> Bool[Array, ""]:
    """Whether the step passes a save time for which the album has no page: it is taken again with an empty one."""
    return step.keep & (saved == len(p.ts) - 1) & (p.ts[saved] <= step.t)


def has_room(ts: Float[Array, " T"], saved: Array) -> Bool[Array, ""]:
    """Whether a walk may go on with this album: it has an empty page, or no save time is left."""
    return (saved < len(ts) - 1) | jnp.isinf(ts[-1])


def arrive(p: Problem, now: Walker, step: Step, saved: Array) -> Walker:
    """The walker after the step, and whether it goes on."""
    t1 = p.plan.t1
    memory, resolved = p.motion.remember(step.t, step.y, now.memory), p.motion.resolved(step.y, p.plan.rtol)
    status = jnp.where(step.t >= t1, jnp.where(resolved, Status.COMPLETED, Status.UNRESOLVED), Status.RUNNING)
    growth = 1 - sizes(now.y) / jnp.maximum(sizes(step.y), jnp.finfo(step.y.dtype).tiny)
    blown = runs_off(p, step.t, step.y, growth / jnp.where(step.t > now.t, step.t - now.t, 1.0))
    status = jnp.where((step.t >= t1) & blown, Status.BLOW_UP, status)
    status = jnp.where(step.stopped, step.stop, status)
    failed = [
        (p.motion.healthy(memory), Status.UNSOLVED),
        (resolved | (not p.plan.strict), Status.UNRESOLVED),
        (step.advances, Status.STALLED),
    ]
    for fine, name in failed:
        status = jnp.where((status == Status.RUNNING) & ~fine, name, status)
    return Walker(
        t=step.t,
        tnext=_clip(p, jnp.maximum(step.tnext, step.t)),
        y=step.y,
        memory=memory,
        jumped=step.jumped,
        solver_state=step.solver_state,
        control_state=step.control_state,
        steps=now.steps + 1,
        accepted=now.accepted + step.keep,
        saved=saved,
        status=status.astype(now.status.dtype),
    )


# Looking back. What is known of a step inside is a polynomial of low degree, so that a few states say all of it.


NODES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Where in a step its states are kept, as shares of it: five are exact for interpolants of degree four, as "tsit5" has."""


class Trail(eqx.Module):
    """The last steps of a walk, in no order: times and states at the nodes of each. A step that was not taken yet is at t = inf."""

    t: Float[Array, "steps nodes"]
    y: Float[Array, "steps nodes n k"]


def no_trail(p: Problem) -> Trail | None:
    """The trail of a walk that has not begun, where it is to leave one."""
    if p.motion.trail == 0:
        return None
    shape, first = (p.motion.trail, len(NODES)), p.motion.first
    return Trail(jnp.full(shape, jnp.inf, p.ts.dtype), jnp.zeros((*shape, *first.shape), first.dtype))


def noted(p: Problem, now: Walker, step: Step, again: Array, trail: Trail | None) -> Trail | None:
    """The trail after a step, unless that was not kept or is to be taken again."""
    if trail is None:
        return None
    slot, interpolant = now.accepted % len(trail.t), step.inside(p, now)
    t = now.t + (step.t - now.t) * jnp.asarray(NODES, now.t.dtype)
    y = jnp.stack([now.y, *(interpolant.evaluate(t[k]) for k in range(1, len(NODES) - 1)), step.y])
    put = lambda kept, new: kept.at[slot].set(jnp.where(step.keep & ~again, new, kept[slot]))
    return Trail(put(trail.t, t), put(trail.y, y))


def _error_order(p: Problem) -> Any:
    return p.solver.error_order(p.motion.term)


def _clip(p: Problem, tnext: Any) -> Array:
    """The last step ends at t1; a sliver that would remain is taken with it."""
    t0, t1 = p.plan.t0, p.plan.t1
    return jnp.where(tnext > t1 - 1e-10 * (t1 - t0), t1, tnext)
