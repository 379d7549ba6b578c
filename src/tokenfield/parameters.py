"""Parameters that change with depth: functions of time, or one value a layer (no weight sharing)."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tokenfield import _checks as check
from tokenfield.errors import InputError

Parameter = Any
"""An array; a `Schedule` or `PerLayer` where it changes with depth; None where it is the identity."""


class Schedule(eqx.Module):
    """A parameter as a function of time, e.g. `Softmax(beta=lambda t: 9 * jnp.exp(-t))`, which makes one by itself.

    >>> float(Schedule(lambda t: 2 * t).at(jnp.asarray(3.0)))
    6.0
    """

    function: Callable

    def at(self, t: Float[Array, ""]) -> Array:
        return jnp.asarray(self.function(t))

    @property
    def shape(self) -> tuple[int, ...]:
        return jax.eval_shape(self.at, jax.ShapeDtypeStruct((), float)).shape


class PerLayer(eqx.Module):
    """A parameter with one value a layer: `values` has one more leading dimension. `layers` takes layer k's; `evolve`
    holds layer k's during [k·step, (k+1)·step) and steps exactly onto the changes.

    An array with one dimension more than expected makes one by itself: `Softmax(Q=Qs)` with Qs of shape (L, k, d).

    >>> PerLayer([1.0, 4.0, 9.0]).at(jnp.asarray(1.5)).item()
    4.0
    """

    values: Float[Array, "L *shape"]
    step: Float[Array, ""]

    def __init__(self, values: Any, step: Any = 1.0):
        self.values = check.finite("values", check.real_array("values", values))
        if self.values.ndim == 0 or len(self.values) == 0:
            raise InputError("PerLayer needs one value a layer, along the first axis of `values`.")
        self.step = check.scalar("step", check.number("step", step, positive=True))

    @staticmethod
    def gaussian(depth: int, rows: int, columns: int, *, scale: float | None = None, seed: int = 0) -> "PerLayer":
        """Independent N(0, scale²) entries, scale = 1/√columns by default: a random Transformer's weights.

        >>> PerLayer.gaussian(100, 8, 8, seed=1).values.shape
        (100, 8, 8)
        """
        size = 1 / np.sqrt(columns) if scale is None else scale
        return PerLayer(size * jax.random.normal(jax.random.key(seed), (depth, rows, columns)))

    def layer(self, k: Int[Array, ""]) -> Array:
        return self.values[k]

    def at(self, t: Float[Array, ""]) -> Array:
        return self.values[jnp.clip(jnp.floor(t / self.step).astype(int), 0, len(self.values) - 1)]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape[1:]

    @property
    def jumps(self) -> Float[Array, " changes"]:
        return self.step * jnp.arange(1, len(self.values))


def is_scheduled(node: Any) -> bool:
    return isinstance(node, Schedule | PerLayer)


def scheduled(tree: Any) -> list[Any]:
    """All schedules in a pytree."""
    return [node for node in jax.tree.leaves(tree, is_leaf=is_scheduled) if is_scheduled(node)]


def at_time(tree: Any, t: Float[Array, ""]) -> Any:
    """The tree with every schedule replaced by its value at time t."""
    return jax.tree.map(lambda node: node.at(t) if is_scheduled(node) else node, tree, is_leaf=is_scheduled)


def at_layer(tree: Any, k: Int[Array, ""], t: Float[Array, ""]) -> Any:
    """The tree with every schedule replaced by its value in layer k, which begins at time t."""

    def value(node: Any) -> Any:
        if isinstance(node, PerLayer):
            return node.layer(k)
        return node.at(t) if isinstance(node, Schedule) else node

    return jax.tree.map(value, tree, is_leaf=is_scheduled)


def parameter(name: str, value: Any, ndim: int | tuple[int, ...], what: str) -> Parameter:
    """A parameter of a given number of dimensions, constant or changing; `what` names what it should be."""
    allowed = (ndim,) if isinstance(ndim, int) else ndim
    if value is None or is_scheduled(value):
        return value
    if callable(value) and not isinstance(value, jax.Array | np.ndarray):
        return Schedule(value)
    array = check.real_array(name, value, like=what)
    if array.ndim in allowed:
        return check.finite(name, array)
    if array.ndim == max(allowed) + 1:
        return PerLayer(check.finite(name, array))
    raise InputError(
        f"Argument `{name}` must be {what} (or one a layer, along a first axis), but has shape {array.shape}."
    )


def number_parameter(name: str, value: Any) -> Parameter:
    """One number, a function of t, or one number a layer."""
    return parameter(name, value, 0, "one number")


def matrix_parameter(name: str, value: Any) -> Parameter:
    """A matrix, a number c for c·I, None for I; a function of t, or one matrix a layer."""
    return parameter(name, value, (0, 2), "a matrix of shape (rows, d), a number c for c·I, or None for I")


def fits(name: str, value: Parameter, d: int, rows: int | None = None) -> int:
    """The number of rows of a parameter that acts on R^d, after checking that it does; a number or None keeps d."""
    shape = () if value is None else value.shape
    if len(shape) == 0:
        shape = (d, d)
    if len(shape) != 2 or shape[1] != d or (rows is not None and shape[0] != rows):
        wanted = f"(rows, d) = (rows, {d})" if rows is None else f"(d, d) = ({rows}, {d})"
        raise InputError(f"Argument `{name}` must have shape {wanted}, but has shape {shape}. The tokens have d = {d}.")
    return shape[0]
