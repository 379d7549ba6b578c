"""When to end a run."""

from typing import Any

import equinox as eqx
from jaxtyping import Array, Bool, Float

from tokenfield import _checks as check
from tokenfield.measures import AbstractMeasure


class Collapsed(eqx.Module):
    """Stop when every token lies within `radius` of the mean: one cluster. (Of a Gaussian, one standard deviation.)

    >>> import tokenfield as tkf
    >>> run = tkf.evolve(tkf.sa(1.0), tkf.Tokens.orthonormal(4), t=100.0, until=tkf.collapsed)
    >>> run.status.name, bool(run.times[-1] < 20)
    ('STOPPED', True)
    """

    radius: Float[Array, ""]

    def __init__(self, radius: Any = 1e-3):
        self.radius = check.scalar("radius", check.number("radius", radius, positive=True))

    def __call__(self, t: Float[Array, ""], mu: AbstractMeasure) -> Bool[Array, ""]:
        return mu.spread < self.radius


def sees_no_axes(until: Any) -> bool:
    """Whether a stop condition is known to be the same in rotated coordinates."""
    return until is None or until is collapsed or isinstance(until, Collapsed)


def collapsed(t: Float[Array, ""], mu: AbstractMeasure) -> Bool[Array, ""]:
    """`until=collapsed`: stop when every token lies within 1e-3 of the mean. `Collapsed(radius)` for another radius."""
    return Collapsed()(t, mu)
