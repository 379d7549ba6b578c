"""Pictures of measures that are not tokens: one state, or a run of them."""

import os
from typing import Any

import jax
import numpy as np

from tokenfield.draw.densities import Globes, densities, key
from tokenfield.draw.density_runs import draw_density
from tokenfield.draw.equiangular import Growth, draw_equiangular
from tokenfield.draw.gaussians import Covariances, draw_gaussian, gaussians, spectrum_of
from tokenfield.draw.page import blank, written
from tokenfield.draw.panel import Panel
from tokenfield.draw.view import INK
from tokenfield.errors import InputError
from tokenfield.measures import AbstractDensity, Equiangular, Gaussian
from tokenfield.trajectory import Trajectory


def draw_measures(run: Trajectory) -> Any:
    """The figure of a run of Equiangular tokens, Gaussians or densities."""
    if isinstance(run.states, Equiangular):
        return draw_equiangular(run)
    return draw_gaussian(run) if isinstance(run.states, Gaussian) else draw_density(run)


def panel_of(states: Any, times: np.ndarray) -> Panel:
    """What draws one state after the other, by the kind of measure."""
    if isinstance(states, Equiangular):
        return Growth(states, times)
    return gaussians(states) if isinstance(states, Gaussian) else densities(states)


def picture_of(measure: Any, path: str | os.PathLike | None = None) -> Any:
    """Draw one measure. Written to `path` (png, pdf, svg) and its path returned, or returned as a matplotlib figure."""
    _refuse_others(measure)
    panel = panel_of(jax.tree.map(lambda array: array[None], measure), np.zeros(1))
    wide = isinstance(panel, Covariances)
    figure = blank((9.6, 4.8) if wide else (6.4, 5.6))
    axes = np.atleast_1d(figure.subplots(1, 1 + wide))
    panel.draw(axes[0], 0)
    if wide:
        figure.colorbar(axes[0].images[0], ax=axes[0], pad=0.02).set_label("Σ / tr Σ", fontsize=9)
        spectrum_of(axes[1], np.asarray(measure.spectrum))
    if isinstance(panel, Globes):
        key(figure, panel, axes)
    figure.suptitle(repr(measure), fontsize=12, color=INK)
    return written(figure, path)


def _refuse_others(measure: Any) -> None:
    if not isinstance(measure, Equiangular | Gaussian | AbstractDensity):
        raise InputError(
            f"A Gaussian, a density or Equiangular tokens can be drawn, but not a {type(measure).__name__}. For Tokens "
            "draw a run of them, run.plot()."
        )
    if any(array.ndim != len(measure.axes[name]) for name, array in measure.arrays.items()):
        raise InputError(
            "One measure can be drawn, but this is a batch of them. Take one, such as run[0], or use run.plot()."
        )
