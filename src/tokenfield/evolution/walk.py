"""A whole walk: what was saved, where it ended, and more modes for densities that need them."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tokenfield.evolution.march import march
from tokenfield.evolution.problem import Problem
from tokenfield.evolution.step import Walker
from tokenfield.measures import AbstractDensity, AbstractMeasure
from tokenfield.status import Status


def walk(problem: Problem, max_steps: int, progress: bool | None, watch: Callable | None) -> tuple[Any, ...]:
    """Times and states that were saved, where the walk ended and how, its steps and those accepted. A density that its
    modes no longer resolve goes on with more, from where it stands."""
    walker, rows = march(problem, max_steps, progress, watch)
    saved, states = _computed(problem, walker, rows)
    account = saved, states, walker.t, walker.status, walker.steps, walker.accepted
    finer = problem.motion.finer(walker.y) if int(walker.status) == Status.UNRESOLVED and problem.strict else None
    left = max_steps - int(walker.steps)
    if finer is None or not isinstance(states, AbstractDensity) or left < 1 or not walker.t < problem.t1:
        return account
    rest = problem.ts > walker.t
    again = dataclasses.replace(problem, motion=finer, t0=walker.t, ts=jnp.append(walker.t, problem.ts[rest]))
    start = float(walker.t)
    unseen = None if watch is None else lambda t, mu: watch(t, mu) if t > start else None
    times, later, reached, status, steps, accepted = walk(again, left, progress, unseen)
    kept = saved <= problem.ts[int(walker.saved) - 1] if int(walker.saved) else np.zeros(len(saved), bool)
    before = jax.vmap(lambda c: states.basis.resize(c, later.degree))(states.coefficients[np.asarray(kept)])
    joined = later.at(jnp.concatenate([before, later.coefficients[1:]]))
    return (
        jnp.append(saved[np.asarray(kept)], times[1:]),
        joined,
        reached,
        status,
        walker.steps + steps,
        walker.accepted + accepted,
    )


def _computed(problem: Problem, walker: Walker, rows: Array) -> tuple[Array, AbstractMeasure]:
    """The saved part of a walk; a walk that ended between two save times adds the state that it reached."""
    count, reached = int(walker.saved), float(walker.t)
    times, states = np.asarray(problem.ts)[:count], rows[:count]
    if Status(int(walker.status)) is not Status.COMPLETED and (count == 0 or times[-1] < reached):
        times, states = np.append(times, reached), jnp.concatenate([states, walker.y[None]])
    return jnp.asarray(times), jax.vmap(problem.motion.measure)(states)
