"""Agarwal, Harchaoui, Mulcahy and Pal, Iterated Schrödinger bridge approximation to Wasserstein gradient flows: Sinkhorn attention
and the heat equation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.theory.base import Finding, Statement


def heat_field(mu: Any, ε: float, x: np.ndarray) -> np.ndarray:
    """(2/ε)(x - Γ_μ(x)) for Sinkhorn attention with A = I/ε."""
    return 2 / ε * (x - np.asarray(tkf.Sinkhorn(beta=1 / ε)(mu, x)))


class HeatLimit(Statement):
    """Of a Gaussian, on which Sinkhorn attention is known exactly. In a direction of variance s, at a distance y from the mean,
    the field is (2/ε)(1 - c)y with c = √(1 + (ε/2s)²) - ε/2s, which is y/s - εy/4s² + O(ε³). A field of yours may be given, as a
    function of (ε, x)."""

    name = "sinkhorn-heat-gaussian"
    source, number, kind = "agarwal2024", "heat flow, for Gaussians", "theorem"
    says = "As ε → 0 Sinkhorn attention with A = I/ε has (2/ε)(x - Γ_μ(x)) → -∇log μ(x), the velocity of the heat equation."
    remark = (
        "The error is of first order, and known: -(ε/4)Σ⁻²(x - m), so that Σ̇ = 2I - (ε/2)Σ⁻¹ + O(ε³) where the heat "
        "equation has 2I."
    )

    def hypotheses(
        self,
        mu: tkf.Gaussian,
        epsilons: Sequence[float] = (0.04, 0.02, 0.01, 0.005),
        field: Callable[..., Any] | None = None,
    ) -> Iterator[tuple[str, bool]]:
        yield "the Gaussian has a density", bool(np.min(mu.spectrum) > 0)
        yield "ε is small beside the least variance", max(epsilons) < float(np.min(mu.spectrum))
        yield "there are at least three ε, falling", len(epsilons) >= 3 and bool((np.diff(epsilons) < 0).all())

    def findings(
        self,
        mu: tkf.Gaussian,
        epsilons: Sequence[float] = (0.04, 0.02, 0.01, 0.005),
        field: Callable[..., Any] | None = None,
    ) -> Iterator[Finding]:
        ε = np.asarray(epsilons, float)
        apart, coefficient = self._errors(mu, ε, field)
        least = float(np.min(mu.spectrum))
        curved = float((ε[0] / least) ** 2 / 8)
        rounded = 1e-12 / float(ε[-1]) ** 2
        slope = float(np.polyfit(np.log(ε), np.log(apart), 1)[0])
        yield Finding(
            "order of the error in ε",
            predicted=1.0,
            measured=slope,
            tolerance=2 * (curved + rounded),
            because=(
                f"The next term is of relative size (ε/s)²/8, at most {curved:.1g}; round-off, divided by ε², is below "
                f"{rounded:.1g}."
            ),
            rival=2.0,
        )
        yield Finding(
            "error over ε, at the least ε, in units of |Σ⁻²(x - m)|/4",
            predicted=1.0,
            measured=float(apart[-1] / ε[-1]) / coefficient,
            tolerance=float((ε[-1] / least) ** 2 / 4) + 2 * rounded / coefficient,
            because="The next term of the expansion, (ε/s)²/8, twice, and round-off.",
            rival=0.0,
        )

    def _errors(self, mu: tkf.Gaussian, ε: np.ndarray, field: Any) -> tuple[np.ndarray, float]:
        """|field + ∇log μ| at one point for every ε, and the coefficient of ε that is predicted."""
        y = np.asarray(mu.factor) @ np.ones(mu.d)
        x, Σ = np.asarray(mu.mean) + y, np.asarray(mu.cov)
        score = np.linalg.solve(Σ, y)
        of = (lambda e: heat_field(mu, e, x)) if field is None else (lambda e: np.asarray(field(e, x)))
        apart = [np.linalg.norm(of(float(e)) - score) for e in ε]
        return np.array(apart), float(np.linalg.norm(np.linalg.solve(Σ, score))) / 4

    def case(self, small: bool) -> dict[str, Any]:
        d = 3 if small else 32
        Y = np.asarray(tkf.Tokens.gaussian(n=4 * d, d=d, seed=0).x)
        return {"mu": tkf.Gaussian(np.ones(d), Y.T @ Y / (4 * d) + 0.5 * np.eye(d))}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        mu = tkf.Gaussian([1.0, 0.0], [[1.0, 0.3], [0.3, 0.8]])
        soft = lambda e, x: 2 / e * (x - np.asarray(tkf.Softmax(beta=1 / e)(mu, x)))
        half = lambda e, x: 0.5 * heat_field(mu, e, x)
        yield "softmax attention", {"mu": mu, "field": soft}
        yield "half the field", {"mu": mu, "field": half}
        yield "a Gaussian on a line", {"mu": tkf.Gaussian([0.0, 0.0], np.diag([1.0, 0.0]))}

    def plot(self, axes: Any, mu: tkf.Gaussian, epsilons: Any = (0.04, 0.02, 0.01, 0.005), field: Any = None) -> None:
        ε = np.asarray(epsilons, float)
        apart, coefficient = self._errors(mu, ε, field)
        axes.loglog(ε, apart, "o", label=r"$|(2/ε)(x - Γ(x)) + ∇\log μ|$")
        axes.loglog(ε, coefficient * ε, "k--", lw=1, label=r"$(ε/4)\,|Σ^{-2}(x - m)|$")
        axes.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        axes.set_xticks([], minor=True)
        axes.set_xlabel("ε")
        axes.legend()


class HeatTokens(Statement):
    """Of tokens that stand for a density, say by the trapezoidal rule, with the density's -∇log at points x. The error's order
    is fitted as ε halves; tokens must be closer than √ε, the width of Sinkhorn's kernel."""

    name = "sinkhorn-heat-tokens"
    source, number, kind = "agarwal2024", "heat flow", "theorem"
    says = "The same of any smooth density, at first order in ε: (2/ε)(x - Γ_μ(x)) = -∇log μ(x) + O(ε)."

    def hypotheses(
        self, mu: tkf.Tokens, x: Any, velocity: Any, epsilons: Sequence[float] = (0.04, 0.02, 0.01, 0.005)
    ) -> Iterator[tuple[str, bool]]:
        halved = np.allclose(np.diff(np.log2(epsilons)), -1, atol=1e-9)
        yield "there are at least four ε, each half of the one before", len(epsilons) >= 4 and bool(halved)
        yield "tokens live on the line", mu.d == 1
        gap = float(np.diff(np.sort(np.asarray(mu.x)[:, 0])).max())
        yield "neighbours are closer than √ε/2", gap < 0.5 * float(np.sqrt(min(epsilons)))

    def findings(
        self, mu: tkf.Tokens, x: Any, velocity: Any, epsilons: Sequence[float] = (0.04, 0.02, 0.01, 0.005)
    ) -> Iterator[Finding]:
        apart = self._errors(mu, x, velocity, epsilons)
        slopes = np.log2(apart[:-1] / apart[1:])
        drift = float(abs(slopes[-1] - slopes[-2]))
        gap = float(np.diff(np.sort(np.asarray(mu.x)[:, 0])).max())
        rough = float((1e-10 / epsilons[-1] + np.exp(-2 * np.pi**2 * epsilons[-1] / gap**2)) / apart[-1])
        yield Finding(
            "order of the error in ε",
            predicted=1.0,
            measured=float(slopes[-1]),
            tolerance=2 * drift + 3 * rough,
            because=(
                f"The slope moved by {drift:.1g} in the last halving, and no more is left if what it lacks halves too, twice "
                f"that for safety; sums to 1e-10 and the trapezoidal rule are {rough:.1g} of the least error."
            ),
            rival=2.0,
        )

    def _errors(self, mu: tkf.Tokens, x: Any, velocity: Any, epsilons: Sequence[float]) -> np.ndarray:
        points = np.asarray(x, float).reshape(-1, 1)
        expected = np.asarray(velocity, float).reshape(-1, 1)
        return np.array([np.abs(heat_field(mu, float(e), points) - expected).max() for e in epsilons])

    def case(self, small: bool) -> dict[str, Any]:
        return humps(401 if small else 1001)

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        right = humps(401)
        yield "the velocity with the other sign", {**right, "velocity": -right["velocity"]}
        yield "twice the velocity", {**right, "velocity": 2 * right["velocity"]}
        yield "tokens that are too far apart", {**right, "mu": humps(101)["mu"]}

    def plot(self, axes: Any, mu: tkf.Tokens, x: Any, velocity: Any, epsilons: Any = (0.04, 0.02, 0.01, 0.005)) -> None:
        axes.loglog(
            epsilons, self._errors(mu, x, velocity, epsilons), "o-", label=f"{mu.n} tokens for a density with two humps"
        )
        axes.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        axes.set_xticks([], minor=True)
        axes.set_xlabel("ε")
        axes.set_ylabel(r"largest $|(2/ε)(x - Γ(x)) + ∇\log μ|$")
        axes.legend(fontsize=7)


def humps(n: int) -> dict[str, Any]:
    """Two Gaussian humps on the line, as tokens at equal distances: points, and -(log μ)' there."""
    y = np.linspace(-6.0, 6.0, n)
    density = lambda y: np.exp(-((y - 1) ** 2) / 1.0) + 0.7 * np.exp(-((y + 1) ** 2) / 0.8)
    slope = lambda y: -2 * (y - 1) * np.exp(-((y - 1) ** 2)) - 0.7 * 2.5 * (y + 1) * np.exp(-((y + 1) ** 2) / 0.8)
    x = np.array([-1.5, -0.4, 0.3, 1.6])
    w = density(y)
    return {"mu": tkf.Tokens(y[:, None], w / w.sum()), "x": x, "velocity": -slope(x) / density(x)}


STATEMENTS: tuple[Statement, ...] = (HeatLimit(), HeatTokens())
