"""The solver's walk, a few steps at a time.

Diffrax supplies the Runge–Kutta steps, their interpolants and the PID control; this loop strings them together so that
between two pieces Python can show progress, hand over states, and stop on Ctrl-C with everything that was computed.
It has no host callbacks, so that JAX can keep the compiled program in its persistent cache (a whole `diffeqsolve`
cannot be kept there). `diffeq.py` runs the same problem as one traced Diffrax solve, for gradients and batches.
"""

import signal
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import diffrax as dfx
import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from tokenfield.evolution.problem import Problem, explodes
from tokenfield.evolution.progress import Progress
from tokenfield.status import Status

PIECE_SECONDS = 0.2
"""A piece of the walk is as many steps as take about this long."""


class Walker(eqx.Module):
    """Where a walk stands: everything that the next step needs, and the states saved so far."""

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
    states: Float[Array, "T n k"]
    status: Int[Array, ""]


@eqx.filter_jit
def _begin(problem: Problem) -> Walker:
    p, y0 = problem, problem.motion.first
    memory = p.motion.remember(p.t0, y0, None)
    solver_state = p.solver.init(p.term, p.t0, p.t1, y0, memory)
    tnext, control_state = p.control.init(p.term, p.t0, p.t1, y0, None, memory, p.solver.func, _error_order(p))
    stopped = jnp.where(p.stops(p.t0, y0), Status.STOPPED, Status.RUNNING)
    return Walker(
        t=p.t0,
        tnext=_clip(p, tnext),
        y=y0,
        memory=memory,
        jumped=jnp.asarray(False),
        solver_state=solver_state,
        control_state=control_state,
        steps=jnp.asarray(0),
        accepted=jnp.asarray(0),
        saved=jnp.sum(p.ts <= p.t0),
        states=jnp.zeros((len(p.ts), *y0.shape), y0.dtype).at[0].set(y0),
        status=jnp.where(p.motion.healthy(memory), stopped, Status.UNSOLVED),
    )


@eqx.filter_jit(donate="all-except-first")
def _advance(problem_and_limit: tuple[Problem, Array], walker: Walker) -> Walker:
    """Steps until the end, the step limit, the stop condition, or failure."""
    problem, limit = problem_and_limit
    return lax.while_loop(
        lambda now: (now.status == Status.RUNNING) & (now.steps < limit), lambda now: _step(problem, now), walker
    )


def _step(p: Problem, now: Walker) -> Walker:
    y, error, dense, solver_state, solved = p.solver.step(
        p.term, now.t, now.tnext, now.y, now.memory, now.solver_state, now.jumped
    )
    keep, t, tnext, jumped, control_state, controlled = p.control.adapt_step_size(
        now.t, now.tnext, now.y, y, now.memory, error, _error_order(p), now.control_state
    )
    keep = keep & (solved == dfx.RESULTS.successful)
    kept = lambda new, old: jax.tree.map(lambda a, b: jnp.where(keep, a, b), new, old)
    y, solver_state, t = kept(y, now.y), kept(solver_state, now.solver_state), kept(t, now.t)

    interpolant = p.solver.interpolation_cls(t0=now.t, t1=now.tnext, **dense)
    stopped = keep & p.stops(t, y)
    if p.until is not None:
        t, y = lax.cond(stopped, lambda: _locate(p, interpolant, now.t, now.tnext), lambda: (t, y))
    saved, states = _save(p, interpolant, keep, t, now.saved, now.states)
    memory = p.motion.remember(t, y, now.memory)

    failed = [
        (p.motion.healthy(memory), Status.UNSOLVED),
        (p.motion.resolved(y) | (not p.strict), Status.UNRESOLVED),
        (controlled == dfx.RESULTS.successful, Status.STALLED),
    ]
    status = jnp.where(stopped, Status.STOPPED, jnp.where(t >= p.t1, Status.COMPLETED, Status.RUNNING))
    for fine, name in failed:
        status = jnp.where((status == Status.RUNNING) & ~fine, name, status)
    return Walker(
        t=t,
        tnext=_clip(p, jnp.maximum(tnext, t)),
        y=y,
        memory=memory,
        jumped=kept(jnp.asarray(jumped), now.jumped),
        solver_state=solver_state,
        control_state=control_state,
        steps=now.steps + 1,
        accepted=now.accepted + keep,
        saved=saved,
        states=states,
        status=status,
    )


