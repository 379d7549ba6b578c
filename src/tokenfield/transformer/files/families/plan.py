"""What a config asks for: the tensors that there must be, and how a model is made of them."""

import dataclasses
import fnmatch
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from jaxtyping import Array

from tokenfield import _checks as check
from tokenfield.errors import StoreError
from tokenfield.transformer.architecture import Architecture
from tokenfield.transformer.block import Block
from tokenfield.transformer.embedding import Embedding, Head
from tokenfield.transformer.files.tensors import Weights, numbers
from tokenfield.transformer.norms import Norm
from tokenfield.transformer.parts import Affine

Shapes = Mapping[str, tuple[int, ...]]
Parts = tuple[Embedding, tuple[Block, ...], Norm | None, Head | None]
"""Embedding, blocks, last norm and head."""

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
"""σ as configs name it, and as it is named here."""


class Taken:
    """Tensors by name, of which each is read once, when it is asked for.

    **Arguments**

    - `weights`: the tensors.
    - `dtype`: the precision.
    """

    def __init__(self, weights: Weights, dtype: str):
        self.weights, self.dtype = weights, dtype

    def __contains__(self, name: str) -> bool:
        return name in self.weights

    def host(self, name: str) -> np.ndarray:
        """A tensor's numbers, as numpy has them."""
        return numbers(name, self.weights[name], self.dtype)

    def __call__(self, name: str) -> Array:
        """A tensor."""
        return check.on_device(self.host(name))

    def affine(self, name: str, *, bias: bool = True) -> Affine:
        """A projection: `name`.weight and `name`.bias."""
        return Affine(self(f"{name}.weight"), self(f"{name}.bias") if bias else None)

    def norm(self, name: str, eps: float, *, centre: bool = True) -> Norm:
        """A norm: `name`.weight and, of a LayerNorm, `name`.bias."""
        return Norm(self(f"{name}.weight"), self(f"{name}.bias") if centre else None, eps, centre)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a config asks for.

    **Arguments**

    - `architecture`: sizes and kinds.
    - `shapes`: the tensors that there must be.
    - `parts`: from the tensors to the parts of the model.
    - `head`: tensors of a head, which are all there or none.
    - `loose`: tensors that may be there.
    - `left`: patterns of names that are left alone: poolers, heads of other tasks, buffers.
    """

    architecture: Architecture
    shapes: Shapes
    parts: Callable[[Taken], Parts]
    head: Shapes = dataclasses.field(default_factory=dict)
    loose: Shapes = dataclasses.field(default_factory=dict)
    left: tuple[str, ...] = ()

    def has_head(self, weights: Weights) -> bool:
        """Whether a head is among the tensors."""
        return any(name in weights for name in self.head)

    def fit(self, weights: Weights, where: str) -> None:
        """Compare tensors with the plan, before one is read.

        **Arguments**

        - `weights`: the tensors.
        - `where`: what a refusal calls their file.

        **Raises** `StoreError` where one is missing, of another shape, or of no use.
        """
        must = {**self.shapes, **(self.head if self.has_head(weights) else {})}
        may = {**must, **self.loose}
        for name, shape in may.items():
            if name in weights and weights[name].shape != shape:
                raise StoreError(
                    f"{where}: the tensor {name} must have shape {shape} by its config, but has {weights[name].shape}. "
                    "The two belong to different models."
                )
        if missing := [name for name in must if name not in weights]:
            raise StoreError(f"{where}: {_some(missing)} missing. The file is not whole, or belongs to another config.")
        strange = [name for name in weights if name not in may and not self._left(name)]
        if strange:
            raise StoreError(
                f"{where}: {_some(strange)} not known: no model with this config has such a tensor. Does the config belong to it?"
            )

    def _left(self, name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.left)

    def used(self, weights: Weights) -> list[str]:
        """The tensors that will be read."""
        return [name for name in (*self.shapes, *self.head, *self.loose) if name in weights]


def affine_shapes(name: str, out: int, into: int, *, bias: bool = True) -> Shapes:
    """The tensors of a projection."""
    return {f"{name}.weight": (out, into), **({f"{name}.bias": (out,)} if bias else {})}


def norm_shapes(name: str, d: int, *, centre: bool = True) -> Shapes:
    """The tensors of a norm."""
    return {f"{name}.weight": (d,), **({f"{name}.bias": (d,)} if centre else {})}


def united(parts: Iterable[Shapes]) -> Shapes:
    """All tensors of some parts."""
    return {name: shape for part in parts for name, shape in part.items()}


def table_of(take: Taken, name: str, words: str, tied: bool) -> Array | None:
    """The table of a head: None where it is the embedding's.

    **Raises** `StoreError` where config and tensors contradict each other.
    """
    if name not in take:
        if not tied:
            raise StoreError(f"The config says that the head has a table of its own, but the tensor {name} is missing.")
        return None
    if tied and not np.array_equal(take.host(name), take.host(words)):
        raise StoreError(
            f"The config says that the head shares the embedding's table, but the tensor {name} differs from {words}. If it is "
            'meant to, write "tie_word_embeddings": false into config.json.'
        )
    return None if tied else take(name)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"the tensor{'s' if len(names) > 1 else ''} {', '.join(names[:3])}{more} {'are' if len(names) > 1 else 'is'}"
