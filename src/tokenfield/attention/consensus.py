"""Neighbours of attention: the Krause model, and mean-shift."""

from typing import Any

import numpy as np
from jaxtyping import Array, Float

from tokenfield import _checks as check
from tokenfield._checks import Matrix, Scalar
from tokenfield.attention.base import AbstractAttention, Points, score_pair
from tokenfield.attention.l2 import L2
from tokenfield.errors import InputError
from tokenfield.measures import Tokens
from tokenfield.parameters import Parameter, number_parameter
from tokenfield.summation import AbstractSummation


class Krause(AbstractAttention):
    r"""$\Gamma(x_i) = \sum_j P_{ij} (x_j - x_i)$ with a fixed row-stochastic matrix P: linear consensus.

    >>> Krause([[0.5, 0.5], [0.0, 1.0]])(Tokens([[0.0], [1.0]])).tolist()
    [[0.5], [0.0]]
    """

    P: Float[Array, "n n"]

    def __init__(self, P: Matrix):
        P = check.finite("P", check.real_array("P", P))
        if P.ndim != 2 or P.shape[0] != P.shape[1]:
            raise InputError(f"Argument `P` must have shape (n, n), one row a token, but has shape {P.shape}.")
        if not check.traced(P):
            rows = np.asarray(P, np.float64).sum(1)
            if np.asarray(P).min() < 0 or abs(rows - 1).max() > 1e-6:
                raise InputError(
                    f"Argument `P` must be row-stochastic (entries ≥ 0, rows sum to 1), but has a smallest entry "
                    f"{np.asarray(P).min():g} and rows that sum to between {rows.min():g} and {rows.max():g}."
                )
        self.P = P

    def weigh(
        self, mu: Tokens, x: Points, values: Float[Array, "n p"], summation: AbstractSummation
    ) -> Float[Array, "n p"]:
        if x is not None or mu.n != len(self.P):
            raise InputError(f"P links {len(self.P)} tokens to each other; the field exists at these tokens only.")
        return self.P @ values - values

    @property
    def isotropic(self) -> bool:
        return True

    def check(self, d: int) -> int:
        return d


class MeanShift(AbstractAttention):
    r"""$\Gamma_\mu(x) = \nabla \log \int e^{-\beta|x-y|^2/2} d\mu(y) = \beta\,(\text{kernel mean at } x - x)$.

    Blurring mean-shift: the density estimate moves with the tokens. With `data` of shape (m, d) the estimate stands still
    and tokens climb it: classical mean-shift [cheng1995]. On the sphere the blurring kind is β times SA.

    >>> MeanShift(beta=2.0)(Tokens([[0.0], [0.0]]), [1.0]).tolist()
    [-2.0]
    """

    beta: Parameter
    data: Float[Array, "m d"] | None

    def __init__(self, beta: Scalar = 1.0, data: Matrix = None):
        self.beta = number_parameter("beta", beta)
        self.data = None if data is None else Tokens(data).x

    def field(self, mu: Tokens, x: Points, summation: AbstractSummation) -> Float[Array, "m d"]:
        source = mu if self.data is None else Tokens(self.data)
        points = mu.x if x is None else x
        return self.beta * (L2(0.5 * self.beta).field(source, points, summation) - points)

    def weigh(
        self, mu: Tokens, x: Points, values: Float[Array, "n p"], summation: AbstractSummation
    ) -> Float[Array, "m p"]:
        if self.data is not None:
            raise InputError("Classical mean-shift attends to its data, not to tokens: it has no attention matrix.")
        return L2(0.5 * self.beta).weigh(mu, mu.x if x is None else x, values, summation)

    def scores(self, d: int) -> list[tuple[np.ndarray, np.ndarray]] | None:
        return score_pair(self.beta, None, None, None, d) if self.data is None else None

    @property
    def isotropic(self) -> bool:
        return self.data is None

    def check(self, d: int) -> int:
        if self.data is not None and self.data.shape[1] != d:
            raise InputError(f"Argument `data` must have shape (m, d) = (m, {d}), but has shape {self.data.shape}.")
        return d

    def precompose(self, M: Any) -> "MeanShift":
        raise InputError(
            "Mean-shift is not an average of values V y: it has no rescaled coordinates. Use Free() or PostLN()."
        )
