"""Marks on functions. Nothing here loads JAX."""

from typing import TypeVar

F = TypeVar("F")


def no_type_check(function: F) -> F:
    """Marks a front door: it refuses what does not fit in its own words, so that the tests' checker of annotations, which looks
    for a decorator of this name, leaves its arguments alone. Unlike typing's, it hides nothing from type checkers."""
    function.__no_type_check__ = True  # pyright: ignore[reportAttributeAccessIssue]
    return function
