"""Weights in GGUF files. The header is read here, strictly; the `gguf` package knows the kinds of quantized numbers."""

import math
import os
import struct
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from tokenfield import _files
from tokenfield.errors import InputError, StoreError, short
from tokenfield.transformer.files.plain import opened
from tokenfield.transformer.files.tensors import Tensor, Weights, stored

MOST = 1 << 16
"""How many fields, and how many tensors, there may be."""
HEADER = 64 * _files.MEGABYTE
"""The longest header: a vocabulary with its merges takes a few of these."""
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Kinds of numbers in the header, as `struct` names them."""
STRING, ARRAY = 8, 9


class Gguf(NamedTuple):
    """What a GGUF file holds: `fields` by name, and `tensors`."""

    fields: Mapping[str, Any]
    tensors: Weights


def read(path: Path) -> Gguf:
    """The fields and tensors of a GGUF file.

    **Arguments**

    - `path`: the file.

    **Returns** both; numbers are read and dequantized when a tensor is asked for.

    **Raises** `StoreError` where the file is truncated, damaged or no GGUF, `InputError` where the `gguf` package is not installed.
    """
    library()
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        header = Header(path, file, min(size, HEADER, _files.memory() // 30))
        fields, entries = header.all()
        start = _aligned(file.tell(), header.alignment(fields))
    return Gguf(fields, {name: _tensor(path, start, size, name, entry) for name, entry in entries.items()})


class Entry(NamedTuple):
    """What the header says of a tensor."""

    shape: tuple[int, ...]
    kind: int
    offset: int


class Header:
    """A reader of the header, which never reads beyond the end, nor believes a length that the file does not have."""

    def __init__(self, path: Path, file: BinaryIO, end: int):
        self.path, self.file, self.end = path, file, end

    def all(self) -> tuple[dict[str, Any], dict[str, Entry]]:
        """The fields, and what is said of the tensors."""
        if self.take(4) != b"GGUF":
            raise StoreError(f"{self.path} is no GGUF file: it does not begin like one.")
        if (version := self.number("I")) not in (2, 3):
            raise StoreError(f"{self.path} is GGUF of version {version}; versions 2 and 3, little-endian, are read.")
        tensors, fields = self.number("Q"), self.number("Q")
        if max(tensors, fields) > MOST:
            raise self.damaged(f"it claims {tensors} tensors and {fields} fields")
        return self._named(fields, lambda: self.value(self.number("I"))), self._named(tensors, self._entry)

    def _named(self, count: int, one: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in range(count):
            name = self.string()
            if name in found:
                raise self.damaged(f"the name {short(name)} stands twice")
            found[name] = one()
        return found

    def _entry(self) -> Entry:
        if not 1 <= (axes := self.number("I")) <= 4:
            raise self.damaged(f"a tensor has {axes} axes")
        shape = tuple(self.number("Q") for _ in range(axes))[::-1]
        return Entry(shape, self.number("I"), self.number("Q"))

    def alignment(self, fields: Mapping[str, Any]) -> int:
        """Where numbers may begin: at multiples of this."""
        step = fields.get("general.alignment", 32)
        if type(step) is not int or not 1 <= step <= 1 << 20 or step & (step - 1):
            raise self.damaged(f"it aligns tensors to {short(step)} bytes")
        return step

    def value(self, kind: int) -> Any:
        """A number, a text, or an array of them."""
        if kind in SCALARS:
            return self.number(SCALARS[kind])
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            raise self.damaged(f"a field is of kind {kind}, which there is not")
        kind, count = self.number("I"), self.number("Q")
        if kind in SCALARS:
            code = f"<{SCALARS[kind]}"
            return list(struct.unpack(f"<{count}{code[1]}", self.take(count * struct.calcsize(code))))
        if kind != STRING or 8 * count > self.end - self.file.tell():
            raise self.damaged(f"an array claims {count} parts of kind {kind}")
        return [self.string() for _ in range(count)]

    def number(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))[0]

    def string(self) -> str:
        return self.take(self.number("Q")).decode("utf-8", errors="replace")

    def take(self, length: int) -> bytes:
        """The next bytes."""
        if length > self.end - self.file.tell():
            raise self.damaged(f"{length} more bytes are claimed, which it does not have")
        data = self.file.read(length)
        if len(data) < length:
            raise self.damaged("it ends in its header")
        return data

    def damaged(self, why: str) -> StoreError:
        return StoreError(f"{self.path} is truncated or damaged: {why}. Get it again.")


def _aligned(position: int, step: int) -> int:
    return -(-position // step) * step


def _tensor(path: Path, start: int, size: int, name: str, entry: Entry) -> Tensor:
    kinds = library().constants.GGML_QUANT_SIZES
    if entry.kind not in kinds or any(n >= 2**40 for n in entry.shape):
        raise StoreError(
            f"{path}: the tensor {short(name)} is of kind {entry.kind} and shape {entry.shape}, which is not known."
        )
    block, length = kinds[entry.kind]
    *rows, last = entry.shape
    if last % block:
        raise StoreError(f"{path}: rows of {last} numbers of the tensor {short(name)} are not whole blocks of {block}.")
    width = last // block * length
    if start + entry.offset + math.prod(rows) * width > size:
        raise StoreError(f"{path} is truncated: it ends before the numbers of {short(name)}. Get it again.")
    held = (math.prod(rows) * width) + 8 * math.prod(entry.shape)
    return Tensor(entry.shape, held, partial(_numbers, path, start + entry.offset, (*rows, width), name, entry))


def _numbers(path: Path, offset: int, rows: tuple[int, ...], name: str, entry: Entry) -> np.ndarray:
    gguf = library()
    kind = gguf.constants.GGMLQuantizationType(entry.kind)
    raw = stored(path, offset, rows, np.dtype("u1"))
    if kind.name == "F64":
        return raw.view("<f8").reshape(entry.shape)
    try:
        return gguf.quants.dequantize(raw, kind).reshape(entry.shape)
    except Exception as error:  # the package raises plain exceptions
        raise StoreError(
            f"{path}: the tensor {name} of kind {kind.name} cannot be dequantized: {short(str(error))}."
        ) from None


def library() -> Any:
    """The `gguf` package, where it is installed."""
    try:
        import gguf.constants
        import gguf.quants
    except ImportError:
        raise InputError("GGUF files need a library: pip install 'tokenfield[models]'.") from None
    return gguf