def _error_order(p: Problem) -> Any:
    return p.solver.error_order(p.term)


def _clip(p: Problem, tnext: Any) -> Array:
    """The last step ends at t1; a sliver that would remain is taken with it."""
    return jnp.where(tnext > p.t1 - 1e-10 * (p.t1 - p.t0), p.t1, tnext)


def _save(p: Problem, interpolant, keep: Any, t: Array, saved: Array, states: Array) -> tuple[Array, Array]:
    """Write the states at the save times that this step has passed."""

    def due(carry):
        return keep & (carry[0] < len(p.ts)) & (p.ts[jnp.minimum(carry[0], len(p.ts) - 1)] <= t)

    def write(carry):
        saved, states = carry
        return saved + 1, states.at[saved].set(interpolant.evaluate(p.ts[saved]))

    return lax.while_loop(due, write, (saved, states))


def _locate(p: Problem, interpolant, before: Array, after: Array) -> tuple[Array, Array]:
    """The time in (before, after] at which the stop condition turns true, by bisection on the step's interpolant."""

    def halve(_, bracket):
        low, high = bracket
        middle = 0.5 * (low + high)
        hit = p.stops(middle, interpolant.evaluate(middle))
        return jnp.where(hit, low, middle), jnp.where(hit, middle, high)

    _, t = lax.fori_loop(0, 50, halve, (before, after))
    return t, interpolant.evaluate(t)


def march(problem: Problem, max_steps: int, progress: bool | None, watch: Callable | None) -> Walker:
    """Walk to the end, in pieces. Returns the walker as it stands when the walk ends, for whatever reason."""
    walker = _begin(problem)
    t0, t1 = float(problem.t0), float(problem.t1)
    steps, piece, seen = 0, 4, 0
    with _ctrl_c() as interrupted, Progress(progress, "evolving") as bar:
        while True:
            seen = _tell(problem, walker, seen, watch)
            if int(walker.status) != Status.RUNNING or steps >= max_steps or interrupted():
                break
            began = time.perf_counter()
            limit = jnp.asarray(min(steps + piece, max_steps))
            walker = jax.block_until_ready(_advance((problem, limit), walker))
            took = time.perf_counter() - began
            piece = max(1, int(piece * min(4.0, max(0.25, PIECE_SECONDS / took))))
            steps = int(walker.steps)
            bar.update((float(walker.t) - t0) / (t1 - t0), f"t = {float(walker.t):.4g}, {steps} steps")
    status = Status(int(walker.status))
    if status is Status.COMPLETED and not bool(problem.motion.resolved(walker.y)):
        status = Status.UNRESOLVED
    if status is Status.RUNNING:
        status = Status.MAX_STEPS if steps >= max_steps else Status.INTERRUPTED
    if status is Status.STALLED and bool(explodes(problem, walker.t, walker.y, walker.memory)):
        status = Status.BLOW_UP
    return eqx.tree_at(lambda w: w.status, walker, jnp.asarray(int(status)))


def _tell(problem: Problem, walker: Walker, seen: int, watch: Callable | None) -> int:
    """Hand newly saved states to the watcher."""
    if watch is None:
        return seen
    saved = int(walker.saved)
    for i in range(seen, saved):
        watch(float(problem.ts[i]), problem.motion.measure(walker.states[i]))
    return saved


@contextmanager
def _ctrl_c():
    """While the walk goes on, the first Ctrl-C asks it to stop at the next piece; the second one is obeyed at once."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def ask(signum, frame):
        asked.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)
