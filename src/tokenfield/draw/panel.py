"""One state of a run on one pair of axes: pictures show a few of them in a row, movies all of them in turn."""

import abc
import functools
from typing import Any

import numpy as np

from tokenfield.draw.page import BLUE, RED, blank, headline, plain, stack
from tokenfield.draw.view import FAINT
from tokenfield.errors import InputError
from tokenfield.trajectory import Trajectory


class Panel(abc.ABC):
    """Draws any saved state, in one view and one set of colours for the whole run."""

    framed: bool = False
    """Has axes with numbers, which need room."""
    turns: bool = False
    """Is a scene in space, which movies turn."""
    paper: tuple[float, float] = (6.4, 5.6)
    """The size of a page with one state alone."""

    @abc.abstractmethod
    def draw(self, ax: Any, i: int, turn: float = 0.0) -> None:
        """Saved state i on empty axes."""

    @property
    @abc.abstractmethod
    def steps(self) -> np.ndarray:
        """How far it is from each saved state to the next."""

    @property
    @abc.abstractmethod
    def course(self) -> tuple[str, np.ndarray]:
        """The one curve that tells how far the run has come."""

    def key(self, figure: Any, axes: Any) -> None:  # noqa: B027
        """A scale of colours beside the panels, where there is one."""

    def alone(self, figure: Any, measure: Any) -> None:
        """One state on a page of its own."""
        ax = figure.subplots()
        self.draw(ax, 0)
        self.key(figure, np.atleast_1d(ax))


class Quantities(Panel):
    """The quantities that a measure names, against time: what is drawn of a kind that nobody has drawn otherwise."""

    framed = True

    def __init__(self, states: Any, times: np.ndarray):
        if not states.quantities:
            raise InputError(f"Nobody has said how to draw a {type(states).__name__}: it names no `quantities`.")
        self.times = times
        self.curves = [(name, np.asarray(getattr(states, name), float)) for name in states.quantities]

    def draw(self, ax: Any, i: int, turn: float = 0.0) -> None:
        name, values = self.curves[0]
        ax.plot(self.times, values, color=FAINT, lw=1.0)
        ax.plot(self.times[: i + 1], values[: i + 1], color=BLUE, lw=2.2)
        ax.plot(self.times[i], values[i], "o", color=RED, ms=8, clip_on=False)
        ax.set_ylabel(name)
        plain(ax, self.times)

    @property
    def steps(self) -> np.ndarray:
        return np.sum([np.abs(np.diff(values)) for _, values in self.curves], axis=0)

    @property
    def course(self) -> tuple[str, np.ndarray]:
        return self.curves[0]


# By the kind of measure. A kind registers its own; else its quantities are drawn.


@functools.singledispatch
def panel_of(states: Any, times: np.ndarray) -> Panel:
    """What draws one state after the other."""
    return Quantities(states, times)


@functools.singledispatch
def figure_of(states: Any, run: Trajectory) -> Any:
    """The figure of a whole run."""
    figure = blank()
    stack(figure, np.asarray(run.times), Quantities(states, np.asarray(run.times)).curves)
    headline(figure, run, repr(states))
    return figure


@functools.singledispatch
def scene_of(states: Any, run: Trajectory, ax: Any, turn: float) -> tuple[Any, Any]:
    """For a movie: a function that draws saved state i in a scene that has turned, and the curve of the strip. Drawn anew, state
    by state."""
    panel = panel_of(states, np.asarray(run.times))
    if panel.framed:  # numbers need room
        ax.set_position((0.13, 0.26, 0.8, 0.66))

    def draw(i: int, turned: float) -> None:
        ax.clear()
        panel.draw(ax, i, turned - turn / 2 if panel.turns else 0.0)  # what matters faces the reader half-way

    return draw, panel.course
