"""TOML from strangers: its size and depth are bounded before it is parsed, and the lines of its fields are found in one pass."""

import re
import tomllib
from typing import Any

LARGEST = 4 * 2**20
"""Bytes of a spec; larger matrices belong in files."""
DEEPEST = 32
"""How deep sections, lists and dotted names may be nested."""

_SIGN = re.compile(r'"""|\'\'\'|["\'#\[\]{}=,.\n]')
_REST = {
    '"""': re.compile(r'(?:[^\\]|\\.)*?"""', re.DOTALL),
    "'''": re.compile(r".*?'''", re.DOTALL),
    '"': re.compile(r'(?:[^"\\\n]|\\.)*"'),
    "'": re.compile(r"[^'\n]*'"),
    "#": re.compile(r"[^\n]*"),
}


def parsed(text: str) -> dict[str, Any]:
    """What a TOML text says.

    **Arguments**

    - `text`: the text.

    **Returns** plain data.

    **Raises** `ValueError` where it is not TOML, or nested too deeply.
    """
    _refuse_depth(text)
    return tomllib.loads(text)


def lines(text: str) -> dict[tuple[str, ...], int]:
    """The line of every section and field of a TOML text.

    **Arguments**

    - `text`: the text.

    **Returns** line numbers by the names on the way to the field.
    """
    found: dict[tuple[str, ...], int] = {}
    section: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.strip()
        name, equals, _ = line.partition("=")
        if line.startswith("["):
            section = _keys(line.lstrip("[ \t").partition("]")[0])
            found.setdefault(section, number)
        elif equals and re.fullmatch(r"[\w\-.\"' \t]+", name):
            found.setdefault((*section, *_keys(name)), number)
    return found


def _keys(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def _refuse_depth(text: str) -> None:
    """Count brackets, and dots between two other signs, outside of strings and comments."""
    at = depth = dots = 0
    while sign := _SIGN.search(text, at):
        at, what = sign.end(), sign[0]
        if what in _REST:
            rest = _REST[what].match(text, at)
            if rest is None:  # a string without an end, of which the parser will tell
                return
            at = rest.end()
            continue
        depth += (what in "[{") - (what in "]}")
        dots = dots + 1 if what == "." else 0
        if max(depth, dots) > DEEPEST:
            line = text.count("\n", 0, at) + 1
            raise ValueError(f"nested deeper than {DEEPEST} (at line {line}, column 1)")
