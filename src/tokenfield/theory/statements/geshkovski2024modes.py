"""Geshkovski, Rigollet and Sun, On the number of modes of Gaussian kernel density estimators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.theory.base import Finding, Statement


class NumberOfModes(Statement):
    """M²/β against log β along β = n^γ, which is a line where M is like √(β log β), level where it is like √β, and bent upwards
    where it is like √β log β.

    Its slope is known where slopes of the density are lost in the noise of samples, γ > 2/3: there the estimate is locally a
    stationary Gaussian field, with √(3β/2)/2π modes per unit of length (Kac and Rice), as far out as a kernel's width still has
    samples, |x| < √(2 log(n/√β)); so that M² ≈ (3/π²)(1/γ - 1/2) β log β.

    - `sizes`: numbers of samples n; `gamma`: γ; `seeds`: how many samples of each size.
    - `counts`: the numbers of modes, one row per size, where they were counted elsewhere.
    """

    name = "kde-modes"
    source, number, kind = "geshkovski2024modes", "main theorem", "theorem"
    says = (
        "The Gaussian kernel density estimate of n normal samples with precision β has of order √(β log β) modes on the "
        "line, for β between n^c and n^(2-c)."
    )
    remark = (
        "The survey [rigollet2025] prints √β log β; the paper has √(β log β), and so have samples: at β = n = 10³, 10⁴, "
        "10⁵ there are 37, 133 and 460 modes, M/√(β log β) = 0.45, 0.44, 0.43, while M/√β grows (1.19, 1.33, 1.45) and "
        "M/(√β log β) falls (0.17, 0.14, 0.13). Sharper, for γ > 2/3: M ≈ (1/π) √(3(1/γ - 1/2) β log β), which is 0.39 "
        "√(β log β) at β = n."
    )

    def hypotheses(self, sizes: Any, gamma: float, seeds: int, counts: Any = None) -> Iterator[tuple[str, bool]]:
        yield "β = n^γ with 2/3 < γ < 2, where the constant is known too", 2 / 3 < gamma < 2
        yield "there are two sizes or more, each with two samples or more", len(set(sizes)) > 1 and seeds > 1

    def findings(self, sizes: Any, gamma: float, seeds: int, counts: Any = None) -> Iterator[Finding]:
        n = np.asarray(sizes, np.float64)
        β = n**gamma
        M = np.asarray(self.counted(sizes, gamma, seeds) if counts is None else counts, np.float64)
        mean, error = M.mean(axis=1), M.std(axis=1, ddof=1) / np.sqrt(M.shape[1])
        slope, sampled = _line(np.log(β), mean**2 / β, 2 * mean * error / β)
        predicted = float(3 / np.pi**2 * (1 / gamma - 0.5))
        level, span = float((mean**2 / β).mean()), float(np.ptp(np.log(β)))
        drift = float(
            4 * np.sqrt(np.pi) * 0.2935 * n.min() ** (1 - 1.5 * gamma)
        )  # (slope of the density)²/noise at most
        edge = float(predicted / np.log(n.min() / np.sqrt(β.min())))
        yield Finding(
            f"slope of M²/β in log β, β = n^{gamma:g}, n = {n.min():.3g} to {n.max():.3g}",
            predicted=predicted,
            measured=slope,
            tolerance=2 * sampled + drift * level / span + edge**2,
            because=(
                f"Twice the standard error over samples ({2 * sampled:.2g}); the density's slope takes away a share of at most "
                f"{drift / 2:.2g} of the modes at the least n ({drift * level / span:.2g}); and where samples end the line has a "
                f"correction that falls like 1/log² ({edge**2:.2g})."
            ),
            rival=0.0,  # that of √β
        )

    def counted(self, sizes: Any, gamma: float, seeds: int) -> np.ndarray:
        """The numbers of modes, one row per size."""
        draw = lambda n, seed: tkf.Tokens(np.random.default_rng(seed).normal(size=(n, 1)))
        return np.array(
            [[len(tkf.observe.modes(draw(n, seed), float(n**gamma))) for seed in range(seeds)] for n in sizes]
        )

    def case(self, small: bool) -> dict[str, Any]:
        if small:
            return {"sizes": (300, 1_000, 3_000), "gamma": 1.0, "seeds": 32}
        return {"sizes": (1_000, 3_000, 10_000, 30_000, 100_000), "gamma": 1.0, "seeds": 32}

    def broken(self) -> Iterator[tuple[str, dict[str, Any]]]:
        inputs: dict[str, Any] = {"sizes": (300, 1_000, 3_000), "gamma": 1.0, "seeds": 32}
        flat = lambda n, seed: tkf.Tokens(np.random.default_rng(seed).uniform(-1.7, 1.7, size=(n, 1)))
        of = lambda n: [len(tkf.observe.modes(flat(n, seed), float(n))) for seed in range(16)]
        yield "samples that are not normal but uniform", inputs | {"counts": [of(n) for n in inputs["sizes"]]}
        yield "a precision at which every sample is a mode", inputs | {"gamma": 2.5}
        noise = np.random.default_rng(0).normal(size=32)
        survey = [np.sqrt(n) * np.log(n) * 0.17 + noise for n in inputs["sizes"]]
        yield "as many modes as √β log β", inputs | {"counts": survey}

    def plot(self, axes: Any, sizes: Any, gamma: float, seeds: int, counts: Any = None) -> None:
        β = np.asarray(sizes, np.float64) ** gamma
        M = np.asarray(self.counted(sizes, gamma, seeds) if counts is None else counts, np.float64).mean(axis=1)
        axes.loglog(β, M, "o", label=f"modes, β = n^{gamma:g}")
        laws = {"√β": np.sqrt(β), "√(β log β)": np.sqrt(β * np.log(β)), "√β log β": np.sqrt(β) * np.log(β)}
        for style, (name, law) in zip((":", "-", "--"), laws.items(), strict=True):
            axes.loglog(β, law * M[0] / law[0], f"k{style}", lw=1, label=name)
        axes.set_xlabel("β")
        axes.set_ylabel("number of modes")
        axes.legend(fontsize=8)


def _line(x: np.ndarray, y: np.ndarray, error: np.ndarray) -> tuple[float, float]:
    """The slope of a line through points with errors, and its standard error."""
    weight = 1 / error**2
    way = x - np.average(x, weights=weight)
    return float((weight * way) @ y / (weight @ way**2)), float((weight @ way**2) ** -0.5)


STATEMENTS: tuple[Statement, ...] = (NumberOfModes(),)
