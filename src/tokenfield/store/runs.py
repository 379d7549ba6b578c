"""A run as arrays and attributes, and back."""

import json
import math
import os
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tokenfield import config, measures
from tokenfield.data import MERGERS, NUMBERS, axes_of, times_of
from tokenfield.errors import StoreError
from tokenfield.evolution.ensemble import flows_in_batch
from tokenfield.measures import AbstractMeasure
from tokenfield.mergers import Mergers
from tokenfield.status import Status
from tokenfield.store import arrays, earlier, places
from tokenfield.store.arrays import Refused
from tokenfield.trajectory import Provenance, Trajectory

FORMAT = 2
"""What is written now. Format 1 is read by `earlier`."""

TRIES = 20
"""How often a run is read that others replace in the meantime."""


def table(
    kind: type[AbstractMeasure], leading: tuple[str, ...] = (), observed: dict[str, int] | None = None
) -> dict[str, tuple[str, ...]]:
    """The arrays that a run of a kind of measure may have, and the names of their axes.

    **Arguments**

    - `kind`: the kind of measure.
    - `leading`: the axes of a batch, in front of all others.
    - `observed`: how many axes each observable has, where those were kept instead of states.

    **Returns** the axes by the names of the arrays.
    """
    along = (*leading, "time")
    states = {name: (*leading, "time" if observed is None else "last", *axes) for name, axes in kind.axes.items()}
    extra = {name: (*along, *(f"{name}_{k}" for k in range(count))) for name, count in (observed or {}).items()}
    merging = {"rescaled": along, **{f"merger_{name}": (*leading, "merger") for name in MERGERS}}
    found = {"time": ("time",), **states, **extra, **merging}
    return {**found, "times": along, **{name: leading for name in NUMBERS}} if leading else found


def save(run: Trajectory, path: str | os.PathLike) -> None:
    path = _resolved(path)
    found, axes, about = _taken_apart(run)
    try:
        if os.path.lexists(path) and not _may_be_replaced(path):
            raise StoreError(f"{path} exists and is not a saved run; it is left as it is. Choose another name.")
        _check_numbers(found, run.observed or ())
        with places.replacing(path) as new:
            arrays.write(new, found, axes, about)
    except Refused as error:
        raise StoreError(f"The run cannot be kept in {path}: {error}.") from None
    except OSError as error:
        raise StoreError(f"The run could not be written to {path}: {error}. What was there before is kept.") from error


def load(path: str | os.PathLike) -> Trajectory:
    place = _resolved(path)
    try:
        found = _read(place)
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}. May you read all of it?") from None
    except Exception as error:
        what = str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
        raise StoreError(
            f"{path} cannot be read as a saved run ({what.removesuffix('.')}). It is incomplete, damaged or something else: "
            "make the run again."
        ) from None
    if found is None:
        raise StoreError(f"There is no saved run at {path}. Runs are folders such as run.zarr; check the name.")
    return found


# Reading


def _read(path: Path) -> Trajectory | None:
    """The run that answers to a name, if there is one. Where another process replaces it in the meantime, the new one is read."""
    for left in reversed(range(TRIES)):
        standing = places.standing(path)
        if not standing:
            return None
        before = _identity(standing[0])
        try:
            return _first_whole(standing)
        except (Refused, OSError):
            if not left or (before is not None and before == _identity(standing[0])):
                raise
            time.sleep(0.001 * (TRIES - left))
    raise AssertionError("the last try has returned or raised")


def _first_whole(standing: list[Path]) -> Trajectory:
    """The best of the folders that is whole."""
    for place in standing[:-1]:
        try:
            return _folder(place)
        except (Refused, OSError):
            continue
    return _folder(standing[-1])


def _folder(place: Path) -> Trajectory:
    if not place.is_dir():
        raise StoreError(f"{place} is a file, but a saved run is a zarr folder. Was it made by Trajectory.save?")
    read = earlier.read if earlier.is_earlier(place) else arrays.read
    found, about = read(place, _table_of)
    return _put_together(found, about)


