"""Labelled data on disk: a data set of xarray's as numbers in a Zarr folder, with all that is known about it. It is read as
strictly as runs are: plain numbers and plain words, no codecs, no objects, nothing that runs."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenfield.errors import StoreError, short
from tokenfield.store import arrays, places
from tokenfield.store.arrays import Refused

if TYPE_CHECKING:
    import xarray

LABELS = "labels"
"""The attribute that says how arrays are labelled."""


def save(data: "xarray.Dataset", path: str | os.PathLike[str], about: dict[str, Any]) -> None:
    """Write a data set, whole or not at all.

    **Arguments**

    - `data`: arrays of numbers; coordinates may be words.
    - `path`: a folder such as data.zarr; one that is there is replaced.
    - `about`: what is known about it, as plain data.

    **Raises** `StoreError` where it cannot be written, or holds something else than numbers and words.
    """
    path = Path(path).absolute()
    try:
        numbers, axes, labels = _taken_apart(data)
        with places.replacing(path) as new:
            arrays.write(new, numbers, axes, {**about, LABELS: labels})
    except Refused as error:
        raise StoreError(f"The data cannot be kept in {path}: {error}.") from None
    except OSError as error:
        raise StoreError(
            f"The data could not be written to {path}: {error.strerror or error}. What was there before is kept."
        ) from None


def load(path: str | os.PathLike[str]) -> "tuple[xarray.Dataset, dict[str, Any]]":
    """Read what `save` wrote, and nothing else.

    **Arguments**

    - `path`: the folder.

    **Returns** the data set, and what is known about it.

    **Raises** `StoreError` where there is nothing, or something else.
    """
    standing = places.standing(Path(path).absolute())
    if not standing:
        raise StoreError(f"There are no data at {path}. Check the name.")
    try:
        numbers, about = arrays.read(standing[0], lambda about: _axes(about.get(LABELS)))
        return _put_together(numbers, about.pop(LABELS)), about
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}.") from None
    except (Refused, KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"{path} cannot be read as labelled data ({error}). It is incomplete, damaged or something else."
        ) from None


def _taken_apart(data: "xarray.Dataset") -> tuple[dict[str, np.ndarray], dict[str, tuple[str, ...]], dict[str, Any]]:
    """Numbers by name, their axes, and the labels: axes, coordinates, words, and what is true or false."""
    numbers, axes, words, flags = {}, {}, {}, []
    for name, variable in data.variables.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise Refused(f"an array is called {short(name)}, which is no name")
        values, dimensions = np.asarray(variable.values), tuple(map(str, variable.dims))
        if values.dtype.kind in "UOT":
            if not all(isinstance(one, str) for one in values.ravel().tolist()) or values.ndim != 1:
                raise Refused(f"{name} holds something else than numbers or words in a row")
            words[name] = [list(dimensions), values.tolist()]
        else:
            flags += [name] if values.dtype.kind == "b" else []
            numbers[name] = values.astype(np.int64) if values.dtype.kind == "b" else values
            axes[name] = dimensions
    labels = {
        "axes": {name: list(dimensions) for name, dimensions in axes.items()},
        "coordinates": sorted(map(str, data.coords)),
        "words": words,
        "flags": flags,
    }
    return numbers, axes, labels


def _axes(labels: Any) -> dict[str, tuple[str, ...]]:
    """The axes that labels claim, if they are ours."""
    if not isinstance(labels, dict) or set(labels) != {"axes", "coordinates", "words", "flags"}:
        raise Refused("its labels are missing")
    if not isinstance(labels["axes"], dict) or not isinstance(labels["words"], dict):
        raise Refused("its labels are not those of a table")
    named = {**labels["axes"], **{name: pair[0] for name, pair in labels["words"].items()}}
    for name, dimensions in named.items():
        if not name.isidentifier() or not isinstance(dimensions, list):
            raise Refused(f"an array is called {short(name)}, or has no axes")
        if not all(isinstance(axis, str) and axis.isidentifier() for axis in dimensions):
            raise Refused(f"the axes of {name} are no names")
    return {name: tuple(dimensions) for name, dimensions in labels["axes"].items()}


def _put_together(numbers: dict[str, np.ndarray], labels: dict[str, Any]) -> "xarray.Dataset":
    import xarray

    truth = set(labels["flags"])
    plain = {name: values.astype(bool) if name in truth else values for name, values in numbers.items()}
    found = {name: (tuple(labels["axes"][name]), values) for name, values in plain.items()}
    found |= {name: (tuple(pair[0]), np.asarray(pair[1], dtype=str)) for name, pair in labels["words"].items()}
    known = set(labels["coordinates"])
    return xarray.Dataset(
        {name: pair for name, pair in found.items() if name not in known},
        coords={name: pair for name, pair in found.items() if name in known},
    )
