"""Compiled programs: one decorator for all of the package's, and room for them.

A program takes some memory maps, and a process on Linux may have some 65,000; beyond that, XLA crashes while compiling. A
session that comes near, after many runs of different shapes, forgets tokenfield's own programs and goes on. Programs of the
user's are never touched.
"""

import functools
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, overload

import equinox as eqx

P = ParamSpec("P")
R = TypeVar("R")

MAPS, LIMIT = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")
EVERY = 8
"""How many calls between two looks, which take some milliseconds."""

_PROGRAMS: list[Any] = []
_calls = 0


@overload
def compiled(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def compiled(*, donate: str) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def compiled(function: Any = None, *, donate: str = "none") -> Any:
    """`equinox.filter_jit` of a function of the package: arrays are traced, everything else is part of the program's key.
    `donate` as filter_jit has it: which arguments give their memory to the results."""
    if function is None:
        return functools.partial(compiled, donate=donate)
    # Equinox shares one cache between functions of one name, wherever they come from: ours must be ours alone.
    function.__qualname__ = f"{function.__module__}.{function.__qualname__}"
    program = eqx.filter_jit(function, donate=donate)  # pyright: ignore[reportCallIssue, reportArgumentType]
    _PROGRAMS.append(program)
    return program


def make_room() -> None:
    """Forget tokenfield's compiled programs where memory maps run short."""
    global _calls
    _calls += 1
    if _calls % EVERY == 0 and _crowded():
        forget()


def forget() -> None:
    """Forget all of tokenfield's compiled programs; they are compiled again when they are needed."""
    for program in _PROGRAMS:
        program._cached.clear_cache()
    gc.collect()


def _crowded() -> bool:
    try:
        with MAPS.open("rb") as maps:
            return sum(1 for _ in maps) > 0.6 * int(LIMIT.read_text())
    except (OSError, ValueError):  # not Linux
        return False
