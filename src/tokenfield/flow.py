"""Flow: an attention and a normalization that act on a measure; and the named models."""

from functools import partial
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from tokenfield import _checks as check
from tokenfield.attention import AbstractAttention, Softmax, Unnormalized
from tokenfield.attention.base import as_dtype, query_points, refuse_overflow
from tokenfield.errors import InputError
from tokenfield.measures import AbstractMeasure, Tokens
from tokenfield.normalization import AbstractNormalization, Free, PostLN
from tokenfield.summation import AbstractSummation, choose


class Flow(eqx.Module):
    """How a measure moves: attention makes the field, normalization says how tokens answer it.

    >>> Flow(Softmax(beta=9.0), PostLN())
    Flow: Softmax(beta=9) attention, PostLN normalization
    """

    attention: AbstractAttention
    normalization: AbstractNormalization

    def __init__(self, attention: Any, normalization: Any = None):
        normalization = Free() if normalization is None else normalization
        if not isinstance(attention, AbstractAttention):
            raise InputError(
                f"A Flow starts with an attention such as Softmax(beta=9.0), but got {_name(attention)}."
                + _forgotten_brackets(attention, AbstractAttention)
            )
        if not isinstance(normalization, AbstractNormalization):
            raise InputError(
                f"The second part of a Flow is a normalization such as PostLN() or Free(), but got "
                f"{_name(normalization)}." + _forgotten_brackets(normalization, AbstractNormalization)
            )
        self.attention, self.normalization = attention, normalization

    def velocity(
        self, t: Float[Array, ""], mu: Tokens, x: Float[Array, "m d"], summation: AbstractSummation
    ) -> Float[Array, "m d"]:
        """v_μ(x) at time t. Unchecked and traceable: this is what solvers call."""
        return self.normalization.velocity(t, mu, x, partial(self.attention.field, summation=summation))

    def settle(self, mu: Any) -> Tokens:
        """A start that this flow can move, checked: sizes fit, directions exist where they are needed."""
        if not isinstance(mu, AbstractMeasure):
            raise InputError(
                f"A flow moves a measure such as tokenfield.Tokens, but got {_name(mu)}. For an array x of shape "
                "(n, d), write Tokens(x)."
            )
        assert isinstance(mu, Tokens)
        self.attention.check(mu.d)
        return self.normalization.settle(mu)

    def __repr__(self) -> str:
        return f"Flow: {describe(self.attention)} attention, {describe(self.normalization)} normalization"


def velocity(flow: Flow, mu: Any, x: Any = None, *, t: Any = 0.0, summation: Any = None) -> Array:
    """ẋ of every token under the flow, shape (n, d); or, with `x` of shape (m, d) or (d,), the velocity field there.

    >>> import tokenfield as tkf
    >>> two = tkf.Tokens([[1.0, 0.0], [0.0, 1.0]])
    >>> tkf.velocity(tkf.kuramoto(), two).tolist()          # each turns towards the other
    [[0.0, 0.5], [0.5, 0.0]]
    """
    mu = flow.settle(mu)
    points = query_points(mu, x)
    at = flow.normalization.settle(Tokens(jnp.atleast_2d(points))).x
    flow = as_dtype(flow, mu.x.dtype)
    v = flow.velocity(check.scalar("t", t).astype(mu.x.dtype), mu, at, choose(summation))
    return refuse_overflow(v.reshape(points.shape), flow.attention)


def sa(beta: Any = 1.0, **parameters: Any) -> Flow:
    r"""Self-attention on the sphere: $\dot x_i = P_{x_i} \sum_j w_j e^{\beta\langle x_i, x_j\rangle} x_j / Z_i$.

    [rigollet2025, equation (SA)]. Q, K, V or A as for `Softmax`.

    >>> sa(9.0)
    Flow: Softmax(beta=9) attention, PostLN normalization
    """
    return Flow(Softmax(beta, **parameters), PostLN())


def usa(beta: Any = 1.0, **parameters: Any) -> Flow:
    r"""Unnormalized self-attention on the sphere: $\dot x_i = P_{x_i} \sum_j w_j e^{\beta\langle x_i, x_j\rangle} x_j$.

    [rigollet2025, equation (USA)]; the gradient ascent of the energy E_β. Q, K, V, A, `scaled` as for `Unnormalized`.

    >>> usa(9.0, scaled=True)
    Flow: Unnormalized(beta=9, scaled) attention, PostLN normalization
    """
    return Flow(Unnormalized(beta, **parameters), PostLN())


def kuramoto(coupling: Any = 1.0) -> Flow:
    r"""Identical Kuramoto oscillators: $\dot θ_i = -\text{coupling} \sum_j w_j \sin(θ_i - θ_j)$, which is USA at β = 0.

    [rigollet2025, section 3.3]. In any dimension; d = 2 is the classical model.

    >>> kuramoto()
    Flow: Unnormalized(beta=0) attention, PostLN normalization
    """
    coupling = None if isinstance(coupling, int | float) and coupling == 1 else check.scalar("coupling", coupling)
    return Flow(Unnormalized(0.0, V=coupling), PostLN())


def describe(module: eqx.Module) -> str:
    """A short name of a part: Softmax(beta=9, V=-1·I)."""
    parts = []
    for name in module.__dataclass_fields__:
        value = getattr(module, name)
        if value is None or value is False:
            continue
        if value is True:
            parts.append(name)
        elif eqx.is_array(value) and value.ndim == 0:
            number = "traced" if check.traced(value) else f"{float(value):g}"
            parts.append(f"{name}={number}{'·I' if name in 'QKVA' else ''}")
        elif eqx.is_array(value):
            parts.append(f"{name}: {'×'.join(map(str, value.shape))}")
        else:
            parts.append(f"{name}={value}")
    return type(module).__name__ + (f"({', '.join(parts)})" if parts else "")


def _name(thing: Any) -> str:
    return f"the class {thing.__name__}" if isinstance(thing, type) else f"a {type(thing).__name__}"


def _forgotten_brackets(thing: Any, kind: type) -> str:
    return f" Write {thing.__name__}()." if isinstance(thing, type) and issubclass(thing, kind) else ""
