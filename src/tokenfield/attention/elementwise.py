"""Kernels that are a function of the score, pair by pair: sigmoid, linear, ReLU."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tokenfield._front import front_door
from tokenfield._types import Matrix, Scalar
from tokenfield.attention.base import Points
from tokenfield.attention.dot_product import AbstractDotProduct, dot_product_parameters
from tokenfield.attention.matrices import apply, columns, scale
from tokenfield.harmonics import AbstractHarmonics
from tokenfield.measures import Equiangular, Tokens
from tokenfield.parameters import Parameter, number_parameter
from tokenfield.summation import AbstractSummation


class Sigmoid(AbstractDotProduct):
    r"""$\Gamma_\mu(x) = \int \sigma(\beta\langle Qx, Ky\rangle + b)\, V y \, d\mu(y)$  [castin2025].

    The offset b is as sigmoid attention is used, e.g. b = -log n. The kernel is below 1, so solutions in R^d are global:
    |x(t)| ≤ R₀ e^{t‖V‖}, as for softmax.

    **Arguments**

    - `beta`, `Q`, `K`, `V`, `A`: as for `Softmax`.
    - `b`: the offset of the scores.

    **Raises** `InputError` as `Softmax` does.

    >>> Sigmoid(beta=0.0)(Tokens([[1.0, 0.0], [0.0, 1.0]])).tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    """

    beta: Parameter
    Q: Parameter
    K: Parameter
    V: Parameter
    A: Parameter
    b: Parameter

    @front_door
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

    def equiangular(self, mu: Equiangular) -> tuple[Float[Array, ""], Float[Array, ""]]:
        return kernel_pair(self, lambda score: jax.nn.sigmoid(score + self.b), mu)


class Linear(AbstractDotProduct):
    r"""$\Gamma_\mu(x) = \int \beta\langle Qx, Ky\rangle V y \, d\mu(y)$, in O(n)  [castin2025]. May blow up in R^d.

    **Arguments**

    - `beta`, `Q`, `K`, `V`, `A`: as for `Softmax`.

    **Raises** `InputError` as `Softmax` does.

    >>> Linear()(Tokens([[1.0, 0.0], [0.0, 1.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """

    beta: Parameter
    Q: Parameter
    K: Parameter
    V: Parameter
    A: Parameter

    @front_door
    def __init__(self, beta: Scalar = 1.0, Q: Matrix = None, K: Matrix = None, V: Matrix = None, A: Matrix = None):
        self.beta, self.Q, self.K, self.V, self.A = dot_product_parameters(beta, Q, K, V, A)

    def weigh(
        self, mu: Tokens, x: Points, values: Float[Array, "n p"], summation: AbstractSummation
    ) -> Float[Array, "m p"]:
        q = apply(self.A if self.A is not None else self.Q, mu.x if x is None else x)
        return summation.linear(
            q, self.keys(mu), values, self.beta * mu.w
        )  # β times n weights is less than β times n rows

    def gaussian(
        self, mean: Float[Array, " d"], L: Float[Array, "d k"], directions: Float[Array, "d j"] | None = None
    ) -> tuple[Float[Array, " p"], Float[Array, "p j"]]:
        """Γ(x) = V (Σ + mmᵀ) S x."""
        S, x = self.score(len(mean)), jnp.column_stack([mean, L if directions is None else directions])
        moved = L @ (L.T @ (S @ x)) + jnp.outer(mean, mean @ (S @ x))
        return apply(self.V, moved[:, 0]), columns(self.V, moved[:, 1:])

    def equiangular(self, mu: Equiangular) -> tuple[Float[Array, ""], Float[Array, ""]]:
        return kernel_pair(self, lambda score: score, mu)

    def spectrum(self, d: int, degree: int) -> Array:
        """∫ β<x,y> y dμ is the gradient of (β/2) ∫ <x,y>² dμ, which has harmonics of degree 2 alone: β/d(d+2)."""
        return self.strength() / (d * (d + 2)) * (jnp.arange(degree + 1) == 2)

    def potential(
        self, f: Float[Array, "*batch size"], basis: AbstractHarmonics, spectrum: Array
    ) -> Float[Array, "*batch size"]:
        return scale(self.V, spectrum[basis.degrees] * f)


class ReLU(AbstractDotProduct):
    r"""$\Gamma_\mu(x) = \int \max(\beta\langle Qx, Ky\rangle, 0)\, V y \, d\mu(y)$  [castin2025]. May blow up in R^d.

    **Arguments**

    - `beta`, `Q`, `K`, `V`, `A`: as for `Softmax`.

    **Raises** `InputError` as `Softmax` does.

    >>> ReLU()(Tokens([[1.0, 0.0], [-1.0, 0.0]])).tolist()
    [[0.5, 0.0], [-0.5, 0.0]]
    """

    beta: Parameter
    Q: Parameter
    K: Parameter
    V: Parameter
    A: Parameter

    @front_door
    def __init__(self, beta: Scalar = 1.0, Q: Matrix = None, K: Matrix = None, V: Matrix = None, A: Matrix = None):
        self.beta, self.Q, self.K, self.V, self.A = dot_product_parameters(beta, Q, K, V, A)

    def weigh(
        self, mu: Tokens, x: Points, values: Float[Array, "n p"], summation: AbstractSummation
    ) -> Float[Array, "m p"]:
        return summation.elementwise(jax.nn.relu, self.queries(mu, x), self.keys(mu), values, mu.w)

    def equiangular(self, mu: Equiangular) -> tuple[Float[Array, ""], Float[Array, ""]]:
        return kernel_pair(self, jax.nn.relu, mu)


def kernel_pair(attention: AbstractDotProduct, kernel: Callable, mu: Equiangular) -> tuple[Array, Array]:
    """p = V k(β r²)/n, q = V k(β ρ r²)/n for a kernel of the score alone."""
    weight = lambda cosine: scale(attention.V, kernel(attention.strength() * cosine * mu.r**2) / mu.n)
    return weight(1.0), weight(mu.rho)
