"""What an attention is: the field Γ_μ(x) = ∫ k_μ(x, y) V y dμ(y) that a measure generates."""

import abc
import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from tokenfield import _checks as check
from tokenfield._compile import compiled
from tokenfield._front import front_door
from tokenfield._types import Number, Numbers, Self, no_type_check
from tokenfield.attention.matrices import apply
from tokenfield.attention.reductions import on_gaussians, placed
from tokenfield.errors import InputError
from tokenfield.measures import AbstractMeasure, Gaussian, Tokens
from tokenfield.parameters import Parameter, at_time, shown
from tokenfield.summation import AbstractSummation, Dense, Request, choose

TOLERANCE = 1e-10
"""To what accuracy a field that is asked for by itself is summed, relative to what every point sees."""

DENSE = Dense()

Points = Float[Array, "m d"] | None
"""Where a field is asked for: m points, or None for the tokens themselves."""


@dataclasses.dataclass(frozen=True)
class Coupling:
    """The few numbers of attention on the sphere whose matrices are multiples of the identity:
    v = V ∫ e^{β<x,y> - log_unit} y dμ ("usa"), or its softmax quotient ("sa"). They may be traced."""

    kind: str
    beta: Any
    V: Any
    log_unit: Any


class AbstractAttention(eqx.Module):
    """A kind of attention. `attention(mu, x)` is Γ_μ(x) at any points x; without x, at the tokens themselves.

    Most kinds are kernels summed against values: they subclass `AbstractKernel` and fill in `weigh` and `check`. What made of
    other attentions (heads, masks) or of no kernel at all fills in `field`, `matrix` and `check`. What else an attention can
    do, it declares: the properties below, and the protocols in `tokenfield.attention.reductions`.
    """

    @abc.abstractmethod
    def field(self, mu: Tokens, x: Points, summation: AbstractSummation) -> Float[Array, "m p"]:
        """Γ_μ at m points (None: at the tokens)."""

    @abc.abstractmethod
    def matrix(self, mu: Tokens, x: Points, summation: AbstractSummation = DENSE) -> Float[Array, "*heads m n"]:
        """The attention matrix k_μ(x_i, y_j) w_j; the summation, a dense one, has the masks."""

    @abc.abstractmethod
    def check(self, d: int) -> int:
        """Refuse, with a sentence, parameters that do not act on R^d; return the dimension of the field."""

    def __repr__(self) -> str:
        return shown(self)

    # What an attention declares of itself. The cautious answer is the default.

    @property
    def isotropic(self) -> bool:
        """Whether Γ commutes with rotations of R^d: whatever acts on coordinates is a multiple of the identity."""
        return False

    @property
    def mean_field(self) -> bool:
        """Whether tokens are told apart by nothing but their place: two tokens in one place act, and are acted on, as one of
        their joint weight. Only then may tokens that have met become one."""
        return False

    @property
    def superposes(self) -> bool:
        """Whether Γ_μ is linear in μ, ∫ k(x, y) V y dμ(y) with a kernel that knows nothing of μ: one more token adds its own term
        and changes no other."""
        return False

    @property
    def neighbours_move_together(self) -> bool:
        """Whether two tokens in one place that no token tells apart but themselves, neighbours under a causal mask, differ in
        their fields by radial vectors alone. Only then may they become one where attention is not `mean_field`."""
        return False

    @property
    def averages(self) -> bool:
        """Whether the weights with which a point sees tokens sum to 1, however many tokens there are."""
        return False

    @property
    def own_term_is_radial(self) -> bool:
        """Whether a token's own term in its exponential sum points along the token, so that it may be left out where only
        the tangential part of the field counts."""
        return False

    @property
    def maskable(self) -> str | None:
        """None where a mask by position makes sense; else the reason why it does not, as a sentence."""
        return None

    @property
    def scored(self) -> bool:
        """Whether scores are inner products that position biases (ALiBi, rotary) may change."""
        return False

    def scores(self, d: int) -> list[tuple[np.ndarray, np.ndarray]] | None:
        """One pair (Q, K) per head where the kernel is e^{<Qx, Ky>} times functions of x and of y alone, β included; None
        where it is not, or its parameters are traced or change with depth."""
        return None

    @property
    def halved(self) -> bool:
        """Whether a token sees the tokens before it, or a window of them, and no others, so that sums at the tokens may be
        made of sums of halves."""
        return False

    def seen(self, mu: Tokens) -> float | None:
        """How many tokens a token sees on average, where windows say so; None where it sees all, or all earlier ones."""
        return None

    def coupling(self) -> Coupling:
        """The numbers β and V of softmax or unnormalized attention whose matrices are numbers; refused for others."""
        raise InputError(
            f"This needs softmax or unnormalized attention, but the flow has {type(self).__name__}. "
            "Use tkf.sa(beta) or tkf.usa(beta)."
        )

    # Attention that solves equations of its own may carry a memory from step to step.

    @property
    def remembers(self) -> bool:
        """Whether there is such a memory."""
        return False

    def remember(self, mu: Tokens, memory: Any, summation: AbstractSummation = DENSE) -> Any:
        """What to carry to the next step, given what was carried to this one."""
        return None

    def recall(self, memory: Any) -> Self:
        """The attention that starts from a memory."""
        return self

    def healthy(self, memory: Any) -> Bool[Array, ""] | bool:
        """Whether the attention's own equations were solved to their tolerance."""
        return True

    def unhealthy(self, memory: Any) -> str:
        """Why they were not, and what to do, as a sentence; for memories whose values are known."""
        return f"{type(self).__name__} attention did not reach its own tolerance."

    def asks(self, tolerance: Any) -> Any:
        """How accurate sums must be for a field of this tolerance."""
        return tolerance

    @front_door
    @no_type_check
    def __call__(
        self,
        mu: AbstractMeasure,
        x: Numbers | None = None,
        *,
        t: Number = 0.0,
        s: Numbers | None = None,
        summation: str | AbstractSummation | None = None,
    ) -> Array:
        """The field Γ_μ(x).

        **Arguments**

        - `mu`: Tokens, or a Gaussian for attention that keeps Gaussians Gaussian.
        - `x`: points of shape (m, d), or (d,) for one; left out, the tokens themselves (of a Gaussian, its mean).
        - `t`: the time, which matters where parameters change with depth.
        - `s`: the positions of the points x, for causal attention.
        - `summation`: how sums over tokens are computed; chosen by cost when left out.

        **Returns** the field, shape (m, p), or (p,) for one point.

        **Raises** `InputError` where shapes do not fit, or the field leaves the range of floating-point numbers.
        """
        if isinstance(mu, Gaussian):
            return self._on_gaussian(mu, x, t)
        if not isinstance(mu, Tokens):
            raise InputError(
                f"Attention acts on a measure such as tokenfield.Tokens, but got {type(mu).__name__}. "
                "For points of shape (n, d), write attention(Tokens(points))."
            )
        self.check(mu.d)
        time = check.as_floats(check.scalar("t", t), mu.x.dtype)
        attention = at_time(as_dtype(self if s is None else placed(self, s), mu.x.dtype), time)
        points = query_points(mu, x)
        where = None if x is None else jnp.atleast_2d(points)
        sums = choose(summation, requested(attention, mu, where, TOLERANCE))
        field = _field(self._remembering(attention, mu, sums), mu, where, sums)
        return refuse_overflow(field if points.ndim == 2 else field[0], attention)

    def _on_gaussian(self, mu: Gaussian, x: Any, t: Any) -> Array:
        """Γ_μ(x) for μ = N(m, Σ); without x, at the mean."""
        self.check(mu.d)
        attention = at_time(as_dtype(self, mu.dtype), check.as_floats(check.scalar("t", t), mu.dtype))
        points = mu.mean if x is None else query_points(Tokens(mu.mean[None]), x)
        middle, slope = on_gaussians(attention).gaussian(mu.mean, mu.factor, jnp.atleast_2d(points - mu.mean).T)
        return (middle + slope.T).reshape(*points.shape[:-1], -1)

    def _remembering(self, attention: "AbstractAttention", mu: Tokens, sums: AbstractSummation) -> "AbstractAttention":
        """The attention that starts from the solution of its own equations; refused where they were not solved."""
        if not attention.remembers:
            return attention
        memory = _memory(attention, mu, sums)
        healthy = attention.healthy(memory)
        if not check.traced(healthy) and not bool(healthy):
            raise InputError(attention.unhealthy(memory))
        return attention.recall(memory)


