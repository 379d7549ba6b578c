"""Chen, Polyanskiy and Rigollet, Clustering in self-attention dynamics with Wasserstein–Fisher–Rao gradient flows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.theory.base import Finding, Statement
from tokenfield.theory.statements.given import flow_of, relabelled, tokens_of


class FisherRaoAscent(Statement):
    r"""Integrated over a run: E(T) - E(0) against the integral of the right-hand side, by Simpson's rule over saved times. With
    φ(x) = (1/β)∫ e^{β<x,y>} dμ(y) and ẇ_i = λ w_i (φ_i - Σ_j w_j φ_j), the chain rule gives ∂E/∂w_i = φ_i."""

    name = "fisher-rao-ascent"
    source, number, kind = "chen2025b", "section 4.1 in rigollet2025", "identity"
    says = "Reweighting adds to the ascent of the energy under USA: dE/dt = ∫|v|² dμ + λ Var_μ(φ)."

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        flow, known = flow_of(run), flow_of(run).coupling_if_any()
        yield "the flow is USA with V = 1", known is not None and known.kind == "usa" and float(known.V) == 1.0
        yield "β is positive", bool(flow.coupling().beta > 0)
        yield "weights evolve", flow.reweighting is not None
        yield "an odd number of states is saved, equally spaced", _even(np.asarray(tokens_of(run).times))

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        from scipy.integrate import simpson

        known, times = flow_of(run).coupling(), np.asarray(run.times)
        E = np.asarray(tkf.observe.energy(run, beta=known.beta)) * np.exp(-float(known.log_unit))
        climb = np.array([self._climb(run, i) for i in range(len(run))])
        whole = float(simpson(climb, x=times))
        coarse = float(simpson(climb[::2], x=times[::2])) if len(times) % 4 == 1 else whole
        steps = (
            int(run.accepted) * (run.provenance.rtol + run.provenance.atol) * float(np.exp(known.beta - known.log_unit))
        )
        yield Finding(
            "what the energy climbed",
            predicted=whole,
            measured=float(E[-1] - E[0]),
            tolerance=abs(whole - coarse) + steps,
            because=(
                f"The integral by every second state differs by {abs(whole - coarse):.1g}, sixteen times Simpson's error; each "
                f"step errs by rtol, and the energy's gradient is at most e^β ({steps:.1g})."
            ),
            rival=0.0,
        )

    @staticmethod
    def _climb(run: tkf.Trajectory, i: int) -> float:
        """∫|v|² dμ + λ Var(φ) in one state."""
        flow, mu = flow_of(run), run[i]
        known, x, w = flow.coupling(), np.asarray(mu.directions), np.asarray(mu.w)
        v = np.asarray(tkf.velocity(flow, mu))
        φ = np.exp(float(known.beta) * x @ x.T - float(known.log_unit)) @ w / float(known.beta)
        assert flow.reweighting is not None
        λ = float(np.asarray(flow.reweighting.rate))
        return float(w @ np.sum(v**2, axis=1) + λ * (w @ φ**2 - (w @ φ) ** 2))

    def case(self, small: bool) -> dict[str, Any]:
        start = tkf.Tokens.uniform_sphere(n=24 if small else 200, d=3, seed=0)
        flow = tkf.Flow(tkf.Unnormalized(2.0), tkf.PostLN(), reweighting=tkf.FisherRao(1.5))
        return {"run": tkf.evolve(flow, start, t=2.0, save=81, rtol=1e-9)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        start = tkf.Tokens.uniform_sphere(n=24, d=3, seed=0)
        flow = lambda rate: tkf.Flow(tkf.Unnormalized(2.0), tkf.PostLN(), reweighting=tkf.FisherRao(rate))
        run = tkf.evolve(flow(1.5), start, t=2.0, save=81, rtol=1e-9)
        yield "another rate of reweighting", {"run": relabelled(run, flow(1.4))}
        yield "weights that stay", {"run": tkf.evolve(tkf.usa(2.0), start, t=2.0, save=81)}


def _even(times: np.ndarray) -> bool:
    return len(times) % 2 == 1 and bool(np.ptp(np.diff(times)) <= 1e-9 * np.ptp(times))


STATEMENTS: tuple[Statement, ...] = (FisherRaoAscent(),)
