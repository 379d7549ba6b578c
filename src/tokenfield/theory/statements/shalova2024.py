"""Shalova and Schlichting, Solutions of the stationary McKean–Vlasov equation on a high-dimensional sphere: where the uniform state
loses its stability, and how fast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.errors import InputError
from tokenfield.theory.base import Finding, Statement
from tokenfield.theory.statements.given import flow_of, noise_of, relabelled


class GrowthRates(Statement):
    """Of a density near the uniform one: every degree l whose harmonics are there from start to end, by log(a_l(t)/a_l(0))/t."""

    name = "growth-rates"
    source, number, kind = "shalova2024", "section 7 in rigollet2025", "theorem"
    says = (
        "Around the uniform state harmonics of degree l grow at the rate l(l+d-2)(c_l/β - 1/κ) under noisy USA, and with c_l/c_0 "
        "in the place of c_l under SA."
    )

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        yield "the flow is SA or USA, with or without noise", _known(flow_of(run))
        waves = _Waves(run)
        yield "the density stays near the uniform one, with amplitudes below 1e-3", waves.sizes.max() < 1e-3
        yield "some harmonics are there from the start to the end", len(waves.there) > 0

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        waves = _Waves(run)
        for l in waves.there:
            yield Finding(
                f"growth rate of degree {l} on S^{waves.d - 1} ({waves.kind}, β = {waves.beta:g})",
                predicted=waves.rates[l],
                measured=waves.measured(l),
                tolerance=waves.error(l),
                because=(
                    f"Products of two harmonics, which linear theory leaves out, change a rate by at most {waves.products(l):.1g}, "
                    f"and the solver by {waves.solver(l):.1g}: rtol in every step, over the amplitude and the time."
                ),
                rival=0.0,
            )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        yield {"run": _ripples(tkf.sa(5.0, kappa=20.0), _circle())}
        yield {"run": _ripples(tkf.usa(2.0, kappa=2.0), _circle())}
        yield {"run": _ripples(tkf.usa(2.0), _zonal(3))}
        if not small:
            yield {"run": _ripples(tkf.usa(40.0, scaled=True), _circle())}
            yield {"run": _ripples(tkf.sa(9.0, kappa=100.0), _zonal(3))}
            yield {"run": _ripples(tkf.sa(9.0, kappa=100.0), _zonal(8))}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        run = _ripples(tkf.sa(5.0, kappa=20.0), _circle())
        yield "a run at another β", {"run": relabelled(run, tkf.sa(5.1, kappa=20.0))}
        yield "SA, said to be USA", {"run": relabelled(run, tkf.usa(5.0, kappa=20.0))}
        yield "a run with noise, said to have none", {"run": relabelled(run, tkf.sa(5.0))}
        far = tkf.evolve(tkf.sa(5.0, kappa=20.0), tkf.CircleDensity.von_mises(1.0, degree=32), t=0.5, save=2)
        yield "a density far from the uniform one", {"run": far}

    def plot(self, axes: Any, run: tkf.Trajectory) -> None:
        waves = _Waves(run)
        scale = np.abs(waves.rates[1:7]).max()
        label = f"{waves.kind}, β = {waves.beta:g}, d = {waves.d}"
        points = axes.plot(waves.there, [waves.measured(l) / scale for l in waves.there], "o", label=label)
        axes.plot(np.arange(1, 7), waves.rates[1:7] / scale, "--", lw=1, color=points[0].get_color())
        axes.axhline(0, color="0.7", lw=0.7)
        axes.set_xlabel("degree l")
        axes.set_ylabel("growth rate over the largest (dashed: theory)")
        axes.legend(fontsize=7)


class CriticalKappa(Statement):
    """Runs of densities near the uniform one, at several κ on both sides. The rate of degree 1 is linear in 1/κ: its zero is
    interpolated."""

    name = "critical-kappa"
    source, number, kind = "shalova2024", "section 7 in rigollet2025", "theorem"
    says = "The uniform state is stable below κ_c = β/c_1 (SA: β c_0/c_1) and unstable above."

    def hypotheses(self, runs: Sequence[tkf.Trajectory]) -> Iterator[tuple[str, bool]]:
        flows = [flow_of(run) for run in runs]
        noisy = all(_known(flow) and flow.kappa is not None for flow in flows)
        yield "the flows are SA or USA with noise", noisy
        yield (
            "they differ in κ only",
            len({(k.kind, float(k.beta), float(k.V)) for k in (f.coupling() for f in flows)}) == 1,
        )
        waves = [_Waves(run) for run in runs]
        yield (
            "densities stay near the uniform one, with amplitudes below 1e-3",
            max(w.sizes.max() for w in waves) < 1e-3,
        )
        yield "degree 1 is there", all(1 in one.there for one in waves)
        κ_c = tkf.theory.critical_kappa(flows[0], waves[0].d)
        κ = [noise_of(flow) for flow in flows]
        yield "some κ are below κ_c and some above", min(κ) < κ_c < max(κ)

    def findings(self, runs: Sequence[tkf.Trajectory]) -> Iterator[Finding]:
        flows, waves = [flow_of(run) for run in runs], [_Waves(run) for run in runs]
        κ_c = tkf.theory.critical_kappa(flows[0], waves[0].d)
        where = f"S^{waves[0].d - 1}, {waves[0].kind}, β = {waves[0].beta:g}"
        noise, rates = 1 / np.array([noise_of(flow) for flow in flows]), np.array([one.measured(1) for one in waves])
        slope, rate = np.polyfit(noise, rates, 1)
        error = max(one.error(1) for one in waves)
        yield Finding(
            f"κ at which degree 1 neither grows nor falls ({where})",
            predicted=κ_c,
            measured=float(-slope / rate),
            tolerance=2 * error * κ_c**2 / (waves[0].d - 1) + 1e-9 * κ_c,
            because=f"Each rate is known to {error:.1g}, and changes by (d - 1) for a change of 1/κ by 1; twice for the line.",
            rival=np.inf,
        )
        for one, κ, rate in zip(waves, 1 / noise, rates, strict=True):
            yield Finding(
                f"growth rate of degree 1 at κ = {κ / κ_c:.3g} κ_c",
                predicted=0.0,
                measured=float(rate),
                tolerance=one.error(1),
                because=f"The rate is known to {one.error(1):.1g}.",
                relation="≤" if κ < κ_c else "≥",
                unsure=None
                if abs(one.rates[1]) > 2 * one.error(1)
                else "κ is so near κ_c that the sign cannot be told.",
            )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        models = [(tkf.kuramoto(), 2), (tkf.usa(5.0), 2), (tkf.sa(5.0), 2), (tkf.usa(2.0), 3)]
        for flow, d in models[:3] if small else [*models, (tkf.sa(5.0), 3), (tkf.usa(2.0), 8)]:
            yield {"runs": _around(flow, d)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        runs = _around(tkf.usa(5.0), 2)
        other = [relabelled(run, tkf.usa(5.2, kappa=0.9 * noise_of(flow_of(run)))) for run in runs]
        yield "runs at another β", {"runs": other}
        yield "no κ above κ_c", {"runs": runs[:1]}


class _Waves:
    """Amplitudes by degree, at the start and at the end of a run, and what linear theory says of them."""

    def __init__(self, run: tkf.Trajectory):
        if not isinstance(run.states, tkf.CircleDensity | tkf.SphereDensity):
            raise InputError(f"This statement needs a run of a density, but got one of {type(run.states).__name__}.")
        flow, states = flow_of(run), run.states
        known, degrees = flow.coupling(), np.asarray(states.basis.degrees)
        self.d, self.kind, self.beta = states.d, known.kind.upper(), float(known.beta)
        c = np.asarray(states.coefficients)
        self.sizes = np.stack([np.linalg.norm(c[:, degrees == l], axis=1) for l in range(1, degrees.max() + 1)], axis=1)
        self.span = float(run.times[-1] - run.times[0])
        least = np.minimum(self.sizes[0], self.sizes[-1])
        self.there = [int(l) for l in 1 + np.flatnonzero(least > 0.1 * self.sizes[0].max())]
        self.rates = tkf.theory.growth_rates(flow, self.d, int(degrees.max()))
        self.steps = int(run.accepted) * (run.provenance.rtol + run.provenance.atol)
        l = np.arange(1, len(self.rates))
        self.strength = float((self.rates[1:] / (l * (l + self.d - 2)) + 1 / noise_of(flow)).max())

    def measured(self, l: int) -> float:
        first, last = self.sizes[[0, -1], l - 1]
        return float(np.log(last / first) / self.span)

    def products(self, l: int) -> float:
        """-div(f ∇Φ), both of degrees up to L and amplitudes a: at most L² λ (Σa)², over the amplitude of this degree."""
        top = max(self.there)
        least = self.sizes[:, l - 1].min()
        return float(2 * top**2 * self.strength * self.sizes.sum(axis=1).max() ** 2 / least)

    def solver(self, l: int) -> float:
        return float(self.steps / self.sizes[:, l - 1].min() / self.span)

    def error(self, l: int) -> float:
        return self.products(l) + self.solver(l)


RIPPLE = 1e-6
"""The amplitude of each degree at the start of a case."""


def _circle(top: int = 6, degree: int = 32) -> tkf.CircleDensity:
    c = np.eye(1, 2 * degree + 1)[0]
    c[1 : 2 * top : 2] = RIPPLE
    return tkf.CircleDensity(c)


def _zonal(d: int, top: int = 6, degree: int = 32) -> tkf.SphereDensity:
    c = np.eye(1, degree + 1)[0]
    c[1 : top + 1] = RIPPLE
    return tkf.SphereDensity(c, d=d, zonal=True)


def _ripples(flow: tkf.Flow, start: Any, t: float | None = None) -> tkf.Trajectory:
    """A run for the time given, or while the fastest of the first six degrees changes by a factor e."""
    t = 1 / float(np.abs(tkf.theory.growth_rates(flow, start.d, 6)).max()) if t is None else t
    return tkf.evolve(flow, start, t=t, save=2, rtol=1e-11)


def _around(flow: tkf.Flow, d: int) -> list[tkf.Trajectory]:
    """Runs with degree 1 alone, at κ below and above κ_c."""
    κ_c = tkf.theory.critical_kappa(flow, d)
    start = _circle(1) if d == 2 else _zonal(d, 1)
    return [_ripples(tkf.Flow(flow.attention, flow.normalization, kappa=κ), start, 2.0) for κ in (0.9 * κ_c, 1.1 * κ_c)]


def _known(flow: tkf.Flow) -> bool:
    known = flow.coupling_if_any()
    plain = flow.mlp is None and flow.reweighting is None
    return plain and known is not None and flow.normalization.tangential and flow.normalization.timeless


STATEMENTS: tuple[Statement, ...] = (GrowthRates(), CriticalKappa())
