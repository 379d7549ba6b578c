"""The schemes on directions, each a few lines: what it adds, and whether LayerNorm follows."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from tokenfield import _checks as check
from tokenfield._norms import unit
from tokenfield._types import AnyArray, Scalar, Vector
from tokenfield.errors import InputError
from tokenfield.normalization.base import AbstractLayerNorm, gain_parameter
from tokenfield.parameters import Parameter, is_scheduled, number_parameter


class PostLN(AbstractLayerNorm):
    r"""Post-LN: tokens live on the unit sphere, $\dot θ = P_θ a$, ṙ = 0  [rigollet2025, equation (SA)].

    A start off the sphere is first normalized, x ↦ x/|x|; zero vectors are refused. Layer: LN(x + step·a).

    >>> PostLN()
    PostLN(gain=None)
    """

    gain: Array | None

    @property
    def tangential(self) -> bool:
        return self.gain is None

    def __init__(self, gain: Vector = None):
        self.gain = gain_parameter(gain)

    def drive(self, t: Float[Array, ""], a: Float[Array, "m d"]) -> Float[Array, "m d"]:
        return a

    def on_sphere(self, t: Any) -> bool:
        return True


class PreLN(AbstractLayerNorm):
    r"""Pre-LN: $\dot θ = P_θ a / r$, $\dot r = ⟨θ, a⟩$  [rigollet2025, section 6.2]. Layer: x + step·Γ(LN x).

    >>> PreLN().on_sphere(0.0)
    False
    """

    gain: Array | None

    def __init__(self, gain: Vector = None):
        self.gain = gain_parameter(gain)

    def drive(self, t: Float[Array, ""], a: Float[Array, "m d"]) -> Float[Array, "m d"]:
        return a

    def on_sphere(self, t: Any) -> bool:
        return False


class PeriLN(AbstractLayerNorm):
    r"""Peri-LN: $\dot θ = P_θ a / (r|a|)$, $\dot r = ⟨θ, a⟩/|a|$. Layer: x + step·LN(Γ(LN x))  [rigollet2025, section 6.2].

    >>> PeriLN().drive(jnp.asarray(0.0), jnp.array([[0.0, 4.0]])).tolist()
    [[0.0, 1.0]]
    """

    gain: Array | None

    def __init__(self, gain: Vector = None):
        self.gain = gain_parameter(gain)

    def drive(self, t: Float[Array, ""], a: Float[Array, "m d"]) -> Float[Array, "m d"]:
        return unit(a)

    def on_sphere(self, t: Any) -> bool:
        return False


class MixLN(AbstractLayerNorm):
    r"""Mix-LN: Post-LN while t ≤ τ, Pre-LN after  [rigollet2025, section 6.2]. Solvers step exactly onto τ.

    >>> bool(MixLN(tau=2.0).on_sphere(1.0)), bool(MixLN(tau=2.0).on_sphere(3.0))
    (True, False)
    """

    tau: Float[Array, ""]
    gain: Array | None

    @property
    def timeless(self) -> bool:
        return False

    def __init__(self, tau: Scalar, gain: Vector = None):
        self.tau, self.gain = check.scalar("tau", tau), gain_parameter(gain)

    def drive(self, t: Float[Array, ""], a: Float[Array, "m d"]) -> Float[Array, "m d"]:
        return a

    def on_sphere(self, t: Any) -> Bool[AnyArray, ""]:
        xp = check.namespace(t, self.tau)
        return xp.asarray(xp.asarray(t) <= xp.asarray(self.tau))

    def jumps(self) -> list[Array]:
        return [self.tau[None]]


class NGPT(AbstractLayerNorm):
    r"""nGPT: $\dot θ = α_t P_θ a / |a|$, ṙ = 0, with a step α that may change with depth  [rigollet2025, section 6.2].
    Layer: LN(x + step·α_t·LN(a)).

    >>> NGPT(alpha=0.5).drive(jnp.asarray(0.0), jnp.array([[0.0, 2.0]])).tolist()
    [[0.0, 0.5]]
    """

    alpha: Parameter
    gain: Array | None

    def __init__(self, alpha: Scalar = 1.0, gain: Vector = None):
        self.alpha, self.gain = number_parameter("alpha", alpha), gain_parameter(gain)
        if not is_scheduled(self.alpha) and not check.traced(self.alpha) and not float(self.alpha) > 0:
            raise InputError(f"Argument `alpha` must be positive, but is {float(self.alpha):g}.")

    def drive(self, t: Float[Array, ""], a: Float[Array, "m d"]) -> Float[Array, "m d"]:
        return self.alpha * unit(a)

    def on_sphere(self, t: Any) -> bool:
        return True

    def collapse(self, t: Float[Array, "*times"], pull: Float[Array, ""]) -> Float[Array, "*times"]:
        return self.alpha * t


class SqrtScaling(AbstractLayerNorm):
    r"""Square-root scaling: $\dot θ = P_θ a / \sqrt{t+1}$, ṙ = 0  [rigollet2025, section 6.2].
    Layer: LN(x + step·a/√(t+1)).

    >>> SqrtScaling().drive(jnp.asarray(3.0), jnp.array([[2.0, 0.0]])).tolist()
    [[1.0, 0.0]]
    """

    gain: Array | None

    @property
    def timeless(self) -> bool:
        return False

    @property
    def tangential(self) -> bool:
        return self.gain is None

    def __init__(self, gain: Vector = None):
        self.gain = gain_parameter(gain)

    def drive(self, t: Float[Array, ""], a: Float[Array, "m d"]) -> Float[Array, "m d"]:
        return a / jnp.sqrt(t + 1)

    def on_sphere(self, t: Any) -> bool:
        return True

    def collapse(self, t: Float[Array, "*times"], pull: Float[Array, ""]) -> Float[Array, "*times"]:
        """2√t: the size of ∫ dt/√(t+1) at late times."""
        return 2 * pull * jnp.sqrt(t)
