"""A sweep as a story and as a picture: a map over two parameters, curves over one or along time."""

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tokenfield import _files
from tokenfield.draw.page import bare, blank, title, written
from tokenfield.draw.view import COLOURS, INK
from tokenfield.errors import InputError
from tokenfield.status import Status
from tokenfield.sweeps.folder import Folder
from tokenfield.sweeps.group import REFUSED

MOST_ROWS, FEW = 4, 8
"""Variables that one page has room for; parameters with so few values have a line each."""
PLAIN = ("status", "reached", "steps", "noise", "times")


def is_sweep(path: str | os.PathLike[str]) -> bool:
    """Whether a folder claims to be a sweep."""
    try:
        with os.fdopen(_files.open_own(Path(path) / "zarr.json"), "rb") as file:
            return b'"sweep"' in file.read(4096)
    except (OSError, ValueError):
        return False


def story(folder: Folder) -> str:
    """What was swept, how far it has come, and what became of members."""
    layout, grid = folder.layout, folder.layout.grid
    status = folder.read(["status"]).status.values
    done, ended = int(np.sum(status != Status.RUNNING)), {}
    for code, count in zip(*np.unique(status[status != Status.RUNNING], return_counts=True), strict=True):
        ended[_ending(int(code))] = int(count)
    seconds = sum(mark["seconds"] for _, mark in folder.marks())
    lines = [
        f"A sweep of {grid.members} members ({' × '.join(f'{len(axis)} {axis.name}' for axis in grid.axes)}): "
        + (
            "complete." if done == grid.members else f"{done} of {grid.members} are computed; the same command goes on."
        ),
        f"  keeps     {', '.join(name for name in layout.variables if name not in PLAIN)}",
        *(f"  {axis.name:<9} {_span(axis.values)}  ({axis.path})" for axis in grid.axes),
        f"  ended     {', '.join(f'{count} {name}' for name, count in ended.items()) or 'none yet'}",
        f"  computed  in {seconds:.1f} s of workers' time, in groups of up to {int(np.prod(grid.block))} members",
    ]
    reasons = list(dict.fromkeys(folder.reasons().values()))
    lines += [f"  refused   {_in_a_line(reason)}" for reason in reasons[:5]]
    return "\n".join(lines)


def _ending(code: int) -> str:
    known = {int(status): status.name.lower().replace("_", " ") for status in Status} | {REFUSED: "refused"}
    return known.get(code, f"with the unknown status {code}")


def _in_a_line(words: str) -> str:
    """Words that a terminal prints, and does not obey."""
    first = next(iter(words.splitlines()), "")
    return "".join(one for one in first if one.isprintable())[:300]


def _span(values: tuple[Any, ...]) -> str:
    told = lambda value: f"{value:g}" if isinstance(value, float) else str(value)
    if len(values) <= FEW:
        return ", ".join(map(told, values))
    return f"{len(values)} values from {told(values[0])} to {told(values[-1])}"


def picture(folder: Folder, path: str | os.PathLike[str] | None = None) -> Any:
    """Draw a sweep: its observables at the end of time as a map over two parameters, or as curves over one; where a single
    parameter is a number, along time too. Further parameters are averaged over.

    **Returns** the figure, or the path that it was written to.

    **Raises** `InputError` where there is nothing to draw.
    """
    grid, variables = folder.layout.grid, folder.layout.variables
    axes = [axis.name for axis in grid.axes]
    names = [name for name, one in variables.items() if name not in PLAIN and one.axes == ("time",)][:MOST_ROWS]
    if not names:
        raise InputError("There is no number to draw: arrays were kept. Draw the data set your own way.")
    data = folder.read(["status", *names])
    data = data.where((data.status != Status.RUNNING) & (data.status != REFUSED)).sortby(axes)
    if not bool(data.status.notnull().any()):
        raise InputError("There is nothing to draw yet: no member is computed.")
    shown = _shown(data, axes)
    figure = blank((12, 1.2 + 3.6 * len(names)))
    panels = np.atleast_1d(figure.subplots(len(names), 1))
    for ax, name in zip(panels, names, strict=True):
        rest = [axis for axis in axes if axis not in shown]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of those of whom nothing is there
            values = data[name].mean(rest, skipna=True) if rest else data[name]
        averaged = f"{name}{', averaged over ' + ' and '.join(rest) if rest else ''}"
        (_map if len(shown) == 2 else _curves)(ax, values, shown, averaged)
    title(figure, f"A sweep of {grid.members} members: {' × '.join(f'{len(axis)} {axis.name}' for axis in grid.axes)}")
    return written(figure, path)


def _shown(data: Any, axes: list[str]) -> list[str]:
    """The one or two parameters to draw against: those that are numbers, but for seeds, which are averaged over."""
    numbers = [axis for axis in axes if data[axis].dtype.kind in "if" and "seed" not in axis and data.sizes[axis] > 1]
    return (numbers or axes)[:2]


def _map(ax: Any, values: Any, shown: list[str], name: str) -> None:
    """At the end of time, over two parameters."""
    x, y = shown
    z = values.isel(time=-1).transpose(y, x)
    mesh = ax.pcolormesh(z[x], z[y], z, cmap="viridis", shading="nearest", rasterized=True)
    ax.figure.colorbar(mesh, ax=ax, pad=0.01).set_label(f"{name}, at the end", fontsize=9)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    for axis, scale in ((z[x], ax.set_xscale), (z[y], ax.set_yscale)):
        if _geometric(axis.values):
            scale("log")


def _curves(ax: Any, values: Any, shown: list[str], name: str) -> None:
    """Over one parameter: a map with time where it has many values, else one line per value along time."""
    (x,) = shown
    times = values["time"] if "time" in values.coords else np.arange(values.sizes["time"])
    if values[x].dtype.kind in "if" and values.sizes[x] > FEW:
        mesh = ax.pcolormesh(
            times, values[x], values.transpose(x, "time"), cmap="viridis", shading="nearest", rasterized=True
        )
        ax.figure.colorbar(mesh, ax=ax, pad=0.01).set_label(name, fontsize=9)
        ax.set_ylabel(x)
        if _geometric(values[x].values):
            ax.set_yscale("log")
    else:
        for k, value in enumerate(values[x].values.tolist()):
            label = f"{x} = {value:g}" if isinstance(value, float) else f"{x} = {value}"
            ax.plot(times, values.isel({x: k}), color=COLOURS[k % len(COLOURS)], label=label)
        ax.legend(fontsize=8, frameon=False, labelcolor=INK)
        ax.set_ylabel(name)
        bare(ax)
    ax.set_xlabel("t" if "time" in values.coords else "saved state")


def _geometric(values: np.ndarray) -> bool:
    """Whether values lie in equal ratios."""
    if len(values) < 3 or values.dtype.kind != "f" or np.any(values <= 0):
        return False
    ratios = np.diff(np.log(values))
    return bool(np.allclose(ratios, ratios[0], rtol=1e-6) and values[-1] > 10 * values[0])
