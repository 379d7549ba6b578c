"""What the estimates give: how far tokens may go, and how far two measures may part."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.theory.base import Finding, Statement
from tokenfield.theory.statements.given import flow_of, relabelled, solved, tokens_of
from tokenfield.theory.statements.smoothness import Scores, averaging, defined, value_norm


def bare(flow: tkf.Flow) -> bool:
    """Whether tokens move by attention alone, in R^d."""
    plain = flow.mlp is None and flow.reweighting is None and flow.kappa is None
    return plain and isinstance(flow.normalization, tkf.Free)


def radii(run: tkf.Trajectory) -> np.ndarray:
    """The radius of the tokens' ball, at every saved time."""
    return np.linalg.norm(np.asarray(tokens_of(run).x), axis=-1).max(axis=-1)


def integrated(f: Callable[[float], float], times: np.ndarray, fine: int = 200) -> np.ndarray:
    """∫ f from the first of the times to each, by Simpson's rule on `fine` intervals between neighbours."""
    total = [0.0]
    for a, b in itertools.pairwise(times):
        s = np.linspace(a, b, 2 * fine + 1)
        values = np.array([f(t) for t in s])
        total.append(total[-1] + (b - a) / (6 * fine) * (values[:-1:2] + 4 * values[1::2] + values[2::2]).sum())
    return np.array(total)


