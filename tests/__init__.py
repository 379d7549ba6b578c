"""Tests lie like the package. `checked` is the type checker that they put on every function of it: beartype, with int
accepted where float is."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))


def fast_first(cases: Iterable[Any], *fast: Any, name: Callable[[Any], str] = str) -> list[Any]:
    """Cases for `pytest.mark.parametrize`: those named `fast` run always, the others wait for `make test-full`."""
    mark = lambda case: () if name(case) in fast else pytest.mark.slow
    return [pytest.param(case, id=name(case), marks=mark(case)) for case in cases]
