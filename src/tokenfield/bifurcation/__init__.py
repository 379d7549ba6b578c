"""Stationary states of noisy Transformers on spheres: branches, folds, stability and the order of the transition.

>>> import tokenfield as tkf
>>> from tokenfield.bifurcation import stationary
>>> diagram = stationary(tkf.kuramoto(), d=2)
>>> diagram.transition, round(diagram.kappa_c, 12), len(diagram.branches)
('second-order', 2.0, 2)
"""

from tokenfield.bifurcation.diagram import Branch as Branch
from tokenfield.bifurcation.diagram import Diagram as Diagram
from tokenfield.bifurcation.diagram import State as State
from tokenfield.bifurcation.front import stationary as stationary
