"""What an attention is: the field Γ_μ(x) = ∫ k_μ(x, y) V y dμ(y) that a measure generates."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenfield import _checks as check
from tokenfield.errors import InputError
from tokenfield.harmonics import AbstractHarmonics
from tokenfield.measures import Equiangular, Gaussian, Tokens
from tokenfield.parameters import Parameter, at_time, fits, matrix_parameter, number_parameter
from tokenfield.summation import AbstractSummation, Dense, Request, choose

TOLERANCE = 1e-10
"""To what accuracy a field that is asked for by itself is summed, relative to what every point sees."""

Points = Float[Array, "m d"] | None
"""Where a field is asked for: m points, or None for the tokens themselves."""


class AbstractAttention(eqx.Module):
    """A kind of attention. `attention(mu, x)` is Γ_μ(x) at any points x; without x, at the tokens themselves.

    A new kind fills in two methods: `weigh`, its kernel summed against values, and `check`, which refuses parameters that
    do not fit the dimension. Everything else follows: the field, the attention matrix, heads, masks, normalizations.
    """

    @abc.abstractmethod
    def weigh(
        self, mu: Tokens, x: Points, values: Float[Array, "n p"], summation: AbstractSummation
    ) -> Float[Array, "m p"]:
        """Σ_j k_μ(x_i, y_j) w_j values_j at m points (None: at the tokens)."""

    @abc.abstractmethod
    def check(self, d: int) -> int:
        """Refuse, with a sentence, parameters that do not act on R^d; return the dimension of the field."""

    def field(self, mu: Tokens, x: Points, summation: AbstractSummation) -> Float[Array, "m p"]:
        """Γ_μ(x) = V Σ_j k_μ(x, y_j) w_j y_j."""
        return apply(getattr(self, "V", None), self.weigh(mu, x, mu.x, summation))

    def matrix(self, mu: Tokens, x: Points) -> Float[Array, "*heads m n"]:
        """The attention matrix k_μ(x_i, y_j) w_j: the kernel summed against unit vectors."""
        return self.weigh(mu, x, jnp.eye(mu.n, dtype=mu.x.dtype), Dense())

    def precompose(self, M: Float[Array, "d d"] | Float[Array, ""]) -> "AbstractAttention":
        """The attention with scores s(Mx, My) and the same values: what attention looks like in the coordinates M⁻¹x."""
        raise InputError(f"{type(self).__name__} attention cannot be read in rescaled coordinates; use Free().")

    def asked_from(self, s: Any) -> "AbstractAttention":
        """The attention for query points at positions s, where positions matter."""
        raise InputError(f"Positions of query points matter to Causal attention only, not to {type(self).__name__}.")

    # What fast sums need to know.

    def scores(self, d: int) -> list[tuple[np.ndarray, np.ndarray]] | None:
        """One pair (Q, K) a head where the kernel is e^{<Qx, Ky>} times functions of x and of y alone, β included; None
        where it is not, or its parameters are traced or change with depth."""
        return None

    @property
    def isotropic(self) -> bool:
        """Whether Γ commutes with rotations of R^d: whatever acts on coordinates is a multiple of the identity."""
        return False

    # The same attention on other measures. What is not said here cannot be said in closed form, and is refused.

    def gaussian(
        self, mean: Float[Array, " d"], L: Float[Array, "d k"], directions: Float[Array, "d j"] | None = None
    ) -> tuple[Float[Array, " p"], Float[Array, "p j"]]:
        """On N(m, LLᵀ) the field is affine, Γ(x) = Γ(m) + B (x - m): Γ(m), and B times directions (None: times L)."""
        raise InputError(
            f"{type(self).__name__} attention does not keep Gaussians Gaussian: its field is not affine. Softmax, L2, "
            "Sinkhorn, Linear and MultiHead attention do; for this one, move tokens: Tokens.gaussian(n, d, mean, cov)."
        )

    def equiangular(self, mu: Equiangular) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """On equiangular tokens the field is Γ(x_i) = p x_i + q Σ_{j≠i} x_j: the pair (p, q)."""
        raise InputError(
            f"{type(self).__name__} attention does not keep equiangular tokens equiangular, or not in closed form. Move "
            "actual tokens instead: Tokens.equiangular(n, rho)."
        )

    def spectrum(self, d: int, degree: int) -> Any:
        """The eigenvalues of the kernel on harmonics, made once for `potential`."""
        raise InputError(
            f"{type(self).__name__} attention on densities is not available: densities move under Softmax, Unnormalized "
            "and Linear attention with numbers for Q, K, V and A. For this one, move tokens: density.sample(n)."
        )

    def potential(
        self, f: Float[Array, "*batch size"], basis: AbstractHarmonics, spectrum: Any
    ) -> Float[Array, "*batch size"]:
        """Coefficients of φ with P_x Γ_μ(x) = ∇φ(x) on the sphere, for the density with coefficients f."""
        return self.spectrum(basis.d, basis.degree)  # which refuses, as long as a kind has none

    def interaction(self, f: Float[Array, "*batch size"], basis: AbstractHarmonics) -> Float[Array, "*batch"]:
        """∬ W dμ dμ where Γ is the gradient of ∫ W(x, y) dμ(y)."""
        raise InputError(
            f"{type(self).__name__} attention is not the gradient of an energy in this sense; Unnormalized (USA) is."
        )

    # Attention that solves equations of its own may carry a memory from step to step.

    def remember(self, mu: Tokens, memory: Any) -> Any:
        """What to carry to the next step, given what was carried to this one."""
        return None

    def recall(self, memory: Any) -> "AbstractAttention":
        """The attention that starts from a memory."""
        return self

    def healthy(self, memory: Any) -> Any:
        """Whether the attention's own equations were solved to their tolerance."""
        return True

    def __call__(self, mu: Any, x: Any = None, *, t: Any = 0.0, s: Any = None, summation: Any = None) -> Array:
        """Γ_μ(x); x of shape (m, d), or (d,) for one point, or nothing for the tokens themselves. `t` matters where
        parameters change with depth; `s` gives the positions of the points x to causal attention."""
        if isinstance(mu, Gaussian):
            return self._on_gaussian(mu, x, t)
        if not isinstance(mu, Tokens):
            raise InputError(
                f"Attention acts on a measure such as tokenfield.Tokens, but got {type(mu).__name__}. "
                "For points of shape (n, d), write attention(Tokens(points))."
            )
        self.check(mu.d)
        attention = at_time(as_dtype(self if s is None else self.asked_from(s), mu.x.dtype), check.scalar("t", t))
        points = query_points(mu, x)
        self._refuse_poor_memory(attention, mu)
        at = None if x is None else jnp.atleast_2d(points)
        field = _field(attention, mu, at, choose(summation, requested(attention, mu, at, TOLERANCE)))
        return refuse_overflow(field if points.ndim == 2 else field[0], attention)

    def _on_gaussian(self, mu: Gaussian, x: Any, t: Any) -> Array:
        """Γ_μ(x) for μ = N(m, Σ); without x, at the mean."""
        self.check(mu.d)
        attention = at_time(as_dtype(self, mu.dtype), check.scalar("t", t))
        points = mu.mean if x is None else query_points(Tokens(mu.mean[None]), x)
        middle, slope = attention.gaussian(mu.mean, mu.factor, jnp.atleast_2d(points - mu.mean).T)
        return (middle + slope.T).reshape(*points.shape[:-1], -1)

    def _refuse_poor_memory(self, attention: "AbstractAttention", mu: Tokens) -> None:
        healthy = attention.healthy(attention.remember(mu, None))
        if not check.traced(healthy) and not bool(healthy):
            raise InputError(
                f"{type(self).__name__} attention did not reach its own tolerance in its number of iterations. "
                "Give it more (iterations=...), or a larger tolerance, or a smaller β."
            )


