"""The same problem as one Diffrax solve, for use under jit, grad and vmap."""

from typing import NamedTuple

import diffrax as dfx
import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from tokenfield.evolution.problem import Problem, explodes
from tokenfield.status import Status

ADJOINTS = {"reverse": dfx.RecursiveCheckpointAdjoint, "forward": dfx.ForwardMode}


class Solved(NamedTuple):
    times: Float[Array, " T"]
    states: Float[Array, "T n k"]
    reached: Float[Array, ""]
    status: Int[Array, ""]
    steps: Int[Array, ""]
    accepted: Int[Array, ""]


@eqx.filter_jit
def solve(problem: Problem, max_steps: int, adjoint: str) -> Solved:
    """All save times at once. A run that ends early holds its last state from there on, so that no NaN leaves."""
    t0 = eqx.error_if(problem.t0, ~(problem.t0 < problem.t1), "Time must run forward, from a start to a later end.")
    p = eqx.tree_at(lambda p: p.t0, problem, t0)
    read = lambda t, y, args: (t, y)
    memory = p.motion.remember(p.t0, p.motion.first, None)
    event = None if p.until is None else dfx.Event(lambda t, y, args, **kwargs: p.stops(t, y))
    solution = dfx.diffeqsolve(
        p.term,
        p.solver,
        p.t0,
        p.t1,
        None,
        p.motion.first,
        args=memory,
        saveat=dfx.SaveAt(subs=[dfx.SubSaveAt(ts=p.ts, fn=read), dfx.SubSaveAt(t1=True, fn=read)]),
        stepsize_controller=p.control,
        max_steps=max_steps,
        adjoint=ADJOINTS[adjoint](),
        event=event,
        throw=False,
    )
    assert solution.ys is not None
    (_, states), (last_t, last) = solution.ys
    t, y = last_t[0], jnp.where(jnp.all(jnp.isfinite(last)), last[0], p.motion.first)
    reached = (p.ts <= t)[:, None, None] & jnp.isfinite(states)
    early = jnp.where(solution.result == dfx.RESULTS.max_steps_reached, Status.MAX_STEPS, Status.STALLED)
    early = jnp.where((early == Status.STALLED) & explodes(p, t, y, memory), Status.BLOW_UP, early)
    stopped = solution.result == dfx.RESULTS.event_occurred
    status = jnp.where(stopped, Status.STOPPED, jnp.where(t >= p.t1, Status.COMPLETED, early))
    status = jnp.where((status == Status.COMPLETED) & ~p.motion.resolved(y), Status.UNRESOLVED, status)
    return Solved(
        jnp.minimum(p.ts, t),
        jnp.where(reached, states, y),
        t,
        jnp.where(p.motion.healthy(memory), status, Status.UNSOLVED),
        solution.stats["num_steps"],
        solution.stats["num_accepted_steps"],
    )
