"""Geshkovski, Letrouit, Polyanskiy and Rigollet, A mathematical perspective on Transformers: clustering on the sphere, and its
rates for equiangular tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.theory.base import Finding, Statement
from tokenfield.theory.statements.given import (
    SOLVED,
    attracting,
    contraction,
    diameters,
    flow_of,
    relabelled,
    solved,
    speed,
    tokens_of,
)


def _end_of(run: tkf.Trajectory, what: str) -> Finding:
    """Whether all tokens have met; where they have not, but still move, nothing is decided."""
    far, tolerance = float(diameters(run)[-1]), solved(run)
    moving = far > tolerance and speed(run, -1) > tolerance
    return Finding(
        what,
        predicted=0.0,
        measured=far,
        tolerance=tolerance,
        because=f"{SOLVED}, and tokens within the radius of coalescing count as one.",
        unsure="Tokens still move: evolve for longer, with coalesce=1e-5 for times like 1e30." if moving else None,
    )


class GlobalClustering(Statement):
    """The end of a run is one point. Where it is not, but tokens still move, nothing is decided: the limit is that of t → ∞."""

    name = "global-clustering"
    source, number, kind = "geshkovski2025", "Theorem 1 and Remark 2 in rigollet2025", "theorem"
    says = "Under SA and USA, at any β ≥ 0 and d ≥ 2, almost every start ends in one cluster."

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        yield "the flow is SA or USA with β ≥ 0", attracting(flow_of(run))
        yield "tokens live on a sphere in R^d with d ≥ 2", tokens_of(run).d >= 2
        yield "the start is not at rest", speed(run, 0) > 1e-12

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        yield _end_of(run, "largest distance of two tokens at the end")

    def case(self, small: bool) -> dict[str, Any]:
        n = 16 if small else 200
        start = tkf.Tokens.uniform_sphere(n=n, d=3, seed=0)
        return {"run": tkf.evolve(tkf.sa(5.0), start, t=1e30, coalesce=1e-5, save="log")}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        start = tkf.Tokens.uniform_sphere(n=6, d=3, seed=0)
        away = tkf.evolve(tkf.sa(1.0, V=-1.0), start, t=200.0, save=2)
        yield "tokens that repel each other", {"run": away}
        yield "tokens that repel each other, said to attract", {"run": relabelled(away, tkf.sa(1.0))}
        pair = tkf.Tokens([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
        yield "an antipodal pair, one of the starts that are excepted", {"run": tkf.evolve(tkf.sa(1.0), pair, t=5.0)}


class HemisphereRate(Statement):
    """The diameter D of the tokens falls like e^{-λt}. Near the cluster the equation of differences is that of their linearization
    up to terms of third order, so that the rate is λ + O((1 + β)D²)."""

    name = "hemisphere-rate"
    source, number, kind = "geshkovski2025", "Theorem 3 in rigollet2025", "theorem"
    says = "Tokens that start in an open hemisphere meet at an exponential rate under SA and USA."
    remark = (
        "The theorem has a rate that depends on n, β and the start. The rate of late times does not: it is V for SA and "
        "V e^β for USA, since all tokens then see the same field."
    )

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        yield "the flow is SA or USA with β ≥ 0", attracting(flow_of(run))
        yield "all tokens start in an open hemisphere", tkf.observe.hemisphere(tokens_of(run)[0]).margin > 0

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        times, D, floor = np.asarray(run.times), diameters(run), 100 * solved(run)
        late = (D < 0.03) & (floor < D)
        rate = contraction(flow_of(run))
        if late.sum() < 4:
            why = f"Fewer than four saved states have a diameter between {floor:.1g} and 0.03: evolve for longer, save more."
            yield Finding("rate of the diameter", rate, np.nan, 0.0, "Nothing was fitted.", unsure=why)
            return
        fit = tkf.observe.fit_rate(times[late], D[late])
        β = float(flow_of(run).coupling().beta)
        curved, rough = rate * (1 + β) * D[late].max() ** 2, 0.01 / np.ptp(times[late])
        yield Finding(
            "rate of the diameter",
            predicted=rate,
            measured=fit.rate,
            tolerance=2 * fit.error + curved + rough,
            because=(
                f"Twice the fit's standard error ({2 * fit.error:.1g}), terms of third order (1 + β)D² λ ({curved:.1g}), and what "
                f"the solver may be off by, 1% of the least diameter over the length of the window ({rough:.1g})."
            ),
            rival=0.0,
        )

    def case(self, small: bool) -> dict[str, Any]:
        start = tkf.Tokens.uniform_sphere(n=8 if small else 64, d=64, seed=0)
        return {"run": tkf.evolve(tkf.sa(1.0), start, t=20.0, save=200, rtol=1e-10)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        start = tkf.Tokens.uniform_sphere(n=8, d=64, seed=0)
        slow = tkf.evolve(tkf.sa(1.0, V=0.5), start, t=40.0, save=200, rtol=1e-10)
        yield "a flow at half the speed, said to be SA", {"run": relabelled(slow, tkf.sa(1.0))}
        yield (
            "tokens all around the sphere",
            {"run": tkf.evolve(tkf.sa(1.0), tkf.Tokens.uniform_sphere(n=40, d=3), t=20.0)},
        )

    def plot(self, axes: Any, run: tkf.Trajectory) -> None:
        times, D, rate = np.asarray(run.times), diameters(run), contraction(flow_of(run))
        axes.semilogy(times, D, lw=2, label="diameter of the tokens")
        middle = len(times) // 2
        axes.semilogy(times, D[middle] * np.exp(-rate * (times - times[middle])), "--", label=f"$e^{{-{rate:g}t}}$")
        axes.set_xlabel("t")
        axes.legend()


class HighDimension(Statement):
    """Of an ensemble: every member's start, and every member's end."""

    name = "high-dimension"
    source, number, kind = "geshkovski2025", "Corollary 4 in rigollet2025", "theorem"
    says = "Where d ≥ n, uniform tokens start in an open hemisphere almost surely, and all meet under SA and USA."

    def hypotheses(self, runs: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        flows = [flow_of(run) for run in runs.members()]
        yield "the flows are SA or USA with β ≥ 0", all(map(attracting, flows))
        yield "there are no more tokens than dimensions", tokens_of(runs).d >= runs.states.n

    def findings(self, runs: tkf.Trajectory) -> Iterator[Finding]:
        margins = [tkf.observe.hemisphere(run[0]).margin for run in runs.members()]
        exact = "The share of finitely many members, each decided by a linear programme: no tolerance."
        yield Finding("share of starts in an open hemisphere", 1.0, float(np.mean(np.array(margins) > 0)), 0.0, exact)
        worst = max(runs.members(), key=lambda run: float(diameters(run)[-1]))
        yield _end_of(worst, "largest distance of two tokens at the end, over all members")

    def case(self, small: bool) -> dict[str, Any]:
        n, count = (8, 6) if small else (32, 100)
        starts = [tkf.Tokens.uniform_sphere(n=n, d=n, seed=seed) for seed in range(count)]
        return {"runs": tkf.evolve([tkf.sa(1.0), tkf.usa(1.0)], starts, t=40.0, save=2)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        starts = [tkf.Tokens.uniform_sphere(n=8, d=8, seed=seed) for seed in range(3)]
        together, away = (tkf.evolve([tkf.sa(1.0, V=V)], starts, t=80.0, save=2) for V in (1.0, -1.0))
        yield "tokens that repel each other, said to attract", {"runs": relabelled(away, together.flow)}
        crowd = [tkf.Tokens.uniform_sphere(n=9, d=8, seed=seed) for seed in range(3)]
        yield "more tokens than dimensions", {"runs": tkf.evolve([tkf.sa(1.0)], crowd, t=1.0, save=2)}


class EquiangularRate(Statement):
    """The slope of log(1 - ρ) at late times. With ε = 1 - ρ the equation is d log ε/dt = -2λ(1 + O((1 + β)ε))."""

    name = "equiangular-rate"
    source, number, kind = "geshkovski2025", "section 6.1 in rigollet2025", "theorem"
    says = (
        "Equiangular tokens collapse like 1 - ρ ~ e^(-2t) under SA and e^(-2 e^β t) under USA, whatever their number."
    )

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        yield "the flow is SA or USA with β ≥ 0", attracting(flow_of(run))
        yield "tokens are equiangular", isinstance(run.states, tkf.Equiangular)

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        times, logs = np.asarray(run.times), np.asarray(run.log_gap)
        late, known = logs < np.log(1e-3), flow_of(run).coupling()
        rate = 2 * contraction(flow_of(run))
        if late.sum() < 4:
            why = "Fewer than four saved states have 1 - ρ < 1e-3: evolve for longer, or save more."
            yield Finding("rate of 1 - ρ", rate, np.nan, 0.0, "Nothing was fitted.", unsure=why)
            return
        fit = tkf.observe.fit_rate(times[late] - times[0], np.exp(logs[late] - logs[late][-1]))
        curved = (1 + float(known.beta)) * rate * np.exp(logs[late][0]) / (rate * np.ptp(times[late]))
        rough = 10 * run.provenance.rtol * rate
        yield Finding(
            f"rate of 1 - ρ ({known.kind.upper()})",
            predicted=rate,
            measured=fit.rate,
            tolerance=4 * curved + rough,
            because=(
                f"The equation's next term, (1 + β)ε relative to the rate, acts only while ε is near 1e-3: over the window it "
                f"turns the slope by {curved:.1g}, a least-squares slope by up to four times that; ten times rtol for the solver."
            ),
            rival=rate / 2,
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        start = tkf.Equiangular(rho=0.0, n=256)
        yield {"run": tkf.evolve(tkf.sa(5.0), start, t=60.0, save=200, rtol=1e-9)}
        yield {"run": tkf.evolve(tkf.usa(2.0), start, t=30.0, save=200, rtol=1e-9)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        start = tkf.Equiangular(rho=0.0, n=256)
        other = tkf.evolve(tkf.usa(0.2), start, t=60.0, save=200)
        yield "USA, said to be SA", {"run": relabelled(other, tkf.sa(0.2))}
        pre = tkf.evolve(tkf.Flow(tkf.Softmax(5.0), tkf.PreLN()), start, t=2000.0, save=200)
        yield "Pre-LN, said to be SA", {"run": relabelled(pre, tkf.sa(5.0))}
        yield "Pre-LN", {"run": pre}

    def plot(self, axes: Any, run: tkf.Trajectory) -> None:
        times, logs, flow = np.asarray(run.times), np.asarray(run.log_gap), flow_of(run)
        axes.plot(
            times, logs / np.log(10), lw=2, label=f"{flow.coupling().kind.upper()}, β = {float(flow.coupling().beta):g}"
        )
        law = (logs[-1] + 2 * contraction(flow) * (times[-1] - times)) / np.log(10)
        axes.plot(times[law < 1], law[law < 1], "k--", lw=1)
        axes.set_xlabel("t")
        axes.set_ylabel("log₁₀(1 - ρ)")
        axes.legend()


STATEMENTS: tuple[Statement, ...] = (GlobalClustering(), HemisphereRate(), HighDimension(), EquiangularRate())
