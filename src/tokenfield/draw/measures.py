"""A picture of one measure."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from tokenfield._checks import on_device
from tokenfield.draw import densities, density_runs, equiangular, gaussians  # noqa: F401  (their panels are registered)
from tokenfield.draw.page import blank, written
from tokenfield.draw.panel import panel_of
from tokenfield.draw.view import INK
from tokenfield.errors import InputError
from tokenfield.measures import AbstractMeasure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def picture_of(measure: AbstractMeasure, path: str | os.PathLike[str] | None = None) -> "Figure | Path":
    """Draw one measure.

    **Arguments**

    - `measure`: a Gaussian, a density or Equiangular tokens.
    - `path`: where to write it, as .png, .pdf or .svg; left out, nothing is written.

    **Returns** the path, or the figure where nothing was written.

    **Raises** `InputError` for Tokens or a batch, `StoreError` where it cannot be written.
    """
    _refuse_others(measure)
    panel = panel_of(jax.tree.map(lambda array: on_device(np.asarray(array)[None]), measure), np.zeros(1))
    figure = blank(panel.paper)
    panel.alone(figure, measure)
    figure.suptitle(repr(measure), fontsize=12, color=INK)
    return written(figure, path)


def _refuse_others(measure: Any) -> None:
    if not isinstance(measure, AbstractMeasure) or panel_of.dispatch(type(measure)) is panel_of.dispatch(object):
        raise InputError(
            f"A Gaussian, a density or Equiangular tokens can be drawn, but not a {type(measure).__name__}. For Tokens "
            "draw a run of them, run.plot()."
        )
    if measure.leading:
        raise InputError(
            "One measure can be drawn, but this is a batch of them. Take one, such as run[0], or use run.plot()."
        )
