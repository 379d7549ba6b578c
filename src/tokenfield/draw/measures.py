"""A picture of one measure."""

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from tokenfield._checks import on_device
from tokenfield.draw import densities, density_runs, equiangular, gaussians  # noqa: F401  (their panels are registered)
from tokenfield.draw.page import blank, written
from tokenfield.draw.panel import panel_of
from tokenfield.draw.picture import snapshot
from tokenfield.draw.view import INK, Painter, thinned
from tokenfield.errors import InputError
from tokenfield.measures import AbstractMeasure, Tokens
from tokenfield.trajectory import Trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = (5.6, 5.9)
"""The size of a page with one cloud of tokens."""


def picture_of(measure: AbstractMeasure, path: str | os.PathLike[str] | None = None) -> "Figure | Path":
    """Draw one measure.

    **Arguments**

    - `measure`: tokens, a Gaussian or a density.
    - `path`: where to write it, as .png, .pdf or .svg; left out, nothing is written.

    **Returns** the path, or the figure where nothing was written.

    **Raises** `InputError` for a batch or another kind, `StoreError` where it cannot be written.
    """
    _refuse_others(measure)
    figure = _drawn(measure)
    figure.suptitle(repr(measure), fontsize=12, color=INK)
    return written(figure, path)


@functools.singledispatch
def _drawn(measure: AbstractMeasure) -> Any:
    """What a run of the measure shows of one state, on a page of its own."""
    panel = panel_of(jax.tree.map(lambda array: on_device(np.asarray(array)[None]), measure), np.zeros(1))
    figure = blank(panel.paper)
    panel.alone(figure, measure)
    return figure


@_drawn.register
def _cloud(mu: Tokens) -> Any:
    """Tokens as dots, in the colours of their clusters: the one snapshot of a run that does not move."""
    run = thinned(Trajectory.from_states([mu]))
    painter, figure = Painter(run, size=420), blank(PAGE)
    ax = figure.subplots()
    snapshot(ax, painter, 0)
    notes = ["first two principal axes"] if painter.view.name == "principal axes" else []
    notes += [f"{run.states.n} tokens drawn"] if run.states.n < mu.n else []
    ax.text(0.0, 0.0, ", ".join(notes), transform=ax.transAxes, fontsize=8, color=INK, alpha=0.7)
    return figure


def _refuse_others(measure: Any) -> None:
    kind = type(measure)
    if all(way.dispatch(kind) is way.dispatch(object) for way in (_drawn, panel_of)):
        raise InputError(f"Tokens, a Gaussian or a density can be drawn, but not a {type(measure).__name__}.")
    if measure.leading:
        raise InputError(
            "One measure can be drawn, but this is a batch of them. Take one, such as run[0], or use run.plot()."
        )
