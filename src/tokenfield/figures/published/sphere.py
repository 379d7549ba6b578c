"""Tokens on the sphere at two temperatures: one cluster at once, or several that live long; stills and a movie."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import tokenfield as tkf
from tokenfield.errors import InputError
from tokenfield.figures.base import Figure, Shelf
from tokenfield.theory.base import Finding

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray

SECONDS = 8.0
"""Of the movie."""
TURN = 0.7
"""By how much the scene turns in its course."""


@dataclasses.dataclass(frozen=True)
class Sphere(Figure):
    """Tokens of SA on S² from one uniform start, at several β, and how many clusters they are, within 0.1 rad. At the largest β
    tokens that have met are then made one, which takes the run to any time.

    - `betas`: inverse temperatures.
    - `n`, `seed`: how many tokens, and the seed of the start.
    - `T`: the last time that is drawn; `late`: until when mergers at the largest β are followed, 0 for not at all.
    - `stills`: the times of the pictures.
    - `frames`: how many states are saved, each a frame of the movie.
    """

    name = "sphere"
    source, number = "geshkovski2025", "simulations on the sphere"
    shows = "64 tokens on the sphere: at β = 1 they meet at once in one cluster, at β = 9 first in several, and much later in one."
    remark = (
        "At β = 9 there are 4 to 5 clusters at T = 15 for seeds 0 to 5, and the last two become one between t = 1.7e6 and 1.5e7: "
        "no movie in plain time shows it."
    )
    small = {"n": 32, "frames": 13, "late": 0.0}

    betas: tuple[float, ...] = (1.0, 9.0)
    n: int = 64
    seed: int = 0
    T: float = 15.0
    late: float = 1e9
    stills: tuple[float, ...] = (0.0, 2.5, 5.0, 7.5, 15.0)
    frames: int = 161

    def check(self) -> None:
        if self.n < 4 or self.T <= 0 or self.frames < 2 or min(self.betas) < 0:
            raise InputError("sphere: needs n ≥ 4, T > 0, frames ≥ 2 and betas that are not negative.")
        if min(self.stills) < 0 or max(self.stills) > self.T:
            raise InputError(f"sphere: stills must lie between 0 and T = {self.T:g}, but one does not.")
        if self.late and self.late <= self.T:
            raise InputError(f"sphere: late must be 0, or exceed T = {self.T:g}, but is {self.late:g}.")

    def compute(self, shelf: Shelf) -> xarray.Dataset:
        import xarray

        start = tkf.Tokens.uniform_sphere(n=self.n, d=3, seed=self.seed)
        times = np.unique(np.append(np.linspace(0, self.T, self.frames), self.stills))
        runs = tkf.evolve([tkf.sa(β) for β in self.betas], [start], t=self.T, save=times)
        found = [[tkf.observe.clusters(run[k]) for k in range(len(times))] for run in runs.members()]
        energy = [2 * β * tkf.observe.energy(runs[k, 0], beta=β, scaled=True) for k, β in enumerate(self.betas)]
        data = xarray.Dataset(
            {
                "x": (("beta", "time", "token", "axis"), np.asarray(runs.x)[:, 0]),
                "clusters": (("beta", "time"), [[len(state) for state in states] for states in found]),
                "group": (("beta", "token"), [np.asarray(states[-1].labels) for states in found]),
                "energy": (("beta", "time"), np.asarray(energy)),
            },
            coords={"beta": list(self.betas), "time": times, "axis": ["x", "y", "z"]},
        )
        return data.merge(self._mergers(start)) if self.late else data

    def _mergers(self, start: tkf.Tokens) -> xarray.Dataset:
        import xarray

        run = tkf.evolve(tkf.sa(max(self.betas)), start, t=self.late, coalesce=1e-5, save=2)
        assert run.mergers is not None
        return xarray.Dataset({"merger": (("merged",), run.mergers.t), "left": (("merged",), run.mergers.left)})

    def claims(self, data: xarray.Dataset) -> Iterator[Finding]:
        counted = "A count of groups whose tokens are within 0.1 rad is exact."
        low, high = data.sel(beta=min(self.betas)), data.sel(beta=max(self.betas))
        yield Finding(f"clusters at T, β = {float(low.beta):g}", 1, int(low.clusters[-1]), 0, counted, rival=2)
        yield Finding(
            f"clusters at T, β = {float(high.beta):g}", 2, int(high.clusters[-1]), 0, counted, relation="≥", rival=1
        )
        yield Finding(
            "least rise of the energy between saved states, in units of its last value",
            0.0,
            float(np.diff(data.energy, axis=1).min()),
            2 * max(self.betas) * 1e-6,
            "Energy rises along SA; a step that errs by rtol = 1e-6 in every token changes it by 2β times that.",
            relation="≥",
        )
        if "merger" in data:
            what = f"clusters at t = {self.late:g}, β = {float(high.beta):g}"
            yield Finding(what, 1, int(data["left"][-1]), 0, "A count of groups is exact.", rival=2)

    def draw(self, data: xarray.Dataset) -> matplotlib.figure.Figure:
        from tokenfield.figures.style import FAINT, sheet

        rows, columns = len(self.betas), len(self.stills)
        ratios = {"width_ratios": [1.0] * columns + [1.75]}
        figure, axes = sheet(rows, columns + 1, height=7.0 / (columns + 1.75) * rows + 0.45, gridspec_kw=ratios)
        for row, β in enumerate(self.betas):
            globe = Globe(data, β)
            for column, t in enumerate(self.stills):
                globe.on(axes[row, column], int(np.argmin(np.abs(data.time.values - t))))
                if row == 0:
                    axes[row, column].set_title(f"t = {t:g}")
            axes[row, 0].text(-1.12, 0.0, f"β = {β:g}", rotation=90, ha="right", va="center", fontsize=8)
            ax = axes[row, -1]
            times, counts = _count(data, β)
            ax.step(times, counts, where="post", color=globe.INK, lw=1.2)
            ax.axvline(self.T, color=FAINT, lw=0.8, zorder=0)
            ax.set(xscale="log", yscale="log", xlim=(0.5, max(self.late, self.T)), ylim=(0.8, 1.3 * self.n))
            ax.set_yticks(ticks := [k for k in (1, 4, 16, 64, 256) if k <= self.n], map(str, ticks))
            ax.minorticks_off()
            ax.tick_params(labelbottom=row == rows - 1)
        axes[0, -1].set_title("clusters; grey: T")
        axes[-1, -1].set_xlabel("t")
        return figure

    def extras(self, data: xarray.Dataset) -> Iterator[tuple[str, Callable[[Path], object]]]:
        from tokenfield.draw.movie import ending

        yield f"sphere{ending()}", lambda path: self._movie(data, path)

    def _movie(self, data: xarray.Dataset, path: Path) -> None:
        from matplotlib.figure import Figure as Page

        from tokenfield.draw.movie import film

        page = Page(figsize=(4.0 * len(self.betas), 4.4), facecolor="white")
        axes = page.subplots(1, len(self.betas), squeeze=False)[0]
        page.subplots_adjust(0.01, 0.01, 0.99, 0.9, 0.02)
        title = page.text(0.5, 0.03, "", ha="center", fontsize=12)
        globes, count = [Globe(data, β) for β in self.betas], data.sizes["time"]

        def show(k: int) -> None:
            for ax, globe, β in zip(axes, globes, self.betas, strict=True):
                ax.clear()
                globe.on(ax, k, TURN * (k / (count - 1) - 0.5), large=True)
                ax.set_title(f"β = {β:g}", fontsize=13)
            title.set_text(f"t = {float(data.time[k]):.2f}")

        film(page, show, count, path, fps=max(2, round(count / SECONDS)))


class Globe:
    """Draws the tokens of one β on the unit sphere, seen from where most of all β will be; those behind it are seen through paper.
    A token has the colour of the cluster that it will belong to at the largest β; a disc under every cluster has its mass."""

    INK = "#22262e"

    def __init__(self, data: xarray.Dataset, beta: float):
        from tokenfield.draw.view import COLOURS, best_eye, globe

        self.x, self.own = data.x.sel(beta=beta).values, data.group.sel(beta=beta).values
        basins = data.group.sel(beta=data.beta.max()).values
        self.colour = np.array([_rgb(COLOURS[k % len(COLOURS)]) for k in basins])
        self.view = globe(best_eye(*_last(data), enough=0.75))

    def on(self, ax: Any, k: int, turn: float = 0.0, large: bool = False) -> None:
        """Saved state k on axes, after the scene has turned by an angle."""
        scale = 6.0 if large else 1.0
        self.view.backdrop(ax, turn)
        groups = [self.own == g for g in range(self.own.max() + 1)]
        centres = np.stack([self.x[k, some].mean(axis=0) for some in groups])
        spread = np.array(
            [np.linalg.norm(self.x[k, some] - c, axis=1).max() for some, c in zip(groups, centres, strict=True)]
        )
        mass = np.array([some.mean() for some in groups])
        paint = np.array([self.colour[some].mean(axis=0) for some in groups])
        discs = np.column_stack([paint, 0.5 * np.clip(1 - spread / 0.3, 0, 1)])
        dots = np.column_stack([self.colour, np.full(len(self.colour), 0.9)])
        self._scatter(ax, centres, 170 * scale * mass, discs, turn)
        self._scatter(ax, self.x[k], np.full(len(dots), 5.0 * scale), dots, turn)

    def _scatter(self, ax: Any, x: np.ndarray, areas: np.ndarray, paint: np.ndarray, turn: float) -> None:
        places, depth = self.view.project(x, turn)
        behind = depth < 0
        paint[behind, :3] = 0.25 * paint[behind, :3] + 0.75
        order = np.argsort(depth, kind="stable")
        ax.scatter(*places[order].T, s=areas[order], c=paint[order], linewidths=0, zorder=2, clip_on=False)


def _last(data: xarray.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Where clusters are at last, at every β, and what share of tokens each has: all is seen from one side."""
    x, group = data.x.isel(time=-1).values, data.group.values
    which = [(k, g) for k in range(len(group)) for g in np.unique(group[k])]
    centres = np.stack([x[k, group[k] == g].mean(axis=0) for k, g in which])
    return centres, np.array([np.mean(group[k] == g) for k, g in which])


def _rgb(code: str) -> tuple[float, ...]:
    return tuple(int(code[i : i + 2], 16) / 255 for i in (1, 3, 5))


def _count(data: xarray.Dataset, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """Clusters against time: within 0.1 rad while tokens are drawn, then as tokens become one."""
    times, counts = data.time.values, data.clusters.sel(beta=beta).values
    if "merger" not in data or beta < float(data.beta.max()):
        ever = counts[-1:] if counts[-1] == 1 else counts[:0]
        return np.append(times, [1e30] * len(ever)), np.append(counts, ever)
    later = data.merger.values > times[-1]
    known = np.minimum(data["left"].values[later], counts[-1])
    return np.concatenate([times, data.merger.values[later], [1e30]]), np.concatenate([counts, known, known[-1:]])


FIGURE = Sphere
