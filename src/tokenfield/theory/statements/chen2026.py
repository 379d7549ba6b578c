"""Chen, Lin, Polyanskiy and Rigollet, Critical attention scaling in long-context Transformers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.theory.base import Finding, Statement


class LongContext(Statement):
    """Two findings: the cosine of two outputs for n tokens against the limit, and the closed form of it against a layer that acts
    on tokens. A cosine measured elsewhere may be given."""

    name = "long-context"
    source, number, kind = "chen2026", "Theorem 7 in rigollet2025", "theorem"
    says = (
        "At β = γ log n one softmax layer brings equiangular tokens of cosine ρ to cosine 1, 4ρ/(1+3ρ) or ρ as n → ∞, for γ below, "
        "at or above 1/(1-ρ)."
    )

    def hypotheses(
        self, rho: float, gamma: float, n: float = 1e16, cosine: float | None = None
    ) -> Iterator[tuple[str, bool]]:
        yield "0 < ρ < 1", 0 < rho < 1
        yield "γ is positive", gamma > 0

    def findings(self, rho: float, gamma: float, n: float = 1e16, cosine: float | None = None) -> Iterator[Finding]:
        share = gamma * (1 - rho)  # e^{-β(1-ρ)} = n^{-share}
        η = (n - 1) * n**-share  # how much attention others have together, a token itself having 1
        critical = abs(share - 1) < 1e-12
        limit = 4 * rho / (1 + 3 * rho) if critical else (1.0 if share < 1 else rho)
        next_term = 0.0 if critical else (η**-2 * (1 - rho) / rho if share < 1 else η * 2 * rho * (1 - rho))
        yield Finding(
            f"cosine of two outputs at ρ = {rho:g}, γ(1-ρ) = {share:.3g}, n = {n:.0e}",
            predicted=limit,
            measured=float(tkf.long_context(n, rho, gamma)) if cosine is None else cosine,
            tolerance=2 * next_term + 10 / n + 1e-12,
            because=(
                "Twice the next term of the expansion in η = (n-1) n^(-γ(1-ρ)): (1-ρ)/(ρη²) below, 2ρ(1-ρ)η above, and O(1/n) at "
                "the critical γ; then round-off."
            ),
            rival=rho if share <= 1 + 1e-12 else 1.0,
        )
        few = 64
        mu = tkf.Equiangular(rho=rho, n=few).tokens()
        out = np.asarray(tkf.Softmax(gamma * np.log(few))(mu))[:2]
        seen = float(out[0] @ out[1] / np.linalg.norm(out[0]) / np.linalg.norm(out[1]))
        closed = float(tkf.long_context(few, rho, gamma))
        yield Finding(
            f"the same for {few} tokens, by a layer",
            predicted=closed,
            measured=seen,
            tolerance=1e-9,
            because="The field is summed to 1e-10 relative.",
        )

    def cases(self, small: bool) -> Iterator[dict[str, Any]]:
        for rho in (0.3, 0.7) if small else (0.1, 0.3, 0.5, 0.7):
            for share in (0.6, 1.0, 1.4):
                yield {"rho": rho, "gamma": share / (1 - rho)}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        doubled = float(tkf.theory.output(tkf.Softmax(4 * np.log(1e16)), tkf.Equiangular(rho=0.5, n=1e16)).rho)
        yield "a layer at twice the β", {"rho": 0.5, "gamma": 2.0, "cosine": doubled}
        yield "a context that is too short to tell", {"rho": 0.5, "gamma": 1.9, "n": 100.0}
        yield "opposite tokens", {"rho": -1.0, "gamma": 1.0}


STATEMENTS: tuple[Statement, ...] = (LongContext(),)