class SupportBound(Statement):
    """The bound as a share: the radius at every saved time over R₀ exp ∫‖V‖."""

    name = "support-bound"
    source, number, kind = "castin2025", "well-posedness", "theorem"
    says = (
        "Attention that averages keeps tokens in the ball of radius R₀ exp(∫‖V‖ dt): softmax, L2, Sinkhorn and masked."
    )
    remark = (
        "It is sharp: tokens in one place, V = I, move as x₀ e^t. It holds of sigmoid attention too, whose weights are "
        "below 1."
    )

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        flow = flow_of(run)
        yield "tokens move by attention alone, in R^d", bare(flow)
        yield "the attention averages: softmax, L2, Sinkhorn, sigmoid, masked", averaging(flow.attention)

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        flow, times, R = flow_of(run), np.asarray(run.times), radii(run)
        V = lambda t: value_norm(flow.attention, tokens_of(run).d, t)
        coarse, log_bound = (integrated(V, times, fine) for fine in (10, 20))
        left, bound = float(np.abs(log_bound - coarse).max()), R[0] * np.exp(log_bound)
        yield Finding(
            f"largest radius after the start in units of R₀ exp ∫‖V‖, {type(flow.attention).__name__} attention",
            predicted=1.0,
            measured=float((R / bound)[1:].max()),
            tolerance=solved(run) + left + 1e-12,
            because=(
                "Each accepted step errs by at most rtol of a token's length, and no error grows faster than the bound: "
                f"rtol × steps; the integral of ‖V‖ moved by {left:.1g} as its intervals were halved."
            ),
            relation="≤",
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        V = np.array([[0.5, -1.0], [1.0, 0.0]])
        start = tkf.Tokens.gaussian(n=12 if small else 300, d=2, seed=0)
        go = lambda attention, mu: {"run": tkf.evolve(tkf.Flow(attention), mu, t=2.0, save=9)}
        for kind in (tkf.Softmax, tkf.L2, tkf.Sinkhorn, tkf.Sigmoid):
            yield go(kind(beta=1.0, V=V), start)
        yield go(tkf.Causal(tkf.Softmax(beta=1.0, V=V)), start)
        yield go(tkf.Softmax(beta=1.0), tkf.Tokens(np.tile([[0.6, 0.8]], (12, 1))))

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        start = tkf.Tokens.gaussian(n=12, d=2, seed=0)
        fast = tkf.evolve(tkf.Flow(tkf.Softmax(V=2.0 * np.eye(2))), start, t=2.0, save=9)
        yield "values twice as large as said", {"run": relabelled(fast, tkf.Flow(tkf.Softmax()))}
        linear = tkf.evolve(tkf.Flow(tkf.Linear(0.1)), start, t=2.0, save=9)
        yield "linear attention", {"run": linear}
        yield "linear attention, said to be softmax", {"run": relabelled(linear, tkf.Flow(tkf.Softmax(V=0.1)))}

    def plot(self, axes: Any, run: tkf.Trajectory) -> None:
        flow, times, R = flow_of(run), np.asarray(run.times), radii(run)
        V = lambda t: value_norm(flow.attention, tokens_of(run).d, t)
        share = R / (R[0] * np.exp(integrated(V, times, fine=10)))
        axes.semilogy(
            times, share, lw=1.5, label=type(flow.attention).__name__ + (", one place" if share.min() > 0.99 else "")
        )
        axes.set_xlabel("t")
        axes.set_ylabel("radius over its bound")
        axes.legend(fontsize=7)


def spread_constants(scores: Scores, p: float, n: float) -> Callable[[float], float]:
    """L_p(R): how fast two measures in a ball of radius R may part."""
    return lambda R: scores.map_constant(R, p, n)


def masked_constants(scores: Scores, p: float, w: np.ndarray) -> Callable[[float], float]:
    """The same for masked attention, tokens in their order. A token sees its predecessors alone, whose weights are at most
    e^spread/(w_1 + ... + w_i) times theirs: then Jensen's inequality and the sum over those who see token j, or Hardy's
    inequality with its constant p/(p-1)."""
    seen = np.cumsum(w)

    def crowding(R: float) -> float:
        m = np.exp(min(scores.spread(R, R), 700.0))
        felt = lambda j: float(np.sum(w[j:] * np.minimum(1 / w[j], m / seen[j:])))
        jensen = max(felt(j) for j in range(len(w))) ** (1 / p)
        return min(jensen, m * p / (p - 1)) if p > 1 else jensen

    return lambda R: scores.V * (scores.cross * R**2 + (1 + 2 * scores.slope(R, R) * R) * crowding(R))


class FlowStability(Statement):
    """Grönwall: log C(t) = ∫ L_p(R₀ e^(‖V‖s)) ds with L_p = ‖V‖‖A‖R² + c(R, R), c that of the third estimate. What is measured
    is the share of it that two runs use: log(W_p(t)/W_p(0)) over log C(t)."""

    name = "wasserstein-stability"
    source, number, kind = "castin2025", "well-posedness", "theorem"
    says = "Two measures under one flow part at most by W_p(μ_t, ν_t) ≤ C(t, R₀) W_p(μ_0, ν_0)."
    remark = (
        "The slides have C ∝ e^(tR(t)²). Derived from the estimates: log C = ∫(‖V‖‖A‖R² + c(R, R)) ds, where c has the "
        "factor min(n, e^(2‖A‖R²))^(1/p). At p = 1 that factor is real: of two tokens at ±1.5u, A = -I, R² = 2.25, the one "
        "of weight 1e-4 moved at a right angle lets W_1 grow at the rate 65 at first, where the bound has 497. Random "
        "tokens use 1% to 3% of log C."
    )

    def hypotheses(self, run: tkf.Trajectory, other: tkf.Trajectory, p: float = 2.0) -> Iterator[tuple[str, bool]]:
        flow = flow_of(run)
        yield "p is at least 1", p >= 1
        yield "tokens move by softmax or L2 attention alone, in R^d", bare(flow) and defined(flow.attention)
        yield "there is no mask", not isinstance(flow.attention, tkf.Causal)
        yield from shared(run, other)

    def findings(self, run: tkf.Trajectory, other: tkf.Trajectory, p: float = 2.0) -> Iterator[Finding]:
        from tokenfield.theory.statements.castin2025.estimates import crowd

        n = crowd(tokens_of(run)[0], tokens_of(other)[0])
        scores = Scores.of(flow_of(run).attention, tokens_of(run).d)
        yield parting(run, other, p, spread_constants(scores, p, n))

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        n = 12 if small else 100
        starts = [tkf.Tokens.gaussian(n=n, d=2, cov=0.25 * np.eye(2), seed=seed) for seed in (0, 1)]
        for attention in (tkf.Softmax(1.0), tkf.L2(1.0)):
            run, other = both(tkf.Flow(attention), starts)
            for p in (1.0, 2.0):
                yield {"run": run, "other": other, "p": p}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        starts = [tkf.Tokens.gaussian(n=12, d=2, cov=0.25 * np.eye(2), seed=seed) for seed in (0, 1)]
        fast = both(tkf.Flow(tkf.Softmax(1.0)), starts)
        slow = tkf.Flow(tkf.Softmax(1.0, V=0.02))
        run, other = (relabelled(one, slow) for one in fast)
        yield "values fifty times as large as said", {"run": run, "other": other}
        yield "two flows", {"run": fast[0], "other": other}

    def plot(self, axes: Any, run: tkf.Trajectory, other: tkf.Trajectory, p: float = 2.0) -> None:
        W = distances(run, other, p)
        axes.semilogy(run.times, W / W[0], lw=1.5, label=f"{type(flow_of(run).attention).__name__}, p = {p:g}")
        axes.set_xlabel("t")
        axes.set_ylabel(r"$W_p(\mu_t, \nu_t) / W_p(\mu_0, \nu_0)$")
        axes.legend(fontsize=7)


class MaskedStability(Statement):
    """The same in the conditional distance (∫ W_p^p(μ_s, ν_s) ds)^(1/p), which moves tokens within their position alone."""

    name = "masked-stability"
    source, number, kind = "castin2025", "masked attention", "theorem"
    says = "Under masked attention the conditional Wasserstein distance of two measures grows at most by a factor C(t, R₀)."
    remark = (
        "For p > 1 Hardy's inequality gives a constant that does not depend on n, with a factor p/(p-1). For p = 1 there is "
        "none: at A = 0, the first token alone moved, one layer stretches the distance by 1 + 1/2 + ... + 1/n (2.9, 5.2, "
        "7.5 for n = 10, 100, 1000) and the flow to t = 1 by 8.0, 20, 45; at p = 2 by 1.24, 1.279, 1.282 and 3.31, 3.61, "
        "3.72. So stability of masked attention for all p ≥ 1 in the mean-field limit is true for p > 1 only, or with log n."
    )

    def hypotheses(self, run: tkf.Trajectory, other: tkf.Trajectory, p: float = 2.0) -> Iterator[tuple[str, bool]]:
        flow, s = flow_of(run), tokens_of(run).states.s
        yield "p is at least 1", p >= 1
        yield "tokens move by masked softmax or L2 attention alone, in R^d", bare(flow) and defined(flow.attention)
        yield "there is a mask", isinstance(flow.attention, tkf.Causal)
        yield "no two tokens share a position", s is not None and bool((np.diff(np.asarray(s)[0]) > 0).all())
        yield from shared(run, other)

    def findings(self, run: tkf.Trajectory, other: tkf.Trajectory, p: float = 2.0) -> Iterator[Finding]:
        scores = Scores.of(flow_of(run).attention, tokens_of(run).d)
        yield parting(run, other, p, masked_constants(scores, p, np.asarray(run[0].w)))

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        run, other = both(tkf.Flow(tkf.Causal(tkf.Softmax(1.0))), sequences(12 if small else 100))
        for p in (1.0, 2.0):
            yield {"run": run, "other": other, "p": p}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        fast = both(tkf.Flow(tkf.Causal(tkf.Softmax(1.0))), sequences(12))
        slow = tkf.Flow(tkf.Causal(tkf.Softmax(1.0, V=0.02)))
        run, other = (relabelled(one, slow) for one in fast)
        yield "values fifty times as large as said", {"run": run, "other": other}
        run, other = (relabelled(one, tkf.Flow(tkf.Softmax(1.0))) for one in fast)
        yield "no mask", {"run": run, "other": other}


def both(flow: tkf.Flow, starts: list[tkf.Tokens]) -> tuple[tkf.Trajectory, tkf.Trajectory]:
    """Two starts under one flow."""
    run, other = (tkf.evolve(flow, start, t=0.5, save=6) for start in starts)
    return run, other


def sequences(n: int) -> list[tkf.Tokens]:
    """Two sequences of n tokens that differ in the first alone, which all see."""
    x = 0.5 * np.asarray(tkf.Tokens.gaussian(n=n, d=2, seed=0).x)
    y = x.copy()
    y[0] = -x[0]
    return [tkf.Tokens(points, s=np.arange(1, n + 1) / n) for points in (x, y)]


def shared(run: tkf.Trajectory, other: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
    """That two runs have one flow, whose parameters do not change with depth, and the same saved times."""
    yield "both runs have one flow", same(flow_of(run), flow_of(other))
    yield "its parameters do not change with depth", flow_of(run).timeless
    alike = len(run.times) == len(other.times) and np.allclose(run.times, other.times, rtol=1e-12)
    yield "both runs are saved at the same times", bool(alike)
    yield (
        "they differ at the start",
        bool(np.any(np.asarray(run[0].x) != np.asarray(other[0].x)) if run.n == other.n else True),
    )


def same(one: tkf.Flow, other: tkf.Flow) -> bool:
    """Whether two flows are the same, number by number."""
    import equinox as eqx

    return bool(eqx.tree_equal(one, other))


def distances(run: tkf.Trajectory, other: tkf.Trajectory, p: float) -> np.ndarray:
    """W_p of two runs at all saved times."""
    return np.asarray(tkf.observe.wasserstein(tokens_of(run), tokens_of(other), p))


def parting(run: tkf.Trajectory, other: tkf.Trajectory, p: float, L: Callable[[float], float]) -> Finding:
    """How much of log C two runs use, at most over all saved times."""
    times, W, R = np.asarray(run.times), distances(run, other, p), max(radii(run)[0], radii(other)[0])
    V = value_norm(flow_of(run).attention, tokens_of(run).d)
    log_C = integrated(lambda t: L(R * np.exp(V * (t - times[0]))), times, fine=50)[1:]
    used = np.log(W[1:] / W[0]) / log_C
    rough = float(((solved(run) + solved(other)) * R / W[0] / log_C).max())
    return Finding(
        f"share of log C that is used, p = {p:g}, {type(flow_of(run).attention).__name__} (at the end C = e^{log_C[-1]:.3g})",
        predicted=1.0,
        measured=float(used.max()),
        tolerance=rough + 1e-6,
        because=(
            "Steps err by rtol × R each, which the flow stretches by C at most, so that log W_p may be off by (rtol × "
            f"steps) R/W_p(0), {rough:.1g} of log C; 1e-6 for the integral."
        ),
        relation="≤",
    )
