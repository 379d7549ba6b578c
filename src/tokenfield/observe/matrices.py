"""The attention matrix and the rank of what tokens span."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from tokenfield import _checks as check
from tokenfield.attention import AbstractAttention
from tokenfield.attention.base import as_dtype
from tokenfield.errors import InputError
from tokenfield.flow import Flow
from tokenfield.measures import Tokens
from tokenfield.normalization import Free
from tokenfield.observe.base import each, states
from tokenfield.parameters import at_time
from tokenfield.summation import Dense
from tokenfield.trajectory import Trajectory


def attention_matrix(thing: Any, flow: Any = None, *, t: Any = 0.0) -> Float[Array, "*time_heads n n"]:
    """P_ij = k_μ(x_i, x_j) w_j, the weight of token j in the field at token i; rows of softmax attention sum to 1.

    `flow` may be left out for a run, which knows its own; `t` matters where its parameters change with depth. Several
    heads have a matrix each, shape (heads, n, n). Under a normalization that reads directions, these are used.

    >>> from tokenfield import sa
    >>> attention_matrix(Tokens.orthonormal(2), sa(beta=0.0)).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    if flow is None and isinstance(thing, Trajectory):
        flow = thing.flow
    if isinstance(flow, AbstractAttention):
        flow = Flow(flow, Free())
    if not isinstance(flow, Flow):
        raise InputError("attention_matrix(measure, flow) needs a flow or an attention, e.g. tkf.sa(beta=9.0).")
    mu = states(thing)
    flow.check(mu.d)
    flow.normalization.reads(mu)
    return each(_matrix, thing, as_dtype(at_time(flow, check.scalar("t", t)), mu.x.dtype))


def _matrix(mu: Tokens, flow: Flow) -> Float[Array, "*heads n n"]:
    seen = flow.normalization.reads(mu)
    return flow.attention.matrix(seen, None, Dense())


def effective_rank(thing: Any) -> Float[Array, "*time"]:
    r"""$\exp(-\sum_k p_k \log p_k)$ with $p_k = σ_k / \sum σ$ over the singular values of the tokens' matrix (rows
    times √w_i) or of a matrix given as such  [roy2007]. Between 1 (all on a line) and min(n, d).

    >>> round(float(effective_rank(Tokens.orthonormal(5))), 9)
    5.0
    """
    if not isinstance(thing, Tokens | Trajectory):
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
