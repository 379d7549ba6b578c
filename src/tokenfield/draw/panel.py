"""One state of a run on one pair of axes: pictures show a few of them in a row, movies all of them in turn."""

import abc
from typing import Any

import numpy as np


class Panel(abc.ABC):
    """Draws any saved state, in one view and one set of colours for the whole run."""

    framed: bool = False
    """Has axes with numbers, which need room."""
    turns: bool = False
    """Is a scene in space, which movies turn."""

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
