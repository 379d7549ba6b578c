"""Parameters that change with depth: functions of time, or one value per layer (no weight sharing)."""

import abc
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._types import Number, Numbers
from tokenfield.errors import InputError

Parameter = Any
"""An array; a `Schedule` or `PerLayer` where it changes with depth; None where it is the identity."""


class AbstractChanging(eqx.Module):
    """A parameter that changes with depth."""

    @abc.abstractmethod
    def value(self, t: Float[Array, ""]) -> Array:
        """Its value at time t."""

    @abc.abstractmethod
    def layer(self, k: Int[Array, ""], t: Float[Array, ""]) -> Array:
        """Its value in layer k, which begins at time t."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of one value."""

    @property
    def is_number(self) -> bool:
        """Whether every value is one number."""
        return self.shape == ()

    @property
    def depth(self) -> int | None:
        """For how many layers there are values; None where there is no limit."""
        return None

    def jumps(self) -> list[Array]:
        """Times at which it changes abruptly."""
        return []

    def describe(self, name: str) -> str:
        """How a flow tells of it."""
        return f"{name}(t)"


class Schedule(AbstractChanging):
    """A parameter as a function of time, e.g. `Softmax(beta=lambda t: 9 * jnp.exp(-t))`, which makes one by itself.

    **Arguments**

    - `function`: from the time to the parameter, written with jax.numpy.

    **Raises** `InputError` where the function cannot be called with a time, or returns no real numbers.

    >>> float(Schedule(lambda t: 2 * t).value(jnp.asarray(3.0)))
    6.0
    """

    function: Callable[[Array], Array | float]

    @front_door
    def __init__(self, function: Callable[[Array], Array | float]):
        self.function = function
        try:
            value = jax.eval_shape(self.value, jax.ShapeDtypeStruct((), float))
        except Exception as error:  # the function is the user's, and may raise anything
            raise InputError(
                "A parameter that changes with depth must be a function of the time t that jax.numpy can follow, but "
                f"{check.brief(function)} raised {type(error).__name__}: {check.brief(str(error))}."
            ) from error
        if not jnp.issubdtype(value.dtype, jnp.floating) and not jnp.issubdtype(value.dtype, jnp.integer):
            raise InputError(
                f"A function of t must return real numbers, but {check.brief(function)} returns {value.dtype}."
            )

    def value(self, t: Float[Array, ""]) -> Array:
        value = jnp.asarray(self.function(t))
        return value.astype(t.dtype) if jnp.issubdtype(value.dtype, jnp.number) else value

    def layer(self, k: Int[Array, ""], t: Float[Array, ""]) -> Array:
        return self.value(t)

    def __repr__(self) -> str:
        return f"Schedule({check.brief(self.function)})"

    @property
    def shape(self) -> tuple[int, ...]:
        return jax.eval_shape(self.value, jax.ShapeDtypeStruct((), float)).shape


class PerLayer(AbstractChanging):
    """A parameter with one value per layer. `layers` takes layer k's; `evolve` holds layer k's during [k·step, (k+1)·step) and
    steps exactly onto the changes.

    An array with one dimension more than expected makes one by itself: `Softmax(Q=Qs)` with Qs of shape (L, k, d).

    **Arguments**

    - `values`: the values along the first axis, layer by layer.
    - `step`: the length of time of a layer.

    **Raises** `InputError` where there is no value, or one that is not finite.

    >>> PerLayer([1.0, 4.0, 9.0]).value(jnp.asarray(1.5)).item()
    4.0
    """

    values: Float[Array, "L *shape"]
    step: Float[Array, ""]

    @front_door
    def __init__(self, values: Numbers, step: Number = 1.0):
        self.values = check.finite("values", check.real_array("values", values))
        if self.values.ndim == 0 or len(self.values) == 0:
            raise InputError("PerLayer needs one value per layer, along the first axis of `values`.")
        self.step = check.scalar("step", check.number("step", step, positive=True))

    @staticmethod
    @front_door
    def gaussian(depth: int, rows: int, columns: int, *, scale: float | None = None, seed: int = 0) -> "PerLayer":
        """Independent N(0, scale²) entries: a random Transformer's weights.

        **Arguments**

        - `depth`, `rows`, `columns`: the shape of the values.
        - `scale`: the standard deviation, 1/√columns when left out.
        - `seed`: the seed of the random numbers.

        **Returns** a `PerLayer` with values of shape (depth, rows, columns).

        **Raises** `InputError` where a size or the seed is not a whole number, or the scale is not positive.

        >>> PerLayer.gaussian(100, 8, 8, seed=1).values.shape
        (100, 8, 8)
        """
        sizes = {"depth": depth, "rows": rows, "columns": columns}
        shape = tuple(check.whole(name, size, 1, "a size of the values") for name, size in sizes.items())
        seed = check.whole("seed", seed, 0, "the seed of the random numbers")
        size = 1 / np.sqrt(shape[-1]) if scale is None else check.number("scale", scale, positive=True)
        check.room(4 * 8 * math.prod(shape), f"{depth} matrices of shape ({rows}, {columns})")
        return PerLayer(size * jax.random.normal(jax.random.key(seed), shape))

    def value(self, t: Float[Array, ""]) -> Array:
        return self.values[jnp.clip(jnp.floor(t / self.step).astype(int), 0, len(self.values) - 1)]

    def layer(self, k: Int[Array, ""], t: Float[Array, ""]) -> Array:
        return self.values[k]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape[1:]

    @property
    def depth(self) -> int | None:
        return len(self.values)

    def jumps(self) -> list[Array]:
        return [self.step * jnp.arange(1, len(self.values))] if len(self.values) > 1 else []

    def describe(self, name: str) -> str:
        return f"{name}: {len(self.values)} layers"

    def __repr__(self) -> str:
        step = "traced" if check.traced(self.step) else f"{float(self.step):g}"
        return f"PerLayer({len(self.values)} layers of shape {self.shape}, step={step})"


