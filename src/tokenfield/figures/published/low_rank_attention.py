"""Attention on the line: rows of the attention matrix become e_1 or e_n, and its rank two."""

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

RTOL = 1e-9


@dataclasses.dataclass(frozen=True)
class LowRankAttention(Figure):
    """The attention matrix P_ij = softmax_j(x_i x_j) along ẋ_i = Σ_j P_ij x_j in d = 1, Q = K = V = 1, tokens in the order in which
    they start, which they keep; and the distance D of all rows but one to e_1 or e_n, those of the outermost tokens.

    - `n`: numbers of tokens, one row of the figure each.
    - `width`: tokens start uniformly in [-width, width].
    - `T`: the last time.
    - `shots`: times at which matrices are drawn.
    - `times`: how many the distance is drawn at.
    - `seed`: that of the starts.
    """

    name = "low-rank-attention"
    source, number = "stein2025", "Figure 4"
    shows = (
        "On the line every token comes to attend to one of the two outermost: rank two, at a doubly exponential rate."
    )
    remark = (
        "The rate is exp(-c e^t) and not exp(-c e^(2t)), although scores x_i x_j grow like e^(2t): followers keep their "
        "distance to the leader, so that scores of two of them differ by a multiple of e^t only. More precisely -log D = "
        "A e^t + B. All rows decide here, also the one that the theorem leaves out."
    )
    small = {"n": (40,), "times": 60}

    n: tuple[int, ...] = (40, 100)
    width: float = 5.0
    T: float = 9.0
    shots: tuple[float, ...] = (0.0, 1.0, 2.0, 9.0)
    times: int = 180
    seed: int = 0

    def check(self) -> None:
        if min(self.n) < 3 or self.width <= 0 or self.times < 20:
            raise InputError(f"{self.name} needs n ≥ 3, a positive width and 20 times at least.")
        if list(self.shots) != sorted(set(self.shots)) or self.shots[0] < 0 or self.shots[-1] > self.T:
            raise InputError(f"{self.name} needs increasing shots between 0 and T = {self.T:g}, but got {self.shots}.")

    def compute(self, shelf: Shelf) -> xarray.Dataset:
        import xarray

        flow, times = tkf.Flow(tkf.Softmax(1.0), tkf.Free()), self._times()
        shots, most = np.searchsorted(times, self.shots), max(self.n)
        distance = np.zeros((len(self.n), len(times)))
        P = np.full((len(self.n), len(shots), most, most), np.nan)
        rank, steps = np.zeros((len(self.n), len(shots)), int), np.zeros(len(self.n), int)
        for k, n in enumerate(self.n):
            x = np.sort(np.asarray(tkf.Tokens.uniform_box(n, 1, -self.width, self.width, seed=self.seed).x), axis=0)
            run = tkf.evolve(flow, tkf.Tokens(x), t=self.T, save=times, rtol=RTOL)
            distance[k], steps[k] = np.asarray(tkf.observe.leaders(run).distance), int(run.accepted)
            P[k, :, :n, :n] = np.asarray(tkf.observe.attention_matrix(run))[shots]
            rank[k] = np.linalg.matrix_rank(P[k, :, :n, :n], tol=1e-8 * np.sqrt(n))
        return xarray.Dataset(
            {
                "P": (("n", "shot", "query", "key"), P),
                "rank": (("n", "shot"), rank),
                "distance": (("n", "time"), distance),
                "steps": (("n",), steps),
            },
            coords={"n": list(self.n), "shot": list(self.shots), "time": times},
        )

    def _times(self) -> np.ndarray:
        """All times that are kept: those of the curve, and those of the matrices."""
        return np.union1d(np.linspace(0, self.T, self.times + 1), self.shots)

    def claims(self, data: xarray.Dataset) -> Iterator[Finding]:
        for n in self.n:
            one = data.sel(n=n)
            P = one.P.isel(shot=-1).values[:n, :n]
            yield Finding(
                f"rank of the attention matrix at t = {self.shots[-1]:g}, n = {n}",
                predicted=2.0,
                measured=float(one["rank"][-1]),
                tolerance=0.0,
                because="A rank is a whole number; singular values below 1e-8 √n are those of rows that are Boolean to 1e-8.",
                rival=float(n),
            )
            yield Finding(
                f"least of the larger of P_i1 and P_in over all i, n = {n}",
                predicted=1.0,
                measured=float(P[:, [0, -1]].max(axis=1).min()),
                tolerance=n * 2.3e-16,
                because=f"Rows sum to 1 up to the rounding of {n} numbers; what is left of others is exp(-c e^t).",
                rival=1 / n,
            )
            yield self._rate(one, n)

    def _rate(self, one: xarray.Dataset, n: int) -> Finding:
        t, y = self._late(one)
        what = f"slope of log(-log D) in t, n = {n}"
        if len(t) < 6:
            return Finding(what, 1.0, np.nan, 0.0, "Nothing was fitted.", unsure="D is not small for long enough.")
        A, B = np.polyfit(np.exp(t), y, 1)
        solver = 3 * 2 * int(one.steps) * RTOL / np.ptp(t)
        return Finding(
            what,
            predicted=1.0,
            measured=float(np.polyfit(t, np.log(y), 1)[0]),
            tolerance=float(abs(B) / y[0] + abs(B) / (A * np.exp(t[0])) ** 2 + solver),
            because=(
                f"-log D = A e^t + B with B = {B:.2g}: a fitted slope is an average of slopes 1 - B/(-log D), each off by "
                f"B/{y[0]:.3g} at most; rtol for each of {int(one.steps)} steps, in products of two, adds {solver:.1g}."
            ),
            rival=2.0,
        )

    def _late(self, one: xarray.Dataset) -> tuple[np.ndarray, np.ndarray]:
        """Times at which D is small, and not yet too small for a number; -log D there."""
        D = one.distance.values
        late = (D < 1e-6) & (D > 1e-300)
        return one.time.values[late], -np.log(D[late])

    def draw(self, data: xarray.Dataset) -> matplotlib.figure.Figure:
        from tokenfield.figures.style import BLUE, INK, sheet

        count = len(self.shots)
        figure, axes = sheet(
            len(self.n), count + 1, height=0.3 + 1.5 * len(self.n), gridspec_kw={"width_ratios": [1.0] * count + [1.3]}
        )
        for row, n in zip(axes, self.n, strict=True):
            one = data.sel(n=n)
            for k, ax in enumerate(row[:-1]):
                _matrix(ax, one.P[k].values[:n, :n])
                ax.set_title(f"t = {self.shots[k]:g}, rank {int(one['rank'][k])}")
            row[0].set_ylabel(f"n = {n}")
            D = one.distance.values
            small = (D < 0.5) & (D > 0)
            row[-1].semilogy(one.time.values[small], -np.log(D[small]), color=BLUE)
            t, y = self._late(one)
            if len(t):
                row[-1].semilogy(t, 0.4 * y[-1] * np.exp(t - t[-1]), color=INK, ls=":", lw=1)
                row[-1].text(t.mean(), 0.25 * y[-1] * np.exp(t.mean() - t[-1]), " $e^t$", va="top")
            row[-1].set_title("-log D")
            row[-1].set_xlim(0, self.T)
            row[-1].set_xticks(np.linspace(0, self.T, 4))
        axes[-1, -1].set_xlabel("t")
        return figure


def _matrix(ax: matplotlib.axes.Axes, P: np.ndarray) -> None:
    """A matrix in dark on light, with a margin, so that its outermost columns are seen."""
    from matplotlib.colors import PowerNorm

    from tokenfield.figures.style import FAINT

    ax.imshow(P, norm=PowerNorm(0.5, 0, 1), cmap="Blues", interpolation="nearest")
    ax.set_xlim(-0.5 - 0.05 * len(P), 1.05 * len(P) - 0.5)
    ax.set_ylim(1.05 * len(P) - 0.5, -0.5 - 0.05 * len(P))
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_visible(True)
        spine.set_color(FAINT)


FIGURE = LowRankAttention
