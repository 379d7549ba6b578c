"""Arrays with names, axes and attributes as a Zarr 3 folder, which xarray opens.

The format is a corner of Zarr: raw little-endian numbers, cut along the first axis only, all names in one place. The folder
is a function of the arrays and attributes, down to the last byte but the numbers themselves. So reading can be strict: the
metadata is read as plain JSON, the folder that saving would have written is worked out from it, and whatever differs is refused,
before a number is read. Numbers are not compressed: every file has exactly the size that the shapes say, so that no small file
asks for much memory. The checksum covers all metadata and all numbers.
"""

import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tokenfield import _files

DTYPES = ("float32", "float64", "int32", "int64")
"""The numbers that are kept."""

PIECE = 64 * _files.MEGABYTE
"""Arrays are cut along their first axis into files of about this size."""

TEXT = 256 * _files.MEGABYTE
"""The largest metadata; parsed it takes up to thirty times as much memory, so that a small machine takes less of it."""

ROOT = "zarr.json"


class Refused(ValueError):
    """What saving does not write; says what was found."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """How an array lies on disk: `shape`, `dtype` and the names of its `axes` say everything."""

    shape: tuple[int, ...]
    dtype: str
    axes: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes of the numbers."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def piece(self) -> tuple[int, ...]:
        """The shape of the part that goes into one file."""
        if not self.shape:
            return ()
        row = math.prod(self.shape[1:]) * np.dtype(self.dtype).itemsize
        return min(self.shape[0], max(1, PIECE // max(1, row))), *self.shape[1:]

    @property
    def files(self) -> list[str]:
        """The names of the files, in order."""
        if 0 in self.shape:
            return []
        if not self.shape:
            return ["c"]
        count = -(-self.shape[0] // self.piece[0])
        return [".".join(["c", str(k), *("0" for _ in self.shape[1:])]) for k in range(count)]

    @property
    def fill(self) -> Any:
        """What stands for numbers that are not there."""
        return "NaN" if self.dtype.startswith("float") else 0

    @property
    def metadata(self) -> dict[str, Any]:
        """As Zarr has it."""
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(self.shape),
            "data_type": self.dtype,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [max(1, n) for n in self.piece]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
            "fill_value": self.fill,
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "attributes": {},
            "dimension_names": list(self.axes),
            "storage_transformers": [],
        }

    @staticmethod
    def found(name: str, metadata: Any, axes: tuple[str, ...]) -> "Layout":
        """The layout that metadata claims, if it is one of ours."""
        shape, dtype = (metadata.get(key) if isinstance(metadata, dict) else None for key in ("shape", "data_type"))
        if not isinstance(shape, list) or not all(type(n) is int and 0 <= n < 2**48 for n in shape):
            raise Refused(f"the shape of {name} is no list of sizes")
        if dtype not in DTYPES:
            raise Refused(f"the numbers of {name} are {_short(dtype)}, not one of {', '.join(DTYPES)}")
        if len(shape) != len(axes):
            raise Refused(f"{name} has {len(shape)} axes instead of {len(axes)}")
        layout = Layout(tuple(shape), dtype, axes)
        if text_of(metadata) != text_of(layout.metadata):
            raise Refused(f"the metadata of {name} are not what saving writes")
        return layout


def write(folder: Path, arrays: Mapping[str, np.ndarray], axes: Mapping[str, tuple[str, ...]], about: dict) -> None:
    """Write arrays into an empty folder.

    **Arguments**

    - `folder`: an empty folder.
    - `arrays`: the arrays by name.
    - `axes`: the names of their axes.
    - `about`: attributes, plain data.

    **Raises** `OSError` where the folder cannot be written to, `Refused` for numbers or metadata that are not kept.
    """
    layouts = {name: Layout(array.shape, array.dtype.name, axes[name]) for name, array in arrays.items()}
    for name, layout in layouts.items():
        if layout.dtype not in DTYPES:
            raise Refused(f"the numbers of {name} are {layout.dtype}, not one of {', '.join(DTYPES)}")
    if len(root_text(layouts, about, "")) > most_text():
        raise Refused("its parameters and its spec are too large; keep large matrices in files that the spec names")
    total = hashlib.sha256(root_text(layouts, about, ""))
    for name, layout in layouts.items():
        (folder / name).mkdir()
        put(folder / name / ROOT, [text_of(layout.metadata)])
        for place, part in zip(layout.files, _parts(arrays[name], layout), strict=True):
            total.update(part.data)
            short = math.prod(layout.piece) * part.itemsize - part.nbytes
            put(folder / name / place, [part, bytes(short)])
    put(folder / ROOT, [root_text(layouts, about, total.hexdigest())])


def read(folder: Path, table: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read what `write` wrote, and nothing else.

    **Arguments**

    - `folder`: the folder.
    - `table`: a function from the attributes to the names of the arrays that there may be and those of their axes.

    **Returns** the arrays by name, and the attributes.

    **Raises** `Refused` for whatever saving does not write, `OSError` where it cannot be read.
    """
    layouts, about, checksum = _metadata(folder, table)
    _check_files(folder, layouts)
    total = hashlib.sha256(root_text(layouts, about, ""))
    arrays = {name: _numbers(folder / name, layout, total) for name, layout in layouts.items()}
    if total.hexdigest() != checksum:
        raise Refused("its contents do not match their checksum")
    return arrays, about


