"""Bruno, Pasqualotto and Agazzi, Emergence of meta-stable clustering in mean-field Transformer models: how many clusters come
first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.errors import InputError
from tokenfield.theory.base import Finding, Statement
from tokenfield.theory.statements.given import attracting, flow_of, relabelled


class EarlyClusters(Statement):
    """Of a density on the circle that begins near the uniform one, and of its maxima when they have grown.

    The harmonic l grows like e^{γ_l t} with γ_l = l² I_l(β)/(β I_0(β)) under SA, which is largest at l² = 2β - 1/3 + O(1/β), and
    near there γ_l/γ_max = 1 - (l - l*)²/β. So of small perturbations ε those within √(β/log(1/ε)) of l* are left."""

    name = "early-clusters"
    source, number, kind = "bruno2025", "section 5 in rigollet2025", "theorem"
    says = (
        "On the circle the first clusters to come from near the uniform density are as many as the fastest harmonic has crests, "
        "about √(2β)."
    )
    remark = (
        "The maximum of the growth rate is at l² = 2β - 1/3 + O(1/β), so that √(2β) is right to less than the rounding to a whole "
        "number. But it is flat: rates within √β/4 of it differ by some per cent only, and which of these "
        "harmonics wins is decided by the perturbation unless that is as small as e^(-β)."
    )

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        yield "the flow is SA or USA with β ≥ 0", attracting(flow_of(run))
        yield "a density on the circle moves", isinstance(run.states, tkf.CircleDensity)
        waves = _Waves(run)
        yield "it begins near the uniform one, with amplitudes below 1e-3", waves.first.max() < 1e-3
        yield "the fastest harmonic would have grown to an amplitude between 0.01 and 1", 0.01 <= waves.law.max() <= 1
        fastest = waves.law[waves.fastest - 1] >= 0.5 * waves.law.max()
        yield "the perturbation does not favour other harmonics than the fastest", fastest

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        waves = _Waves(run)
        β, left = waves.beta, waves.left
        rough = f"Harmonics {left.min()} to {left.max()} would be half as large as the largest or more, and any of them may prevail"
        spread = float(np.abs(left - waves.fastest).max())
        for what, measured in (("harmonic that is largest", waves.largest), ("number of clusters", waves.clusters)):
            yield Finding(
                f"{what}, β = {β:g}",
                predicted=waves.fastest,
                measured=measured,
                tolerance=spread,
                because=f"{rough}.",
                rival=1.0,
            )
        yield Finding(
            f"number of clusters, β = {β:g}, against √(2β)",
            predicted=np.sqrt(2 * β),
            measured=waves.clusters,
            tolerance=spread + 0.5 + 1 / np.sqrt(2 * β),
            because=f"{rough}; a half for rounding, and 1/√(2β) for the next term of the expansion.",
            rival=np.sqrt(β),
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        for β in (5.0, 20.0, 50.0) if small else (5.0, 7.0, 20.0, 50.0, 100.0, 200.0):
            yield {"run": _grown(tkf.sa(β), 128 if small else 256)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        run = _grown(tkf.sa(20.0), 128)
        yield "a run at another β", {"run": relabelled(run, tkf.sa(50.0))}
        yield (
            "a density that begins far from uniform",
            {"run": tkf.evolve(tkf.sa(5.0), tkf.CircleDensity.von_mises(1.0, degree=128), t=0.1)},
        )
        away = tkf.evolve(tkf.sa(20.0, V=-1.0), run[0], t=1.0, save=2)
        yield "tokens that repel each other", {"run": away}

    def plot(self, axes: Any, run: tkf.Trajectory) -> None:
        waves, θ = _Waves(run), np.linspace(0, 2 * np.pi, 2000)
        β, f, above = waves.beta, run.final(θ) - 1, len(axes.lines)
        axes.plot(θ, above + 0.45 * f / np.abs(f).max(), lw=1.2)
        axes.text(
            2 * np.pi + 0.1,
            above,
            f"β = {β:g}: {waves.clusters} maxima\n√(2β) = {np.sqrt(2 * β):.1f}",
            fontsize=7,
            va="center",
        )
        axes.set_xlim(0, 2.7 * np.pi)
        axes.set_yticks([])
        axes.set_xlabel("θ")
        axes.set_ylabel("densities at the end, less 1, each to its own scale")


class _Waves:
    """The harmonics of a run: how large they are, and how large linear theory says they become."""

    def __init__(self, run: tkf.Trajectory):
        if not isinstance(run.states, tkf.CircleDensity):
            raise InputError(
                f"This statement needs a run of a CircleDensity, but got one of {type(run.states).__name__}."
            )
        flow, span = flow_of(run), float(run.times[-1] - run.times[0])
        self.beta, self.fastest = float(flow.coupling().beta), tkf.theory.most_unstable(flow, 2)
        c = np.asarray(run.states.coefficients)
        size = np.hypot(c[:, 1::2], c[:, 2::2])
        self.first, last = size[0], size[-1]
        γ = tkf.theory.growth_rates(flow, 2, size.shape[1])[1:]
        self.law = np.sqrt(2) * self.first * np.exp(np.minimum(γ * span, 700.0))
        self.left = 1 + np.flatnonzero(self.law >= 0.5 * self.law.max())
        self.largest = 1 + int(np.argmax(last))
        f = run.final(np.linspace(0, 2 * np.pi, 64 * size.shape[1], endpoint=False))
        self.clusters = int(np.sum((f > np.roll(f, 1)) & (f >= np.roll(f, -1))))


SEED = 1e-8
"""The amplitude of every harmonic at the start of a case."""


def _grown(flow: tkf.Flow, degree: int) -> tkf.Trajectory:
    """Harmonics of one amplitude and random phases, until the fastest would have an amplitude of 0.1."""
    top = 3 * tkf.theory.most_unstable(flow, 2)
    phases = np.random.default_rng(0).uniform(0, 2 * np.pi, top)
    c = np.eye(1, 2 * degree + 1)[0]
    c[1 : 2 * top + 1 : 2], c[2 : 2 * top + 2 : 2] = SEED / 2**0.5 * np.cos(phases), SEED / 2**0.5 * np.sin(phases)
    t = np.log(0.1 / SEED) / tkf.theory.growth_rates(flow, 2, top).max()
    return tkf.evolve(flow, tkf.CircleDensity(c), t=t, save=2, rtol=1e-9)


STATEMENTS: tuple[Statement, ...] = (EarlyClusters(),)
