"""Projections and feed-forward parts of a block."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenfield._types import AnyArray

ACTIVATIONS: dict[str, Any] = {
    "gelu": functools.partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": functools.partial(jax.nn.gelu, approximate=True),
    "silu": jax.nn.silu,
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
}
"""σ by its name; "gelu" is x Φ(x), "gelu_tanh" its approximation by tanh, "silu" is x/(1 + e^{-x})."""


class Affine(eqx.Module):
    """x ↦ Wx + b, row by row.

    **Arguments**

    - `W`: of shape (out, in).
    - `b`: of shape (out,); 0 when left out.
    """

    W: Float[AnyArray, "out in"]
    b: Float[AnyArray, " out"] | None = None

    @classmethod
    def random(cls, rng: np.random.Generator, out: int, into: int, *, scale: float, bias: bool) -> "Affine":
        """Entries N(0, scale²), no offset."""
        W = (scale * rng.standard_normal((out, into))).astype(np.float32)
        return cls(W, np.zeros(out, np.float32) if bias else None)

    def __call__(self, x: Float[Array, "*n in"]) -> Float[Array, "*n out"]:
        y = x @ self.W.T
        return y if self.b is None else y + self.b


class FeedForward(eqx.Module):
    r"""$x \mapsto W_2\,σ(W_1 x + b_1) + b_2$, or gated, $W_2\,(σ(W_g x + b_g) \odot (W_1 x + b_1)) + b_2$, token by token.

    **Arguments**

    - `up`: W_1 and b_1; `down`: W_2 and b_2.
    - `gate`: W_g and b_g, where it is gated [shazeer2020].
    - `activation`: σ by its name.
    """

    up: Affine
    down: Affine
    gate: Affine | None = None
    activation: str = eqx.field(static=True, default="gelu")

    def __call__(self, x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        σ = ACTIVATIONS[self.activation]
        return self.down(σ(self.up(x)) if self.gate is None else σ(self.gate(x)) * self.up(x))
