"""At large β only the closest pair of clusters moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.theory.base import Finding, Statement
from tokenfield.theory.statements.given import attracting, flow_of, relabelled, tokens_of


class ClosestPair(Statement):
    """Runs from one start, at several β, that end while the closest pair is still apart.

    In the time of the pair, dt = e^{β(1 - <x_i, x_j>)} ds with its present inner product, the limit is ẏ_i = (α_j/α_i) P y_j,
    ẏ_j = (α_i/α_j) P y_i under SA, and α_j, α_i alone under USA (in units of e^{-β}); all others rest. So the angle φ of the pair
    falls by φ' = -A sin φ, i goes the share a_i/A of the way, and the angle φ is reached at t = ∫ e^{β(1 - cos φ)} dφ/(A sin φ)."""

    name = "closest-pair"
    source, number, kind = "bruno2025b", "Theorem 6 in rigollet2025", "theorem"
    says = (
        "As β → ∞ all clusters rest but the closest pair, which moves along its geodesic by ẏ_i = (α_j/α_i) P y_j in the time "
        "dt = e^(β(1 - <x_i, x_j>)) ds."
    )
    remark = (
        "The survey's form has coefficients 1 and rescales time by the inner product at the start. Coefficients are 1 for equal "
        "weights only: under SA a cluster of weight 0.1 goes 0.8 of the way to one of weight 0.2, and under USA 2/3. And with the "
        "inner product of the start there is no such limit, since the pair's speed is then e^(β(<x_i,x_j> - <x_i(0),x_j(0)>)), "
        "which grows without bound: the survey's equation brings the pair from an angle of 0.9 to 0.6 in the time 0.22, "
        "while t e^(-β(1 - cos 0.9)) was measured as 0.036, 0.017, 0.0084 and 0.0041 at β = 20, 40, 80 and 160. With the present "
        "inner product the limit holds: errors of the time fell from 4e-3 at β = 20 to 5e-6 at 40, like e^(-βg)."
    )

    def hypotheses(self, runs: Sequence[tkf.Trajectory]) -> Iterator[tuple[str, bool]]:
        flows = [flow_of(run) for run in runs]
        yield "the flows are SA or USA with V = 1", all(attracting(f) and float(f.coupling().V) == 1.0 for f in flows)
        yield "there are two runs or more from one start", len(runs) > 1 and _same_start(runs)
        yield "there are three clusters or more", tokens_of(runs[0]).states.n > 2
        pairs = [_Pair(run) for run in runs]
        yield "the closest pair is unique, by e^(-β(g' - g)) ≤ 0.1", all(pair.rest <= 0.1 for pair in pairs)
        moved = [0.2 * pair.start < pair.start - pair.end and pair.end > 0 for pair in pairs]
        yield "the pair comes nearer by a fifth of its angle or more, and is still apart", all(moved)

    def findings(self, runs: Sequence[tkf.Trajectory]) -> Iterator[Finding]:
        pairs = [_Pair(run) for run in runs]
        for pair in pairs:
            rough = f"what others do, {pair.rest:.1g}, what clusters do themselves, {pair.own:.1g}, the solver, {pair.solver:.1g}"
            yield Finding(
                f"share of the way that the first of the pair goes, β = {pair.beta:g}",
                predicted=pair.share,
                measured=pair.way,
                tolerance=2 * (pair.rest + pair.own + pair.solver),
                because=f"Relative to the pair's own speed: {rough}; twice.",
                rival=0.5 if pair.share != 0.5 else None,
            )
            yield Finding(
                f"time at which the angle is {pair.end:.4g}, over that of the limit, β = {pair.beta:g}",
                predicted=1.0,
                measured=pair.time / pair.limit_time,
                tolerance=2 * (pair.rest + pair.own + pair.beta * pair.solver),
                because=f"Relative to the pair's own speed: {rough}, of which β times as much; twice.",
                rival=0.0,
            )
        yield self._order([pair for pair in pairs if pair.others_law > 100 * pair.solver])

    def _order(self, pairs: list[_Pair]) -> Finding:
        """The way of the others, for those runs whose solver resolves it."""
        what = "rate in β at which the way of the others falls"
        if len(pairs) < 2:
            why = "In fewer than two runs the others go farther than 100 times the solver's error: take a smaller β or rtol."
            return Finding(what, 0.0, np.nan, 0.0, "Nothing was fitted.", unsure=why)
        β = np.array([pair.beta for pair in pairs])
        others, law = (np.log([getattr(pair, name) for pair in pairs]) for name in ("others", "others_law"))
        loose = max(pair.rest + pair.own + pair.solver / pair.others_law for pair in pairs)
        return Finding(
            what,
            predicted=-np.polyfit(β, law, 1)[0],
            measured=-np.polyfit(β, others, 1)[0],
            tolerance=2 * loose / np.ptp(β),
            because=f"Their speeds times the time of the limit are right up to {loose:.1g} relative; twice over the range of β.",
            rival=0.0,
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        betas = (20.0, 25.0, 30.0) if small else (20.0, 25.0, 30.0, 40.0, 60.0, 80.0, 120.0, 160.0)
        yield {"runs": [_approach(tkf.sa(β)) for β in betas]}
        if not small:
            yield {"runs": [_approach(tkf.usa(β, scaled=True)) for β in betas]}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        runs = [_approach(tkf.sa(β)) for β in (20.0, 40.0)]
        yield (
            "SA, said to be USA",
            {"runs": [relabelled(r, tkf.usa(flow_of(r).coupling().beta, scaled=True)) for r in runs]},
        )
        yield "SA at another β", {"runs": [relabelled(r, tkf.sa(flow_of(r).coupling().beta * 1.1)) for r in runs]}
        low = [_approach(tkf.sa(β)) for β in (2.0, 4.0)]
        yield "a β at which all clusters move", {"runs": low}

    def plot(self, axes: Any, runs: Sequence[tkf.Trajectory]) -> None:
        pairs = [_Pair(run) for run in runs]
        known = [pair for pair in pairs if pair.others_law > 1e-14]
        β, kind = [pair.beta for pair in pairs], flow_of(runs[0]).coupling().kind.upper()
        axes.semilogy(
            β, [abs(pair.time / pair.limit_time - 1) for pair in pairs], "o-", label=f"{kind}: error of the time"
        )
        axes.semilogy(β[: len(known)], [pair.others for pair in known], "s", label=f"{kind}: way of the others")
        axes.semilogy(β[: len(known)], [pair.others_law for pair in known], "k:", lw=1)
        axes.semilogy(
            β,
            [pair.time * np.exp(-pair.beta * pair.gap) for pair in pairs],
            "^",
            label=f"{kind}: $t\\,e^{{-\\beta g_0}}$",
        )
        axes.set_xlabel("β")
        axes.legend(fontsize=7)


class _Pair:
    """The closest pair of a run: where it went and when, and the limit of both."""

    def __init__(self, run: tkf.Trajectory):
        x, last, w = (np.asarray(a) for a in (tokens_of(run).directions[0], run.directions[-1], run.states.w[0]))
        known = flow_of(run).coupling()
        self.beta, self.time = float(known.beta), float(run.times[-1] - run.times[0]) * float(np.exp(_unit(known)))
        cosines = x @ x.T - 4 * np.eye(len(x))
        i, j = self.pair = sorted(divmod(int(np.argmax(cosines)), len(x)))
        softmax = known.kind == "sa"
        pull = lambda l, k: w[l] / w[k] if softmax else w[l]  # how strongly l moves k
        a, b = pull(j, i), pull(i, j)
        self.A, self.share, self.gap = a + b, float(a / (a + b)), float(1 - cosines[i, j])
        self.start, self.end = (float(np.arccos(np.clip(y[i] @ y[j], -1, 1))) for y in (x, last))
        angle = lambda k: float(2 * np.arcsin(np.linalg.norm(x[k] - last[k]) / 2))
        self.way = angle(i) / max(angle(i) + angle(j), 1e-300)
        φ, dt = self._times()
        self.limit_time = float(dt.sum())
        self.rest, self.own = self._rest(x, w, pull), self._own(φ, w[i] / w[j] if softmax else 0.0)
        self.solver = int(run.accepted) * (run.provenance.rtol + run.provenance.atol)
        rest = [k for k in range(len(x)) if k not in (i, j)]
        self.others = max(angle(k) for k in rest)
        self.others_law = max(self._drift(x, k, pull, φ, dt) for k in rest)

    def _times(self) -> tuple[np.ndarray, np.ndarray]:
        """Angles on the way of the pair, and how much time the limit spends there."""
        nodes, weights = np.polynomial.legendre.leggauss(400)
        φ = self.end + (self.start - self.end) * (1 + nodes) / 2
        speed = self.A * np.sin(φ) * np.exp(-self.beta * (1 - np.cos(φ)))
        return φ, weights / 2 * (self.start - self.end) / speed

    def _rest(self, x: np.ndarray, w: np.ndarray, pull: Callable[..., Any]) -> float:
        """The speed that others give to the pair or to each other, over that of the pair, at the start."""
        apart = np.exp(-self.beta * (1 - x @ x.T - self.gap))
        pairs = [(k, l) for k in range(len(x)) for l in range(len(x)) if k != l and {k, l} != set(self.pair)]
        return float(max(pull(l, k) * apart[k, l] for k, l in pairs) * len(x) / (self.A * np.sin(self.start)))

    def _own(self, φ: np.ndarray, ratio: float) -> float:
        """Softmax divides by 1 + (α_j/α_i) e^{-βg}: what that changes, averaged over the way."""
        return float(max(ratio, 1 / ratio) * np.exp(-self.beta * (1 - np.cos(φ))).mean()) if ratio else 0.0

    def _drift(self, x: np.ndarray, k: int, pull: Callable[..., Any], φ: np.ndarray, dt: np.ndarray) -> float:
        """How far token k goes in the limit's time, pulled by all others where the limit has them."""
        i, j = self.pair
        done = (self.start - φ)[:, None]
        e_i, e_j = (_towards(x[a], x[b]) for a, b in ((i, j), (j, i)))
        y = {l: np.broadcast_to(x[l], (len(φ), x.shape[1])) for l in range(len(x))}
        y[i] = np.cos(self.share * done) * x[i] + np.sin(self.share * done) * e_i
        y[j] = np.cos((1 - self.share) * done) * x[j] + np.sin((1 - self.share) * done) * e_j
        v = sum(
            pull(l, k) * np.exp(-self.beta * (1 - y[l] @ x[k]))[:, None] * (y[l] - (y[l] @ x[k])[:, None] * x[k])
            for l in y
            if l != k
        )
        return float(np.linalg.norm(dt @ v))


def _unit(known: Any) -> float:
    """The logarithm of how fast the clock of this flow runs beside that in which a cluster pulls itself with speed 1."""
    return float(known.beta - known.log_unit) if known.kind == "usa" else 0.0


def _towards(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The direction from x to y."""
    e = y - (x @ y) * x
    return e / np.linalg.norm(e)


def _same_start(runs: Sequence[tkf.Trajectory]) -> bool:
    first = tokens_of(runs[0])
    return all(
        run.x.shape[1:] == first.x.shape[1:] and np.allclose(run.x[0], first.x[0]) for run in map(tokens_of, runs)
    )


NEAR = 0.6
"""The angle at which runs of the case end; it begins at 0.9."""


def _near(t: Any, mu: Any) -> Any:
    return mu.x[0] @ mu.x[1] >= np.cos(NEAR)


def _approach(flow: tkf.Flow) -> tkf.Trajectory:
    """Four clusters on S², of which the first two are closest, until these are at an angle of 0.6."""
    at = lambda θ, z: [np.cos(θ) * np.cos(z), np.sin(θ) * np.cos(z), np.sin(z)]
    start = tkf.Tokens([at(0.0, 0.0), at(0.9, 0.0), at(2.3, 0.3), at(-1.5, 0.6)], [0.1, 0.2, 0.3, 0.4])
    return tkf.evolve(flow, start, t=1e60, until=_near, save=2, rtol=1e-12, coalesce=1e-5)