def _table_of(about: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    kind, _ = _measure(about)
    known = _known(about)
    return table(kind, tuple(known["axes"]), known["observed"])


def _identity(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _resolved(path: str | os.PathLike) -> Path:
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        raise StoreError(f"{path!r} is not a name that a run can have: {error}. Use one such as run.zarr.") from None


def _may_be_replaced(path: Path) -> bool:
    """Whether a folder is one of ours, or empty."""
    for name, inside in ((arrays.ROOT, "attributes"), (".zattrs", None)):
        try:
            data = arrays.metadata_file(path / name)
            return "tokenfield" in (data if inside is None else data[inside])
        except FileNotFoundError:
            continue
        except (Refused, TypeError, KeyError, NotADirectoryError):
            return False
    return path.is_dir() and not any(path.iterdir())


# A run as arrays and attributes


def _taken_apart(run: Trajectory) -> tuple[dict[str, np.ndarray], dict[str, tuple[str, ...]], dict[str, Any]]:
    """Arrays, the names of their axes, attributes."""
    leading = axes_of(run)
    found: dict[str, Any] = {"time": times_of(run), **run.states.arrays, **(run.observed or {})}
    if leading:
        found |= {"times": run.times} | {name: getattr(run, name) for name in NUMBERS}
    found |= {} if run.rescaled is None else {"rescaled": run.rescaled}
    found |= {} if run.mergers is None else {f"merger_{name}": getattr(run.mergers, name) for name in MERGERS}
    known = {**run.describe(), "axes": list(leading)}
    about = {
        "tokenfield": FORMAT,
        "measure": _text({"kind": type(run.states).__name__, **run.states.plain}),
        "run": _text(known),
    }
    plain = lambda array: array.astype(np.int64) if array.dtype.kind in "bu" else array
    return (
        {k: plain(np.asarray(v)) for k, v in found.items()},
        table(type(run.states), leading, known["observed"]),
        about,
    )


def _put_together(found: dict[str, np.ndarray], about: dict[str, Any]) -> Trajectory:
    """The run, after all that is known about it has been looked at."""
    kind, plain = _measure(about)
    known = _known(about)
    if "time" not in found or not found["time"].size:
        raise Refused("it has no times")
    leading, observed = tuple(known.pop("axes")), known.pop("observed")
    _check_numbers(found, observed or ())
    times = jnp.asarray(found["times" if leading else "time"])
    states = _states(kind, {name: found[name] for name in kind.axes if name in found}, plain, len(leading) + 1)
    status, flow = Status[known.pop("status")], known.pop("flow")
    alone = (
        {} if leading else {"code": int(status), **{name: known.pop(name) for name in ("reached", "steps", "accepted")}}
    )
    numbers = alone or {name: found[name] for name in NUMBERS}
    mergers = {name: found[f"merger_{name}"] for name in MERGERS if f"merger_{name}" in found}
    return Trajectory(
        times=times,
        states=states,
        flow=_flow(flow, times.shape[:-1], states.dtype),
        reached=jnp.asarray(numbers["reached"], times.dtype),
        code=jnp.asarray(numbers["code"]),
        steps=jnp.asarray(numbers["steps"]),
        accepted=jnp.asarray(numbers["accepted"]),
        provenance=Provenance(**known, axes=leading),
        mergers=Mergers(**mergers, n=states.n) if mergers else None,
        rescaled=jnp.asarray(found["rescaled"]) if "rescaled" in found else None,
        observed=None if observed is None else {name: jnp.asarray(found[name]) for name in observed},
    )


def _states(kind: type[AbstractMeasure], arrays: dict[str, np.ndarray], plain: dict[str, Any], leading: int) -> Any:
    """The states as one measure whose arrays have so many axes in front."""
    flat = {name: jnp.asarray(array.reshape(-1, *array.shape[leading:])) for name, array in arrays.items()}
    front = next(iter(arrays.values())).shape[:leading]
    whole: Any = kind.restore(flat, **plain)
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf).reshape(*front, *leaf.shape[1:])), whole)


def _flow(data: Any, batch: tuple[int, ...], dtype: Any) -> Any:
    """The flow of a run, or the flows of a batch."""
    if data is None or not batch:
        return None if data is None else config.decode(data)
    return flows_in_batch([config.decode(one) for one in data], batch, dtype)


def _check_numbers(found: dict[str, np.ndarray], observed: Collection[str]) -> None:
    """Nothing is NaN, times are finite and in order, what counts is whole. Observables are what their makers say."""
    for name, array in found.items():
        if name in observed:
            continue
        counts = name in ("merger_into", "merger_gone", "merger_left", "code", "steps", "accepted")
        if counts != (array.dtype.kind == "i"):
            raise Refused(f"the numbers of {name} are {array.dtype}")
        if not counts and np.isnan(array).any():
            raise Refused(f"{name} has entries that are not a number (NaN)")
    for times in (found[name] for name in ("time", "times") if name in found):
        if not np.isfinite(times).all() or (np.diff(times) < 0).any():
            raise Refused("its times are not in order")


