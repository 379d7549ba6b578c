"""How much the output of attention, or of a flow, can change when its tokens do: local Lipschitz constants."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._norms import sizes
from tokenfield._types import Number, no_type_check
from tokenfield.attention import AbstractAttention
from tokenfield.attention.base import TOLERANCE, as_dtype, requested
from tokenfield.errors import InputError
from tokenfield.evolution import evolve
from tokenfield.flow import Flow
from tokenfield.measures import Tokens
from tokenfield.observe.base import Measured, each, states
from tokenfield.parameters import at_time
from tokenfield.status import Status
from tokenfield.summation import AbstractSummation, choose

BASIS = 32
"""How many vectors a search holds of either side: what memory it takes beside one product. The best half survives a restart."""
ROUNDS = 1000
"""How often a search is extended by a vector, two products each, before it is given up."""
STEPS = 4096
"""The most steps of a run whose derivatives are taken: products with the transpose keep checkpoints for so many."""
FLOOR = 256
"""In units of round-off, the least residual that a search is asked for."""

Points = Float[Array, "n d"]
Product = Callable[[Points], Float[Array, "n p"]]


class Sensitivity(NamedTuple):
    """The largest singular value of a Jacobian J, with what shows that it is one: $Jv = σu$ and $|J^⊤u - σv|$ small.

    - `value`: σ, the local Lipschitz constant.
    - `residual`: $|J^⊤u - σv|/σ$. $J^⊤J$ has an eigenvalue within σ² times this of σ², so that J has a singular value within half
      of it of σ, relative to σ; where the others are well apart, within its square.
    - `left`: u, the change of the output, of norm 1 and shape (n, p).
    - `right`: v, the change of the tokens that causes the largest one, of norm 1 and shape (n, d).
    - `products`: how many products with J or its transpose it took.

    Of a run every part has the axes of the saved times in front. The norm is that which was asked for, weighted or not.
    """

    value: Float[Array, "*time"]
    residual: Float[Array, "*time"]
    left: Float[Array, "*time n p"]
    right: Float[Array, "*time n d"]
    products: Int[Array, "*time"]


@front_door
@no_type_check
def lipschitz(
    attention: AbstractAttention,
    mu: Measured,
    *,
    weighted: bool = False,
    full: bool = False,
    tolerance: Number = 1e-6,
    t: Number = 0.0,
) -> Float[Array, "*time"] | Sensitivity:
    r"""The local Lipschitz constant $\|D_X f\|_2$ of attention $f(X)_i = Γ_X(x_i)$, norm $\|X\|^2 = \sum_i |x_i|^2$.

    [castin2024]. It is the largest singular value of the Jacobian of all outputs in all tokens, of any attention, with
    its heads and masks, and is found from exact products with the Jacobian and with its transpose, by Golub–Kahan–Lanczos
    bidiagonalization with full reorthogonalization and restarts that keep half of the basis [golub1965, baglama2005]. No matrix
    is formed: memory is that of a field and of 64 vectors in R^{nd}. A layer of random matrices takes some fifty products; where
    many singular values crowd below the largest, as for matrices that are multiples of the identity, it may take hundreds. Where
    attention has a kink (`ReLU`, `Hardmax`) the derivative is that of the side on which JAX takes it.

    **Arguments**

    - `attention`: any kind; a flow's is `flow.attention`.
    - `mu`: tokens, or a run or a batch of runs of them.
    - `weighted`: whether the norm is $\sum_i w_i |x_i|^2$, that of changes of the measure, instead.
    - `full`: whether to return also the residual, the singular vectors and the number of products.
    - `tolerance`: how far from a singular value σ may be, relative to it: half of the residual below which the search ends.
    - `t`: the time, which matters where parameters change with depth.

    **Returns** the constant, of a run one per saved time; with `full` a `Sensitivity`. Under jit, vmap and grad, where nothing can
    be refused, its residual says how far the search came.

    **Raises** `InputError` where `mu` is not made of tokens, matrices do not fit them, the Jacobian leaves the range of
    floating-point numbers, or the tolerance is not reached.

    >>> import tokenfield as tkf
    >>> round(float(lipschitz(tkf.Softmax(beta=0.0), tkf.Tokens.orthonormal(4))), 9)       # the mean: P = 11ᵀ/n has norm 1
    1.0
    """
    if not isinstance(attention, AbstractAttention):
        raise InputError(f"Argument `attention` must be one, e.g. tkf.Softmax(9.0), but is {check.brief(attention)}.")
    tokens = _tokens(mu)
    attention.check(tokens.d)
    dtype = tokens.x.dtype
    time = check.as_floats(check.scalar("t", t), dtype)
    attention = at_time(as_dtype(attention, dtype), time)
    goal = _goal(tolerance, dtype)
    found, healthy = each(_of_attention, mu, attention, _sums(attention, tokens), _flag(weighted), goal)
    if not check.traced(healthy) and not np.all(np.asarray(healthy)):
        raise InputError(
            f"{type(attention).__name__} attention did not reach its own tolerance in its number of iterations. "
            "Give it more (iterations=...), or a larger tolerance, or a smaller β."
        )
    return _answer(found, goal, full)


@front_door
@no_type_check
def flow_lipschitz(
    flow: Flow,
    mu: Measured,
    t: Number | tuple[Number, Number],
    *,
    weighted: bool = False,
    full: bool = False,
    tolerance: Number = 1e-6,
    rtol: float = 1e-9,
) -> Float[Array, "*time"] | Sensitivity:
    r"""The local Lipschitz constant $\|D_X Φ_t\|_2$ of the time-t map $Φ_t(X) = X(t)$ of a flow, norm $\|X\|^2 = \sum_i |x_i|^2$.

    Found as `lipschitz` is, through the derivatives of `evolve` in both directions: they are those of the very steps that the
    solver takes, so that one is the transpose of the other. Under Post-LN a start is first normalized, which is part of the map:
    what moves tokens along their radius changes nothing.

    **Arguments**

    - `flow`: what moves tokens, without noise and reweighting.
    - `mu`: tokens, or a run or a batch of runs of them: then the constant of the time-t map from each saved state.
    - `t`: the end time, from 0, or a pair (start, end).
    - `weighted`, `full`, `tolerance`: as for `lipschitz`.
    - `rtol`: the accuracy of the run, as for `evolve`, at most 0.01; another value compiles anew.

    **Returns** the constant, of a run one per saved time; with `full` a `Sensitivity`. Under jit and vmap, where nothing can be
    refused, the constant is NaN where a run does not reach t.

    **Raises** `InputError` where `mu` is not made of tokens, the flow is no map of tokens, a run from here does not reach t, or the
    tolerance is not reached.

    >>> import tokenfield as tkf
    >>> grows = tkf.Flow(tkf.Softmax(beta=0.0), tkf.Free())                          # ẋ_i = mean: the mean grows like e^t
    >>> bool(abs(flow_lipschitz(grows, tkf.Tokens.orthonormal(3), t=1.0) - np.e) < 1e-6)
    True
    """
    if not isinstance(flow, Flow):
        raise InputError(f"Argument `flow` must be a Flow, e.g. tkf.sa(beta=9.0), but is {check.brief(flow)}.")
    if flow.kappa is not None or flow.reweighting is not None:
        raise InputError(
            "The time-t map of tokens is that of a flow without noise (kappa) and without reweighting. Leave them out."
        )
    tokens = _tokens(mu)
    flow.check(tokens.d)
    ends = _ends(t, tokens.x.dtype)
    goal = _goal(tolerance, tokens.x.dtype)
    found, code = each(_of_flow, mu, flow, ends, _flag(weighted), goal, _accuracy(rtol))
    if not check.traced(code) and (bad := np.asarray(code) != Status.COMPLETED).any():
        status = Status(int(np.asarray(code)[bad].flat[0]))
        raise InputError(
            f"The time-t map needs runs that reach t, but one from here ended as {status.name}. Give a smaller t, and "
            "look at tkf.evolve(flow, mu, t)."
        )
    return _answer(found, goal, full)


def _tokens(mu: Any) -> Tokens:
    """The tokens, at one time or at many."""
    tokens = states(mu)
    held = 4 * BASIS * tokens.n * tokens.d * tokens.x.dtype.itemsize
    check.room(held, f"The search for the largest singular value of {tokens.n} tokens in {tokens.d} dimensions")
    return tokens


def _flag(weighted: bool) -> Bool[Array, ""]:
    """As an array, which is no part of a program."""
    return check.on_device(np.asarray(weighted))


def _accuracy(rtol: Any) -> float:
    accuracy = check.number("rtol", rtol, positive=True)
    if accuracy > 0.01:
        raise InputError(f"Argument `rtol` must be at most 0.01, or derivatives mean nothing, but is {accuracy:g}.")
    return accuracy


def _goal(tolerance: Any, dtype: Any) -> Float[Array, ""]:
    """The residual that is asked for, at least that which round-off allows."""
    wanted = check.number("tolerance", tolerance, positive=True)
    if wanted > 0.1:
        raise InputError(f"Argument `tolerance` must be at most 0.1, relative to the constant, but is {wanted:g}.")
    return check.on_device(np.asarray(max(2 * wanted, FLOOR * float(jnp.finfo(dtype).eps)), dtype))


def _ends(t: Any, dtype: Any) -> tuple[Array, Array]:
    """The interval of time, as `evolve` reads it."""
    pair = t if isinstance(t, tuple | list) else (0.0, t)
    if len(pair) != 2:
        raise InputError(f"Argument `t` must be an end time or a pair (start, end), but is {check.brief(t)}.")
    start, end = (check.scalar("t", part) for part in pair)
    if not check.traced((start, end)) and not float(start) < float(end):
        raise InputError(f"Time runs forward: `t` must end after t = {float(start):g}, but ends at {float(end):g}.")
    return check.as_floats(start, dtype), check.as_floats(end, dtype)


def _sums(attention: AbstractAttention, mu: Tokens) -> AbstractSummation:
    """The summation for tokens at one time or at many: one that knows the field off the sphere too, where changes lead."""
    if check.traced((attention, mu)):
        return choose()
    request = requested(attention, Tokens(mu.x.reshape(-1, mu.d)), None, TOLERANCE, unit=False)
    return choose(None, dataclasses.replace(request, n=mu.n, queries=mu.n))


def _of_attention(
    mu: Tokens,
    attention: AbstractAttention,
    summation: AbstractSummation,
    weighted: Bool[Array, ""],
    goal: Float[Array, ""],
) -> tuple[Sensitivity, Any]:
    """The search at one state, and whether attention solved its own equations there."""
    field = lambda x: attention.field(mu.with_points(x), None, summation)
    forward = lambda v: jax.jvp(field, (mu.x,), (v,))[1]
    backward = lambda u: jax.vjp(field, mu.x)[1](u)[0]
    healthy = attention.healthy(attention.remember(mu, None, summation))
    return largest(*_normed(mu, weighted, forward, backward), mu.x, goal), jnp.asarray(healthy)


def _of_flow(
    mu: Tokens, flow: Flow, ends: tuple, weighted: Bool[Array, ""], goal: Float[Array, ""], rtol: float
) -> tuple[Sensitivity, Int[Array, ""]]:
    """The search at one state, and how the run from there ended."""
    run = lambda x, adjoint: evolve(flow, mu.with_points(x), ends, save=1, rtol=rtol, max_steps=STEPS, adjoint=adjoint)
    forward = lambda v: jax.jvp(lambda x: run(x, "forward").final.x, (mu.x,), (v,))[1]
    backward = lambda u: jax.vjp(lambda x: run(x, "reverse").final.x, mu.x)[1](u)[0]
    code = run(mu.x, "reverse").code
    arrived = code == Status.COMPLETED  # if not, nothing is searched for
    found = largest(*_normed(mu, weighted, forward, backward), mu.x, jnp.where(arrived, goal, jnp.inf))
    return found._replace(value=jnp.where(arrived, found.value, jnp.nan)), code


def _normed(mu: Tokens, weighted: Bool[Array, ""], forward: Product, backward: Product) -> tuple[Product, Product]:
    """Both products in coordinates in which the norm is the plain one; tokens without weight, which fill up a batch, rest."""
    present = (mu.w > 0)[:, None]
    size = jnp.where(present, jnp.where(weighted, jnp.sqrt(mu.w)[:, None], 1.0), 0.0)
    inverse = jnp.where(present, 1 / jnp.where(size > 0, size, 1.0), 0.0)
    return lambda v: size * forward(inverse * v), lambda u: inverse * backward(size * u)


# The largest singular value of a linear map that is known by its products.


class _Search(NamedTuple):
    """k orthonormal vectors as rows of V, their images JV as rows of W, in a unit of their size, the inner products G of these; and
    where the best of them leads next."""

    V: Float[Array, "m n d"]
    W: Float[Array, "m n p"]
    G: Float[Array, "m m"]
    k: Int[Array, ""]
    unit: Float[Array, ""]
    rest: Points
    found: Sensitivity


def largest(forward: Product, backward: Product, x: Points, goal: Float[Array, ""]) -> Sensitivity:
    """The largest singular value of the map whose products are given, by Lanczos: the basis is extended by the residual of its best
    vector until that is small. A basis that is full is restarted from its best half.

    Extending by residuals spans the same spaces as bidiagonalization, and residuals are computed, not estimated.
    """
    m, p = min(BASIS, x.size), jax.eval_shape(forward, x).shape
    V, W = jnp.zeros((m, *x.shape), x.dtype), jnp.zeros((m, *p), x.dtype)
    one, none = jnp.ones((), x.dtype), jnp.zeros((), int)
    start = jax.random.normal(jax.random.key(0), x.shape, x.dtype)
    nothing = Sensitivity(0 * one, jnp.inf * one, W[0], V[0], none)
    search = _Search(V, W, jnp.zeros((m, m), x.dtype), none, one, start, nothing)
    unfinished = lambda s: (s.found.residual > goal) & (s.found.products < 2 * ROUNDS)
    last = jax.lax.while_loop(unfinished, lambda s: _extended(s, forward, backward), search)
    return last.found._replace(value=last.unit * last.found.value)


def _extended(s: _Search, forward: Product, backward: Product) -> _Search:
    """One more vector: the residual, made orthogonal to the others twice."""
    V, W, G, k = jax.lax.cond(s.k == len(s.V), _restarted, lambda *basis: basis, s.V, s.W, s.G, s.k)
    v = s.rest
    for _ in range(2):
        v = v - jnp.tensordot(jnp.tensordot(V, v, 2), V, 1)
        v = v / jnp.maximum(jnp.linalg.norm(v), jnp.finfo(v.dtype).tiny)
    image = forward(v)
    unit = jnp.where(k == 0, _positive(sizes(image.reshape(1, -1))[0]), s.unit)  # what is squared is of order 1
    V, W = V.at[k].set(v), W.at[k].set(image / unit)
    row = jnp.tensordot(W, W[k], 2)
    G = G.at[k, :].set(row).at[:, k].set(row)
    best = _best(V, W, G, lambda u: backward(u) / unit, s.found.products + 1)
    return _Search(V, W, G, k + 1, unit, *best)


def _positive(size: Float[Array, ""]) -> Float[Array, ""]:
    return jnp.where((size > 0) & jnp.isfinite(size), size, 1.0)


def _best(V: Array, W: Array, G: Array, Jt: Product, products: Int[Array, ""]) -> tuple[Points, Sensitivity]:
    """The vector of the basis' span that is stretched most, and its residual Jᵀu - σv."""
    y = jnp.linalg.eigh(G)[1][:, -1]
    v, image = jnp.tensordot(y, V, 1), jnp.tensordot(y, W, 1)
    σ = jnp.linalg.norm(image)
    some = jnp.where(σ > 0, σ, 1.0)
    u = image / some
    rest = Jt(u) - σ * v
    return rest, Sensitivity(σ, jnp.linalg.norm(rest) / some, u, v, products + 1)


