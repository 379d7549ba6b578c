"""Runs on disk: zarr through xarray, written whole or not at all, checked when read."""

import contextlib
import json
import os
import shutil
import uuid
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from tokenfield import config, measures
from tokenfield.errors import StoreError
from tokenfield.mergers import Mergers
from tokenfield.status import Status
from tokenfield.trajectory import Provenance, Trajectory

if TYPE_CHECKING:
    import xarray

FORMAT = 1


def to_xarray(run: Trajectory) -> "xarray.Dataset":
    import xarray

    run.refuse_batches("stored")
    mu = run.states
    arrays = {name: np.asarray(array) for name, array in {"time": run.times, **mu.arrays, **_extras(run)}.items()}
    axes = {name: ("time", *axes) for name, axes in mu.axes.items()} | EXTRAS
    return xarray.Dataset(
        {name: (axes[name], array) for name, array in arrays.items() if name != "time"},
        coords={"time": arrays["time"]},
        attrs={
            "tokenfield": FORMAT,
            "checksum": _checksum(arrays),
            "measure": json.dumps({"kind": type(mu).__name__, **mu.plain}),
            "run": json.dumps(run.describe()),
        },
    )


EXTRAS = {"rescaled": ("time",)} | {f"merger_{name}": ("merger",) for name in ("t", "into", "gone", "left")}
"""What a run that coalesces has beside its states."""


def _extras(run: Trajectory) -> dict[str, Any]:
    found = {} if run.rescaled is None else {"rescaled": run.rescaled}
    if run.mergers is None:
        return found
    return found | {f"merger_{name}": getattr(run.mergers, name) for name in ("t", "into", "gone", "left")}


def save(run: Trajectory, path: str | os.PathLike) -> None:
    """Write beside `path`, then change names. Between the two renames the old run waits under `.NAME.old...`, where `load`
    finds it, so that at every moment one whole run answers to `path`."""
    path = Path(path).resolve()
    if path.exists() and not _is_run(path):
        raise StoreError(f"{path} exists and is not a saved run; it is left as it is. Choose another name.")
    mark = uuid.uuid4().hex
    new, old = _beside(path, f"new.{mark}"), _beside(path, f"old.{mark}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        to_xarray(run).to_zarr(new, mode="w", zarr_format=2, consolidated=True)
        _swap(new, path, old)
        for left in path.parent.glob(f".{path.name}.old.*"):
            shutil.rmtree(left, ignore_errors=True)
    except OSError as error:
        raise StoreError(f"The run could not be written to {path}: {error}. What was there before is kept.") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _swap(new: Path, path: Path, old: Path, tries: int = 20) -> None:
    """Give `new` the name `path`, and what had that name the name `old`; again if another writer was in between."""
    for left in reversed(range(tries)):
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, old)
        try:
            os.rename(new, path)
            return
        except OSError:
            if not left or not path.exists():
                raise
            shutil.rmtree(old, ignore_errors=True)


def load(path: str | os.PathLike) -> Trajectory:
    path = Path(path)
    waiting = sorted(path.parent.glob(f".{path.name}.old.*")) if not path.exists() else []
    place = waiting[0] if waiting else path
    if not place.exists():
        raise StoreError(f"There is no saved run at {path}. Runs are folders such as run.zarr; check the name.")
    if not place.is_dir():
        raise StoreError(f"{path} is a file, but a saved run is a zarr folder. Was it made by Trajectory.save?")
    try:
        return _read(place)
    except Exception as error:
        raise StoreError(
            f"{path} cannot be read as a saved run ({type(error).__name__}: {error}). It is incomplete, damaged or "
            "something else: make the run again."
        ) from error


def _read(place: Path) -> Trajectory:
    import xarray

    with xarray.open_zarr(place, consolidated=True) as data:
        if data.attrs.get("tokenfield") != FORMAT:
            raise StoreError(f"expected a tokenfield run of format {FORMAT}, found {data.attrs.get('tokenfield')}")
        known: dict[str, Any] = json.loads(data.attrs["run"])
        plain: dict[str, Any] = json.loads(data.attrs.get("measure", '{"kind": "Tokens"}'))
        kind = measures.MEASURES[plain.pop("kind")]
        arrays = {name: data[name].values for name in ("time", *kind.axes, *EXTRAS) if name in data}
        if _checksum(arrays) != data.attrs["checksum"]:
            raise StoreError("its numbers do not match their checksum")
    extras = {name: arrays.pop(name) for name in EXTRAS if name in arrays}
    arrays = {name: jnp.asarray(values) for name, values in arrays.items()}
    times = arrays.pop("time")
    states = kind.restore(arrays, **plain)
    status, flow = Status[known.pop("status")], known.pop("flow")
    steps, accepted = known.pop("steps"), known.pop("accepted")
    return Trajectory(
        times=times,
        states=states,
        flow=None if flow is None else config.decode(flow),
        reached=jnp.asarray(known.pop("reached"), times.dtype),
        code=jnp.asarray(int(status)),
        steps=jnp.asarray(steps),
        accepted=jnp.asarray(accepted),
        provenance=Provenance(**known),
        mergers=_mergers(extras, states),
        rescaled=jnp.asarray(extras["rescaled"]) if "rescaled" in extras else None,
    )


def _mergers(extras: dict[str, Any], states: Any) -> Mergers | None:
    found = {name.removeprefix("merger_"): values for name, values in extras.items() if name.startswith("merger_")}
    return Mergers(**found, n=states.n) if found else None


def _checksum(arrays: dict[str, Any]) -> int:
    total = 0
    for array in arrays.values():
        total = zlib.crc32(np.ascontiguousarray(array).tobytes(), total)
    return total


def _beside(path: Path, role: str) -> Path:
    return path.parent / f".{path.name}.{role}"


def _is_run(path: Path) -> bool:
    """Whether a folder is a run that may be replaced: one of ours, or empty."""
    try:
        return "tokenfield" in json.loads((path / ".zattrs").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return path.is_dir() and not any(path.iterdir())
