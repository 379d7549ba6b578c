"""A figure: parameters, what is computed from them, how it is drawn, and what it claims. Nothing here loads JAX."""

import abc
import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_args, get_origin, get_type_hints

from tokenfield.errors import InputError, short, suggest
from tokenfield.theory.base import Finding, Outcome

if TYPE_CHECKING:
    from typing import Self

    import matplotlib.figure
    import xarray


class Shelf:
    """Where a figure puts the parts that it has computed, so that none is computed twice, whatever happens in between:
    `shelf("beta 5", lambda: ...)` is the part of this name, from the disk where it is there already."""

    def __init__(self, folder: Path | None = None):
        self.folder = folder

    def __call__(self, name: str, compute: "Callable[[], xarray.Dataset]") -> "xarray.Dataset":
        """One part, computed or read.

        **Arguments**

        - `name`: what the part is called.
        - `compute`: what computes it.

        **Returns** the part.
        """
        from tokenfield.store import places, tables

        place = self.place(name)
        if place is None:
            return compute()
        if places.standing(place):
            return tables.load(place)[0]
        part = compute()
        tables.save(part, place, {"part": name})
        return part

    def place(self, name: str) -> Path | None:
        """A folder of this name for those who keep their parts themselves, as sweeps do; None where nothing is kept."""
        return None if self.folder is None else self.folder.absolute() / f"{name.replace(' ', '-')}.zarr"


@dataclasses.dataclass(frozen=True)
class Figure(abc.ABC):
    """A figure that can be made. A new one is a frozen dataclass whose fields are the parameters, with their published values.

    - `name`: what it is called; `shows`: what is to be seen, as a sentence.
    - `source`, `number`: where it stands: a key of docs/references.bib, and the number there.
    - `small`: those parameters that are different in the small size, which takes seconds.
    - `remark`: what making it has taught: where it differs from the source, and why.

    `compute` gives the data, `draw` a matplotlib figure of them, `claims` what they claim. `check` refuses parameters that make
    no sense. [docs/figures.md](docs/figures.md) writes one.
    """

    name: ClassVar[str]
    shows: ClassVar[str]
    source: ClassVar[str] = ""
    number: ClassVar[str] = ""
    small: ClassVar[Mapping[str, Any]] = {}
    remark: ClassVar[str] = ""

    @abc.abstractmethod
    def compute(self, shelf: Shelf) -> "xarray.Dataset":
        """All numbers that are drawn or claimed. What takes minutes is computed in parts, which the shelf keeps."""

    @abc.abstractmethod
    def draw(self, data: "xarray.Dataset") -> "matplotlib.figure.Figure":
        """The figure of the data, which may have been read from disk."""

    @abc.abstractmethod
    def claims(self, data: "xarray.Dataset") -> Iterator[Finding]:
        """The numbers that the figure claims: each with what was expected, and a tolerance with its derivation."""

    def extras(self, data: "xarray.Dataset") -> Iterator[tuple[str, Callable[[Path], object]]]:
        """Movies that go with the figure in its folder: what each file is called, NAME.mp4 or NAME.gif, and what writes it to a
        path. None, unless a figure says otherwise."""
        yield from ()

    def check(self) -> None:  # noqa: B027
        """Refuse parameters that make no sense.

        **Raises** `InputError`.
        """

    @classmethod
    def of(cls, small: bool = False, **parameters: Any) -> "Self":
        """The figure with these parameters; others have their published, or their small, values.

        **Raises** `InputError` where a parameter is unknown, of another kind, or makes no sense.
        """
        kinds = cls.parameters()
        for name in parameters:
            if name not in kinds:
                raise InputError(f"The figure {cls.name} has no parameter {name!r}. {suggest(name, kinds)}")
        given = {**(cls.small if small else {}), **parameters}
        figure = cls(**{name: _read(f"{cls.name}: {name}", value, kinds[name]) for name, value in given.items()})
        figure.check()
        return figure

    @classmethod
    def parameters(cls) -> dict[str, Any]:
        """The kinds of the parameters, by name."""
        hints = get_type_hints(cls)
        return {field.name: hints[field.name] for field in dataclasses.fields(cls)}

    @property
    def cited(self) -> str:
        """Where the figure stands, as docstrings cite."""
        return ", ".join(part for part in (self.source, self.number) if part)

    @property
    def is_small(self) -> bool:
        """Whether the parameters are those of the small size."""
        return bool(self.small) and self == type(self).of(small=True)

    @property
    def values(self) -> dict[str, Any]:
        """The parameters by name, as plain data."""
        plain = lambda value: list(value) if isinstance(value, tuple) else value
        return {name: plain(getattr(self, name)) for name in self.parameters()}

    def settings(self) -> dict[str, Any]:
        """The parameters that are neither those of the small size, where it is nearer, nor the published ones."""
        base = type(self).of(small=self.near_small)
        return {name: value for name, value in self.values.items() if value != base.values[name]}

    @property
    def near_small(self) -> bool:
        """Whether more of the parameters are as in the small size than as published."""
        differ = lambda small: sum(value != type(self).of(small).values[name] for name, value in self.values.items())
        return bool(self.small) and differ(True) < differ(False)

    def made(self, shelf: Shelf | None = None) -> "Plate":
        """Compute, and draw when asked.

        **Arguments**

        - `shelf`: where parts are kept; nowhere when left out.

        **Returns** a `Plate`: `data, figure = plate`.
        """
        began = time.perf_counter()
        data = self.compute(Shelf() if shelf is None else shelf)
        seconds = time.perf_counter() - began
        return Plate(self, data, tuple(self.claims(data)), seconds)


