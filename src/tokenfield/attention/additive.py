"""Additive attention: scores from a small network."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenfield._front import front_door
from tokenfield._types import Matrix, Scalar, Vector
from tokenfield.attention.base import AbstractKernel, Points
from tokenfield.attention.matrices import apply, times
from tokenfield.errors import InputError
from tokenfield.measures import Tokens
from tokenfield.parameters import Parameter, fits, matrix_parameter, number_parameter, parameter
from tokenfield.summation import AbstractSummation


class Additive(AbstractKernel):
    r"""Softmax attention with the score $\beta\, v^\top \tanh(Wx + Uy)$  [bahdanau2015].

    **Arguments**

    - `W`, `U`: matrices of shape (h, d).
    - `v`: a vector of shape (h,), ones when left out.
    - `beta`, `V`: as for `Softmax`.

    **Raises** `InputError` where a parameter is not finite or of no such shape.

    >>> Additive(W=[[1.0, 0.0]], U=[[0.0, 1.0]])(Tokens([[1.0, 0.0], [0.0, 1.0]])).shape
    (2, 2)
    """

    W: Parameter
    U: Parameter
    v: Parameter
    beta: Parameter
    V: Parameter

    @front_door
    def __init__(self, W: Matrix = None, U: Matrix = None, v: Vector = None, beta: Scalar = 1.0, V: Matrix = None):
        self.W, self.U, self.V = (matrix_parameter(name, value) for name, value in (("W", W), ("U", U), ("V", V)))
        self.v = parameter("v", v, 1, "a vector of shape (h,)")
        self.beta = number_parameter("beta", beta)

    @property
    def averages(self) -> bool:
        return True

    def weigh(
        self, mu: Tokens, x: Points, values: Float[Array, "n p"], summation: AbstractSummation
    ) -> Float[Array, "m p"]:
        q, k = apply(self.W, mu.x if x is None else x), apply(self.U, mu.x)
        v = self.beta * (jnp.ones(q.shape[1], q.dtype) if self.v is None else self.v)

        def score(q: Float[Array, "m h"], k: Float[Array, "n h"]) -> Float[Array, "m n"]:
            return sum(
                (v[h] * jnp.tanh(q[:, h, None] + k[None, :, h]) for h in range(q.shape[1])),
                start=jnp.zeros((), q.dtype),
            )

        return summation.exponential(q, k, values, mu.w, score).average

    def check(self, d: int) -> int:
        h = fits("W", self.W, d)
        if fits("U", self.U, d) != h:
            raise InputError(f"W and U must have the same number of rows h, but have {h} and {fits('U', self.U, d)}.")
        if self.v is not None and self.v.shape != (h,):
            raise InputError(
                f"Argument `v` must have shape (h,) = ({h},), as W has rows, but has shape {self.v.shape}."
            )
        return fits("V", self.V, d)

    @property
    def mean_field(self) -> bool:
        return True

    def rescaled_scores(self, d: int) -> list[tuple[np.ndarray, np.ndarray]] | None:
        return None

    def precompose(self, M: Any) -> "Additive":
        parts = times(self.W, M), times(self.U, M)
        return eqx.tree_at(lambda a: (a.W, a.U), self, parts, is_leaf=lambda leaf: leaf is None)
