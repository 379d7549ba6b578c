"""What a measure is: the state that a flow moves."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from tokenfield.errors import InputError


class AbstractMeasure(eqx.Module):
    """A probability measure that a Flow can act on. Every kind is a pytree: it jits, vmaps and differentiates.

    `axes` names the axes of every array of one measure. The states of a run are one measure whose arrays have a leading
    axis of time, so that all of a measure's quantities are at once those of the whole run.
    """

    axes: ClassVar[dict[str, tuple[str, ...]]]

    @property
    def arrays(self) -> dict[str, Array]:
        """The arrays of the measure by name; those that it does without are left out."""
        return {name: array for name in self.axes if (array := getattr(self, name)) is not None}

    @property
    def plain(self) -> dict[str, Any]:
        """Whatever else makes the measure, as plain data: what its constructor needs beside the arrays."""
        return {}

    @property
    def spread(self) -> Array:
        """How far mass lies from the mean."""
        raise InputError(f"A {type(self).__name__} has no radius around its mean; write a stop condition of your own.")

    @property
    def dtype(self) -> Any:
        return next(iter(self.arrays.values())).dtype

    @classmethod
    def restore(cls, arrays: dict[str, Array], **plain: Any) -> "AbstractMeasure":
        """The measure of given arrays, which may have one leading axis of time."""
        name, array = next(iter(arrays.items()))
        make = lambda parts: cls(**parts, **plain)
        return jax.vmap(make)(arrays) if array.ndim > len(cls.axes[name]) else make(arrays)

    def take(self, index: int) -> "AbstractMeasure":
        """The state at one index of the time axis; of a batch of runs, every member's."""
        names = list(self.arrays)
        taken = [
            jnp.take(array, index, axis=array.ndim - len(self.axes[name]) - 1) for name, array in self.arrays.items()
        ]
        return eqx.tree_at(lambda mu: [getattr(mu, name) for name in names], self, taken)
