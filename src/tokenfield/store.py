"""Runs on disk: zarr through xarray, written whole or not at all, checked when read."""

import json
import os
import shutil
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from tokenfield import config
from tokenfield.errors import StoreError
from tokenfield.measures import Tokens
from tokenfield.status import Status
from tokenfield.trajectory import Provenance, Trajectory

if TYPE_CHECKING:
    import xarray

FORMAT = 1


def to_xarray(run: Trajectory) -> "xarray.Dataset":
    import xarray

    states = run.states
    variables = {
        "x": (("time", "token", "component"), np.asarray(states.x)),
        "w": (("time", "token"), np.asarray(states.w)),
    }
    if states.s is not None:
        variables["s"] = (("time", "token"), np.asarray(states.s))
    return xarray.Dataset(
        variables,
        coords={"time": np.asarray(run.times)},
        attrs={"tokenfield": FORMAT, "checksum": _checksum(run), "run": json.dumps(run.describe())},
    )


def save(run: Trajectory, path: str | os.PathLike) -> None:
    """Write beside `path`, then change names. Between the two renames the old run waits under `.NAME.old`, where `load`
    finds it, so that at every moment one whole run answers to `path`."""
    path = Path(path)
    new, old = _beside(path, "new"), _beside(path, "old")
    if path.exists() and not _is_run(path):
        raise StoreError(f"{path} exists and is not a saved run; it is left as it is. Choose another name.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(new, ignore_errors=True)
        to_xarray(run).to_zarr(new, mode="w", zarr_format=2, consolidated=True)
        if path.exists():
            shutil.rmtree(old, ignore_errors=True)
            os.rename(path, old)
        os.rename(new, path)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise StoreError(f"The run could not be written to {path}: {error}. What was there before is kept.") from error


def load(path: str | os.PathLike) -> Trajectory:
    path = Path(path)
    place = _beside(path, "old") if not path.exists() and _beside(path, "old").exists() else path
    if not place.exists():
        raise StoreError(f"There is no saved run at {path}. Runs are folders such as run.zarr; check the name.")
    if not place.is_dir():
        raise StoreError(f"{path} is a file, but a saved run is a zarr folder. Was it made by Trajectory.save?")
    try:
        run, checksum = _read(place)
    except Exception as error:
        raise StoreError(
            f"{path} cannot be read as a saved run ({type(error).__name__}: {error}). It is incomplete, damaged or "
            "something else: make the run again."
        ) from error
    if _checksum(run) != checksum:
        raise StoreError(f"{path} is damaged: its numbers do not match their checksum. Make the run again.")
    return run


def _read(place: Path) -> tuple[Trajectory, int]:
    import xarray

    with xarray.open_zarr(place, consolidated=True) as data:
        if data.attrs.get("tokenfield") != FORMAT:
            raise StoreError(f"expected a tokenfield run of format {FORMAT}, found {data.attrs.get('tokenfield')}")
        known: dict[str, Any] = json.loads(data.attrs["run"])
        arrays = {name: jnp.asarray(data[name].values) for name in ("x", "w", "s") if name in data}
        times = jnp.asarray(data["time"].values)
        checksum = data.attrs["checksum"]
    states = jax.vmap(Tokens)(arrays["x"], arrays["w"], arrays.get("s"))
    status, flow = Status[known.pop("status")], known.pop("flow")
    steps, accepted = known.pop("steps"), known.pop("accepted")
    run = Trajectory(
        times=times,
        states=states,
        flow=None if flow is None else config.decode(flow),
        code=jnp.asarray(int(status)),
        steps=jnp.asarray(steps),
        accepted=jnp.asarray(accepted),
        provenance=Provenance(**known),
    )
    return run, checksum


def _checksum(run: Trajectory) -> int:
    total = 0
    for array in (run.times, run.states.x, run.states.w, run.states.s):
        if array is not None:
            total = zlib.crc32(np.ascontiguousarray(array).tobytes(), total)
    return total


def _beside(path: Path, role: str) -> Path:
    return path.parent / f".{path.name}.{role}"


def _is_run(path: Path) -> bool:
    return path.is_dir() and ((path / ".zattrs").exists() or not any(path.iterdir()))
