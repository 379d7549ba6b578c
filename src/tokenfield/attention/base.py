"""What an attention is: the field Γ_μ(x) = ∫ k_μ(x, y) V y dμ(y) that a measure generates."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tokenfield import _checks as check
from tokenfield.errors import InputError
from tokenfield.measures import Tokens
from tokenfield.summation import AbstractSummation, choose


class AbstractAttention(eqx.Module):
    """A kind of attention. `attention(mu, x)` is Γ_μ(x) at any points x; without x, at the tokens themselves.

    A new kind fills in three methods: `field` (Γ, through a summation), `matrix` (the kernel itself, for looking at)
    and `check` (which refuses parameters that do not fit the dimension).
    """

    @abc.abstractmethod
    def field(self, mu: Tokens, x: Float[Array, "m d"], summation: AbstractSummation) -> Float[Array, "m d"]:
        """Γ_μ(x) at m points."""

    @abc.abstractmethod
    def matrix(self, mu: Tokens, x: Float[Array, "m d"]) -> Float[Array, "m n"]:
        """The attention matrix: k_μ(x_i, y_j) w_j, so that Γ_μ(x_i) = Σ_j matrix_ij V y_j."""

    @abc.abstractmethod
    def check(self, d: int) -> None:
        """Refuse, with a sentence, parameters that do not act on R^d."""

    def __call__(self, mu: Any, x: Any = None, *, summation: Any = None) -> Array:
        """Γ_μ(x); x of shape (m, d), or (d,) for one point, or nothing for the tokens themselves."""
        if not isinstance(mu, Tokens):
            raise InputError(
                f"Attention acts on a measure such as tokenfield.Tokens, but got {type(mu).__name__}. "
                "For points of shape (n, d), write attention(Tokens(points))."
            )
        self.check(mu.d)
        points = query_points(mu, x)
        attention = as_dtype(self, points.dtype)
        field = attention.field(mu, jnp.atleast_2d(points), choose(summation))
        return refuse_overflow(field.reshape(points.shape), attention)


class AbstractDotProduct(AbstractAttention):
    """Attention through the score s(x, y) = β <Qx, Ky> = β <Ax, y> with A = KᵀQ, and values V y."""

    beta: eqx.AbstractVar[Float[Array, ""]]
    Q: eqx.AbstractVar[Array | None]
    K: eqx.AbstractVar[Array | None]
    V: eqx.AbstractVar[Array | None]
    A: eqx.AbstractVar[Array | None]

    def queries(self, x: Float[Array, "m d"]) -> Float[Array, "m k"]:
        """β Q x or β A x: the side of the score that asks, inverse temperature included."""
        return self.beta * apply(self.A if self.A is not None else self.Q, x)

    def keys(self, y: Float[Array, "n d"]) -> Float[Array, "n k"]:
        """K y: the side of the score that answers."""
        return apply(self.K, y)

    def check(self, d: int) -> None:
        rows = {}
        for name in ("Q", "K"):
            value = getattr(self, name)
            check.fits(name, value, d)
            rows[name] = d if value is None or value.ndim == 0 else value.shape[0]
        if rows["Q"] != rows["K"]:
            raise InputError(
                f"Q and K must have the same number of rows, but Qx has {rows['Q']} and Ky has {rows['K']} entries "
                f"(d = {d}; a matrix left out is the identity)."
            )
        check.fits("A", self.A, d, square=True)
        check.fits("V", self.V, d, square=True)


def dot_product_parameters(beta: Any, Q: Any, K: Any, V: Any, A: Any) -> tuple[Array, *tuple[Array | None, ...]]:
    """β, Q, K, V and A as arrays; A stands for KᵀQ and excludes Q and K."""
    if A is not None and (Q is not None or K is not None):
        raise InputError("Give either A (which is KᵀQ) or Q and K, not both.")
    return check.scalar("beta", beta), *(check.matrix(n, v) for n, v in zip("QKVA", (Q, K, V, A), strict=True))


def apply(matrix: Array | None, x: Float[Array, "n d"]) -> Float[Array, "n k"]:
    """The matrix applied to every row; None is the identity, a number c is c·I."""
    if matrix is None:
        return x
    return matrix * x if matrix.ndim == 0 else x @ matrix.T


def query_points(mu: Tokens, x: Any) -> Array:
    """The points at which a field is asked for, checked against the measure."""
    if x is None:
        return mu.x
    points = check.finite("x", check.real_array("x", x)).astype(mu.x.dtype)
    if points.ndim not in (1, 2) or points.shape[-1] != mu.d:
        raise InputError(
            f"Argument `x` must have shape (m, d) or (d,) with d = {mu.d} as the measure, but has shape {points.shape}."
        )
    return points


def as_dtype(tree: Any, dtype: Any) -> Any:
    """Every real array of a pytree in the tokens' precision."""
    return jax.tree.map(lambda leaf: leaf.astype(dtype) if eqx.is_inexact_array(leaf) else leaf, tree)


def refuse_overflow(field: Array, attention: AbstractAttention) -> Array:
    if not check.traced(field) and not bool(jnp.isfinite(field).all()):
        raise InputError(
            f"{type(attention).__name__} attention left the range of floating-point numbers at these points. "
            "For unnormalized attention at large β, measure time in units of exp(-β): Unnormalized(..., scaled=True)."
        )
    return field