def _restarted(V: Array, W: Array, G: Array, k: Int[Array, ""]) -> tuple[Array, Array, Array, Int[Array, ""]]:
    """The best half of a basis."""
    values, vectors = jnp.linalg.eigh(G)
    kept = max(1, len(V) // 2)
    Y = jnp.where(jnp.arange(len(V)) < kept, vectors[:, ::-1], 0.0).T
    return (
        jnp.tensordot(Y, V, 1),
        jnp.tensordot(Y, W, 1),
        jnp.diag(jnp.where(jnp.arange(len(V)) < kept, values[::-1], 0.0)),
        jnp.full_like(k, kept),
    )


def _answer(found: Sensitivity, goal: Float[Array, ""], full: bool) -> Any:
    """What was asked for; refused where it is no number, or not yet the largest singular value."""
    if not check.traced(found):
        if not np.all(np.isfinite(np.asarray(found.value)) & np.isfinite(np.asarray(found.residual))):
            raise InputError(
                "The Jacobian leaves the range of floating-point numbers at these tokens. Take a smaller β, or tokens that are "
                "not so long."
            )
        worst = float(np.max(np.asarray(found.residual)))
        if worst > float(goal):
            raise InputError(
                f"The largest singular value was not found to a residual of {float(goal):.1e} in {2 * ROUNDS} products, only to "
                f"{worst:.1e}. Give a larger `tolerance`."
            )
    return found if full else found.value
