"""`evolve`, the one front door."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import diffrax as dfx
import jax
import numpy as np

from tokenfield import _checks as check
from tokenfield._compile import make_room
from tokenfield._front import front_door
from tokenfield._types import Number, Numbers, no_type_check
from tokenfield.errors import InputError
from tokenfield.evolution.coordinates import coordinates_for
from tokenfield.evolution.drivers import driver_for
from tokenfield.evolution.ensemble import Everyone, seeds_of
from tokenfield.evolution.observables import Observable
from tokenfield.evolution.outcome import Outcome
from tokenfield.evolution.solvers import SOLVERS, solver_name
from tokenfield.evolution.task import Options, Task, Until, Watch, read
from tokenfield.flow import Flow
from tokenfield.measures import AbstractMeasure
from tokenfield.summation import AbstractSummation
from tokenfield.trajectory import Provenance, Trajectory

M = TypeVar("M", bound=AbstractMeasure)


@front_door
@no_type_check
def evolve(  # noqa: PLR0913
    flow: Flow | Sequence[Flow],
    mu0: M | Sequence[M] | Trajectory[M],
    t: Number | tuple[Number, Number] | Sequence[float],
    *,
    save: int | str | Numbers = 100,
    until: Until | None = None,
    solver: str | dfx.AbstractSolver[Any] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    max_steps: int = 100_000,
    summation: str | AbstractSummation | None = None,
    coalesce: float | None = None,
    clock: str | None = None,
    devices: int | Sequence[Any] | None = None,
    step: Number | None = None,
    seed: int | jax.Array | Sequence[int] | None = None,
    refine: bool | None = None,
    progress: bool | None = None,
    watch: Watch | None = None,
    adjoint: str | None = None,
    observe: Observable | Sequence[Observable] | Mapping[str, Observable] | None = None,
    zipped: bool = False,
) -> Trajectory[M]:
    r"""Move a measure along a flow: solve $∂_t μ + \mathrm{div}(μ v_μ) = κ^{-1} Δμ$, where the flow has noise, else without κ.

    Tokens move by $\dot x_i = v_μ(x_i)$, with noise by $dX_i = v_μ(X_i) dt + \sqrt{2/κ}\, dW_i$; `Equiangular` by the
    equation of its cosine, `Gaussian` by those of mean and covariance, densities by their spectral coefficients.

    **Arguments**

    - `flow`, `mu0`: what moves, from where. Under Post-LN a start is first normalized to the sphere. Lists of flows and of
      starts (or one measure with a leading axis, `jax.vmap(tkf.Tokens)(xs)`) are run in all pairs: an ensemble. Members that
      are alike up to their numbers share one program with bounded memory, others have programs of their own; tokens may differ
      in number, and those that are missing then have weight 0. All arrays of the result have the axes of the batch in front,
      flows before starts; a member that ends early holds its last state; `run[i, j]` is one run. Members have noise of their
      own, and densities keep their number of modes (a member that would need more ends there). In the place of `mu0` may stand
      a run, which then goes on from its last state; `run.extend(t)` has both stretches.
    - `t`: the end time (from 0, or from where a run that goes on had ended), or a pair (start, end).
    - `zipped`: whether flow i runs from start i only, instead of all pairs.
    - `observe`: what to keep instead of states: a function of a measure written with jax.numpy such as
      `tkf.observe.mean_overlap`, its name, a list of these, or a dict with names of your own. `run.observed` has them along
      time, and `run.final` is still there.
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
    - `progress`: a bar on the terminal; None shows one on runs longer than a second, if anyone is watching.
    - `watch`: called as watch(t, mu) at every saved state, while the run goes on.
    - `adjoint`: how derivatives are taken, if anyone takes them: "reverse" (when left out) for jax.grad, "forward" for jax.jvp
      and jacfwd.

    For tokens:

    - `summation`: how sums over tokens are computed, chosen by cost when left out: "dense" (every pair), "circle" and
      "sphere" (O(n), tokens on S¹ and S²), "euclidean" (O(n), d ≤ 3); "span" for dense sums in coordinates of the tokens'
      span (fewer tokens than dimensions). Each keeps every token's velocity to a tenth of rtol.
    - `devices`: deal the rows of dense sums out to several JAX devices: how many, or a list of them.
    - `coalesce`: a radius, 1e-5 say, within which tokens that have met become one weighted token, on the sphere and under
      `Rescaled`. Such runs reach times like 10³⁰; `run.mergers` says who met when, and `run.x` still has every token.
      Errors are then small against distances of up to 256 tokens too; when left out, rtol is at most a tenth of the radius, and
      1e-8 for so few. Members of ensembles have mergers of their own. Under a causal mask neighbours in position become one where
      attention is a plain sum, `Causal(Unnormalized(beta))`; others part again, and are refused.
    - `clock`: how save counts are spaced: "linear", "log", or, for runs that coalesce, "rescaled": `t` and equal spacing
      are those of s with dt = e^{β(1-c)} ds, c the largest inner product of two groups [rigollet2025, theorem 6].
    - `step`, `seed`: with noise, the length of steps (adapted to rtol when left out) and the seed of the noise (0). With steps
      that adapt, a seed is a Brownian path that does not depend on steps and save times; with `step`, it is drawn step by step.
      Members of an ensemble have seeds that follow from one, or are a list of their own.

    For densities:

    - `refine`: whether to double the number of modes when the spectrum is no longer resolved (yes, when left out); if not, or
      when there would be too many, `run.status` says so.

    An option that what moves cannot use is refused.

    **Returns** a `Trajectory` of the kind of measure that was given.

    **Raises** `InputError` where something does not fit. A run that blows up, stalls or is interrupted raises nothing: it says
    so in `run.status` and keeps what was computed.

    Compiled once for a shape: other β, starts, times, tolerances and numbers of saved states reuse the program (with sums in
    O(n), β that need about as many modes). Inside jit, grad and vmap the same call is one differentiable Diffrax solve.

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
    options = Options(
        save=save,
        until=until,
        solver=solver,
        rtol=rtol,
        atol=atol,
        max_steps=max_steps,
        summation=summation,
        coalesce=coalesce,
        clock=clock,
        devices=devices,
        step=step,
        seed=seed,
        refine=refine,
        progress=progress,
        watch=watch,
        adjoint=adjoint,
        observe=observe,
    )
    if isinstance(mu0, Trajectory):
        flow, mu0, t, options, zipped = _going_on(flow, mu0, t, options, zipped)
    everyone = Everyone.read(flow, mu0, zipped)
    if everyone is None:
        task, outcome = _carried_out(read(flow, mu0, t, options))
    else:
        done = [_carried_out(read(flow, mu0, t, options, group)) for group in everyone.groups]
        task, outcome = done[0][0], everyone.together([outcome for _, outcome in done])
    run = _trajectory(task, outcome, flow, mu0, everyone, time.perf_counter() - began)
    if not task.traced:
        run.warn_unfinished()
    return run


