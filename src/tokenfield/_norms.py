"""Lengths of vectors over the whole range of floating-point numbers, with gradients at zero."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def sizes(x: Float[Array, "*batch d"]) -> Float[Array, "*batch"]:
    """|x| along the last axis: neither overflows nor underflows where |x| does not."""
    m = jnp.max(jnp.abs(x), axis=-1, keepdims=True)
    usable = (m > 0) & jnp.isfinite(m)
    y = x / jnp.where(usable, m, 1.0)
    squares = jnp.sum(y**2, axis=-1)
    length = jnp.sqrt(jnp.where(squares > 0, squares, 1.0))
    return jnp.where(squares > 0, jnp.where(usable, m, 1.0)[..., 0] * length, 0.0)


def unit(x: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
    """x/|x|, and 0 where x is 0."""
    m = jnp.max(jnp.abs(x), axis=-1, keepdims=True)
    y = x / jnp.where(m > 0, m, 1.0)  # of length between 1 and √d, whatever x is
    squares = jnp.sum(y**2, axis=-1, keepdims=True)
    return jnp.where(squares > 0, y / jnp.sqrt(jnp.where(squares > 0, squares, 1.0)), 0.0)
