"""The front doors of the room: make a figure, in memory or in a folder, and load one that was made."""

import os
from collections.abc import Callable
from typing import Any

from tokenfield.errors import InputError, short
from tokenfield.figures import published
from tokenfield.figures.base import Figure, Plate


def names() -> list[str]:
    """The names of all published figures, as `tkf.figures` has them.

    **Returns** a list; `tokenfield figure --list` says more of each.

    >>> names()[:3]
    ['phase_diagram', 'equiangular_rates', 'normalization']
    """
    return [name.replace("-", "_") for name in published.NAMES]


def make(
    figure: str | type[Figure],
    *,
    small: bool = False,
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
    **parameters: Any,
) -> Plate:
    """Make a figure: compute its data, draw them, and compare what it claims with what was expected.

    **Arguments**

    - `figure`: the name of a published figure, or a class of your own.
    - `small`: whether parameters are those of the small size, a few seconds, instead of the published ones.
    - `out`: a folder for the picture (PNG and PDF), the data (data.zarr), claims.json and a README; nothing is written when
      left out. A folder that has this figure already is drawn again, and nothing is computed; what was computed before a run
      was cut off is not computed again.
    - `force`: whether a figure in the folder with other parameters is replaced.
    - `parameters`: those that shall differ.

    **Returns** a `Plate`: `data, figure = make(...)`.

    **Raises** `InputError` where the figure or a parameter is unknown or makes no sense, or the folder holds something else.

    >>> plate = make("kinetic", small=True)
    >>> plate.made_by.name, plate.failed
    ('kinetic', ())
    """
    kind = _kind(figure)
    if not isinstance(small, bool) or not isinstance(force, bool):
        raise InputError(f"`small` and `force` must be True or False, but are {short(small)} and {short(force)}.")
    one = kind.of(small, **parameters)
    if out is None:
        return one.made()
    from tokenfield.figures import folders

    if not isinstance(out, str | os.PathLike):
        raise InputError(f"Argument `out` must be a path, such as 'out/mine', but is {short(out)}.")
    return folders.make(one, out, force)


def load(folder: str | os.PathLike[str], figure: type[Figure] | None = None) -> Plate:
    """A figure that was made before, from its folder: nothing is computed.

    **Arguments**

    - `folder`: where `make` or `tokenfield figure` wrote it.
    - `figure`: the class, where the figure is one of your own.

    **Returns** the `Plate`: `data, figure = load("out/figures/sphere")`.

    **Raises** `StoreError` where the folder holds no figure, or one that is not known.
    """
    from tokenfield.figures import folders

    if not isinstance(folder, str | os.PathLike):
        raise InputError(f"Argument `folder` must be a path, such as 'out/figures/sphere', but is {short(folder)}.")
    return folders.load(folder, None if figure is None else _kind(figure))


def maker(name: str) -> Callable[..., Plate]:
    """The function that makes one figure, with its documentation."""
    kind = published.find(name)

    def made(*, small: bool = False, out: Any = None, force: bool = False, **parameters: Any) -> Plate:
        return make(kind, small=small, out=out, force=force, **parameters)

    made.__name__ = made.__qualname__ = name.replace("-", "_")
    made.__doc__ = f"{kind.shows}\n\n{kind.__doc__}\n\n    Arguments and result are those of `tkf.figures.make`."
    return made


def _kind(figure: Any) -> type[Figure]:
    if isinstance(figure, str):
        return published.find(figure if figure in published.NAMES else figure.replace("_", "-"))
    if isinstance(figure, type) and issubclass(figure, Figure):
        return figure
    raise InputError(
        f"A figure is the name of a published one, or a subclass of tkf.figures.Figure, but got {short(figure)}."
    )
