"""Lengths of vectors over the whole range of floating-point numbers, with gradients at zero.

Known values are computed on the host with numpy, which compiles nothing, traced ones with jax.numpy: the formula is the same."""

from jaxtyping import Array, Float

from tokenfield._checks import known, on_device
from tokenfield._types import AnyArray


def sizes(x: Float[AnyArray, "*batch d"]) -> Float[Array, "*batch"]:
    """|x| along the last axis: neither overflows nor underflows where |x| does not; NaN where an entry is."""
    xp, x = known(x)
    m = xp.max(xp.abs(x), axis=-1, keepdims=True)
    unit = xp.where((m > 0) & xp.isfinite(m), m, 1.0)
    squares = xp.sum((x / unit) ** 2, axis=-1)
    zero = m[..., 0] == 0
    return on_device(xp.where(zero, 0.0, unit[..., 0] * xp.sqrt(xp.where(zero, 1.0, squares))).astype(x.dtype))


def unit(x: Float[AnyArray, "*batch d"]) -> Float[Array, "*batch d"]:
    """x/|x|, and 0 where x is 0; NaN where an entry is not finite."""
    xp, x = known(x)
    m = xp.max(xp.abs(x), axis=-1, keepdims=True)
    zero, finite = m == 0, xp.isfinite(m)
    y = xp.where(finite, x, xp.nan) / xp.where(finite & ~zero, m, 1.0)  # of length between 1 and √d, whatever x is
    squares = xp.sum(y**2, axis=-1, keepdims=True)
    return on_device(xp.where(zero, 0.0, y / xp.sqrt(xp.where(zero, 1.0, squares))).astype(x.dtype))