def parsed(text: bytes | str) -> Any:
    """Plain data from JSON, in which no number is NaN or infinite.

    **Arguments**

    - `text`: the JSON.

    **Returns** the data.

    **Raises** `Refused` where it is not JSON.
    """
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise Refused("its metadata are nested too deeply") from None
    except ValueError as error:
        raise Refused(f"its metadata are not JSON: {_short(error)}") from None


def metadata_file(path: Path) -> Any:
    """Plain data from a small file of JSON; its size is looked at first.

    **Arguments**

    - `path`: the file.

    **Returns** the data.

    **Raises** `Refused` where it is not JSON, `OSError` where it cannot be read.
    """
    return parsed(contents(path, most_text()))


# The metadata


def root_text(layouts: Mapping[str, Layout], about: dict[str, Any], checksum: str) -> bytes:
    """The group's metadata, which repeat those of all arrays.

    **Arguments**

    - `layouts`: how the arrays lie, by name.
    - `about`: attributes, plain data.
    - `checksum`: one of the attributes.

    **Returns** the text of zarr.json.
    """
    inside = {name: layout.metadata for name, layout in layouts.items()}
    return text_of(
        {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": {**about, "checksum": checksum},
            "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": inside},
        }
    )


def _metadata(folder: Path, table: Any) -> tuple[dict[str, Layout], dict[str, Any], str]:
    text = contents(folder / ROOT, most_text())
    root = parsed(text)
    try:
        about, inside = dict(root["attributes"]), root["consolidated_metadata"]["metadata"]
        checksum = about.pop("checksum")
        names = list(inside)
    except (KeyError, TypeError, ValueError):
        raise Refused("its metadata are not those of a saved run") from None
    axes = table(about)
    if unknown := [name for name in names if name not in axes]:
        raise Refused(f"it has an array {_short(unknown[0])}, which no such run has")
    layouts = {name: Layout.found(name, inside[name], axes[name]) for name in names}
    if text != root_text(layouts, about, checksum):
        raise Refused("its metadata are not what saving writes")
    _check_sizes(layouts)
    return layouts, about, checksum


def _check_sizes(layouts: Mapping[str, Layout]) -> None:
    """Axes of one name have one size (`component2` is the second axis of components); all of it fits into memory."""
    sizes: dict[str, int] = {}
    for name, layout in layouts.items():
        for axis, size in zip(layout.axes, layout.shape, strict=True):
            if sizes.setdefault(axis.removesuffix("2"), size) != size:
                raise Refused(f"the axis {axis} of {name} has size {size}, elsewhere {sizes[axis.removesuffix('2')]}")
    refuse_large(sum(layout.size for layout in layouts.values()))


def refuse_large(size: int) -> None:
    """Refuse more bytes than half of the memory.

    **Arguments**

    - `size`: how many bytes there would be.

    **Raises** `Refused`.
    """
    if size > _files.memory() // 2:
        raise Refused(f"it would take {size / 1e9:.3g} GB of {_files.memory() / 1e9:.3g} GB of memory")


