"""The grid of a sweep: its axes, and the blocks of members that are computed together. Nothing here loads JAX."""

import dataclasses
import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

MOST, LEAST, SHARE = 1024, 64, 16
"""A block has up to so many members, at least so many, else one in so many of all."""


TAKEN = frozenset({"status", "reached", "steps", "noise", "time", "times", "blocks"})
"""Names that every sweep has for its own."""


@dataclasses.dataclass(frozen=True)
class Variable:
    """An array of the sweep: its numbers, and its axes behind those of the grid."""

    dtype: str
    shape: tuple[int, ...] = ()
    axes: tuple[str, ...] = ()

    @property
    def fill(self) -> float:
        """What stands for numbers that are not there."""
        return np.nan if self.dtype.startswith("float") else -1


@dataclasses.dataclass(frozen=True)
class Axis:
    """One parameter: its full `path`, its short `name`, its `values`, and whether members along it are `alike` in shape."""

    path: str
    name: str
    values: tuple[Any, ...]
    alike: bool = True

    def __len__(self) -> int:
        return len(self.values)


@dataclasses.dataclass(frozen=True)
class Grid:
    """All members, and the blocks that they are computed in. Blocks follow from the axes alone, so that what is computed does not
    depend on who computes it, when, or in which order.

    >>> axes = (Axis("flow.attention.beta", "beta", tuple(range(90))), Axis("measure.seed", "seed", tuple(range(2048))))
    >>> grid = Grid(axes, block_shape(axes))
    >>> grid.block, grid.blocks, grid.members
    ((30, 32), (3, 64), 184320)
    """

    axes: tuple[Axis, ...]
    block: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(map(len, self.axes))

    @property
    def members(self) -> int:
        return math.prod(self.shape)

    @functools.cached_property
    def blocks(self) -> tuple[int, ...]:
        """How many blocks there are along each axis."""
        return tuple(-(-n // b) for n, b in zip(self.shape, self.block, strict=True))

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """All blocks, by their places."""
        return iter(np.ndindex(*self.blocks))

    def __len__(self) -> int:
        return math.prod(self.blocks)

    def slices(self, place: tuple[int, ...]) -> tuple[slice, ...]:
        """The part of the grid that a block covers; those at the far ends may be cut."""
        pairs = zip(place, self.block, self.shape, strict=True)
        return tuple(slice(k * b, min((k + 1) * b, n)) for k, b, n in pairs)

    def extent(self, place: tuple[int, ...]) -> tuple[int, ...]:
        """How many members a block has along each axis."""
        return tuple(part.stop - part.start for part in self.slices(place))

    def values(self, index: tuple[int, ...]) -> dict[str, Any]:
        """The parameters of one member, by their paths."""
        return {axis.path: axis.values[i] for axis, i in zip(self.axes, index, strict=True)}

    def number(self, index: tuple[int, ...]) -> int:
        """The number of one member among all."""
        return int(np.ravel_multi_index(index, self.shape))


def block_shape(axes: tuple[Axis, ...], most: int = MOST) -> tuple[int, ...]:
    """How many members a block has along each axis: one where members are unlike, else about equally many along all, so that
    each flow meets many starts.

    **Arguments**

    - `axes`: the axes.
    - `most`: the most members of a block, where memory sets a limit.

    **Returns** the shape of a block.
    """
    sizes = [len(axis) if axis.alike else 1 for axis in axes]
    target = min(most, max(LEAST, math.prod(map(len, axes)) // SHARE), MOST)
    block = [1] * len(sizes)
    while True:
        grown = [
            k
            for k, n in enumerate(sizes)
            if block[k] < n and math.prod(block) // block[k] * min(2 * block[k], n) <= target
        ]
        if not grown:
            break
        k = min(grown, key=lambda k: block[k])
        block[k] = min(2 * block[k], sizes[k])
    return tuple(-(-n // -(-n // b)) if b < n else b for n, b in zip(sizes, block, strict=True))


def short_names(paths: list[str], taken: frozenset[str] = TAKEN) -> list[str]:
    """The last words of paths; where two are the same, or something else has the name, the paths themselves.

    >>> short_names(["flow.attention.beta", "measure.seed"])
    ['beta', 'seed']
    >>> short_names(["measure.seed", "time.seed"])
    ['measure_seed', 'time_seed']
    >>> short_names(["beta", "steps"])
    ['beta', 'steps_value']
    """
    last = [path.rsplit(".", 1)[-1] for path in paths]
    clash = lambda name: last.count(name) > 1 or name in taken or not name.isidentifier()
    names = [path.replace(".", "_") if clash(name) else name for name, path in zip(last, paths, strict=True)]
    names = [f"{name}_value" if name in taken else name for name in names]
    return [name if name.isidentifier() and names.count(name) == 1 else f"axis_{k}" for k, name in enumerate(names)]
