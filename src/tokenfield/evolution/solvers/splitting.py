"""Strang splitting for tokens with noise: Brownian motion, drift, Brownian motion."""

import math
from typing import Any, ClassVar

import diffrax as dfx
import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from tokenfield._norms import sizes, unit
from tokenfield._types import Memory, Rows, Time
from tokenfield.flow import Flow

State = Float[Array, "rows k"]


class Increments(dfx.AbstractPath):
    """Brownian increments over steps that do not overlap: a normal variable per step, made from the seed and the step's ends.

    (Diffrax's VirtualBrownianTree can be asked for any interval, twice, and costs tens of times as much. Steps that are
    never taken back need no more than this.)
    """

    key: Any
    shape: tuple[int, ...] = eqx.field(static=True)
    t0: Any = -math.inf
    t1: Any = math.inf

    def evaluate(self, t0: Time, t1: Any = None, left: bool = True) -> Array:
        key = self.key
        for t in (t0, t1):
            for word in jnp.ravel(lax.bitcast_convert_type(lax.stop_gradient(t), jnp.uint32)):
                key = jax.random.fold_in(key, word)
        return jnp.sqrt(t1 - t0) * jax.random.normal(key, self.shape, jnp.result_type(t0))


class Splitting(dfx.AbstractStratonovichSolver, dfx.AbstractAdaptiveSolver):
    r"""Strang splitting: half a step of Brownian motion, a step of the drift by Heun's method, half a step of Brownian
    motion. Weak order 2; strong order 1 in R^d, 1/2 on the sphere, where the noise does not commute.

    Brownian motion in R^d is exact. On the sphere a token goes along the geodesic of the tangential increment ξ; with
    $|ξ|^2$ divided by $1 + (d-2)h/3κ$ the mean of every harmonic of degree l after a step is $e^{-l(l+d-2)h/κ} + O(h^3)$,
    and on the circle it is exact. Tokens stay on the sphere to round-off.
    """

    flow: Flow

    term_structure: ClassVar = dfx.MultiTerm[tuple[dfx.ODETerm, dfx.ControlTerm]]
    interpolation_cls: ClassVar = dfx.LocalLinearInterpolation

    def order(self, terms: Any) -> int:
        return 2

    def strong_order(self, terms: Any) -> float:
        return 0.5

    def init(self, terms: Any, t0: Time, t1: Time, y0: Rows, args: Memory) -> None:
        return None

    def func(self, terms: Any, t0: Time, y0: Rows, args: Memory) -> Any:
        return terms.terms[0].vf(t0, y0, args)

    def step(
        self, terms: Any, t0: Time, t1: Time, y0: Rows, args: Memory, solver_state: Any, made_jump: Any
    ) -> tuple[Any, Any, Any, Any, Any]:
        drift, noise = terms.terms
        middle, h = t0 + 0.5 * (t1 - t0), t1 - t0
        y = self._wander(t0, y0, noise.contr(t0, middle), 0.5 * h)
        k1 = drift.vf(t0, y, args)
        k2 = drift.vf(t1, y + h * k1, args)
        y = self._settled(t0, y + 0.5 * h * (k1 + k2))
        y1 = self._wander(t1, y, noise.contr(middle, t1), 0.5 * h)
        return y1, 0.5 * h * (k2 - k1), {"y0": y0, "y1": y1}, None, dfx.RESULTS.successful

    def _on_sphere(self, t: Time) -> Any:
        return self.flow.normalization.on_sphere(t)

    def _settled(self, t: Time, y: State) -> State:
        d = self._width(y)
        return jnp.where(self._on_sphere(t), y.at[:, :d].set(unit(y[:, :d])), y)

    def _width(self, y: State) -> int:
        """Coordinates of a token; a last one is the logarithm of its weight, where weights evolve."""
        return y.shape[1] - (self.flow.reweighting is not None)

    def _wander(self, t: Time, y: State, increment: Float[Array, "n d"], h: Time) -> State:
        κ, d = self.flow.kappa, self._width(y)
        assert κ is not None
        x, jump = y[:, :d], jnp.sqrt(2 / κ) * increment
        moved = jnp.where(self._on_sphere(t), _along_geodesic(x, jump / jnp.sqrt(1 + (d - 2) * h / (3 * κ))), x + jump)
        return y.at[:, :d].set(moved)


def _along_geodesic(x: Float[Array, "n d"], jump: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """From x/|x| along the great circle in the direction of the tangential part of the jump, by its length."""
    θ = unit(x)
    ξ = jump - jnp.sum(θ * jump, axis=1, keepdims=True) * θ
    angle = sizes(ξ)[:, None]
    return unit(jnp.cos(angle) * θ + jnp.sinc(angle / jnp.pi) * ξ)
