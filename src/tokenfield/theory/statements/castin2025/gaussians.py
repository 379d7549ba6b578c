"""Gaussian measures: the affine field, and the equations of mean and covariance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.theory.base import Finding, Statement
from tokenfield.theory.statements.castin2025.stability import bare
from tokenfield.theory.statements.given import flow_of, relabelled, solved, tokens_of
from tokenfield.theory.statements.smoothness import quadrature


def gaussian_run(run: tkf.Trajectory) -> bool:
    """Whether the states of a run are Gaussians."""
    return isinstance(run.states, tkf.Gaussian)


def affine(attention: Any) -> bool:
    """Whether the field of a Gaussian is known to be affine."""
    if isinstance(attention, tkf.MultiHead):
        return all(map(affine, attention.heads))
    return isinstance(attention, tkf.Softmax | tkf.L2 | tkf.Sinkhorn | tkf.Linear)


class GaussianMap(Statement):
    """The field of a Gaussian by its formula against the same attention on tokens: those of Gauss–Hermite quadrature, whose
    error falls faster than any power of their number, and random ones. A formula of yours may be given as `field`, a function of
    points."""

    name = "gaussian-map"
    source, number, kind = "castin2025", "lemma on Gaussians", "identity"
    says = "On N(m, Σ) softmax attention is Γ(x) = V(m + ΣAx), and L2, Sinkhorn, linear and multi-head attention are affine too."

    def hypotheses(
        self, attention: Any, mu: tkf.Gaussian, nodes: int = 40, samples: int = 2000, field: Any = None
    ) -> Iterator[tuple[str, bool]]:
        yield "the attention is softmax, L2, Sinkhorn, linear, or heads of these", affine(attention)
        yield "the Gaussian lives in at most two dimensions, where quadrature is cheap", mu.d <= 2

    def findings(
        self, attention: Any, mu: tkf.Gaussian, nodes: int = 40, samples: int = 2000, field: Any = None
    ) -> Iterator[Finding]:
        steps = np.array([[0.0] * mu.d, [1.0] * mu.d, [-0.5] * (mu.d - 1) + [1.0]])
        x = np.asarray(mu.mean) + steps @ np.asarray(mu.factor).T
        expected = np.asarray(attention(mu, x) if field is None else field(x))
        kind = type(attention).__name__
        coarse, fine = (np.asarray(attention(quadrature(mu, k), x)) for k in (3 * nodes // 4, nodes))
        left = float(np.abs(fine - coarse).max())
        yield Finding(
            f"largest difference of the fields, {kind} attention by quadrature",
            predicted=0.0,
            measured=float(np.abs(fine - expected).max()),
            tolerance=left + 1e-9 * float(np.abs(expected).max()),
            because=(
                f"From {3 * nodes // 4} to {nodes} nodes per direction quadrature moved by {left:.1g}, and its error falls; "
                "fields are summed to 1e-10."
            ),
            rival=1e-2 * float(np.abs(expected).max()),
        )
        yield self._by_chance(attention, mu, x, expected, samples)

    def _by_chance(
        self, attention: Any, mu: tkf.Gaussian, x: np.ndarray, expected: np.ndarray, samples: int
    ) -> Finding:
        batches = 16
        seen = np.array([np.asarray(attention(mu.sample(samples, seed=seed), x)) for seed in range(batches)])
        spread = seen.std(axis=0, ddof=1)
        standard, bias = float((spread / 4).max()), float((spread**2).max() / np.sqrt(float(np.max(mu.spectrum))))
        return Finding(
            f"the same by {batches} × {samples} random tokens, {type(attention).__name__} attention",
            predicted=0.0,
            measured=float(np.abs(seen.mean(axis=0) - expected).max()),
            tolerance=6 * standard + bias,
            because=(
                f"Six standard errors of the mean over {batches} samples ({standard:.1g} each), and the bias of a quotient "
                f"of means, variance over extent ({bias:.1g})."
            ),
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        mu, few = (
            tkf.Gaussian([0.5, -0.2], [[0.6, 0.2], [0.2, 0.4]]),
            {"nodes": 24 if small else 40, "samples": 500 if small else 20_000},
        )
        A, V = [[0.8, 0.3], [-0.4, 0.5]], [[1.0, 0.5], [0.0, -1.0]]
        yield {"attention": tkf.Softmax(A=A, V=V), "mu": mu, **few}
        yield {"attention": tkf.L2(Q=A, V=V), "mu": mu, **few}
        yield {"attention": tkf.Sinkhorn(A=A, V=V), "mu": mu, "nodes": 24, "samples": 200 if small else 2000}
        yield {"attention": tkf.MultiHead([tkf.Softmax(A=A), tkf.Linear(0.5)]), "mu": mu, **few}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        mu, A = tkf.Gaussian([0.5, -0.2], [[0.6, 0.2], [0.2, 0.4]]), np.array([[0.8, 0.3], [-0.4, 0.5]])
        m, Σ = np.asarray(mu.mean), np.asarray(mu.cov)
        soft = {"attention": tkf.Softmax(A=A), "mu": mu, "nodes": 24, "samples": 500}
        yield "Aᵀ for A", {**soft, "field": lambda x: m + x @ (Σ @ A.T).T}
        yield "the field without the mean", {**soft, "field": lambda x: x @ (Σ @ A).T}
        yield "sigmoid attention", {"attention": tkf.Sigmoid(), "mu": mu}


class StaysGaussian(Statement):
    """A run of a Gaussian against one of tokens that stand for it, say by quadrature: mean and covariance agree, and every token is
    where one affine map puts it, so that what began as a Gaussian is one."""

    name = "gaussian-stays"
    source, number, kind = "castin2025", "proposition on Gaussians", "theorem"
    says = (
        "A Gaussian stays one under softmax, L2, Sinkhorn and multi-head attention: ṁ = Γ(m), Σ̇ = BΣ + ΣBᵀ, B the field's "
        "slope."
    )

    def hypotheses(self, run: tkf.Trajectory, tokens: tkf.Trajectory) -> Iterator[tuple[str, bool]]:
        flow = flow_of(run)
        yield "the first run is of a Gaussian", gaussian_run(run)
        yield (
            "it moves by attention alone, in R^d, of a kind whose field is affine",
            bare(flow) and affine(flow.attention),
        )
        yield "the tokens ended at the same time", abs(float(run.times[-1] - tokens_of(tokens).times[-1])) < 1e-12
        start = tkf.Gaussian.of(tokens[0])
        apart = max(np.abs(start.mean - run.mean[0]).max(), np.abs(start.cov - run.cov[0]).max())
        yield "the tokens began with the Gaussian's mean and covariance", bool(apart < 1e-9)
        size = float(np.sqrt(np.max(run.spectrum[0])))
        yield (
            "they stand for it: their field is its, to one in a thousand",
            unlike(flow, tokens[0], run[0]) < 1e-3 * size,
        )

    def findings(self, run: tkf.Trajectory, tokens: tkf.Trajectory) -> Iterator[Finding]:
        x, y, w = (np.asarray(part) for part in (tokens[0].x, tokens.final.x, tokens[0].w))
        end = tkf.Gaussian.of(tokens.final)
        size = float(np.sqrt(np.max(run.spectrum)))
        off = self._off(run, tokens)
        growth = float(np.sqrt(np.max(run.spectrum) / np.max(run.spectrum[0])))
        tolerance = max(growth, 1.0) * (off + (solved(run) + solved(tokens)) * size)
        why = (
            f"Fields of tokens and Gaussian differ by {off:.1g} × t⁻¹ in the mean square, steps by rtol each, and errors "
            f"grow as the Gaussian does, {growth:.3g} times."
        )
        yield Finding(
            f"difference of means and covariances, {type(flow_of(run).attention).__name__} attention",
            predicted=0.0,
            measured=float(
                max(np.abs(end.mean - run.mean[-1]).max(), np.abs(end.cov - run.cov[-1]).max() / (2 * size))
            ),
            tolerance=tolerance,
            because=why,
            rival=float(np.abs(end.cov - run.cov[0]).max() / (2 * size)),
        )
        basis = np.column_stack([np.ones(len(x)), x]) * np.sqrt(w)[:, None]
        fitted = basis @ np.linalg.lstsq(basis, np.sqrt(w)[:, None] * y, rcond=None)[0]
        yield Finding(
            "root mean square distance of tokens from an affine map",
            predicted=0.0,
            measured=float(np.linalg.norm(np.sqrt(w)[:, None] * y - fitted)),
            tolerance=tolerance,
            because=why,
        )

    def _off(self, run: tkf.Trajectory, tokens: tkf.Trajectory) -> float:
        """How far tokens go astray because they are not the Gaussian: their field differs, at the start and, moved to the
        Gaussian's end by an affine map, there."""
        mu, t = tokens[0], float(run.times[-1] - run.times[0])
        ξ = np.linalg.solve(np.asarray(run[0].factor), (np.asarray(mu.x) - run.mean[0]).T)
        ideal = tkf.Tokens(np.asarray(run.mean[-1]) + (np.asarray(run.final.factor) @ ξ).T, mu.w)
        return t * max(unlike(flow_of(run), mu, run[0]), unlike(flow_of(run), ideal, run.final))

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        mu = tkf.Gaussian([0.5, -0.2], [[0.6, 0.2], [0.2, 0.4]])
        A, V = [[0.8, 0.3], [-0.4, 0.5]], [[0.3, 0.5], [0.0, -1.0]]
        for attention, k in (
            (tkf.Softmax(A=A, V=V), 20),
            (tkf.L2(Q=A, V=V), 20),
            (tkf.Sinkhorn(A=A, V=V), 12 if small else 20),
        ):
            yield pair(tkf.Flow(attention), mu, k if small else 2 * k)

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        mu, A = tkf.Gaussian([0.5, -0.2], [[0.6, 0.2], [0.2, 0.4]]), [[0.8, 0.3], [-0.4, 0.5]]
        right = pair(tkf.Flow(tkf.Softmax(A=A)), mu, 20)
        other = tkf.evolve(tkf.Flow(tkf.Sigmoid(A=A)), quadrature(mu, 20), t=0.5, save=3, rtol=1e-8)
        yield "tokens moved by sigmoid attention", {**right, "tokens": other}
        yield "a Gaussian moved at another β", {**right, "run": relabelled(faster(mu, A), tkf.Flow(tkf.Softmax(A=A)))}
        atoms = np.asarray(mu.mean) + np.array([[1, 1], [1, -1], [-1, 1], [-1, -1.0]]) @ np.asarray(mu.factor).T
        four = tkf.evolve(tkf.Flow(tkf.Softmax(A=A)), tkf.Tokens(atoms), t=0.5, save=3, rtol=1e-8)
        yield "four atoms of the same mean and covariance", {**right, "tokens": four}


def unlike(flow: tkf.Flow, tokens: tkf.Tokens, mu: tkf.Gaussian) -> float:
    """How far the field of tokens is from that of the Gaussian which they stand for, in the mean square."""
    gap = np.asarray(flow.attention(tokens) - flow.attention(mu, tokens.x))
    return float(np.sqrt(np.sum(np.asarray(tokens.w)[:, None] * gap**2)))


def pair(flow: tkf.Flow, mu: tkf.Gaussian, k: int) -> dict[str, Any]:
    """A Gaussian and its quadrature tokens under one flow."""
    how = {"t": 0.5, "save": 3, "rtol": 1e-8}
    return {"run": tkf.evolve(flow, mu, **how), "tokens": tkf.evolve(flow, quadrature(mu, k), **how)}


def faster(mu: tkf.Gaussian, A: Any) -> tkf.Trajectory:
    return tkf.evolve(tkf.Flow(tkf.Softmax(1.1, A=A)), mu, t=0.5, save=3, rtol=1e-8)
