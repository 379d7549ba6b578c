"""Moving a measure along a flow. `evolve` is the front door; the rooms behind it are `march` and `diffeq`."""

from tokenfield.evolution.clocks import log_times as log_times
from tokenfield.evolution.front import evolve as evolve
from tokenfield.evolution.layers import layers as layers
from tokenfield.evolution.solvers import SOLVERS as SOLVERS
from tokenfield.evolution.until import Collapsed as Collapsed
from tokenfield.evolution.until import collapsed as collapsed
