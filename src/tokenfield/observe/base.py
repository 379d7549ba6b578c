"""One observable, two kinds of argument."""

from collections.abc import Callable
from types import UnionType
from typing import Any, TypeAlias

import jax

from tokenfield._compile import compiled
from tokenfield._types import no_type_check
from tokenfield.errors import InputError
from tokenfield.measures import AbstractMeasure, Tokens
from tokenfield.trajectory import Trajectory

Measured: TypeAlias = AbstractMeasure | Trajectory[Any]
"""What observables are functions of: one state, or a run."""


@no_type_check
def states(thing: Measured, kind: type | UnionType = Tokens) -> Any:
    """The measure itself, or the batched measures of a trajectory; refused where they are not of this kind."""
    mu = thing.states if isinstance(thing, Trajectory) else thing
    if isinstance(mu, kind):
        return mu
    if isinstance(mu, AbstractMeasure):
        raise InputError(
            f"This observable is not one of a {type(mu).__name__}. A measure's own "
            "quantities are its attributes, at one time or along a run: run.rho, run.cov, run.order, run.entropy."
        )
    raise InputError(
        f"Observables take a measure (Tokens) or a run (Trajectory), but got {type(thing).__name__}. "
        "For points of shape (n, d), write Tokens(points)."
    )


def each(function: Callable[..., Any], thing: Measured, *arguments: Any) -> Any:
    """`function(mu, *arguments)` of a measure; of a trajectory, one result per saved time, computed one after another to
    save memory. Compiled once for a shape: `function` is a plain function of its module, what varies is an argument."""
    return _each(function, states(thing), arguments)


@compiled
def _each(function: Callable[..., Any], mu: Tokens, arguments: tuple) -> Any:
    of = lambda state: function(state, *arguments)
    for _ in range(mu.x.ndim - 2):  # times, and before them any batch of runs
        of = lambda states, inner=of: jax.lax.map(inner, states)
    return of(mu)
