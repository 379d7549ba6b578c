"""What a normalization is: how the field moves a token."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from tokenfield import _checks as check
from tokenfield._norms import inner_products, sizes, unit
from tokenfield._types import AnyArray
from tokenfield.attention.base import AbstractAttention, Points
from tokenfield.attention.reductions import on_equiangular
from tokenfield.errors import InputError
from tokenfield.measures import Equiangular, Gaussian, Tokens
from tokenfield.parameters import shown

Block = Callable[[Float[Array, "m d"], Float[Array, "m d"]], Float[Array, "m d"]]
"""What stands around attention: the field a and the points where it was read, to the field that moves tokens."""


ROUNDING = 1e-3
"""A change in this first part of a layer is one at its beginning: a layer's time k·step is rounded."""


class Gamma(eqx.Module):
    """The field Γ with everything that makes it: an attention, a summation, and a block around it.

    **Arguments**

    - `attention`: what makes the field.
    - `summation`: how its sums over tokens are computed.
    - `block`: what stands around attention: from the field, and the points where it was read, to the field that moves tokens.
    """

    attention: AbstractAttention
    summation: Any
    block: Block

    def __call__(self, mu: Tokens, x: Points) -> Float[Array, "m d"]:
        """The field of μ at the points x, or (None) at the tokens."""
        return self.block(self.attention.field(mu, x, self.summation), mu.x if x is None else x)


class Places(NamedTuple):
    """Where a Transformer's block with this scheme has its norms: x ↦ after(x + scale · inside(f(before(x)))), for each of its
    sublayers f."""

    before: bool = False
    inside: bool = False
    after: bool = False
    scale: Any = None


