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

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from tokenfield.evolution.problem import Problem, explodes
from tokenfield.evolution.progress import Progress
from tokenfield.evolution.step import Walker, arrive, attempt, due, locate, snapshot, start
from tokenfield.status import Status

PIECE_SECONDS = 0.2
"""A piece of the walk is as many steps as take about this long."""


@eqx.filter_jit
def _begin(problem: Problem) -> tuple[Walker, Array]:
    y0 = problem.motion.first
    return start(problem), jnp.zeros((len(problem.ts), *y0.shape), y0.dtype).at[0].set(y0)


@eqx.filter_jit(donate="all-except-first")
def _advance(problem_and_limit: tuple[Problem, Array], walk: tuple[Walker, Array]) -> tuple[Walker, Array]:
    """Steps until the end, the step limit, the stop condition, or failure."""
    problem, limit = problem_and_limit
    return lax.while_loop(
        lambda walk: (walk[0].status == Status.RUNNING) & (walk[0].steps < limit),
        lambda walk: _step(problem, *walk),
        walk,
    )


def _step(p: Problem, now: Walker, states: Array) -> tuple[Walker, Array]:
    step = attempt(p, now)
    if p.pauses:
        t, y = lax.cond(step.stopped, lambda: locate(p, now, step), lambda: (step.t, step.y))
        step = eqx.tree_at(lambda step: (step.t, step.y), step, (t, y))
    saved, states = lax.while_loop(
        lambda album: due(p, step, album[0]),
        lambda album: (album[0] + 1, album[1].at[album[0]].set(snapshot(p, now, step, album[0]))),
        (now.saved, states),
    )
    return arrive(p, now, step, saved), states


def march(
    problem: Problem, max_steps: int, progress: bool | None, watch: Callable | None
) -> tuple[Walker, Float[Array, "T n k"]]:
    """Walk to the end, in pieces. The walker as it stands when the walk ends, for whatever reason, and the states saved."""
    t0, t1 = float(problem.t0), float(problem.t1)
    with ctrl_c() as interrupted, Progress(progress, "evolving") as bar:
        report = lambda walker: bar.update(
            (float(walker.t) - t0) / (t1 - t0), f"t = {float(walker.t):.4g}, {int(walker.steps)} steps"
        )
        return pursue(problem, max_steps, interrupted, report, watch)


def pursue(
    problem: Problem, max_steps: int, interrupted: Callable, report: Callable, watch: Callable | None
) -> tuple[Walker, Float[Array, "T n k"]]:
    """The same for callers with a progress bar of their own."""
    walker, states = _begin(problem)
    steps, stride, seen = 0, Stride(), 0
    while True:
        seen = _tell(problem, walker, states, seen, watch)
        if int(walker.status) != Status.RUNNING or steps >= max_steps or interrupted():
            break
        with stride:
            limit = jnp.asarray(min(steps + stride.piece, max_steps))
            walker, states = jax.block_until_ready(_advance((problem, limit), (walker, states)))
        steps = int(walker.steps)
        report(walker)
    status = ending(int(walker.status), steps >= max_steps)
    if status is Status.STALLED and bool(explodes(problem, walker.t, walker.y, walker.memory)):
        status = Status.BLOW_UP
    return eqx.tree_at(lambda w: w.status, walker, jnp.asarray(int(status))), states


def ending(code: int, worn_out: bool) -> Status:
    """How a walk ended that is over: one that would still run has used up its steps, or was interrupted."""
    status = Status(code)
    if status is not Status.RUNNING:
        return status
    return Status.MAX_STEPS if worn_out else Status.INTERRUPTED


class Stride:
    """How many steps make a piece of about PIECE_SECONDS, learnt from the last one: `with stride: walk(stride.piece)`. A
    piece that ended before its time says how many steps it `did`."""

    def __init__(self) -> None:
        self.piece, self.did, self.took, self.began = 4, 4, 0.0, 0.0

    def __enter__(self) -> "Stride":
        self.did, self.began = self.piece, time.perf_counter()
        return self

    def __exit__(self, *_: Any) -> None:
        self.took = time.perf_counter() - self.began
        self.piece = max(1, int(self.did * min(4.0, max(0.25, PIECE_SECONDS / self.took))))


def _tell(problem: Problem, walker: Walker, states: Array, seen: int, watch: Callable | None) -> int:
    """Hand newly saved states to the watcher."""
    if watch is None:
        return seen
    saved = int(walker.saved)
    for i in range(seen, saved):
        watch(float(problem.ts[i]), problem.motion.measure(states[i]))
    return saved


@contextmanager
def ctrl_c():
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
