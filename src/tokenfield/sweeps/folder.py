"""A sweep on disk: a Zarr folder that xarray opens at any time, in which every block of the grid has files of its own.

The files of a block are written one by one, each whole, and last its mark, `blocks/I.J.json`, with a checksum of its numbers and
the reasons of members that could not be run. A block with a mark is finished; whatever lies there of others is overwritten. So the
sweep may be cut off at any moment. The root says what is swept, over what, and how it is cut; a sweep that says something else is
not the same. Reading is as strict as that of runs: the metadata must be those that would be written, files have the sizes that
follow from them, and numbers match their checksums.
"""

import contextlib
import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenfield.errors import InputError, StoreError, short
from tokenfield.store import arrays, places
from tokenfield.store.arrays import Refused
from tokenfield.sweeps.grid import Axis, Grid, Variable

if TYPE_CHECKING:
    import xarray

    from tokenfield.sweeps.group import Block

FORMAT = 1
MARKS = "blocks"
ALWAYS = {"status": "int32", "reached": "float64", "steps": "int64"}
"""What is known of every member: how it ended, at which time, after how many steps."""
LARGEST = 64 << 20
"""Bytes that a mark may have."""


@dataclasses.dataclass(frozen=True)
class Blocks(arrays.Layout):
    """How an array lies that is cut into blocks; what is not there yet is NaN, or -1."""

    cut: tuple[int, ...] = ()

    @property
    def piece(self) -> tuple[int, ...]:
        return self.cut

    @property
    def fill(self) -> Any:
        return "NaN" if self.dtype.startswith("float") else -1


@dataclasses.dataclass(frozen=True)
class Layout:
    """All that the root of a sweep says: `about` what is swept, the grid, the variables, and `times` where members share them."""

    about: dict[str, Any]
    grid: Grid
    variables: dict[str, Variable]
    times: tuple[float, ...] | None

    @property
    def description(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "format": FORMAT,
            "about": self.about,
            "axes": [dataclasses.asdict(axis) | {"values": list(axis.values)} for axis in self.grid.axes],
            "block": list(self.grid.block),
            "variables": {name: [one.dtype, list(one.shape), list(one.axes)] for name, one in self.variables.items()},
            "times": None if self.times is None else list(self.times),
        }

    @staticmethod
    def found(description: Any) -> "Layout":
        """The layout that a root claims."""
        try:
            if description["format"] != FORMAT:
                raise Refused(f"it has format {short(description['format'])}, but this version reads {FORMAT}")
            axes = tuple(Axis(**{**axis, "values": tuple(axis["values"])}) for axis in description["axes"])
            named = description["variables"].items()
            variables = {name: Variable(one[0], tuple(one[1]), tuple(one[2])) for name, one in named}
            times = description["times"]
            layout = Layout(
                description["about"],
                Grid(axes, tuple(description["block"])),
                variables,
                None if times is None else tuple(times),
            )
        except (KeyError, TypeError, IndexError, AttributeError):
            raise Refused("its metadata are not those of a sweep") from None
        layout.check()
        return layout

    def check(self) -> None:
        """Refuse what no sweep has: names that are none, or lead elsewhere, sizes that do not fit each other, or the machine."""
        axes = self.grid.axes
        if not axes or not all(_is_axis(axis) for axis in axes) or len(self.grid.block) != len(axes):
            raise Refused("its axes make no sense")
        if not all(_is_size(n) and n <= len(axis) for n, axis in zip(self.grid.block, axes, strict=True)):
            raise Refused("its groups make no sense")
        if not set(ALWAYS) <= set(self.variables) or not all(_is_variable(*pair) for pair in self.variables.items()):
            raise Refused("its arrays make no sense")
        if self.times is not None and not all(isinstance(t, float) and math.isfinite(t) for t in self.times):
            raise Refused("its times are no numbers")
        self._check_names()
        arrays.refuse_large(sum(_bytes(self.layout_of(name)) for name in self.variables))

    def _check_names(self) -> None:
        """Every array has a name of its own, and axes of one name have one size."""
        names = [*self.variables, *(axis.name for axis in self.grid.axes), "time"]
        if twice := [name for name in names if names.count(name) > 1 or name == MARKS]:
            raise Refused(f"two of its arrays and axes are called {twice[0]}")
        sizes = {axis.name: len(axis) for axis in self.grid.axes}
        sizes |= {} if self.times is None else {"time": len(self.times)}
        for name in self.variables:
            layout = self.layout_of(name)
            for axis, size in zip(layout.axes, layout.shape, strict=True):
                if layout.axes.count(axis) > 1 or sizes.setdefault(axis, size) != size:
                    raise Refused(f"the axis {axis} of {name} has another size elsewhere")

    @property
    def layouts(self) -> dict[str, arrays.Layout]:
        """How all arrays lie: the variables, and coordinates that are numbers."""
        found = {name: self.layout_of(name) for name in self.variables}
        return found | {name: arrays.Layout((len(v),), v.dtype.name, (name,)) for name, v in self.coordinates.items()}

    def layout_of(self, name: str) -> arrays.Layout:
        """How one array lies."""
        one, grid = self.variables[name], self.grid
        names = tuple(axis.name for axis in grid.axes)
        return Blocks((*grid.shape, *one.shape), one.dtype, (*names, *one.axes), (*grid.block, *one.shape))

    @property
    def coordinates(self) -> dict[str, np.ndarray]:
        """Coordinates that are numbers."""
        found = {} if self.times is None else {"time": np.asarray(self.times, float)}
        for axis in self.grid.axes:
            values = np.asarray(axis.values) if not isinstance(axis.values[0], list) else np.asarray([""])
            if values.dtype.kind in "if" and values.ndim == 1:
                found[axis.name] = values.astype(float if values.dtype.kind == "f" else np.int64)
        return found

    @property
    def root(self) -> bytes:
        return arrays.root_text(self.layouts, {"sweep": self.description}, "")

    def file(self, place: tuple[int, ...], name: str) -> str:
        """The file of a block of a variable."""
        return ".".join(["c", *map(str, place), *("0" for _ in self.variables[name].shape)])


