"""Motions: one per kind of measure. `moves` registers one, `motion_for` finds it."""

from collections.abc import Callable
from typing import TypeVar

from tokenfield.errors import InputError
from tokenfield.evolution.motions.base import AbstractModified as AbstractModified
from tokenfield.evolution.motions.base import AbstractMotion as AbstractMotion
from tokenfield.evolution.motions.base import MotionKind as MotionKind
from tokenfield.evolution.motions.base import Sums as Sums
from tokenfield.evolution.motions.density import Spectral
from tokenfield.evolution.motions.equiangular import Cosine
from tokenfield.evolution.motions.gaussian import Affine, Widening
from tokenfield.evolution.motions.noise import Noisy
from tokenfield.evolution.motions.particles import Particles
from tokenfield.flow import Flow
from tokenfield.measures import AbstractDensity, AbstractMeasure, Equiangular, Gaussian, Tokens, register

K = TypeVar("K", bound=type[MotionKind])

MOTIONS: dict[type[AbstractMeasure], tuple[type[MotionKind], type[MotionKind]]] = {
    Tokens: (Particles, Noisy),
    Equiangular: (Cosine, Cosine),
    Gaussian: (Affine, Widening),
    AbstractDensity: (Spectral, Spectral),
}
"""How each kind of measure moves without noise, and with it."""


def moves(measure: type[AbstractMeasure]) -> Callable[[K], K]:
    """`@moves(MyMeasure)` above a motion: measures of this kind move by it, with and without noise, and are known to saved
    runs and specs."""

    def registered(motion: K) -> K:
        MOTIONS[measure] = (motion, motion)
        register(measure)
        return motion

    return registered


def motion_for(flow: Flow, measure: type[AbstractMeasure]) -> type[MotionKind]:
    """How this kind of measure moves along the flow."""
    found = next((MOTIONS[kind] for kind in measure.__mro__ if kind in MOTIONS), None)
    if found is None:
        raise InputError(
            f"Nobody has said how a {measure.__name__} moves. Register a motion for it: tokenfield.evolution.moves."
        )
    return found[flow.kappa is not None]
