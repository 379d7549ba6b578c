"""One picture of a run: snapshots above, the whole course of it below."""

import os
from typing import Any

import numpy as np

from tokenfield import observe
from tokenfield.draw.ensembles import ensemble_figure, observables_figure
from tokenfield.draw.page import BLUE, RED, SNAPSHOTS, blank, halves, headline, moments, plain, written
from tokenfield.draw.panel import figure_of
from tokenfield.draw.view import FAINT, INK, Census, Painter, clock_name, clock_times, course, thinned, view_of
from tokenfield.measures import Tokens
from tokenfield.trajectory import Trajectory


def picture(run: Trajectory, path: str | os.PathLike | None = None) -> Any:
    """Draw a run. Written to `path` (png, pdf, svg) and its path returned, or returned as a matplotlib figure."""
    if run.batch:
        return written(ensemble_figure(run), path)
    return written(figure_of(run.states, run) if run.observed is None else observables_figure(run), path)


@figure_of.register
def _draw(states: Tokens, run: Trajectory) -> Any:
    every, run = run.states.n, thinned(run)
    figure = blank()
    top, bottom = halves(figure, run)
    painter, shown = Painter(run, size=420), snapshot_times(run)
    for ax, i in zip(np.atleast_1d(top.subplots(1, len(shown))), shown, strict=True):
        snapshot(ax, painter, i)
        ax.set_title(f"t = {float(run.times[i]):.4g}", fontsize=11, color=INK)
    if bottom is not None:
        left, right = bottom.subplots(1, 2, width_ratios=[1.35, 1])
        _course(run, left, painter.colours)
        _curves(run, right, painter.census)
    drawn = "" if every == run.states.n else f" ({run.states.n} drawn)"
    headline(figure, run, f"n = {every}{drawn}, d = {run.states.d}")
    if painter.view.name == "principal axes":
        top.text(0.005, 0.02, "first two principal axes of the run", fontsize=8, color=INK, alpha=0.7)
    return figure


def snapshot(ax: Any, painter: Painter, i: int) -> None:
    """Saved state i on empty axes."""
    painter.view.backdrop(ax)
    cloud = painter.cloud(i)
    ax.scatter(*cloud.places.T, s=cloud.areas, c=cloud.paint, linewidths=0, zorder=2, clip_on=False)


def snapshot_times(run: Trajectory, count: int = SNAPSHOTS) -> list[int]:
    """Saved states at equal shares of the way that tokens travel."""
    return moments(np.sqrt(np.mean(np.sum(np.diff(np.asarray(run.x, float), axis=0) ** 2, axis=2), axis=1)), count)


def _course(run: Trajectory, ax: Any, colours: np.ndarray) -> None:
    """Every token against time: angles for d = 2 on the circle, values for d = 1, else the overlaps' histogram."""
    times, d = clock_times(run), run.states.d
    x = np.asarray(run.x, float)
    if d == 2 and view_of(run).sphere:
        _lines(ax, times, np.arctan2(x[..., 1], x[..., 0]), colours, wrap=True)
        ax.set(ylabel="angle", ylim=(-np.pi, np.pi), yticks=[-np.pi, 0, np.pi], yticklabels=["-π", "0", "π"])
    elif d == 1:
        _lines(ax, times, x[..., 0], colours, wrap=False)
        ax.set(ylabel="x")
    elif _overlaps_exist(run):
        share, edges = observe.overlap_histogram(run, bins=80)
        density = np.ma.masked_less(share.T * 80 / 2, 1e-4)
        middle = 0.5 * (edges[1:] + edges[:-1])
        mesh = ax.pcolormesh(times, middle, density, cmap="magma_r", norm="log", shading="nearest", rasterized=True)
        bar = ax.figure.colorbar(mesh, ax=ax, pad=0.01)
        bar.set_label("density of pairs", fontsize=9)
        ax.set(ylabel=r"overlap $\langle \theta_i, \theta_j \rangle$", ylim=(-1, 1))
    else:
        ax.plot(times, np.linalg.norm(x, axis=-1), color=INK, lw=0.6, alpha=0.5)
        ax.set(ylabel="|x|")
    plain(ax, times, clock_name(run))


def _lines(ax: Any, times: np.ndarray, values: np.ndarray, colours: np.ndarray, wrap: bool) -> None:
    n = values.shape[1]
    shown = np.arange(n) if n <= 400 else np.linspace(0, n - 1, 400).astype(int)
    for i in shown:
        line = values[:, i].copy()
        if wrap:
            line[1:][abs(np.diff(line)) > np.pi] = np.nan
        ax.plot(times, line, color=colours[i], lw=0.7, alpha=0.6)


def _curves(run: Trajectory, ax: Any, census: Census | None) -> None:
    """How far the run has come, and how many clusters there are."""
    curve = course(run)
    if curve is None:
        ax.set_axis_off()
        return
    times, (name, values) = clock_times(run), curve
    ax.plot(times, values, color=BLUE, lw=1.8)
    ax.set_ylabel(name, color=BLUE)
    plain(ax, times, clock_name(run))
    if run.mergers is not None:
        index, counts, label = slice(None), [int(run.mergers.groups(t)) for t in np.asarray(run.times)], "groups"
    elif census is not None:
        index, counts, label = census.index, census.counts, f"clusters ({census.within})"
    else:
        return
    other = ax.twinx()
    other.step(times[index], counts, where="post", color=RED, lw=1.5)
    other.set_yscale("log")
    other.set_ylim(0.9, 1.3 * max(counts))
    other.set_ylabel(label, color=RED)
    ticks = [m * 10**k for k in range(7) for m in (1, 2, 5) if m * 10**k <= 1.3 * max(counts)]
    other.set_yticks(ticks if len(ticks) < 7 else [tick for tick in ticks if str(tick)[0] == "1"])
    other.yaxis.set_major_formatter("{x:g}")
    other.minorticks_off()
    other.spines[["top", "left"]].set_visible(False)
    other.spines["right"].set_color(FAINT)


def _overlaps_exist(run: Trajectory) -> bool:
    return run.states.n > 1 and float(np.asarray(run.states.radii).min()) > 0