@compiled
def _memory(attention: AbstractAttention, mu: Tokens, summation: AbstractSummation) -> Any:
    return attention.remember(mu, None, summation)


@compiled
def _field(attention: AbstractAttention, mu: Tokens, x: Points, summation: AbstractSummation) -> Array:
    return attention.field(mu, x, summation)


class AbstractKernel(AbstractAttention):
    """Attention that is a kernel summed against values V y. A new kind fills in two methods: `weigh`, the kernel summed
    against values, and `check`, which refuses parameters that do not fit. Everything else follows: the field, the attention
    matrix, heads, masks, normalizations."""

    V: eqx.AbstractVar[Parameter]

    @abc.abstractmethod
    def weigh(
        self, mu: Tokens, x: Points, values: Float[Array, "n p"], summation: AbstractSummation
    ) -> Float[Array, "m p"]:
        """Σ_j k_μ(x_i, y_j) w_j values_j at m points (None: at the tokens)."""

    def between(
        self,
        q: Float[Array, "m k"],
        k: Float[Array, "n k"],
        values: Float[Array, "n p"],
        w: Float[Array, " n"],
        summation: AbstractSummation,
    ) -> Float[Array, "m p"]:
        """Σ_j k(q_i, k_j) w_j values_j between queries and keys that are given as such; Q and K of the kind are left out.

        **Arguments**

        - `q`, `k`: queries and keys, as a Transformer's projections have them. Where the kind looks at all pairs, query i and key i
          belong to one token.
        - `values`: what is summed.
        - `w`: the weights of keys, which need not sum to 1.
        - `summation`: how, with the masks.

        **Returns** the sums, one row per query.
        """
        return self.weigh(Tokens.unchecked(k, w), q, values, summation)

    def field(self, mu: Tokens, x: Points, summation: AbstractSummation) -> Float[Array, "m p"]:
        """Γ_μ(x) = V Σ_j k_μ(x, y_j) w_j y_j."""
        return apply(self.V, self.weigh(mu, x, mu.x, summation))

    def matrix(self, mu: Tokens, x: Points, summation: AbstractSummation = DENSE) -> Float[Array, "m n"]:
        """The kernel summed against unit vectors."""
        return self.weigh(mu, x, jnp.eye(mu.n, dtype=mu.x.dtype), summation)


