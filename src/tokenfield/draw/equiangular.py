"""Equiangular tokens: the common cosine, and how fast it closes on 1."""

from typing import Any

import numpy as np

from tokenfield.draw.page import BLUE, GREEN, RED, blank, headline, plain
from tokenfield.draw.panel import Panel, figure_of, panel_of
from tokenfield.draw.view import FAINT, INK
from tokenfield.measures import Equiangular
from tokenfield.trajectory import Trajectory


class Growth(Panel):
    """ρ against time, as far as it has come."""

    framed = True

    def __init__(self, states: Any, times: np.ndarray):
        self.times, self.rho = times, np.asarray(states.rho, float)
        self.gap = np.asarray(states.log_gap, float) / np.log(10)

    def draw(self, ax: Any, i: int, turn: float = 0.0) -> None:
        cosine(ax, self.times, self.rho, FAINT)
        ax.plot(self.times[: i + 1], self.rho[: i + 1], color=BLUE, lw=2.2)
        ax.plot(self.times[i], self.rho[i], "o", color=RED, ms=8, clip_on=False)

    @property
    def steps(self) -> np.ndarray:
        return np.abs(np.diff(self.rho))

    @property
    def course(self) -> tuple[str, np.ndarray]:
        return "log₁₀ (1 - ρ)", self.gap


@panel_of.register
def _growth(states: Equiangular, times: np.ndarray) -> Growth:
    return Growth(states, times)


@figure_of.register
def draw_equiangular(states: Equiangular, run: Trajectory) -> Any:
    """ρ on the left, with the length of the tokens where it changes; 1 - ρ on the right."""
    times, r = np.asarray(run.times), np.asarray(run.states.r, float)
    figure = blank()
    left, right = np.ravel(figure.subfigures(1, 2))
    moves = np.ptp(r) > 1e-9 * r.max()
    axes = np.atleast_1d(left.subplots(1 + moves, 1, sharex=True))
    cosine(axes[0], times, np.asarray(run.states.rho, float), BLUE)
    if moves:
        _length(axes[1], times, r)
        axes[0].label_outer()
        left.align_ylabels(axes)
    _gap(right.subplots(), times, np.asarray(run.states.log_gap, float))
    headline(figure, run, f"{float(run.states.n[0]):g} equiangular tokens")
    return figure


def cosine(ax: Any, times: np.ndarray, rho: np.ndarray, colour: str) -> None:
    ax.plot(times, rho, color=colour, lw=1.8, marker="o" if len(times) == 1 else None)
    ax.axhline(1, color=FAINT, lw=0.8, zorder=0)
    low = min(0.0, float(rho.min()))
    ax.set_ylim(low - 0.03 * (1 - low), 1 + 0.03 * (1 - low))
    ax.set_ylabel("ρ", color=BLUE, rotation=0, fontsize=12)
    plain(ax, times)


def _length(ax: Any, times: np.ndarray, r: np.ndarray) -> None:
    ax.plot(times, r, color=GREEN, lw=1.8)
    ax.set_ylabel("r", color=GREEN, rotation=0, fontsize=12)
    plain(ax, times)
    if r.max() > 30 * r.min():
        ax.set_yscale("log")


def _gap(ax: Any, times: np.ndarray, log_gap: np.ndarray) -> None:
    """1 - ρ by its decimal logarithm: it may be far below the least number that there is."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    law, power = decay(times, log_gap)
    ax.plot(times, log_gap / np.log(10), color=RED, lw=1.8, marker="o" if len(times) == 1 else None)
    plain(ax, times)
    if power or ax.get_xscale() != "linear":
        ax.set_xscale("log")
        ax.set_xlim(times[times > 0][0], times[-1])
    ax.set_ylabel("1 - ρ", color=RED)
    decades = np.ptp(log_gap) > 2 * np.log(10)
    label = (lambda k, _: f"$10^{{{k:.0f}}}$" if k else "1") if decades else (lambda k, _: f"{10**k:.3g}")
    ax.yaxis.set_major_locator(MaxNLocator(8, integer=bool(decades)))
    ax.yaxis.set_major_formatter(FuncFormatter(label))
    ax.text(0.96, 0.94, law, transform=ax.transAxes, ha="right", va="top", fontsize=13, color=INK)


def decay(times: np.ndarray, log_gap: np.ndarray) -> tuple[str, bool]:
    """The law of 1 - ρ in the last half of the run, where it has one: in words, and whether it is a power of t."""
    late = times > 0.5 * times[-1]
    if late.sum() < 4 or np.ptp(log_gap[late]) < 0.05:
        return "", False
    (rate, off), (power, missed) = (_line(x, log_gap[late]) for x in (times[late], np.log(times[late])))
    if min(off, missed) > 0.02:
        return "", False
    kind = rf"$\sim\, t^{{{power:.3g}}}$" if missed < off else rf"$\sim\, e^{{{rate:.3g}\, t}}$"
    return "1 - ρ " + kind, bool(missed < off)


def _line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Slope of the best line through points, and how far they are from it beside their range."""
    slope, start = np.polyfit(x, y, 1)
    return float(slope), float(np.max(np.abs(slope * x + start - y)) / np.ptp(y))
