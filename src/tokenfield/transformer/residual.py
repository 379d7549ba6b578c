"""A block as attention of its own: what it adds to a token, so that flows move tokens by it."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from tokenfield import _checks as check
from tokenfield.attention.base import DENSE, AbstractAttention, Points
from tokenfield.errors import InputError
from tokenfield.measures import Tokens
from tokenfield.summation import AbstractSummation
from tokenfield.transformer.block import Block


class Residual(AbstractAttention):
    r"""$\Gamma_\mu(x) = B_\mu(x) - x$: what a block adds to a token at x, among the tokens μ. One Euler step of
    length 1 is the block.

    **Arguments**

    - `block`: the block.
    - `span`: positions are the tokens' s times this, rounded; where tokens have none, their order.
    """

    block: Block
    span: float = eqx.field(static=True)
    sigma: Float[Array, " m"] | None = None

    def field(self, mu: Tokens, x: Points, summation: AbstractSummation) -> Float[Array, "m d"]:
        points, σ, seen = self._read(mu, x)
        return self.block(points, σ, seen) - points

    def matrix(self, mu: Tokens, x: Points, summation: AbstractSummation = DENSE) -> Float[Array, "heads m n"]:
        return self.block.matrices(*self._read(mu, x))

    def _read(self, mu: Tokens, x: Points) -> Any:
        τ = self._positions(mu)
        seen = self.block.see(mu.x, τ, mu.n * mu.w)
        if x is None:
            return mu.x, τ, seen
        if self.sigma is None and not self.mean_field:
            raise InputError(
                "This block knows positions; those of other points are needed: attention(mu, x, s=positions)."
            )
        σ = jnp.zeros(len(x), x.dtype) if self.sigma is None else self._rounded(jnp.broadcast_to(self.sigma, len(x)))
        return x, σ.astype(x.dtype), seen

    def _positions(self, mu: Tokens) -> Float[Array, " n"]:
        return jnp.arange(mu.n, dtype=mu.x.dtype) if mu.s is None else self._rounded(mu.s)

    def _rounded(self, s: Float[Array, " n"]) -> Float[Array, " n"]:
        return jnp.round(self.span * s)

    def check(self, d: int) -> int:
        own = self.block.attention.f.query.W.shape[1]
        if own != d:
            raise InputError(
                f"This block moves tokens in {own} dimensions, but these have d = {d}. Take model.tokens(text)."
            )
        return d

    @property
    def mean_field(self) -> bool:
        heads = self.block.attention.f
        return not heads.causal and heads.positions.placeless and heads.kernel.mean_field

    @property
    def averages(self) -> bool:
        return self.block.attention.f.kernel.averages

    def asked_from(self, s: Any) -> "Residual":
        σ = check.finite("s", check.real_array("s", s, like="positions of the query points"))
        return eqx.tree_at(lambda a: a.sigma, self, σ, is_leaf=lambda leaf: leaf is None)

    @property
    def summary(self) -> str:
        heads = self.block.attention.f
        return f"Residual(a block of {heads.heads} {type(heads.kernel).__name__} heads)"
