"""The three estimates on Γ_μ from which everything else in the compactly supported case follows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.theory.base import Finding, Statement
from tokenfield.theory.statements.smoothness import Scores, averaging, defined, radius, value_norm

SUMMED = "Fields are summed to 1e-10 relative"


def around(mu: tkf.Tokens, x: Any) -> np.ndarray:
    """Query points: those given, or the tokens, 0, and the tokens ten times as far away."""
    own = np.asarray(mu.x)
    return np.concatenate([own, np.zeros((1, mu.d)), 10 * own]) if x is None else np.atleast_2d(np.asarray(x, float))


def constant(attention: Any) -> bool:
    """Whether no parameter changes with depth."""
    return tkf.Flow(attention).timeless


class FieldBound(Statement):
    """The first estimate, of an attention at points x; fields that were computed elsewhere may be given."""

    name = "field-bound"
    source, number, kind = "castin2025", "estimate 1", "theorem"
    says = "The field of attention that averages is nowhere longer than ‖V‖R, R the radius of the tokens' ball."
    remark = (
        "It is sharp: all tokens in one place attain it. It needs weights of sum at most 1 alone, so that it holds of sigmoid "
        "attention too."
    )

    def hypotheses(
        self, attention: Any, mu: tkf.Tokens, x: Any = None, field: Any = None
    ) -> Iterator[tuple[str, bool]]:
        yield "the attention averages: softmax, L2, Sinkhorn, sigmoid, additive, heads of these", averaging(attention)

    def findings(self, attention: Any, mu: tkf.Tokens, x: Any = None, field: Any = None) -> Iterator[Finding]:
        field = np.asarray(attention(mu, around(mu, x)) if field is None else field)
        bound = value_norm(attention, mu.d) * radius(mu)
        yield Finding(
            f"longest field of {type(attention).__name__} attention, in units of ‖V‖R",
            predicted=1.0,
            measured=float(np.linalg.norm(field, axis=-1).max()) / bound,
            tolerance=1e-9,
            because=f"{SUMMED}.",
            relation="≤",
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        mu = tkf.Tokens.gaussian(n=12 if small else 400, d=3, seed=0)
        V = np.asarray(tkf.Tokens.gaussian(n=3, d=3, seed=1).x)
        for kind in (tkf.Softmax, tkf.L2, tkf.Sinkhorn, tkf.Sigmoid):
            yield {"attention": kind(beta=2.0, V=V), "mu": mu}
        one_place = tkf.Tokens(np.tile([1.0, 2.0, 2.0], (12, 1)))
        yield {"attention": tkf.Softmax(2.0), "mu": one_place}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        mu = tkf.Tokens.gaussian(n=12, d=3, seed=0)
        field = tkf.Unnormalized(2.0)(mu)
        yield "unnormalized attention", {"attention": tkf.Unnormalized(2.0), "mu": mu}
        yield "the field of unnormalized attention", {"attention": tkf.Softmax(2.0), "mu": mu, "field": field}


class FieldSlope(Statement):
    """The second estimate. DΓ_μ(x) = V Cov A, Cov the covariance of the tokens by their weights at x, and Cov ≤ R². It is taken by
    automatic differentiation."""

    name = "field-slope"
    source, number, kind = "castin2025", "estimate 2", "theorem"
    says = "The field's derivative is nowhere larger than ‖V‖‖A‖R², A that of scores <Ax, y>, which for L2 attention is 2β KᵀQ."
    remark = "It is sharp: two tokens Ru and -Ru attain it at x = 0 where Au has length ‖A‖. Sigmoid attention has a quarter of it."

    def hypotheses(
        self, attention: Any, mu: tkf.Tokens, x: Any = None, slopes: Any = None
    ) -> Iterator[tuple[str, bool]]:
        yield "the attention is softmax or L2", defined(attention) and not isinstance(attention, tkf.Causal)
        yield "its parameters do not change with depth", constant(attention)

    def findings(self, attention: Any, mu: tkf.Tokens, x: Any = None, slopes: Any = None) -> Iterator[Finding]:
        slopes = np.linalg.norm(derivatives(attention, mu, around(mu, x)) if slopes is None else slopes, 2, axis=(1, 2))
        scores = Scores.of(attention, mu.d)
        yield Finding(
            f"largest derivative of the field of {type(attention).__name__} attention, in units of ‖V‖‖A‖R²",
            predicted=1.0,
            measured=float(slopes.max()) / (scores.V * scores.cross * radius(mu) ** 2),
            tolerance=1e-9,
            because=f"{SUMMED}, and differentiated exactly.",
            relation="≤",
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        mu = tkf.Tokens.gaussian(n=12 if small else 400, d=3, seed=0)
        for kind in (tkf.Softmax, tkf.L2):
            yield {"attention": kind(beta=0.3), "mu": mu}
        yield {"attention": tkf.Softmax(0.3), "mu": tkf.Tokens([[3.0, 0.0, 0.0], [-3.0, 0.0, 0.0]] * 6)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        mu = tkf.Tokens.gaussian(n=12, d=3, seed=0)
        steep = derivatives(tkf.Unnormalized(2.0), mu, np.asarray(mu.x))
        yield "unnormalized attention", {"attention": tkf.Unnormalized(2.0), "mu": mu}
        yield (
            "the derivative of unnormalized attention",
            {"attention": tkf.Softmax(2.0), "mu": mu, "slopes": steep},
        )


def derivatives(attention: Any, mu: tkf.Tokens, x: np.ndarray) -> np.ndarray:
    """DΓ_μ at points x."""
    import jax

    return np.asarray(jax.jit(jax.vmap(jax.jacfwd(lambda point: attention(mu, point))))(x))


class FieldStability(Statement):
    """The third estimate, with the constant of `Scores.field_constant`. Differences of fields at x measured elsewhere may be
    given."""

    name = "field-stability"
    source, number, kind = "castin2025", "estimate 3", "theorem"
    says = (
        "Fields of two measures differ by no more than c(x, R) W_p(μ, ν), c = ‖V‖(1 + 2|Ax|R) min(n, e^(2|Ax|R))^(1/p)."
    )
    remark = (
        "The slides say that c is exponential in R², and at most ‖A‖R² for tokens. Derived here: c = ‖V‖(1 + 2|Ax|R) "
        "e^(2|Ax|R/p), and n^(1/p) for the exponential where both measures are n tokens of equal weight. A bound ‖A‖R² "
        "alone is wrong: at A = 0 fields are means, which differ by as much as W_p. n^(1/p) is needed: of n tokens at -Ru "
        "and one at Ru, A = -βI, the one moved at a right angle turns the field at -Ru by √n W_2 / (1 + n e^(-2βR²))."
    )

    def hypotheses(
        self, attention: Any, mu: tkf.Tokens, nu: tkf.Tokens, p: float = 2.0, x: Any = None, gaps: Any = None
    ) -> Iterator[tuple[str, bool]]:
        yield "the attention is softmax or L2", defined(attention) and not isinstance(attention, tkf.Causal)
        yield "its parameters do not change with depth", constant(attention)
        yield "p is at least 1", p >= 1
        yield "the measures differ", float(tkf.observe.wasserstein(mu, nu, p)) > 0

    def findings(
        self, attention: Any, mu: tkf.Tokens, nu: tkf.Tokens, p: float = 2.0, x: Any = None, gaps: Any = None
    ) -> Iterator[Finding]:
        points = around(mu, np.asarray(mu.x) if x is None else x)
        if gaps is None:
            gaps = np.linalg.norm(np.asarray(attention(mu, points) - attention(nu, points)), axis=1)
        scores, R, n = Scores.of(attention, mu.d), max(radius(mu), radius(nu)), crowd(mu, nu)
        apart = float(tkf.observe.wasserstein(mu, nu, p))
        c = np.array([scores.field_constant(r, R, p, n) for r in np.linalg.norm(points, axis=1)])
        yield Finding(
            f"largest difference of fields in units of c(x, R) W_p, {type(attention).__name__} attention, p = {p:g}",
            predicted=1.0,
            measured=float((np.asarray(gaps) / (c * apart)).max()),
            tolerance=2e-10 * scores.V * R / (c.min() * apart) + 1e-9,
            because=f"{SUMMED}, here 2e-10 ‖V‖R of c W_p; the distance is exact to 1e-9.",
            relation="≤",
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        n = 16 if small else 200
        mu, nu = (tkf.Tokens.gaussian(n=n, d=2, seed=seed) for seed in (0, 1))
        for p in (1.0, 2.0):
            yield {"attention": tkf.Softmax(1.0), "mu": mu, "nu": nu, "p": p}
        yield {"attention": tkf.L2(1.0), "mu": mu, "nu": nu, "p": 2.0}
        one, moved = lonely(n, 2.0, 0.01)
        yield {"attention": tkf.Softmax(-1.0), "mu": one, "nu": moved, "p": 2.0}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        mu, nu = (tkf.Tokens.gaussian(n=16, d=2, seed=seed) for seed in (0, 1))
        wild = tkf.Unnormalized(4.0)
        gaps = np.linalg.norm(np.asarray(wild(mu) - wild(nu, np.asarray(mu.x))), axis=1)
        yield "unnormalized attention", {"attention": wild, "mu": mu, "nu": nu}
        yield "fields of unnormalized attention", {"attention": tkf.Softmax(4.0), "mu": mu, "nu": nu, "gaps": gaps}


def crowd(mu: tkf.Tokens, nu: tkf.Tokens) -> float:
    """n where both measures are n tokens of equal weight, among which the best plan is a permutation; else infinity."""
    w, v = np.asarray(mu.w), np.asarray(nu.w)
    alike = len(w) == len(v) and np.allclose(w, w[0], rtol=1e-12) and np.allclose(v, v[0], rtol=1e-12)
    return float(len(w)) if alike else np.inf


def lonely(n: int, R: float, by: float, w: Any = None) -> tuple[tkf.Tokens, tkf.Tokens]:
    """Tokens at -R and one at R on the first axis of the plane, and the same with that one moved along the second: it falls
    back into the ball of radius R."""
    x = np.tile([-R, 0.0], (n, 1))
    x[0, 0] = R
    y = x.copy()
    y[0] = R * np.array([np.cos(by / R), np.sin(by / R)])
    return tkf.Tokens(x, w), tkf.Tokens(y, w)
