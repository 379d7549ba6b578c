"""The attention matrix and the rank of what tokens span."""

import jax.numpy as jnp
from jaxtyping import Array, Float

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
    thing: Measured, flow: Flow | AbstractAttention | None = None, *, t: Number = 0.0
) -> Float[Array, "*time_heads n n"]:
    r"""The attention matrix $P_{ij} = k_μ(x_i, x_j) w_j$: the weight of token j in the field at token i.

    Rows of softmax attention sum to 1. Under a normalization that reads directions, these are used.

    **Arguments**

    - `thing`: tokens, or a run of them.
    - `flow`: a flow or an attention; left out, the flow of the run.
    - `t`: the time at which the flow's parameters are taken, which matters where they change with depth.

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
    return each(_matrix, thing, at_time(as_dtype(flow, mu.x.dtype), check.as_floats(check.scalar("t", t), mu.x.dtype)))


def _matrix(mu: Tokens, flow: Flow) -> Float[Array, "*heads n n"]:
    seen = flow.normalization.reads(mu)
    return flow.attention.matrix(seen, None, Dense())


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
