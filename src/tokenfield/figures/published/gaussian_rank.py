"""Ranks of the limits of random Gaussians: what M = VA + AᵀVᵀ does not contract remains."""

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
    import matplotlib.figure
    import xarray


@dataclasses.dataclass(frozen=True)
class GaussianRank(Figure):
    """Σ̇ = ΣAΣ + ΣAᵀΣ with A = KᵀQ, K = -Q and a random Q of k = ⌊d/2⌋ rows: eigenvalues of Σ over time, and how many remain.

    Since V = I commutes with everything, Σ⁻¹ = Σ₀⁻¹ + 2tQᵀQ. By Weyl's inequalities k eigenvalues of Σ(t) fall, each with
    1/λ - t|m| between 1/σ_max and 1/σ_min, m an eigenvalue of M = -2QᵀQ and σ those of Σ₀, and the other ⌈d/2⌉ stay above σ_min.

    - `dimensions`: the d.
    - `runs`: how many random Q and Σ₀ for every d; Q has normal entries, Σ₀ is the covariance of 2d normal samples.
    - `T`: the last time; `times`: how many are drawn, in equal ratios.
    - `seed`: of Q and Σ₀.
    """

    name = "gaussian-rank"
    source, number = "castin2025", "ranks of limits, numerically"
    shows = (
        "With K = -Q of ⌊d/2⌋ rows, a Gaussian keeps ⌈d/2⌉ axes and loses the others like 1/t, whatever Q and Σ₀ are."
    )
    small = {"dimensions": (3,), "runs": 20, "times": 30}
    remark = (
        "With V = I the rank is no statistic: every run ends at ⌈d/2⌉, as the closed form says. What vanishes does so like "
        "1/(|m|t) only, and |m| is small where two rows of Q are nearly alike, so that a rank counted above a fixed threshold is "
        "too large until late. Here an eigenvalue counts by the bounds of its own run."
    )

    dimensions: tuple[int, ...] = (3, 4, 5)
    runs: int = 100
    T: float = 1e6
    times: int = 60
    seed: int = 0

    def check(self) -> None:
        if min(self.dimensions) < 2 or not len(set(self.dimensions)) == len(self.dimensions) <= 6:
            raise InputError(
                "gaussian-rank: dimensions must be two at least, so that Q has a row, different, and at most six."
            )
        if self.runs < 1 or self.times < 2 or self.T < 1:
            raise InputError("gaussian-rank: `runs` must be positive, `times` at least 2, and `T` at least 1.")

    def compute(self, shelf: Shelf) -> xarray.Dataset:
        import xarray

        parts = [shelf(f"d {d}", lambda d=d: self._runs(d)) for d in self.dimensions]
        return xarray.concat(parts, dim=xarray.Variable("dimension", list(self.dimensions)))

    def _runs(self, d: int) -> xarray.Dataset:
        """All runs of one dimension; missing axes of smaller dimensions are NaN."""
        import xarray

        rng, k, most = np.random.default_rng([self.seed, d]), d // 2, max(self.dimensions)
        Q, Y = rng.normal(size=(self.runs, k, d)), rng.normal(size=(self.runs, 2 * d, d))
        flows = [tkf.Flow(tkf.Softmax(Q=one, K=-one)) for one in Q]
        starts = [tkf.Gaussian(np.zeros(d), one.T @ one / (2 * d)) for one in Y]
        times = np.append(0.0, np.geomspace(1e-2, self.T, self.times))
        run = tkf.evolve(flows, starts, t=self.T, save=times, zipped=True)
        full = lambda values, size: np.pad(values, _behind(values, size), constant_values=np.nan)
        return xarray.Dataset(
            {
                "eigenvalue": (("run", "time", "axis"), full(np.asarray(run.spectrum, float), most)),
                "contraction": (("run", "row"), full(2 * np.linalg.svd(Q, compute_uv=False) ** 2, most // 2)),
                "steps": (("run",), np.asarray(run.accepted)),
                "ended": (("run",), np.asarray(run.reached, float)),
            },
            coords={"time": times},
            attrs={"rtol": run.provenance.rtol},
        )

    def ranks(self, data: xarray.Dataset, d: int) -> tuple[np.ndarray, float]:
        """How many eigenvalues of each run lie above the geometric mean of Weyl's two bounds, and the least ratio of these."""
        one = data.sel(dimension=d)
        end, start = one.eigenvalue.values[:, -1, :d], one.eigenvalue.values[:, 0, d - 1]
        below = 1 / (self.T * np.nanmin(one.contraction.values, axis=1))
        return np.sum(end > np.sqrt(below * start)[:, None], axis=1), float(np.min(start / below))

    def claims(self, data: xarray.Dataset) -> Iterator[Finding]:
        for d in self.dimensions:
            found, apart = self.ranks(data, d)
            yield Finding(
                f"runs of {self.runs} whose limit has rank {d - d // 2}, d = {d}",
                self.runs,
                int(np.sum(found == d - d // 2)),
                0.0,
                f"A count. Weyl's bounds of eigenvalues that fall and of those that remain are {apart:.2g} times apart.",
                unsure=None if apart > 4 else "It is too early to tell them apart: choose a larger T.",
            )
            yield self._law(data, d)

    def _law(self, data: xarray.Dataset, d: int) -> Finding:
        """How well eigenvalues that fall do so as 1/(|m|t)."""
        one, k = data.sel(dimension=d), d // 2
        m = one.contraction.values[:, :k]
        fell, σ = one.eigenvalue.values[:, -1, d - k : d][:, ::-1], one.eigenvalue.values[:, 0, d - 1]
        early = float(np.max(1 / (self.T * m.min(axis=1) * σ)))
        solver = float(2 * one.steps.max() * data.attrs["rtol"])
        return Finding(
            f"|m| t λ(Σ) at the last time, the least of all that fall, d = {d}",
            1.0,
            float(np.min(fell * m * self.T)),
            early + solver,
            f"Weyl: between 1/(1 + 1/(|m|tσ)), {early:.1g} below 1, and 1; steps err by rtol each in a root of Σ, {solver:.1g}.",
            rival=0.0,
        )

    def draw(self, data: xarray.Dataset) -> matplotlib.figure.Figure:
        from tokenfield.figures.style import COLOURS, PAGE, sheet

        count = len(self.dimensions)
        figure, axes = sheet(1, count + 1, width=PAGE * (count + 1) / 4, height=2.1)
        for ax, d, colour in zip(axes[0], self.dimensions, COLOURS, strict=False):
            self._fan(ax, data, d, colour)
        axes[0, 0].set_ylabel("eigenvalues of Σ")
        for ax in axes[0, 1:count]:
            ax.sharey(axes[0, 0])
            ax.tick_params(labelleft=False)
        self._histogram(axes[0, count], data)
        return figure

    def _fan(self, ax: Any, data: xarray.Dataset, d: int, colour: str) -> None:
        """Eigenvalues of all runs of one dimension."""
        from tokenfield.figures.style import GREY, INK

        one, times = data.sel(dimension=d), data.time.values[1:]
        for axis in range(d):
            shade = colour if axis < d - d // 2 else GREY
            ax.loglog(times, one.eigenvalue.values[:, 1:, axis].T, color=shade, lw=0.3, alpha=0.5)
        late = times[times > 1e-3 * self.T]
        ax.loglog(late, 30 / late, ":", color=INK, lw=1)
        ax.text(late[len(late) // 4], 90 / late[len(late) // 4], "1/t", fontsize=7)
        ax.set_title(f"d = {d}: {d - d // 2} remain, {d // 2} lost")
        ax.set_xlabel("t")

    def _histogram(self, ax: Any, data: xarray.Dataset) -> None:
        from tokenfield.figures.style import COLOURS

        width = 0.84 / len(self.dimensions)
        for k, (d, colour) in enumerate(zip(self.dimensions, COLOURS, strict=False)):
            counts = np.bincount(self.ranks(data, d)[0], minlength=max(self.dimensions) + 1)
            where = np.arange(len(counts)) + (k - (len(self.dimensions) - 1) / 2) * width
            ax.bar(where, counts, width, color=colour, label=f"d = {d}")
        ax.set_xticks(range(max(self.dimensions) + 1))
        ax.set_xlabel("rank of the limit")
        ax.set_title(f"runs, of {self.runs} for every d")
        ax.legend(loc="upper right", handlelength=0.8, borderpad=0.0)
        ax.set_xlim(-0.6, max(self.dimensions) + 0.6)


def _behind(values: np.ndarray, size: int) -> list[tuple[int, int]]:
    """What numpy adds so that the last axis has so many entries."""
    return [(0, 0)] * (values.ndim - 1) + [(0, size - values.shape[-1])]


FIGURE = GaussianRank
