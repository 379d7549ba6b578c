"""Whether the walk of an ensemble may follow the pace of the machine.

An ensemble moves to a smaller program when empty slots have cost as much time as compiling does, which depends on the machine and
on whatever else it does. A member is the same either way, to round-off. Whoever needs every bit to be the same again asks for a
steady walk, in which programs change by the number of members alone.
"""

import contextlib
import contextvars
from collections.abc import Iterator

_steady: contextvars.ContextVar[bool] = contextvars.ContextVar("steady", default=False)


@contextlib.contextmanager
def steadily() -> Iterator[None]:
    """Within it, the walk of an ensemble does not depend on the pace of the machine."""
    token = _steady.set(True)
    try:
        yield
    finally:
        _steady.reset(token)


def is_steady() -> bool:
    """Whether somebody has asked for it."""
    return _steady.get()
