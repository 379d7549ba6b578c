"""Equiangular tokens: how fast they start, how fast they finish, and what a long context does to them."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._types import Number, Numbers
from tokenfield.attention import AbstractAttention, Softmax
from tokenfield.attention.base import refuse_overflow
from tokenfield.attention.reductions import on_equiangular
from tokenfield.errors import InputError
from tokenfield.flow import Flow
from tokenfield.measures import Equiangular
from tokenfield.normalization import AbstractLayerNorm
from tokenfield.parameters import scheduled


@front_door
def long_context(n: Number, rho: Number, gamma: Number) -> Float[Array, ""]:
    r"""The cosine of two outputs of one softmax layer on n equiangular tokens of cosine ρ, at $β = γ \log n$.

    As n → ∞ it tends to 1 for γ < 1/(1-ρ), to 4ρ/(1+3ρ) at γ = 1/(1-ρ), and to ρ above  [rigollet2025, section 6.3].
    The output is the field alone, without the residual stream.

    **Arguments**

    - `n`: how many tokens, 2 or more, as many as 10¹⁶ and beyond.
    - `rho`: their common cosine, -1/(n-1) ≤ ρ < 1.
    - `gamma`: the inverse temperature in units of log n.

    **Returns** the cosine of two outputs. For arrays of arguments, use jax.vmap.

    **Raises** `InputError` where an argument is not one finite number, or no such tokens exist.

    >>> [round(float(long_context(1e16, 0.5, gamma)), 4) for gamma in (1.0, 2.0, 3.0)]      # critical: 4ρ/(1+3ρ) = 0.8
    [1.0, 0.8, 0.5]
    """
    gamma = check.scalar("gamma", gamma)
    mu = Equiangular(rho=rho, n=n)
    return output(Softmax(beta=gamma * jnp.log(mu.n)), mu).rho


@front_door
def output(attention: AbstractAttention, mu: Equiangular) -> Equiangular:
    r"""The outputs $Γ(x_i)$ of an attention on equiangular tokens, which are equiangular again.

    With $Γ(x_i) = p\,x_i + q \sum_{j≠i} x_j$ their gap is $1 - ρ' = (p-q)^2 (1-ρ)\,r^2/|Γ|^2$, so that a small 1 - ρ' keeps
    all its digits.

    **Arguments**

    - `attention`: one whose matrices are multiples of the identity, such as `Softmax(beta=2.0)`.
    - `mu`: the tokens.

    **Returns** the outputs, as `Equiangular`.

    **Raises** `InputError` where attention does not keep equiangular tokens equiangular.

    >>> round(float(output(Softmax(beta=2.0), Equiangular(rho=0.0, n=2)).rho), 6)          # 1/cosh β
    0.265802
    """
    p, q = on_equiangular(attention).equiangular(mu)
    size = jnp.sqrt(p**2 + (mu.n - 1) * q * (2 * p * mu.rho + q * (1 + (mu.n - 2) * mu.rho)))
    return Equiangular(log_gap=mu.log_gap + 2 * jnp.log(jnp.abs(p - q)) - 2 * jnp.log(size), n=mu.n, r=mu.r * size)


@front_door
def initial_speed(flow: Flow, n: Number, rho: Number = 0.0, r: Number = 1.0) -> Float[Array, ""]:
    r"""The speed $\dot ρ$ at t = 0 of n equiangular tokens of cosine ρ and length r  [rigollet2025, section 6.2].

    At ρ = 0 under softmax attention it is $2/(e^β+n-1)$ for Post-LN, the same over r for Pre-LN,
    $2/(r\sqrt{e^{2β}+n-1})$ for Peri-LN, and $2α_0/\sqrt{e^{2β}+n-1}$ for nGPT.

    **Arguments**

    - `flow`: what moves the tokens.
    - `n`, `rho`, `r`: their number, common cosine and length, as for `Equiangular`.

    **Returns** $\dot ρ$.

    **Raises** `InputError` where the flow does not keep equiangular tokens equiangular, or no such tokens exist.

    >>> import math, tokenfield as tkf
    >>> bool(abs(initial_speed(tkf.sa(2.0), n=10) - 2 / (math.exp(2.0) + 9)) < 1e-12)
    True
    """
    mu, zero = Equiangular(rho=rho, n=n, r=r), jnp.zeros(())
    speed = mu.gap * mu.excess / mu.n * flow.normalization.equiangular(zero, mu, flow.attention)[0]
    return refuse_overflow(speed, flow.attention)


@front_door
def collapse_exponent(flow: Flow, t: Numbers) -> Float[Array, "*times"]:
    r"""The exponent L(t) such that $1 - ρ$ falls like $e^{-L(t)}$, up to a factor, as t → ∞  [rigollet2025, section 6.2].

    It is 2t for SA, $2e^β t$ for USA, 2αt for nGPT with a constant α, $4\sqrt t$ for sqrt-scaling, and 2 log t, that is 1/t²,
    where tokens keep growing: Pre-LN, Peri-LN, Mix-LN. It follows from $d \log(1-ρ)/dt = -2|u|/r$ near the collapse, u what a
    layer adds, and $r \sim |u|t$ where LayerNorm does not follow.

    **Arguments**

    - `flow`: a flow on directions whose parameters do not change with depth.
    - `t`: a time, or an array of them.

    **Returns** L, one number per time.

    **Raises** `InputError` for other flows.

    >>> import tokenfield as tkf
    >>> float(collapse_exponent(tkf.sa(5.0), 3.0)), float(collapse_exponent(tkf.Flow(tkf.Softmax(), tkf.SqrtScaling()), 9.0))
    (6.0, 12.0)
    """
    scheme = flow.normalization
    if not isinstance(scheme, AbstractLayerNorm):
        raise InputError(
            f"Collapse rates are known for schemes on directions (PostLN, PreLN, ...), not for {type(scheme).__name__}."
        )
    if scheduled(flow):
        raise InputError("Collapse rates are known for parameters that do not change with depth.")
    t = check.finite("t", check.real_array("t", t))
    if not check.traced(t) and np.any(np.asarray(t) <= 0):
        raise InputError("Argument `t` must be positive: the exponent is that of late times.")
    if not bool(jnp.asarray(scheme.on_sphere(jnp.inf))):
        return 2 * jnp.log(t)
    one_cluster = Equiangular(log_gap=-1e4, n=2)
    p, q = on_equiangular(flow.attention).equiangular(one_cluster)
    pull = p + q
    return refuse_overflow(2 * scheme.collapse(t, pull), flow.attention)
