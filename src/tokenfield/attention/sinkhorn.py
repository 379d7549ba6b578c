"""Sinkhorn attention: the doubly stochastic kernel."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._types import Matrix, Scalar, Whole
from tokenfield.attention.balancing import Alternating, Outcome, Symmetric, balance
from tokenfield.attention.base import DENSE, Points
from tokenfield.attention.dot_product import AbstractDotProduct, dot_product_parameters, score_pair
from tokenfield.attention.kernels import Kernel
from tokenfield.attention.matrices import apply, columns
from tokenfield.attention.softmax import softmax_pair
from tokenfield.measures import Equiangular, Tokens
from tokenfield.parameters import Parameter
from tokenfield.summation import AbstractSummation


class Potentials(NamedTuple):
    """log g at the tokens, the largest error of a column's marginal, how many rounds it took, and how they ended."""

    log_g: Float[Array, " n"]
    error: Float[Array, ""]
    rounds: Int[Array, ""]
    outcome: Int[Array, ""]


class Sinkhorn(AbstractDotProduct):
    r"""$k_\mu(x, y) = f(x)\, e^{\beta\langle Qx, Ky\rangle} g(y)$ with $\int k\,d\mu(y) = 1$ for all x and
    $\int k\,d\mu(x) = 1$ for all y  [castin2025].

    f and g come from alternating normalization of rows and columns until every column's marginal is 1 to `tolerance`; where
    a round does not halve the error, from Newton steps on the dual problem, for scores that grow until they are those asked for
    [brauer2017]; along a run they start from those of the step before. Rows are normalized last and exactly, so Γ_μ(x) is defined
    at any point x. Gradients go through the fixed point, not its iterations.

    The kernel is kept where it takes at most 64 MB; elsewhere it is summed in every round, on the circle, on S² and in R^d, d ≤ 3,
    in O(n). Such sums are asked for an error of `tolerance` in every row, so that marginals may be wrong by three times that.

    **Arguments**

    - `beta`, `Q`, `K`, `V`, `A`: as for `Softmax`.
    - `tolerance`: how far from 1 a column's marginal may be.
    - `iterations`: the most rounds, each a look at all marginals and the step that follows, a normalization or Newton's (whose
      linear solve is not counted); a run whose attention needs more, or is at its rounding before, ends as UNSOLVED.

    **Raises** `InputError` as `Softmax` does, and, where a field is asked for by itself, if the tolerance is not reached: why not.

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

    def scores(self, d: int) -> list[tuple[np.ndarray, np.ndarray]] | None:
        return score_pair(self.beta, self.Q, self.K, self.A, d)

    def asks(self, tolerance: Any) -> Any:
        """Marginals are no better than sums."""
        return min(tolerance, self.tolerance)

    @property
    def maskable(self) -> str | None:
        return "Sinkhorn attention cannot be causal: the only doubly stochastic triangular matrix is I."

    def weigh(
        self, mu: Tokens, x: Points, values: Float[Array, "n p"], summation: AbstractSummation
    ) -> Float[Array, "m p"]:
        """With g known this is softmax attention with the bias log g on its keys."""
        log_g = self.potentials(mu, summation).log_g
        return self.sums(mu, x, values, summation, bias=log_g).average

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

    def potentials(self, mu: Tokens, summation: AbstractSummation = DENSE) -> Potentials:
        """log g of the tokens, from the guess or from 0.

        Where the kernel is symmetric and positive definite (A = I, β > 0), f = g, and half of the equations are solved.
        """
        guess = jnp.zeros(mu.n, mu.x.dtype) if self.guess is None else self.guess
        symmetric = self.Q is None and self.K is None and self.A is None
        kernel = Kernel(self.queries(mu, None), self.keys(mu), mu.w, summation)
        log_g, how = balance(
            Symmetric() if symmetric else Alternating(), kernel, guess, self.tolerance, self.iterations
        )
        return Potentials(log_g, *how)

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

    def remember(self, mu: Tokens, memory: Any, summation: AbstractSummation = DENSE) -> Potentials:
        return self.recall(memory).potentials(mu, summation)

    def recall(self, memory: Any) -> "Sinkhorn":
        if memory is None:
            return self
        return eqx.tree_at(lambda a: a.guess, self, memory.log_g, is_leaf=lambda leaf: leaf is None)

    def healthy(self, memory: Any) -> Bool[Array, ""] | bool:
        return True if memory is None else memory.error <= 10 * self.tolerance + 100 * jnp.finfo(memory.error.dtype).eps

    def unhealthy(self, memory: Any) -> str:
        size = float(jnp.max(jnp.abs(memory.log_g)))
        said = f"Sinkhorn attention did not reach its own tolerance, {self.tolerance:.0e}: after {int(memory.rounds)} rounds "
        said += f"a column's marginal is wrong by {float(memory.error):.1e}"
        if int(memory.outcome) == Outcome.ROUNDS:
            return f"{said}. Give it more rounds (iterations=...), or a larger tolerance, or a smaller β."
        return (
            f"{said}, and more do not help: potentials as large as {size:.1e} are known to "
            f"{size * float(jnp.finfo(memory.log_g.dtype).eps):.0e}. Give it a larger tolerance, or a smaller β, or float64 tokens."
        )


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
