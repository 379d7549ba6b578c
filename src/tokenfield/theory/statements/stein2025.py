"""Stein, Mode collapse and metastability in Transformers (slides): what is conjectured and what was observed beyond theorems."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.theory.base import Finding, Statement
from tokenfield.theory.statements.given import flow_of, relabelled, tokens_of
from tokenfield.theory.statements.rescaled import (
    coordinates,
    decided,
    off_places,
    off_the_vertices,
    positive,
    scores_of,
    softmax_of,
    spectrum,
    to_go,
    values_of,
)


def _with_spectrum(block: Any, seed: int) -> np.ndarray:
    """A matrix with the spectrum of another, in a random basis of condition three."""
    rng, D = np.random.default_rng(seed), np.asarray(block, np.float64)
    turn = lambda: np.linalg.qr(rng.normal(size=D.shape))[0]
    S = turn() @ np.diag(np.linspace(1.0, 3.0, len(D))) @ turn()
    return S @ D @ np.linalg.inv(S)


REAL = np.diag([1.0, 0.6, -0.3])
PAIR = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, -0.7], [0.0, 0.7, 0.5]])
"""Spectra of which the conjecture speaks: 1, 0.6, -0.3 and 1, 0.5 ± 0.7i."""


def _box(d: int, seed: int) -> tkf.Tokens:
    return tkf.Tokens.uniform_box(n=40, d=d, low=-5.0, high=5.0, seed=seed)


def _rescaled(V: Any, seed: int, t: float = 20.0, **block: Any) -> tkf.Trajectory:
    d = 2 if V is None else len(V)
    flow = tkf.Flow(tkf.Softmax(1.0, V=V), tkf.Rescaled(), **block)
    return tkf.evolve(flow, _box(d, seed), t=t, save=21, rtol=1e-10 if V is not None else 1e-6)


class Codimension(Statement):
    """Along the left eigenvectors of all eigenvalues with positive real part, how far from the nearest of three places a token
    ends, in units of how far apart tokens began."""

    name = "codimension"
    source, number, kind = "stein2025", "conjecture after Table 1", "conjecture"
    says = (
        "Rescaled tokens tend to one of three parallel subspaces, whose codimension is the number of eigenvalues of V "
        "with positive real part."
    )
    remark = (
        "Seen where the eigenvalue of largest real part is real and simple: with spectra 1, .6, -.3; 1, .6, .3 and 1, .5 "
        "± .7i in R³, in their own and in random bases, 56 of 60 runs ended at two places (the middle one is empty), and "
        "four were stopped after 20,000 steps. Not for V in general. Where that eigenvalue is double (1, 1, -.3) the "
        "limit is a polytope times a subspace: 19 of 20 runs ended at 4 to 7 places, one at three. Where it is a pair 1 ± "
        ".7i and V is normal, followers spiral around leaders until they lead themselves, and 40 tokens came to rest at "
        "19 to 29 places in ten of ten runs; with the same pair in a random basis four of ten ended at two places, and "
        "six were stopped."
    )

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        yield "the flow is rescaled softmax attention", softmax_of(run, tkf.Rescaled)
        yield "V has an eigenvalue with positive real part", bool(spectrum(values_of(run))[0].real > 0)
        yield "A is symmetric and positive definite", positive(scores_of(run))
        yield "there are more than six tokens", tokens_of(run).n > 6

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        V = values_of(run)
        rate = min(float(value.real) for value in spectrum(V) if value.real > 0)
        u = coordinates(run, decided(V, 0.0))
        left = to_go(run, u, rate)
        yield Finding(
            f"farthest token from three places, along k = {u.shape[-1]} directions of {run.d}",
            predicted=0.0,
            measured=off_places(u[-1], 3),
            tolerance=2 * left.far,
            because=f"{left.because} Two tokens are compared.",
            rival=off_places(u[0], 3),
            unsure=left.unsure,
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        for seed in range(1 if small else 5):
            for block in (REAL, PAIR):
                yield {"run": _rescaled(_with_spectrum(block, seed), seed)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        yield "a largest eigenvalue that is double", {"run": _rescaled(np.diag([1.0, 1.0, -0.3]), 0)}
        yield "no eigenvalue with positive real part", {"run": _rescaled(-np.eye(3), 0, t=1.0)}
        said = tkf.Flow(tkf.Softmax(1.0, V=np.diag([1.0, 0.6, 0.3])), tkf.Rescaled())
        yield "another V", {"run": relabelled(_rescaled(REAL, 0), said)}


class MLPKeepsClusters(Statement):
    """How far from a vertex of the convex hull of all tokens a token ends, in units of how far apart they began."""

    name = "mlp-keeps-clusters"
    source, number, kind = "stein2025", "Figure 6", "observation"
    says = (
        "With an MLP around attention, ż = tanh(Σ_j P_ij (z_j - z_i)), V = I and A > 0, rescaled tokens still tend to the "
        "vertices of a convex polytope."
    )
    remark = (
        "The slides say so of W σ(·) with σ tanh or ReLU, W = I or random. Seen with tanh and W = I: at vertices for all "
        "of 40 starts of 40 tokens in the plane, 4 to 7 of them; the polytope is that without the MLP, with one vertex "
        "more for 5 of the 40. Not with ReLU and W = I, which never moves a token towards smaller coordinates: 27 to 35 "
        "different limits of 40 tokens. Nor with a random W, tanh or ReLU: none of eight runs had fewer than 24 places "
        "when it ended. With tanh and W positive definite, tokens at t = 20 were still under way, at 9 to 21 places."
    )

    def hypotheses(self, run: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        mlp, V = flow_of(run).mlp, values_of(run)
        yield "there is an MLP around attention", mlp is not None and mlp.around
        yield "its activation is tanh", mlp is not None and mlp.activation == "tanh"
        parts = [getattr(mlp, name, None) for name in ("W1", "b1", "W2", "b2")]
        yield "its matrices are the identity, and it has no offsets", all(part is None for part in parts)
        yield "the rest is rescaled softmax attention", softmax_of(_without_mlp(run), tkf.Rescaled)
        yield "V = I", np.array_equal(V, np.eye(tokens_of(run).d))
        yield "A is symmetric and positive definite", positive(scores_of(run))

    def findings(self, run: tkf.Trajectory) -> Iterator[Finding]:
        u = coordinates(run, np.eye(run.d))
        left = to_go(run, u, 1.0)
        yield Finding(
            "farthest token from a vertex",
            predicted=0.0,
            measured=off_the_vertices(u[-1]),
            tolerance=left.far,
            because=f"tanh is the identity near rest. {left.because}",
            rival=off_the_vertices(u[0]),
            unsure=left.unsure,
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        for seed in range(3 if small else 40):
            yield {"run": _rescaled(None, seed, mlp=tkf.MLP(activation="tanh", around=True))}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        relu = _rescaled(None, 0, mlp=tkf.MLP(activation="relu", around=True))
        said = tkf.Flow(tkf.Softmax(1.0), tkf.Rescaled(), mlp=tkf.MLP(activation="tanh", around=True))
        yield "ReLU", {"run": relu}
        yield "ReLU, said to be tanh", {"run": relabelled(relu, said)}
        yield "no MLP", {"run": _rescaled(None, 0)}


def _without_mlp(run: tkf.Trajectory) -> tkf.Trajectory:
    flow = flow_of(run)
    return relabelled(run, tkf.Flow(flow.attention, flow.normalization, reweighting=flow.reweighting, kappa=flow.kappa))


STATEMENTS: tuple[Statement, ...] = (Codimension(), MLPKeepsClusters())
