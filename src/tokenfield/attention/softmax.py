"""Softmax attention, the kernel of the SA model."""

from jaxtyping import Array, Float

from tokenfield._checks import Matrix, Scalar
from tokenfield.attention.base import AbstractDotProduct, Points, dot_product_parameters
from tokenfield.measures import Tokens
from tokenfield.parameters import Parameter
from tokenfield.summation import AbstractSummation


class Softmax(AbstractDotProduct):
    r"""$\Gamma_\mu(x) = \int e^{\beta\langle Qx, Ky\rangle} V y\,d\mu(y) / \int e^{\beta\langle Qx, Ky\rangle} d\mu$.

    [rigollet2025, equation (1)]. Finite at any β: exponents are shifted by their largest.

    **Arguments** `beta`: inverse temperature. `Q`, `K`: (k, d) matrices, `V`: (d, d); a number c means c·I, left out
    means I. `A`: the (d, d) matrix KᵀQ instead of Q and K. Each may be a function of t, or have one value a layer along
    a first axis (`PerLayer`).

    >>> mu = Tokens([[1.0, 0.0], [0.0, 1.0]])
    >>> Softmax(beta=0.0)(mu).tolist()          # without temperature, everyone sees the mean
    [[0.5, 0.5], [0.5, 0.5]]
    >>> Softmax(beta=1e4)(mu, [0.6, 0.8]).tolist()     # and at a large β, only the most aligned token
    [0.0, 1.0]
    """

    beta: Parameter
    Q: Parameter
    K: Parameter
    V: Parameter
    A: Parameter

    def __init__(self, beta: Scalar = 1.0, Q: Matrix = None, K: Matrix = None, V: Matrix = None, A: Matrix = None):
        self.beta, self.Q, self.K, self.V, self.A = dot_product_parameters(beta, Q, K, V, A)

    def weigh(
        self, mu: Tokens, x: Points, values: Float[Array, "n p"], summation: AbstractSummation
    ) -> Float[Array, "m p"]:
        return summation.exponential(self.queries(mu, x), self.keys(mu), values, mu.w).average
