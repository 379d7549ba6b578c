"""When to end a run."""

from typing import Any, ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Array, Bool, Float

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._types import AnyArray, Number
from tokenfield.measures import AbstractMeasure


class Collapsed(eqx.Module):
    """Stop when every token lies within a radius of the mean: one cluster. (Of a Gaussian, one standard deviation.)

    **Arguments**

    - `radius`: the distance from the mean.

    **Raises** `InputError` where the radius is not a positive number.

    >>> import tokenfield as tkf
    >>> run = tkf.evolve(tkf.sa(1.0), tkf.Tokens.orthonormal(4), t=100.0, until=tkf.collapsed)
    >>> run.status.name, bool(run.times[-1] < 20)
    ('STOPPED', True)
    """

    radius: Float[AnyArray, ""]
    sees_axes: ClassVar[bool] = False

    @front_door
    def __init__(self, radius: Number = 1e-3):
        self.radius = np.asarray(check.number("radius", radius, positive=True))

    def __call__(self, t: Float[Array, ""], mu: AbstractMeasure) -> Bool[Array, ""]:
        return mu.spread < self.radius


collapsed = Collapsed()
"""`until=collapsed`: stop when every token lies within 1e-3 of the mean. `Collapsed(radius)` for another radius."""


def sees_axes(until: Any) -> bool:
    """Whether a stop condition may tell rotated measures apart. One that does not says so: `sees_axes = False`."""
    return until is not None and getattr(until, "sees_axes", True)
