"""Measures: what flows. One file a kind."""

from tokenfield.measures.base import AbstractMeasure as AbstractMeasure
from tokenfield.measures.density import KINDS as _DENSITIES
from tokenfield.measures.density import AbstractDensity as AbstractDensity
from tokenfield.measures.density import CircleDensity as CircleDensity
from tokenfield.measures.density import SphereDensity as SphereDensity
from tokenfield.measures.equiangular import Equiangular as Equiangular
from tokenfield.measures.gaussian import Gaussian as Gaussian
from tokenfield.measures.tokens import KINDS as _TOKENS
from tokenfield.measures.tokens import Tokens as Tokens

KINDS = {**_TOKENS, "equiangular_measure": Equiangular, "gaussian_measure": Gaussian, **_DENSITIES}
"""Every way to make a measure by its name in a spec."""

MEASURES: dict[str, type[AbstractMeasure]] = {
    kind.__name__: kind for kind in (Tokens, Equiangular, Gaussian, CircleDensity, SphereDensity)
}
"""The kinds of measures by their names in a saved run."""
