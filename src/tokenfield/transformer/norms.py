"""Norms as trained models have them: centred or not, with ε, gain and bias."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from tokenfield._types import AnyArray


class Norm(eqx.Module):
    r"""LayerNorm, $x \mapsto g \odot (x - \bar x)/\sqrt{\mathrm{var}(x) + ε} + b$; or RMSNorm, which does not centre:
    $x \mapsto g \odot x/\sqrt{\overline{x^2} + ε}$.

    Without centring, at ε = 0, it is the √d g ⊙ θ that `PostLN(gain=g)` and its relatives read.

    **Arguments**

    - `gain`, `bias`: of shape (d,); left out, 1 and 0.
    - `eps`: ε.
    - `centre`: whether it is a LayerNorm.

    >>> Norm(centre=False)(jnp.array([3.0, 4.0])).tolist()
    [0.8485..., 1.1313...]
    """

    gain: Float[AnyArray, " d"] | None = None
    bias: Float[AnyArray, " d"] | None = None
    eps: float = eqx.field(static=True, default=0.0)
    centre: bool = eqx.field(static=True, default=True)

    @classmethod
    def fresh(cls, d: int, *, eps: float, centre: bool, bias: bool) -> "Norm":
        """A norm before training: gain 1 and bias 0."""
        return cls(np.ones(d, np.float32), np.zeros(d, np.float32) if bias else None, eps, centre)

    def __call__(self, x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
        if self.centre:
            x = x - jnp.mean(x, axis=-1, keepdims=True)
        x = x * lax.rsqrt(jnp.mean(x**2, axis=-1, keepdims=True) + self.eps)
        x = x if self.gain is None else self.gain * x
        return x if self.bias is None else x + self.bias


def normed(norm: Norm | None, x: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
    """The norm of x, where there is one."""
    return x if norm is None else norm(x)
