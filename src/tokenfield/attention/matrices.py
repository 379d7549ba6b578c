"""Matrices as attention has them: None is the identity, a number c is c·I, anything else is written out."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenfield.parameters import AbstractChanging, Parameter


def is_number(parameter: Parameter) -> bool:
    """Whether a matrix parameter is a multiple of the identity, now and at any depth."""
    if parameter is None:
        return True
    if isinstance(parameter, AbstractChanging):
        return parameter.is_number
    return eqx.is_array(parameter) and parameter.ndim == 0


def apply(matrix: Array | None, x: Float[Array, "*rows d"]) -> Float[Array, "*rows k"]:
    """The matrix applied to a vector or to every row."""
    if matrix is None:
        return x
    return matrix * x if matrix.ndim == 0 else x @ matrix.T


def columns(matrix: Array | None, x: Float[Array, "d j"]) -> Float[Array, "k j"]:
    """The matrix applied to every column."""
    return apply(matrix, x.T).T


def transpose(matrix: Array | None) -> Array | None:
    return None if matrix is None else matrix.T


def square(matrix: Array | None, d: int) -> Float[Array, "d d"]:
    """The matrix written out."""
    if matrix is None:
        return jnp.eye(d)
    return matrix if matrix.ndim else matrix * jnp.eye(d, dtype=matrix.dtype)


def written(matrix: Any, d: int) -> np.ndarray:
    """The matrix written out on the host, in float64."""
    value = np.asarray(1.0 if matrix is None else matrix, np.float64)
    return value if value.ndim else value * np.eye(d)


def scale(matrix: Array | None, x: Any) -> Any:
    """The matrix, which is a multiple of the identity, applied to a number."""
    return x if matrix is None else matrix * x


def times(left: Array | None, right: Array | None) -> Array | None:
    """The product of two matrices."""
    if left is None or right is None:
        return right if left is None else left
    return left * right if left.ndim == 0 or right.ndim == 0 else left @ right
