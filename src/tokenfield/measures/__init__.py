"""Measures: what flows. One file a kind."""

from tokenfield.measures.base import AbstractMeasure as AbstractMeasure
from tokenfield.measures.density import AbstractDensity as AbstractDensity
from tokenfield.measures.density import CircleDensity as CircleDensity
from tokenfield.measures.density import SphereDensity as SphereDensity
from tokenfield.measures.equiangular import Equiangular as Equiangular
from tokenfield.measures.gaussian import Gaussian as Gaussian
from tokenfield.measures.tokens import KINDS as KINDS
from tokenfield.measures.tokens import Tokens as Tokens
