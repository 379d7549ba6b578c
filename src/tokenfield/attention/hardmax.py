"""Hardmax attention: only the most aligned other token is seen."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from tokenfield._front import front_door
from tokenfield._types import Matrix
from tokenfield.attention.base import Points
from tokenfield.attention.dot_product import AbstractDotProduct, dot_product_parameters
from tokenfield.attention.matrices import apply, scale
from tokenfield.measures import Equiangular, Tokens
from tokenfield.parameters import Parameter
from tokenfield.summation import AbstractSummation


class Hardmax(AbstractDotProduct):
    r"""$\Gamma_\mu(x_i) = V x_j$ with j the argmax of <Qx_i, Kx_j> over j ≠ i; ties are shared in proportion to weights.

    The limit β → ∞ of softmax attention in which a token does not attend to itself. At points that are not tokens, no token
    is left out.

    **Arguments**

    - `Q`, `K`, `V`, `A`: as for `Softmax`.

    **Raises** `InputError` as `Softmax` does.

    >>> Hardmax()(Tokens([[1.0, 0.0], [0.8, 0.6], [-1.0, 0.0]])).tolist()
    [[0.8, 0.6], [1.0, 0.0], [0.8, 0.6]]
    """

    beta: Parameter
    Q: Parameter
    K: Parameter
    V: Parameter
    A: Parameter

    @front_door
    def __init__(self, Q: Matrix = None, K: Matrix = None, V: Matrix = None, A: Matrix = None):
        _, self.Q, self.K, self.V, self.A = dot_product_parameters(1.0, Q, K, V, A)
        self.beta = None

    @property
    def averages(self) -> bool:
        return True

    @property
    def mean_field(self) -> bool:
        return False  # a token sees its twin in the same place, but not itself

    @property
    def maskable(self) -> str | None:
        return "Hardmax attention cannot be causal: the first token, which does not see itself, sees nobody."

    def queries(self, mu: Tokens, x: Points) -> Float[Array, "m k"]:
        return apply(self.A if self.A is not None else self.Q, mu.x if x is None else x)

    def weigh(
        self, mu: Tokens, x: Points, values: Float[Array, "n p"], summation: AbstractSummation
    ) -> Float[Array, "m p"]:
        if mu.n == 1 and x is None:  # nobody else: nothing is seen
            return jnp.zeros_like(values)
        return summation.largest(self.queries(mu, x), self.keys(mu), values, mu.w, alone=x is None)

    def equiangular(self, mu: Equiangular) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """All others tie."""
        return jnp.zeros_like(mu.r), scale(self.V, 1 / (mu.n - 1))
