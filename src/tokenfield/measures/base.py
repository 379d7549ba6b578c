"""What a measure is: the state that a flow moves."""

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tokenfield import _checks as check
from tokenfield._doors import door
from tokenfield._front import front_door
from tokenfield._types import Self
from tokenfield.errors import InputError


class AbstractMeasure(eqx.Module):
    """A probability measure that a Flow can act on. Every kind is a pytree: it works under jit, vmap and grad.

    A kind names the axes of its arrays (`axes`); the quantities that tell how a run of it went (`quantities`), which stories
    and pictures show unless a room above knows better; and the constructors that specs may call (`constructors`). The states
    of a run are one measure whose arrays have a leading axis of time, so that all of a measure's quantities are at once those
    of the whole run.
    """

    axes: ClassVar[dict[str, tuple[str, ...]]]
    quantities: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def constructors(cls) -> Mapping[str, Callable[..., "AbstractMeasure"]]:
        """The ways to make this measure by their names in a spec."""
        return {}

    @property
    def arrays(self) -> dict[str, Array]:
        """The arrays of the measure by name; those that it does without are left out."""
        return {name: array for name in self.axes if (array := getattr(self, name)) is not None}

    @property
    def arrays_with_mass(self) -> dict[str, Array]:
        """The arrays by name, with NaN in the place of what has no mass."""
        return self.arrays

    @property
    def plain(self) -> dict[str, Any]:
        """Whatever else makes the measure, as plain data: what its constructor needs beside the arrays."""
        return {}

    @property
    def ambient(self) -> int | None:
        """The d of the space R^d on whose points a flow's matrices act; None for measures without such points."""
        return None

    @property
    def origin(self) -> dict[str, Any] | None:
        """How this measure was made, as plain data: by which constructor, from which numbers; None where nobody knows."""
        return None

    @property
    def distinction(self) -> dict[str, Any] | None:
        """What tells this start from others of an ensemble: how it was made, where that is known."""
        return self.origin

    @property
    def leading(self) -> int:
        """How many axes the arrays have in front of their own: 0 for one measure, 1 for the states of a run."""
        return max(array.ndim - len(self.axes[name]) for name, array in self.arrays.items())

    @property
    def spread(self) -> Array:
        """How far mass lies from the mean."""
        raise InputError(f"A {type(self).__name__} has no radius around its mean; write a stop condition of your own.")

    @property
    def dtype(self) -> Any:
        """The precision of the arrays."""
        return next(iter(self.arrays.values())).dtype

    @classmethod
    def restore(cls, arrays: dict[str, Array], **plain: Any) -> Self:
        """The measure of given arrays.

        **Arguments**

        - `arrays`: the arrays by name, as `arrays` gives them; they may have one leading axis of time.
        - `plain`: what else the constructor needs, as `plain` gives it.

        **Returns** the measure, or the states of a run as one measure.
        """
        name, array = next(iter(arrays.items()))
        make = lambda parts: cls(**parts, **plain)
        return jax.vmap(make)(arrays) if array.ndim > len(cls.axes[name]) else make(arrays)

    @property
    def present(self) -> Self:
        """The measure without what has no mass. (Tokens of a batch of unequal numbers are filled up with such.)"""
        return self

    @classmethod
    def of_one_size(cls, parts: Sequence[Any]) -> list[Any]:
        """Measures of this kind with arrays of one shape, where smaller ones can be filled up with what has no mass.

        **Arguments**

        - `parts`: the measures.

        **Returns** the measures, filled up; as they are where their kind cannot be.
        """
        return list(parts)

    def refuse_nonfinite(self) -> None:
        """Refuse arrays with NaN or infinity, which constructors could not see under jit and vmap, where values are known."""
        for name, array in self.arrays.items():
            check.finite(name, array)

    def take(self, index: int) -> Self:
        """The state at one index of the time axis.

        **Arguments**

        - `index`: the index of a saved time.

        **Returns** the measure at that time; of a batch of runs, every member's.
        """
        names = list(self.arrays)
        taken = [_taken(array, index, array.ndim - len(self.axes[name]) - 1) for name, array in self.arrays.items()]
        return eqx.tree_at(lambda mu: [getattr(mu, name) for name in names], self, taken)

    @staticmethod
    def joined(parts: "Sequence[M]") -> "M":
        """States of several stretches of time as one, in the representation of the last.

        **Arguments**

        - `parts`: measures with a leading axis of time each, in order.

        **Returns** one measure with all their times.
        """
        return jax.tree.map(
            lambda *leaves: check.on_device(np.concatenate([np.asarray(leaf) for leaf in leaves])), *parts
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The first of the measure's arrays: of tokens their points."""
        return np.array(next(iter(self.arrays.values())), dtype, copy=True if copy is None else copy)

    @front_door
    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """A picture of the measure.

        **Arguments**

        - `path`: where to write it, as .png, .pdf or .svg; left out, nothing is written.

        **Returns** the path, or the figure where nothing was written.

        **Raises** `StoreError` where it cannot be written.
        """
        return door("picture_of")(self, path)

    def at(self, *arrays: Any) -> Self:
        """The name that `with_points`, `with_moments`, `with_alignment` and `with_coefficients` had before."""
        new = next(name for name in dir(type(self)) if name.startswith("with_"))
        warnings.warn(f"{type(self).__name__}.at is now called {new}.", DeprecationWarning, stacklevel=2)
        return getattr(self, new)(*arrays)


M = TypeVar("M", bound=AbstractMeasure)


def _taken(array: Array, index: int, axis: int) -> Array:
    index = index % array.shape[axis] if isinstance(index, int) else index
    if check.traced((array, index)):
        return jnp.take(array, index, axis=axis)
    return check.on_device(np.take(np.asarray(array), index, axis=axis))  # on the host, which compiles nothing
