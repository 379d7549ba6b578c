"""How tokens know where they stand: by what is added to them, by turned queries and keys, or by biased scores."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenfield._types import AnyArray
from tokenfield.errors import InputError


class AbstractPositions(eqx.Module):
    """A way to tell tokens where they stand. Each kind has one of three effects, and leaves the others alone."""

    def add(self, x: Float[Array, "n e"], σ: Float[Array, " n"]) -> Float[Array, "n e"]:
        """Embedded tokens at positions σ, with what is added to them."""
        return x

    def turn(self, x: Float[Array, "h n k"], σ: Float[Array, " n"]) -> Float[Array, "h n k"]:
        """Queries or keys of all heads, turned."""
        return x

    def slopes(self, heads: int) -> np.ndarray | None:
        """The slope m of every head whose scores get -m|σ - τ|, where the kind biases scores."""
        return None

    @property
    def longest(self) -> int | None:
        """How many positions there are; None where any number will do."""
        return None

    @property
    def placeless(self) -> bool:
        """Whether attention does not feel positions."""
        return True


class NoPositions(AbstractPositions):
    """Tokens do not know where they stand, but for a mask."""


class Sinusoidal(AbstractPositions):
    r"""Adds $(\sin σω_i, \cos σω_i)$ with $ω_i = 10000^{-2i/e}$, sines at even coordinates  [vaswani2017].

    >>> Sinusoidal().add(jnp.zeros((1, 4)), jnp.zeros(1)).tolist()
    [[0.0, 1.0, 0.0, 1.0]]
    """

    base: float = eqx.field(static=True, default=10000.0)

    def add(self, x: Float[Array, "n e"], σ: Float[Array, " n"]) -> Float[Array, "n e"]:
        e = x.shape[-1]
        angle = σ[:, None] * jnp.asarray(self.base ** (-np.arange(0, e, 2) / e), x.dtype)
        waves = jnp.stack([jnp.sin(angle), jnp.cos(angle)], axis=-1).reshape(len(x), -1)
        return x + waves[:, :e]


class Learned(AbstractPositions):
    """Adds a learned vector per position."""

    table: Float[AnyArray, "context e"]

    def add(self, x: Float[Array, "n e"], σ: Float[Array, " n"]) -> Float[Array, "n e"]:
        return x + self.table[σ.astype(int)]

    @property
    def longest(self) -> int | None:
        return len(self.table)


class Rotary(AbstractPositions):
    r"""Turns queries and keys: coordinates (i, i + k/2) by the angle $σ\,\text{base}^{-2i/k}$, so that scores depend on
    σ - τ [su2024].

    The two halves of a vector are paired, as LLaMA has it. `frequencies`, where given, replace base^{-2i/k}.
    """

    base: float = eqx.field(static=True, default=10000.0)
    frequencies: tuple[float, ...] | None = eqx.field(static=True, default=None)

    def turn(self, x: Float[Array, "h n k"], σ: Float[Array, " n"]) -> Float[Array, "h n k"]:
        k = x.shape[-1]
        if k % 2:
            raise InputError(f"Rotary positions turn pairs of coordinates, but heads have {k}, an odd number.")
        rates = self.base ** (-np.arange(0, k, 2) / k) if self.frequencies is None else np.asarray(self.frequencies)
        angle = (σ[:, None] * jnp.asarray(rates, σ.dtype)).astype(x.dtype)
        one, two = x[..., : k // 2], x[..., k // 2 :]
        c, s = jnp.cos(angle), jnp.sin(angle)
        return jnp.concatenate([c * one - s * two, c * two + s * one], axis=-1)

    @property
    def placeless(self) -> bool:
        return False


class ALiBi(AbstractPositions):
    """Scores get -m|σ - τ|, with m = 2^{-8h/H} for head h = 1, ..., H  [press2022]."""

    def slopes(self, heads: int) -> np.ndarray | None:
        """Of a number of heads that is no power of two, those of the power below, and every other one of twice as many."""
        power = 2 ** int(np.log2(heads))
        of = lambda count: 2.0 ** (-8 * np.arange(1, count + 1) / count)
        return np.concatenate([of(power), of(2 * power)[::2][: heads - power]])

    @property
    def placeless(self) -> bool:
        return False


POSITIONS: dict[str, Any] = {
    "none": NoPositions,
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "rotary": Rotary,
    "alibi": ALiBi,
}
"""Kinds by their names."""
