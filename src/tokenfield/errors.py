"""What the front doors say when something cannot be done: what was expected, what came, what to do."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """An argument, a field of a spec, or a file that cannot be used as it is."""


class RoomError(InputError):
    """More memory than there is at present."""


class StoreError(InputError):
    """A file that cannot be read or written whole."""


def short(thing: object, most: int = 80) -> str:
    """What a sentence says of something that came, however long it is."""
    try:
        text = repr(thing)
    except Exception:
        text = f"a {type(thing).__name__}"
    return text if len(text) <= most else f"{text[: most - 3]}..."


class CallError(InputError, TypeError):
    """A call with an argument that does not exist, or without one that must be given: to Python, a `TypeError`."""


def suggest(name: object, known: Iterable[str]) -> str:
    """`Did you mean ...?` for a near miss, and what there is to choose from."""
    known = sorted(known)
    near = difflib.get_close_matches(name.lower()[:80], known, n=1, cutoff=0.5) if isinstance(name, str) else []
    return (f"Did you mean {near[0]!r}? " if near else "") + "Known: " + ", ".join(known) + "."


class UnfinishedWarning(UserWarning):
    """A run that nobody asked to stop ended before its time."""