class Folder:
    """A sweep's folder: what is finished, and what becomes finished."""

    def __init__(self, path: Path, layout: Layout):
        self.path, self.layout = path, layout

    # Beginning and going on

    @staticmethod
    def begun(path: str | os.PathLike[str], layout: Layout) -> "Folder":
        """The folder of this sweep: made, or found as it was left.

        **Raises** `StoreError` where another sweep, or something else, has the name.
        """
        path = Path(path).absolute()
        try:
            if not places.standing(path):
                with contextlib.suppress(FileExistsError), places.replacing(path, fresh=True) as new:
                    _make(new, layout)
            before = Folder.opened(path)
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror or error}. Choose another --out.") from None
        except Refused as error:
            raise InputError(f"The sweep cannot be kept: {error}.") from None
        changed = differences(before.layout.description, layout.description)
        if changed:
            raise StoreError(
                f"{path} holds another sweep; nothing was overwritten. There and here differ:\n"
                + "\n".join(f"  {line}" for line in changed)
                + "\nGive the same sweep to go on with it, or choose another --out."
            )
        return before

    @staticmethod
    def opened(path: str | os.PathLike[str]) -> "Folder":
        """A sweep that was begun.

        **Raises** `StoreError` where there is none.
        """
        path = Path(path).absolute()
        standing = places.standing(path)
        if not standing:
            raise StoreError(f"There is no sweep at {path}. Check the name.")
        try:
            text = arrays.contents(standing[0] / arrays.ROOT, arrays.most_text())
            layout = Layout.found(_described(text))
            if text != layout.root:
                raise Refused("its metadata are not those that a sweep writes")
            _check_folder(standing[0], layout)
        except OSError as error:
            raise StoreError(f"{path} holds no sweep, or cannot be read: {error.strerror or error}.") from None
        except (Refused, ValueError) as error:
            raise StoreError(f"{path} cannot be read as a sweep ({error}). It is damaged or something else.") from None
        return Folder(standing[0], layout)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """While a sweep goes on, nobody else writes to its folder.

        **Raises** `StoreError` where somebody does.
        """
        with places.held(self.path, wait=False) as mine:
            if not mine and places.fcntl is not None:
                raise StoreError(
                    f"Another process is computing the sweep {self.path}. Wait for it, or choose another --out."
                )
            self._tidy()
            yield

    def _tidy(self) -> None:
        """Take away files that were never finished."""
        for folder in (self.path / MARKS, *(self.path / name for name in self.layout.variables)):
            with contextlib.suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.startswith(".part"):
                        os.unlink(entry.path)

    # Blocks

    def done(self) -> set[tuple[int, ...]]:
        """The blocks that are finished: those with a mark, and files of the right size."""
        return {place for place in self._marked() if all(self._whole(place, name) for name in self.layout.variables)}

    def sound(self) -> set[tuple[int, ...]]:
        """The blocks that are finished and whose marks can be read; the others are computed again."""
        found = set()
        for place in self.done():
            with contextlib.suppress(StoreError):
                self.mark(place)
                found.add(place)
        return found

    def _marked(self) -> list[tuple[int, ...]]:
        with os.scandir(self.path / MARKS) as entries:
            found = [_place(entry.name) for entry in entries]
        blocks = self.layout.grid.blocks
        within = lambda place: len(place) == len(blocks) and all(k < n for k, n in zip(place, blocks, strict=True))
        return [place for place in found if place is not None and within(place)]

    def _whole(self, place: tuple[int, ...], name: str) -> bool:
        try:
            size = os.lstat(self.path / name / self.layout.file(place, name)).st_size
        except OSError:
            return False
        return size == _bytes(self.layout.layout_of(name))

    def keep(self, block: "Block") -> None:
        """Write what came of a block, its mark last.

        **Raises** `StoreError` where the disk is full, or gone; the block is then not finished, and all others are kept.
        """
        grid = self.layout.grid
        total = hashlib.sha256()
        try:
            for name, one in self.layout.variables.items():
                data = self._piece(block, name, one)
                total.update(data)
                self._put(name, self.layout.file(block.place, name), data)
            mark = {"checksum": total.hexdigest(), "seconds": block.seconds, "reasons": block.reasons}
            self._put(MARKS, _mark(block.place), json.dumps(mark).encode())
        except OSError as error:
            raise StoreError(
                f"The sweep could not be written to {self.path}: {error.strerror or error}. {len(self.done())} of {len(grid)} "
                "groups are kept there; the same command goes on from them."
            ) from None

    def _piece(self, block: "Block", name: str, one: Variable) -> bytes:
        """The numbers of a variable in a block, filled up to the full size of a piece."""
        whole = np.full(self.layout.layout_of(name).piece, one.fill, np.dtype(one.dtype).newbyteorder("<"))
        given = block.arrays[name]
        whole[tuple(slice(0, n) for n in given.shape)] = given
        return whole.tobytes()

    def _put(self, folder: str, name: str, data: bytes) -> None:
        """A file, whole or not at all."""
        part = self.path / folder / f".part.{name}"
        try:
            part.unlink(missing_ok=True)
            arrays.put(part, [data])
            os.replace(part, self.path / folder / name)
        except OSError:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            raise

    # Reading

    def marks(self) -> Iterator[tuple[tuple[int, ...], dict[str, Any]]]:
        """The marks of all finished blocks."""
        for place in sorted(self.done()):
            yield place, self.mark(place)

    def mark(self, place: tuple[int, ...]) -> dict[str, Any]:
        """The mark of a block: the checksum of its numbers, the seconds that it took, and why members could not be run.

        **Raises** `StoreError` where it cannot be read.
        """
        name = _mark(place)
        try:
            mark = arrays.parsed(arrays.contents(self.path / MARKS / name, LARGEST))
            reasons = {int(number): str(why) for number, why in mark["reasons"].items()}
            found = {"checksum": str(mark["checksum"]), "reasons": reasons, "seconds": float(mark["seconds"])}
        except (KeyError, TypeError, AttributeError, ValueError, OSError) as error:
            raise StoreError(
                f"The mark {name} of a group in {self.path} cannot be read ({short(str(error))}). The command that began the "
                "sweep computes the group again."
            ) from None
        if not all(0 <= number < self.layout.grid.members for number in reasons):
            raise StoreError(f"The mark {name} of a group in {self.path} tells of members that there are not.")
        return found

    def reasons(self) -> dict[int, str]:
        """Why members could not be run, by their numbers."""
        return {number: why for _, mark in self.marks() for number, why in mark["reasons"].items()}

    def read(self, names: list[str] | None = None) -> "xarray.Dataset":
        """What is finished, as a data set; the rest is NaN, or -1.

        **Arguments**

        - `names`: the variables; all when left out.

        **Raises** `StoreError` where numbers do not match their checksum, or do not fit into memory.
        """
        import xarray

        layout, grid = self.layout, self.layout.grid
        chosen = list(layout.variables) if names is None else names
        try:
            arrays.refuse_large(sum(layout.layouts[name].size for name in chosen))
        except Refused as error:
            raise StoreError(
                f"{self.path}: {error}. Open it with xarray.open_zarr, which reads what is used."
            ) from None
        found = {}
        for name in chosen:
            one = layout.variables[name]
            found[name] = np.full((*grid.shape, *one.shape), one.fill, one.dtype)
        reasons = {}
        for place, mark in self.marks():
            self._paste(place, mark["checksum"], found)
            reasons |= mark["reasons"]
        dims = lambda name: (*(axis.name for axis in grid.axes), *layout.variables[name].axes)
        words = {a.name: np.asarray([v if isinstance(v, str) else json.dumps(v) for v in a.values]) for a in grid.axes}
        coords = {name: values for name, values in words.items() if name not in layout.coordinates}
        return xarray.Dataset(
            {name: (dims(name), values) for name, values in found.items()},
            coords={**coords, **layout.coordinates},
            attrs={"sweep": json.dumps(layout.about), "failures": json.dumps(reasons)},
        )

    def _paste(self, place: tuple[int, ...], checksum: str, found: dict[str, np.ndarray]) -> None:
        """The numbers of one block, into their place."""
        total = hashlib.sha256()
        here = self.layout.grid.slices(place)
        inside = tuple(slice(0, n) for n in self.layout.grid.extent(place))
        for name, one in self.layout.variables.items():
            layout = self.layout.layout_of(name)
            try:
                data = arrays.contents(self.path / name / self.layout.file(place, name), _bytes(layout))
            except (Refused, OSError) as error:
                raise StoreError(f"{name} of group {_mark(place)} in {self.path} cannot be read ({error}).") from None
            total.update(data)
            if name in found:
                numbers = np.frombuffer(data, np.dtype(one.dtype).newbyteorder("<")).reshape(layout.piece)
                found[name][here] = numbers[inside]
        if total.hexdigest() != checksum:
            raise StoreError(
                f"Group {_mark(place)} of {self.path} does not match its checksum. Delete its mark in {MARKS}/, and the same "
                "command computes it again."
            )


