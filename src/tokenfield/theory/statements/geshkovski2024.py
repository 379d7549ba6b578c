"""Geshkovski, Koubbi, Polyanskiy and Rigollet, Dynamic metastability in the self-attention model: how soon groups of tokens
collapse, how long they then live, and the staircase that the energy climbs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import tokenfield as tkf
from tokenfield.theory.base import Finding, Statement
from tokenfield.theory.statements.given import attracting, flow_of, mergers_of, relabelled, solved, tokens_of

NARROW = 0.2
"""Tokens within this angle of each other at the start are one group."""


class MetastableWindows(Statement):
    """Runs of SA from one start, at several β, that merge tokens within a radius ε = e^{-cβ}.

    Inside a group of diameter D the field is D(1 + O(βD²)), so that D = e^{-t} D₀ and T₁ = log(D₀/ε), which is cβ and a constant.
    Two groups of weights α, α' at an angle φ, 1 - cos φ = g, approach by φ̇ = -(α/α' + α'/α) e^{-βg} sin φ; Laplace's method gives
    T₂ = e^{βg₀} / (β sin²φ₀ (α/α' + α'/α)) · (1 + 2cos φ₀/(β sin²φ₀) + ...)."""

    name = "metastable-windows"
    source, number, kind = "geshkovski2024", "section 5.1 in rigollet2025", "theorem"
    says = (
        "Under SA groups of tokens that start close together collapse at a time T₁ ~ β, and the first two groups merge at a time "
        "T₂ with log T₂ ~ β."
    )
    remark = (
        "T₁ ~ β where a group counts as collapsed at a diameter of e^(-cβ), and then T₁ = cβ + log D₀; under USA it is shorter "
        "by e^(-β). log T₂/β tends to 1 - (the largest cosine of two groups), but e^(β(1 - cos)) is not the exact scale of "
        "time: T₂ has a factor 1/(β sin²φ (α/α' + α'/α)). For equal groups at φ = 1.2 the ratio T₂ e^(-β(1 - cos φ)) was "
        "measured as 0.0250 at β = 24 and 0.0073 at β = 80, where a time scale that were exact would have a limit other than 0."
    )

    def hypotheses(self, runs: Sequence[tkf.Trajectory]) -> Iterator[tuple[str, bool]]:
        flows = [flow_of(run) for run in runs]
        sa = lambda flow: attracting(flow) and flow.coupling().kind == "sa" and float(flow.coupling().V) == 1.0
        yield "there are three runs or more, of tokens that merge", len(runs) >= 3 and all(map(_merges, runs))
        yield "the flows are SA with V = 1", all(map(sa, flows))
        yield "all runs have the same start", all(np.allclose(runs[0].x[0], tokens_of(run).x[0]) for run in runs)
        narrow = max(_Groups(run).diameter ** 2 * _beta(run) for run in runs)
        yield "groups are narrow, βD² ≤ 1, so that tokens see all of their group", narrow <= 1
        apart = max(np.exp(-_beta(run) * _Groups(run).gap) for run in runs)
        yield "groups are apart, e^(-β(1 - cos)) ≤ 0.01 between any two", apart <= 0.01

    def findings(self, runs: Sequence[tkf.Trajectory]) -> Iterator[Finding]:
        groups = [_Groups(run) for run in runs]
        β, T1, T2 = np.array([(g.beta, *g.window) for g in groups]).T
        if np.isnan(T2).any():
            why = "In one of the runs no two groups have merged: evolve for longer."
            yield Finding("T₂", np.inf, np.nan, 0.0, "Nothing was fitted.", unsure=why)
            return
        span = np.ptp(β)
        collapse = np.array([g.collapse for g in groups])
        loose = max(g.collapse_error for g in groups)
        yield Finding(
            "slope of T₁ against β",
            predicted=_slope(β, collapse),
            measured=_slope(β, T1),
            tolerance=2 * loose / span,
            because=(
                f"T₁ = log(D₀/ε) is known to {loose:.2g} (curvature of the field, βD₀²e^(βD₀²/2)/4; other groups, (1+β)e^(-βg)T₁; "
                f"the order of meetings, log(m/2) for m tokens); twice that over the range of β, {span:g}."
            ),
            rival=0.0,
        )
        next_term = np.array([g.next_term for g in groups]) + T1 / T2
        rough = f"The expansion's next term, at most {next_term.max():.2g}"
        yield Finding(
            "slope of log T₂ against β",
            predicted=_slope(β, [g.log_life for g in groups]),
            measured=_slope(β, np.log(T2)),
            tolerance=2 * next_term.max() / span,
            because=f"{rough}, twice over the range of β, {span:g}.",
            rival=0.0,
        )
        gaps, logs = np.array([g.gap for g in groups]), np.log(β)
        yield Finding(
            "power of β in T₂ e^(-β(1 - cos))",
            predicted=-1.0,
            measured=_slope(logs, np.log(T2) - β * gaps),
            tolerance=2 * next_term.max() / np.ptp(logs),
            because=f"{rough}, twice over the range of log β, {np.ptp(logs):.2g}.",
            rival=0.0,
        )
        last = int(np.argmax(β))
        life = np.exp(groups[last].log_life)
        yield Finding(
            f"T₂ at β = {β[last]:g}",
            predicted=life,
            measured=T2[last],
            tolerance=2 * next_term[last] * life,
            because=f"The expansion's next term, {next_term[last]:.2g} relative, twice.",
            rival=np.exp(β[last] * gaps[last]),
        )

    def case(self, small: bool) -> dict[str, Any]:
        betas = (24.0, 36.0, 54.0, 80.0) if small else tuple(np.geomspace(24.0, 80.0, 9))
        start = _pairs() if small else _bunches()
        return {"runs": [_merging(tkf.sa(β), start, float(np.exp(-β / 6))) for β in betas]}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        betas = (24.0, 36.0, 54.0)
        runs = [_merging(tkf.sa(β), _pairs(), float(np.exp(-β / 6))) for β in betas]
        yield (
            "runs that are said to have two thirds of their β",
            {"runs": [relabelled(run, tkf.sa(β / 1.5)) for run, β in zip(runs, betas, strict=True)]},
        )
        half = [relabelled(run, tkf.sa(β, V=0.5)) for run, β in zip(runs, betas, strict=True)]
        yield "values that are halved", {"runs": half}
        yield "groups that are too wide at their β", {"runs": [*runs[:2], relabelled(runs[2], tkf.sa(200.0))]}

    def plot(self, axes: Any, runs: Sequence[tkf.Trajectory]) -> None:
        groups = [_Groups(run) for run in runs]
        β, (T1, T2) = [g.beta for g in groups], np.array([g.window for g in groups]).T
        axes.semilogy(β, T1, "o", label="$T_1$: groups have collapsed")
        axes.semilogy(β, [g.collapse for g in groups], "C0--", lw=1, label=r"$\log(D_0/\varepsilon)$")
        axes.semilogy(β, T2, "s", label="$T_2$: two groups merge")
        law = np.exp([g.log_life for g in groups])
        axes.semilogy(β, law, "C1--", lw=1, label=r"$e^{\beta g}/(\beta \sin^2\phi\,(\alpha/\alpha'+\alpha'/\alpha))$")
        axes.semilogy(β, np.exp(np.multiply(β, groups[0].gap)), "k:", lw=1, label=r"$e^{\beta g}$")
        axes.set_xlabel("β")
        axes.set_ylabel("t")
        axes.legend(fontsize=7)


class _Groups:
    """The groups of a run's start, when they have collapsed and when two merge, with the laws of both."""

    def __init__(self, run: tkf.Trajectory):
        start = tokens_of(run)[0]
        self.run, self.beta = run, _beta(run)
        x, w = np.asarray(start.x), np.asarray(start.w)
        self.labels = np.asarray(tkf.observe.clusters(start, NARROW).labels)
        count = self.labels.max() + 1
        self.diameter = max(_diameter(x[self.labels == k]) for k in range(count))
        self.largest = int(np.bincount(self.labels).max())
        later = np.searchsorted(
            np.asarray(run.times), self.window[0]
        )  # once groups have collapsed, they are where they are
        x = np.asarray(run.x[min(later, len(run.times) - 1)])
        centre = np.stack([w[self.labels == k] @ x[self.labels == k] for k in range(count)])
        self.weights = np.bincount(self.labels, w)
        cosines = (centre := centre / np.linalg.norm(centre, axis=1, keepdims=True)) @ centre.T
        np.fill_diagonal(cosines, -1.0)
        self.gaps = np.sort(1 - cosines[np.triu_indices(count, 1)]) if count > 1 else np.array([0.0])
        self.pair = np.unravel_index(np.argmax(cosines), cosines.shape) if count > 1 else (0, 0)
        self.gap = float(self.gaps[0])

    @property
    def window(self) -> tuple[float, float]:
        """T₁ and T₂: the last merger within a group before the first one of two groups."""
        mergers = mergers_of(self.run)
        across = self.labels[mergers.into] != self.labels[mergers.gone]
        T2 = float(mergers.t[across][0]) if across.any() else np.nan
        within = mergers.t[~across]
        return (float(within.max()) if len(within) else np.nan), T2

    @property
    def collapse(self) -> float:
        return float(np.log(self.diameter / (self.run.provenance.coalesce or np.nan)))

    @property
    def collapse_error(self) -> float:
        u = self.beta * self.diameter**2
        others = self.weights.sum() / self.weights.min() * (1 + self.beta) * np.exp(-self.beta * self.gap)
        return float(u / 4 * np.exp(u / 2) + others * self.collapse + np.log(max(self.largest, 2) / 2))

    @property
    def _sine(self) -> float:
        return self.gap * (2 - self.gap)  # sin²φ

    @property
    def log_life(self) -> float:
        """log T₂ without the next term of its expansion."""
        ratio = self.weights[self.pair[0]] / self.weights[self.pair[1]]
        return float(self.beta * self.gap - np.log(self.beta * self._sine * (ratio + 1 / ratio)))

    @property
    def next_term(self) -> float:
        """How large the next term is, beside 1; and what other groups do, which are farther by some gap."""
        other = np.exp(-self.beta * (self.gaps[1] - self.gap)) if len(self.gaps) > 1 else 0.0
        return float(2 * abs(1 - self.gap) / (self.beta * self._sine) + other / self.weights.min())


