"""Front-door checks, shared by every room. Shapes are always checked; values only when they are known (not traced)."""

import numbers
import operator
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from tokenfield._cache import keep_programs
from tokenfield.errors import InputError, RoomError

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
    """`value` as a floating-point array; float32 stays float32, whole numbers and half precision become the default float.

    What is not a JAX array stays numpy, so that its values can be looked at even inside jit. Other libraries' tensors are taken
    out of their graphs, since no gradient flows back into them.
    """
    if isinstance(value, jax.Array):
        array = value
    else:
        try:
            array = jnp.asarray(value) if traced(value) else _host_array(value)
        except Exception as error:  # conversions are other libraries', and may raise anything
            raise InputError(
                f"Argument `{name}` must be {like}, but {brief(value)} is ragged or not numbers."
            ) from error
    if array.dtype == np.float32 or (array.dtype == np.float64 and jax.config.read("jax_enable_x64")):
        return array
    if not jnp.issubdtype(array.dtype, np.integer) and not jnp.issubdtype(array.dtype, np.floating):
        came = f"is {brief(value)}" if array.dtype == object else f"has dtype {array.dtype}"
        raise InputError(f"Argument `{name}` must be {like}, but {came}. Convert it first, e.g. with `.astype(float)`.")
    return as_floats(array, jnp.result_type(float))


def _host_array(value: Any) -> np.ndarray:
    """An array of numpy's from whatever can be one."""
    if hasattr(value, "detach") and hasattr(value, "cpu"):  # a tensor of torch's, perhaps in a graph or on a device
        value = value.detach().cpu()
        value = value.double() if "bfloat16" in str(value.dtype) else value
    array = np.asarray(value)
    if array.dtype == object and all(isinstance(part, numbers.Real) and not is_flag(part) for part in array.flat):
        array = array.astype(float)  # fractions, and whole numbers beyond 64 bits
    return array


def as_floats(array: Any, dtype: Any) -> Any:
    """An array in another precision; one whose values are known is converted on the host, which compiles nothing."""
    if array.dtype == dtype or traced(array):
        return array.astype(dtype)
    known = np.asarray(array)
    with np.errstate(over="ignore"):
        converted = known.astype(dtype)
    if known.dtype == np.float64 and np.isinf(converted).any() and np.isfinite(known).all():
        raise InputError(
            f"The number {known.flat[np.argmax(np.abs(known))]:g} is beyond {np.dtype(dtype)}, the precision of the tokens. "
            "Use float64 tokens, or a smaller number."
        )
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


def integer(name: str, value: Any, what: str = "") -> int:
    """A whole number that is known, as a plain int: Python's, numpy's, or an array of shape () that holds one."""
    try:
        if is_flag(value):
            raise TypeError
        return operator.index(value)
    except Exception:  # an index is made by the value itself, which may raise anything
        kind = f" ({what})" if what else ""
        traced_too = " It cannot be traced by jit, grad or vmap." if isinstance(value, Tracer) else ""
        raise InputError(
            f"Argument `{name}` must be a whole number{kind}, but is {brief(value)}.{traced_too}"
        ) from None


def whole(name: str, value: Any, least: int, what: str) -> int:
    """A whole number of at least `least`; it decides a shape, so it must be a plain integer."""
    number = integer(name, value, what)
    if not least <= number < 2**31:
        raise InputError(f"Argument `{name}` must be at least {least} ({what}) and below 2³¹, but is {brief(number)}.")
    return number


def is_flag(value: Any) -> bool:
    """Whether a value is a truth value, of Python's, numpy's or anybody's."""
    return isinstance(value, bool) or str(getattr(value, "dtype", "")).endswith("bool")


def flag(name: str, value: Any) -> bool:
    """True or False, as Python's."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise InputError(f"Argument `{name}` must be True or False, but is {brief(value)}.")


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
    """A value in a few words, whatever it is."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a value may be unable to show itself: a number of 5000 digits, for one
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


# How much memory there is.

SMALL = 1 << 26
"""Bytes that nobody has to ask for."""


def room(size: float, what: str) -> None:
    """Refuse, before anything is allocated, what takes more memory than there is.

    **Arguments**

    - `size`: the bytes that will be held at once.
    - `what`: what takes them, as the beginning of a sentence.

    **Raises** `RoomError`, an `InputError`, where fewer bytes are available.
    """
    if size > SMALL and size > (left := available_memory()):
        raise RoomError(
            f"{what} would take {_bytes(size)} of memory, but {_bytes(left)} are available. Ask for fewer or smaller ones."
        )


def available_memory() -> float:
    """The bytes that this process can still have: of the machine's memory, and of its control group's, where these are known."""
    return min(_machine_memory(), _group_memory())


def _machine_memory() -> float:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return next(1024.0 * int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        pass
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return float("inf")


def _group_memory() -> float:
    try:
        limit, used = (_told(f"/sys/fs/cgroup/memory.{name}") for name in ("max", "current"))
    except (OSError, ValueError):  # none, or no limit ("max")
        return float("inf")
    return max(limit - used, 0.0)


def _told(path: str) -> float:
    with open(path, encoding="ascii") as file:
        return float(file.read())


def _bytes(size: float) -> str:
    return f"{size:.3g} bytes ({size / 2**30:,.3g} GiB)"
