"""Attention through inner products of queries and keys."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenfield import _checks as check
from tokenfield._types import Self
from tokenfield.attention.base import AbstractKernel, Coupling, Points
from tokenfield.attention.matrices import apply, is_number, square, times, transpose, written
from tokenfield.errors import InputError
from tokenfield.measures import Tokens
from tokenfield.parameters import Parameter, fits, is_scheduled, matrix_parameter, number_parameter
from tokenfield.summation import AbstractSummation, ExponentialSums
from tokenfield.summation.base import Related


class AbstractDotProduct(AbstractKernel):
    """Attention through the score s(x, y) = β <Qx, Ky> = β <Ax, y> with A = KᵀQ, and values V y."""

    beta: eqx.AbstractVar[Parameter]
    Q: eqx.AbstractVar[Parameter]
    K: eqx.AbstractVar[Parameter]
    V: eqx.AbstractVar[Parameter]
    A: eqx.AbstractVar[Parameter]

    def queries(self, mu: Tokens, x: Points) -> Float[Array, "m k"]:
        """β Q x or β A x: the side of the score that asks, inverse temperature included."""
        return self.beta * apply(self.A if self.A is not None else self.Q, mu.x if x is None else x)

    def keys(self, mu: Tokens) -> Float[Array, "n k"]:
        """K y: the side of the score that answers."""
        return apply(self.K, mu.x)

    def sums(
        self,
        mu: Tokens,
        x: Points,
        values: Float[Array, "n p"],
        summation: AbstractSummation,
        bias: Float[Array, " n"] | None = None,
    ) -> ExponentialSums:
        """Σ_j w_j e^{s(x_i, y_j) + bias_j} and the same with values. Where values are the tokens themselves, sums are told so."""
        q, k = self.queries(mu, x), self.keys(mu)
        return summation.exponential(
            q, k, values, mu.w, bias=bias, related=self._related(x) if values is mu.x else None
        )

    def _related(self, x: Points) -> Related:
        """y = K⁻¹k and β Qx = β QK⁻¹k, read by sums that were chosen for a K that is c times a rotation: K⁻¹ = Kᵀ/c²."""
        K = jnp.ones(()) if self.K is None else self.K
        back = 1 / K if K.ndim == 0 else K.T * (K.shape[1] / jnp.sum(K**2))
        asks = times(self.A if self.A is not None else self.Q, back)
        return Related(None if x is not None else times(jnp.asarray(self.beta), asks), back)

    def score(self, d: int) -> Float[Array, "d d"]:
        """S = β KᵀQ, so that s(x, y) = <Sx, y>."""
        return self.beta * square(times(transpose(self.K), self.Q) if self.A is None else self.A, d)

    @property
    def isotropic(self) -> bool:
        return all(is_number(part) for part in (self.Q, self.K, self.V, self.A))

    @property
    def mean_field(self) -> bool:
        return True

    def strength(self) -> Float[Array, ""]:
        """The number β' with s(x, y) = β' <x, y>, where Q, K, V and A are multiples of the identity: the one place that knows
        what "the β of an attention" is."""
        if self.beta is None:
            raise InputError(f"{type(self).__name__} attention has no β. Use tkf.sa(beta) or tkf.usa(beta).")
        parts = {"beta": self.beta, "Q": self.Q, "K": self.K, "V": self.V, "A": self.A}
        for name, value in parts.items():
            if is_scheduled(value):
                raise InputError(f"Argument `{name}` must not change with depth here, but it does. Give it one value.")
            if value is not None and value.ndim:
                raise InputError(
                    f"Here Q, K, V and A must be multiples of the identity, written as numbers, but `{name}` is a matrix of "
                    f"shape {value.shape}: it breaks the symmetry. Move actual tokens instead."
                )
        factors = [part for part in (self.beta, self.Q, self.K, self.A) if part is not None]
        if check.traced(factors):
            return _product(factors)
        return check.on_device(_product([np.asarray(part) for part in factors]))

    def check(self, d: int) -> int:
        rows = {name: fits(name, part, d) for name, part in (("Q", self.Q), ("K", self.K))}
        if rows["Q"] != rows["K"]:
            raise InputError(
                f"Q and K must have the same number of rows, but Qx has {rows['Q']} and Ky has {rows['K']} entries "
                f"(d = {d}; a matrix left out is the identity)."
            )
        fits("A", self.A, d, rows=d)
        return fits("V", self.V, d)

    def precompose(self, M: Float[Array, "d d"] | Float[Array, ""]) -> Self:
        """The attention with scores s(Mx, My) and the same values."""
        if self.A is not None:
            return eqx.tree_at(lambda a: a.A, self, times(M.T, times(self.A, M)))
        parts = times(self.Q, M), times(self.K, M)
        return eqx.tree_at(lambda a: (a.Q, a.K), self, parts, is_leaf=lambda leaf: leaf is None)

    def rescaled_scores(self, d: int) -> list[tuple[np.ndarray, np.ndarray]] | None:
        """Fast sums follow Q and K as they are precomposed; A changes without its keys, which they do not follow."""
        return self.scores(d) if self.A is None else None


def _product(factors: list[Any]) -> Any:
    first, *rest = factors
    for factor in rest:
        first = first * factor
    return first


class AbstractExponential(AbstractDotProduct):
    """Attention made of sums of e^{s(x, y)}: softmax, unnormalized and Sinkhorn attention. Fast sums serve them, and
    position biases may change their scores."""

    @property
    def own_term_is_radial(self) -> bool:
        return self.isotropic

    @property
    def scored(self) -> bool:
        return True

    def scores(self, d: int) -> list[tuple[np.ndarray, np.ndarray]] | None:
        return score_pair(self.beta, self.Q, self.K, self.A, d)

    def couple(self, kind: str, log_unit: Any) -> Coupling:
        """The coupling of this kind, whose clock runs in units of e^{-log_unit}."""
        return Coupling(kind, self.strength(), 1.0 if self.V is None else self.V, log_unit)


def dot_product_parameters(beta: Any, Q: Any, K: Any, V: Any, A: Any = None) -> tuple[Parameter, ...]:
    """β, Q, K, V and A as parameters; A stands for KᵀQ and excludes Q and K."""
    if A is not None and (Q is not None or K is not None):
        raise InputError("Give either A (which is KᵀQ) or Q and K, not both.")
    named = zip("QKVA", (Q, K, V, A), strict=True)
    return number_parameter("beta", beta), *(matrix_parameter(name, value) for name, value in named)


def score_pair(
    factor: Any, Q: Parameter, K: Parameter, A: Parameter, d: int
) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """(factor Q, K), or (factor A, I), as matrices; None where a part is not known."""
    known = [part for part in (factor, Q, K, A) if part is not None]
    if any(not eqx.is_array(part) or check.traced(part) for part in known):
        return None
    left, right = (written(part, d) for part in (Q if A is None else A, K))
    return [(float(factor) * left, right)]
