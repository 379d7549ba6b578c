"""What was reached: velocities of a finished run against dense sums in float64."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenfield._compile import compiled
from tokenfield.attention.base import as_dtype
from tokenfield.errors import InputError
from tokenfield.evolution.motions.base import AbstractMotion
from tokenfield.flow import Flow
from tokenfield.measures import Tokens
from tokenfield.summation import AbstractSummation, Dense

SAMPLE = 64
"""How many tokens are looked at."""


def reached_accuracy(motion: AbstractMotion, mu: Any, t: Any) -> float | None:
    """The largest error of a velocity among some tokens, relative to the largest field; None where nothing is summed, where
    sums are dense and in float64 already, or where there is no float64 to compare with."""
    sums = motion.sums
    if sums is None or (sums.exact and mu.dtype == jnp.float64) or jnp.result_type(float) != jnp.float64:
        return None
    rows = jnp.asarray(np.unique(np.linspace(0, mu.n - 1, SAMPLE).astype(int)))
    try:
        ours, theirs = _velocities(motion.flow, mu, jnp.asarray(t, mu.dtype), rows, sums)
    except InputError:  # no field away from the tokens: positions matter, or links
        return None
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    return float(np.max(np.abs(ours - theirs)) / max(np.max(np.abs(theirs)), 1.0))


@compiled
def _velocities(
    flow: Flow, mu: Tokens, t: Array, rows: Array, summation: AbstractSummation
) -> tuple[Float[Array, "k d"], Float[Array, "k d"]]:
    """Of these tokens: as the run computed them, and by dense sums in float64."""
    ours = as_dtype(flow, mu.dtype).velocity(t, mu, None, summation)[rows]
    wide = lambda tree: as_dtype(tree, jnp.float64)
    return ours, wide(flow).velocity(wide(t), wide(mu), wide(mu).x[rows], Dense())
