"""Lengths of vectors over the whole range of floating-point numbers, with gradients at zero.

Known values are computed on the host with numpy, which compiles nothing, traced ones with jax.numpy: the formula is the same."""

from jaxtyping import Array, Float

from tokenfield._checks import known, on_device
from tokenfield._types import AnyArray


def sizes(x: Float[AnyArray, "*batch d"]) -> Float[Array, "*batch"]:
    """|x| along the last axis: neither overflows nor underflows where |x| does not."""
    xp, x = known(x)
    m = xp.max(xp.abs(x), axis=-1, keepdims=True)
    usable = (m > 0) & xp.isfinite(m)
    y = x / xp.where(usable, m, 1.0)
    squares = xp.sum(y**2, axis=-1)
    length = xp.sqrt(xp.where(squares > 0, squares, 1.0))
    return on_device(xp.where(squares > 0, xp.where(usable, m, 1.0)[..., 0] * length, 0.0).astype(x.dtype))


def unit(x: Float[AnyArray, "*batch d"]) -> Float[Array, "*batch d"]:
    """x/|x|, and 0 where x is 0."""
    xp, x = known(x)
    m = xp.max(xp.abs(x), axis=-1, keepdims=True)
    y = x / xp.where(m > 0, m, 1.0)  # of length between 1 and √d, whatever x is
    squares = xp.sum(y**2, axis=-1, keepdims=True)
    return on_device(xp.where(squares > 0, y / xp.sqrt(xp.where(squares > 0, squares, 1.0)), 0.0).astype(x.dtype))
