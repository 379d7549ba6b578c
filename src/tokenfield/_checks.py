"""Front-door checks, shared by every room. Shapes are always checked; values only when they are known (not traced)."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from tokenfield._cache import keep_programs
from tokenfield.errors import InputError

keep_programs()  # every room that computes comes through here first


def traced(tree: Any) -> bool:
    """Whether any leaf is being traced by jit, grad or vmap, so that its values cannot be looked at."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))


def under_jit() -> bool:
    """Whether a program is being traced right now: then every new array is traced, whatever it is made of."""
    return isinstance(jax.device_put(np.zeros(())), Tracer)


def on_device(array: Any) -> Array:
    """An array as JAX has it. (Unlike jnp.asarray this compiles nothing, not even a copy.)"""
    return array if isinstance(array, jax.Array) else jax.device_put(np.asarray(array))


def namespace(*arrays: Any) -> Any:
    """numpy for arrays whose values are known, jax.numpy for others: what is computed once, on the host, compiles nothing."""
    return jnp if traced(arrays) else np


def known(*arrays: Any) -> tuple[Any, ...]:
    """`namespace(*arrays)` with the arrays as it has them, for formulas that are the same on the host and in a program."""
    xp = namespace(*arrays)
    return (xp, *(np.asarray(array) for array in arrays)) if xp is np else (xp, *arrays)


def batched(tree: Any) -> bool:
    """Whether any leaf is being mapped over by vmap, where a choice between programs would run all of them."""
    parts = [(leaf, getattr(leaf, "primal", None)) for leaf in jax.tree.leaves(tree)]
    return any(type(part).__name__ == "BatchTracer" for pair in parts for part in pair)  # JAX has no public name for it


def real_array(name: str, value: Any, like: str = "an array of real numbers") -> Any:
    """`value` as a floating-point array; float32 stays float32, whole numbers become the default float.

    What is not a JAX array stays numpy, so that its values can be looked at even inside jit.
    """
    if isinstance(value, jax.Array):
        array = value
    else:
        try:
            array = np.asarray(value)
        except (ValueError, TypeError) as error:
            raise InputError(
                f"Argument `{name}` must be {like}, but {brief(value)} is ragged or not numbers."
            ) from error
    kind = np.dtype(array.dtype)
    if kind == np.bool_ or not (np.issubdtype(kind, np.integer) or np.issubdtype(kind, np.floating)):
        raise InputError(
            f"Argument `{name}` must be {like}, but has dtype {kind}. Convert it first, e.g. with `.astype(float)`."
        )
    if np.issubdtype(kind, np.floating) and kind.itemsize < 4:
        raise InputError(
            f"Argument `{name}` has dtype {kind}, too coarse for a flow. Use float64, or float32 if asked."
        )
    return as_floats(array, kind if kind == np.float32 else jnp.result_type(float))


def as_floats(array: Any, dtype: Any) -> Any:
    """An array in another precision; one whose values are known is converted on the host, which compiles nothing."""
    if array.dtype == dtype or traced(array):
        return array.astype(dtype)
    converted = np.asarray(array).astype(dtype)
    return on_device(converted) if isinstance(array, jax.Array) else converted


def finite(name: str, array: Any, what: str = "entry") -> Array:
    """A JAX array without NaN and infinity; where there is one, say where."""
    if not traced(array):
        values = np.asarray(array)
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            where = tuple(int(i) for i in bad[0])
            at = f"{what} {where if len(where) != 1 else where[0]}" if where else "its value"
            more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
            raise InputError(
                f"Argument `{name}` must be finite, but {at} is {values[where]}{more}. Remove or repair it."
            )
    return on_device(array)


def scalar(name: str, value: Any) -> Array:
    """One finite real number, as an array of shape (); it may be traced."""
    array = real_array(name, value, like="one real number")
    if array.ndim != 0:
        raise InputError(
            f"Argument `{name}` must be one number, but has shape {array.shape}. For several values, use jax.vmap."
        )
    return finite(name, array)


def number(name: str, value: Any, positive: bool = False) -> float:
    """One finite real number that is known, as a plain float."""
    array = real_array(name, value, like="one real number")
    if traced(array):
        raise InputError(f"Argument `{name}` must be a plain number; it cannot be traced by jit, grad or vmap.")
    if array.ndim != 0 or not np.isfinite(plain := float(array)):
        raise InputError(f"Argument `{name}` must be one finite number, but is {brief(value)}.")
    if positive and not plain > 0:
        raise InputError(f"Argument `{name}` must be positive, but is {plain:g}.")
    return plain


def whole(name: str, value: Any, least: int, what: str) -> int:
    """A whole number of at least `least`; it decides a shape, so it must be a plain integer."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"Argument `{name}` must be a whole number ({what}), but is {brief(value)}.")
    if not least <= value < 2**31:
        raise InputError(f"Argument `{name}` must be at least {least} ({what}) and below 2³¹, but is {value}.")
    return int(value)


def flag(name: str, value: Any) -> bool:
    """True or false, and nothing that could be read as either."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"Argument `{name}` must be True or False, but is {brief(value)}.")
    return bool(value)


def covariance(name: str, value: Any, d: int) -> Array:
    """A symmetric (d, d) matrix without negative eigenvalues, to round-off, made exactly symmetric."""
    cov = finite(name, real_array(name, value, like="a covariance, shape (d, d)"))
    if cov.shape != (d, d):
        raise InputError(f"Argument `{name}` must have shape (d, d) = ({d}, {d}), but has shape {cov.shape}.")
    if not traced(cov):
        known = np.asarray(cov, np.float64)
        slack = (1e-10 if cov.dtype == jnp.float64 else 1e-5) * abs(known).max()
        if (gap := abs(known - known.T).max()) > slack:
            raise InputError(
                f"Argument `{name}` must be symmetric, but {name} and {name}.T differ by {gap:g}. "
                f"Use ({name} + {name}.T) / 2."
            )
        if (least := np.linalg.eigvalsh(known)[0]) < -slack:
            raise InputError(f"Argument `{name}` must have no negative eigenvalue, but has {least:g}: no law has it.")
    if traced(cov):
        return 0.5 * (cov + cov.T)
    return on_device(0.5 * (np.asarray(cov) + np.asarray(cov).T))


def brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
