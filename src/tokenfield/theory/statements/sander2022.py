"""Sander, Ablin, Blondel and Peyré, Sinkformers: Transformers of growing depth, and their limit."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.theory.base import Finding, Statement
from tokenfield.theory.statements.given import flow_of, relabelled, tokens_of


class DepthLimit(Statement):
    """A run of the flow against Transformers of `depths` layers, steps τ = t/depth, from the same start. With an error
    cτ + c'τ² + ... the slope between depths L and 2L is 1 + O(τ): it halves its distance to 1 from one doubling to the next."""

    name = "depth-limit"
    source, number, kind = "sander2022", "infinite depth", "theorem"
    says = "The flow is the limit of Transformers of growing depth: layers of step τ differ from it by O(τ)."

    def hypotheses(self, run: tkf.Trajectory, depths: Sequence[int]) -> Iterator[tuple[str, bool]]:
        yield "the flow has no noise", flow_of(run).kappa is None
        yield "the run came to its end", run.status.ok
        doubled = all(b == 2 * a for a, b in itertools.pairwise(depths))
        yield "there are at least four depths, each twice the one before", len(depths) >= 4 and doubled

    def findings(self, run: tkf.Trajectory, depths: Sequence[int]) -> Iterator[Finding]:
        apart = errors(run, depths)
        slopes = np.log2(apart[:-1] / apart[1:])
        drift = float(abs(slopes[-1] - slopes[-2]))
        scale = float(np.abs(np.asarray(tokens_of(run).final.x)).max())
        rough = float(int(run.accepted) * run.provenance.rtol * scale / apart[-1])
        flow = flow_of(run)
        yield Finding(
            f"order in τ, {type(flow.attention).__name__} attention, {type(flow.normalization).__name__} normalization",
            predicted=1.0,
            measured=float(slopes[-1]),
            tolerance=2 * drift + 3 * rough,
            because=(
                f"The slope moved by {drift:.1g} in the last doubling, and is no farther from its limit if it halves its "
                f"distance, twice that for safety; the run may be off by rtol × steps, {rough:.1g} of the least error."
            ),
            rival=2.0,
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        depths = (64, 128, 256, 512) if small else (128, 256, 512, 1024, 2048)
        start = tkf.Tokens.uniform_sphere(n=16 if small else 128, d=3, seed=0)
        kinds = (tkf.Free(), tkf.PostLN(), tkf.PreLN(), tkf.PeriLN(), tkf.NGPT(0.5), tkf.SqrtScaling())
        for normalization in kinds[:3] if small else kinds:
            yield {"run": exact(tkf.Flow(tkf.Softmax(2.0), normalization), start), "depths": depths}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        start, depths = tkf.Tokens.uniform_sphere(n=16, d=3, seed=0), (64, 128, 256, 512)
        other = exact(tkf.Flow(tkf.Softmax(2.2), tkf.PostLN()), start)
        yield (
            "a flow at another β",
            {"run": relabelled(other, tkf.Flow(tkf.Softmax(2.0), tkf.PostLN())), "depths": depths},
        )
        free = exact(tkf.Flow(tkf.Softmax(2.0), tkf.Free()), start)
        yield (
            "no normalization, said to be Pre-LN",
            {"run": relabelled(free, tkf.Flow(tkf.Softmax(2.0), tkf.PreLN())), "depths": depths},
        )
        yield "depths that are not doubled", {"run": free, "depths": (10, 30, 50, 70)}

    def plot(self, axes: Any, run: tkf.Trajectory, depths: Sequence[int]) -> None:
        τ = (float(run.times[-1]) - float(run.times[0])) / np.asarray(depths)
        axes.loglog(τ, errors(run, depths), "o-", ms=4, label=type(flow_of(run).normalization).__name__)
        axes.set_xticks(τ, [f"1/{depth}" for depth in depths])
        axes.set_xticks([], minor=True)
        axes.set_xlabel("τ, over the time of the run")
        axes.set_ylabel("largest distance of layers from the flow")
        axes.legend(fontsize=7)


def exact(flow: tkf.Flow, start: tkf.Tokens) -> tkf.Trajectory:
    """The flow to t = 1, close enough to its limit."""
    return tkf.evolve(flow, start, t=1.0, save=2, rtol=1e-9)


def errors(run: tkf.Trajectory, depths: Sequence[int]) -> np.ndarray:
    """How far layers end from the flow, for each depth: the largest distance of a token."""
    t, end = float(run.times[-1] - run.times[0]), np.asarray(tokens_of(run).final.x)
    ends = (np.asarray(tkf.layers(flow_of(run), run[0], int(depth), t / depth, save=1).final.x) for depth in depths)
    return np.array([np.linalg.norm(x - end, axis=1).max() for x in ends])


STATEMENTS: tuple[Statement, ...] = (DepthLimit(),)
