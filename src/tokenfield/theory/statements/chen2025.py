"""Chen, Lin, Polyanskiy and Rigollet, Quantitative clustering in mean-field Transformer models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.errors import InputError
from tokenfield.theory.base import Finding, Statement
from tokenfield.theory.statements.given import attracting, flow_of, relabelled, solved

SMALL = 1.0
"""The theorem holds below some β₀ that depends on the start and is not explicit; this is taken for small."""


class MeanFieldClustering(Statement):
    """Of a run from a density, or from tokens at quadrature nodes of one. The nearest point to μ is the direction of its mean m,
    and W₂(μ, δ)² = ∫|x - m/|m||² dμ = 2(1 - |m|)."""

    name = "mean-field-clustering"
    source, number, kind = "chen2025", "Theorem 5 in rigollet2025", "theorem"
    says = "For small |β|, a density whose mean is not 0 contracts to a point under USA: W₂(μ_t, δ) ≤ C e^(-t/100)."
    remark = (
        "The rate of the theorem is far from sharp: those measured are some tens of times as large. At large β the statement "
        "fails, as the source says: two bumps on the circle stay two."
    )

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        flow, (R, _) = flow_of(run), _order(run)
        known = flow.coupling_if_any()
        yield "the flow is USA", attracting(flow) and known is not None and known.kind == "usa"
        yield f"β is at most {SMALL:g}", bool(abs(flow.coupling().beta) <= SMALL)
        yield "the mean of the start is not 0", bool(R[0] > 1e-9)

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        times, (R, floor) = np.asarray(run.times), _order(run)
        W = np.sqrt(np.maximum(2 * (1 - R), 0.0))
        late = (times >= times[-1] / 3) & (10 * np.sqrt(floor) < W)
        if late.sum() < 4:
            why = "Fewer than four late states are known well enough: save more, or end earlier."
            yield Finding("rate of W₂(μ, δ)", 0.01, np.nan, 0.0, "Nothing was fitted.", relation="≥", unsure=why)
            return
        fit = tkf.observe.fit_rate(times[late], W[late])
        yield Finding(
            "rate of W₂(μ, δ)",
            predicted=0.01,
            measured=fit.rate,
            tolerance=2 * fit.error,
            because="A bound; what was fitted is known to two standard errors.",
            relation="≥",
            rival=None,
            unsure=None if fit.error < 0.005 else "The fit is too rough to tell a rate of 0.01 from 0.",
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        density = tkf.CircleDensity.von_mises(0.5, degree=64)
        yield {"run": tkf.evolve(tkf.usa(0.5), density, t=3.0, save=60)}
        nodes = tkf.Tokens.quadrature(lambda x: 1 + 0.3 * x[..., 0], sphere=2, n=200 if small else 5_000)
        yield {"run": tkf.evolve(tkf.usa(0.5), nodes, t=8.0, save=100)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        θ = np.concatenate([np.linspace(-0.4, 0.4, 41), np.pi + np.linspace(-0.4, 0.4, 39)])
        bumps = tkf.Tokens(np.stack([np.cos(θ), np.sin(θ)], axis=1))
        stay = tkf.evolve(tkf.usa(20.0, scaled=True), bumps, t=30.0, save=100)
        yield "two bumps at a large β", {"run": stay}
        yield "two bumps at a large β, said to be small", {"run": relabelled(stay, tkf.usa(0.5))}
        away = tkf.evolve(tkf.usa(0.5, V=-1.0), bumps, t=30.0, save=100)
        yield "tokens that repel each other, said to attract", {"run": relabelled(away, tkf.usa(0.5))}


def _order(run: tkf.Trajectory) -> tuple[np.ndarray, float]:
    """|m| along a run of a density or of tokens on the sphere, and how well 1 - |m| is known."""
    if isinstance(run.states, tkf.Tokens):
        return np.asarray(tkf.observe.order_parameter(run)), solved(run)
    if isinstance(run.states, tkf.CircleDensity | tkf.SphereDensity):
        return np.asarray(run.order), run.provenance.rtol * int(run.accepted)
    raise InputError(
        f"This statement needs a run of a density or of tokens, but got one of {type(run.states).__name__}."
    )


STATEMENTS: tuple[Statement, ...] = (MeanFieldClustering(),)
