"""Castin, Ablin and Peyré, How smooth is attention? Bounds on the Lipschitz constant of one layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.theory.base import Finding, Statement
from tokenfield.theory.statements.smoothness import Scores, defined, radius, written

FOUND = "The local constant is found to 1e-6 relative."


def softmax(attention: Any) -> bool:
    """Whether this is softmax attention, causal or not, whose parameters do not change with depth."""
    inner = attention.attention if isinstance(attention, tkf.Causal) else attention
    return defined(attention) and isinstance(inner, tkf.Softmax) and tkf.Flow(attention).timeless


def local(attention: Any, mu: tkf.Tokens, weighted: bool = False) -> float:
    """The local Lipschitz constant."""
    found: Any = tkf.observe.lipschitz(attention, mu, weighted=weighted)
    return float(found)


class LipschitzUpper(Statement):
    """Of attention at tokens; a constant that was found elsewhere may be given."""

    name = "lipschitz-upper-bound"
    source, number, kind = "castin2024", "Theorem 1 in castin2025's slides", "theorem"
    says = "The Lipschitz constant of softmax attention on n tokens in a ball of radius R is at most √3‖V‖(‖A‖²R⁴(4n+1) + n)^(1/2)."
    remark = (
        "How far from sharp: at adversarial tokens for A = -I, at the worst R for each n, the constant is 0.41, 0.26, 0.21 "
        "and 0.19 of the bound for n = 2, 8, 64 and 512."
    )

    def hypotheses(self, attention: Any, mu: tkf.Tokens, constant: float | None = None) -> Iterator[tuple[str, bool]]:
        yield (
            "the attention is softmax, causal or not, with parameters that do not change with depth",
            softmax(attention),
        )

    def findings(self, attention: Any, mu: tkf.Tokens, constant: float | None = None) -> Iterator[Finding]:
        bound = float(tkf.theory.lipschitz_upper(attention, mu.n, radius(mu), mu.d))
        found = local(attention, mu) if constant is None else constant
        yield Finding(
            f"local Lipschitz constant at {mu.n} tokens, in units of its bound",
            predicted=1.0,
            measured=found / bound,
            tolerance=2e-6,
            because=FOUND,
            relation="≤",
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        n = 24 if small else 256
        A = np.array([[0.5, 1.0, 0.0], [-1.0, 0.2, 0.3], [0.0, 0.4, -0.8]])
        mu = tkf.Tokens.gaussian(n=n, d=3, seed=0)
        yield {"attention": tkf.Softmax(A=A), "mu": mu}
        yield {"attention": tkf.Causal(tkf.Softmax(A=A)), "mu": mu}
        yield {"attention": tkf.Softmax(A=A), "mu": tkf.theory.adversarial(tkf.Softmax(A=A), n, 3.0)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        mu = tkf.Tokens.gaussian(n=24, d=3, seed=0)
        wild = local(tkf.Unnormalized(2.0), mu)
        yield "the constant of unnormalized attention", {"attention": tkf.Softmax(2.0), "mu": mu, "constant": wild}
        yield "unnormalized attention", {"attention": tkf.Unnormalized(2.0), "mu": mu}


class LipschitzLower(Statement):
    """At tokens of `tkf.theory.adversarial`, or at others that are given: the supremum over the ball is no less than what is
    found at any of its points."""

    name = "lipschitz-lower-bound"
    source, number, kind = "castin2024", "Theorem 1 in castin2025's slides", "theorem"
    says = (
        "With V = I the Lipschitz constant on n tokens in a ball of radius R is at least √(n-1)/(1 + (n-1)e^(-2R²γ)), "
        "γ = max(-λ_min, λ_max/8) over real eigenvalues of A."
    )
    remark = (
        "The first token moved at a right angle attains the bound; moved along the eigenvector as well, adversarial tokens "
        "exceed it: at R = 2 by 6% to 16% for n = 24, and 1.6 to 2.4 times for n = 256, where n is no longer small beside "
        "e^(2R²γ)."
    )

    def hypotheses(
        self, attention: Any, n: int, R: float, d: int = 2, mu: tkf.Tokens | None = None
    ) -> Iterator[tuple[str, bool]]:
        yield (
            "the attention is softmax, causal or not, with parameters that do not change with depth",
            softmax(attention),
        )
        inner = attention.attention if isinstance(attention, tkf.Causal) else attention
        yield "V is the identity", bool(np.array_equal(written(getattr(inner, "V", None), d), np.eye(d)))
        yield "tokens lie in the ball", mu is None or radius(mu) <= R * (1 + 1e-12)

    def findings(self, attention: Any, n: int, R: float, d: int = 2, mu: tkf.Tokens | None = None) -> Iterator[Finding]:
        bound = float(tkf.theory.lipschitz_lower(attention, n, R, d))
        mu = tkf.theory.adversarial(attention, n, R, d) if mu is None else mu
        yield Finding(
            f"local Lipschitz constant at {n} adversarial tokens, in units of its bound",
            predicted=1.0,
            measured=local(attention, mu) / bound,
            tolerance=2e-6,
            because=FOUND,
            relation="≥",
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        n = 24 if small else 256
        for beta in (-1.0, 8.0):
            yield {"attention": tkf.Softmax(beta), "n": n, "R": 2.0}
        A = np.array([[0.5, 1.0, 0.0], [-1.0, 0.2, 0.3], [0.0, 0.4, -0.8]])
        yield {"attention": tkf.Softmax(A=A), "n": n, "R": 2.0, "d": 3}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        spread = tkf.Tokens.uniform_sphere(n=24, d=2, seed=0)
        yield "tokens at random", {"attention": tkf.Softmax(-1.0), "n": 24, "R": 2.0, "mu": spread}
        turned = tkf.theory.adversarial(tkf.Softmax(8.0), 24, 2.0)
        yield "tokens of another attention", {"attention": tkf.Softmax(-8.0), "n": 24, "R": 2.0, "mu": turned}
        yield "another V", {"attention": tkf.Softmax(-1.0, V=0.5), "n": 24, "R": 2.0}


class LipschitzMeanField(Statement):
    """The constant of changes of the measure, norm Σ w_i|x_i|², which is that of W₂ for small changes, against
    L₂ = ‖V‖(‖A‖R² + (1 + 2‖A‖R²)e^(‖A‖R²)), whatever n and the weights are."""

    name = "lipschitz-mean-field"
    source, number, kind = "castin2024", "mean-field bound in castin2025's slides", "theorem"
    says = (
        "In W₂ the Lipschitz constant of softmax attention on measures in a ball of radius R is at most ‖V‖(1 + "
        "3‖A‖R²)e^(‖A‖R²)."
    )
    remark = (
        "The slides have c(A, V)R²e^(‖A‖R²) for every W_p. As R → 0 the constant is ‖V‖, not 0, so that no such c serves "
        "all R. Derived: in W_p the exponent is 2‖A‖R²/p, which is theirs at p = 2 (see layer-wasserstein for p = 1, where "
        "it is twice as large). At the worst weights of two tokens the constant is a third of L₂ (166 of 495 at ‖A‖R² = 4)."
    )

    def hypotheses(self, attention: Any, mu: tkf.Tokens, constant: float | None = None) -> Iterator[tuple[str, bool]]:
        yield (
            "the attention is softmax, without mask, with parameters that do not change with depth",
            softmax(attention),
        )
        yield "there is no mask", not isinstance(attention, tkf.Causal)

    def findings(self, attention: Any, mu: tkf.Tokens, constant: float | None = None) -> Iterator[Finding]:
        scores, R = Scores.of(attention, mu.d), radius(mu)
        found = local(attention, mu, weighted=True) if constant is None else constant
        yield Finding(
            f"local Lipschitz constant at {mu.n} tokens of any weight, in units of its bound (‖A‖R² = {scores.cross * R**2:.3g})",
            predicted=1.0,
            measured=found / scores.map_constant(R, 2.0),
            tolerance=2e-6,
            because=FOUND,
            relation="≤",
        )
        yield Finding(
            "the same in units of ‖V‖(1 + 3‖A‖R²)e^(‖A‖R²)",
            predicted=1.0,
            measured=found / (scores.V * (1 + 3 * scores.cross * R**2) * np.exp(scores.cross * R**2)),
            tolerance=2e-6,
            because=FOUND,
            relation="≤",
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        mu = tkf.Tokens.gaussian(n=24 if small else 256, d=2, seed=0)
        yield {"attention": tkf.Softmax(0.3), "mu": mu}
        for R in (1.0, 2.0):
            yield {"attention": tkf.Softmax(-1.0), "mu": hardest(R)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        mu = hardest(2.0)
        twice = local(tkf.Softmax(-3.0), hardest(2.0, 3.0), weighted=True)
        yield "the constant at three times the β", {"attention": tkf.Softmax(-1.0), "mu": mu, "constant": twice}
        yield "a mask", {"attention": tkf.Causal(tkf.Softmax(-1.0)), "mu": mu}


def hardest(R: float, beta: float = 1.0) -> tkf.Tokens:
    """One token at R and one at -R, the first so light that under A = -βI the second gives it half of its attention."""
    light = np.exp(-2 * beta * R**2)
    return tkf.Tokens([[R, 0.0], [-R, 0.0]], [light / (1 + light), 1 / (1 + light)])


class LayerWasserstein(Statement):
    """Of two measures and their images under F(μ) = (Γ_μ)_# μ, or of images that are given."""

    name = "layer-wasserstein"
    source, number, kind = "castin2024", "mean-field bound in castin2025's slides", "theorem"
    says = "One layer of softmax attention F has W_p(F(μ), F(ν)) ≤ L_p W_p(μ, ν), L_p = ‖V‖(‖A‖R² + (1 + 2‖A‖R²)e^(2‖A‖R²/p))."
    remark = (
        "The slides have e^(‖A‖R²) for every p. At p = 1 the exponent is 2‖A‖R², and L_1 is sharp: a token of vanishing "
        "weight at Ru, all others at -Ru, A = -I, R = 2, moved along u, gives 26,828 of L_1 = 26,833, where R²e^(R²) is 218."
    )

    def hypotheses(
        self, attention: Any, mu: tkf.Tokens, nu: tkf.Tokens, p: float = 2.0, images: Any = None
    ) -> Iterator[tuple[str, bool]]:
        yield (
            "the attention is softmax or L2, without mask",
            defined(attention) and not isinstance(attention, tkf.Causal),
        )
        yield "its parameters do not change with depth", tkf.Flow(attention).timeless
        yield "p is at least 1", p >= 1
        yield "the measures differ", float(tkf.observe.wasserstein(mu, nu, p)) > 0

    def findings(
        self, attention: Any, mu: tkf.Tokens, nu: tkf.Tokens, p: float = 2.0, images: Any = None
    ) -> Iterator[Finding]:
        scores, R = Scores.of(attention, mu.d), max(radius(mu), radius(nu))
        before = float(tkf.observe.wasserstein(mu, nu, p))
        one, other = image(attention, mu, nu) if images is None else images
        after = float(tkf.observe.wasserstein(one, other, p))
        yield Finding(
            f"stretch of W_p in units of L_p, p = {p:g} (‖A‖R² = {scores.cross * R**2:.3g})",
            predicted=1.0,
            measured=after / before / scores.map_constant(R, p),
            tolerance=2e-10 * scores.V * R / (before * scores.map_constant(R, p)) + 1e-6,
            because="Fields are summed to 1e-10 of ‖V‖R, beside W_p(μ, ν); distances are exact to 1e-6.",
            relation="≤",
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        n = 24 if small else 256
        one, other = (tkf.Tokens.gaussian(n=n, d=2, seed=seed) for seed in (0, 1))
        for p in (1.0, 2.0):
            yield {"attention": tkf.Softmax(0.3), "mu": one, "nu": other, "p": p}
        for p in (1.0, 2.0):
            mu, nu = nudged(2.0, 1e-8 if p == 1 else np.exp(-8.0))
            yield {"attention": tkf.Softmax(-1.0), "mu": mu, "nu": nu, "p": p}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        mu, nu = nudged(2.0, 1e-8)
        more = image(tkf.Softmax(-1.2), mu, nu)
        yield "images at another β", {"attention": tkf.Softmax(-1.0), "mu": mu, "nu": nu, "p": 1.0, "images": more}
        yield "a mask", {"attention": tkf.Causal(tkf.Softmax(-1.0)), "mu": mu, "nu": nu}


def image(attention: Any, *measures: tkf.Tokens) -> list[tkf.Tokens]:
    """F(μ) = (Γ_μ)_# μ."""
    return [tkf.Tokens(attention(mu), mu.w) for mu in measures]


def nudged(R: float, light: float) -> tuple[tkf.Tokens, tkf.Tokens]:
    """A light token at R and a heavy one at -R; and the same with the light one a little nearer to the other."""
    x, w = np.array([[R, 0.0], [-R, 0.0]]), [light, 1 - light]
    return tkf.Tokens(x, w), tkf.Tokens(x - np.array([[1e-5, 0.0], [0.0, 0.0]]), w)


class AdversarialGrowth(Statement):
    """The slope of log Lip against log n at adversarial tokens, fitted over the given n; where constants measured elsewhere are
    given, of those."""

    name = "adversarial-root-n"
    source, number, kind = "castin2024", "experiments in castin2025's slides", "theorem"
    says = "At adversarial tokens the local Lipschitz constant grows like √n, as long as n is small beside e^(2R²γ)."
    remark = "Beyond that it falls again: at R = 1, A = -I, the exponent from n = 16 to 512 is -0.24."

    def hypotheses(
        self, attention: Any, R: float, ns: Sequence[int], constants: Sequence[float] | None = None
    ) -> Iterator[tuple[str, bool]]:
        yield (
            "the attention is softmax, causal or not, with parameters that do not change with depth",
            softmax(attention),
        )
        yield "there are at least three numbers of tokens, all above 4", len(ns) >= 3 and min(ns) > 4

    def findings(
        self, attention: Any, R: float, ns: Sequence[int], constants: Sequence[float] | None = None
    ) -> Iterator[Finding]:
        found = np.array(measured(attention, R, ns) if constants is None else constants)
        low, high = (
            np.array([float(bound(attention, n, R)) for n in ns])
            for bound in (tkf.theory.lipschitz_lower, tkf.theory.lipschitz_upper)
        )
        share = float(low[-1] / np.sqrt(max(ns) - 1))  # 1/(1 + (n-1)e^(-2R²γ))
        tolerance = 1 / (2 * (min(ns) - 1)) + (1 - share)
        slope = float(np.polyfit(np.log(ns), np.log(found), 1)[0])
        yield Finding(
            f"exponent of n, n from {min(ns)} to {max(ns)}",
            predicted=0.5,
            measured=slope,
            tolerance=tolerance,
            because=(
                "d log √(n-1)/d log n is above 1/2 by 1/2(n-1) at the least n, and the share of attention falls by no more "
                f"than n e^(-2R²γ), {1 - share:.1g}, at the largest."
            ),
            rival=0.25,
        )
        exact = FOUND
        yield Finding("least ratio to the lower bound", 1.0, float((found / low).min()), 2e-6, exact, relation="≥")
        yield Finding("largest ratio to the upper bound", 1.0, float((found / high).max()), 2e-6, exact, relation="≤")

    def case(self, small: bool) -> dict[str, Any]:
        return {
            "attention": tkf.Softmax(-1.0),
            "R": 3.0,
            "ns": (16, 90, 512) if small else (16, 32, 64, 128, 256, 512),
        }

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        ns = (16, 90, 512)
        still = tkf.Softmax(0.0)
        means = [local(still, tkf.theory.adversarial(tkf.Softmax(-1.0), n, 3.0)) for n in ns]
        yield "means, whose constant is 1", {"attention": tkf.Softmax(-1.0), "R": 3.0, "ns": ns, "constants": means}
        yield (
            "a ball so small that n is not small beside e^(2R²γ)",
            {"attention": tkf.Softmax(-1.0), "R": 1.0, "ns": ns},
        )
        yield "linear attention", {"attention": tkf.Linear(), "R": 3.0, "ns": ns}

    def plot(self, axes: Any, attention: Any, R: float, ns: Sequence[int], constants: Any = None) -> None:
        axes.loglog(
            ns, measured(attention, R, ns) if constants is None else constants, "o-", label="adversarial tokens"
        )
        n = np.geomspace(min(ns), max(ns), 50).astype(int)
        for bound, name in ((tkf.theory.lipschitz_lower, "lower bound"), (tkf.theory.lipschitz_upper, "upper bound")):
            axes.loglog(n, [float(bound(attention, int(k), R)) for k in n], "--", lw=1, label=name)
        axes.loglog(ns, [one_random(attention, R, k) for k in ns], "s:", ms=4, label="random tokens")
        axes.set_xticks(ns, [str(n) for n in ns], minor=False)
        axes.set_xticks([], minor=True)
        axes.set_xlabel("n")
        axes.set_ylabel("local Lipschitz constant")
        axes.legend()


def measured(attention: Any, R: float, ns: Sequence[int]) -> list[float]:
    """The local constants at adversarial tokens."""
    return [local(attention, tkf.theory.adversarial(attention, n, R)) for n in ns]


def one_random(attention: Any, R: float, n: int) -> float:
    """The local constant at tokens that are uniform on the sphere of radius R."""
    return local(attention, tkf.Tokens(R * tkf.Tokens.uniform_sphere(n=n, d=2, seed=0).x))


STATEMENTS: tuple[Statement, ...] = (
    LipschitzUpper(),
    LipschitzLower(),
    LipschitzMeanField(),
    LayerWasserstein(),
    AdversarialGrowth(),
)
