"""The attention matrix, what it says of tokens, and the rank of what they span."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._types import Number, Numbers, no_type_check
from tokenfield.attention import AbstractAttention
from tokenfield.attention.base import as_dtype
from tokenfield.errors import InputError
from tokenfield.flow import Flow
from tokenfield.measures import AbstractMeasure, Tokens
from tokenfield.normalization import Free
from tokenfield.observe.base import Measured, blind, by_members, each, states
from tokenfield.parameters import at_time
from tokenfield.summation import Dense
from tokenfield.trajectory import Trajectory


@blind
@front_door
@no_type_check
def attention_matrix(
    thing: Measured, flow: Flow | AbstractAttention | None = None, *, t: Number | None = None
) -> Float[Array, "*time_heads n n"]:
    r"""The attention matrix $P_{ij} = k_μ(x_i, x_j) w_j$: the weight of token j in the field at token i.

    Rows of softmax attention sum to 1. Under a normalization that reads directions, these are used.

    **Arguments**

    - `thing`: tokens, or a run of them.
    - `flow`: a flow or an attention; left out, the flow of the run.
    - `t`: the time of the flow, which matters where its parameters or coordinates change with depth; left out, that of every
      saved state, and 0 for tokens.

    **Returns** the matrix, shape (n, n); several heads have a matrix each, shape (heads, n, n), and a run has one per saved
    time, along a first axis.

    **Raises** `InputError` where `thing` is not made of tokens, there is no flow, or its matrices do not fit the tokens.

    >>> from tokenfield import sa
    >>> attention_matrix(Tokens.orthonormal(2), sa(beta=0.0)).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    if flow is None and isinstance(thing, Trajectory) and thing.batch:
        return by_members(lambda run: attention_matrix(run, t=t), thing)
    if flow is None and isinstance(thing, Trajectory):
        flow = thing.own_flow
    if isinstance(flow, AbstractAttention):
        flow = Flow(flow, Free())
    if not isinstance(flow, Flow):
        raise InputError("attention_matrix(measure, flow) needs a flow or an attention, e.g. tkf.sa(beta=9.0).")
    mu = states(thing)
    check.room(2 * mu.x.size * mu.n / mu.d * mu.x.dtype.itemsize, "The attention matrices")
    flow.check(mu.d)
    flow.normalization.reads(mu)
    return each(_matrix, thing, as_dtype(flow, mu.x.dtype), t=_times(thing, t))


def _times(thing: Measured, t: Any) -> Any:
    """When states are looked at."""
    if isinstance(thing, Trajectory) and t is None:
        return check.as_floats(thing.times, states(thing).x.dtype)
    return check.as_floats(check.scalar("t", 0.0 if t is None else t), states(thing).x.dtype)


def _matrix(mu: Tokens, t: Float[Array, ""], flow: Flow) -> Float[Array, "*heads n n"]:
    flow = at_time(flow, t)
    attention = flow.normalization.attends(t, flow.attention)
    return attention.matrix(flow.normalization.reads(mu), None, Dense())


@blind
@front_door
@no_type_check
def effective_rank(thing: Measured | Numbers) -> Float[Array, "*time"]:
    r"""The effective rank of what tokens span: $\exp(-\sum_k p_k \log p_k)$ with $p_k = σ_k / \sum_l σ_l$.

    The $σ_k$ are the singular values of the tokens' matrix, its rows times $\sqrt{w_i}$, or of a matrix given as such
    [roy2007]. It lies between 1 (all on a line) and min(n, d).

    **Arguments**

    - `thing`: tokens, a run of them, or a matrix; an array with more axes is a batch of matrices.

    **Returns** the effective rank, of a run one number per saved time.

    **Raises** `InputError` where `thing` is none of these, or an entry is not finite.

    >>> round(float(effective_rank(Tokens.orthonormal(5))), 9)
    5.0
    """
    if not isinstance(thing, AbstractMeasure | Trajectory):
        matrix = check.finite("matrix", check.real_array("matrix", thing))
        if matrix.ndim < 2:
            raise InputError(f"effective_rank takes a measure, a run or a matrix, but got shape {matrix.shape}.")
        return _entropy_rank(matrix)
    return each(_rank, thing)


def _rank(mu: Tokens) -> Float[Array, ""]:
    return _entropy_rank(jnp.sqrt(mu.w)[:, None] * mu.x)