def differences(there: Any, here: Any, path: str = "") -> list[str]:
    """Where two descriptions differ, one line each.

    >>> differences({"time": {"end": 20.0}}, {"time": {"end": 30.0}, "x": 1})
    ['time.end: 20.0 there, 30.0 here', 'x: nothing there, 1 here']
    """
    if isinstance(there, dict) and isinstance(here, dict):
        keys = list(dict.fromkeys([*there, *here]))
        told = lambda data, key: data.get(key, _NOTHING)
        return [
            line for key in keys for line in differences(told(there, key), told(here, key), f"{path}.{key}".strip("."))
        ]
    if (
        isinstance(there, list)
        and isinstance(here, list)
        and len(there) == len(here)
        and any(isinstance(x, dict) for x in here)
    ):
        pairs = enumerate(zip(there, here, strict=True))
        return [line for k, (a, b) in pairs for line in differences(a, b, f"{path}[{k}]")]
    return [] if there == here else [f"{path}: {_told(there)} there, {_told(here)} here"]


_NOTHING = object()


def _told(value: Any) -> str:
    if value is _NOTHING:
        return "nothing"
    if isinstance(value, list | tuple) and len(value) > 6:
        return f"{len(value)} values from {short(value[0])} to {short(value[-1])}"
    return short(value)