class AbstractNormalization(eqx.Module):
    """A normalization scheme: what attention reads, how a token answers the field, and the layer that it is the limit of.

    A kind fills in `reads`, `velocity`, `layer` and `settle`; what else it can do, it declares. Schemes on directions subclass
    `AbstractLayerNorm`, which needs less.
    """

    def __repr__(self) -> str:
        return shown(self)

    @property
    def confines(self) -> bool:
        """Whether tokens live on the unit sphere, from the start and for ever."""
        return False

    @property
    def reads_directions(self) -> bool:
        """Whether attention sees unit vectors, whatever tokens are."""
        return False

    @property
    def isotropic(self) -> bool:
        """Whether the scheme commutes with rotations."""
        return True

    @property
    def timeless(self) -> bool:
        """Whether the scheme is the same at all times."""
        return True

    @property
    def tangential(self) -> bool:
        """Whether tokens feel only the tangential part of the field, in proportion to it."""
        return False

    @property
    def keeps_together(self) -> bool:
        """Whether tokens that have met stay together, so that they may become one."""
        return self.confines

    @property
    def takes_noise(self) -> bool:
        """Whether √(2/κ) dW means the same in this scheme's coordinates as in the tokens'."""
        return True

    def speed(self, t: Float[Array, ""], dtype: Any) -> Float[Array, ""]:
        """The factor in θ̇ = speed · P_θ Γ(θ) of a scheme that is `tangential`."""
        raise InputError(f"{type(self).__name__} normalization is not in proportion to the tangential field.")

    def on_sphere(self, t: Any) -> Bool[AnyArray, ""] | bool:
        """Whether a layer at time t ends with LayerNorm."""
        return False

    def scores(self, attention: AbstractAttention, d: int) -> list[tuple[np.ndarray, np.ndarray]] | None:
        """What fast sums may rely on at all times: the attention's own scores, unless coordinates change them."""
        return attention.scores(d)

    @abc.abstractmethod
    def reads(self, mu: Tokens) -> Tokens:
        """The measure that attention sees.

        **Arguments**

        - `mu`: the tokens.

        **Returns** tokens with the same weights and positions.
        """

    def attends(self, t: Float[Array, ""], attention: AbstractAttention) -> AbstractAttention:
        """The attention between tokens as they stand at time t, which is another one where coordinates move."""
        return attention

    @abc.abstractmethod
    def velocity(self, t: Float[Array, ""], mu: Tokens, x: Points, gamma: Gamma) -> Float[Array, "m d"]:
        """The velocity ẋ of the flow that μ generates.

        **Arguments**

        - `t`: the time.
        - `mu`: the tokens.
        - `x`: points, shape (m, d); None for the tokens themselves.
        - `gamma`: the field, to be called with what attention reads.

        **Returns** the velocities at the points.
        """

    @abc.abstractmethod
    def layer(self, t: Float[Array, ""], step: Float[Array, ""], mu: Tokens, gamma: Gamma) -> Tokens:
        """One layer of the discrete Transformer.

        **Arguments**

        - `t`: the time at which the layer begins.
        - `step`: its length.
        - `mu`: the tokens before it.
        - `gamma`: the field, to be called with what attention reads.

        **Returns** the tokens after it.
        """

    @abc.abstractmethod
    def settle(self, mu: Any) -> Any:
        """The nearest state that the scheme allows: how a run starts, and what it returns.

        **Arguments**

        - `mu`: the measure.

        **Returns** a measure of the same kind.

        **Raises** `InputError` where there is none.
        """

    def begin(self, t: Any, mu: Any) -> Any:
        """The state from which a run that starts at time t goes on, where a layer would lead at once: a settled one as it is.

        **Arguments**

        - `t`: the time of the start.
        - `mu`: tokens, as `settle` returns them.

        **Returns** tokens.
        """
        return mu

    # The same scheme on other measures.

    def gaussian(
        self, t: Float[Array, ""], mean: Float[Array, " d"], L: Float[Array, "d k"], attention: AbstractAttention
    ) -> tuple[Float[Array, " d"], Float[Array, "d k"]]:
        """(ṁ, L̇) of N(m, LLᵀ): the affine velocity at the mean, and its slope times L. Refused where there is none."""
        raise self.no_gaussians()

    @property
    def keeps_gaussians(self) -> bool:
        """Whether Gaussians stay Gaussian under the scheme."""
        return False

    def no_gaussians(self) -> InputError:
        """What is said where they do not."""
        return InputError(
            f"{type(self).__name__} normalization does not keep Gaussians Gaussian: it acts on directions. Free, Rescaled "
            "and TraceNorm do; for this one, move tokens: Tokens.gaussian(n, d, mean, cov)."
        )

    def equiangular(
        self, t: Float[Array, ""], mu: Equiangular, attention: AbstractAttention
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """(u̇, ṙ) of equiangular tokens, u = log[(1 + (n-1)ρ)/(1 - ρ)] their alignment."""
        raise InputError(
            f"{type(self).__name__} normalization has no equation for equiangular tokens; move actual tokens instead."
        )

    def gaussian_layer(
        self, t: Float[Array, ""], step: Float[Array, ""], mu: Gaussian, attention: AbstractAttention
    ) -> Gaussian:
        """The layer of tokens, which is affine, on a Gaussian: m ↦ m + step·ṁ and L ↦ L + step·L̇, unless a kind says otherwise."""
        L = mu.factor
        mean, slope = self.gaussian(t, mu.mean, L, attention)
        return moved(mu, L, step * mean, step * slope)

    def equiangular_layer(
        self, t: Float[Array, ""], step: Float[Array, ""], mu: Equiangular, attention: AbstractAttention
    ) -> Equiangular:
        """The layer of tokens, on equiangular ones."""
        raise InputError(
            f"{type(self).__name__} normalization has no layers of equiangular tokens; move actual tokens instead."
        )

    def jumps(self) -> list[Array]:
        """Times at which the scheme changes abruptly."""
        return []

    def places(self, k: int) -> Places:
        """Where block k of a Transformer has its norms.

        **Arguments**

        - `k`: the number of the block, from 0.

        **Returns** the places.

        **Raises** `InputError` where the scheme is none of a Transformer's.
        """
        raise InputError(
            f"{type(self).__name__} is no scheme of a Transformer's blocks. Free, PostLN, PreLN, PeriLN, MixLN, NGPT and "
            "SqrtScaling are."
        )

    def check(self, attention: AbstractAttention, d: int, block: str | None) -> None:
        """Refuse combinations that make no sense, saying why. `block` says how an MLP enters, if one does."""


class AbstractLayerNorm(AbstractNormalization):
    r"""A normalization scheme on directions. A scheme says two things: what is added to the residual stream, `drive` u(a), where
    a = Γ(θ) is the field on the directions θ = x/|x|; and whether a layer ends with LayerNorm, `on_sphere`.

    Its layer is x ↦ x + step·u, put back on the sphere where LayerNorm follows. Its limit, with x = rθ: on the sphere
    $\dot θ = P_θ u$, ṙ = 0; without LayerNorm at the end $\dot x = u$, which is $\dot θ = P_θ u / r$, $\dot r = ⟨θ, u⟩$
    [rigollet2025, section 6.2].

    On the sphere the tangent velocity is multiplied by r: the equation of θ is then exact whatever |x| has drifted to, and
    the radial direction is neutral. (Projecting with an unnormalized x would add a stiff radial mode that caps the step
    near 3/rate for ever.) A `gain` g makes attention read LN(x) = g ⊙ θ √d instead of θ.
    """

    gain: eqx.AbstractVar[Array | None]

    @abc.abstractmethod
    def drive(self, t: Float[Array, ""], a: Float[Array, "m d"]) -> Float[Array, "m d"]:
        """What a layer adds to the residual stream, u(a).

        **Arguments**

        - `t`: the time.
        - `a`: the field on the directions, one row per token.

        **Returns** u, one row per token.
        """

    @property
    def confines(self) -> bool:
        return self.on_sphere(0.0) is True

    @property
    def reads_directions(self) -> bool:
        return self.gain is None

    @property
    def isotropic(self) -> bool:
        return self.gain is None or self.gain.ndim == 0

    def reads(self, mu: Tokens) -> Tokens:
        return mu.with_points(self._ln(mu.directions))

    def _ln(self, θ: Float[Array, "*batch n d"]) -> Float[Array, "*batch n d"]:
        return θ if self.gain is None else self.gain * θ * θ.shape[-1] ** 0.5

    def velocity(self, t: Float[Array, ""], mu: Tokens, x: Points, gamma: Gamma) -> Float[Array, "m d"]:
        points = mu.x if x is None else x
        r, θ = sizes(points)[:, None], unit(points)
        u = self.drive(t, gamma(self.reads(mu), None if x is None else self._ln(θ)))
        tangent = r * (u - inner_products(θ, u) * θ)
        return jnp.where(self.on_sphere(t), tangent, u)

    def layer(self, t: Float[Array, ""], step: Float[Array, ""], mu: Tokens, gamma: Gamma) -> Tokens:
        x = mu.x + step * self.drive(t, gamma(self.reads(mu), None))
        return mu.with_points(jnp.where(self.on_sphere(t + ROUNDING * step), unit(x), x))

    def settle(self, mu: Any) -> Any:
        mu.refuse_zero_vectors()
        return mu.on_sphere_where(self.on_sphere(np.inf))

    def begin(self, t: Any, mu: Any) -> Any:
        """The first layer brings tokens to the sphere, if LayerNorm follows it, however short it is."""
        return mu.on_sphere_where(self.on_sphere(t))

    def equiangular(
        self, t: Float[Array, ""], mu: Equiangular, attention: AbstractAttention
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        r"""With a_i = pθ_i + qΣ_{j≠i}θ_j and a drive φa: $\dot ρ = 2φq(1-ρ)(1+(n-1)ρ)/r$, which is $\dot u = 2nφq/r$, and
        $\dot r = φ⟨θ, a⟩$; on the sphere the same with r = 1 and ṙ = 0  [rigollet2025, section 6.2]."""
        p, q = self._pull(t, mu, attention)
        on = self.on_sphere(t)
        return 2 * mu.n * q / jnp.where(on, 1.0, mu.r), jnp.where(on, 0.0, p + (mu.n - 1) * q * mu.rho)

    def equiangular_layer(
        self, t: Float[Array, ""], step: Float[Array, ""], mu: Equiangular, attention: AbstractAttention
    ) -> Equiangular:
        p, q = self._pull(t, mu, attention)
        after = mu.mixed(mu.r + step * p, step * q)
        r = jnp.where(self.on_sphere(t + ROUNDING * step), jnp.ones_like(after.r), after.r)
        return eqx.tree_at(lambda nu: nu.r, after, r)

    def _pull(
        self, t: Float[Array, ""], mu: Equiangular, attention: AbstractAttention
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """(p, q) of the drive pθ_i + qΣ_{j≠i}θ_j."""
        if self.gain is not None:
            raise InputError("A gain turns equiangular tokens; leave it out, or move actual tokens.")
        p, q = on_equiangular(attention).equiangular(eqx.tree_at(lambda nu: nu.r, mu, jnp.ones_like(mu.r)))
        φ = self._answer(t, jnp.sqrt(p**2 + (mu.n - 1) * q * (2 * p * mu.rho + q * (1 + (mu.n - 2) * mu.rho))))
        return φ * p, φ * q

    def collapse(self, t: Float[Array, "*times"], pull: Float[Array, ""]) -> Float[Array, "*times"]:
        """∫ |u| dt from 0 to t on the sphere near the collapse, where the field has this size: the pull, all the time."""
        return pull * t

    def speed(self, t: Float[Array, ""], dtype: Any) -> Float[Array, ""]:
        return self.drive(t, jnp.ones((1, 1), dtype))[0, 0]

    def _answer(self, t: Float[Array, ""], size: Float[Array, ""]) -> Float[Array, ""]:
        """φ with u(a) = φa for a field of size |a|: the drive stretches, it does not turn. (No field, or one beyond floats, has
        no quotient; there φ is that of a field of size 1.)"""
        safe = jnp.where((size > 0) & jnp.isfinite(size), size, 1.0)
        return self.drive(t, jnp.stack([safe, jnp.zeros_like(safe)])[None])[0, 0] / safe

    def check(self, attention: AbstractAttention, d: int, block: str | None) -> None:
        if self.gain is not None and self.gain.shape not in ((), (d,)):
            raise InputError(f"Argument `gain` must have shape (d,) = ({d},), but has shape {self.gain.shape}.")


def moved(mu: Gaussian, L: Float[Array, "d k"], mean: Float[Array, " d"], slope: Float[Array, "d k"]) -> Gaussian:
    """The Gaussian N(m, LLᵀ) after its mean and its square root have moved by so much."""
    root = L + slope
    return mu.with_moments(mu.mean + mean, root @ root.T)


def gain_parameter(gain: Any) -> Array | None:
    """LayerNorm's gain, checked: one number, or one per coordinate; None for none."""
    if gain is None:
        return None
    array = check.finite("gain", check.real_array("gain", gain, like="LayerNorm's gain, one entry per coordinate"))
    if array.ndim > 1:
        raise InputError(
            f"Argument `gain` must have one entry per coordinate, shape (d,), but has shape {array.shape}."
        )
    return array
