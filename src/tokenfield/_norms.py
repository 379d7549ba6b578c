"""Lengths of vectors over the whole range of floating-point numbers, with gradients at zero.

Known values are computed on the host with numpy, which compiles nothing, traced ones with jax.numpy: the formula is the same."""

from typing import Any

from jaxtyping import Array, Float

from tokenfield._checks import known, on_device
from tokenfield._types import AnyArray


def sizes(x: Float[AnyArray, "*batch d"]) -> Float[Array, "*batch"]:
    """|x| along the last axis: neither overflows nor underflows where |x| does not; NaN where an entry is."""
    xp, x = known(x)
    m, _, root = _scaled(xp, x)
    length = xp.where(m == 0, 0.0, xp.where(xp.isfinite(m), m * root, m))
    return on_device(length[..., 0].astype(x.dtype))


def unit(x: Float[AnyArray, "*batch d"]) -> Float[Array, "*batch d"]:
    """x/|x|, and 0 where x is 0; NaN where an entry is not finite."""
    xp, x = known(x)
    m, y, root = _scaled(xp, x)
    return on_device(xp.where(m == 0, 0.0, y / root).astype(x.dtype))


def _scaled(xp: Any, x: AnyArray) -> tuple[Any, Any, Any]:
    """The largest entry m of x in size, y = x/m, and |y|, which lies between 1 and √d whatever x is (1 where x is 0). The same for
    lengths and directions, so that a program that needs both computes it once."""
    m = xp.max(xp.abs(x), axis=-1, keepdims=True)
    zero, finite = m == 0, xp.isfinite(m)
    y = xp.where(finite, x, xp.nan) / xp.where(finite & ~zero, m, 1.0)
    squares = xp.sum(y**2, axis=-1, keepdims=True)
    return m, y, xp.sqrt(xp.where(zero, 1.0, squares))
