"""Which summation serves a request. Named ones are honoured; what is left open is decided here."""

from typing import Any

from tokenfield.errors import InputError, suggest
from tokenfield.summation.base import AbstractSummation
from tokenfield.summation.dense import Dense

KINDS: dict[str, type[AbstractSummation]] = {"dense": Dense}


def choose(summation: Any = None) -> AbstractSummation:
    """A summation by name, as given, or the best one known when nothing was named."""
    if isinstance(summation, AbstractSummation):
        return summation
    if summation is None:
        return Dense()
    if not isinstance(summation, str) or summation not in KINDS:
        raise InputError(f"Unknown summation {summation!r}. {suggest(summation, KINDS)}")
    return KINDS[summation]()
