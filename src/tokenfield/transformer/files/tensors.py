"""Tensors in files: their names and shapes are known first, their numbers are read one tensor at a time."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import ml_dtypes
import numpy as np

from tokenfield.errors import StoreError
from tokenfield.transformer.files.plain import opened

FLOATS = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
}
"""Numbers that weights are kept in."""


class Tensor(NamedTuple):
    """A tensor in a file.

    `shape` and `size` (bytes while it is read) are known; `read` gives the numbers in the precision that they are kept in.
    """

    shape: tuple[int, ...]
    size: int
    read: Callable[[], np.ndarray]


Weights = Mapping[str, Tensor]
"""Tensors by name."""


def numbers(name: str, tensor: Tensor, dtype: str) -> np.ndarray:
    """The numbers of a tensor.

    **Arguments**

    - `name`: what a refusal calls it.
    - `tensor`: the tensor.
    - `dtype`: the precision that is wanted.

    **Returns** an array of the tensor's shape.

    **Raises** `StoreError` where they cannot be read, or one is not finite.
    """
    with np.errstate(over="ignore"):
        array = tensor.read().astype(dtype, copy=False)
    if not np.isfinite(array).all():
        raise StoreError(f"The tensor {name} holds numbers that are not finite in {dtype}: its file is damaged.")
    return array


def stored(path: Path, offset: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Numbers that lie in a file as they are, read into their place at once.

    **Raises** `StoreError` where the file ends before them.
    """
    array = np.empty(shape, dtype)
    view = array.reshape(-1).view(np.uint8).data
    read = 0
    with opened(path) as file:
        file.seek(offset)
        while read < len(view) and (more := file.readinto(view[read:])):  # pyright: ignore[reportAttributeAccessIssue]
            read += more
    if read < len(view):
        raise StoreError(f"{path} ends in the middle of its numbers: it is truncated. Get it again.")
    return array


def size_of(shape: tuple[int, ...], dtype: np.dtype) -> int:
    """Bytes of an array."""
    return math.prod(shape) * dtype.itemsize
