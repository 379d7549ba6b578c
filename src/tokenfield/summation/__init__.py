"""Sums over tokens behind one seam."""

from tokenfield.summation.base import AbstractSummation as AbstractSummation
from tokenfield.summation.base import ExponentialSums as ExponentialSums
from tokenfield.summation.base import Related as Related
from tokenfield.summation.choose import Request as Request
from tokenfield.summation.choose import choose as choose
from tokenfield.summation.circle import Circle as Circle
from tokenfield.summation.dense import Dense as Dense
from tokenfield.summation.euclidean import Euclidean as Euclidean
from tokenfield.summation.halving import Halving as Halving
from tokenfield.summation.sharded import Sharded as Sharded
from tokenfield.summation.sphere import Sphere as Sphere
