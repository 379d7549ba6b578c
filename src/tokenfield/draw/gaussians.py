"""Gaussians: ellipses for d = 2, bells for d = 1, covariances as matrices beyond."""

from typing import Any

import numpy as np

from tokenfield.draw.page import BLUE, GREEN, RED, bare, blank, halves, headline, moments, plain
from tokenfield.draw.panel import Panel, figure_of, panel_of
from tokenfield.draw.view import FAINT, INK
from tokenfield.measures import Gaussian
from tokenfield.status import Status
from tokenfield.trajectory import Trajectory

LEGEND = {"frameon": False, "fontsize": 9}
ALIKE = 30
"""Sizes that differ by less are drawn to one scale."""


class Gaussians(Panel):
    """What the panels of Gaussians share: sizes, and the box that is looked at."""

    def __init__(self, states: Any):
        self.mean, self.cov = np.asarray(states.mean, float), np.asarray(states.cov, float)
        self.trace = _positive(np.trace(self.cov, axis1=1, axis2=2))
        half = 2 * np.sqrt(np.einsum("tii->ti", self.cov))  # the box around two standard deviations
        self.low, self.high = (self.mean - half).min(0), (self.mean + half).max(0)
        self.own, self.whole = _positive(half.max(1)), float(_positive(np.max(self.high - self.low) / 2))
        self.shared = self.whole <= ALIKE * self.own.min()

    def box(self, i: int) -> tuple[np.ndarray, float]:
        """Centre and reach: of the whole run, or of the state alone where the run is much larger than some state."""
        return (0.5 * (self.low + self.high), self.whole) if self.shared else (self.mean[i], float(self.own[i]))

    @property
    def steps(self) -> np.ndarray:
        """Changes of size, shape and place, by logarithms and bounded: a blow-up is one step."""
        shape = (self.cov / self.trace[:, None, None]).reshape(len(self.trace), -1)
        place = 0.3 * np.arcsinh(self.mean / np.sqrt(self.trace)[:, None])
        features = np.column_stack([0.5 * np.log(self.trace), 2 * shape, place])
        return np.minimum(np.linalg.norm(np.diff(features, axis=0), axis=1), 1.0)

    @property
    def course(self) -> tuple[str, np.ndarray]:
        wide = self.trace.max() > ALIKE * self.trace.min()
        return ("log₁₀ tr Σ", np.log10(self.trace)) if wide else ("tr\N{NO-BREAK SPACE}Σ", self.trace)


class Bells(Gaussians):
    """Densities on the line, each of height 1: their widths tell their heights."""

    framed = True

    def draw(self, ax: Any, i: int, turn: float = 0.0) -> None:
        (centre,), reach = self.box(i)
        place, deviation = self.mean[i, 0] - centre, 0.5 * self.own[i]
        u = np.union1d(np.linspace(-2 * reach, 2 * reach, 200), place + deviation * np.linspace(-4, 4, 161))
        height = np.exp(-0.5 * ((u - place) / deviation) ** 2)
        ax.fill_between(u, height, color=BLUE, alpha=0.25, lw=0)
        ax.plot(u, height, color=BLUE, lw=1.5)
        ax.plot(place, 1, "o", color=RED, ms=5, zorder=3)
        ax.set(xlim=(-1.6 * reach, 1.6 * reach), ylim=(0, 1.1), yticks=[])
        away = f" {'-' if centre > 0 else '+'} {abs(centre):.4g}" if abs(centre) > 1e-12 * reach else ""
        ax.set_xlabel(f"x{away}")
        ax.locator_params(axis="x", nbins=3)
        bare(ax)
        ax.spines["left"].set_visible(False)


class Ellipses(Gaussians):
    """One and two standard deviations around the mean, and a ruler."""

    def draw(self, ax: Any, i: int, turn: float = 0.0) -> None:
        centre, reach = self.box(i)
        values, vectors = np.linalg.eigh(self.cov[i])
        angle = np.linspace(0, 2 * np.pi, 241)
        ring = np.stack([np.cos(angle), np.sin(angle)], 1) * np.sqrt(np.maximum(values, 0)) @ vectors.T
        place = self.mean[i] - centre
        for deviations, alpha in ((2, 0.16), (1, 0.3)):
            ax.fill(*(place + deviations * ring).T, color=BLUE, alpha=alpha, lw=0)
            ax.plot(*(place + deviations * ring).T, color=BLUE, lw=1.1)
        ax.plot(*place, "o", color=RED, ms=4.5, zorder=3)
        ax.set(xlim=(-1.1 * reach, 1.1 * reach), ylim=(-1.4 * reach, 1.1 * reach), aspect="equal")
        ax.set_axis_off()
        _ruler(ax, reach)