def requested(
    attention: AbstractAttention,
    mu: Tokens,
    x: Points,
    tolerance: Any,
    *,
    unit: bool | None = None,
) -> Request:
    """What attention asks of a summation, at points x or at the tokens; `unit` None: look whether all are unit vectors."""
    known = not check.traced((mu, x))
    seen = np.concatenate([np.asarray(part) for part in (mu.x, x) if part is not None]) if known else None
    if unit is None:
        with np.errstate(over="ignore"):
            unit = seen is not None and bool(np.all(np.abs(np.linalg.norm(seen, axis=1) - 1) < 1e-14))
    return Request(
        n=mu.n,
        d=mu.d,
        queries=mu.n if x is None else len(x),
        tolerance=attention.asks(tolerance),
        dtype=mu.dtype,
        scores=None if mu.d > 3 or (attention.halved and x is not None) else attention.scores(mu.d),
        halved=attention.halved,
        seen=attention.seen(mu) if known and mu.x.ndim == 2 else None,
        unit=unit,
        points=seen,
        batch=check.batched((mu, x)),
    )


def query_points(mu: Tokens, x: Any) -> Array:
    """The points at which a field is asked for, checked against the measure."""
    if x is None:
        return mu.x
    points = check.finite("x", check.as_floats(check.real_array("x", x), mu.x.dtype))
    if points.ndim not in (1, 2) or points.shape[-1] != mu.d or len(points) == 0:
        raise InputError(
            f"Argument `x` must have shape (m, d) or (d,) with d = {mu.d} as the measure, but has shape {points.shape}."
        )
    return points


def as_dtype(tree: Any, dtype: Any) -> Any:
    """Every real array of a pytree in the tokens' precision."""
    return jax.tree.map(lambda leaf: check.as_floats(leaf, dtype) if eqx.is_inexact_array(leaf) else leaf, tree)


def refuse_overflow(field: Array, attention: AbstractAttention) -> Array:
    if not check.traced(field) and not np.isfinite(np.asarray(field)).all():
        raise InputError(
            f"{type(attention).__name__} attention left the range of floating-point numbers at these points. "
            "For unnormalized attention at large β, measure time in units of exp(-β): Unnormalized(..., scaled=True)."
        )
    return field
