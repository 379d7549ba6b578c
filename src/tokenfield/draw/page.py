"""What all pictures share: the paper, plain axes, the choice of snapshots, and the way to a file."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from tokenfield._files import whole
from tokenfield.draw.view import COLOURS, FAINT, INK, PAPER, time_axis
from tokenfield.errors import StoreError
from tokenfield.trajectory import Trajectory

SNAPSHOTS = 5
BLUE, RED, GREEN = COLOURS[:3]


def blank(size: tuple[float, float] = (12, 6.4)) -> Any:
    """An empty figure."""
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained", facecolor=PAPER)


def halves(figure: Any, run: Trajectory) -> tuple[Any, Any]:
    """Snapshots go above, the whole course of the run below; one state has no course and may have the page."""
    if len(run) == 1:
        return figure, None
    top, bottom = np.ravel(figure.subfigures(2, 1, height_ratios=[1.0, 1.15]))
    return top, bottom


def written(figure: Any, path: str | os.PathLike | None) -> Any:
    """The figure itself, or the path that it was written to."""
    if path is None:
        return figure
    path = Path(path)
    try:
        if not path.suffix:
            raise ValueError("its name says no format")
        with whole(path) as part:
            figure.savefig(part, dpi=150, facecolor=PAPER)
    except (OSError, ValueError) as error:
        raise StoreError(f"The picture could not be written to {path}: {error}. Use a name ending in .png.") from error
    return path


def headline(figure: Any, run: Trajectory, what: str) -> None:
    """The flow, and what it moves."""
    title(figure, f"{flow_name(run)};  {what}")


def flow_name(run: Trajectory) -> str:
    return str(run.flow).removeprefix("Flow: ") if run.flow is not None else "a flow of your own"


def title(figure: Any, line: str) -> None:
    """One line above everything, as large as it fits."""
    figure.suptitle(line, fontsize=12 * min(1.0, 115 / len(line)), color=INK)


def bare(ax: Any) -> None:
    """Two faint spines."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(FAINT)


def plain(ax: Any, times: np.ndarray, name: str = "t") -> None:
    """Axes of something against time."""
    time_axis(ax, times)
    ax.set_xlabel(name)
    bare(ax)
    if times[-1] > times[0]:
        ax.set_xlim(times[0], times[-1])


def moments(steps: np.ndarray, count: int = SNAPSHOTS) -> list[int]:
    """Saved states at equal shares of the way, given its steps from each to the next: long rests cost no panels."""
    way, last = np.concatenate([[0.0], np.cumsum(steps)]), len(steps)
    if way[-1] == 0 or last < count:
        return list(dict.fromkeys(np.linspace(0, last, min(count, last + 1)).round().astype(int).tolist()))
    marks: set[int] = set()
    for share in (0.0, 0.1, 0.3, 1.0, 3.0, 10.0):  # of a clock, where a few long steps would take all the panels
        clock = way / way[-1] + share * np.arange(last + 1) / last
        marks = set(np.searchsorted(clock, np.linspace(0, clock[-1], count) * (1 - 1e-12)).tolist())
        if len(marks) == count:
            return sorted(marks)
    return sorted({0, *marks, last})


def stack(figure: Any, times: np.ndarray, curves: list[tuple[str, np.ndarray]]) -> None:
    """Curves against time, one above the other: their units differ."""
    axes = np.atleast_1d(figure.subplots(len(curves), 1, sharex=True))
    for ax, (name, values), colour in zip(axes, curves, COLOURS, strict=False):
        ax.plot(times, values, color=colour, lw=1.8)
        ax.set_ylabel(name, color=colour)
        plain(ax, times)
        ax.label_outer()
        if name == "R":
            ax.set_ylim(-0.04, 1.04)
        elif np.ptp(values) < 1e-9 * max(1.0, float(np.max(np.abs(values)))):  # else round-off fills the panel
            ax.set_ylim(values[0] - 0.5, values[0] + 0.5)
    figure.align_ylabels(axes)