class Staircase(Statement):
    """Of a run that merges tokens. Which clusters meet is predicted from the start alone: again and again the closest pair, at
    its centre of mass under USA, and under SA where weights are squared. Then 2β e^{-β} E_β is the sum of squared weights, and in
    addition at most e^{-βg}, g the least 1 - cos of two clusters. It is measured half-way between two mergers in log t."""

    name = "staircase"
    source, number, kind = "geshkovski2024", "Figure 2 in rigollet2025", "observation"
    says = "At large β the energy climbs a staircase: closest clusters merge one after another, and its steps are Σ_k α_k²."
    remark = (
        "From the start of the source, five tokens of weight 1/5, steps are 7/25, 11/25, 13/25 and 1, as in its figure, from "
        "β = 1000 to 4000. At β = 500, which the figure has too, the first two mergers come at t = 28 and 67, in units of e^(-β), "
        "and there is no step at 7/25 between them."
    )

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        yield "the flow is SA or USA with β ≥ 0", attracting(flow_of(run))
        yield "tokens merge", _merges(run)

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        stages = list(_closest_first(flow_of(run), tokens_of(run)[0]))
        times = np.append(mergers_of(run).t, [float(run.times[-1])])
        energy, saved = _normalized_energy(run), np.asarray(run.times)
        for k, (plateau, gap, tie) in enumerate(stages):
            if k >= len(mergers_of(run)):
                why = "The run ends before this merger: evolve for longer."
                yield Finding(f"step {k + 1}", plateau, np.nan, 0.0, "Nothing was measured.", unsure=why)
                return
            middle = int(np.argmin(np.abs(np.log(np.maximum(saved, 1e-300)) - np.log(times[k : k + 2]).mean())))
            slack = 2 * (1 - plateau) * np.exp(-_beta(run) * gap) + solved(run)
            yield Finding(
                f"energy after {k + 1} mergers, in units of its last value",
                predicted=plateau,
                measured=float(energy[middle]),
                tolerance=slack,
                because=f"Pairs of clusters add at most e^(-βg) = {np.exp(-_beta(run) * gap):.1g} each, g = {gap:.2g}; twice, "
                "as clusters have begun to move; and rtol for every step.",
                rival=stages[k + 1].plateau if gap < np.inf else stages[k - 1].plateau,
                unsure="Two pairs are so nearly equally close that either may meet first."
                if tie and gap < np.inf
                else None,
            )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        for β in (2000.0,) if small else (1000.0, 1500.0, 2000.0, 3000.0, 4000.0):
            yield {"run": _merging(tkf.usa(β, scaled=True), _five(), 1e-6, t=1e200)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        start = _circle(2 * _UNIT * np.array([0.0, 1.0, 2.3, 4.5]), [0.6, 0.1, 0.15, 0.15])
        run = _merging(tkf.sa(2000.0), start, 1e-6, t=1e200)
        yield (
            "SA, said to be USA: unequal clusters then meet elsewhere",
            {"run": relabelled(run, tkf.usa(2000.0, scaled=True))},
        )
        yield (
            "a β at which clusters see each other",
            {"run": _merging(tkf.usa(20.0, scaled=True), _five(), 1e-6, t=1e200)},
        )
        yield "tokens that do not merge", {"run": tkf.evolve(tkf.sa(9.0), _five(), t=1.0)}

    def plot(self, axes: Any, run: tkf.Trajectory) -> None:
        β, times = _beta(run), np.asarray(run.times)
        rescaled = np.log(np.maximum(times, 1e-2)) / β
        axes.plot(rescaled, _normalized_energy(run), lw=1.5, label=f"β = {β:g}")
        for stage in _closest_first(flow_of(run), tokens_of(run)[0]):
            axes.axhline(stage.plateau, color="0.7", lw=0.7, zorder=0)
        axes.set_xlabel("log(t) / β")
        axes.set_ylabel(r"$2\beta e^{-\beta} E_\beta$")
        axes.legend(fontsize=7)


class _Stage(NamedTuple):
    """What is left after a merger, in the limit β → ∞."""

    plateau: float
    """The sum of squared weights."""
    gap: float
    """The least 1 - cos of two clusters."""
    tie: bool
    """Whether, at this β, another pair than the closest may have met before."""


def _closest_first(flow: tkf.Flow, start: tkf.Tokens) -> Iterator[_Stage]:
    """The stages of the limit β → ∞, in which always the closest pair merges.

    At a finite β the prefactors of T₂ differ by at most 1/(2 min α), and under SA unequal clusters within β^(-1/2) of each other
    meet at their centre of mass. What is closest by less than that is a tie."""
    x, w, β = np.asarray(start.directions), np.asarray(start.w), float(flow.coupling().beta)
    power, tie, loose = (2 if flow.coupling().kind == "sa" else 1), False, 0.0
    while len(w) > 1:
        gaps = np.sort(1 - (x @ x.T)[np.triu_indices(len(w), 1)])
        far = float(np.sqrt(2 * gaps[0]))
        tie |= len(gaps) > 1 and bool(β * (gaps[1] - gaps[0] - loose * far) < np.log(1 / (2 * w.min())))
        x, w, shares = _merged(x, w, power)
        loose += 2 * abs(shares[0] - shares[1]) / np.sqrt(β)
        cosines = (x @ x.T)[np.triu_indices(len(w), 1)]
        yield _Stage(float(np.sum(w**2)), float(1 - cosines.max()) if len(cosines) else np.inf, tie)


def _merged(x: np.ndarray, w: np.ndarray, power: int) -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
    """The closest two clusters become one, on their geodesic where w^power has its centre; and how far on it that is and would be
    at the centre of mass."""
    cosines = x @ x.T - 4 * np.eye(len(w))
    i, j = np.unravel_index(np.argmax(cosines), cosines.shape)
    φ = np.arccos(np.clip(x[i] @ x[j], -1, 1))
    share, plain = (float(w[j] ** p / (w[i] ** p + w[j] ** p)) for p in (power, 1))  # of the way from i to j
    meeting = (np.sin((1 - share) * φ) * x[i] + np.sin(share * φ) * x[j]) / np.sin(φ)
    rest = [k for k in range(len(w)) if k not in (i, j)]
    return np.vstack([meeting, x[rest]]), np.append(w[i] + w[j], w[rest]), (share, plain)


def _normalized_energy(run: tkf.Trajectory) -> np.ndarray:
    β = _beta(run)
    return 2 * β * np.asarray(tkf.observe.energy(run, beta=β, scaled=True))


def _merging(flow: tkf.Flow, start: tkf.Tokens, radius: float, t: float = 1e60) -> tkf.Trajectory:
    return tkf.evolve(flow, start, t=t, coalesce=radius, save=tkf.log_times(t, 400))


def _merges(run: tkf.Trajectory) -> bool:
    return tokens_of(run).mergers is not None and run.provenance.coalesce is not None


def _beta(run: tkf.Trajectory) -> float:
    return float(flow_of(run).coupling().beta)


def _slope(x: Any, y: Any) -> float:
    return float(np.polyfit(np.asarray(x, float), np.asarray(y, float), 1)[0])


def _diameter(x: np.ndarray) -> float:
    return float(np.sqrt(np.maximum(2 - 2 * (x @ x.T), 0.0).max()))


def _circle(θ: Any, w: Any = None) -> tkf.Tokens:
    return tkf.Tokens(np.stack([np.cos(θ), np.sin(θ)], axis=1), w)


_UNIT = 0.5 * np.log(2000) / np.sqrt(2000)


def _five() -> tkf.Tokens:
    """The start of the source's staircase."""
    return _circle(_UNIT * np.array([0.0, 0.5, 2.0, 4.0, 7.0]))


def _pairs(width: float = 0.08) -> tkf.Tokens:
    """Three pairs on the circle, two of them 1.2 apart."""
    return _circle(np.add.outer([0.0, 1.2, 3.3], [-width / 2, width / 2]).ravel())


def _bunches() -> tkf.Tokens:
    """Four groups of eight tokens on S²."""
    centres = np.array([[1.0, 0, 0], [np.cos(1.2), np.sin(1.2), 0], [-0.5, -0.5, 0.707], [0, -0.5, -0.866]])
    around = np.asarray(tkf.Tokens.gaussian(n=32, d=3, seed=0).x).reshape(4, 8, 3)
    return tkf.Tokens((centres[:, None] + 0.02 * around).reshape(-1, 3)).normalized


STATEMENTS: tuple[Statement, ...] = (MetastableWindows(), Staircase())
