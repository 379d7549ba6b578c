"""A Transformer with random weights, new in every layer, under five normalizations: which of them collapses first."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

import tokenfield as tkf
from tokenfield.errors import InputError
from tokenfield.figures.base import Figure, Shelf
from tokenfield.theory.base import Finding

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure
    import xarray

SCHEMES = ("nGPT", "Post-LN", "Peri-LN", "Pre-LN", "sqrt")
"""In the order in which they collapse."""


@dataclasses.dataclass(frozen=True)
class Normalization(Figure):
    """The mean cosine ρ of n random tokens after each layer X ↦ N(X + F(X)), F softmax attention at β = √d with matrices
    Q, K, V of independent N(0, 1/d) entries, new in every layer; a median and a band of 90% over seeds.

    - `d`, `n`: the dimension, and how many tokens.
    - `depth`: how many layers.
    - `seeds`: how many Transformers; number s has weights and tokens of the seeds 4s, ..., 4s + 3.
    - `level`: tokens have collapsed where their mean cosine passes this.
    """

    name = "normalization"
    source, number = "rigollet2025", "Figure 4"
    shows = "With random weights Post-LN collapses before Pre-LN and Peri-LN; nGPT is faster still, and sqrt-scaling slowest."
    remark = (
        "The source compares Post-LN with Pre-LN and Peri-LN; nGPT with α = 1 and sqrt-scaling are seen here. Peri-LN starts "
        "faster than Post-LN, since it lengthens the short field of tokens that are not aligned, and is ahead up to a cosine "
        "of about 0.85; to collapse is to pass 0.95. The laws are "
        "not those of equiangular tokens with V = I: what a layer with new random values adds is orthogonal to what is "
        "there, so that on the sphere 1 - ρ is halved by every layer instead of falling by e^(-2), and where lengths grow they "
        "grow like √k, which makes 1 - ρ fall like 1/k instead of 1/k². Sqrt-scaling is slowest since orthogonal steps count by "
        "their squares, 1/(k+1), which add up to log k only."
    )
    small = {"d": 64, "n": 16, "seeds": 3, "depth": 60}

    d: int = 512
    n: int = 128
    depth: int = 100
    seeds: int = 10
    level: float = 0.95

    def check(self) -> None:
        if self.d < 16 or self.n < 2 or self.seeds < 2 or self.depth < 40:
            raise InputError(f"{self.name} needs d ≥ 16, n ≥ 2, two seeds and 40 layers at least.")
        if not 0 < self.level < 1:
            raise InputError(f"{self.name} needs a level between 0 and 1, but got {self.level}.")

    def compute(self, shelf: Shelf) -> xarray.Dataset:
        import xarray

        parts = [shelf(f"seed {seed}", lambda seed=seed: self._transformer(seed)) for seed in range(self.seeds)]
        return xarray.concat(parts, "seed").assign_coords(seed=np.arange(self.seeds))

    def _transformer(self, seed: int) -> xarray.Dataset:
        """The mean cosine, and the mean square of lengths, after each layer of one Transformer under each scheme."""
        import xarray

        Q, K, V = (tkf.PerLayer.gaussian(self.depth, self.d, self.d, seed=4 * seed + k) for k in (1, 2, 3))
        attention = tkf.Softmax(self.d**0.5, Q=Q, K=K, V=V)
        start = tkf.Tokens.uniform_sphere(n=self.n, d=self.d, seed=4 * seed)
        cosines, squares = [], []
        for scheme in (tkf.NGPT(1.0), tkf.PostLN(), tkf.PeriLN(), tkf.PreLN(), tkf.SqrtScaling()):
            run = tkf.layers(tkf.Flow(attention, scheme), start, self.depth)
            cosines.append(np.asarray(tkf.observe.mean_overlap(run)))
            squares.append(np.mean(np.sum(np.asarray(run.x) ** 2, axis=2), axis=1))
        return xarray.Dataset(
            {"cosine": (("scheme", "layer"), np.array(cosines)), "square": (("scheme", "layer"), np.array(squares))},
            coords={"scheme": list(SCHEMES), "layer": np.arange(self.depth + 1)},
        )

    def claims(self, data: xarray.Dataset) -> Iterator[Finding]:
        first = {scheme: self._collapsed(data.cosine.sel(scheme=scheme).values) for scheme in SCHEMES}
        for soon, late in (("Post-LN", "Pre-LN"), ("Post-LN", "Peri-LN"), ("nGPT", "Post-LN"), ("Pre-LN", "sqrt")):
            yield Finding(
                f"layers from ρ = {self.level:g} under {soon} to the same under {late}, least of {self.seeds} seeds",
                predicted=1.0,
                measured=float((first[late] - first[soon]).min()),
                tolerance=0.0,
                because="Layers are whole numbers, and both schemes have the same weights and tokens.",
                relation="≥",
            )
        for scheme in ("Post-LN", "nGPT"):
            yield self._halved(1 - data.cosine.sel(scheme=scheme).values, scheme)
        for scheme in ("Pre-LN", "Peri-LN"):
            yield self._slowly(data.sel(scheme=scheme), scheme)

    def _collapsed(self, cosine: np.ndarray) -> np.ndarray:
        """The first layer after which tokens have collapsed, for each seed; one beyond the last where they have not."""
        there = cosine >= self.level
        return np.where(there.any(axis=1), there.argmax(axis=1), self.depth + 1)

    def _halved(self, gap: np.ndarray, scheme: str) -> Finding:
        rates, layers = [], 0
        for one in gap:
            window = np.flatnonzero((one < 1e-2) & (one > 1e-12))
            layers += len(window) - 1
            rates.append(np.log2(one[window[0]] / one[window[-1]]))
        spread = 0.5 * np.sqrt(6 / self.d) / np.log(2)
        return Finding(
            f"halvings of 1 - ρ per layer, {scheme}",
            predicted=1.0,
            measured=sum(rates) / layers,
            tolerance=float(3 * spread / np.sqrt(layers) + (2 / self.d + 1e-2 * len(gap) / layers) / np.log(2)),
            because=(
                f"1 - ρ is divided by the square of m + Vm, m the cluster: 2, with variance 6/d, so that a layer scatters "
                f"by {spread:.1g}; three standard errors of {layers} layers, a bias of 2/d, and the next term in 1 - ρ < 0.01."
            ),
            rival=2 / np.log(2),
        )

    def _slowly(self, one: xarray.Dataset, scheme: str) -> Finding:
        k = np.arange(self.depth // 2, self.depth + 1)
        logs, squares = np.log(1 - one.cosine.values[:, k]).mean(axis=0), one.square.values[:, k].mean(axis=0)
        scatter = float(3 * np.sqrt(1.2 * 4 / self.d / np.log(2) / self.seeds))
        start = float(abs(k / squares - 1).max())
        return Finding(
            f"power of k by which 1 - ρ falls, {scheme}",
            predicted=1.0,
            measured=float(-np.polyfit(np.log(k), logs, 1)[0]),
            tolerance=scatter + start,
            because=(
                f"1 - ρ falls like 1/r², and r² is k up to {start:.2g} in this half of the layers; by 2<x, Vm> it walks at random, "
                f"with variance 4/d in log k, 6/5 of that over log 2 in a fitted slope: three standard errors are {scatter:.2g}."
            ),
            rival=2.0,
        )

    def draw(self, data: xarray.Dataset) -> matplotlib.figure.Figure:
        from tokenfield.figures.style import COLOURS, sheet

        figure, (axes,) = sheet(1, 2, height=2.7)
        k = data.layer.values
        for scheme, colour in zip(SCHEMES, COLOURS, strict=False):
            low, middle, high = np.quantile(data.cosine.sel(scheme=scheme), (0.05, 0.5, 0.95), axis=0)
            axes[0].fill_between(k, low, high, color=colour, alpha=0.25, lw=0)
            axes[0].plot(k, middle, color=colour)
            axes[1].fill_between(k[1:], 1 - high[1:], 1 - low[1:], color=colour, alpha=0.25, lw=0)
            axes[1].plot(k[1:], 1 - middle[1:], color=colour, label=scheme)
        axes[0].set_ylabel("mean cosine ρ")
        axes[0].set_title(f"d = {self.d}, n = {self.n}, β = √d, {self.seeds} seeds, band of 90%")
        axes[1].set_xscale("log")
        axes[1].set_yscale("log")
        axes[1].set_ylim(1e-6, 1.5)
        axes[1].set_ylabel("1 - ρ")
        axes[1].legend(loc="lower left")
        axes[1].set_title("how close to collapse")
        _laws(axes[1], *(1 - np.median(data.cosine.sel(scheme=scheme), axis=0) for scheme in ("Post-LN", "Peri-LN")))
        for ax in axes:
            ax.set_xlabel("layer k")
        return figure


def _laws(ax: matplotlib.axes.Axes, post: np.ndarray, peri: np.ndarray) -> None:
    """2^(-k) and 1/k, a little off the curves that they are the laws of."""
    from tokenfield.figures.style import GREY

    k = np.arange(len(post))
    at = int(np.argmax(post < 1e-3))
    ax.plot(k[at:], 8 * post[at] * 0.5 ** (k[at:] - at), color=GREY, ls="--")
    ax.text(1.1 * (at + 3), 2 * post[at], "$2^{-k}$", color=GREY)
    ax.plot(k[20:], 0.4 * peri[-1] * k[-1] / k[20:], color=GREY, ls=":")
    ax.text(0.5 * k[-1], 0.45 * peri[-1], "1/k", color=GREY, va="top", ha="right")


FIGURE = Normalization
