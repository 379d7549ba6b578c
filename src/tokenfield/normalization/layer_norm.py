"""The schemes on directions, each a few lines: what it adds, and whether LayerNorm follows."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._norms import unit
from tokenfield._types import AnyArray, Scalar, Vector
from tokenfield.errors import InputError
from tokenfield.normalization.base import AbstractLayerNorm, Places, gain_parameter
from tokenfield.parameters import Parameter, at_layer, is_scheduled, number_parameter


class PostLN(AbstractLayerNorm):
    r"""Post-LN: tokens live on the unit sphere, $\dot θ = P_θ a$, $\dot r = 0$  [rigollet2025, equation (SA)].

    A start off the sphere is first normalized, x ↦ x/|x|; zero vectors are refused. Its layer is
    $x \mapsto LN(x + \text{step}\cdot a)$.

    **Arguments**

    - `gain`: g, one number or one entry per coordinate, with which attention reads LN(x) = √d g ⊙ θ: the √d of LayerNorm is
      not in g, as in a trained model's weights. Left out, attention reads the unit vector θ, without √d.

    **Raises** `InputError` where the gain is not finite, or neither a number nor a vector.

    >>> PostLN(), PostLN(gain=0.5)
    (PostLN(), PostLN(gain=0.5))
    """

    gain: Array | None

    @property
    def tangential(self) -> bool:
        return self.gain is None

    @front_door
    def __init__(self, gain: Vector = None):
        self.gain = gain_parameter(gain)

    def drive(self, t: Float[Array, ""], a: Float[Array, "m d"]) -> Float[Array, "m d"]:
        return a

    def on_sphere(self, t: Any) -> bool:
        return True

    def places(self, k: int) -> Places:
        return Places(after=True)


class PreLN(AbstractLayerNorm):
    r"""Pre-LN: tokens keep a length of their own, $\dot θ = P_θ a / r$, $\dot r = ⟨θ, a⟩$  [rigollet2025, section 6.2].

    Its layer is $x \mapsto x + \text{step}\cdot\Gamma(LN\,x)$.

    **Arguments**

    - `gain`: as for `PostLN`, without √d in it: given, attention reads √d g ⊙ θ.

    **Raises** `InputError` where the gain is not finite, or neither a number nor a vector.

    >>> PreLN().on_sphere(0.0)
    False
    """

    gain: Array | None

    @front_door
    def __init__(self, gain: Vector = None):
        self.gain = gain_parameter(gain)

    def drive(self, t: Float[Array, ""], a: Float[Array, "m d"]) -> Float[Array, "m d"]:
        return a

    def on_sphere(self, t: Any) -> bool:
        return False

    def places(self, k: int) -> Places:
        return Places(before=True)


class PeriLN(AbstractLayerNorm):
    r"""Peri-LN: the field is normalized too, $\dot θ = P_θ a / (r|a|)$, $\dot r = ⟨θ, a⟩/|a|$  [rigollet2025, section 6.2].

    Its layer is $x \mapsto x + \text{step}\cdot LN(\Gamma(LN\,x))$.

    **Arguments**

    - `gain`: as for `PostLN`, without √d in it: given, attention reads √d g ⊙ θ.

    **Raises** `InputError` where the gain is not finite, or neither a number nor a vector.

    >>> PeriLN().drive(jnp.asarray(0.0), jnp.array([[0.0, 4.0]])).tolist()
    [[0.0, 1.0]]
    """

    gain: Array | None

    @front_door
    def __init__(self, gain: Vector = None):
        self.gain = gain_parameter(gain)

    def drive(self, t: Float[Array, ""], a: Float[Array, "m d"]) -> Float[Array, "m d"]:
        return unit(a)

    def on_sphere(self, t: Any) -> bool:
        return False

    def places(self, k: int) -> Places:
        return Places(before=True, inside=True)


class MixLN(AbstractLayerNorm):
    r"""Mix-LN: Post-LN until the time τ, Pre-LN from then on  [rigollet2025, section 6.2].

    Solvers step exactly onto τ. Layer k of length h is a Post-LN layer where it begins before τ, kh < τ: with steps of 1
    and τ = 25 these are 25 layers, k = 0, ..., 24. A start off the sphere before τ is first normalized, as its first
    layer would do.

    **Arguments**

    - `tau`: the time τ of the switch.
    - `gain`: as for `PostLN`, without √d in it: given, attention reads √d g ⊙ θ.

    **Raises** `InputError` where τ is not one finite number, or the gain is not finite or neither a number nor a vector.

    >>> bool(MixLN(tau=2.0).on_sphere(1.0)), bool(MixLN(tau=2.0).on_sphere(3.0))
    (True, False)
    """

    tau: Float[Array, ""]
    gain: Array | None

    @property
    def timeless(self) -> bool:
        return False

    @front_door
    def __init__(self, tau: Scalar, gain: Vector = None):
        self.tau, self.gain = check.scalar("tau", tau), gain_parameter(gain)

    def drive(self, t: Float[Array, ""], a: Float[Array, "m d"]) -> Float[Array, "m d"]:
        return a

    def on_sphere(self, t: Any) -> Bool[AnyArray, ""]:
        xp = check.namespace(t, self.tau)
        return xp.asarray(xp.asarray(t) < xp.asarray(self.tau))

    def jumps(self) -> list[Array]:
        return [self.tau[None]]

    def places(self, k: int) -> Places:
        return Places(after=True) if k < float(self.tau) else Places(before=True)


class NGPT(AbstractLayerNorm):
    r"""nGPT: tokens on the unit sphere move at a given speed, $\dot θ = α_t P_θ a / |a|$, $\dot r = 0$.

    [rigollet2025, section 6.2]. Its layer is $x \mapsto LN(x + \text{step}\cdot α_t\,LN(a))$.

    **Arguments**

    - `alpha`: α, positive; it may be a function of t, or have one value per layer.
    - `gain`: as for `PostLN`, without √d in it: given, attention reads √d g ⊙ θ.

    **Raises** `InputError` where α is not positive, or the gain is not finite or neither a number nor a vector.

    >>> NGPT(alpha=0.5).drive(jnp.asarray(0.0), jnp.array([[0.0, 2.0]])).tolist()
    [[0.0, 0.5]]
    """

    alpha: Parameter
    gain: Array | None

    @front_door
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

    def places(self, k: int) -> Places:
        return Places(inside=True, after=True, scale=at_layer(self.alpha, jnp.asarray(k), jnp.asarray(float(k))))


class SqrtScaling(AbstractLayerNorm):
    r"""Square-root scaling: Post-LN that slows down, $\dot θ = P_θ a / \sqrt{t+1}$, $\dot r = 0$  [rigollet2025, section 6.2].

    Its layer is $x \mapsto LN(x + \text{step}\cdot a/\sqrt{t+1})$.

    **Arguments**

    - `gain`: as for `PostLN`, without √d in it: given, attention reads √d g ⊙ θ.

    **Raises** `InputError` where the gain is not finite, or neither a number nor a vector.

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

    @front_door
    def __init__(self, gain: Vector = None):
        self.gain = gain_parameter(gain)

    def drive(self, t: Float[Array, ""], a: Float[Array, "m d"]) -> Float[Array, "m d"]:
        return a / jnp.sqrt(t + 1)

    def on_sphere(self, t: Any) -> bool:
        return True

    def collapse(self, t: Float[Array, "*times"], pull: Float[Array, ""]) -> Float[Array, "*times"]:
        """2√t: the size of ∫ dt/√(t+1) at late times."""
        return 2 * pull * jnp.sqrt(t)

    def places(self, k: int) -> Places:
        return Places(after=True, scale=(k + 1) ** -0.5)