def _measure(about: dict[str, Any]) -> tuple[type[AbstractMeasure], dict[str, Any]]:
    """The kind of measure, and what its constructor needs beside the arrays."""
    if about.get("tokenfield") not in (1, FORMAT):
        raise Refused(f"expected a tokenfield run of format {FORMAT}, found {_named(about.get('tokenfield'))}")
    if set(about) != {"tokenfield", "measure", "run"}:
        raise Refused("its attributes are not those of a saved run")
    plain = _data(about["measure"])
    kind = plain.pop("kind", None)
    if kind not in tuple(measures.MEASURES):
        raise Refused(f"it is of an unknown kind of measure, {_named(kind)}")
    if not all(type(value) in (int, bool, str) for value in plain.values()):
        raise Refused("its measure is not one that saving writes")
    return measures.MEASURES[kind], plain


def _named(thing: Any) -> str:
    return repr(thing)[:40]


_number: Callable[[Any], bool] = lambda value: type(value) in (int, float)
_count: Callable[[Any], bool] = lambda value: type(value) is int and 0 <= value < 2**63
_word: Callable[[Any], bool] = lambda value: type(value) is str and len(value) < 200 and value.isprintable()
_name: Callable[[Any], bool] = lambda value: _word(value) and value.isidentifier()
_few: Callable[[Any], bool] = lambda value: _count(value) and value <= 8
_section: Callable[[Any], bool] = lambda value: type(value) is dict
KNOWN: dict[str, Callable[[Any], bool]] = {
    "status": lambda value: _word(value) and value in Status.__members__,
    "reached": lambda value: _number(value) and math.isfinite(value),
    "steps": _count,
    "accepted": _count,
    "flow": lambda value: value is None or _section(value) or (type(value) is list and all(map(_section, value))),
    "observed": lambda value: (
        value is None or (_section(value) and all(map(_name, value)) and all(map(_few, value.values())))
    ),
    "axes": lambda value: type(value) is list and len(value) <= 8 and all(map(_name, value)),
    "solver": _word,
    "rtol": _number,
    "atol": _number,
    "summation": _word,
    "origin": lambda value: value is None or _section(value),
    "spec": lambda value: value is None or _section(value),
    "noise": lambda value: value is None or type(value) in (int, list),
    "step": lambda value: value is None or _number(value),
    "coalesce": lambda value: value is None or _number(value),
    "clock": _word,
    "accuracy": lambda value: value is None or _number(value),
    "seconds": _number,
    "created": _word,
    "versions": lambda value: _section(value) and all(map(_word, value.values())),
}
"""What is known about a run beside its arrays, and what each part may be."""


def _known(about: dict[str, Any]) -> dict[str, Any]:
    known = _data(about["run"])
    if about["tokenfield"] == 1:
        known = {"axes": [], "observed": None, "step": None, **known}
    wanted = set(KNOWN) - ({"reached", "steps", "accepted"} if known.get("axes") else set())
    if set(known) != wanted:
        odd = sorted(set(known) ^ wanted)[0]
        raise Refused(
            f"what is known about the run {'lacks' if odd in wanted else 'has an unknown part'} {_named(odd)}"
        )
    for name, right in KNOWN.items():
        if name in wanted and not right(known[name]):
            raise Refused(f"what is known about the run has {name} = {_named(known[name])}")
    return known


# JSON has no word for numbers that are not finite.


def _text(data: dict[str, Any]) -> str:
    return json.dumps(_spelled(data), allow_nan=False)


def _spelled(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _spelled(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_spelled(value) for value in data]
    if isinstance(data, np.generic):
        data = data.item()
    return {"float": repr(data)} if isinstance(data, float) and not math.isfinite(data) else data


def _data(text: Any) -> dict[str, Any]:
    if not isinstance(text, str):
        raise Refused("its attributes are not those of a saved run")
    data = _numbers(arrays.parsed(text))
    if not isinstance(data, dict):
        raise Refused("its attributes are not those of a saved run")
    return data


def _numbers(data: Any) -> Any:
    if isinstance(data, dict):
        words = ("nan", "inf", "-inf")
        if list(data) == ["float"] and data["float"] in words:
            return float(data["float"])
        return {key: _numbers(value) for key, value in data.items()}
    return [_numbers(value) for value in data] if isinstance(data, list) else data
