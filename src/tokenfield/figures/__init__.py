"""Published figures, each from one call, and figures of your own.

>>> import tokenfield as tkf
>>> data, figure = tkf.figures.kinetic(small=True)
>>> data.sizes["token"], figure.axes[0].get_xlabel()
(5, 't')

`tkf.figures.NAME(small=..., out=..., ...)` makes a figure; `tokenfield figure --list` names them all, and `names()` does. A figure
of your own is a subclass of `Figure` ([docs/figures.md](docs/figures.md)). None of this loads JAX before something is computed.
"""

from collections.abc import Callable

from tokenfield import errors
from tokenfield.figures.base import Figure as Figure
from tokenfield.figures.base import Plate as Plate
from tokenfield.figures.base import Shelf as Shelf
from tokenfield.figures.making import load as load
from tokenfield.figures.making import make as make
from tokenfield.figures.making import maker, names
from tokenfield.figures.published import NAMES

__all__ = ["Figure", "Plate", "Shelf", "load", "make", "names"]


def __getattr__(name: str) -> Callable[..., Plate]:
    if name.replace("_", "-") not in NAMES:
        known = (*__all__, *names())
        raise AttributeError(f"tokenfield.figures has no name {name!r}. {errors.suggest(name, known)}")
    globals()[name] = made = maker(name.replace("_", "-"))
    return made


def __dir__() -> list[str]:
    return sorted([*__all__, *names()])
