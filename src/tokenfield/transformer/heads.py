"""Self-attention as a Transformer has it: the library's kernels between projected queries and keys, head by head."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tokenfield.attention.base import DENSE, AbstractKernel
from tokenfield.errors import InputError
from tokenfield.summation import AbstractSummation
from tokenfield.transformer.parts import Affine
from tokenfield.transformer.positions import AbstractPositions


class Seen(NamedTuple):
    """What a block's attention sees of tokens: keys and values of every group of heads, positions τ, and weights w (0 for places
    that are not filled). Along a generated text it is the cache."""

    keys: Float[Array, "*batch g n k"]
    values: Float[Array, "*batch g n p"]
    τ: Float[Array, " n"]
    w: Float[Array, "*batch n"]


class Heads(eqx.Module):
    r"""$\mathrm{Att}(x)_i = W_O\,[\sum_j k(q^h_i, k^h_j)\, v^h_j]_h + b_O$, with $q = W_Q x + b_Q$, $k = W_K x + b_K$ and
    $v = W_V x + b_V$.

    The kernel k is one of the library's, such as `Softmax(beta=k ** -0.5)`, whose own Q, K and V are left out. Kinds that do not
    average (sigmoid, linear, ReLU, unnormalized) are divided by the number of tokens that are seen.

    **Arguments**

    - `query`, `key`, `value`, `output`: the projections.
    - `kernel`: any kind of attention with a kernel.
    - `positions`: rotary positions or ALiBi act here.
    - `heads`: how many; `groups` of them share keys and values.
    - `causal`, `window`: whether tokens see earlier ones only, and how far back.
    """

    query: Affine
    key: Affine
    value: Affine
    output: Affine
    kernel: AbstractKernel
    positions: AbstractPositions
    heads: int = eqx.field(static=True)
    groups: int = eqx.field(static=True)
    causal: bool = eqx.field(static=True, default=False)
    window: int | None = eqx.field(static=True, default=None)

    def check(self) -> None:
        """Refuse kernels that cannot do what this attention asks of them."""
        if self.causal and self.kernel.maskable is not None:
            raise InputError(self.kernel.maskable)
        if self.positions.slopes(self.heads) is not None and not self.kernel.scored:
            raise InputError(
                f"ALiBi changes scores that are inner products, which {type(self.kernel).__name__} attention has not."
            )

    def see(self, x: Float[Array, "n d"], τ: Float[Array, " n"], w: Float[Array, " n"]) -> Seen:
        """Keys and values of tokens at positions τ."""
        keys = self.positions.turn(_split(self.key(x), self.groups), τ)
        return Seen(keys, _split(self.value(x), self.groups), τ, w)

    def __call__(self, x: Float[Array, "m d"], σ: Float[Array, " m"], seen: Seen) -> Float[Array, "m d"]:
        """The field at points x, at positions σ, of the tokens that are seen."""
        fields = self._sums(x, σ, seen, seen.values)
        return self.output(jnp.moveaxis(fields, 0, 1).reshape(len(x), -1))

    def matrices(self, x: Float[Array, "m d"], σ: Float[Array, " m"], seen: Seen) -> Float[Array, "h m n"]:
        """One attention matrix per head: the kernel summed against unit vectors."""
        n = len(seen.τ)
        units = jnp.broadcast_to(jnp.eye(n, dtype=x.dtype), (self.groups, n, n))
        return self._sums(x, σ, seen, units)

    def scores(self, x: Float[Array, "m d"], σ: Float[Array, " m"], seen: Seen) -> Float[Array, "h m n"]:
        """β<q_i, k_j> of every head, β the kernel's (1 where it has none); masks and biases left out."""
        q = self._queries(x, σ)
        β = getattr(self.kernel, "beta", None)
        scores = jnp.einsum("grmk,gnk->grmn", q, seen.keys) * (1.0 if β is None else β)
        return scores.reshape(self.heads, *scores.shape[2:])

    def _queries(self, x: Float[Array, "m d"], σ: Float[Array, " m"]) -> Float[Array, "g r m k"]:
        q = self.positions.turn(_split(self.query(x), self.heads), σ)
        return q.reshape(self.groups, -1, *q.shape[1:])

    def _sums(
        self, x: Float[Array, "m d"], σ: Float[Array, " m"], seen: Seen, values: Float[Array, "g n p"]
    ) -> Float[Array, "h m p"]:
        q, summation = self._queries(x, σ), self._summation(σ, seen.τ)
        slopes = self.positions.slopes(self.heads)

        def head(q, k, v, slope):
            if slope is not None:
                q, k = self._lengthened(q, k, slope, σ, seen.τ)
            return self.kernel.between(q, k, v, seen.w, summation)

        if slopes is None:
            of_group = jax.vmap(lambda q, k, v: head(q, k, v, None), (0, None, None))
            sums = jax.vmap(of_group)(q, seen.keys, values)
        else:
            m = jnp.asarray(slopes, x.dtype).reshape(self.groups, -1)
            sums = jax.vmap(jax.vmap(head, (0, None, None, 0)))(q, seen.keys, values, m)
        sums = sums.reshape(self.heads, *sums.shape[2:])
        return sums if self.kernel.averages else sums / self._count(σ, seen)[:, None]

    def _lengthened(self, q, k, slope, σ, τ):
        """-m(σ - τ) as an inner product of two more coordinates, which the kernel multiplies by its β."""
        β = self.kernel.beta  # pyright: ignore[reportAttributeAccessIssue]  # `check` asks for scores, which have one
        q = jnp.column_stack([q, -slope * σ / β, jnp.full_like(σ, 1 / β)])
        return q, jnp.column_stack([k, jnp.ones_like(τ), slope * τ])

    def _summation(self, σ: Float[Array, " m"], τ: Float[Array, " n"]) -> AbstractSummation:
        window = None if self.window is None else jnp.asarray(self.window - 1, σ.dtype)
        return DENSE.masked(σ, τ, window) if self.causal else DENSE

    def _count(self, σ: Float[Array, " m"], seen: Seen) -> Float[Array, " m"]:
        """How many tokens each point sees."""
        if not self.causal:
            return jnp.broadcast_to(jnp.sum(seen.w), σ.shape)
        behind = σ[:, None] - seen.τ
        near = (behind >= 0) & (True if self.window is None else behind < self.window)
        return jnp.sum(jnp.where(near, seen.w, 0.0), axis=1)


def _split(x: Float[Array, "n hk"], heads: int) -> Float[Array, "h n k"]:
    return jnp.moveaxis(x.reshape(len(x), heads, -1), 1, 0)
