"""Noisy tokens: dX_i = v_μ(X_i) dt + √(2/κ) dW_i, on the sphere or in R^d  [rigollet2025, section 7]."""

import math
from typing import Any, ClassVar

import diffrax as dfx
import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from tokenfield import _checks as check
from tokenfield._norms import sizes, unit
from tokenfield.errors import InputError
from tokenfield.evolution.motion import State
from tokenfield.evolution.particles import Particles
from tokenfield.flow import Flow
from tokenfield.measures import Tokens
from tokenfield.normalization import Rescaled, TraceNorm
from tokenfield.summation import AbstractSummation

LARGEST_TURN = 0.2
"""A step's Brownian motion on the sphere turns a token by an angle of variance at most twice this."""


class NoisyParticles(Particles):
    """The particle equation with independent Brownian motions."""

    flow: Flow
    start: Tokens
    summation: AbstractSummation
    basis: Float[Array, "r d"] | None
    key: Any
    solver: ClassVar[str] = "splitting"
    rtol: ClassVar[float] = 1e-3

    @staticmethod
    def begin(flow: Flow, start: Tokens, summation: AbstractSummation, seed: Any) -> "NoisyParticles":
        if isinstance(flow.normalization, Rescaled | TraceNorm):
            raise InputError(
                f"Noise with {type(flow.normalization).__name__} normalization has no agreed meaning: it would be scaled as "
                "tokens are. Use Free() or a scheme on directions, such as PostLN()."
            )
        if not check.traced(seed):
            seed = check.whole("seed", seed, 0, "the seed of the noise")
        return NoisyParticles(flow, start, summation, None, jax.random.key(seed))

    def method(self, solver: Any, rtol: Array, atol: Array, step: Any, ts: Array) -> tuple[Any, Any]:
        if solver not in (None, "splitting"):
            raise InputError(f"Noisy tokens are moved by the solver 'splitting', but got {solver!r}. Leave it out.")
        if step is not None and not check.traced(step):
            step = check.number("step", step, positive=True)
        step = None if step is None else jnp.asarray(step, ts.dtype)
        return Splitting(self.flow), Pace(rtol, step, self.longest_step, ts)

    @property
    def term(self) -> dfx.MultiTerm:
        noise = dfx.ControlTerm(lambda t, y, args: jnp.ones(()), Increments(self.key, self.start.x.shape))
        return dfx.MultiTerm(dfx.ODETerm(self.rate), noise)

    @property
    def longest_step(self) -> Float[Array, ""]:
        """Steps over which Brownian motion stays local; in R^d, where its law is exact, any."""
        assert self.flow.kappa is not None
        on_sphere = getattr(self.flow.normalization, "on_sphere", lambda t: False)(0.0)
        return jnp.where(on_sphere, LARGEST_TURN * self.flow.kappa / max(self.start.d - 1, 1), jnp.inf)


class Increments(dfx.AbstractPath):
    """Brownian increments over steps that do not overlap: a normal variable a step, made from the seed and the step's ends.

    (Diffrax's VirtualBrownianTree can be asked for any interval, twice, and costs tens of times as much. Steps that are
    never taken back need no more than this.)
    """

    key: Any
    shape: tuple[int, ...] = eqx.field(static=True)
    t0: Any = -math.inf
    t1: Any = math.inf

    def evaluate(self, t0: Any, t1: Any = None, left: bool = True) -> Array:
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

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> None:
        return None

    def func(self, terms: Any, t0: Any, y0: Any, args: Any) -> Any:
        return terms.terms[0].vf(t0, y0, args)

    def step(
        self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: Any, made_jump: Any
    ) -> tuple[Any, Any, Any, Any, Any]:
        drift, noise = terms.terms
        middle, h = t0 + 0.5 * (t1 - t0), t1 - t0
        y = self._wander(t0, y0, noise.contr(t0, middle), 0.5 * h)
        k1 = drift.vf(t0, y, args)
        k2 = drift.vf(t1, y + h * k1, args)
        y = self._settled(t0, y + 0.5 * h * (k1 + k2))
        y1 = self._wander(t1, y, noise.contr(middle, t1), 0.5 * h)
        return y1, 0.5 * h * (k2 - k1), {"y0": y0, "y1": y1}, None, dfx.RESULTS.successful

    def _on_sphere(self, t: Any) -> Any:
        return getattr(self.flow.normalization, "on_sphere", lambda t: False)(t)

    def _settled(self, t: Any, y: State) -> State:
        d = self._width(y)
        return jnp.where(self._on_sphere(t), y.at[:, :d].set(unit(y[:, :d])), y)

    def _width(self, y: State) -> int:
        """Coordinates of a token; a last one is the logarithm of its weight, where weights evolve."""
        return y.shape[1] - (self.flow.reweighting is not None)

    def _wander(self, t: Any, y: State, increment: Float[Array, "n d"], h: Any) -> State:
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


class Pace(dfx.AbstractStepSizeController):
    """Steps of a noisy run: of a given length, or such that the drift's local error stays near `rtol`. Steps are never
    taken back, so that noise and step size stay independent, and they end on the save times."""

    rtol: Any
    step: Any
    longest: Any
    ts: Float[Array, " T"]

    def wrap(self, direction: Any) -> "Pace":
        return self

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, dt0: Any, args: Any, func: Any, error_order: Any) -> Any:
        if self.step is not None:
            return self._end(t0, self.step), self.step
        speed, size = jnp.max(sizes(func(terms, t0, y0, args))), jnp.max(sizes(y0))
        h = jnp.minimum(0.01 * jnp.maximum(size, 1e-3) / jnp.maximum(speed, 1e-300), 0.01 * (t1 - t0))
        h = jnp.minimum(h, self.longest)
        return self._end(t0, h), h

    def _end(self, t: Any, h: Any) -> Any:
        """The end of a step from t: never beyond the next save time, and no sliver before it."""
        later = jnp.where(self.ts > t, self.ts, jnp.inf)
        target = jnp.min(later)
        return jnp.where(t + 1.001 * h >= target, target, t + h)

    def adapt_step_size(
        self,
        t0: Any,
        t1: Any,
        y0: Any,
        y1_candidate: Any,
        args: Any,
        y_error: Any,
        error_order: Any,
        controller_state: Any,
    ) -> Any:
        usable = jnp.all(jnp.isfinite(y1_candidate))
        h = self.step if self.step is not None else self._next(t1 - t0, y0, y_error, controller_state)
        result = dfx.RESULTS.where(usable, dfx.RESULTS.successful, dfx.RESULTS.dt_min_reached)
        return usable, t1, self._end(t1, h), jnp.asarray(False), h, result

    def _next(self, taken: Any, y0: Any, error: Any, h: Any) -> Array:
        """From the drift's local error, of order h²; a step cut short by a save time says little about longer ones."""
        worst = jnp.max(sizes(error) / (1e-3 + sizes(y0)))
        best = 0.9 * taken * jnp.sqrt(self.rtol / jnp.maximum(worst, 1e-300))
        return jnp.minimum(jnp.clip(best, 0.2 * h, 2.0 * h), self.longest)
