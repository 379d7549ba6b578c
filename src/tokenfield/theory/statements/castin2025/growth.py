"""What lives for ever in R^d, and what does not: sigmoid attention; unnormalized, linear and ReLU attention."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.theory.base import Finding, Statement
from tokenfield.theory.statements.castin2025.stability import bare, radii
from tokenfield.theory.statements.given import flow_of, relabelled, solved, tokens_of
from tokenfield.theory.statements.smoothness import value_norm, written


class SigmoidGlobal(Statement):
    """σ ≤ 1 gives |Γ_μ| ≤ ‖V‖R, as for softmax, and a solution for all times."""

    name = "sigmoid-global"
    source, number, kind = "castin2025", "abstract", "theorem"
    says = "Sigmoid attention has a solution for all times in R^d: tokens stay in the ball of radius R₀ e^(‖V‖t)."
    remark = (
        "The slides of the same authors list sigmoid attention among those without a global solution, beside unnormalized, "
        "linear and ReLU attention; the abstract lists it among those with one. The abstract is right: σ ≤ 1, which gives "
        "the first estimate. The bound is sharp for late times: of tokens in one place, V = I, log|x| grows at the rate "
        "σ(β|x|²) → 1."
    )

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        flow = flow_of(run)
        sigmoid = bare(flow) and isinstance(flow.attention, tkf.Sigmoid) and flow.timeless
        yield "tokens move by sigmoid attention alone, in R^d, whose parameters do not change with depth", sigmoid

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        V, R = value_norm(flow_of(run).attention, tokens_of(run).d), radii(run)
        yield Finding(
            "whether the run came to its end", 1.0, float(run.status.ok), 0.0, "Whether a run came to its end is known."
        )
        t = np.asarray(run.times[1:]) - float(run.times[0])
        yield Finding(
            "growth of log R, in units of ‖V‖t",
            predicted=1.0,
            measured=float((np.log(R[1:] / R[0]) / (V * t)).max()),
            tolerance=float((solved(run) / (V * t)).max()),
            because="Steps err by rtol of a token's length each, and so does log R: rtol × steps over ‖V‖t.",
            relation="≤",
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        go = lambda attention, mu: {"run": tkf.evolve(tkf.Flow(attention), mu, t=20.0, save=9)}
        start = tkf.Tokens.gaussian(n=12 if small else 200, d=2, seed=0)
        yield go(tkf.Sigmoid(1.0), start)
        yield go(tkf.Sigmoid(1.0), tkf.Tokens(np.tile([[0.6, 0.8]], (12, 1))))

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        start = tkf.Tokens.gaussian(n=12, d=2, seed=0)
        for kind in (tkf.Unnormalized, tkf.Linear, tkf.ReLU):
            run = tkf.evolve(tkf.Flow(kind()), start, t=20.0, save=9)
            yield f"{kind.__name__} attention, said to be sigmoid", {"run": relabelled(run, tkf.Flow(tkf.Sigmoid()))}
        yield "linear attention", {"run": tkf.evolve(tkf.Flow(tkf.Linear()), start, t=0.01, save=9)}


class FiniteTime(Statement):
    """Exact times: of linear attention with V = v and A = a, M = ∫xxᵀdμ has Ṁ = 2va M², so that t* = 1/(2va λ_max(M₀)); of ReLU
    attention the same where no two tokens are at more than a right angle, which they never are then; of unnormalized attention
    with tokens in one place r' = v r e^(ar²), t* = E₁(ar²)/2v."""

    name = "finite-time-blow-up"
    source, number, kind = "castin2025", "extending to attention variants", "theorem"
    says = (
        "Unnormalized, linear and ReLU attention have no global solution in R^d: tokens become infinite in finite time."
    )
    remark = (
        "The time is known exactly: 1/(2λ_max(∫xxᵀdμ₀)) for linear attention, for ReLU attention too where tokens are at "
        "acute angles, and E₁(r²)/2 for unnormalized attention of tokens in one place (β = V = 1). With V = -1 all three "
        "live for ever."
    )

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        flow, x = flow_of(run), np.asarray(tokens_of(run)[0].x)
        kinds = isinstance(flow.attention, tkf.Unnormalized | tkf.Linear | tkf.ReLU)
        yield (
            "tokens move by unnormalized, linear or ReLU attention alone, in R^d",
            bare(flow) and kinds and flow.timeless,
        )
        yield "V and A = βKᵀQ are positive multiples of the identity", self._simple(flow.attention, run.d)
        if isinstance(flow.attention, tkf.ReLU):
            yield "no two tokens are at more than a right angle", bool((x @ x.T).min() >= 0)
        if isinstance(flow.attention, tkf.Unnormalized):
            yield "tokens are in one place", float(np.ptp(x, axis=0).max()) == 0.0

    def _simple(self, attention: Any, d: int) -> bool:
        parts = written(attention.V, d), np.asarray(attention.score(d))
        return all(part[0, 0] > 0 and bool((part == part[0, 0] * np.eye(d)).all()) for part in parts)

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        attention, mu = flow_of(run).attention, tokens_of(run)[0]
        star, unit = blow_up(attention, mu), float(1 / np.abs(slowest(run)))
        ended = float(run.reached) - float(run.times[0])
        early = run.status.ok and ended < star
        yield Finding(
            f"time at which tokens become infinite, {type(attention).__name__} attention",
            predicted=star,
            measured=ended if not run.status.ok else (np.nan if early else np.inf),
            tolerance=solved(run) * unit,
            because=(
                "A step that errs by rtol of a token's length moves the time by rtol |x|/|ẋ|, which is largest at the start "
                f"({unit:.2g}): rtol × steps times that."
            ),
            unsure="The run ended before: evolve beyond the time of the blow-up." if early else None,
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        n = 12 if small else 200
        go = lambda attention, mu: {"run": tkf.evolve(tkf.Flow(attention), mu, t=100.0, save=5)}
        one_place = tkf.Tokens(np.tile([[0.6, 0.8]], (n, 1)))
        start = tkf.Tokens.gaussian(n=n, d=2, seed=0)
        yield go(tkf.Unnormalized(1.0), one_place)
        yield go(tkf.Linear(1.0), start)
        yield go(tkf.ReLU(1.0), tkf.Tokens(np.abs(np.asarray(start.x))))

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        one_place = tkf.Tokens(np.tile([[0.6, 0.8]], (12, 1)))
        go = lambda attention: tkf.evolve(tkf.Flow(attention), one_place, t=20.0, save=9)
        tame = go(tkf.Sigmoid(1.0))
        for kind in (tkf.Unnormalized, tkf.Linear, tkf.ReLU):
            yield f"sigmoid attention, said to be {kind.__name__}", {"run": relabelled(tame, tkf.Flow(kind(1.0)))}
        yield (
            "linear attention, said to be unnormalized",
            {"run": relabelled(go(tkf.Linear()), tkf.Flow(tkf.Unnormalized()))},
        )
        yield "V of the other sign", {"run": go(tkf.Linear(V=-1.0))}


def blow_up(attention: Any, mu: tkf.Tokens) -> float:
    """The time at which tokens become infinite."""
    from scipy.special import exp1

    x, w, d = np.asarray(mu.x), np.asarray(mu.w), mu.d
    v, a = written(attention.V, d)[0, 0], float(np.asarray(attention.score(d))[0, 0])
    if isinstance(attention, tkf.Unnormalized):
        return float(exp1(a * x[0] @ x[0]) / (2 * v))
    return float(1 / (2 * v * a * np.linalg.eigvalsh((x.T * w) @ x)[-1]))


def slowest(run: tkf.Trajectory) -> float:
    """How fast the tokens grow at the start, in the direction in which they blow up, relative to their size."""
    mu, flow = tokens_of(run)[0], flow_of(run)
    x, v, w = np.asarray(mu.x), np.asarray(tkf.velocity(flow, mu)), np.asarray(mu.w)
    u = np.linalg.eigh((x.T * w) @ x)[1][:, -1]
    return float(np.sum(w * (x @ u) * (v @ u)) / np.sum(w * (x @ u) ** 2))