def is_scheduled(node: Any) -> bool:
    """Whether a parameter changes with depth."""
    return isinstance(node, AbstractChanging)


def scheduled(tree: Any) -> list[AbstractChanging]:
    """All parameters in a pytree that change with depth."""
    return [node for node in jax.tree.leaves(tree, is_leaf=is_scheduled) if is_scheduled(node)]


def at_time(tree: Any, t: Float[Array, ""]) -> Any:
    """The tree with every parameter that changes replaced by its value at time t."""
    return jax.tree.map(lambda node: node.value(t) if is_scheduled(node) else node, tree, is_leaf=is_scheduled)


def at_layer(tree: Any, k: Int[Array, ""], t: Float[Array, ""]) -> Any:
    """The tree with every parameter that changes replaced by its value in layer k, which begins at time t."""
    return jax.tree.map(lambda node: node.layer(k, t) if is_scheduled(node) else node, tree, is_leaf=is_scheduled)


def parameter(name: str, value: Any, ndim: int | tuple[int, ...], what: str) -> Parameter:
    """A parameter of a given number of dimensions, constant or changing; `what` names what it should be."""
    allowed = (ndim,) if isinstance(ndim, int) else ndim
    if value is None:
        return None
    if callable(value) and not isinstance(value, AbstractChanging | jax.Array | np.ndarray):
        value = Schedule(value)  # pyright: ignore[reportArgumentType]
    if isinstance(value, AbstractChanging):
        if len(value.shape) not in allowed:
            raise InputError(f"Argument `{name}` must be {what} at every depth, but has shape {value.shape} there.")
        return value
    array = check.real_array(name, value, like=what)
    if array.ndim in allowed:
        return check.finite(name, array)
    if array.ndim == max(allowed) + 1:
        return PerLayer(check.finite(name, array))
    raise InputError(
        f"Argument `{name}` must be {what} (or one per layer, along a first axis), but has shape {array.shape}."
    )


def number_parameter(name: str, value: Any) -> Parameter:
    """One number, a function of t, or one number per layer."""
    return parameter(name, value, 0, "one number")


def matrix_parameter(name: str, value: Any) -> Parameter:
    """A matrix, a number c for c·I, None for I; a function of t, or one matrix per layer."""
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


# How parts of a flow show their numbers.


def describe(part: eqx.Module) -> str:
    """A short name of a part of a flow: Softmax(beta=9, V=-1·I); or what the part itself says, where it has a `summary`."""
    if (summary := getattr(part, "summary", None)) is not None:
        return summary
    fields = [described(name, getattr(part, name)) for name in part.__dataclass_fields__]
    fields = [field for field in fields if field]
    return type(part).__name__ + (f"({', '.join(fields)})" if fields else "")


def shown(part: eqx.Module) -> str:
    """The same as an expression: PostLN()."""
    name = describe(part)
    return name if name.endswith(")") else f"{name}()"


def described(name: str, value: Any) -> str | None:
    """A field of a part, shortly; None where it was left out."""
    if value is None or value is False:
        return None
    if value is True:
        return name
    if is_scheduled(value):
        return value.describe(name)
    if isinstance(value, eqx.Module):
        return describe(value)
    if isinstance(value, tuple):
        return ", ".join(describe(part) for part in value)
    if not eqx.is_array(value):
        return f"{name}={value}"
    if value.ndim:
        return f"{name}: {'×'.join(map(str, value.shape))}"
    number = "traced" if check.traced(value) else f"{float(value):g}"
    return f"{name}={number}{'·I' if name in 'QKVA' else ''}"
