"""Geshkovski, Letrouit, Polyanskiy and Rigollet, The emergence of clusters in self-attention dynamics: tokens in R^d, and the
leaders that they follow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

import tokenfield as tkf
from tokenfield.theory.base import Finding, Statement
from tokenfield.theory.statements.given import asymptotic_slope, flow_of, relabelled, tokens_of
from tokenfield.theory.statements.rescaled import (
    coordinates,
    decided,
    off_the_boundary,
    off_the_vertices,
    positive,
    scores_of,
    softmax_of,
    spectrum,
    to_go,
    values_of,
)

SIMPLE = np.array([[0.647, 0.819], [0.612, 0.633]])
"""A value matrix with eigenvalues 1.35 and -0.07."""


def _box(n: int, d: int, seed: int = 0) -> tkf.Tokens:
    return tkf.Tokens.uniform_box(n=n, d=d, low=-5.0, high=5.0, seed=seed)


def _free(start: tkf.Tokens, V: Any = None, t: float = 9.0, **matrices: Any) -> tkf.Trajectory:
    flow = tkf.Flow(tkf.Softmax(1.0, V=V, **matrices), tkf.Free())
    return tkf.evolve(flow, start, t=t, save=73, rtol=1e-9)


def _rescaled(start: tkf.Tokens, V: Any = None, t: float = 16.0, **block: Any) -> tkf.Trajectory:
    """Steps err by a share of the largest token, and tokens grow along directions in which V is negative: there rtol is less."""
    flow = tkf.Flow(tkf.Softmax(1.0, V=V), tkf.Rescaled(), **block)
    return tkf.evolve(flow, start, t=t, save=21, rtol=1e-6 if V is None else 1e-9)


class _BooleanAttention(Statement):
    """The distance D of the attention matrix, but for one row, to a matrix of zeros and ones.

    Tokens that follow the same leader keep their distance to it, while they flee like e^{Vt}: the scores of the others fall behind
    that of the leader by a multiple of e^{Vt}, and D is like exp(-c e^{Vt})."""

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        D, n = np.asarray(tkf.observe.leaders(run).distance), tokens_of(run).n
        yield Finding(
            "distance of all rows but one to e_j, in Frobenius norm",
            predicted=0.0,
            measured=float(D[-1]),
            tolerance=n * 2.3e-16,
            because=f"Rows sum to 1 up to the rounding of {n} numbers; the limit is approached faster than any exponential.",
            rival=1.0,
            unsure="The attention still sharpens: evolve for longer."
            if n * 2.3e-16 < D[-1] < 0.9 * D[len(D) // 2]
            else None,
        )

    def plot(self, axes: Any, run: tkf.Trajectory) -> None:
        D, times = np.asarray(tkf.observe.leaders(run).distance), np.asarray(run.times)
        seen = (D < 0.5) & (D > 1e-300)
        law = np.exp(float(values_of(run)[0, 0]) * (times[seen] - times[seen][-1])) * -np.log(D[seen][-1])
        axes.semilogy(times[seen], -np.log(D[seen]), lw=2, label=f"n = {run.n}, d = {run.d}")
        axes.semilogy(times[seen], law, "k:", lw=1)
        axes.set_xlabel("t")
        axes.set_ylabel("-log of the distance (dotted: $e^{Vt}$)")
        axes.legend(fontsize=7)


def _rate(run: tkf.Trajectory, V: float) -> Finding:
    """The slope of log(-log D) in t, D as above."""
    D, times = np.asarray(tkf.observe.leaders(run).distance), np.asarray(run.times)
    late = (D < 1e-2) & (D > 1e-300)
    what = "slope of log(-log D) in t, D the distance"
    if late.sum() < 9:
        why = "Fewer than nine saved states have a distance between 1e-300 and 0.01: save more, or evolve for longer."
        return Finding(what, V, np.nan, 0.0, "Nothing was fitted.", unsure=why)
    t, y = times[late], np.log(-np.log(D[late]))
    third = float(t[-1] - t[0]) / 3
    part = lambda k: np.abs(t - t[-1] + (k + 0.5) * third) <= 0.5 * third + 1e-9
    of = lambda k: float(np.polyfit(t[part(k)], y[part(k)], 1)[0])
    q = float(np.exp(-V * third))
    drift = abs(of(0) - of(1))
    return Finding(
        what,
        predicted=V,
        measured=of(0),
        tolerance=2 * drift * q / (1 - q) + 1e-6,
        because=(
            f"-log D is e^(Vt) up to terms linear in t, so that the slope's correction falls like e^(-Vt), by {q:.2g} from "
            f"one third of the window to the next, the last of which took away {drift:.2g}; twice what that leaves, for the "
            "linear term."
        ),
        rival=2 * V,
    )


class LowRankAttention(_BooleanAttention):
    __doc__ = _BooleanAttention.__doc__
    name = "low-rank-attention"
    source, number, kind = "geshkovski2023", "Theorem 2.1", "theorem"
    says = (
        "On the line, with V > 0 and QK > 0, the attention matrix tends to one of rank at most two, whose rows but at "
        "most one are e_1 or e_n."
    )
    remark = (
        "Sharper: the rate is doubly exponential, as slides of the sources observe, with exponent V: D is like exp(-c "
        "e^(Vt)), and not exp(-c e^(2Vt)), since followers of a leader stay at a bounded distance from it. Rank two needs "
        "the row that is left out to be decided too, which it is for almost all starts: the middle one of 2m + 1 tokens "
        "that lie symmetrically about 0 attends to all alike for ever, and the limit has rank three. A computed run "
        "leaves that start by rounding."
    )

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        yield "tokens are on the line", tokens_of(run).d == 1
        yield "the flow is softmax attention in R^d, not normalized", softmax_of(run, tkf.Free)
        yield "V > 0 and QK > 0", values_of(run)[0, 0] > 0 and scores_of(run)[0, 0] > 0
        yield "tokens start at different places", len(np.unique(np.asarray(run[0].x))) == run.n

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        yield from super().findings(run)
        yield _rate(run, float(values_of(run)[0, 0]))
        P = np.asarray(tkf.observe.attention_matrix(run.final, flow_of(run)))
        ends = np.asarray(run.final.x)[:, 0].argmin(), np.asarray(run.final.x)[:, 0].argmax()
        others = np.delete(P, np.abs(P[:, ends]).max(axis=1).argmin(), axis=0)
        yield Finding(
            "rank of all rows but one",
            predicted=2.0,
            measured=float(np.linalg.matrix_rank(others, tol=np.sqrt(run.n) * 1e-8)),
            tolerance=0.0,
            because="A rank is a whole number; singular values below 1e-8 √n are those of rows that are Boolean to 1e-8.",
            relation="≤",
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        for n, seed in ((40, 0), (40, 1)) if small else ((40, 0), (40, 1), (100, 0), (100, 1)):
            yield {"run": _free(_box(n, 1, seed))}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        yield "values with the other sign", {"run": _free(_box(40, 1), V=-1.0)}
        yield (
            "values with the other sign, said to be right",
            {"run": relabelled(_free(_box(40, 1), V=-1.0), tkf.Flow(tkf.Softmax(1.0), tkf.Free()))},
        )
        half = relabelled(_free(_box(40, 1), V=0.5, t=18.0), tkf.Flow(tkf.Softmax(1.0), tkf.Free()))
        yield "half the values, said to be whole", {"run": half}
        yield "tokens in the plane", {"run": _free(_box(40, 2))}


class BooleanAttention(_BooleanAttention):
    __doc__ = _BooleanAttention.__doc__
    name = "boolean-attention"
    source, number, kind = "geshkovski2023", "conjecture in stein2025", "conjecture"
    says = (
        "In d ≥ 2 too, with V = I and A > 0, the rows of the attention matrix but at most one become Boolean: tokens attend to "
        "leaders."
    )
    remark = (
        "Seen in all of 31 starts, in 30 of them at the doubly exponential rate of the line (in one a token was too late "
        "to decide for a fit, which is why the rate is not part of this check); but leaders are the vertices of a "
        "polytope, not two: of 40 tokens four to six lead in the plane and eight to twelve in R³, so that the rank is not "
        "two."
    )

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        V = values_of(run)
        yield "tokens are in R^d with d ≥ 2", tokens_of(run).d >= 2
        yield "the flow is softmax attention in R^d, not normalized", softmax_of(run, tkf.Free)
        yield "V is a positive multiple of the identity", V[0, 0] > 0 and np.array_equal(V, V[0, 0] * np.eye(run.d))
        yield "A is symmetric and positive definite", positive(scores_of(run))

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        for seed in (0, 1, 2) if small else range(10):
            yield {"run": _free(_box(40, 2, seed))}
        if not small:
            yield {"run": _free(_box(200, 2))}
            for seed in range(10):
                yield {"run": _free(_box(40, 3, seed))}
                yield {"run": _free(_box(40, 3, seed), A=np.diag([0.2, 0.5, 2.0]))}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        yield (
            "values with the other sign, said to be right",
            {"run": relabelled(_free(_box(40, 2), V=-1.0), tkf.Flow(tkf.Softmax(1.0), tkf.Free()))},
        )
        yield "an A that is not positive", {"run": _free(_box(40, 2), t=2.0, A=np.diag([1.0, -1.0]))}


class _Limit(Statement):
    """Coordinates of rescaled tokens along the left eigenvectors of the largest eigenvalue of V: how far from the boundary of their
    convex hull, or 0, a token ends, in units of how far apart tokens began."""

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        V = values_of(run)
        top = float(spectrum(V)[0].real)
        u = coordinates(tokens_of(run), decided(V, top - 1e-9 * abs(top)))
        left = to_go(run, u, top)
        for what, measure in self.where.items():
            yield Finding(
                f"farthest token from {what}",
                predicted=0.0,
                measured=measure(u[-1]),
                tolerance=left.far,
                because=left.because,
                rival=measure(u[0]),
                unsure=left.unsure,
            )

    where: ClassVar = {"the boundary of their convex hull or 0": off_the_boundary, "a vertex of it": off_the_vertices}


class PolytopeLimit(_Limit):
    __doc__ = _Limit.__doc__
    name = "polytope-limit"
    source, number, kind = "geshkovski2023", "Theorem 3.1", "theorem"
    says = (
        "Rescaled tokens with V = I and A > 0 tend to 0 or to the boundary of a convex polytope, for almost all starts to its "
        "vertices."
    )
    remark = (
        "All 40 tokens ended at vertices for all of six starts in the plane (4 to 6 vertices) and six in R³ (8 to 12)."
    )

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        V = values_of(run)
        yield "the flow is rescaled softmax attention", softmax_of(run, tkf.Rescaled)
        yield (
            "V is a positive multiple of the identity",
            V[0, 0] > 0 and np.array_equal(V, V[0, 0] * np.eye(tokens_of(run).d)),
        )
        yield "A is symmetric and positive definite", positive(scores_of(run))

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        for d in (2, 3):
            for seed in range(2 if small else 6):
                yield {"run": _rescaled(_box(40, d, seed))}
        if not small:
            yield {"run": _rescaled(_box(1000, 2))}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        plain = tkf.Flow(tkf.Softmax(1.0), tkf.Rescaled())
        around = _rescaled(_box(40, 2), mlp=tkf.MLP(activation="relu", around=True))
        yield "an MLP with ReLU around attention, said to be none", {"run": relabelled(around, plain)}
        yield "values that turn", {"run": _rescaled(_box(40, 2), V=[[1.0, -1.0], [1.0, 1.0]], t=1.0)}
        yield "a run that is too short", {"run": _rescaled(_box(40, 2), t=1.0)}


class ThreeHyperplanes(_Limit):
    __doc__ = _Limit.__doc__
    name = "three-hyperplanes"
    source, number, kind = "geshkovski2023", "row 2 of Table 1 in stein2025", "theorem"
    says = (
        "Where the largest eigenvalue of V is real, simple and positive and <Qφ, Kφ> > 0 for its eigenvector φ, rescaled "
        "tokens tend to three parallel hyperplanes, one of them through 0."
    )
    remark = (
        "The hyperplanes are orthogonal to the left eigenvector of V. The one through 0 is empty in all runs that were "
        "made: as on the line, almost every token leaves it."
    )
    where: ClassVar = {"the outer two hyperplanes or 0, along the left eigenvector": off_the_boundary}

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        V = values_of(run)
        values, vectors = np.linalg.eig(V)
        real = np.real(values)
        top = int(real.argmax())
        simple = np.imag(values)[top] == 0 and real[top] > np.delete(real, top).max(initial=-np.inf) + 1e-9
        φ = np.real(vectors[:, top])
        yield "the flow is rescaled softmax attention", softmax_of(run, tkf.Rescaled)
        yield "the largest eigenvalue of V is real, simple and positive", bool(simple and real[top] > 0)
        yield "<Qφ, Kφ> > 0", bool(φ @ scores_of(run) @ φ > 0)

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        for seed in range(2 if small else 6):
            yield {"run": _rescaled(_box(40, 2, seed), V=SIMPLE, t=12.0)}
        if not small:
            yield {"run": _rescaled(_box(1000, 2), V=SIMPLE, t=12.0)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        run = _rescaled(_box(40, 2), V=SIMPLE, t=12.0)
        turned = tkf.Flow(tkf.Softmax(1.0, V=SIMPLE.T), tkf.Rescaled())
        yield "the transpose of V", {"run": relabelled(run, turned)}
        yield "an eigenvalue that is not simple", {"run": _rescaled(_box(40, 2), t=1.0)}


class PolytopeTimesSubspace(_Limit):
    __doc__ = _Limit.__doc__
    name = "polytope-times-subspace"
    source, number, kind = "geshkovski2023", "row 3 of Table 1 in stein2025", "theorem"
    says = (
        "Where V is paranormal, λI on one invariant subspace and of spectral radius below λ on another, and A > 0, "
        "rescaled tokens tend to a polytope times the second."
    )

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        V = values_of(run)
        values = spectrum(V)
        λ = float(values[0].real)
        top = np.abs(values - λ) < 1e-9 * abs(λ)
        whole = np.linalg.matrix_rank(V - λ * np.eye(len(V)), tol=1e-9 * max(λ, 1.0)) == len(V) - top.sum()
        yield "the flow is rescaled softmax attention", softmax_of(run, tkf.Rescaled)
        yield "V is paranormal", bool(λ > 0 and whole and np.abs(values[~top]).max(initial=0.0) < λ)
        yield "A is symmetric and positive definite", positive(scores_of(run))

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        for seed in range(2 if small else 6):
            yield {"run": _rescaled(_box(40, 3, seed), V=np.diag([1.0, 1.0, -0.5]))}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        run = _rescaled(_box(40, 3), V=np.diag([1.0, 1.0, -0.05]))
        turned = tkf.Flow(tkf.Softmax(1.0, V=np.diag([-0.05, 1.0, 1.0])), tkf.Rescaled())
        yield "another subspace", {"run": relabelled(run, turned)}
        yield "a V of which -2 is an eigenvalue", {"run": _rescaled(_box(40, 3), V=np.diag([1.0, 1.0, -2.0]), t=1.0)}


class OneClusterAtTheOrigin(Statement):
    """Near 0 attention is linear, and the covariance of the tokens obeys Σ̇ = -2Σ²: Σ = I/(2t) up to terms of order t⁻²."""

    name = "one-cluster-at-the-origin"
    source, number, kind = "geshkovski2023", "row 4 of Table 1 in stein2025", "theorem"
    says = "With V = -I and A = I, not rescaled, all tokens meet at the origin."
    remark = (
        "Sharper: they come like t^(-1/2), round: the covariance of the tokens is I/(2t), whatever the start, as for a "
        "Gaussian measure. At t = 1000 the eigenvalues of 2tΣ are within 0.001 of 1."
    )

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        identity = np.eye(tokens_of(run).d)
        yield "the flow is softmax attention in R^d, not normalized", softmax_of(run, tkf.Free)
        yield "V = -I and A = I", np.array_equal(values_of(run), -identity) and np.allclose(scores_of(run), identity)

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        times, x = np.asarray(run.times), np.asarray(run.states.x)
        size = np.linalg.norm(x, axis=-1).max(axis=-1)
        late = times >= 0.01 * times[-1]
        slope, tolerance, because = asymptotic_slope(np.log(times[late]), np.log(size[late]))
        yield Finding(
            "slope of the log of the farthest token's distance to 0 in log t",
            -0.5,
            slope,
            tolerance,
            because,
            rival=0.0,
        )
        half = int(np.searchsorted(times, times[-1] / 2, side="right")) - 1
        of = lambda k: float(2 * times[k] * np.linalg.eigvalsh(np.atleast_2d(np.cov(x[k].T, bias=True)))[-1])
        yield Finding(
            "largest eigenvalue of 2tΣ, Σ the covariance of the tokens",
            predicted=1.0,
            measured=of(-1),
            tolerance=2 * abs(of(-1) - of(half)) + 1e-6,
            because="Corrections fall like 1/t at least: they are less than twice what is still lost from half of the time on.",
            rival=0.0,
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        for seed in range(1 if small else 3):
            for d in (2,) if small else (2, 3):
                yield {"run": self._run(_box(40, d, seed), -1.0)}

    def _run(self, start: tkf.Tokens, V: float) -> tkf.Trajectory:
        save = np.append(0.0, np.geomspace(1.0, 1024.0, 41))
        return tkf.evolve(tkf.Flow(tkf.Softmax(1.0, V=V), tkf.Free()), start, t=1024.0, save=save)

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        said = tkf.Flow(tkf.Softmax(1.0, V=-1.0), tkf.Free())
        yield "values that are halved, said to be whole", {"run": relabelled(self._run(_box(40, 2), -0.5), said)}
        yield "values that are halved", {"run": self._run(_box(40, 2), -0.5)}
        apart = _free(_box(40, 2))
        yield "values with the other sign, said to be right", {"run": relabelled(apart, said)}

    def plot(self, axes: Any, run: tkf.Trajectory) -> None:
        times, size = np.asarray(run.times)[1:], np.linalg.norm(np.asarray(run.states.x), axis=-1).max(axis=-1)[1:]
        axes.loglog(times, size, lw=2, label=f"farthest token, n = {run.n}, d = {run.d}")
        axes.loglog(times, size[-1] * np.sqrt(times[-1] / times), "k:", lw=1, label="$t^{-1/2}$")
        axes.set_xlabel("t")
        axes.set_ylabel("distance to the origin")
        axes.legend(fontsize=7)


STATEMENTS: tuple[Statement, ...] = (
    LowRankAttention(),
    BooleanAttention(),
    PolytopeLimit(),
    ThreeHyperplanes(),
    PolytopeTimesSubspace(),
    OneClusterAtTheOrigin(),
)