class Covariances(Gaussians):
    """Covariances as matrices, of total variance 1."""

    framed = True
    paper = (9.6, 4.8)

    def draw(self, ax: Any, i: int, turn: float = 0.0) -> None:
        shape = self.cov / self.trace[:, None, None]
        top = float(np.abs(shape).max())
        ax.imshow(shape[i], cmap="RdBu_r", vmin=-top, vmax=top, interpolation="nearest")
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_color(FAINT)

    def key(self, figure: Any, axes: Any) -> None:
        figure.colorbar(axes[0].images[0], ax=axes, pad=0.01).set_label("Σ / tr Σ", fontsize=9)

    def alone(self, figure: Any, measure: Any) -> None:
        """With the spectrum beside the matrix."""
        matrix, spectrum = figure.subplots(1, 2)
        self.draw(matrix, 0)
        self.key(figure, np.atleast_1d(matrix))
        spectrum_of(spectrum, np.asarray(measure.spectrum))


@panel_of.register
def gaussians(states: Gaussian, times: np.ndarray) -> Gaussians:
    """The panel for this dimension."""
    return {1: Bells, 2: Ellipses}.get(states.d, Covariances)(states)


@figure_of.register
def draw_gaussian(states: Gaussian, run: Trajectory) -> Any:
    """Snapshots above; below the way in the cone of covariances for d = 2, and eigenvalues, trace and mean."""
    times = np.asarray(run.times)
    panel = gaussians(states, times)
    figure = blank()
    top, bottom = halves(figure, run)
    shown = moments(panel.steps)
    axes = np.atleast_1d(top.subplots(1, len(shown)))
    for ax, i in zip(axes, shown, strict=True):
        panel.draw(ax, i)
        ax.set_title(f"t = {times[i]:.4g}", fontsize=11, color=INK)
    panel.key(top, axes)
    if bottom is not None:
        _below(bottom, run)
    headline(figure, run, f"Gaussian, d = {run.states.d}")
    return figure


def spectrum_of(ax: Any, values: np.ndarray) -> None:
    """The eigenvalues of one covariance."""
    ax.bar(np.arange(1, len(values) + 1), values, color=BLUE, alpha=0.8)
    ax.set(xlabel="k", ylabel="eigenvalue $λ_k$ of Σ")
    ax.xaxis.get_major_locator().set_params(integer=True)
    bare(ax)


def _below(figure: Any, run: Trajectory) -> None:
    if run.states.d != 2:
        left, right = figure.subplots(1, 2, width_ratios=[1.35, 1])
        _spectrum(left, run)
        _mean(right, run)
        return
    grid = figure.add_gridspec(1, 2, width_ratios=[1, 1.5])
    cone = np.asarray(run.cone, float)
    _cone(figure.add_subplot(grid[0], projection="3d"), cone[cone[:, 2] > 0] if cone[:, 2].any() else cone)
    if np.ptp(np.asarray(run.mean), axis=0).max() < 1e-9:
        _spectrum(figure.add_subplot(grid[1]), run)
        return
    rows = grid[1].subgridspec(2, 1, height_ratios=[1.8, 1])
    _mean(low := figure.add_subplot(rows[1]), run)
    _spectrum(high := figure.add_subplot(rows[0], sharex=low), run)
    high.label_outer()
    figure.align_ylabels([high, low])


def _spectrum(ax: Any, run: Trajectory) -> None:
    """Eigenvalues and trace."""
    times, values = np.asarray(run.times), np.column_stack([np.asarray(run.spectrum), np.asarray(run.trace)])
    values = np.where(values > 1e-14 * values[:, -1:], values, np.nan)  # the rest is round-off
    if blown := run.status is Status.BLOW_UP and len(times) > 2:
        times, values = _leaving(ax, times, values)
    lines = ax.plot(times, values[:, :-1], color=BLUE, lw=1.6)
    (total,) = ax.plot(times, values[:, -1], color=INK, lw=1.2, ls="--")
    ax.legend([lines[0], total], ["variance", "tr Σ"] if run.states.d == 1 else ["eigenvalues of Σ", "tr Σ"], **LEGEND)
    ax.set_yscale("log")
    plain(ax, np.asarray(run.times))
    if blown:
        _end(ax, float(run.reached))


