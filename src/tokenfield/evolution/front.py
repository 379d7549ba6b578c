"""`evolve`, the one front door."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenfield import _checks as check
from tokenfield._memory import make_room
from tokenfield.attention.base import as_dtype
from tokenfield.errors import InputError, suggest
from tokenfield.evolution.accuracy import reached_accuracy
from tokenfield.evolution.clocks import Clock, clock_named, log_times
from tokenfield.evolution.coalescing import Coalescing
from tokenfield.evolution.diffeq import ADJOINTS, solve
from tokenfield.evolution.ensemble import Slots, march_all
from tokenfield.evolution.members import Ensemble, seeds_of
from tokenfield.evolution.noise import NoisyParticles
from tokenfield.evolution.particles import Particles
from tokenfield.evolution.plan import Plan, begin, motion_of
from tokenfield.evolution.problem import Problem
from tokenfield.evolution.solvers import solver_name
from tokenfield.evolution.until import sees_no_axes
from tokenfield.evolution.walk import walk
from tokenfield.flow import Flow, refuse_non_measures
from tokenfield.measures import Tokens
from tokenfield.summation import Sharded, Span
from tokenfield.trajectory import Provenance, Trajectory


def evolve(
    flow: Any,
    mu0: Any,
    t: Any,
    *,
    save: Any = 100,
    until: Any = None,
    solver: Any = None,
    rtol: Any = None,
    atol: Any = None,
    max_steps: Any = 100_000,
    summation: Any = None,
    coalesce: Any = None,
    clock: Any = None,
    devices: Any = None,
    step: Any = None,
    seed: Any = 0,
    refine: bool = True,
    progress: bool | None = None,
    watch: Callable | None = None,
    adjoint: Any = "reverse",
) -> Trajectory:
    r"""Move a measure along a flow: solve $∂_t μ + \mathrm{div}(μ v_μ) = κ^{-1} Δμ$, where the flow has noise, else without κ.

    Tokens move by $\dot x_i = v_μ(x_i)$, with noise by $dX_i = v_μ(X_i) dt + \sqrt{2/κ}\, dW_i$; `Equiangular` by the
    equation of its cosine, `Gaussian` by those of mean and covariance, densities by their spectral coefficients.

    **Arguments**

    - `flow`, `mu0`: what moves, from where. Under Post-LN a start is first normalized to the sphere. Lists of flows and of
      starts (or one measure with a leading axis, `jax.vmap(tkf.Tokens)(xs)`) are run in all pairs, as one program with
      bounded memory: an ensemble. Its members are alike up to their numbers. All arrays of the result have the axes of the
      batch in front, flows before starts; a member that ends early holds its last state; `run.member(i, j)` is one run.
      Members have noise of their own, and densities keep their number of modes (a member that would need more ends there).
    - `t`: the end time (from 0), or a pair (start, end).
    - `save`: how many states to keep, equally spaced and both ends included; "log" for 100 in equal ratios of time; or an
      increasing array of times.
    - `until`: stop early where `until(t, mu)` turns true, e.g. `until=tkf.collapsed` or your own function written with
      jax.numpy. The time is located inside the step (under jit, grad and vmap: at the end of the step). Give the same
      function object again to reuse the compiled program.
    - `solver`: "tsit5" (for tokens, when left out), "dopri5", "dopri8", "kvaerno5" (implicit), or an adaptive Diffrax
      solver. Densities have "etd4" and noisy tokens "splitting", of weak order 2.
    - `rtol`, `atol`: every step keeps the error of every token below atol + rtol·|x_i|; 1e-6 for tokens (in float32,
      1.2e-5), less for measures of fewer numbers, 1e-3 with noise; atol is rtol/1000.
    - `max_steps`: a run that needs more ends there, with `run.status` and what was computed.
    - `summation`: how sums over tokens are computed, chosen by cost when left out: "dense" (every pair), "circle" and
      "sphere" (O(n), tokens on S¹ and S²), "euclidean" (O(n), d ≤ 3), "span" (fewer tokens than dimensions). Each keeps
      every token's velocity to a tenth of rtol.
    - `coalesce`: a radius, 1e-5 say, within which tokens that have met become one weighted token, on the sphere and under
      `Rescaled`. Such runs reach times like 10³⁰; `run.mergers` says who met when, and `run.x` still has every token.
      Every rtol is at most a tenth of the radius.
    - `clock`: how save counts are spaced: "linear", "log", or, for runs that coalesce, "rescaled": `t` and equal spacing
      are those of s with dt = e^{β(1-c)} ds, c the largest inner product of two groups [rigollet2025, theorem 6].
    - `devices`: deal the rows of dense sums out to several JAX devices: how many, or a list of them.
    - `step`, `seed`: for noisy tokens, the length of steps (adapted to rtol when left out) and the seed of the noise.
    - `refine`: for densities, whether to double the number of modes when the spectrum is no longer resolved; if not, or
      when there would be too many, `run.status` says so.
    - `progress`: a bar on the terminal; None shows one on runs longer than a second, if anyone is watching.
    - `watch`: called as watch(t, mu) at every saved state, while the run goes on.
    - `adjoint`: under jax.grad, "reverse"; under jax.jvp and jacfwd, "forward".

    Compiled once for a shape: other β, starts, times and tolerances reuse the program (with sums in O(n), β that need
    about as many modes). Inside jit, grad and vmap the same call is one differentiable Diffrax solve.

    >>> import tokenfield as tkf
    >>> mu0 = tkf.Tokens.uniform_sphere(n=16, d=3, seed=0)
    >>> run = tkf.evolve(tkf.sa(beta=4.0), mu0, t=10.0, save=50)
    >>> run.x.shape, run.status.name
    ((50, 16, 3), 'COMPLETED')
    >>> betas, starts = [1.0, 4.0, 9.0], [tkf.Tokens.uniform_sphere(n=16, d=3, seed=seed) for seed in range(5)]
    >>> runs = tkf.evolve([tkf.sa(beta) for beta in betas], starts, t=10.0, save=50)
    >>> runs.batch, runs.x.shape, tkf.observe.mean_overlap(runs).shape
    ((3, 5), (3, 5, 50, 16, 3), (3, 5, 50))
    """
    began = time.perf_counter()
    if not check.traced(jnp.zeros(()) + 0.0):  # nobody's trace is under way
        make_room()
    ensemble = Ensemble(flow, mu0) if Ensemble.asked(flow, mu0) else None
    if ensemble is not None:
        if summation == "span" or (summation is None and devices is None and ensemble.spans(until)):
            ensemble, summation = ensemble.turned() if ensemble.spans(until) else ensemble, "dense"
        flow, mu0 = ensemble.first
        summation = "dense" if summation is None else summation  # members are alike, whatever their numbers
    if not isinstance(flow, Flow):
        raise InputError(
            f"evolve(flow, mu0, t) needs a Flow first, e.g. tkf.sa(beta=9.0), but got {type(flow).__name__}."
        )
    refuse_non_measures(mu0)
    clock = clock_named(clock)
    summation = summation if devices is None else _dealt(summation, devices)
    radius = None if coalesce is None else _radius(coalesce, mu0)
    usual = motion_of(flow, mu0).rtol if radius is None else min(motion_of(flow, mu0).rtol, 0.1 * radius)
    rtol, atol = _tolerances(rtol, atol, mu0.dtype, usual)
    motion = begin(as_dtype(flow, mu0.dtype), mu0, summation, seed, rtol)
    dtype = motion.first.dtype
    times = _interval(t)
    plan = Plan(
        t0=jnp.asarray(times[0], dtype),
        t1=jnp.asarray(times[1], dtype),
        ts=jnp.asarray(_save_times(save, times, clock), dtype),
        rtol=jnp.asarray(rtol, dtype),
        atol=jnp.asarray(atol, dtype),
        solver=solver,
        step=check.number("step", step) if check.traced(step) else step,  # which refuses
        summation=summation,
        until=_stop_condition(until),
        strict=bool(refine),
    )
    problem = plan.problem(motion)
    _distinct(problem)
    max_steps = check.whole("max_steps", max_steps, 1, "the most steps that a run may take")
    provenance = Provenance(
        solver=solver_name(problem.solver),
        rtol=rtol,
        atol=atol,
        summation=motion.sums,
        clock=clock,
        origin=getattr(mu0, "origin", None),
        noise=int(seed) if isinstance(motion, NoisyParticles) and not check.traced(seed) else None,
    )
    if not isinstance(adjoint, str) or adjoint not in ADJOINTS:
        raise InputError(f"Unknown adjoint {adjoint!r}. {suggest(adjoint, ADJOINTS)}")
    if radius is None and clock == "rescaled":
        raise InputError("The rescaled clock starts anew at every merger: it needs coalesce=1e-5, say.")
    if ensemble is not None:
        if radius is not None:
            raise InputError(
                "Members of an ensemble cannot coalesce: they would no longer be alike. Evolve them one by one."
            )
        if watch is not None:
            raise InputError(
                "Argument `watch` follows one run, and these are many. Leave it out, or evolve one member."
            )
        return _evolve_all(ensemble, plan, problem, max_steps, progress, provenance, began)
    if _under_transformation(problem):
        if radius is not None:
            raise InputError(
                "Tokens cannot coalesce under jit, grad and vmap: their number changes. Call evolve outside."
            )
        if watch is not None:
            raise InputError("Argument `watch` sees values, and there are none under jit, grad and vmap. Leave it out.")
        solved = solve(problem, max_steps, adjoint)
        states = jax.vmap(motion.measure)(solved.states)
        return Trajectory(
            solved.times, states, flow, solved.reached, solved.status, solved.steps, solved.accepted, provenance
        )
    if radius is not None:
        return _evolve_merging(flow, motion, plan, radius, summation, max_steps, progress, watch, provenance, began)
    times, states, reached, status, steps, accepted = walk(problem, max_steps, progress, watch)
    if isinstance(motion, Particles):
        final, sums = states.take(len(times) - 1), motion.summation
        provenance = dataclasses.replace(provenance, accuracy=reached_accuracy(flow, final, times[-1], sums))
    took = provenance.after(time.perf_counter() - began)
    return Trajectory(times, states, flow, reached, status, steps, accepted, took)


def _evolve_merging(
    flow: Flow,
    motion: Any,
    plan: Plan,
    radius: float,
    summation: Any,
    max_steps: int,
    progress: bool | None,
    watch: Callable | None,
    how: Provenance,
    began: float,
) -> Trajectory:
    """The run of tokens that become one where they meet."""
    blind = motion.basis is None or sees_no_axes(plan.until)
    start = motion.start if blind else motion.measure(motion.first)
    basis, summation = (motion.basis, "dense") if isinstance(motion.summation, Span) and blind else (None, summation)
    ends = np.array([float(plan.t0), float(plan.t1)])
    clock = Clock(how.clock, motion.flow, ends, np.asarray(plan.ts), np.asarray(start.x))
    work = Coalescing(motion.flow, start, plan, clock, radius, summation, max_steps)
    status = work.run(progress, watch)
    times, states, told = np.concatenate(work.times), work.tokens(), work.told if basis is None else "span"
    return Trajectory(
        jnp.asarray(times, plan.ts.dtype),
        states if basis is None else eqx.tree_at(lambda mu: mu.x, states, states.x @ basis),
        flow,
        jnp.asarray(clock.t, plan.ts.dtype),
        jnp.asarray(int(status)),
        jnp.asarray(work.steps),
        jnp.asarray(work.accepted),
        dataclasses.replace(how, summation=told, coalesce=radius, seconds=time.perf_counter() - began),
        mergers=work.ledger.mergers(),
        rescaled=None if clock.coupling is None else jnp.asarray(np.concatenate(work.rescaled), plan.ts.dtype),
    )


def _dealt(summation: Any, devices: Any) -> Sharded:
    if summation not in (None, "dense"):
        raise InputError(f"Only dense sums are dealt out to devices, not {summation!r}. Leave `summation` out.")
    return Sharded(devices)


def _radius(coalesce: Any, mu: Any) -> float:
    if not isinstance(mu, Tokens):
        raise InputError(f"Argument `coalesce` is for Tokens, not for {type(mu).__name__}. Leave it out.")
    radius = check.number("coalesce", coalesce, positive=True)
    least = 20 * float(jnp.finfo(mu.dtype).eps) ** 0.5
    if not least <= radius <= 0.1:
        raise InputError(
            f"Argument `coalesce` must be between {least:.0e} (below that, {mu.dtype} cannot tell distances) and 0.1, but is "
            f"{radius:g}. 1e-5 is a good choice."
        )
    return radius


def _evolve_all(
    ensemble: Ensemble,
    plan: Plan,
    problem: Problem,
    max_steps: int,
    progress: bool | None,
    provenance: Provenance,
    began: float,
) -> Trajectory:
    """Every member's run, as one trajectory with the batch's axes in front."""
    seeds = seeds_of(provenance.noise or 0, len(ensemble))
    if plan.step is not None:
        plan = dataclasses.replace(plan, step=jnp.asarray(plan.step, plan.ts.dtype))
    told, states = march_all(Slots(ensemble, plan, problem, seeds, max_steps), progress)
    told, states = ensemble.shaped((told, ensemble.turned_back(states)))
    noise = None if provenance.noise is None else seeds.tolist()
    sums = provenance.summation if ensemble.basis is None else "span"
    how = dataclasses.replace(
        provenance, summation=sums, origin=ensemble.origin, noise=noise, seconds=time.perf_counter() - began
    )
    return Trajectory(states=states, flow=ensemble.spread(), provenance=how, **told)


def _under_transformation(problem: Problem) -> bool:
    """Inside jit every new array is traced, under grad and vmap those that depend on their arguments."""
    return check.traced(problem) or check.traced(jnp.zeros(()) + 0.0)


def _tolerances(rtol: Any, atol: Any, dtype: Any, usual: float) -> tuple[float, float]:
    least = 50 * float(jnp.finfo(dtype).eps)
    rtol = max(usual, 2 * least) if rtol is None else check.number("rtol", rtol, positive=True)
    if rtol < least:
        raise InputError(f"Argument `rtol` must be at least {least:.1e} in {dtype}, but is {rtol:g}.")
    return rtol, rtol / 1000 if atol is None else check.number("atol", atol, positive=True)


def _interval(t: Any) -> Any:
    """Start and end times as one array, from an end time or a pair."""
    pair = t if isinstance(t, tuple | list) and len(t) == 2 else None
    if pair is not None and check.traced(pair):
        return jnp.stack([check.scalar("t", part) for part in pair])
    times = check.real_array("t", t, like="an end time or a pair (start, end)")
    if times.shape not in ((), (2,)):
        raise InputError(f"Argument `t` must be an end time or a pair (start, end), but has shape {times.shape}.")
    if times.ndim == 0:
        check.finite("t", times)
        times = times * np.array([0.0, 1.0], times.dtype) + 0.0
    if not check.traced(times):
        check.finite("t", times)
        if not times[0] < times[1]:
            raise InputError(
                f"Time must run forward, from start {times[0]:g} to a later end, but the end is {times[1]:g}. "
                "(Backward in time the flow is ill-posed: clusters would have to come apart.)"
            )
    return times


def _save_times(save: Any, times: Any, clock: str) -> Any:
    if isinstance(save, str):
        if save != "log":
            raise InputError(f"Argument `save` must be a count, an array of times or 'log', but is {save!r}.")
        save, clock = 100, "log"
    if clock == "log" and isinstance(save, int | np.integer):
        if check.traced(times):
            raise InputError("Logarithmic save times need an end time that is known. Give an array of times instead.")
        return times[0] + log_times(times[1] - times[0], int(save))
    if isinstance(save, int | np.integer) and not isinstance(save, bool):
        count = check.whole("save", save, 1, "how many states to keep")
        share = np.linspace(0, 1, count) if count > 1 else np.ones(1)
        return times[0] * (1 - share) + times[1] * share  # exact at both ends
    ts = check.real_array("save", save, like="a count or an increasing array of times")
    if ts.ndim != 1 or len(ts) == 0:
        raise InputError(f"Argument `save` must be a count or a one-dimensional array of times, not shape {ts.shape}.")
    if not check.traced((ts, times)):
        check.finite("save", ts)
        values = np.asarray(ts)
        if np.any(np.diff(values) <= 0):
            raise InputError("Argument `save` must hold strictly increasing times. Sort them: np.unique(times).")
        if values[0] < times[0] or values[-1] > times[1]:
            raise InputError(
                f"Argument `save` must lie in [start, end] = [{times[0]:g}, {times[1]:g}], but spans "
                f"[{values[0]:g}, {values[-1]:g}]."
            )
    return ts


def _distinct(problem: Problem) -> None:
    """Times must still differ after they were rounded to the tokens' precision."""
    if check.traced(problem):
        return
    times = np.unique(np.concatenate([np.asarray(problem.ts), np.asarray([problem.t0, problem.t1])]))
    if not problem.t0 < problem.t1 or len(np.unique(np.asarray(problem.ts))) < len(problem.ts):
        raise InputError(
            f"Times between {times[0]:.9g} and {times[-1]:.9g} are too close together for {problem.ts.dtype}. "
            "Start nearer to 0, save fewer states, or use float64 tokens."
        )


def _stop_condition(until: Any) -> Any:
    if until is not None and not callable(until):
        raise InputError(f"Argument `until` must be a function of (t, mu), e.g. tkf.collapsed, but is {until!r}.")
    return until
