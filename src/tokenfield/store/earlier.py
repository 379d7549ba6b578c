"""The format that was written before: Zarr 2 through xarray, numbers compressed by Blosc's LZ4. It is read as strictly.

A compressed piece says in its header how many numbers it holds, which must be what the shapes say before it is decoded; LZ4 cannot
make more than 255 bytes of one. The checksum of this format covers the numbers alone.
"""

import itertools
import math
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from tokenfield.store.arrays import DTYPES, Refused, check_names, metadata_file, refuse_large

ATTRIBUTES, GROUP, ARRAY, ALL = ".zattrs", ".zgroup", ".zarray", ".zmetadata"
RATIO = 256
"""How many bytes a compressed one may become."""
HEADER = 16
"""Bytes of a Blosc header: version, its format's version, flags, size of a number, then three sizes of four bytes each."""
PIECES = 100_000
"""The largest number of files of an array."""


def is_earlier(folder: Path) -> bool:
    """Whether a folder claims to be of the earlier format.

    **Arguments**

    - `folder`: the folder.

    **Returns** the answer.
    """
    return os.path.lexists(folder / ALL)


def read(folder: Path, table: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read a run of the earlier format, as `arrays.read` does one of today's.

    **Arguments**

    - `folder`: the folder.
    - `table`: a function from the attributes to the names of the arrays that there may be and those of their axes.

    **Returns** the arrays by name, and the attributes.

    **Raises** `Refused` for whatever saving did not write, `OSError` where it cannot be read.
    """
    shapes, about = _metadata(folder, table)
    checksum = about.pop("checksum", None)
    check_names(folder, [ATTRIBUTES, GROUP, ALL], shapes)
    pieces = {name: _pieces(folder, name, metadata) for name, metadata in shapes.items()}
    on_disk = sum(size for files in pieces.values() for size in files.values())
    wanted = sum(math.prod(metadata["shape"]) * 8 for metadata in shapes.values())
    refuse_large(wanted)
    if wanted > RATIO * on_disk + 1e6:
        raise Refused(f"its {on_disk} bytes cannot be {wanted / 1e6:.3g} MB of numbers")
    arrays = {name: _numbers(folder / name, shapes[name], files) for name, files in pieces.items()}
    total = 0
    for name in (name for name in table(about) if name in arrays):
        total = zlib.crc32(np.ascontiguousarray(arrays[name]).tobytes(), total)
    if total != checksum:
        raise Refused("its numbers do not match their checksum")
    return arrays, about


def _metadata(folder: Path, table: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The metadata of all arrays, and the attributes."""
    together = metadata_file(folder / ALL)
    try:
        inside = dict(together["metadata"])
        about, group = dict(inside.pop(ATTRIBUTES)), inside.pop(GROUP)
        names = [key.removesuffix(f"/{ARRAY}") for key in inside if key.endswith(f"/{ARRAY}")]
    except (KeyError, TypeError, ValueError):
        raise Refused("its metadata are not those of a saved run") from None
    axes = table({"measure": '{"kind": "Tokens"}', **{k: v for k, v in about.items() if k != "checksum"}})
    right = {"metadata": {GROUP: {"zarr_format": 2}, ATTRIBUTES: about}, "zarr_consolidated_format": 1}
    for name in names:
        if name not in axes:
            raise Refused(f"it has an array {name[:40]!r}, which no such run has")
        _refuse_other_arrays(name, inside[f"{name}/{ARRAY}"], len(axes[name]))
        right["metadata"][f"{name}/{ARRAY}"] = inside[f"{name}/{ARRAY}"]
        right["metadata"][f"{name}/{ATTRIBUTES}"] = {"_ARRAY_DIMENSIONS": list(axes[name])}
    apart = {ATTRIBUTES: about, GROUP: group} | inside
    if together != right or any(metadata_file(folder / key) != value for key, value in apart.items()):
        raise Refused("its metadata are not what saving wrote")
    about.setdefault("measure", '{"kind": "Tokens"}')
    return {name: inside[f"{name}/{ARRAY}"] for name in names}, about


def _refuse_other_arrays(name: str, metadata: Any, axes: int) -> None:
    """Shapes, pieces and numbers as saving chose them, compressed as saving did, and nothing else."""
    known = {np.dtype(dtype).newbyteorder("<").str: dtype for dtype in DTYPES}
    sizes: list[Any] = [metadata.get(key) if isinstance(metadata, dict) else None for key in ("shape", "chunks")]
    if not all(isinstance(size, list) and len(size) == axes and all(type(n) is int for n in size) for size in sizes):
        raise Refused(f"the shape of {name} is no list of {axes} sizes")
    shape, chunks = sizes
    if not all(0 <= n < 2**48 and 1 <= k <= max(1, n) for n, k in zip(shape, chunks, strict=True)):
        raise Refused(f"the shape of {name} cannot be")
    dtype = metadata.get("dtype")
    if type(dtype) is not str or dtype not in known:
        raise Refused(f"the numbers of {name} are {str(dtype)[:40]}, not one of {', '.join(DTYPES)}")
    right = {
        "shape": shape,
        "chunks": chunks,
        "dtype": dtype,
        "fill_value": "NaN" if dtype[1] == "f" else metadata.get("fill_value"),
        "order": "C",
        "filters": None,
        "dimension_separator": ".",
        "compressor": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
        "zarr_format": 2,
    }
    if metadata != right or right["fill_value"] not in ("NaN", 0, None):
        raise Refused(f"the metadata of {name} are not what saving wrote")


def _pieces(folder: Path, name: str, metadata: Any) -> dict[str, int]:
    """The files of an array and their sizes. Zarr does not write pieces of whole numbers that are all zero."""
    shape, chunks = metadata["shape"], metadata["chunks"]
    counts = [-(-n // k) for n, k in zip(shape, chunks, strict=True)]
    if math.prod(counts) > PIECES:
        raise Refused(f"{name} is cut into {math.prod(counts)} pieces")
    every = [".".join(map(str, index)) for index in itertools.product(*map(range, counts))]
    there = [place for place in every if metadata["dtype"][1] == "f" or os.path.lexists(folder / name / place)]
    check_names(folder / name, [ARRAY, ATTRIBUTES, *there])
    return {place: os.lstat(folder / name / place).st_size for place in there}


def _numbers(folder: Path, metadata: Any, files: dict[str, int]) -> np.ndarray:
    import numcodecs.blosc

    dtype, chunks = np.dtype(metadata["dtype"]), metadata["chunks"]
    array, size = np.zeros(metadata["shape"], dtype), math.prod(chunks) * dtype.itemsize
    for place, length in files.items():
        data = (folder / place).read_bytes() if length <= size + 4096 else b""
        sizes = [int.from_bytes(data[k : k + 4], "little") for k in (4, 8, 12)]
        if len(data) < HEADER or sizes[0] != size or sizes[2] != len(data) or size > RATIO * len(data):
            raise Refused(f"{folder.name}/{place} is damaged")
        piece = np.empty(chunks, dtype)
        try:
            numcodecs.blosc.decompress(data, piece)
        except RuntimeError as error:
            raise Refused(f"{folder.name}/{place} is damaged: {error}") from None
        first = [int(index) * k for index, k in zip(place.split("."), chunks, strict=True)]
        where = tuple(slice(at, at + k) for at, k in zip(first, chunks, strict=True))
        array[where] = piece[tuple(slice(0, n) for n in array[where].shape)]
    return array