def _carried_out(task: Task) -> tuple[Task, Outcome]:
    """Choose coordinates, and hand the task to its driver."""
    if not task.traced:
        make_room()
    coordinates = coordinates_for(task)
    task = coordinates.into(task)
    return task, coordinates.back(driver_for(task)(task))


def _trajectory(
    task: Task, outcome: Outcome, flow: Any, mu0: Any, everyone: Everyone | None, seconds: float
) -> Trajectory:
    """The run that came of a task: the one place where a trajectory is made."""
    dtype = task.start.dtype
    seeded = "seed" in task.kind.options and not check.traced(task.seed)
    provenance = Provenance(
        solver=solver_name(task.plan.solver),
        rtol=task.rtol,
        atol=task.atol,
        summation=outcome.summation,
        origin=mu0.origin if everyone is None else everyone.origin,
        step=None if task.plan.step is None or check.traced(task.plan.step) else float(task.plan.step),
        noise=(int(task.seed) if outcome.seeds is None else outcome.seeds) if seeded else None,
        coalesce=task.radius,
        clock=task.clock,
        accuracy=outcome.accuracy,
        axes=() if everyone is None else everyone.axes,
        seconds=float("nan") if task.traced else seconds,
    )
    whole = lambda value: value if isinstance(value, jax.Array) else check.on_device(np.asarray(value))
    return Trajectory(
        times=_real(outcome.times, dtype),
        states=outcome.states,
        flow=flow if everyone is None else everyone.flow(),
        reached=_real(outcome.reached, dtype),
        code=whole(outcome.code),
        steps=whole(outcome.steps),
        accepted=whole(outcome.accepted),
        provenance=provenance,
        mergers=outcome.mergers,
        rescaled=None if outcome.rescaled is None else _real(outcome.rescaled, dtype),
        observed=None if outcome.observed is None else {k: whole(v) for k, v in outcome.observed.items()},
    )


def _real(value: Any, dtype: Any) -> jax.Array:
    return value if isinstance(value, jax.Array) else check.on_device(np.asarray(value, dtype))


def _going_on(
    flow: Any, run: Trajectory, t: Any, options: Options, zipped: bool
) -> tuple[Any, Any, Any, Options, bool]:
    """The arguments of `evolve` that continue a run: from its last state, at the time that it reached."""
    if run.provenance.noise is not None and options.seed is None and not run.batch:
        options = dataclasses.replace(options, **_noise_of(run, options.step))
    run.refuse_unfinished()
    if run.batch:
        raise InputError("A batch of runs goes on with runs.extend(t), every member with its own flow.")
    return flow, run.last(), _from(float(run.reached), t), options, zipped


