"""Kernels that are a function of the score, pair by pair: sigmoid, linear, ReLU."""

import jax
from jaxtyping import Array, Float

from tokenfield._checks import Matrix, Scalar
from tokenfield.attention.base import AbstractDotProduct, Points, dot_product_parameters
from tokenfield.measures import Tokens
from tokenfield.parameters import Parameter, number_parameter
from tokenfield.summation import AbstractSummation


class Sigmoid(AbstractDotProduct):
    r"""$\Gamma_\mu(x) = \int \sigma(\beta\langle Qx, Ky\rangle + b)\, V y \, d\mu(y)$  [castin2025].

    The offset b is as sigmoid attention is used, e.g. b = -log n. The kernel is below 1, so solutions in R^d are global:
    |x(t)| ≤ R₀ e^{t‖V‖}, as for softmax.

    >>> Sigmoid(beta=0.0)(Tokens([[1.0, 0.0], [0.0, 1.0]])).tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    """

    beta: Parameter
    Q: Parameter
    K: Parameter
    V: Parameter
    A: Parameter
    b: Parameter

    def __init__(
        self,
        beta: Scalar = 1.0,
        Q: Matrix = None,
        K: Matrix = None,
        V: Matrix = None,
        A: Matrix = None,
        b: Scalar = 0.0,
    ):
        self.beta, self.Q, self.K, self.V, self.A = dot_product_parameters(beta, Q, K, V, A)
        self.b = number_parameter("b", b)

    def weigh(
        self, mu: Tokens, x: Points, values: Float[Array, "n p"], summation: AbstractSummation
    ) -> Float[Array, "m p"]:
        kernel = lambda scores: jax.nn.sigmoid(scores + self.b)
        return summation.elementwise(kernel, self.queries(mu, x), self.keys(mu), values, mu.w)


class Linear(AbstractDotProduct):
    r"""$\Gamma_\mu(x) = \int \beta\langle Qx, Ky\rangle V y \, d\mu(y)$, in O(n)  [castin2025]. May blow up in R^d.

    >>> Linear()(Tokens([[1.0, 0.0], [0.0, 1.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.5]]
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
        return summation.linear(self.queries(mu, x), self.keys(mu), values, mu.w)


class ReLU(AbstractDotProduct):
    r"""$\Gamma_\mu(x) = \int \max(\beta\langle Qx, Ky\rangle, 0)\, V y \, d\mu(y)$  [castin2025]. May blow up in R^d.

    >>> ReLU()(Tokens([[1.0, 0.0], [-1.0, 0.0]])).tolist()
    [[0.5, 0.0], [-0.5, 0.0]]
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
        return summation.elementwise(jax.nn.relu, self.queries(mu, x), self.keys(mu), values, mu.w)