def _is_axis(axis: Axis) -> bool:
    plain = all(isinstance(one, str) and one.isprintable() for one in (axis.path, axis.name)) and _is_name(axis.name)
    return plain and 0 < len(axis) < 2**31 and all(map(_is_value, axis.values)) and isinstance(axis.alike, bool)


def _is_value(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_value, value))
    return value.isprintable() if isinstance(value, str) else isinstance(value, bool | int | float)


def _is_variable(name: str, one: Variable) -> bool:
    sizes = len(one.shape) == len(one.axes) and all(map(_is_size, one.shape))
    return _is_name(name) and sizes and all(map(_is_name, one.axes)) and one.dtype in arrays.DTYPES


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and name.isidentifier()


def _is_size(number: Any) -> bool:
    return type(number) is int and 0 < number < 2**40


def _check_folder(folder: Path, layout: Layout) -> None:
    """Refuse a folder whose parts are not those of the sweep, or lie elsewhere."""
    arrays.check_names(folder, [arrays.ROOT], [MARKS, *layout.layouts])
    for name, one in layout.layouts.items():
        if arrays.contents(folder / name / arrays.ROOT, arrays.TEXT) != arrays.text_of(one.metadata):
            raise Refused(f"the metadata of {name} are not those that a sweep writes")
    for name, values in layout.coordinates.items():
        data = np.ascontiguousarray(values).tobytes()
        if arrays.contents(folder / name / "c.0", len(data)) != data:
            raise Refused(f"the values of {name} are not those that its metadata tell")


