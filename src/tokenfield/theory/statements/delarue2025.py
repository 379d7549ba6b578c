"""Delarue and Tse, Uniform in time weak propagation of chaos on the torus: how far finitely many noisy tokens are from the density,
on average and for ever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.errors import InputError
from tokenfield.theory.base import Finding, Statement
from tokenfield.theory.statements.given import flow_of, noise_of, relabelled


class UniformChaos(Statement):
    """An ensemble of runs of n tokens under noisy Kuramoto dynamics below the transition, from independent uniform starts. For the
    density |m|² = 0, m = ∫e^{iθ} dμ. For n tokens y = n E|m|² solves ẏ = -(2/κ - 1)y + 2/κ + O(1/n), y(0) = 1: noise of n tokens
    feeds it, and the linear flow damps it."""

    name = "uniform-chaos"
    source, number, kind = "delarue2025", "section 7 in rigollet2025", "theorem"
    says = "Below the transition of noisy Kuramoto dynamics, E|m|² of n tokens is that of the density up to O(1/n), at all times."
    remark = (
        "The constant can be had: from uniform starts n E|m|² grows from 1 to 1/(1 - κ/2) at the rate 2/κ - 1, and stays. It has "
        "no limit as κ → 2, where fluctuations become large."
    )

    def hypotheses(self, tokens: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        members = [flow_of(run) for run in tokens.members()]
        yield "the flow is Kuramoto's, β = 0 and V = 1, with noise", all(map(_kuramoto, members))
        yield "κ < 2", all(noise_of(flow) < 2 for flow in members)
        count, n = _size(tokens)
        yield "there are at least 32 runs", count >= 32
        first = _squares(tokens)[:, 0] * n
        yield (
            "tokens start independent and uniform: n E|m|² = 1 within 5 standard errors",
            abs(first.mean() - 1) < 5 / np.sqrt(count),
        )

    def findings(self, tokens: tkf.Trajectory) -> Iterator[Finding]:
        count, n = _size(tokens)
        first = next(iter(tokens.members()))
        κ, times = noise_of(flow_of(first)), np.asarray(first.times)
        y, law = _squares(tokens) * n, expected(κ, times - times[0])
        for k in range(1, len(times)):
            error = y[:, k].std(ddof=1) / np.sqrt(count)
            yield Finding(
                f"n E|m|² at t = {times[k]:g}, κ = {κ:g}, n = {n}",
                predicted=float(law[k]),
                measured=float(y[:, k].mean()),
                tolerance=float(4 * error + 4 * law[k] ** 2 / n),
                because=(
                    f"Four standard errors over {count} runs, {4 * error:.2g}, and moments of fourth order, E|m|⁴ = 2y²/n², which "
                    f"change y by at most 4y²/n = {4 * law[k] ** 2 / n:.2g}."
                ),
                rival=0.0,
            )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        n, count = (48, 256) if small else (256, 512)
        for κ in (1.0,) if small else (0.5, 1.0, 1.5):
            yield {"tokens": _ensemble(κ, n, count)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        runs = _ensemble(1.7, 48, 256)
        yield "runs at another κ", {"tokens": relabelled(runs, _with_noise(runs.flow, 1.0))}
        yield "a κ above the transition", {"tokens": relabelled(runs, _with_noise(runs.flow, 3.0))}

    def plot(self, axes: Any, tokens: tkf.Trajectory) -> None:
        _, n = _size(tokens)
        first = next(iter(tokens.members()))
        κ, times = noise_of(flow_of(first)), np.asarray(first.times)
        fine = np.linspace(0, times[-1], 200)
        y = n * _squares(tokens)
        error = 2 * y.std(axis=0, ddof=1) / np.sqrt(len(y))
        line = axes.errorbar(times, y.mean(axis=0), error, fmt="o", label=f"{n} tokens, κ = {κ:g}, two standard errors")
        axes.plot(fine, expected(κ, fine), "--", lw=1, color=line.lines[0].get_color())
        axes.set_xlabel("t")
        axes.set_ylabel("n E|m|² (dashed: theory)")
        axes.legend(fontsize=7)


def expected(κ: float, t: np.ndarray) -> np.ndarray:
    """n E|m|² to leading order."""
    end = 1 / (1 - κ / 2)
    return end + (1 - end) * np.exp(-(2 / κ - 1) * t)


def _kuramoto(flow: tkf.Flow) -> bool:
    known = flow.coupling_if_any()
    plain = known is not None and known.kind == "usa" and float(known.beta) == 0 and float(known.V) == 1
    return plain and flow.kappa is not None


def _size(tokens: tkf.Trajectory) -> tuple[int, int]:
    """The number of runs and that of tokens in each."""
    if not isinstance(tokens.states, tkf.Tokens) or not tokens.batch or tokens.states.d != 2:
        raise InputError(
            "This statement needs an ensemble of runs of Tokens on the circle: evolve([flow], [start, ...], t)."
        )
    return int(np.prod(tokens.batch)), int(tokens.states.n)


def _squares(tokens: tkf.Trajectory) -> np.ndarray:
    """|m|² of every run at every saved time."""
    count, n = _size(tokens)
    return np.sum(np.asarray(tokens.x).reshape(count, -1, n, 2).mean(axis=2) ** 2, axis=-1)


def _with_noise(flow: Any, κ: float) -> Any:
    """The flow of an ensemble with other noise."""
    import equinox as eqx

    return eqx.tree_at(lambda one: one.kappa, flow, np.full(np.shape(flow.kappa), κ))


def _ensemble(κ: float, n: int, count: int) -> tkf.Trajectory:
    starts = [tkf.Tokens.uniform_sphere(n=n, d=2, seed=seed) for seed in range(count)]
    return tkf.evolve([tkf.usa(0.0, kappa=κ)], starts, t=6.0, save=[0.0, 0.5, 2.0, 6.0], step=0.1)


STATEMENTS: tuple[Statement, ...] = (UniformChaos(),)
