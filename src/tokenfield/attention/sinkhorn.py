"""Sinkhorn attention: the doubly stochastic kernel."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx
from jaxtyping import Array, Bool, Float, Int

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._types import Matrix, Scalar, Whole
from tokenfield.attention.base import Points
from tokenfield.attention.dot_product import AbstractDotProduct, dot_product_parameters
from tokenfield.attention.matrices import apply, columns
from tokenfield.attention.softmax import softmax_pair
from tokenfield.measures import Equiangular, Tokens
from tokenfield.parameters import Parameter
from tokenfield.summation import AbstractSummation, Dense


class Potentials(NamedTuple):
    """log g at the tokens, the largest error of a column's marginal, and how many rounds it took."""

    log_g: Float[Array, " n"]
    error: Float[Array, ""]
    rounds: Int[Array, ""]


class Sinkhorn(AbstractDotProduct):
    r"""$k_\mu(x, y) = f(x)\, e^{\beta\langle Qx, Ky\rangle} g(y)$ with $\int k\,d\mu(y) = 1$ for all x and
    $\int k\,d\mu(x) = 1$ for all y  [castin2025].

    f and g come from alternating normalization of rows and columns, in the log domain, until every column's marginal is 1
    to `tolerance`, at most `iterations` rounds; along a run they start from those of the step before. Rows are normalized
    last and exactly, so Γ_μ(x) is defined at any point x. Gradients go through the fixed point, not its iterations.

    **Arguments**

    - `beta`, `Q`, `K`, `V`, `A`: as for `Softmax`.
    - `tolerance`: how far from 1 a column's marginal may be.
    - `iterations`: the most rounds; a run whose attention needs more ends as UNSOLVED.

    **Raises** `InputError` as `Softmax` does, and, where a field is asked for by itself, if the rounds do not suffice.

    >>> one_place = Tokens([[1.0, 0.0], [1.0, 0.0]])
    >>> Sinkhorn(beta=2.0)(one_place).tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """

    beta: Parameter
    Q: Parameter
    K: Parameter
    V: Parameter
    A: Parameter
    tolerance: float = eqx.field(static=True)
    iterations: int = eqx.field(static=True)
    guess: Float[Array, " n"] | None

    @front_door
    def __init__(
        self,
        beta: Scalar = 1.0,
        Q: Matrix = None,
        K: Matrix = None,
        V: Matrix = None,
        A: Matrix = None,
        tolerance: Scalar = 1e-11,
        iterations: Whole = 5000,
    ):
        self.beta, self.Q, self.K, self.V, self.A = dot_product_parameters(beta, Q, K, V, A)
        self.tolerance = check.number("tolerance", tolerance, positive=True)
        self.iterations = check.whole("iterations", iterations, 1, "rounds of row and column normalization")
        self.guess = None

    @property
    def averages(self) -> bool:
        return True

    @property
    def own_term_is_radial(self) -> bool:
        return self.isotropic

    @property
    def maskable(self) -> str | None:
        return "Sinkhorn attention cannot be causal: the only doubly stochastic triangular matrix is I."

    def weigh(
        self, mu: Tokens, x: Points, values: Float[Array, "n p"], summation: AbstractSummation
    ) -> Float[Array, "m p"]:
        """With g known this is softmax attention with the bias log g on its keys."""
        log_g = self.potentials(mu).log_g
        return summation.exponential(self.queries(mu, x), self.keys(mu), values, mu.w, bias=log_g).average

    def between(
        self,
        q: Float[Array, "n k"],
        k: Float[Array, "n k"],
        values: Float[Array, "n p"],
        w: Float[Array, " n"],
        summation: AbstractSummation,
    ) -> Float[Array, "n p"]:
        """Columns are normalized over all queries, so that a token is the pair (query, key), of which Q and K read a part."""
        first, second = jnp.split(jnp.eye(2 * q.shape[1], dtype=q.dtype), 2)
        reads = eqx.tree_at(lambda a: (a.Q, a.K), self, (first, second), is_leaf=lambda leaf: leaf is None)
        return reads.weigh(Tokens.unchecked(jnp.concatenate([q, k], axis=1), w / jnp.sum(w)), None, values, summation)

    def potentials(self, mu: Tokens) -> Potentials:
        """log g of the tokens, by fixed-point iteration."""
        start = jnp.zeros(mu.n, mu.x.dtype) if self.guess is None else self.guess
        # what may change is an argument, so that gradients pass through the fixed point by the implicit function theorem
        known = eqx.tree_at(lambda a: a.guess, self, None, is_leaf=lambda leaf: leaf is None), mu
        solution = optx.fixed_point(
            lambda log_g, known: known[0]._round(known[1], log_g),
            optx.FixedPointIteration(rtol=0.0, atol=_stop_at(self.tolerance, mu.x.dtype), norm=_largest),
            start,
            args=known,
            max_steps=self.iterations,
            throw=False,
        )
        log_g = solution.value
        return Potentials(log_g, self._column_error(mu, jax.lax.stop_gradient(log_g)), solution.stats["num_steps"])

    def _round(self, mu: Tokens, log_g: Float[Array, " n"]) -> Float[Array, " n"]:
        """One round: log f = -log ∫ e^s g dμ(y), then log g = -log ∫ e^s f dμ(x), with mean zero.

        Where the kernel is symmetric and positive definite (A = I, β > 0), f = g, and the mean of both sides of
        log g = -log ∫ e^s g dμ halves the error in every round, however far apart clusters are [feydy2019].
        """
        if self.Q is None and self.K is None and self.A is None:
            return 0.5 * (log_g + self._log_f(mu, log_g))
        log_g = -self._log_sum(self.keys(mu), self.queries(mu, None), self._log_f(mu, log_g), mu.w)
        return log_g - jnp.mean(log_g)  # f and g are determined up to a factor

    def _log_f(self, mu: Tokens, log_g: Float[Array, " n"]) -> Float[Array, " n"]:
        return -self._log_sum(self.queries(mu, None), self.keys(mu), log_g, mu.w)

    def _column_error(self, mu: Tokens, log_g: Float[Array, " n"]) -> Float[Array, ""]:
        """The largest | ∫ k dμ(x) - 1 |."""
        columns = log_g + self._log_sum(self.keys(mu), self.queries(mu, None), self._log_f(mu, log_g), mu.w)
        return jax.lax.stop_gradient(jnp.max(jnp.abs(jnp.expm1(columns))))

    @staticmethod
    def _log_sum(q: Array, k: Array, bias: Array, w: Array) -> Float[Array, " m"]:
        """log Σ_j w_j e^{<q_i, k_j> + bias_j}."""
        sums = Dense().exponential(q, k, jnp.zeros((len(k), 0), k.dtype), w, bias=bias)
        return sums.shift + jnp.log(sums.total)

    def gaussian(
        self, mean: Float[Array, " d"], L: Float[Array, "d k"], directions: Float[Array, "d j"] | None = None
    ) -> tuple[Float[Array, " p"], Float[Array, "p j"]]:
        """The coupling of N(m, Σ) with itself is Gaussian  [castin2025]. In the coordinates x = m + Lξ, M = LᵀSᵀL = U σ Wᵀ
        and E[η|ξ] = W c Uᵀ ξ with c = (√(1+4σ²) - 1)/2σ, which is Mᵀ 2(I + (I+4MMᵀ)^{1/2})⁻¹ ξ; the mean sees itself."""
        M = L.T @ self.score(len(mean)).T @ L
        seen = 2 * L @ M.T @ jnp.linalg.inv(jnp.eye(len(M), dtype=M.dtype) + _root(M @ M.T))
        slope = seen if directions is None else seen @ (jnp.linalg.pinv(L) @ directions)
        return apply(self.V, mean), columns(self.V, slope)

    def equiangular(self, mu: Equiangular) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """All rows have the same sum, so one normalization makes the kernel doubly stochastic."""
        return softmax_pair(self.V, self.strength(), mu)

    @property
    def remembers(self) -> bool:
        return True

    def remember(self, mu: Tokens, memory: Any) -> Potentials:
        return self.recall(memory).potentials(mu)

    def recall(self, memory: Any) -> "Sinkhorn":
        if memory is None:
            return self
        return eqx.tree_at(lambda a: a.guess, self, memory.log_g, is_leaf=lambda leaf: leaf is None)

    def healthy(self, memory: Any) -> Bool[Array, ""] | bool:
        return True if memory is None else memory.error <= 10 * self.tolerance + 100 * jnp.finfo(memory.error.dtype).eps