@eqx.filter_jit
def _field(attention: AbstractAttention, mu: Tokens, x: Points, summation: AbstractSummation) -> Array:
    return attention.field(mu, x, summation)


class AbstractDotProduct(AbstractAttention):
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

    def score(self, d: int) -> Float[Array, "d d"]:
        """S = β KᵀQ, so that s(x, y) = <Sx, y>."""
        return self.beta * square(times(transpose(self.K), self.Q) if self.A is None else self.A, d)

    @property
    def isotropic(self) -> bool:
        return all(is_number(getattr(self, name)) for name in "QKVA")

    def coupling(self) -> Float[Array, ""]:
        """The number β' with s(x, y) = β' <x, y>, where Q, K, V and A are multiples of the identity."""
        for name in "QKVA":
            value = getattr(self, name)
            if value is not None and value.ndim:
                raise InputError(
                    f"Here Q, K, V and A must be multiples of the identity, written as numbers, but {name} is a matrix of "
                    f"shape {value.shape}: it breaks the symmetry. Move actual tokens instead."
                )
        number = lambda value: 1.0 if value is None else value
        return self.beta * number(self.Q) * number(self.K) * number(self.A)

    def check(self, d: int) -> int:
        rows = {name: fits(name, getattr(self, name), d) for name in ("Q", "K")}
        if rows["Q"] != rows["K"]:
            raise InputError(
                f"Q and K must have the same number of rows, but Qx has {rows['Q']} and Ky has {rows['K']} entries "
                f"(d = {d}; a matrix left out is the identity)."
            )
        fits("A", self.A, d, rows=d)
        return fits("V", self.V, d)

    def precompose(self, M: Float[Array, "d d"] | Float[Array, ""]) -> "AbstractDotProduct":
        if self.A is not None:
            return eqx.tree_at(lambda a: a.A, self, times(M.T, times(self.A, M)))
        parts = times(self.Q, M), times(self.K, M)
        return eqx.tree_at(lambda a: (a.Q, a.K), self, parts, is_leaf=lambda leaf: leaf is None)


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
    left, right = (_written(part, d) for part in (Q if A is None else A, K))
    return [(float(factor) * left, right)]


