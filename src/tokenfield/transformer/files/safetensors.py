"""Weights in .safetensors: a length, a header of JSON, numbers. All of the header is checked before a number is read."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tokenfield import _files
from tokenfield.errors import StoreError, short
from tokenfield.transformer.files.plain import opened, parsed
from tokenfield.transformer.files.tensors import FLOATS, Tensor, Weights, size_of, stored

HEADER = 32 * _files.MEGABYTE
"""The longest header; a hundred thousand tensors fit."""
OTHERS = {
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U8": 1,
    "U16": 2,
    "U32": 4,
    "U64": 8,
    "BOOL": 1,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
}
"""Bytes of numbers that are no weights; tensors of them are left alone, or refused when they are asked for."""


def read(path: Path) -> Weights:
    """The tensors of a file.

    **Arguments**

    - `path`: the file.

    **Returns** the tensors by name.

    **Raises** `StoreError` where the file is truncated, damaged or no .safetensors.
    """
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 10 or length > size - 8:
            raise StoreError(
                f"{path} is truncated or no .safetensors: it has {size} bytes, and claims a header of {length}. Get it again."
            )
        if length > min(HEADER, _files.memory() // 30):
            raise StoreError(f"{path} claims a header of {length} bytes, more than the tensors of any model need.")
        try:
            header = parsed(file.read(length).decode(), f"The header of {path}")
        except UnicodeDecodeError:
            raise StoreError(f"The header of {path} is not text: it is no .safetensors, or damaged.") from None
    header.pop("__metadata__", None)
    start = 8 + length
    entries = {name: _entry(path, name, entry) for name, entry in header.items()}
    _refuse_gaps(path, [offsets for *_, offsets in entries.values()], size - start)
    return {name: _tensor(path, start, name, *entry) for name, entry in entries.items()}


def _entry(path: Path, name: str, entry: Any) -> tuple[tuple[int, ...], str, tuple[int, int]]:
    """Shape, dtype and place that the header tells, where they fit each other."""
    told: dict[str, Any] = entry if isinstance(entry, dict) else {}
    shape, kind, offsets = told.get("shape"), told.get("dtype"), told.get("data_offsets")
    if shape is None or offsets is None or not isinstance(kind, str):
        raise StoreError(f"{path}: the header says nothing sensible about the tensor {short(name)}. It is damaged.")
    if not _sizes(shape) or not _sizes(offsets) or len(offsets) != 2 or len(shape) > 8:
        raise StoreError(f"{path}: the header says nothing sensible about the tensor {short(name)}. It is damaged.")
    if kind not in FLOATS and kind not in OTHERS:
        raise StoreError(f"{path}: the tensor {short(name)} holds {short(kind)}, not one of {', '.join(FLOATS)}.")
    itemsize = FLOATS[kind].itemsize if kind in FLOATS else OTHERS[kind]
    if (length := size_of(tuple(shape), np.dtype("u1")) * itemsize) != offsets[1] - offsets[0]:
        raise StoreError(
            f"{path}: the tensor {short(name)} of shape {tuple(shape)} needs {length} bytes, but has {offsets[1] - offsets[0]}. "
            "The file is damaged."
        )
    return tuple(shape), kind, (offsets[0], offsets[1])


def _sizes(numbers: Any) -> bool:
    return isinstance(numbers, list) and all(type(n) is int and 0 <= n < 2**48 for n in numbers)


def _refuse_gaps(path: Path, offsets: list[tuple[int, int]], size: int) -> None:
    """Tensors fill the file: no bytes between, none twice, none behind."""
    end = 0
    for first, last in sorted(offsets):
        if first != end:
            raise StoreError(
                f"{path}: its tensors overlap or leave gaps at byte {min(first, end)}. The file is damaged."
            )
        end = last
    if end != size:
        word = "truncated" if end > size else "longer than its tensors"
        raise StoreError(f"{path} is {word}: its tensors need {end} bytes, but it has {size}. Get it again.")


def _tensor(path: Path, start: int, name: str, shape: tuple[int, ...], kind: str, offsets: tuple[int, int]) -> Tensor:
    size = offsets[1] - offsets[0]
    if kind in FLOATS:
        return Tensor(shape, size, partial(stored, path, start + offsets[0], shape, FLOATS[kind]))
    return Tensor(shape, size, partial(_no_weights, path, name, kind))


def _no_weights(path: Path, name: str, kind: str) -> np.ndarray:
    raise StoreError(
        f"{path}: the tensor {name} is kept as {kind}; weights in {', '.join(FLOATS)} are read. Quantized ones are read from GGUF."
    )
