"""Karagodin, Polyanskiy and Rigollet, Clustering in causal attention masking: the tokens at which others gather."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import tokenfield as tkf
from tokenfield.theory.base import Finding, Statement
from tokenfield.theory.statements.given import flow_of, relabelled, tokens_of


class RenyiCentres(Statement):
    """Of a run, or of an ensemble: the share of tokens that end within a kernel's width β^(-1/2) of a centre, on average over
    starts, and how far strong centres went, at most."""

    name = "renyi-centres"
    source, number, kind = "karagodin2024", "section 5", "observation"
    says = (
        "Under causal attention with V = I tokens gather at Rényi centres, those that are farther than δ = 4β^(-1/2) from all "
        "centres before them; strong ones, farther than δ from all tokens before them, hardly move for times exponential in β."
    )
    remark = (
        "Centres that are not strong do move: in 20 starts of 200 tokens on the circle, β = 64, the farthest of each went "
        "by 1.0 δ in the median and 1.9 δ at most by t = 40, and strong ones by 0.04 δ at most. 97% of tokens are then "
        "within β^(-1/2) of a centre (all of them for 10 of 20 starts, 88% at least; two starts alone would fail this "
        "check, which is of their mean), 98% at t = 200 and 99% at t = 1000; but by t = 1000, before e^(β(1 - cos δ)) = "
        "2500, strong centres have gone by δ, to another cluster, in several starts."
    )

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        one = next(run.members())
        flow, inner = flow_of(one), _inner(one)
        causal = isinstance(flow.attention, tkf.Causal) and isinstance(inner, tkf.Softmax)
        yield (
            "the flow is causal softmax attention on the sphere",
            causal and isinstance(flow.normalization, tkf.PostLN),
        )
        yield "nothing else acts on tokens", flow.mlp is None and flow.reweighting is None and flow.kappa is None
        yield "Q, K and V are the identity", all(getattr(inner, name) is None for name in ("Q", "K", "V", "A"))
        yield "β exceeds (4/π)²", _beta(one) > (4 / np.pi) ** 2
        life = float(np.exp(_beta(one) * (1 - np.cos(4 / np.sqrt(_beta(one))))))
        yield f"the run ends before e^(β(1 - cos δ)) = {life:.3g}", float(np.max(run.times)) < life

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        one = next(run.members())
        β, t = _beta(one), float(one.times[-1])
        reach = _reach(β, t)
        seen = [_seen(member, β, reach) for member in run.members()]
        before, after, late, went = (np.array([getattr(each, name) for each in seen]) for name in Seen._fields)
        yield Finding(
            f"share of tokens within β^(-1/2) of a centre, over {len(seen)} starts",
            predicted=1.0,
            measured=float(after.mean()),
            tolerance=float(late.mean()),
            because=(
                f"A centre fetches a token from an angle r in the time e^(β(1 - cos r)) r/sin r, which is that of the run at r = "
                f"{reach:.3g}: of the tokens at the start, {late.mean():.2g} were farther from all centres."
            ),
            rival=float(before.mean()),
        )
        yield Finding(
            "how far a strong centre went at most, in units of δ",
            predicted=0.0,
            measured=float(went.max()),
            tolerance=0.25,
            because="A centre that moves by less than a kernel's width β^(-1/2) = δ/4 keeps the tokens that gather at it.",
            rival=1.0,
        )

    def case(self, small: bool) -> dict[str, Any]:
        return {"run": _causal(200, 64.0, 40.0, range(4 if small else 20))}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        starts = [tkf.Tokens.uniform_sphere(200, 2, seed=seed) for seed in range(4)]
        causal = _causal(200, 64.0, 1.0, range(4)).flow
        everyone = tkf.evolve([tkf.sa(64.0)], starts, t=40.0, save=41)
        yield "attention without a mask", {"run": everyone}
        yield "attention without a mask, said to have one", {"run": relabelled(everyone, causal)}
        yield "another β, said to be this one", {"run": relabelled(_causal(200, 16.0, 40.0, range(4)), causal)}
        yield "a run that is too long", {"run": _causal(200, 4.0, 400.0, range(4))}

    def plot(self, axes: Any, run: tkf.Trajectory) -> None:
        one = next(run.members())
        x = np.asarray(one.directions)
        θ = np.unwrap(np.arctan2(x[..., 1], x[..., 0]), axis=0)
        centres = {
            strong: tkf.observe.renyi_centres(one, beta=_beta(one), strong=strong).indices for strong in (False, True)
        }
        axes.plot(np.asarray(one.times), θ, color="0.8", lw=0.4)
        axes.plot(np.asarray(one.times), θ[:, centres[False]], color="#66ccee", lw=1.2)
        axes.plot(np.asarray(one.times), θ[:, centres[True]], color="#4477aa", lw=1.8)
        axes.set_xlabel("t (dark: strong centres, light: the other centres)")
        axes.set_ylabel("angle")


class Seen(NamedTuple):
    """Shares of tokens within a kernel's width of a centre, at the start and at the end; of those that are out of reach at the
    start; and how far strong centres went, in units of δ."""

    before: float
    after: float
    late: float
    went: float


def _seen(run: tkf.Trajectory, β: float, reach: float) -> Seen:
    x = np.asarray(tokens_of(run).directions)
    centres, strong = (tkf.observe.renyi_centres(run, beta=β, strong=which) for which in (False, True))
    share = lambda points, near: float(np.mean((points @ points[centres.indices].T).max(axis=1) >= np.cos(near)))
    angles = np.arccos(np.clip(np.sum(x[0] * x[-1], axis=-1), -1.0, 1.0))[strong.indices]
    return Seen(
        share(x[0], β**-0.5), share(x[-1], β**-0.5), 1 - share(x[0], reach), float(angles.max() / centres.delta)
    )


def _reach(β: float, t: float) -> float:
    """From how far a centre fetches a token within some time: where e^(β(1 - cos r)) r/sin r = t."""
    r = np.linspace(1e-6, np.pi - 1e-6, 10_001)
    return float(r[np.searchsorted(β * (1 - np.cos(r)) + np.log(r / np.sin(r)), np.log(max(t, 1.0)))])


def _causal(n: int, beta: float, t: float, seeds: Any) -> tkf.Trajectory:
    flow = tkf.Flow(tkf.Causal(tkf.Softmax(beta)), tkf.PostLN())
    return tkf.evolve([flow], [tkf.Tokens.uniform_sphere(n, 2, seed=seed) for seed in seeds], t=t, save=41)


def _inner(run: tkf.Trajectory) -> Any:
    return getattr(flow_of(run).attention, "attention", None)


def _beta(run: tkf.Trajectory) -> float:
    return float(np.asarray(_inner(run).beta))


STATEMENTS: tuple[Statement, ...] = (RenyiCentres(),)
