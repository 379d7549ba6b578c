"""L2 attention: scores are distances."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._types import Matrix, Scalar
from tokenfield.attention.base import AbstractKernel, Points
from tokenfield.attention.dot_product import dot_product_parameters, score_pair
from tokenfield.attention.matrices import apply, columns, is_number, square, times, transpose
from tokenfield.attention.softmax import Softmax, softmax_pair
from tokenfield.errors import InputError
from tokenfield.measures import Equiangular, Tokens
from tokenfield.parameters import Parameter, fits
from tokenfield.summation import AbstractSummation


class L2(AbstractKernel):
    r"""$\Gamma_\mu(x) = \int e^{-\beta|Qx-Ky|^2} V y\,d\mu(y) / \int e^{-\beta|Qx-Ky|^2} d\mu(y)$  [castin2025].

    On the sphere with Q = K = I it is softmax attention at 2β.

    **Arguments**

    - `beta`, `Q`, `K`, `V`: as for `Softmax`; there is no A, since distances need Q and K themselves.

    **Raises** `InputError` as `Softmax` does.

    >>> L2(beta=1e4)(Tokens([[1.0, 0.0], [4.0, 0.0]]), [2.0, 0.0]).tolist()        # the nearest token, not the longest
    [1.0, 0.0]
    """

    beta: Parameter
    Q: Parameter
    K: Parameter
    V: Parameter

    @front_door
    def __init__(self, beta: Scalar = 1.0, Q: Matrix = None, K: Matrix = None, V: Matrix = None):
        self.beta, self.Q, self.K, self.V, _ = dot_product_parameters(beta, Q, K, V)

    @property
    def averages(self) -> bool:
        return True

    def weigh(
        self, mu: Tokens, x: Points, values: Float[Array, "n p"], summation: AbstractSummation
    ) -> Float[Array, "m p"]:
        """-β|q-k|² = 2β<q,k> - β|k|² up to a constant per row, which a normalized kernel does not feel."""
        q, k = apply(self.Q, mu.x if x is None else x), apply(self.K, mu.x)
        bias = -self.beta * jnp.sum(k**2, axis=1)
        return summation.exponential(2 * self.beta * q, k, values, mu.w, bias=bias).average

    def scores(self, d: int) -> list[tuple[np.ndarray, np.ndarray]] | None:
        known = eqx.is_array(self.beta) and not check.traced(self.beta)
        factor = 2 * np.asarray(self.beta) if known else self.beta
        return score_pair(factor, self.Q, self.K, None, d)

    @property
    def isotropic(self) -> bool:
        return all(is_number(part) for part in (self.Q, self.K, self.V))

    @property
    def mean_field(self) -> bool:
        return True

    @property
    def own_term_is_radial(self) -> bool:
        return self.isotropic

    def rescaled_scores(self, d: int) -> list[tuple[np.ndarray, np.ndarray]] | None:
        return self.scores(d)

    def gaussian(
        self, mean: Float[Array, " d"], L: Float[Array, "d k"], directions: Float[Array, "d j"] | None = None
    ) -> tuple[Float[Array, " p"], Float[Array, "p j"]]:
        """Γ(x) = V (m + P (Sx - Hm)) with S = 2βKᵀQ, H = 2βKᵀK and P = (Σ⁻¹ + H)⁻¹ = L (I + LᵀHL)⁻¹ Lᵀ, the covariance
        of the keys that a query sees  [castin2025]."""
        S, H = (2 * self.beta * square(times(transpose(self.K), M), len(mean)) for M in (self.Q, self.K))
        inner = jnp.eye(L.shape[1], dtype=L.dtype) + L.T @ H @ L
        P = lambda y: L @ jax.scipy.linalg.solve(inner, L.T @ y, assume_a="pos")
        slope = P(S @ (L if directions is None else directions))
        return apply(self.V, mean + P((S - H) @ mean)), columns(self.V, slope)

    def equiangular(self, mu: Equiangular) -> tuple[Float[Array, ""], Float[Array, ""]]:
        return softmax_pair(self.V, 2 * Softmax(self.beta, self.Q, self.K, self.V).strength(), mu)

    def check(self, d: int) -> int:
        if fits("Q", self.Q, d) != fits("K", self.K, d):
            raise InputError("Q and K must have the same number of rows: L2 attention compares Qx with Ky.")
        return fits("V", self.V, d)

    def precompose(self, M: Any) -> "L2":
        return L2(self.beta, times(self.Q, M), times(self.K, M), self.V)
