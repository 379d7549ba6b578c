"""Karagodin, Ge, Polyanskiy and Rigollet, Normalization in attention dynamics: how fast tokens start, and how fast they finish."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.theory.base import Finding, Statement
from tokenfield.theory.statements.given import asymptotic_slope, flow_of, relabelled

SPEEDS = {
    "PostLN": lambda β, n, r, α: 2 / (np.exp(β) + n - 1),
    "PreLN": lambda β, n, r, α: 2 / (np.exp(β) + n - 1) / r,
    "PeriLN": lambda β, n, r, α: 2 / np.sqrt(np.exp(2 * β) + n - 1) / r,
    "NGPT": lambda β, n, r, α: 2 * α / np.sqrt(np.exp(2 * β) + n - 1),
}
"""ρ̇ at ρ = 0, by the name of the scheme."""


def _softmax(flow: tkf.Flow) -> bool:
    known = flow.coupling_if_any()
    return known is not None and known.kind == "sa" and float(known.V) == 1.0


class NormalizationRates(Statement):
    """The slope of -log(1 - ρ) against the exponent L(t) of the law, which is 1 where the law holds."""

    name = "normalization-rates"
    source, number, kind = "karagodin2025", "section 6.2 in rigollet2025", "theorem"
    says = (
        "Equiangular tokens collapse like e^(-2t) under Post-LN, 1/t² under Pre-LN, Peri-LN and Mix-LN, e^(-4√t) under "
        "sqrt-scaling, and e^(-2αt) under nGPT."
    )

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        yield "tokens are equiangular", isinstance(run.states, tkf.Equiangular)
        yield "attention is softmax with V = I", _softmax(flow_of(run))

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        times, logs = np.asarray(run.times), np.asarray(run.log_gap)
        late = times >= 0.1 * times[-1]
        L = np.asarray(tkf.theory.collapse_exponent(flow_of(run), times[late]))
        slope, tolerance, because = asymptotic_slope(L, -logs[late])
        yield Finding(
            f"slope of -log(1 - ρ) against L(t) ({type(flow_of(run).normalization).__name__})",
            predicted=1.0,
            measured=slope,
            tolerance=tolerance + 10 * run.provenance.rtol,
            because=because,
            rival=0.0,
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        start, softmax = tkf.Equiangular(rho=0.0, n=256), tkf.Softmax(5.0)
        exponential, root, power = 400.0, 1e4, 1e5
        schemes = [(tkf.PostLN(), exponential), (tkf.NGPT(1.0), exponential), (tkf.SqrtScaling(), root)]
        schemes += [(scheme, power) for scheme in (tkf.PreLN(), tkf.PeriLN(), tkf.MixLN(10.0))]
        for scheme, end in schemes:
            save = np.append(0.0, np.geomspace(end / 100, end, 80))
            yield {"run": tkf.evolve(tkf.Flow(softmax, scheme), start, t=end, save=save, rtol=1e-9)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        start, softmax = tkf.Equiangular(rho=0.0, n=256), tkf.Softmax(5.0)
        save = np.append(0.0, np.geomspace(1e3, 1e5, 80))
        pre = tkf.evolve(tkf.Flow(softmax, tkf.PreLN()), start, t=1e5, save=save)
        yield "Pre-LN, said to be Post-LN", {"run": relabelled(pre, tkf.sa(5.0))}
        root = tkf.evolve(tkf.Flow(softmax, tkf.SqrtScaling()), start, t=1e4, save=save / 10)
        yield "sqrt-scaling, said to be Pre-LN", {"run": relabelled(root, tkf.Flow(softmax, tkf.PreLN()))}
        yield "values that are doubled", {"run": tkf.evolve(tkf.sa(5.0, V=2.0), start, t=10.0)}

    def plot(self, axes: Any, run: tkf.Trajectory) -> None:
        times, logs = np.asarray(run.times)[1:], np.asarray(run.log_gap)[1:]
        style = "-" if len(axes.lines) % 4 == 0 else "--"  # some lie upon each other
        axes.loglog(times, -logs, style, lw=2, label=type(flow_of(run).normalization).__name__)
        axes.loglog(times, np.asarray(tkf.theory.collapse_exponent(flow_of(run), times)), "k:", lw=1)
        axes.set_xlabel("t")
        axes.set_ylabel("-log(1 - ρ), and the laws (dotted)")
        axes.legend(fontsize=7)


class InitialSpeeds(Statement):
    """Measured on tokens, which are orthogonal and of length r; the velocities of the flow, or others that are given as `v`."""

    name = "initial-speeds"
    source, number, kind = "karagodin2025", "section 6.2 in rigollet2025", "theorem"
    says = (
        "Orthogonal tokens start at ρ̇ = 2/(e^β + n - 1) under Post-LN, the same over r under Pre-LN, 2/(r √(e^(2β) + n - 1)) under "
        "Peri-LN, 2α/√(e^(2β) + n - 1) under nGPT."
    )

    def hypotheses(self, flow: tkf.Flow, n: int, r: float = 1.0, v: Any = None) -> Iterator[tuple[str, bool]]:
        yield "attention is softmax with V = I", _softmax(flow)
        yield "the source knows the scheme's speed", type(flow.normalization).__name__ in SPEEDS

    def findings(self, flow: tkf.Flow, n: int, r: float = 1.0, v: Any = None) -> Iterator[Finding]:
        mu = tkf.Tokens(r * np.eye(n))
        θ = np.asarray(flow.settle(mu).x)
        length = np.linalg.norm(θ, axis=1, keepdims=True)
        v = np.asarray(tkf.velocity(flow, mu) if v is None else v) / length
        θ = θ / length
        turned = v - np.sum(v * θ, axis=1, keepdims=True) * θ
        name, α = type(flow.normalization).__name__, float(getattr(flow.normalization, "alpha", 1.0))
        predicted = float(SPEEDS[name](float(flow.coupling().beta), n, r, α))
        yield Finding(
            f"ρ̇ at ρ = 0 ({name})",
            predicted=predicted,
            measured=float(turned[0] @ θ[1] + θ[0] @ turned[1]),
            tolerance=1e-9 * predicted + 1e-12,
            because="The field is summed to 1e-10 relative, and two of its products are added.",
            rival=0.0,
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        n = 16 if small else 256
        for scheme, r in ((tkf.PostLN(), 1.0), (tkf.PreLN(), 3.0), (tkf.PeriLN(), 3.0), (tkf.NGPT(0.5), 1.0)):
            yield {"flow": tkf.Flow(tkf.Softmax(2.0), scheme), "n": n, "r": r}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        v = tkf.velocity(tkf.sa(2.1), tkf.Tokens.orthonormal(16))
        yield "velocities at another β", {"flow": tkf.sa(2.0), "n": 16, "v": v}
        yield (
            "a scheme of which the source says nothing",
            {"flow": tkf.Flow(tkf.Softmax(2.0), tkf.SqrtScaling()), "n": 16},
        )


STATEMENTS: tuple[Statement, ...] = (NormalizationRates(), InitialSpeeds())
