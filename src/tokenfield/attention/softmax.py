"""Softmax attention, the kernel of the SA model."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tokenfield._checks import Matrix, Scalar
from tokenfield.attention.base import AbstractDotProduct, apply, dot_product_parameters
from tokenfield.measures import Tokens
from tokenfield.summation import AbstractSummation


class Softmax(AbstractDotProduct):
    r"""$\Gamma_\mu(x) = \int e^{\beta\langle Qx, Ky\rangle} V y\,d\mu(y) / \int e^{\beta\langle Qx, Ky\rangle} d\mu$.

    [rigollet2025, equation (1)]. Finite at any β: exponents are shifted by their largest.

    **Arguments** `beta`: inverse temperature. `Q`, `K`: (k, d) matrices, `V`: (d, d); a number c means c·I, left out
    means I. `A`: the (d, d) matrix KᵀQ instead of Q and K.

    >>> mu = Tokens([[1.0, 0.0], [0.0, 1.0]])
    >>> Softmax(beta=0.0)(mu).tolist()          # without temperature, everyone sees the mean
    [[0.5, 0.5], [0.5, 0.5]]
    >>> Softmax(beta=1e4)(mu, [0.6, 0.8]).tolist()     # and at a large β, only the most aligned token
    [0.0, 1.0]
    """

    beta: Float[Array, ""]
    Q: Array | None
    K: Array | None
    V: Array | None
    A: Array | None

    def __init__(self, beta: Scalar = 1.0, Q: Matrix = None, K: Matrix = None, V: Matrix = None, A: Matrix = None):
        self.beta, self.Q, self.K, self.V, self.A = dot_product_parameters(beta, Q, K, V, A)

    def field(self, mu: Tokens, x: Float[Array, "m d"], summation: AbstractSummation) -> Float[Array, "m d"]:
        return apply(self.V, summation.exponential(self.queries(x), self.keys(mu.x), mu.x, mu.w).average)

    def matrix(self, mu: Tokens, x: Float[Array, "m d"]) -> Float[Array, "m n"]:
        return jax.nn.softmax(self.queries(x) @ self.keys(mu.x).T + jnp.log(mu.w), axis=1)