def _entropy_rank(matrix: Float[Array, "*batch n d"]) -> Float[Array, "*batch"]:
    σ = jnp.linalg.svd(matrix, compute_uv=False)
    total = jnp.sum(σ, axis=-1, keepdims=True)
    p = σ / jnp.where(total > 0, total, 1.0)
    return jnp.exp(-jnp.sum(jnp.where(p > 0, p * jnp.log(jnp.where(p > 0, p, 1.0)), 0.0), axis=-1))


class AttentionEntropy(NamedTuple):
    """The entropies of the rows of an attention matrix.

    - `tokens`: of each row; several heads have a row of entropies each, and a run has them at every saved time.
    - `mean`: their mean, by the tokens' weights.
    """

    tokens: Float[Array, "*time_heads n"]
    mean: Float[Array, "*time_heads"]


@front_door
@no_type_check
def attention_entropy(
    attention: Flow | AbstractAttention | Trajectory,
    mu: Measured | None = None,
    *,
    normalized: bool = False,
    t: Number | None = None,
) -> AttentionEntropy:
    r"""The Shannon entropy of the rows of the attention matrix: $H_i = -\sum_j P_{ij} \log P_{ij}$.

    It is 0 where a token attends to one, and log n where it attends to all alike. Rows of attention that does not normalize them
    (unnormalized, sigmoid, ReLU) are divided by their sums.

    **Arguments**

    - `attention`: an attention or a flow; or a run, whose own flow is meant.
    - `mu`: tokens, or a run of them; left out where a run is given.
    - `normalized`: whether to divide by log n.
    - `t`: the time of the flow, which matters where its parameters or coordinates change with depth; left out, that of every
      saved state, and 0 for tokens.

    **Returns** `AttentionEntropy`, the entropies of tokens and their mean.

    **Raises** `InputError` where tokens or attention are missing or do not fit, or a row has negative entries or none.

    >>> from tokenfield import Softmax
    >>> attention_entropy(Softmax(0.0), Tokens.orthonormal(4), normalized=True).tokens.tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    thing, flow = _of_whom(attention, mu)
    if flow is None:
        whole = lambda part: by_members(lambda run: attention_entropy(run, normalized=normalized, t=t)[part], thing)
        return AttentionEntropy(whole(0), whole(1))
    shares = _checked(each(_entropies, thing, flow, t=_times(thing, t)))
    unit = np.log(states(thing).n) if normalized and states(thing).n > 1 else 1.0
    return AttentionEntropy(shares[0] / unit, shares[1] / unit)


class Leaders(NamedTuple):
    """Tokens that hold the attention.

    - `followed`: for every token the one that it attends to most; several heads have a row each, and a run has them at every
      saved time.
    - `held`: for every token how much of all attention it holds, $\\sum_i w_i P_{ij}$; these sum to 1.
    - `distance`: the Frobenius distance of the attention matrix to the nearest Boolean limit.
    """

    followed: Int[Array, "*time_heads n"]
    held: Float[Array, "*time_heads n"]
    distance: Float[Array, "*time_heads"]

    @property
    def indices(self) -> Any:
        """The leaders, tokens whom others or they themselves follow, in order of how much attention they hold; with several
        heads or times, lists of them."""
        if np.ndim(self.followed) > 1:
            return [Leaders(*one).indices for one in zip(*(np.asarray(part) for part in self), strict=True)]
        who = np.unique(np.asarray(self.followed))
        return who[np.argsort(-np.asarray(self.held)[who], kind="stable")]

    def __repr__(self) -> str:
        if np.ndim(self.followed) > 1:
            return f"leaders of {np.shape(self.distance)} attention matrices"
        who = self.indices
        some = ", ".join(f"{i} ({float(self.held[i]):.3g})" for i in who[:6]) + (", ..." if len(who) > 6 else "")
        plural = "leader" if len(who) == 1 else "leaders"
        return f"{len(who)} {plural}: {some}; {float(self.distance):.3g} from a Boolean matrix"


@front_door
@no_type_check
def leaders(
    attention: Flow | AbstractAttention | Trajectory, mu: Measured | None = None, *, t: Number | None = None
) -> Leaders:
    r"""The tokens that hold the attention, and how far the attention matrix P is from its Boolean limit.

    On the line, with V > 0 and QK > 0, P tends to a matrix whose rows, but at most one, are $e_1$ or $e_n$, the two outermost
    tokens: its rank is at most two [geshkovski2023, Theorem 2.1]. The distance is $(\sum_{i \neq i^*} \min_j |P_i - e_j|^2)^{1/2}$
    with j among the two outermost tokens, and $i^*$, the row that is left out, the farthest. In more dimensions, where this is
    conjectured for leaders that are more than two, j may be any token; `len(leaders(...).indices)` says how many there are.

    **Arguments**

    - `attention`: an attention or a flow; or a run, whose own flow is meant.
    - `mu`: tokens, or a run of them; left out where a run is given.
    - `t`: the time of the flow, which matters where its parameters or coordinates change with depth; left out, that of every
      saved state, and 0 for tokens.

    **Returns** `Leaders`: whom each token follows, the attention that each holds, and the distance. Rows of attention that does not
    normalize them are divided by their sums.

    **Raises** `InputError` where tokens or attention are missing or do not fit, or a row has negative entries or none.

    >>> from tokenfield import Softmax
    >>> leaders(Softmax(1.0), Tokens([[-9.0], [-6.0], [6.0], [9.0]]))
    2 leaders: 0 (0.5), 3 (0.5); 2.15e-08 from a Boolean matrix
    """
    thing, flow = _of_whom(attention, mu)
    if flow is None:
        return Leaders(*(by_members(lambda run, k=k: leaders(run, t=t)[k], thing) for k in range(3)))
    return Leaders(*_checked(each(_leading, thing, flow, t=_times(thing, t)))[:3])


def _of_whom(attention: Any, mu: Any) -> tuple[Any, Flow | None]:
    """Whose attention is meant, and the flow; None where each member of a batch has its own."""
    own = isinstance(attention, Trajectory) and mu is None
    if own and attention.batch:
        return attention, None
    thing: Any = attention if own else mu
    flow: Any = attention.own_flow if own else attention
    flow = Flow(flow, Free()) if isinstance(flow, AbstractAttention) else flow
    if not isinstance(flow, Flow):
        raise InputError(
            "This needs an attention or a flow, and tokens: for instance leaders(tkf.Softmax(9.0), mu); or a run that knows its "
            f"flow. It got {check.brief(attention)}."
        )
    seen = states(thing)
    check.room(3 * seen.x.size * seen.n / seen.d * seen.x.dtype.itemsize, "The attention matrices")
    flow.check(seen.d)
    flow.normalization.reads(seen)
    return thing, as_dtype(flow, seen.x.dtype)


def _shares(mu: Tokens, t: Float[Array, ""], flow: Flow) -> tuple[Float[Array, "*heads n n"], Array]:
    """The attention matrix with rows of sum 1, and whether that makes sense: no negative entries, and not all of them 0."""
    P = _matrix(mu, t, flow)
    total = jnp.sum(P, axis=-1, keepdims=True)
    return P / jnp.where(total > 0, total, 1.0), jnp.all((P >= 0) & (total > 0))


def _entropies(mu: Tokens, t: Float[Array, ""], flow: Flow) -> tuple[Array, Array, Array]:
    P, fine = _shares(mu, t, flow)
    H = jnp.maximum(-jnp.sum(jnp.where(P > 0, P * jnp.log(jnp.where(P > 0, P, 1.0)), 0.0), axis=-1), 0.0)
    return H, H @ mu.w, fine


def _leading(mu: Tokens, t: Float[Array, ""], flow: Flow) -> tuple[Array, Array, Array, Array]:
    P, fine = _shares(mu, t, flow)
    ends = jnp.stack([jnp.argmin(mu.x[:, 0]), jnp.argmax(mu.x[:, 0])])
    candidates = P if mu.d > 1 else P[..., ends]
    best = jnp.argmax(candidates, axis=-1, keepdims=True)
    who = best if mu.d > 1 else ends[best]
    at = jnp.arange(mu.n) == who
    rest = jnp.where(at, 0.0, P)
    squares = jnp.sum(rest, axis=-1) ** 2 + jnp.sum(
        rest**2, axis=-1
    )  # (1 - P_ij)² and the others', without cancellation
    worst = jnp.argmax(squares, axis=-1, keepdims=True)
    distance = jnp.sqrt(jnp.sum(jnp.where(jnp.arange(mu.n) == worst, 0.0, squares), axis=-1))
    return jnp.argmax(P, axis=-1), jnp.einsum("i,...ij->...j", mu.w, P), distance, fine


def _checked(found: tuple[Array, ...]) -> tuple[Array, ...]:
    """Refuse matrices that are no shares of attention, where values are known; the last entry says whether they are."""
    if not check.traced(found) and not np.all(np.asarray(found[-1])):
        raise InputError(
            "This needs rows of attention without negative entries that are not all zero, but the matrix has others. "
            "Take attention that weighs tokens, such as Softmax."
        )
    return found