def _largest(moved: Float[Array, " n"]) -> Float[Array, ""]:
    """The largest entry, in the default precision, in which Optimistix carries it from round to round."""
    return optx.max_norm(moved).astype(jnp.result_type(float))


def _stop_at(tolerance: float, dtype: Any) -> float:
    """Potentials that move by less than this have marginals to the tolerance; below round-off nothing moves less."""
    return max(tolerance / 4, 50 * float(jnp.finfo(dtype).eps))


@jax.custom_jvp
def _root(N: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """(I + 4N)^{1/2} for a symmetric N ⪰ 0."""
    values, vectors = jnp.linalg.eigh(N)
    return (vectors * jnp.sqrt(1 + 4 * jnp.maximum(values, 0.0))) @ vectors.T


@_root.defjvp
def _root_jvp(primals, tangents):
    """Ṡ solves SṠ + ṠS = 4Ṅ: in the eigenbasis a division by sums, which equal eigenvalues do not make zero."""
    values, vectors = jnp.linalg.eigh(primals[0])
    s = jnp.sqrt(1 + 4 * jnp.maximum(values, 0.0))
    inside = (vectors.T @ (4 * tangents[0]) @ vectors) / (s[:, None] + s[None, :])
    return (vectors * s) @ vectors.T, vectors @ inside @ vectors.T
