"""What travels between Python and the page: frames of numbers, and JSON that has no infinities."""

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

DTYPES = ("float32", "uint8", "uint16", "int32")
"""What a frame may hold."""


def pack(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """A frame: u32 length of the header | header as JSON, padded to 4 bytes | arrays, raw and little-endian, each padded to 4.

    **Arguments**

    - `header`: plain data; infinities and NaN become null.
    - `arrays`: by name, of the dtypes that the page knows.

    **Returns** the bytes.

    >>> header, arrays = unpack(pack({"t": 1.5}, {"x": np.ones((2, 3), "f4")}))
    >>> header["t"], arrays["x"].shape
    (1.5, (2, 3))
    """
    listed = [[name, array.dtype.name, list(array.shape)] for name, array in arrays.items()]
    assert all(dtype in DTYPES for _, dtype, _ in listed), listed
    head = dumped({**header, "arrays": listed}).encode()
    head += b" " * (-len(head) % 4)
    bodies = [np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes() for array in arrays.values()]
    return b"".join([struct.pack("<I", len(head)), head, *(body + b"\0" * (-len(body) % 4) for body in bodies)])


def unpack(frame: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of a frame."""
    (length,) = struct.unpack_from("<I", frame)
    header, at, arrays = json.loads(frame[4 : 4 + length]), 4 + length, {}
    for name, dtype, shape in header["arrays"]:
        kind, count = np.dtype(dtype).newbyteorder("<"), math.prod(shape)
        arrays[name] = np.frombuffer(frame, kind, count, at).reshape(shape)
        at += kind.itemsize * count
        at += -at % 4
    return header, arrays


def dumped(data: Any) -> str:
    """Plain data as JSON; numbers that JSON does not have become null."""
    return json.dumps(_finite(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _finite(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {str(key): _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    if isinstance(data, np.generic):
        data = data.item()
    return None if isinstance(data, float) and not math.isfinite(data) else data
