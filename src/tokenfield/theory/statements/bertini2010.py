"""Bertini, Giacomin and Pakdaman, Dynamical aspects of mean field plane rotators and the Kuramoto model: the pitchfork at κ = 2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.errors import InputError
from tokenfield.theory.base import Finding, Statement
from tokenfield.theory.statements.given import flow_of, noise_of, relabelled, settled


class Pitchfork(Statement):
    """Of a run of a density, started away from the uniform one. Near a stationary state R converges exponentially."""

    name = "pitchfork"
    source, number, kind = "bertini2010", "section 7 in rigollet2025", "theorem"
    says = (
        "Under noisy Kuramoto dynamics the order parameter ends at 0 for κ ≤ 2, and for κ > 2 at the one root R > 0 of "
        "R = I_1(κR)/I_0(κR), 0.83146 at κ = 4."
    )

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        flow = flow_of(run)
        known = flow.coupling_if_any()
        kuramoto = known is not None and known.kind == "usa" and float(known.beta) == 0 and float(known.V) == 1
        yield "the flow is Kuramoto's, β = 0 and V = 1, with noise", kuramoto and flow.kappa is not None
        yield "a density on the circle moves", isinstance(run.states, tkf.CircleDensity)
        yield "its mean is not 0 at the start", float(run.order[0]) > 1e-9

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        if not isinstance(run.states, tkf.CircleDensity):
            raise InputError(
                f"This statement needs a run of a CircleDensity, but got one of {type(run.states).__name__}."
            )
        κ, R = noise_of(flow_of(run)), np.asarray(run.order)
        tolerance, because, unsure = settled(run, R)
        root = order_parameter(κ)
        yield Finding(
            f"R at the end, κ = {κ:g}",
            predicted=root,
            measured=float(R[-1]),
            tolerance=tolerance,
            because=because,
            rival=0.0 if root > 0 else float(R[0]),
            unsure=unsure,
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        for κ in (1.5, 4.0) if small else (1.0, 1.5, 2.2, 2.5, 3.0, 4.0, 8.0):
            yield {"run": _settled(κ)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        run = _settled(4.0)
        yield "a run at another κ", {"run": relabelled(run, tkf.usa(0.0, kappa=3.9))}
        yield "a run that has not settled", {"run": tkf.evolve(tkf.usa(0.0, kappa=4.0), _start(), t=0.3, save=51)}
        yield "another β", {"run": relabelled(run, tkf.usa(1.0, kappa=4.0))}

    def plot(self, axes: Any, run: tkf.Trajectory) -> None:
        κ = np.linspace(0.5, 8, 300)
        axes.plot(κ, [order_parameter(one) for one in κ], "k-", lw=0.8)
        axes.plot(noise_of(flow_of(run)), float(run.order[-1]), "o")
        axes.set_xlabel("κ")
        axes.set_ylabel("R at the end of a run (line: theory)")


def order_parameter(κ: float) -> float:
    """The root R > 0 of R = I_1(κR)/I_0(κR) where there is one, else 0."""
    from scipy.optimize import root_scalar
    from scipy.special import ive

    if κ <= 2:
        return 0.0
    ends = (0.5 * np.sqrt(1 - 2 / κ), 1.0)
    return root_scalar(lambda R: ive(1, κ * R) / ive(0, κ * R) - R, bracket=ends, xtol=1e-14).root


def _start() -> tkf.CircleDensity:
    return tkf.CircleDensity.von_mises(1.0, degree=48)


def _settled(κ: float) -> tkf.Trajectory:
    """A run for forty times 1/|1/2 - 1/κ|, the longest time scale near the transition."""
    return tkf.evolve(tkf.usa(0.0, kappa=κ), _start(), t=40 / abs(0.5 - 1 / κ), save=51, rtol=1e-9)


STATEMENTS: tuple[Statement, ...] = (Pitchfork(),)
