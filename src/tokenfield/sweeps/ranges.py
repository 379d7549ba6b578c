"""Values of a parameter, as they are typed: `linspace:0.1:9:90`, `range:0:2048`, `1,2,5`. Nothing here loads JAX."""

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tokenfield.errors import InputError, short
from tokenfield.spec import toml

FORMS = "linspace:FIRST:LAST:COUNT, geomspace:FIRST:LAST:COUNT, range:FIRST:END[:STEP], or values such as 1,2,5"
LONGEST = 1_000_000
"""The most values that one parameter may have."""


def over(text: str) -> tuple[str, list[Any]]:
    """A parameter and its values, as `--over` has them.

    **Arguments**

    - `text`: FIELD=VALUES.

    **Returns** the path of the field, and the values.

    **Raises** `InputError` where that cannot be read.

    >>> over("flow.attention.beta=linspace:1:9:3")
    ('flow.attention.beta', [1.0, 5.0, 9.0])
    >>> over("measure.seed=range:0:3")
    ('measure.seed', [0, 1, 2])
    >>> over("flow.attention.kind=softmax,l2")
    ('flow.attention.kind', ['softmax', 'l2'])
    """
    path, equals, values = text.partition("=")
    if not equals or not all(path.strip().split(".")):
        raise InputError(f"--over needs FIELD=VALUES, but got {short(text)}. VALUES are {FORMS}.")
    return path.strip(), _values(path.strip(), values.strip())


def _values(path: str, text: str) -> list[Any]:
    form, colon, rest = text.partition(":")
    if not colon or form not in ("linspace", "geomspace", "range"):
        return _listed(text)
    try:
        return _made(form, [float(part) for part in rest.split(":")])
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"--over {path}: {short(text)} cannot be read ({error}). VALUES are {FORMS}.") from None


def _made(form: str, numbers: list[float]) -> list[Any]:
    if form == "range":
        if not 2 <= len(numbers) <= 3 or any(number != int(number) for number in numbers):
            raise ValueError("range takes two or three whole numbers")
        found = range(*map(int, numbers))
        if len(found) > LONGEST:
            raise ValueError(f"more than {LONGEST} values")
        return list(found)
    if len(numbers) != 3:
        raise ValueError(f"{form} takes a first and a last value, and a count")
    first, last, count = numbers
    if count != int(count) or not 1 <= count <= LONGEST:
        raise ValueError("the count is a whole number from 1 on")
    if form == "geomspace" and not first * last > 0:
        raise ValueError("equal ratios need two ends of one sign, and no zero")
    space = np.linspace if form == "linspace" else np.geomspace
    return space(first, last, int(count)).tolist()


def _listed(text: str) -> list[Any]:
    """Values between commas, those inside brackets or quotes excepted; brackets around all of it may be left out."""
    for whole in (text, f"[{text}]"):
        found = _value(whole)
        if isinstance(found, list):
            return found
    return [_value(part.strip()) for part in text.split(",")]


def _value(part: str) -> Any:
    try:
        return toml.parsed(f"value = {part}")["value"]
    except (ValueError, RecursionError):
        return part


def checked(name: str, values: Any) -> list[Any]:
    """Values of a parameter as plain numbers, words or lists, each once.

    **Arguments**

    - `name`: the parameter.
    - `values`: a list, a range or an array.

    **Returns** the values.

    **Raises** `InputError` where there are none, one is twice, or something is neither a number nor a word.
    """
    if isinstance(values, str | bytes | set | frozenset | Mapping) or not isinstance(values, Iterable):
        raise InputError(
            f"The values of {name} must be a list, but are {short(values)}. One value belongs into the spec."
        )
    try:
        found = [_plain(value) for value in itertools.islice(values, LONGEST + 1)]
    except Exception:
        raise InputError(f"The values of {name} must be numbers or words, but are {short(values)}.") from None
    if not found:
        raise InputError(f"The parameter {name} has no values: there is nothing to run.")
    if len(found) > LONGEST:
        raise InputError(f"The parameter {name} has more than {LONGEST} values.")
    for value in found:
        _refuse_other(name, value)
    if len({_key(value) for value in found}) < len(found):
        raise InputError(f"The parameter {name} has one value twice: each is run once.")
    return found


def _plain(value: Any) -> Any:
    """Arrays and their numbers as Python's own."""
    return value.tolist() if hasattr(value, "tolist") else list(value) if isinstance(value, tuple) else value


def _refuse_other(name: str, value: Any) -> None:
    """Refuse what is neither a number nor a word, nor a list of these."""
    if isinstance(value, list):
        for one in value:
            _refuse_other(name, one)
    elif not isinstance(value, bool | int | float | str):
        raise InputError(f"The values of {name} must be numbers or words, but one is {short(value)}.")
    elif isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"The values of {name} must be finite, but one is {value}.")
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise InputError(f"The values of {name} must be numbers of the machine's, but one is {short(value)}.")
    elif isinstance(value, str) and not value.isprintable():
        raise InputError(f"The values of {name} must be words that can be printed, but one is {short(value)}.")


def _key(value: Any) -> Any:
    """What two values share that are the same: 1 and 1.0 are, 1 and True are not."""
    return (type(value) is bool, value) if isinstance(value, bool | int | float) else repr(value)
