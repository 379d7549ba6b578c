"""What front doors accept.

To type checkers these are unions of what may be given. At run time they are `Any` with the name of a kind: `_front.py` reads
arguments of that kind and refuses what does not fit, in sentences that say what was expected, and specs read fields by it.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from tokenfield._marks import no_type_check as no_type_check

if TYPE_CHECKING:
    from typing import Self as Self

    import numpy as np
    from jax import Array

    from tokenfield.attention import AbstractAttention
    from tokenfield.parameters import PerLayer, Schedule

    Number: TypeAlias = "float | np.number | np.ndarray | Array"
    Numbers: TypeAlias = "Number | Sequence[float] | Sequence[Number] | Sequence[Sequence[float]]"
    Points: TypeAlias = Numbers
    Changing: TypeAlias = "Callable[[Array], Array] | PerLayer | Schedule"
    ScalarLike: TypeAlias = "Number | Sequence[float] | Changing | None"
    VectorLike: TypeAlias = "Numbers | Changing | None"
    MatrixLike: TypeAlias = "Numbers | Sequence[Sequence[Sequence[float]]] | Changing | None"
    WholeLike: TypeAlias = "int | np.integer | None"
    CountLike: TypeAlias = int
    AttentionLike: TypeAlias = AbstractAttention
    AttentionsLike: TypeAlias = Sequence[AbstractAttention]
    AnyArray: TypeAlias = "Array | Any"
    """An array of JAX's, or, where values are known and computed on the host, one of numpy's."""
else:
    from jax import Array
    from numpy import ndarray

    AnyArray = Array | ndarray
    Self = Any  # which the tests' checker knows only where it decorates whole classes
    Number, Numbers, Points = (Annotated[Any, kind] for kind in ("number", "numbers", "points"))
    ScalarLike = VectorLike = MatrixLike = WholeLike = CountLike = AttentionLike = AttentionsLike = Any

# What solvers pass around, as Diffrax does: it may be anything that behaves like this.
Time: TypeAlias = Any
"""A time: an array of shape (), or a number."""
Rows: TypeAlias = Any
"""The rows of numbers that a solver moves, or their rates."""
Memory: TypeAlias = Any
"""What attention carries from step to step, known to it alone."""

Scalar = Annotated[ScalarLike, "scalar"]
"""One number; where it may change with depth, a function of t or one number per layer."""
Vector = Annotated[VectorLike, "vector"]
Matrix = Annotated[MatrixLike, "matrix"]
"""A matrix, or a number c for c·I; a function of t, or one matrix per layer."""
Whole = Annotated[WholeLike, "whole"]
Count = Annotated[CountLike, "whole"]
"""A whole number that must be given."""
Attention = Annotated[AttentionLike, "attention"]
Attentions = Annotated[AttentionsLike, "attentions"]
