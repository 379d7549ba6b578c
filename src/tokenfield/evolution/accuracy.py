"""What was reached: velocities of a finished run against dense sums in float64."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenfield.attention.base import as_dtype
from tokenfield.errors import InputError
from tokenfield.flow import Flow
from tokenfield.measures import Tokens
from tokenfield.summation import AbstractSummation, Dense, Sharded, Span

SAMPLE = 64
"""How many tokens are looked at."""


def reached_accuracy(flow: Flow, mu: Any, t: Any, summation: AbstractSummation) -> float | None:
    """The largest error of a velocity among some tokens, relative to the largest field; None where sums are dense and in
    float64 already, or where there is no float64 to compare with."""
    exact = isinstance(summation, Dense | Sharded | Span) and mu.dtype == jnp.float64
    if exact or jnp.result_type(float) != jnp.float64:
        return None
    rows = jnp.asarray(np.unique(np.linspace(0, mu.n - 1, SAMPLE).astype(int)))
    try:
        ours, theirs = _velocities(flow, mu, jnp.asarray(t, mu.dtype), rows, summation)
    except InputError:  # no field away from the tokens: positions matter, or links
        return None
    scale = jnp.max(jnp.abs(theirs))
    return float(jnp.max(jnp.abs(ours - theirs)) / jnp.maximum(scale, 1.0))


@eqx.filter_jit
def _velocities(
    flow: Flow, mu: Tokens, t: Array, rows: Array, summation: AbstractSummation
) -> tuple[Float[Array, "k d"], Float[Array, "k d"]]:
    """Of these tokens: as the run computed them, and by dense sums in float64."""
    ours = as_dtype(flow, mu.dtype).velocity(t, mu, None, summation)[rows]
    wide = lambda tree: as_dtype(tree, jnp.float64)
    return ours, wide(flow).velocity(wide(t), wide(mu), wide(mu).x[rows], Dense())
