"""How much attention can change when its tokens do: like √n at adversarial tokens, as long as n is small beside e^(2R²γ)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tokenfield as tkf
from tokenfield.errors import InputError
from tokenfield.figures.base import Figure, Shelf
from tokenfield.theory.base import Finding

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure
    import xarray

MASKS = ("softmax", "causal")
FOUND = "The local constant is found to 1e-6 relative."
LEAST = 8
"""Exponents are fitted to numbers of tokens from here on: √(n-1) is not yet √n before."""


@dataclasses.dataclass(frozen=True)
class Lipschitz(Figure):
    """The local Lipschitz constant ‖D_X f‖₂ of one head of softmax attention f, scores β<x, y>, V = I, with and without a causal
    mask, at n adversarial tokens in the ball of radius R, between the bounds of the theorem,
    √(n-1)/(1 + (n-1)e^(-2R²γ)) and √3(β²R⁴(4n+1) + n)^(1/2), with γ = max(-β, β/8); and without a mask below
    (1 + 3|β|R²)e^(|β|R²), which knows no n.

    - `n`: the numbers of tokens.
    - `beta`: β; -1 is A = -I.
    - `R`: radii of balls, of which the largest is drawn with both bounds.
    - `seeds`: how many samples of n tokens, uniform on the circle of the largest radius, are compared.
    """

    name = "lipschitz"
    source, number = "castin2024", "the experiments in part IV of castin2025's slides"
    shows = (
        "At adversarial tokens the Lipschitz constant of one softmax head grows like √n, with and without a mask, and stays "
        "between the bounds of the theorem; in smaller balls growth ends about where n reaches e^(2R²γ)."
    )
    small = {"n": (8, 16, 32, 64), "R": (1.0, 3.0), "seeds": 2}
    remark = (
        "The source compares with the tokens of a trained model on text, for which it finds n^(1/4); here it is random tokens. "
        "Adversarial tokens attain the lower bound and are not the worst there are: at R = 3 random ones have the larger constant "
        "in the median for n = 4 to 16, and fall behind after that. "
        "The causal constant is √n where the other is √(n-1): the first token, which sees itself alone, moves as well. In a "
        "small ball it exceeds the lower bound, up to five times: that is proved by moving the first token at right angles "
        "to the others, and moving it along them moves the others farther. The upper bound is some thirty times the "
        "constant of adversarial tokens at R = 3 (47 times at n = 2), since it grows like R² and they do not."
    )

    n: tuple[int, ...] = (2, 4, 8, 16, 32, 64, 128, 256, 512)
    beta: float = -1.0
    R: tuple[float, ...] = (1.0, 1.5, 2.0, 3.0)
    seeds: int = 8

    def check(self) -> None:
        if len([n for n in self.n if n >= LEAST]) < 3 or min(self.n) < 2 or sorted(set(self.n)) != list(self.n):
            raise InputError(
                f"lipschitz: n must increase from 2 or more, with three numbers of at least {LEAST} for the exponent, but is "
                f"{self.n}."
            )
        if self.beta == 0 or min(self.R) <= 0 or sorted(set(self.R)) != list(self.R):
            raise InputError("lipschitz: beta must not be 0, and the radii R must be positive and increase.")
        if self.seeds < 1:
            raise InputError(f"lipschitz: seeds must be 1 or more, but is {self.seeds}.")

    def compute(self, shelf: Shelf) -> xarray.Dataset:
        import xarray

        kinds = (tkf.Softmax(self.beta), tkf.Causal(tkf.Softmax(self.beta)))
        constant = [
            [[self._local(kind, tkf.theory.adversarial(kind, n, R)) for n in self.n] for R in self.R] for kind in kinds
        ]
        bounds = [
            [[float(bound(kinds[0], n, R)) for n in self.n] for R in self.R]
            for bound in (tkf.theory.lipschitz_lower, tkf.theory.lipschitz_upper)
        ]
        drawn = [max(self.R) * tkf.Tokens.uniform_sphere(max(self.n), 2, seed).x for seed in range(self.seeds)]
        random = [[self._local(kinds[0], tkf.Tokens(x[:n])) for n in self.n] for x in np.asarray(drawn)]
        stretch = abs(self.beta) * np.square(self.R)
        return xarray.Dataset(
            {
                "constant": (("attention", "R", "n"), constant),
                "lower": (("R", "n"), bounds[0]),
                "upper": (("R", "n"), bounds[1]),
                "mean_field": (("R",), (1 + 3 * stretch) * np.exp(stretch)),
                "random": (("seed", "n"), random),
            },
            coords={"attention": list(MASKS), "R": list(self.R), "n": list(self.n), "seed": np.arange(self.seeds)},
        )

    def _local(self, attention: Any, mu: tkf.Tokens) -> float:
        """The constant; tokens without weight fill all measures up to one size, so that one program serves all."""
        found: Any = tkf.observe.lipschitz(attention, mu.filled(max(self.n)))
        return float(found)

    def claims(self, data: xarray.Dataset) -> Iterator[Finding]:
        many = data.sel(n=data.n >= LEAST)
        n, widest = many.n.values.astype(float), max(self.R)
        lost = float(1 - data.lower.sel(R=widest)[-1] / np.sqrt(n[-1] - 1))  # 1 - 1/(1 + (n-1)e^(-2R²γ))
        for mask in MASKS if lost < 0.1 else ():
            yield Finding(
                f"exponent of n, {mask}, n from {n[0]:g} to {n[-1]:g}, R = {widest:g}",
                predicted=0.5,
                measured=float(np.polyfit(np.log(n), np.log(many.constant.sel(attention=mask, R=widest)), 1)[0]),
                tolerance=1 / (2 * (n[0] - 1)) + lost,
                because=(
                    "d log √(n-1)/d log n is above 1/2 by 1/2(n-1) at the least n, and the share of attention that the first "
                    f"token has falls by {lost:.1g} up to the largest."
                ),
                rival=0.25,
            )
        least = float((data.constant / data.lower).min())
        most = float((data.constant / data.upper).max())
        yield Finding("least ratio to the lower bound, all n and R", 1.0, least, 2e-6, FOUND, relation="≥")
        yield Finding("largest ratio to the upper bound, all n and R", 1.0, most, 2e-6, FOUND, relation="≤")
        free = float((data.constant[0] / data.mean_field).max())
        yield Finding("largest ratio to the mean-field bound, no mask", 1.0, free, 2e-6, FOUND, relation="≤")
        typical = float((data.random / data.upper.sel(R=widest)).max())
        yield Finding("largest ratio of random tokens to the upper bound", 1.0, typical, 2e-6, FOUND, relation="≤")

    def draw(self, data: xarray.Dataset) -> matplotlib.figure.Figure:
        from tokenfield.figures.style import PAGE, sheet

        figure, axes = sheet(1, 2, width=PAGE, height=2.7)
        self._between(axes[0, 0], data)
        self._radii(axes[0, 1], data)
        for ax in axes.flat:
            ax.set_xscale("log", base=2)
            ax.set_xticks(data.n.values, [f"{n}" for n in data.n.values])
            ax.set_xlabel("number of tokens n")
        return figure

    def _between(self, ax: matplotlib.axes.Axes, data: xarray.Dataset) -> None:
        """The largest ball: both masks between the bounds, and random tokens."""
        from tokenfield.figures.style import BLUE, FAINT, GREY, RED

        widest = data.isel(R=-1)
        ax.fill_between(data.n, widest.lower, widest.upper, color=FAINT, alpha=0.4, lw=0)
        ax.plot(data.n, widest.lower, "--", color=GREY, lw=0.9)
        ax.plot(data.n, widest.upper, "--", color=GREY, lw=0.9)
        ax.plot(data.n, widest.constant[0], "o", color=BLUE, label="adversarial tokens")
        ax.plot(data.n, widest.constant[1], "x", color=RED, ms=5, label="the same, causal")
        random = data.random.values
        middle, ends = np.median(random, axis=0), (random.min(axis=0), random.max(axis=0))
        ax.errorbar(data.n, middle, [middle - ends[0], ends[1] - middle], fmt="s", ms=3, lw=0.8, mfc="white", color=GREY,
                    label="random tokens", zorder=1)  # fmt: skip
        ax.set_yscale("log")
        k = data.sizes["n"] // 2
        between = float(np.sqrt(widest.lower[k] * widest.upper[k]))
        ax.text(float(data.n[k]), between, "between the bounds of the theorem", color=GREY, ha="center", fontsize=7)
        ax.set_ylim(top=15 * float(widest.upper.max()))
        ax.set_ylabel("local Lipschitz constant")
        ax.set_title(f"one softmax head, β = {_signed(self.beta)}, R = {max(self.R):g}")
        ax.legend(loc="upper left")

    def _radii(self, ax: matplotlib.axes.Axes, data: xarray.Dataset) -> None:
        """All balls, softmax: the constant over √(n-1)."""
        from tokenfield.figures.style import GREY, shades

        root = np.sqrt(data.n - 1)
        for k, colour in enumerate(shades(data.sizes["R"])):
            R = float(data.R[k])
            ax.plot(data.n, data.constant[0, k] / root, "o", color=colour, label=f"R = {R:g}")
            ax.plot(data.n, data.lower[k] / root, "--", color=colour, lw=0.9)
        ax.axhline(1.0, color=GREY, lw=0.6, zorder=0)
        ax.set_yscale("log")
        ax.set_ylim(top=6 * float((data.constant[0] / root).max()))
        ax.plot(
            data.n, data.mean_field[0] / root, ":", color=GREY, lw=1.1, label=f"mean-field bound, R = {min(self.R):g}"
        )
        ax.set_ylabel("constant / √(n − 1)")
        ax.set_title("smaller balls; dashed: lower bound")
        ax.legend(loc="lower left")


def _signed(value: float) -> str:
    return f"{value:g}".replace("-", "−")


FIGURE = Lipschitz
