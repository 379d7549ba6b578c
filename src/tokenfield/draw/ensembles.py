"""Pictures of ensembles, and of runs that kept observables instead of states."""

import functools
from typing import Any

import numpy as np

from tokenfield import data, observe
from tokenfield.draw.page import blank, flow_name, headline, plain, stack, title
from tokenfield.draw.view import COLOURS, INK
from tokenfield.errors import InputError
from tokenfield.measures import Tokens
from tokenfield.trajectory import Trajectory

MOST_CURVES = 4
"""Observables that one page has room for."""
FEW = 12
"""Up to so many members each has a line with its name; more are a map, or a fan."""


def observables_figure(run: Trajectory) -> Any:
    """The observables of one run against time, one above the other."""
    figure = blank()
    stack(figure, np.asarray(run.times), _curves(run))
    headline(figure, run, _of_what(run.states))
    return figure


def ensemble_figure(runs: Trajectory) -> Any:
    """How the members of a batch fared: each observable against time and what varies, in colours where many flows differ by a
    number, else as lines. What starts differ by is averaged over."""
    curves = _curves(runs)
    figure = blank((12, 2.4 + 3.4 * len(curves)))
    axes = np.atleast_1d(figure.subplots(len(curves), 1, sharex=True))
    for ax, (name, values) in zip(axes, curves, strict=True):
        _draw(ax, runs, name, values)
        ax.label_outer()
    count = " × ".join(
        f"{n} {axis}{'s' if n > 1 else ''}" for n, axis in zip(runs.batch, data.axes_of(runs), strict=True)
    )
    first, last = (runs.member(*[i] * len(runs.batch)) for i in (0, -1))
    same = str(first.flow) == str(last.flow)
    title(figure, f"{flow_name(first)}{'' if same else f' to {flow_name(last)}'};  {_of_what(runs.states)}; {count}")
    return figure


@functools.singledispatch
def _of_what(states: Any) -> str:
    """What moved, in a headline."""
    return type(states).__name__


@_of_what.register
def _of_tokens(states: Tokens) -> str:
    return f"n = {states.n}, d = {states.d}"


def _curves(run: Trajectory) -> list[tuple[str, np.ndarray]]:
    """Numbers along time: the observables that were kept, or the one that tells most of the measure."""
    if run.observed is not None:
        numbers = {name: np.asarray(values, float) for name, values in run.observed.items()}
        found = [(name, values) for name, values in numbers.items() if values.shape == run.times.shape]
        if not found:
            raise InputError(
                f"There is no curve to draw: {', '.join(numbers)} are arrays. Draw run.to_xarray() your own way."
            )
        return found[:MOST_CURVES]
    return _most_telling(run.states, run)


@functools.singledispatch
def _most_telling(states: Any, run: Trajectory) -> list[tuple[str, np.ndarray]]:
    """The curves of a kind of measure: those of its `quantities` that are numbers, unless it has a better one."""
    names = [name for name in states.quantities if np.shape(getattr(states, name)) == run.times.shape]
    if not names:
        raise InputError(
            f"There is no curve to draw of a batch of {type(states).__name__}. Draw a member: runs[0, 0].plot()."
        )
    return [(name, np.asarray(getattr(states, name), float)) for name in names[:MOST_CURVES]]


@_most_telling.register
def _overlap(states: Tokens, run: Trajectory) -> list[tuple[str, np.ndarray]]:
    if states.n > 1 and float(np.asarray(states.radii).min()) > 0:
        return [("mean overlap", np.asarray(observe.mean_overlap(run)))]
    return [("spread", np.asarray(states.spread))]


def _draw(ax: Any, runs: Trajectory, name: str, values: np.ndarray) -> None:
    times, axis, (label, along) = data.times_of(runs), *_what_varies(runs)
    values = np.moveaxis(values, axis, 0)
    rows = values.reshape(len(values), -1, values.shape[-1])
    mean = rows.mean(axis=1)
    if len(rows) > FEW and along.dtype.kind in "if" and np.all(np.diff(along) > 0):
        mesh = ax.pcolormesh(times, along, mean, cmap="viridis", shading="nearest", rasterized=True)
        ax.figure.colorbar(mesh, ax=ax, pad=0.01).set_label(
            name if rows.shape[1] == 1 else f"{name}, averaged", fontsize=9
        )
        ax.set_ylabel(label)
        plain(ax, times)
        return
    few = len(rows) <= FEW
    for i, (row, line) in enumerate(zip(rows, mean, strict=True)):
        colour = COLOURS[i % len(COLOURS)]
        ax.plot(times, line, color=colour, lw=1.8 if few else 0.7, label=_name(runs, axis, i))
        if row.shape[0] > 1:
            ax.fill_between(times, row.min(axis=0), row.max(axis=0), color=colour, alpha=0.12, lw=0)
    if few:
        ax.legend(fontsize=8, frameon=False, labelcolor=INK)
    ax.set_ylabel(name if rows.shape[1] == 1 else f"{name}, mean and range")
    plain(ax, times)


def _name(runs: Trajectory, axis: int, i: int) -> str:
    """What tells entry i of an axis from others."""
    along = data.axes_of(runs)[axis]
    shown = lambda value: f"{value:g}" if isinstance(value, float) else str(value)
    parts = {name: values[i].item() for name, (where, values) in data.coordinates(runs).items() if where == along}
    words = [value if isinstance(value, str) else f"{name} = {shown(value)}" for name, value in parts.items()]
    return ", ".join(words) or f"{along} {i}"


def _what_varies(runs: Trajectory) -> tuple[int, tuple[str, np.ndarray]]:
    """The axis to tell members apart by, and by what: the first number that varies among flows, else whatever there is."""
    axes, known = data.axes_of(runs), data.coordinates(runs)
    numeric = {name: pair for name, pair in known.items() if pair[1].dtype.kind in "if"}
    for name, (axis, values) in (*numeric.items(), *known.items()):
        return axes.index(axis), (name, values)
    return 0, (axes[0], np.arange(runs.batch[0]))
