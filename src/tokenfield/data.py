"""Runs as labelled data: arrays with named dimensions, and coordinates for what varies among the members of an ensemble."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from tokenfield.flow import Flow
from tokenfield.trajectory import Trajectory

if TYPE_CHECKING:
    import xarray

PARTS = ("attention", "normalization", "mlp", "reweighting")
"""The parts of a flow whose kinds may vary."""

NUMBERS = ("code", "reached", "steps", "accepted")
"""What an ensemble has one of per member."""

MERGERS = ("t", "into", "gone", "left")


def to_xarray(run: Trajectory) -> "xarray.Dataset":
    """The run as a data set; `Trajectory.to_xarray` says what is in it."""
    import xarray

    coords = {"time": times_of(run)} | {name: ((axis,), values) for name, (axis, values) in coordinates(run).items()}
    return xarray.Dataset(variables(run), coords=coords, attrs={"run": json.dumps(run.describe())})


def variables(run: Trajectory) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """The arrays of a run by name, each with its dimensions."""
    front, mu = axes_of(run), run.states
    time = () if run.observed is not None else ("time",)
    found = {}
    for name, array in (mu.arrays_with_mass if front else mu.arrays).items():
        values = np.asarray(array)
        values = values if time else np.squeeze(values, axis=len(front))
        found[name] = ((*front, *time, *mu.axes[name]), values)
    for name, array in (run.observed or {}).items():
        extra = tuple(f"{name}_{k}" for k in range(array.ndim - len(front) - 1))
        found[name] = ((*front, "time", *extra), np.asarray(array))
    if front:
        found |= {name: (front, np.asarray(getattr(run, name))) for name in NUMBERS}
        found["times"] = ((*front, "time"), np.asarray(run.times))
    if run.rescaled is not None:
        found["rescaled"] = ((*front, "time"), np.asarray(run.rescaled))
    if run.mergers is not None:
        found |= {f"merger_{name}": ((*front, "merger"), np.asarray(getattr(run.mergers, name))) for name in MERGERS}
    return found


def axes_of(run: Trajectory) -> tuple[str, ...]:
    """The names of a batch's axes: flow and start, or run where flow i ran from start i; () for one run."""
    known = run.provenance.axes
    return known if len(known) == len(run.batch) else tuple(f"batch_{k}" for k in range(len(run.batch)))


def times_of(run: Trajectory) -> np.ndarray:
    """The save times that all members share: those of one that went farthest. (A member that ended early holds its last.)"""
    times = np.asarray(run.times)
    flat = times.reshape(-1, times.shape[-1])
    return flat[np.argmax(flat[:, -1])]


def coordinates(run: Trajectory) -> dict[str, tuple[str, np.ndarray]]:
    """What varies among the members of a batch, found by comparing them: its name (with that of the axis before it, where an
    array has the name already), the axis along which it varies, and its values."""
    found: dict[str, tuple[str, np.ndarray]] = {}
    taken = {"time", *NUMBERS, *run.states.arrays, *(run.observed or {})} if run.batch else set()
    for axis, rows in _members(run):
        for name, values in varying(rows).items():
            found[name if name not in found and name not in taken else f"{axis}_{name}"] = (axis, values)
    return found


def _members(run: Trajectory) -> list[tuple[str, list[dict[str, Any]]]]:
    """For each axis of a batch, what its flows or starts are made of."""
    axes = axes_of(run)
    starts = (run.provenance.origin or {}).get("starts")
    found = []
    for axis in axes:
        if axis in ("flow", "run"):
            found.append((axis, [_numbers(flow) for flow in run.flows()]))
        if axis in ("start", "run") and starts is not None:
            found.append((axis, [{} if origin is None else origin for origin in starts]))
    return found


def _numbers(flow: Flow | None) -> dict[str, Any]:
    """The kinds of a flow's parts, and its numbers by their paths."""
    if flow is None:
        return {}
    kinds = {part: type(getattr(flow, part)).__name__ for part in PARTS if getattr(flow, part) is not None}
    leaves, _ = jax.tree_util.tree_flatten_with_path(flow)
    name = lambda path: jax.tree_util.keystr(path).lstrip(".")
    return kinds | {name(path): float(leaf) for path, leaf in leaves if hasattr(leaf, "shape") and np.shape(leaf) == ()}


def varying(rows: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Of several descriptions, what is not the same in all of them: numbers (NaN where one has none) and words.

    >>> {name: values.tolist() for name, values in varying([{"a.beta": 1.0, "d": 3}, {"a.beta": 4.0, "d": 3}]).items()}
    {'beta': [1.0, 4.0]}
    """
    keys = list(dict.fromkeys(key for row in rows for key in row))
    plain = lambda value: value is None or isinstance(value, int | float | str)
    columns = {key: [row.get(key) for row in rows] for key in keys}
    columns = {key: column for key, column in columns.items() if all(map(plain, column)) and len(set(column)) > 1}
    short = [key.rsplit(".", 1)[-1] for key in columns]
    names = [name if short.count(name) == 1 else key for name, key in zip(short, columns, strict=True)]
    return {name: _column(column) for name, column in zip(names, columns.values(), strict=True)}


def _column(values: list[Any]) -> np.ndarray:
    if any(isinstance(value, str) for value in values):
        return np.asarray(["" if value is None else str(value) for value in values])
    if all(isinstance(value, int) for value in values):
        return np.asarray(values)
    return np.asarray([np.nan if value is None else float(value) for value in values])