def _make(folder: Path, layout: Layout) -> None:
    """The folder of a sweep of which nothing is computed."""
    for name, one in layout.layouts.items():
        (folder / name).mkdir()
        arrays.put(folder / name / arrays.ROOT, [arrays.text_of(one.metadata)])
    for name, values in layout.coordinates.items():
        arrays.put(folder / name / "c.0", [np.ascontiguousarray(values).tobytes()])
    (folder / MARKS).mkdir()
    arrays.put(folder / arrays.ROOT, [layout.root])


def _described(text: bytes) -> Any:
    root = arrays.parsed(text)
    try:
        return root["attributes"]["sweep"]
    except (KeyError, TypeError):
        raise Refused("it is no sweep") from None


def _mark(place: tuple[int, ...]) -> str:
    return f"{'.'.join(map(str, place))}.json"


def _place(name: str) -> tuple[int, ...] | None:
    """The block that a mark of this name belongs to; None where it is no mark's."""
    numbers = name.removesuffix(".json").split(".")
    place = tuple(int(one) for one in numbers if one.isdecimal() and len(one) < 10)
    return place if _mark(place) == name else None


def _bytes(layout: arrays.Layout) -> int:
    """Bytes of one file."""
    return math.prod(layout.piece) * np.dtype(layout.dtype).itemsize
