"""Measures: what flows. One file per kind; `register` puts a kind into saved runs and specs."""

from collections.abc import Callable

from tokenfield.measures.base import AbstractMeasure as AbstractMeasure
from tokenfield.measures.density import AbstractDensity as AbstractDensity
from tokenfield.measures.density import CircleDensity as CircleDensity
from tokenfield.measures.density import SphereDensity as SphereDensity
from tokenfield.measures.equiangular import Equiangular as Equiangular
from tokenfield.measures.gaussian import Gaussian as Gaussian
from tokenfield.measures.tokens import Tokens as Tokens

MEASURES: dict[str, type[AbstractMeasure]] = {}
"""The kinds of measures by their names in a saved run."""


def register(*kinds: type[AbstractMeasure]) -> None:
    """Let saved runs and specs know these kinds of measures. A kind with a motion is registered with it
    (`tokenfield.evolution.moves`).

    **Arguments**

    - `kinds`: classes of measures, known by their names.
    """
    MEASURES.update({kind.__name__: kind for kind in kinds})


def constructors() -> dict[str, Callable[..., AbstractMeasure]]:
    """Every way to make a measure that a spec may call.

    **Returns** the constructors of all registered kinds, by their names in a spec.
    """
    return {name: make for kind in MEASURES.values() for name, make in kind.constructors().items()}


register(Tokens, Equiangular, Gaussian, CircleDensity, SphereDensity)