def _leaving(ax: Any, times: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Curves that leave the page in a blow-up, the last stretch by reciprocals, which are nearly straight: 1/λ falls to
    0 like t* - t."""
    ax.set_ylim(0.5 * np.nanmin(values[:-1]), 30 * np.nanmax(values[:-1]))
    share = 1 - np.geomspace(1, 1e-6, 60)[:, None]
    more = 1 / ((1 - share) / values[-2] + share / values[-1])
    then = times[-2] + share[:, 0] * (times[-1] - times[-2])
    return np.concatenate([times[:-1], then]), np.concatenate([values[:-1], more])


def _end(ax: Any, time: float) -> None:
    """When it happens, above the axes, where no curve is."""
    ax.axvline(time, color=RED, lw=1.2)
    ax.set_xlim(right=time + 0.02 * (time - ax.get_xlim()[0]))
    style = {"ha": "right", "va": "bottom", "color": RED, "fontsize": 10}
    ax.text(time, 1.01, f"blows up at t* = {time:.6g}", transform=ax.get_xaxis_transform(), **style)


def _mean(ax: Any, run: Trajectory) -> None:
    """|mean|; on a log axis where it spans decades."""
    times, length = np.asarray(run.times), np.linalg.norm(np.asarray(run.mean, float), axis=1)
    if run.status is Status.BLOW_UP and length[-1] > ALIKE * max(length[:-1], default=np.inf) > 0:
        times, length = _leaving(ax, times, length[:, None])
    ax.plot(times, length, color=GREEN, lw=1.6)
    ax.set_ylabel("|mean|", color=GREEN)
    if 0 < length.min() < length.max() / ALIKE:
        ax.set_yscale("log")
    plain(ax, np.asarray(run.times))


def _cone(ax: Any, points: np.ndarray) -> None:
    """The way in the cone z ≥ √(x² + y²) of covariances. A way over many sizes is drawn with log z for its height, each
    point moved along its own ray."""
    z = _positive(points[:, 2])
    wide = z.max() > ALIKE * z.min()
    height = 1 + np.log10(z / z.min()) if wide else z
    way = points * (height / z)[:, None]
    top = 1.05 * height.max()
    _surface(ax, top)
    ax.plot(*way.T, color=BLUE, lw=2.2)
    ax.plot(*way[0], "o", color=BLUE, ms=5)
    ax.plot(*way[-1], "o", color=RED, ms=5)
    ax.set_zlabel("a + b = tr Σ" + (" (log)" if wide else ""), fontsize=9, labelpad=-4)
    if wide:
        _decades(ax, z, top)


def _surface(ax: Any, top: float) -> None:
    angle, z = np.meshgrid(np.linspace(0, 2 * np.pi, 61), [0, top])
    ax.computed_zorder = False  # the way is seen through the surface
    ax.plot_surface(z * np.cos(angle), z * np.sin(angle), z, color=FAINT, alpha=0.22, lw=0, shade=False, zorder=0)
    ax.plot(top * np.cos(angle[0]), top * np.sin(angle[0]), top, color=FAINT, lw=1)
    ax.set(xlim=(-top, top), ylim=(-top, top), zlim=(0, top))
    ax.set_xlabel("a - b", fontsize=9, labelpad=-6)
    ax.set_ylabel("2c", fontsize=9, labelpad=-6)
    ax.tick_params(labelsize=7, pad=-2)
    ax.locator_params(nbins=4)
    ax.set_box_aspect((1, 1, 0.8), zoom=1.15)
    ax.view_init(elev=18, azim=-60)
    for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
        axis.pane.set_alpha(0)
        axis._axinfo["grid"].update(color="#eceef1", linewidth=0.6)


def _decades(ax: Any, z: np.ndarray, top: float) -> None:
    """Ticks of log z; across, only the ray has a meaning."""
    powers = np.arange(np.ceil(np.log10(z.min())), np.floor(np.log10(z.max())) + 1)
    powers = powers[:: max(1, len(powers) // 4)]
    ax.set_zticks(1 + powers - np.log10(z.min()), [f"$10^{{{power:.0f}}}$" for power in powers])
    ax.set(xticks=[-top, 0, top], yticks=[-top, 0, top], xticklabels=["-z", "0", "z"], yticklabels=["-z", "0", "z"])


def _ruler(ax: Any, reach: float) -> None:
    """A length to compare with, a round number."""
    power = 10.0 ** np.floor(np.log10(0.7 * reach))
    length = max(m * power for m in (1, 2, 5) if m * power <= 0.7 * reach)
    x, y = -1.0 * reach, -1.28 * reach
    ax.plot([x, x + length], [y, y], color=INK, lw=1.4, solid_capstyle="butt")
    ax.text(x + length + 0.06 * reach, y, f"{length:g}", fontsize=8, color=INK, va="center")


def _positive(values: Any) -> Any:
    """Lengths that may be divided by: a point has none of its own, and is drawn as if it had."""
    return np.where(np.asarray(values) > 0, values, 1.0)
