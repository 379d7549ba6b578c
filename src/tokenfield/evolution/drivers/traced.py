"""The same problem as one Diffrax solve, for use under jit, grad and vmap."""

from typing import Any

import diffrax as dfx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from tokenfield._compile import compiled
from tokenfield._norms import sizes
from tokenfield.evolution.observables import along
from tokenfield.evolution.outcome import Outcome
from tokenfield.evolution.problem import Problem, explodes, runs_off
from tokenfield.evolution.task import Task
from tokenfield.status import Status

ADJOINTS = {"reverse": dfx.RecursiveCheckpointAdjoint, "forward": dfx.ForwardMode}


def run(task: Task) -> Outcome:
    """All save times at once. A run that ends early holds its last state from there on, so that no NaN leaves."""
    motion = task.motion()
    problem = task.plan.problem(motion, jnp.asarray(task.saves))
    times, states, *rest = _solve(problem, task.max_steps, task.adjoint)
    measures, observe = jax.vmap(motion.measure)(states), task.plan.observe
    if observe is None:
        return Outcome(times, measures, *rest, summation=motion.description)
    last = jax.tree.map(lambda leaf: leaf[-1:], measures)
    return Outcome(times, last, *rest, summation=motion.description, observed=along(observe, measures))


@compiled
def _solve(p: Problem, max_steps: int, adjoint: str) -> tuple[Array, ...]:
    """Times, states, the time reached, the status, steps and accepted steps."""
    y0, forward = p.motion.first, p.plan.t0 < p.plan.t1
    known = jnp.all(jnp.isfinite(y0))  # where the start is not, nothing is walked, and the status says so
    t0 = jnp.where(jnp.isfinite(p.plan.t0), p.plan.t0, 0.0)
    t1 = jnp.where(
        forward & jnp.isfinite(p.plan.t1), p.plan.t1, t0 + 1e-3 * (1 + jnp.abs(t0))
    )  # if not: a short walk in vain
    ts = jnp.sort(jnp.clip(p.ts, t0, t1))
    read = lambda t, y, args: (t, y)
    walked = jnp.where(known, y0, 1.0)
    memory = p.motion.remember(t0, walked, None)
    event = None if p.plan.until is None else dfx.Event(lambda t, y, args, **kwargs: p.met(t, y))
    solution = dfx.diffeqsolve(
        p.motion.term,
        p.solver,
        t0,
        t1,
        None,
        walked,
        args=memory,
        saveat=dfx.SaveAt(subs=[dfx.SubSaveAt(ts=ts, fn=read), dfx.SubSaveAt(t1=True, fn=read)]),
        stepsize_controller=p.control,
        max_steps=max_steps,
        adjoint=ADJOINTS[adjoint](),
        event=event,
        throw=False,
    )
    assert solution.ys is not None
    (_, states), (last_t, last) = solution.ys
    finite = jnp.all(jnp.isfinite(last)) & p.motion.representable(last[0]) & forward & known
    t, y = jnp.where(forward, last_t[0], t0), jnp.where(finite, last[0], y0)
    reached = (
        forward
        & known
        & (ts <= t)[:, None, None]
        & jnp.isfinite(states)
        & jax.vmap(p.motion.representable)(states)[:, None, None]
    )
    status = jnp.where(p.motion.healthy(memory), _status(p, solution.result, t, y, memory), Status.UNSOLVED)
    status = jnp.where(known, status, Status.BLOW_UP)
    return (
        jnp.minimum(ts, t),
        jnp.where(reached, states, y),
        t,
        jnp.where(forward, jnp.where(~finite & (status == Status.COMPLETED), Status.BLOW_UP, status), Status.BACKWARD),
        solution.stats["num_steps"],
        solution.stats["num_accepted_steps"],
    )


def _status(p: Problem, result: Any, t: Array, y: Array, memory: Any) -> Array:
    """How the solve ended, in our words."""
    early = jnp.where(result == dfx.RESULTS.max_steps_reached, Status.MAX_STEPS, Status.STALLED)
    blown = explodes(p.motion, t - p.plan.t0, t, y, memory)
    early = jnp.where((early == Status.STALLED) & blown, Status.BLOW_UP, early)
    growth = jnp.sum(y * p.motion.rate(t, y, memory), axis=1) / jnp.maximum(sizes(y), jnp.finfo(y.dtype).tiny) ** 2
    arrived = jnp.where(runs_off(p, t, y, growth), Status.BLOW_UP, Status.COMPLETED)
    status = jnp.where(t >= p.plan.t1, arrived, early)
    status = jnp.where(result == dfx.RESULTS.event_occurred, Status.STOPPED, status)
    return jnp.where((status == Status.COMPLETED) & ~p.motion.resolved(y, p.plan.rtol), Status.UNRESOLVED, status)