class Plate:
    """A figure that was made: `data, figure = plate`.

    - `data`: all numbers that are drawn, an xarray data set.
    - `figure`: the matplotlib figure, drawn when first asked for, to restyle as you like.
    - `claims`: the numbers that the figure claims, each a `tkf.theory.Finding`; `failed` those that are not as expected.
    - `made_by`: the `Figure` with its parameters; `seconds`: how long computing took; `again`: whether the data come from disk.

    `plate.save(folder)` writes the picture (PNG and PDF), the data, the claims and a README, and a movie where there is one.
    """

    def __init__(self, made_by: Figure, data: "xarray.Dataset", claims: tuple[Finding, ...], seconds: float):
        self.made_by, self.data, self.claims, self.seconds = made_by, data, claims, seconds
        self.about: dict[str, Any] = {}
        self.again = False
        self._figure: Any = None

    @property
    def figure(self) -> "matplotlib.figure.Figure":
        """The matplotlib figure."""
        if self._figure is None:
            self._figure = self.drawn()
        return self._figure

    def drawn(self) -> "matplotlib.figure.Figure":
        """The matplotlib figure, drawn anew from the data."""
        from tokenfield.figures.style import styled

        with styled():
            return self.made_by.draw(self.data)

    @property
    def failed(self) -> tuple[Finding, ...]:
        """The claims that are not as expected."""
        return tuple(claim for claim in self.claims if claim.outcome is not Outcome.HOLDS)

    def save(self, folder: Any) -> Path:
        """Write the picture (NAME.png and NAME.pdf), the data (data.zarr), claims.json and a README.md.

        **Arguments**

        - `folder`: where to; it is made if need be.

        **Returns** the folder.

        **Raises** `InputError` where it holds something else, `StoreError` where it cannot be written.
        """
        from tokenfield.figures import folders

        return folders.save(self, folder)

    def __iter__(self) -> Iterator[Any]:
        yield self.data
        yield self.figure

    def __str__(self) -> str:
        one = self.made_by
        head = f"{one.name}{f' [{one.cited}]' if one.cited else ''}, computed in {told(self.seconds)}"
        return "\n".join([head, f"  {one.shows}", *(f"  {line}" for line in table(self.claims))])

    __repr__ = __str__


def table(claims: tuple[Finding, ...]) -> list[str]:
    """Claims, one per line: the verdict, the quantity, what was measured and what was expected."""
    width = max((len(claim.outcome.value) for claim in claims), default=0)
    return [
        f"{claim.outcome.value:<{width}}  {claim.what}: {claim.measured:.6g}, expected {claim.expected}"
        for claim in claims
    ]


def told(seconds: float) -> str:
    """A duration in words.

    >>> told(0.4), told(75.0), told(7260.0)
    ('0.4 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"


# Parameters


def _read(name: str, value: Any, kind: Any) -> Any:
    """A parameter as its annotation has it: a number, a word, a flag, or a tuple of these."""
    if get_origin(kind) is tuple:
        many = value if isinstance(value, list | tuple | range) else [value]
        if not many:
            raise InputError(f"{name} must be a list with at least one entry, but is empty.")
        return tuple(_read(name, one, get_args(kind)[0]) for one in many)
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}
    if kind not in words:
        raise InputError(
            f"{name} has the annotation {kind}, but parameters are int, float, str, bool, or tuples of these."
        )
    if isinstance(value, bool) == (kind is bool):
        if kind in (bool, str) and isinstance(value, kind):
            return value
        if kind is int and isinstance(value, int | float) and math.isfinite(value) and value == int(value):
            return int(value)
        if kind is float and isinstance(value, int | float) and math.isfinite(value):
            return float(value)
    raise InputError(f"{name} must be {words[kind]}, but is {short(value)}.")