def text_of(data: Any) -> bytes:
    """Plain data as JSON.

    **Raises** `Refused` where they are not plain, or a number is not finite.
    """
    try:
        return json.dumps(data, indent=1, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise Refused(f"its metadata cannot be written down: {_short(error)}") from None


def most_text() -> int:
    """How many bytes metadata may have on this machine."""
    return min(TEXT, _files.memory() // 30)


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _short(thing: object) -> str:
    text = repr(thing) if isinstance(thing, str) else str(thing)
    return text if len(text) <= 80 else text[:77] + "..."


# The files


def _check_files(folder: Path, layouts: Mapping[str, Layout]) -> None:
    """Before a number is read: exactly the files that there should be, of exactly the sizes that they should have."""
    check_names(folder, [ROOT], layouts)
    for name, layout in layouts.items():
        check_names(folder / name, [ROOT, *layout.files])
        if contents(folder / name / ROOT, TEXT) != text_of(layout.metadata):
            raise Refused(f"the metadata of {name} are not what saving writes")
        full = math.prod(layout.piece) * np.dtype(layout.dtype).itemsize
        for place in layout.files:
            size = os.lstat(folder / name / place).st_size
            if size != full:
                raise Refused(f"{name}/{place} has {size} bytes instead of {full}")


def check_names(folder: Path, files: Iterable[str], folders: Iterable[str] = ()) -> None:
    """Refuse a folder that holds anything but these ordinary files and folders, or lacks one.

    **Arguments**

    - `folder`: the folder.
    - `files`, `folders`: the names.

    **Raises** `Refused`, `OSError` where it cannot be read.
    """
    missing = {**dict.fromkeys(files, "file"), **dict.fromkeys(folders, "folder")}
    with os.scandir(folder) as entries:
        for entry in entries:
            kind = "file" if entry.is_file(follow_symlinks=False) else "folder"
            kind = kind if kind == "file" or entry.is_dir(follow_symlinks=False) else "link or device"
            if missing.pop(entry.name, None) != kind:
                raise Refused(f"it holds a {kind} {_short(entry.name)}, which saving does not write")
    if missing:
        name, kind = next(iter(missing.items()))
        raise Refused(f"the {kind} {_short(name)} is missing")


def contents(path: Path, limit: int) -> bytes:
    """All of an ordinary file that is no link.

    **Raises** `Refused` where it is something else, or longer than the limit.
    """
    with os.fdopen(_own(path), "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise Refused(f"{path.name} is longer than {limit / _files.MEGABYTE:.3g} MB")
    return data


def _own(path: Path) -> int:
    try:
        return _files.open_own(path)
    except ValueError as error:
        raise Refused(str(error)) from None


def _parts(array: np.ndarray, layout: Layout) -> Iterable[np.ndarray]:
    """What goes into each file."""
    numbers = np.ascontiguousarray(array, np.dtype(layout.dtype).newbyteorder("<"))
    if not layout.shape:
        return [numbers.reshape(1)]
    rows = layout.piece[0]
    return [numbers[k : k + rows] for k in range(0, len(numbers), max(1, rows))] if layout.files else []


def _numbers(folder: Path, layout: Layout, total: Any) -> np.ndarray:
    """The numbers of one array; whatever they are is added to the checksum."""
    array = np.empty(layout.shape, np.dtype(layout.dtype).newbyteorder("<"))
    for place, part in zip(layout.files, _parts(array, layout), strict=True):
        view = part.reshape(-1).data.cast("B")
        with os.fdopen(_own(folder / place), "rb", buffering=0) as file:
            read = 0
            while read < len(view) and (more := file.readinto(view[read:])):
                read += more
            rest = file.read(PIECE)  # a last piece is filled up with zeros
            if rest.count(0) < len(rest):
                raise Refused(f"{folder.name}/{place} holds more than its numbers")
        if read < len(view):
            raise Refused(f"{folder.name}/{place} is too short")
        total.update(view)
    return array.astype(layout.dtype, copy=False)


def put(path: Path, parts: Iterable[Any]) -> None:
    """Write a file to the disk, not only to the system's memory of it."""
    with open(path, "xb", buffering=0) as file:
        for part in parts:
            view = memoryview(part).cast("B") if len(memoryview(part)) else memoryview(b"")
            while len(view):
                view = view[file.write(view) :]
        os.fsync(file.fileno())
