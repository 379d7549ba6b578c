"""Observables that a run keeps instead of its states."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from tokenfield import _checks as check
from tokenfield._compile import compiled
from tokenfield._doors import door
from tokenfield.errors import InputError
from tokenfield.evolution.until import sees_axes

Observable: TypeAlias = str | Callable[[Any], Any]
"""A function of a measure, or the name of one in `tkf.observe`."""


class Observables(eqx.Module):
    """Functions of a measure by name; all of them at once give a dict of arrays."""

    functions: tuple[Any, ...]
    names: tuple[str, ...] = eqx.field(static=True)

    def __call__(self, mu: Any) -> dict[str, Array]:
        return {name: _array(name, _value(name, of, mu)) for name, of in zip(self.names, self.functions, strict=True)}

    @property
    def sees_axes(self) -> bool:
        """Whether one of them may tell rotated measures apart."""
        return any(sees_axes(of) for of in self.functions)


def observables(given: Any) -> Observables | None:
    """What `observe=` means: one observable, a list of them, or a dict with names of the user's own.

    **Arguments**

    - `given`: a function of a measure written with jax.numpy, the name of one in `tkf.observe`, a list of these, or a dict from
      names to these. None for none.

    **Returns** `Observables`, or None.

    **Raises** `InputError` where it is something else, or two observables have one name.

    >>> observables(["mean_overlap", "order_parameter"]).names
    ('mean_overlap', 'order_parameter')
    """
    if given is None:
        return None
    if isinstance(given, Mapping):
        pairs = [(name, _function(one)) for name, one in given.items()]
    else:
        listed = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
        pairs = [(_name(one, i), _function(one)) for i, one in enumerate(listed)]
    names = [name for name, _ in pairs]
    if not pairs or len(set(names)) < len(names) or not all(isinstance(n, str) and n.isidentifier() for n in names):
        raise InputError(
            f"Argument `observe` needs one observable or more, each with a name of its own, but the names are {names}. "
            "Give a dict: observe={'overlap': tkf.observe.mean_overlap}."
        )
    taken = [name for name in names if name in ("time", "x", "w", "flow", "start", "run", "token", "component")]
    if taken:
        raise InputError(f"An observable cannot be called {taken[0]!r}, which a run has already. Choose another name.")
    return Observables(tuple(of for _, of in pairs), tuple(names))


def _function(one: Any) -> Callable[[Any], Any]:
    if isinstance(one, str):
        return door("observable")(one)
    if not callable(one):
        raise InputError(
            f"Argument `observe` takes functions of a measure such as tkf.observe.mean_overlap, or their names, but got "
            f"{check.brief(one)}."
        )
    return one


def _name(one: Any, i: int) -> str:
    if isinstance(one, str):
        return one
    name = getattr(one, "__name__", type(one).__name__)
    return name if name.isidentifier() else f"observable_{i}"


def _value(name: str, of: Callable[[Any], Any], mu: Any) -> Any:
    """What a function of the user's says of a measure; refused where it is no function of one."""
    try:
        return of(mu)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"The observable {name!r} cannot be computed of {type(mu).__name__} ({type(error).__name__}: {str(error)[:120]}). "
            "It must be a function of a measure, written with jax.numpy."
        ) from error


def _array(name: str, value: Any) -> Array:
    try:
        array = jnp.asarray(value)
    except TypeError:
        raise InputError(
            f"The observable {name!r} must give a number or an array, but gave {check.brief(value)}."
        ) from None
    return array.astype(int) if array.dtype == bool else array


@compiled
def along(observe: Observables, states: Any) -> dict[str, Array]:
    """The observables of states along time, computed one after another."""
    return jax.lax.map(observe, states)
