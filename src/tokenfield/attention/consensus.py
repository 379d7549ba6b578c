"""Neighbours of attention: the Krause model, and mean-shift."""

import numpy as np
from jaxtyping import Array, Float

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._types import Matrix, Scalar
from tokenfield.attention.base import DENSE, AbstractAttention, Points
from tokenfield.attention.dot_product import score_pair
from tokenfield.attention.l2 import L2
from tokenfield.errors import InputError
from tokenfield.measures import Tokens
from tokenfield.parameters import Parameter, number_parameter
from tokenfield.summation import AbstractSummation


class Krause(AbstractAttention):
    r"""$\Gamma(x_i) = \sum_j P_{ij} (x_j - x_i)$ with a fixed row-stochastic matrix P: linear consensus.

    **Arguments**

    - `P`: of shape (n, n), one row per token, entries not negative, rows that sum to 1.

    **Raises** `InputError` where P is no such matrix.

    >>> Krause([[0.5, 0.5], [0.0, 1.0]])(Tokens([[0.0], [1.0]])).tolist()
    [[0.5], [0.0]]
    """

    P: Float[Array, "n n"]

    @front_door
    def __init__(self, P: Matrix):
        P = check.finite("P", check.real_array("P", P))
        if P.ndim != 2 or P.shape[0] != P.shape[1]:
            raise InputError(f"Argument `P` must have shape (n, n), one row per token, but has shape {P.shape}.")
        if not check.traced(P):
            rows = np.asarray(P, np.float64).sum(1)
            if np.asarray(P).min() < 0 or abs(rows - 1).max() > 1e-6:
                raise InputError(
                    f"Argument `P` must be row-stochastic (entries ≥ 0, rows sum to 1), but has a smallest entry "
                    f"{np.asarray(P).min():g} and rows that sum to between {rows.min():g} and {rows.max():g}."
                )
        self.P = P

    def field(self, mu: Tokens, x: Points, summation: AbstractSummation) -> Float[Array, "n d"]:
        self._refuse_others(mu, x)
        return self.P @ mu.x - mu.x

    def matrix(self, mu: Tokens, x: Points, summation: AbstractSummation = DENSE) -> Float[Array, "n n"]:
        """P - I."""
        self._refuse_others(mu, x)
        return self.P - np.eye(mu.n, dtype=mu.x.dtype)

    def _refuse_others(self, mu: Tokens, x: Points) -> None:
        if x is not None or mu.n != len(self.P):
            raise InputError(f"P links {len(self.P)} tokens to each other; the field exists at these tokens only.")

    @property
    def isotropic(self) -> bool:
        return True

    @property
    def maskable(self) -> str | None:
        return "Krause attention cannot be causal: its matrix P says who sees whom. Put zeros into P."

    def check(self, d: int) -> int:
        return d


class MeanShift(AbstractAttention):
    r"""$\Gamma_\mu(x) = \nabla \log \int e^{-\beta|x-y|^2/2} d\mu(y) = \beta\,(\text{kernel mean at } x - x)$.

    Blurring mean-shift: the density estimate moves with the tokens. With `data` the estimate stands still and tokens climb it:
    classical mean-shift [cheng1995]. On the sphere the blurring kind is β times SA.

    **Arguments**

    - `beta`: the precision of the kernel.
    - `data`: points of shape (m, d) that stand still; left out, the tokens themselves.

    **Raises** `InputError` where β or the data are not finite.

    >>> MeanShift(beta=2.0)(Tokens([[0.0], [0.0]]), [1.0]).tolist()
    [-2.0]
    """

    beta: Parameter
    data: Float[Array, "m d"] | None

    @front_door
    def __init__(self, beta: Scalar = 1.0, data: Matrix = None):
        self.beta = number_parameter("beta", beta)
        self.data = None if data is None else Tokens(data).x  # pyright: ignore[reportArgumentType]

    def field(self, mu: Tokens, x: Points, summation: AbstractSummation) -> Float[Array, "m d"]:
        source = mu if self.data is None else Tokens(self.data)
        points = mu.x if x is None else x
        return self.beta * (L2(0.5 * self.beta).field(source, points, summation) - points)

    def matrix(self, mu: Tokens, x: Points, summation: AbstractSummation = DENSE) -> Float[Array, "m n"]:
        """That of the kernel mean."""
        if self.data is not None:
            raise InputError("Classical mean-shift attends to its data, not to tokens: it has no attention matrix.")
        return L2(0.5 * self.beta).matrix(mu, mu.x if x is None else x, summation)

    def scores(self, d: int) -> list[tuple[np.ndarray, np.ndarray]] | None:
        return score_pair(self.beta, None, None, None, d) if self.data is None else None

    @property
    def isotropic(self) -> bool:
        return self.data is None

    @property
    def mean_field(self) -> bool:
        return True

    @property
    def own_term_is_radial(self) -> bool:
        return self.data is None

    @property
    def maskable(self) -> str | None:
        return None if self.data is None else "Mean-shift towards data cannot be causal: data have no positions."

    def check(self, d: int) -> int:
        if self.data is not None and self.data.shape[1] != d:
            raise InputError(f"Argument `data` must have shape (m, d) = (m, {d}), but has shape {self.data.shape}.")
        return d