def _written(matrix: Any, d: int) -> np.ndarray:
    value = np.asarray(1.0 if matrix is None else matrix, np.float64)
    return value if value.ndim else value * np.eye(d)


def is_number(parameter: Parameter) -> bool:
    """Whether a matrix parameter is a multiple of the identity, now and at any depth."""
    if parameter is None:
        return True
    values = getattr(parameter, "values", parameter)  # one value a layer
    return eqx.is_array(values) and values.ndim == (0 if values is parameter else 1)


def apply(matrix: Array | None, x: Float[Array, "*rows d"]) -> Float[Array, "*rows k"]:
    """The matrix applied to a vector or to every row; None is the identity, a number c is c·I."""
    if matrix is None:
        return x
    return matrix * x if matrix.ndim == 0 else x @ matrix.T


def columns(matrix: Array | None, x: Float[Array, "d j"]) -> Float[Array, "k j"]:
    """The matrix applied to every column; None is the identity, a number c is c·I."""
    return apply(matrix, x.T).T


def transpose(matrix: Array | None) -> Array | None:
    return None if matrix is None else matrix.T


def square(matrix: Array | None, d: int) -> Float[Array, "d d"]:
    """The matrix written out: None is the identity, a number c is c·I."""
    if matrix is None:
        return jnp.eye(d)
    return matrix if matrix.ndim else matrix * jnp.eye(d, dtype=matrix.dtype)


def scale(matrix: Array | None, x: Any) -> Any:
    """The matrix, which is a multiple of the identity, applied to a number."""
    return x if matrix is None else matrix * x


def times(left: Array | None, right: Array | None) -> Array | None:
    """The product of two matrices, either of which may be None (the identity) or a number c (c·I)."""
    if left is None or right is None:
        return right if left is None else left
    return left * right if left.ndim == 0 or right.ndim == 0 else left @ right


def requested(
    attention: AbstractAttention,
    mu: Tokens,
    x: Points,
    tolerance: Any,
    *,
    unit: bool | None = None,
    isotropic: bool = False,
) -> Request:
    """What attention asks of a summation, at points x or at the tokens; `unit` None: look whether all are unit vectors."""
    known = not check.traced((mu, x))
    seen = np.concatenate([np.asarray(part) for part in (mu.x, x) if part is not None]) if known else None
    if unit is None:
        unit = seen is not None and bool(np.all(np.abs(np.linalg.norm(seen, axis=1) - 1) < 1e-14))
    return Request(
        n=mu.n,
        d=mu.d,
        queries=mu.n if x is None else len(x),
        tolerance=tolerance,
        dtype=mu.dtype,
        scores=None if mu.d > 3 or check.batched((mu, x)) else attention.scores(mu.d),
        unit=unit,
        isotropic=isotropic and known and x is None and attention.isotropic,
        points=seen,
    )


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