def _noise_of(run: Trajectory, step: Any) -> dict[str, Any]:
    """The seed with which the same noise goes on. That of steps of a given length has numbers instead of times: they go on, too,
    unless steps had another length, where it is other noise."""
    seed, before = run.provenance.noise, run.provenance.step
    if step is None:
        return {"seed": seed}
    alike = before is not None and not check.traced(step) and before == float(step)
    return {"seed": seed, "taken": int(run.accepted)} if alike else {"seed": int(seeds_of(seed + 1, 1)[0])}


def _from(reached: float, t: Any) -> Any:
    """An interval that begins where a run ended, from its end."""
    if isinstance(t, tuple | list) or np.ndim(t) > 0:
        raise InputError(f"A run goes on from where it ended, t = {reached:g}: give the end time alone.")
    end = check.number("t", t)
    if not end > reached:
        raise InputError(f"The run has reached t = {reached:g} already: it goes on to a later time than t = {end:g}.")
    return reached, end


def extended(run: Trajectory[M], t: Number, save: Any, options: dict[str, Any]) -> Trajectory[M]:
    """The whole run after it went on to a later time, by its own flow and solver; of a batch, every member."""
    flow = run.own_flow
    if flow is None and not run.batch:
        raise InputError("The run does not know its flow, with which it would go on: use evolve(flow, run, t).")
    how = run.provenance
    if how.solver == "layers":
        raise InputError(
            "Layers do not go on in time. Apply more of them to the last state: layers(flow, run.final, depth)."
        )
    if how.clock == "rescaled":
        raise InputError("A run in the rescaled clock does not go on: its end is no time. Evolve it anew, for longer.")
    if run.batch:
        return run.of_members([extended(run.member(*index), t, save, options) for index in np.ndindex(*run.batch)])
    if how.coalesce is not None and "coalesce" not in options:
        options = {**options, "coalesce": how.coalesce}
    if save is None:
        spacing = float(run.times[-1] - run.times[-2]) if len(run) > 1 else float("inf")
        save = _as_dense(check.number("t", t) - float(run.reached), spacing)
    step = {} if how.step is None else {"step": how.step}
    known: dict[str, Any] = {"rtol": how.rtol} | (step or ({} if "step" in options else {"atol": how.atol}))
    if how.solver in (*SOLVERS, "etd4", "splitting"):
        known["solver"] = how.solver
    if run.observed is not None and "observe" not in options:
        raise InputError("The run kept observables. Say which go on: run.extend(t, observe=...), the same as before.")
    assert flow is not None
    more = evolve(flow, run, t, **{"save": save, **known, **options})
    return run.followed_by(more)


def _as_dense(length: float, spacing: float) -> int:
    """How many states a stretch of time has that are so far apart."""
    count = length / spacing
    if not count < 2**31:
        raise InputError(
            f"States {spacing:g} apart, as the run has them, would be {count:.3g} until its new end. Say how many: save=100."
        )
    return max(2, 1 + round(count))


def state_at(run: Trajectory[M], t: Number) -> M:
    """The state of a run at any of its times, to the run's own accuracy: between saved times the flow is solved again from the
    last one before."""
    if run.batch:
        return run.stacked([state_at(run.member(*index), t) for index in np.ndindex(*run.batch)])
    times, end = np.asarray(run.times), float(run.reached)
    t = float(np.asarray(check.number("t", t), times.dtype))
    if not times[0] <= t <= end:
        raise InputError(f"The run has t in [{times[0]:g}, {end:g}], but was asked for t = {t:g}.")
    before = int(np.searchsorted(times, t, side="right")) - 1
    if times[before] == t:
        return run[before]
    how = run.provenance
    if how.noise is not None:
        raise InputError(
            f"t = {t:g} is not a saved time, and noise is not drawn twice alike between saved times. Save that time too: "
            "evolve(..., save=times)."
        )
    if run.own_flow is None or how.solver not in (*SOLVERS, "etd4"):
        raise InputError(
            f"t = {t:g} is not a saved time, and the run does not know its flow and solver to solve it again. "
            f"The nearest saved times are {times[before]:g} and {times[min(before + 1, len(times) - 1)]:g}."
        )
    again = evolve(
        run.own_flow,
        run[before],
        (times[before], t),
        save=1,
        solver=how.solver,
        rtol=how.rtol,
        atol=how.atol,
        max_steps=100_000 + 2 * int(run.steps),
        coalesce=how.coalesce,
    )
    if not again.status.ok:
        raise InputError(f"The state at t = {t:g} could not be computed: {again.message}")
    return again.final
