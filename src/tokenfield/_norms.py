"""Lengths of vectors over the whole range of floating-point numbers, with gradients at zero.

Known values are computed on the host with numpy, which compiles nothing, traced ones with jax.numpy: the formula is the same."""

import functools
import operator
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from tokenfield._checks import known, on_device
from tokenfield._types import AnyArray

FEW = 3
"""Numbers in a row that are written out one by one."""


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
    m = _across(xp.maximum, xp.max, xp.abs(x))
    zero, finite = m == 0, xp.isfinite(m)
    y = xp.where(finite, x, xp.nan) / xp.where(finite & ~zero, m, 1.0)
    squares = _across(operator.add, xp.sum, y**2)
    return m, y, xp.sqrt(xp.where(zero, 1.0, squares))


def inner_products(x: Float[Array, "*batch d"], y: Float[Array, "*batch d"]) -> Float[Array, "*batch 1"]:
    """<x, y> along the last axis."""
    return _across(operator.add, jnp.sum, x * y)


def _across(join: Any, reduce: Any, x: AnyArray) -> Any:
    """One number per row. Rows of two or three are written out, which XLA computes together with what is around it; a reduction
    would be a loop of its own, with all rows in memory before and after."""
    if x.shape[-1] <= FEW:
        return functools.reduce(join, (x[..., k : k + 1] for k in range(x.shape[-1])))
    return reduce(x, axis=-1, keepdims=True)
