"""Balasubramanian, Banerjee and Rigollet, On the structure of stationary solutions to McKean–Vlasov equations with applications to
noisy Transformers: how the uniform state gives way on the circle, and the equation itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.errors import InputError
from tokenfield.theory.base import Finding, Statement
from tokenfield.theory.statements.given import flow_of, noise_of, relabelled, same_equation, settled


class SquareRootLaw(Statement):
    """Of the states that `tkf.stationary` finds, or of others that are given as `orders`, at κ = κ_c(1 + ε) for the ε of `excess`.

    With m_l = ∫cos lθ dμ, f ∝ exp(x cos θ + y cos 2θ + ...), x = 2κλ_1 m_1, y = 2κλ_2 m_2 and λ_l = c_l/β: m_2(1 - κλ_2) = x²/8 and
    m_1 = (x/2)(1 + y/2 - x²/8) to third order, so that R² = 2ε(1 - r)/(1 - 2r) with r = c_2/c_1, up to a relative error of
    order ε/(1 - 2r)²; ε is small beside (1 - 2r)² where it is not given."""

    name = "square-root-law"
    source, number, kind = "balasubramanian2025", "section 7 in rigollet2025", "theorem"
    says = "On the circle, where c_2/c_1 < 1/2, stationary states of noisy USA leave the uniform one like R ~ √(κ/κ_c - 1)."
    remark = (
        "The constant is √(2(1 - r)/(1 - 2r)), r = I_2(β)/I_1(β); it grows without bound at β = 2.447, where r = 1/2."
    )

    def hypotheses(self, flow: tkf.Flow, excess: Any = None, orders: Any = None) -> Iterator[tuple[str, bool]]:
        yield "the flow is USA with V > 0", _usa(flow)
        yield "c_2/c_1 < 1/2", _ratio(flow) < 0.5

    def findings(self, flow: tkf.Flow, excess: Any = None, orders: Any = None) -> Iterator[Finding]:
        r = _ratio(flow)
        ε = np.geomspace(1e-3, 1e-2, 5) * (1 - 2 * r) ** 2 if excess is None else np.asarray(excess, float)
        R = _orders(flow, ε) if orders is None else np.asarray(orders, float)
        local = np.diff(np.log(R)) / np.diff(np.log(ε))
        slope = float(np.polyfit(np.log(ε), np.log(R), 1)[0])
        drift, β = abs(local[-1] - local[0]), float(flow.coupling().beta)
        growth = ε[-1] / ε[0]
        yield Finding(
            f"power of κ/κ_c - 1 in R, β = {β:g}",
            predicted=0.5,
            measured=slope,
            tolerance=float(2 * drift + 1e-6),
            because=f"The power still moves by {drift:.1g} over the window; what is missing is proportional to κ/κ_c - 1.",
            rival=1.0,
        )
        constant, scaled = np.sqrt(2 * (1 - r) / (1 - 2 * r)), R / np.sqrt(ε)
        drift = abs(scaled[-1] - scaled[0])
        yield Finding(
            f"R/√(κ/κ_c - 1), β = {β:g}",
            predicted=float(constant),
            measured=float(scaled[0]),
            tolerance=float(2 * drift / (growth - 1) + 1e-6),
            because=f"It moves by {drift:.1g} while κ/κ_c - 1 grows {growth:.3g}-fold, in proportion; twice what that leaves.",
            rival=float(np.sqrt(2)) if r > 0.05 else 0.0,
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        for β in (0.0, 1.0, 2.0) if small else (0.0, 0.5, 1.0, 1.5, 2.0, 2.3):
            yield {"flow": tkf.usa(β)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        ε = np.geomspace(1e-4, 1e-3, 5)
        yield "states at another β", {"flow": tkf.usa(2.0), "excess": ε, "orders": _orders(tkf.usa(1.9), ε)}
        yield "a linear law", {"flow": tkf.usa(1.0), "excess": ε, "orders": ε}
        yield "a β at which the transition is of first order", {"flow": tkf.usa(3.0)}

    def plot(self, axes: Any, flow: tkf.Flow, excess: Any = None, orders: Any = None) -> None:
        ε = np.geomspace(1e-4, 1, 25) if excess is None else np.asarray(excess, float)
        R, r = _orders(flow, ε) if orders is None else orders, _ratio(flow)
        line = axes.loglog(ε, R, "o", ms=3, label=f"β = {float(flow.coupling().beta):g}")
        axes.loglog(ε, np.sqrt(2 * ε * (1 - r) / (1 - 2 * r)), "--", lw=1, color=line[0].get_color())
        axes.set_xlabel("κ/κ_c - 1")
        axes.set_ylabel("R (dashed: theory)")
        axes.legend(fontsize=7)


class FirstOrder(Statement):
    """Two runs of densities at one κ between the fold and κ_c, one from a concentrated start, one from near the uniform state.

    Where c_2/c_1 > 1/2, R² = 2ε(1 - r)/(1 - 2r) has solutions for ε < 0: the branch leaves backward and turns at a fold. States are
    computed here independently of `tkf.stationary`: R is given, and κ and the other moments are iterated."""

    name = "first-order-transition"
    source, number, kind = "balasubramanian2025", "section 7 in rigollet2025", "theorem"
    says = (
        "On the circle, where c_2/c_1 > 1/2, the transition of noisy USA is of first order: from a fold before κ_c on, a "
        "clustered and the uniform state are both stable."
    )
    remark = "The fold is at 0.98869 κ_c for β = 3 and at 0.89702 κ_c for β = 5; c_2/c_1 = 1/2 at β = 2.447."

    def hypotheses(self, runs: Sequence[tkf.Trajectory]) -> Iterator[tuple[str, bool]]:
        flows = [flow_of(run) for run in runs]
        yield (
            "there are two runs of USA with noise",
            len(runs) == 2 and all(_usa(f) and f.kappa is not None for f in flows),
        )
        yield "both are of densities on the circle", all(isinstance(run.states, tkf.CircleDensity) for run in runs)
        same = {(float(f.coupling().beta), float(f.coupling().V), noise_of(f)) for f in flows}
        yield "at the same β, V and κ", len(same) == 1
        yield "c_2/c_1 > 1/2", _ratio(flows[0]) > 0.5
        _, fold = _fold(float(flows[0].coupling().beta))
        share = noise_of(flows[0]) / tkf.theory.critical_kappa(flows[0], 2)
        yield "κ is between the fold and κ_c", fold < share < 1
        yield (
            "the first starts with R > 0.9, the second with R < 0.01",
            float(runs[0].order[0]) > 0.9 and float(runs[1].order[0]) < 0.01,
        )

    def findings(self, runs: Sequence[tkf.Trajectory]) -> Iterator[Finding]:
        flow = flow_of(runs[0])
        β, κ_c = float(flow.coupling().beta), tkf.theory.critical_kappa(flow, 2)
        turn, fold = _fold(β)
        found = tkf.stationary(tkf.Flow(flow.attention, flow.normalization), d=2)
        yield Finding(
            f"κ of the fold over κ_c, β = {β:g}",
            predicted=fold,
            measured=float(found.folds.min()) / κ_c if len(found.folds) else 1.0,
            tolerance=1e-8,
            because="Both computations resolve states to 1e-10, and at a fold κ does not change with the state to first order.",
            rival=1.0,
        )
        from scipy.optimize import root_scalar

        share = noise_of(flow) / κ_c
        upper = root_scalar(lambda R: _share_of(R, β) - share, bracket=(turn, HIGHEST), xtol=1e-12).root
        for run, state, name in zip(runs, (upper, 0.0), ("a concentrated start", "a start near uniform"), strict=True):
            R = np.asarray(run.order)
            tolerance, because, unsure = settled(run, R)
            yield Finding(
                f"R at the end from {name}, β = {β:g}, κ = {share:.4g} κ_c",
                predicted=state,
                measured=float(R[-1]),
                tolerance=tolerance,
                because=because,
                rival=upper - state,
                unsure=unsure,
            )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        for β in (5.0,) if small else (3.0, 4.0, 5.0):
            yield {"runs": _both(β)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        runs = _both(5.0)
        κ = noise_of(flow_of(runs[0]))
        yield "runs at another β", {"runs": [relabelled(run, tkf.usa(4.99, kappa=κ)) for run in runs]}
        yield "runs at another κ", {"runs": [relabelled(run, tkf.usa(5.0, kappa=0.98 * κ)) for run in runs]}
        yield (
            "a β at which the transition is continuous",
            {"runs": [relabelled(run, tkf.usa(1.0, kappa=κ)) for run in runs]},
        )

    def plot(self, axes: Any, runs: Sequence[tkf.Trajectory]) -> None:
        β, R = float(flow_of(runs[0]).coupling().beta), np.linspace(0.02, 0.97, 120)
        κ_c = tkf.theory.critical_kappa(flow_of(runs[0]), 2)
        axes.plot([_share_of(one, β) for one in R], R, lw=1.5, label=f"stationary states, β = {β:g}")
        for run, marker in zip(runs, "v^", strict=True):
            axes.plot(noise_of(flow_of(run)) / κ_c, float(run.order[-1]), f"k{marker}")
        axes.axvline(1.0, color="0.7", lw=0.7)
        axes.set_xlabel("κ/κ_c")
        axes.set_ylabel("R (triangles: ends of runs)")
        axes.set_xlim(0.85, 1.2)
        axes.legend(fontsize=7)


class FokkerPlanck(Statement):
    """An ensemble of runs of noisy tokens, each a sample of one law, and a run of the density from that law: moments at the end."""

    name = "fokker-planck"
    source, number, kind = "balasubramanian2025", "equation (9) in rigollet2025", "theorem"
    says = "The law of noisy tokens solves ∂_t μ = -div(μ v_μ) + κ⁻¹Δμ, with v_μ the tangential part of attention."
    remark = (
        "In the survey's equation (9) both the divergence and the Laplacian have the other sign: that is this equation with time "
        "running backward, in which noise sharpens a density and attention disperses it. Its (8) and tokens obey the signs "
        "given here. The projection to the tangent space is missing there, too."
    )

    def hypotheses(self, tokens: tkf.Trajectory, density: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        yield (
            "a density on the circle moves, with noise",
            isinstance(density.states, tkf.CircleDensity) and flow_of(density).kappa is not None,
        )
        yield (
            "tokens are an ensemble of at least eight runs on the circle",
            _count(tokens) >= 8 and tokens.states.d == 2,
        )
        members = list(tokens.members())
        yield "both have the same flow and the same times", all(same_equation(run, density) for run in members)
        first = _moments(tokens, 0)
        error = first.std(axis=0, ddof=1) / np.sqrt(len(first))
        begun = bool(np.all(np.abs(first.mean(axis=0) - _modes(density, 0)) < 5 * error))
        yield "tokens start as samples of the density", begun

    def findings(self, tokens: tkf.Trajectory, density: tkf.Trajectory) -> Iterator[Finding]:
        last, law, before = _moments(tokens, -1), _modes(density, -1), _modes(density, 0)
        spread = last.std(axis=0, ddof=1)
        error = spread / np.sqrt(len(last))
        β = abs(float(flow_of(density).coupling().beta))
        for k in range(2):
            bias = (1 + β) * float(spread.max()) ** 2
            yield Finding(
                f"∫cos({k + 1}θ) dμ at the end",
                predicted=float(law[k]),
                measured=float(last.mean(axis=0)[k]),
                tolerance=float(4 * error[k] + bias),
                because=(
                    f"Four standard errors of the mean over {len(last)} runs, {4 * error[k]:.2g}, and the effect of second order "
                    f"of fluctuations on the mean, (1 + β) times their variance, {bias:.1g}."
                ),
                rival=float(2 * before[k] - law[k]),
            )

    def case(self, small: bool) -> dict[str, Any]:
        n, count = (400, 24) if small else (2000, 64)
        return _sampled(tkf.usa(1.0, kappa=4.0), n, count)

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        both = _sampled(tkf.usa(1.0, kappa=4.0), 400, 24)
        import jax.numpy as jnp

        c = both["density"].states.coefficients
        reversed_ = both["density"].states.with_coefficients(jnp.stack([c[0], 2 * c[0] - c[-1]]))  # to first order in t
        yield "the signs of the survey", {**both, "density": dataclasses.replace(both["density"], states=reversed_)}
        backward = tkf.usa(1.0, kappa=4.0, V=-1.0)
        wrong = tkf.evolve(backward, both["density"][0], t=0.5, save=2)
        yield (
            "a density with the other sign of the divergence",
            {**both, "density": relabelled(wrong, tkf.usa(1.0, kappa=4.0))},
        )
        still = tkf.evolve(tkf.usa(1.0), both["density"][0], t=0.5, save=2)
        yield "a density without the Laplacian", {**both, "density": relabelled(still, tkf.usa(1.0, kappa=4.0))}
        yield (
            "a density at another β",
            {**both, "density": tkf.evolve(tkf.usa(2.0, kappa=4.0), both["density"][0], t=0.5, save=2)},
        )


def _ratio(flow: tkf.Flow) -> float:
    """r = c_2/c_1 = I_2(β)/I_1(β)."""
    from scipy.special import ive

    β = float(flow.coupling().beta)
    return float(ive(2, β) / ive(1, β)) if β > 0 else 0.0


def _usa(flow: tkf.Flow) -> bool:
    known = flow.coupling_if_any()
    plain = flow.mlp is None and flow.reweighting is None and flow.normalization.tangential
    return plain and known is not None and known.kind == "usa" and float(known.V) > 0 and float(known.beta) >= 0


def _orders(flow: tkf.Flow, ε: np.ndarray) -> np.ndarray:
    """R of the stable state at κ_c(1 + ε)."""
    κ_c = tkf.theory.critical_kappa(flow, 2)
    diagram = tkf.stationary(flow, d=2, kappa=(0.9 * κ_c, κ_c * (1.2 + ε.max())))
    return np.array([max(state.order for state in diagram.at(float(κ_c * (1 + one))) if state.stable) for one in ε])


HIGHEST = 0.97
"""The highest order parameter of states that are computed here."""


def _share_of(R: float, β: float) -> float:
    """κ/κ_c of the state of noisy USA whose order parameter is R: other moments are iterated, and κ is such that the first is R."""
    from scipy.optimize import root_scalar
    from scipy.special import ive

    l, θ = np.arange(1, 40), np.linspace(0, 2 * np.pi, 256, endpoint=False)
    cosines, λ = (
        np.cos(np.outer(l, θ)),
        ive(np.arange(1, 40), β) / ive(1, β),
    )  # in units of c_1/β, so that κ is in those of κ_c
    m, κ = R ** l.astype(float) ** 1.5, 1.0
    for _ in range(500):
        Φ = 2 * (λ * m) @ cosines
        law = lambda κ: (f := np.exp(κ * (Φ - Φ.max()))) / f.sum()  # noqa: B023
        κ_new = root_scalar(lambda κ: cosines[0] @ law(κ) - R, bracket=(1e-3, 100.0), xtol=1e-15, rtol=1e-14).root  # noqa: B023
        new = cosines @ law(κ_new)
        done = np.abs(new - m).max() < 1e-13 and abs(κ_new - κ) < 1e-13
        m, κ = np.append(R, new[1:]), κ_new
        if done:
            return κ
    raise InputError(f"The moments of the state with R = {R:g} at β = {β:g} did not settle.")


def _fold(β: float) -> tuple[float, float]:
    """R and κ/κ_c where the branch of degree 1 turns."""
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(
        lambda R: _share_of(R, β), bounds=(0.05, HIGHEST), method="bounded", options={"xatol": 1e-8}
    )
    return float(found.x), float(found.fun)


def _both(β: float) -> list[tkf.Trajectory]:
    """Runs from a concentrated start and from near the uniform state, half-way between the fold and κ_c."""
    flow = tkf.usa(β)
    κ_c = tkf.theory.critical_kappa(flow, 2)
    κ = κ_c * (1 + _fold(β)[1]) / 2
    rate = abs(float(tkf.theory.growth_rates(flow, 2, 1, kappa=κ)[1]))
    starts = [tkf.CircleDensity.von_mises(8.0, degree=64), tkf.CircleDensity.wave(1e-3, degree=64)]
    return [tkf.evolve(tkf.usa(β, kappa=κ), start, t=30 / rate, save=51, rtol=1e-9) for start in starts]


def _count(tokens: tkf.Trajectory) -> int:
    if not isinstance(tokens.states, tkf.Tokens) or not tokens.batch:
        raise InputError("This statement needs an ensemble of runs of Tokens: evolve(flow, [start, ...], t).")
    return int(np.prod(tokens.batch))


def _moments(tokens: tkf.Trajectory, index: int) -> np.ndarray:
    """∫cos kθ dμ for k = 1, 2 of every member, one row each."""
    x = np.asarray(tokens.x)[..., index, :, :].reshape(_count(tokens), -1, 2)
    return np.stack([x[..., 0].mean(axis=-1), (2 * x[..., 0] ** 2 - 1).mean(axis=-1)], axis=1)


def _modes(density: tkf.Trajectory, index: int) -> np.ndarray:
    return np.asarray(density.states.coefficients)[index, [1, 3]] / 2**0.5


def _sampled(flow: tkf.Flow, n: int, count: int) -> dict[str, Any]:
    law = tkf.CircleDensity.von_mises(1.0, degree=48)
    starts = [law.sample(n, seed=seed) for seed in range(count)]
    return {
        "tokens": tkf.evolve([flow], starts, t=0.5, save=2, step=0.025),
        "density": tkf.evolve(flow, law, t=0.5, save=2, rtol=1e-9),
    }


STATEMENTS: tuple[Statement, ...] = (SquareRootLaw(), FirstOrder(), FokkerPlanck())
