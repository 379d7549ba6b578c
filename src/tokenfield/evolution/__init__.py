"""Moving a measure along a flow. `evolve` is the front door: it reads a task, chooses coordinates, and hands it to a driver."""

from tokenfield.evolution.clocks import log_times as log_times
from tokenfield.evolution.front import evolve as evolve
from tokenfield.evolution.front import extended as extended
from tokenfield.evolution.front import state_at as state_at
from tokenfield.evolution.layers import layers as layers
from tokenfield.evolution.motions import AbstractMotion as AbstractMotion
from tokenfield.evolution.motions import MotionKind as MotionKind
from tokenfield.evolution.motions import moves as moves
from tokenfield.evolution.solvers import SOLVERS as SOLVERS
from tokenfield.evolution.until import Collapsed as Collapsed
from tokenfield.evolution.until import collapsed as collapsed
