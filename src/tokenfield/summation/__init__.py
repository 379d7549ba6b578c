"""Sums over tokens behind one seam."""

from tokenfield.summation.base import AbstractSummation as AbstractSummation
from tokenfield.summation.base import ExponentialSums as ExponentialSums
from tokenfield.summation.choose import choose as choose
from tokenfield.summation.dense import Dense as Dense
