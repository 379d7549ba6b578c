"""What `tokenfield figure` does. Nothing here loads JAX before something is computed."""

import runpy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tokenfield import _interrupt
from tokenfield.errors import InputError, short
from tokenfield.figures import folders, published
from tokenfield.figures.base import Figure, told
from tokenfield.spec import toml


def listing() -> str:
    """All figures, two lines each: name, source and durations; what they show."""
    rows, measured = [], published.durations()
    for name in published.NAMES:
        kind = published.find(name)
        source = ", ".join(part for part in (kind.source, kind.number) if part)
        known = measured.get(name, {})
        took = ", ".join(f"{size} {told(known[size])}" for size in ("small", "published") if size in known)
        rows += [f"{name:<24} {source}{f'  ({took})' if took else ''}", f"{'':<24} {kind.shows}"]
    return "\n".join(rows)


def made(
    names: Sequence[str], small: bool, out: Path | None, settings: Sequence[str], force: bool
) -> Iterator[tuple[str, bool]]:
    """Make figures, one after another: for each what is to be told, and whether all of its claims are met.

    **Raises** `InputError` where a figure or a parameter is unknown, or a folder holds something else.
    """
    kinds = [kind for name in names for kind in _meant(name)]
    parameters = dict(map(_setting, settings))
    figures = [kind.of(small, **parameters) for kind in kinds]
    several = len(kinds) > 1 or "all" in names
    for figure in figures:
        if _interrupt.command().asked is not None:
            return
        base = Path("out/figures") if out is None else out
        place = base / figure.name if several or out is None else base
        plate = folders.make(figure, place, force)
        again = " (drawn again from its data)" if plate.again else ""
        yield f"{plate}\n  in {place}{again}", not plate.failed


def _meant(name: str) -> list[type[Figure]]:
    """The figures that a word means: one, all, or those in a file of the user's own."""
    if name == "all":
        return [published.find(one) for one in published.NAMES]
    if not name.endswith(".py"):
        return [published.find(name)]
    if not Path(name).is_file():
        raise InputError(f"There is no file {name}.")
    found = [
        thing
        for thing in runpy.run_path(name).values()
        if isinstance(thing, type) and issubclass(thing, Figure) and thing.__module__ == "<run_path>"
    ]
    if not found:
        raise InputError(
            f"{name} has no figure: a subclass of tkf.figures.Figure. docs/figures.md shows how to write one."
        )
    return found


def _setting(text: str) -> tuple[str, Any]:
    """A parameter and its value, from `FIELD=VALUE`."""
    field, equals, value = text.partition("=")
    if not equals or not field.strip().isidentifier():
        raise InputError(f"--set needs FIELD=VALUE, e.g. --set d=8, but got {short(text)}.")
    try:
        return field.strip(), toml.parsed(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return field.strip(), value.strip()
