"""One step of a walk, in parts: try, look where to stop, save, arrive. `march.py` strings them together for one walk,
`ensemble.py` for many at once."""

from typing import Any

import diffrax as dfx
import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from tokenfield.evolution.problem import Problem
from tokenfield.status import Status


class Walker(eqx.Module):
    """Where a walk stands: everything that the next step needs. The states saved so far are kept apart, since they are
    large and a step touches few of them."""

    t: Float[Array, ""]
    tnext: Float[Array, ""]
    y: Float[Array, "n k"]
    memory: Any
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
    stopped: Bool[Array, ""]
    dense: Any

    def inside(self, p: Problem, now: Walker) -> Any:
        """The solution between the step's ends."""
        return p.solver.interpolation_cls(t0=now.t, t1=now.tnext, **self.dense)


def start(p: Problem) -> Walker:
    """Where a walk begins."""
    y0 = p.motion.first
    memory = p.motion.remember(p.t0, y0, None)
    solver_state = p.solver.init(p.term, p.t0, p.t1, y0, memory)
    tnext, control_state = p.control.init(p.term, p.t0, p.t1, y0, None, memory, p.solver.func, _error_order(p))
    if p.dt0 is not None:
        tnext = jnp.maximum(tnext, p.t0 + p.dt0)
    stopped = jnp.where(p.stops(p.t0, y0), Status.STOPPED, Status.RUNNING)
    return Walker(
        t=p.t0,
        tnext=_clip(p, tnext),
        y=y0,
        memory=memory,
        jumped=jnp.asarray(False),
        solver_state=jax.tree.map(jnp.asarray, solver_state),
        control_state=jax.tree.map(jnp.asarray, control_state),
        steps=jnp.asarray(0),
        accepted=jnp.asarray(0),
        saved=jnp.sum(p.ts <= p.t0),
        status=jnp.where(p.motion.healthy(memory), stopped, Status.UNSOLVED),
    )


def attempt(p: Problem, now: Walker) -> Step:
    """One step of the solver, kept if its error is small enough."""
    y, error, dense, solver_state, solved = p.solver.step(
        p.term, now.t, now.tnext, now.y, now.memory, now.solver_state, now.jumped
    )
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
        stopped=keep & p.halts(t, y),
        dense=dense,
    )


def locate(p: Problem, now: Walker, step: Step) -> tuple[Array, Array]:
    """The time inside the step at which the walk is to halt, by bisection on its interpolant, and the state."""
    interpolant = step.inside(p, now)

    def halve(_, bracket):
        low, high = bracket
        middle = 0.5 * (low + high)
        hit = p.halts(middle, interpolant.evaluate(middle))
        return jnp.where(hit, low, middle), jnp.where(hit, middle, high)

    _, t = lax.fori_loop(0, 50, halve, (now.t, now.tnext))
    return t, interpolant.evaluate(t)


def due(p: Problem, step: Step, saved: Array) -> Array:
    """Whether the step has passed the next save time."""
    return step.keep & (saved < len(p.ts)) & (p.ts[jnp.minimum(saved, len(p.ts) - 1)] <= step.t)


def snapshot(p: Problem, now: Walker, step: Step, saved: Array) -> Array:
    """The state at the next save time, inside the step."""
    return step.inside(p, now).evaluate(p.ts[saved])


def arrive(p: Problem, now: Walker, step: Step, saved: Array) -> Walker:
    """The walker after the step, and whether it goes on."""
    memory, resolved = p.motion.remember(step.t, step.y, now.memory), p.motion.resolved(step.y)
    status = jnp.where(step.t >= p.t1, jnp.where(resolved, Status.COMPLETED, Status.UNRESOLVED), Status.RUNNING)
    halted = jnp.where(p.stops(step.t, step.y), Status.STOPPED, Status.MEETING) if p.motion.merges else Status.STOPPED
    status = jnp.where(step.stopped, halted, status)
    failed = [
        (p.motion.healthy(memory), Status.UNSOLVED),
        (resolved | (not p.strict), Status.UNRESOLVED),
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
        status=status,
    )


def _error_order(p: Problem) -> Any:
    return p.solver.error_order(p.term)


def _clip(p: Problem, tnext: Any) -> Array:
    """The last step ends at t1; a sliver that would remain is taken with it."""
    return jnp.where(tnext > p.t1 - 1e-10 * (p.t1 - p.t0), p.t1, tnext)
