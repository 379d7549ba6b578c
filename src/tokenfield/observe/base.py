"""One observable, two kinds of argument."""

from collections.abc import Callable
from typing import Any

import jax

from tokenfield.errors import InputError
from tokenfield.measures import Tokens
from tokenfield.trajectory import Trajectory


def states(thing: Any) -> Tokens:
    """The measure itself, or the batched measures of a trajectory."""
    if isinstance(thing, Trajectory):
        return thing.states
    if isinstance(thing, Tokens):
        return thing
    raise InputError(
        f"Observables take a measure (Tokens) or a run (Trajectory), but got {type(thing).__name__}. "
        "For points of shape (n, d), write Tokens(points)."
    )


def each(function: Callable[[Tokens], Any], thing: Any) -> Any:
    """`function` of a measure; of a trajectory, one result a saved time, computed one after another to save memory."""
    mu = states(thing)
    return function(mu) if mu.x.ndim == 2 else jax.lax.map(function, mu)
