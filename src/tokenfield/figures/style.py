"""The house style of figures: colours that the colour-blind tell apart, letters that can be read at the width of a column."""

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

COLUMN, PAGE = 3.4, 7.0
"""Widths in inches: a column of a journal, and a page."""

BLUE, RED, GREEN, YELLOW, CYAN, PURPLE = "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"
COLOURS = (BLUE, RED, GREEN, YELLOW, CYAN, PURPLE)
"""Of things that differ in kind; by Paul Tol, bright."""
INK, GREY, FAINT = "#22262e", "#7f8590", "#c9ced6"
MAP = "viridis"
"""Of things that differ by a number."""

STYLE: dict[str, Any] = {
    "figure.facecolor": "white",
    "figure.dpi": 120,
    "savefig.dpi": 220,
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 1.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.linewidth": 0.7,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
    "image.cmap": MAP,
    "mathtext.fontset": "dejavusans",
    "pdf.fonttype": 42,  # letters stay letters
}
"""What matplotlib is told while a figure is drawn."""


def styled() -> AbstractContextManager[None]:
    """The house style, for as long as something is drawn."""
    import matplotlib

    return matplotlib.rc_context(STYLE)  # pyright: ignore[reportArgumentType]


def sheet(
    rows: int = 1, columns: int = 1, *, width: float = PAGE, height: float | None = None, **options: Any
) -> tuple[Any, np.ndarray]:
    """An empty figure with panels.

    **Arguments**

    - `rows`, `columns`: how many panels.
    - `width`, `height`: in inches; `COLUMN` and `PAGE` are widths of journals. Left out, panels are a little wider than high.
    - `options`: for matplotlib's `Figure.subplots`.

    **Returns** the figure and its axes, an array of shape (rows, columns).
    """
    from matplotlib.figure import Figure

    height = 0.8 * width / columns * rows if height is None else height
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def shades(count: int) -> list[Any]:
    """So many colours in order, dark to light, for curves that differ by a number."""
    from matplotlib import colormaps

    return [colormaps[MAP](k) for k in np.linspace(0.0, 0.88, count)]


def view(points: Any, azimuth: float = -64.0, height: float = 20.0) -> tuple[Any, Any, Any]:
    """Points of R³ as seen from afar: flat pictures of them are sharper, and smaller, than matplotlib's in three dimensions.

    **Arguments**

    - `points`: an array of shape (..., 3).
    - `azimuth`, `height`: where one stands, in degrees around the third axis and above the horizon.

    **Returns** how far right, how far up and how near each is.
    """
    x, y, z = np.moveaxis(np.asarray(points, float), -1, 0)
    φ, θ = np.radians(azimuth), np.radians(height)
    depth = x * np.cos(φ) + y * np.sin(φ)
    return y * np.cos(φ) - x * np.sin(φ), z * np.cos(θ) - depth * np.sin(θ), depth * np.cos(θ) + z * np.sin(θ)
