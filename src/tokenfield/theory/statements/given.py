"""What statements ask of the inputs they are given, and what they need to know of them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.errors import InputError


def flow_of(run: tkf.Trajectory) -> tkf.Flow:
    """The flow of a run; refused where it is not known, or is not one."""
    if run.batch:
        raise InputError(
            "This statement is about one run, but these are many. Check each: statement.over(runs), or a member."
        )
    flow = run.own_flow
    if flow is None:
        raise InputError(
            "This statement needs a run that knows its flow: evolve makes one, Trajectory.from_states(..., flow=) takes one."
        )
    return flow


def tokens_of(run: tkf.Trajectory) -> tkf.Trajectory[tkf.Tokens]:
    """A run of tokens; refused where it is of another kind, or has kept no states."""
    if run.observed is not None or not isinstance(run.states, tkf.Tokens):
        raise InputError(
            f"This statement needs a run of Tokens with its states, but got one of {type(run.states).__name__}"
            f"{'' if run.observed is None else ' that kept observables instead'}."
        )
    return run


def mergers_of(run: tkf.Trajectory) -> Any:
    """The mergers of a run; refused where tokens do not merge."""
    if run.mergers is None:
        raise InputError("This statement needs a run whose tokens merge: evolve(..., coalesce=1e-5).")
    return run.mergers


def attracting(flow: tkf.Flow) -> bool:
    """Whether this is (SA) or (USA): no matrices but positive multiples of the identity, β ≥ 0, on the sphere, and nothing else."""
    known = flow.coupling_if_any()
    plain = flow.mlp is None and flow.reweighting is None and flow.kappa is None
    sphere = plain and flow.normalization.tangential and flow.normalization.timeless
    return sphere and known is not None and bool(known.beta >= 0) and bool(known.V > 0)


def noise_of(flow: tkf.Flow) -> float:
    """κ of a flow; infinite where it has no noise."""
    return np.inf if flow.kappa is None else float(flow.kappa)


def contraction(flow: tkf.Flow) -> float:
    """The rate at which two tokens near the common cluster approach each other: V for SA, V e^β for USA."""
    known = flow.coupling()
    return float(known.V * (np.exp(known.beta - known.log_unit) if known.kind == "usa" else 1.0))


def diameters(run: tkf.Trajectory) -> np.ndarray:
    """The largest distance between two tokens, at every saved time."""
    x = np.asarray(tokens_of(run).x)
    return np.array([max(np.linalg.norm(points - point, axis=1).max() for point in points) for points in x])


def solved(run: tkf.Trajectory) -> float:
    """How far a contracting flow may be from the exact one at the end of a run: each of its steps errs by at most rtol."""
    how = run.provenance
    return float(int(run.accepted) * (how.rtol + how.atol) + (how.coalesce or 0.0))


SOLVED = "Each accepted step errs by at most rtol, and a flow that contracts does not enlarge errors: rtol × steps"


def speed(run: tkf.Trajectory, index: int) -> float:
    """The largest speed of a token in a saved state."""
    return float(np.abs(np.asarray(tkf.velocity(flow_of(run), run[index], t=run.times[index]))).max())


def relabelled(run: tkf.Trajectory, flow: Any) -> tkf.Trajectory[Any]:
    """The states of a run as if another flow had made them: what a check must not believe."""
    return dataclasses.replace(run, flow=flow)


def asymptotic_slope(x: np.ndarray, y: np.ndarray) -> tuple[float, float, str]:
    """The slope of y against x where that is a law of late times, how far it may still be from its limit, and why: slopes of the
    first and the second half differ by this much, and what corrections that fall with time leave is less than that."""
    middle = len(x) // 2
    (first, _), (slope, _) = (np.polyfit(x[part], y[part], 1) for part in (slice(middle), slice(middle, None)))
    drift = abs(slope - first)
    return (
        float(slope),
        float(2 * drift + 1e-9),
        f"The law is one of late times: from the first half of the window to the second its slope still moved by {drift:.1g}, and "
        "corrections that fall leave less than twice that.",
    )


def settled(run: tkf.Trajectory, values: np.ndarray) -> tuple[float, str, str | None]:
    """How far values along a run may still be from where they end, why, and why nothing can be said if they have not settled:
    values that converge exponentially have less before them than they moved by in the second half of the run."""
    times, values = np.asarray(run.times), np.asarray(values)
    middle = values[np.searchsorted(times, (times[0] + times[-1]) / 2)]
    before, moved = abs(float(middle - values[0])), abs(float(values[-1] - middle))
    solver = int(run.accepted) * (run.provenance.rtol + run.provenance.atol)
    because = f"It moved by {moved:.1g} in the second half of the run, and less is left; rtol for every step adds {solver:.1g}."
    unsure = "It has not settled: in the second half of the run it moved by more than half as much as in the first."
    return moved + solver, because, unsure if moved > 0.5 * before + solver else None


def same_equation(one: tkf.Trajectory, other: tkf.Trajectory) -> bool:
    """Whether two runs have the same attention, noise, start and end of time."""
    numbers = []
    for run in (one, other):
        flow = flow_of(run)
        known = flow.coupling()
        numbers.append(
            (
                float(known.beta),
                float(known.V),
                float(known.log_unit),
                1 / noise_of(flow),
                *np.asarray(run.times)[[0, -1]],
            )
        )
    kinds = {flow_of(run).coupling().kind for run in (one, other)}
    return len(kinds) == 1 and bool(np.allclose(numbers[0], numbers[1]))
