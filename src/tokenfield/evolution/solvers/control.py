"""Step controls: one that sees tokens, not coordinates, and one that never takes a step back."""

from collections.abc import Callable
from typing import Any

import diffrax as dfx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from tokenfield._norms import sizes
from tokenfield._types import Memory, Rows, Time


def tokens_norm(sizes: Float[Array, " n"]) -> Float[Array, ""]:
    """The worst token decides, so that a lonely one is as accurate as the crowd."""
    return jnp.max(sizes)


class PerToken(dfx.AbstractAdaptiveStepSizeController):
    """Diffrax's PID control of the error |e_i| ≤ atol + rtol·|x_i| of every token i.

    Errors and sizes are Euclidean norms of tokens, so that steps do not depend on the choice of axes, and a step that
    no longer advances the time is reported instead of repeated.
    """

    rtol: Any
    atol: Any
    norm: Callable = tokens_norm
    size: Callable[[Rows], Any] = sizes
    """What errors are compared with, of every token: its length."""

    @property
    def pid(self) -> dfx.PIDController:
        return dfx.PIDController(rtol=self.rtol, atol=self.atol, norm=self.norm)

    def wrap(self, direction):
        return self

    def init(self, terms, t0, t1, y0, dt0, args, func, error_order):
        if dt0 is None:  # a hundredth of the time in which the fastest token would move by its own size
            speed, size = (lax.stop_gradient(jnp.max(sizes(part))) for part in (func(terms, t0, y0, args), y0))
            moving = speed > 0
            dt0 = jnp.where(moving, jnp.minimum(t1 - t0, 0.01 * size / jnp.where(moving, speed, 1.0)), t1 - t0)
            dt0 = jnp.where(moving & (size == 0), 1e-3 * (t1 - t0), dt0)
            dt0 = jnp.where(jnp.isfinite(speed), dt0, 0.0)  # a field out of range at the start: nothing can be done
        return self.pid.init(terms, t0, t1, sizes(y0), dt0, args, func, error_order)

    def adapt_step_size(
        self,
        t0: Time,
        t1: Time,
        y0: Rows,
        y1_candidate: Rows,
        args: Memory,
        y_error: Rows,
        error_order: Any,
        controller_state: Any,
    ) -> Any:
        usable = jnp.all(jnp.isfinite(y1_candidate), axis=-1) & jnp.all(jnp.isfinite(y_error), axis=-1)
        error = jnp.where(usable, sizes(y_error), jnp.inf)
        before = self.size(y0)
        after = jnp.where(usable, self.size(y1_candidate), before)
        keep, next_t0, next_t1, jump, state, result = self.pid.adapt_step_size(
            t0, t1, before, after, args, error, error_order, controller_state
        )
        least = 4 * jnp.finfo(jnp.result_type(next_t0)).eps * jnp.abs(next_t0)
        stuck = next_t1 - next_t0 <= least  # also after a step that was kept: time would no longer pass
        result = dfx.RESULTS.where(stuck, dfx.RESULTS.dt_min_reached, result)
        return keep, next_t0, next_t1, jump, state, result


def control_with_jumps(rtol: Array, atol: Array, jumps: list[Array]) -> dfx.AbstractStepSizeController:
    """Step control that lands on the times at which the flow changes abruptly, and starts afresh after them."""
    control = PerToken(rtol, atol)
    if not jumps:
        return control
    return dfx.ClipStepSizeController(control, jump_ts=jnp.sort(jnp.concatenate([jnp.atleast_1d(j) for j in jumps])))


class Pace(dfx.AbstractStepSizeController):
    """Steps of a noisy run: of a given length, or such that the drift's local error stays near `rtol`. Steps are never
    taken back, so that noise and step size stay independent, and they end on the save times and where the flow jumps.

    Other steps that adapt end on multiples of a power of two, a sixteenth to an eighth of their length. A Brownian path is rough:
    if the ends of steps took over the round-off of states, the path would give it back to states a hundred times as large, step
    by step. (And at such times the path costs less.)"""

    rtol: Any
    step: Any
    longest: Any
    ts: Float[Array, " T"]
    """The times at which steps end."""
    t1: Time

    def wrap(self, direction: Any) -> "Pace":
        return self

    def init(
        self, terms: Any, t0: Time, t1: Time, y0: Rows, dt0: Time, args: Memory, func: Any, error_order: Any
    ) -> Any:
        if self.step is not None:
            return self._end(t0, self.step), self.step
        speed, size = jnp.max(sizes(func(terms, t0, y0, args))), jnp.max(sizes(y0))
        h = jnp.minimum(0.01 * jnp.maximum(size, 1e-3) / jnp.maximum(speed, 1e-300), 0.01 * (t1 - t0))
        h = jnp.minimum(h, self.longest)
        return self._end(t0, h), h

    def _end(self, t: Time, h: Time) -> Any:
        """The end of a step from t: never beyond the next of `ts` or the end, and no sliver before it."""
        target = jnp.minimum(jnp.min(jnp.where(self.ts > t, self.ts, jnp.inf)), self.t1)
        grain = jnp.ldexp(jnp.ones_like(t), jnp.frexp(h)[1] - 4)
        end = t + h if self.step is not None else jnp.floor((t + h) / grain) * grain
        return jnp.where(t + 1.001 * h >= target, target, end)

    def adapt_step_size(
        self,
        t0: Time,
        t1: Time,
        y0: Rows,
        y1_candidate: Rows,
        args: Memory,
        y_error: Rows,
        error_order: Any,
        controller_state: Any,
    ) -> Any:
        usable = jnp.all(jnp.isfinite(y1_candidate))
        h = self.step if self.step is not None else self._next(t1 - t0, y0, y_error, controller_state)
        result = dfx.RESULTS.where(usable, dfx.RESULTS.successful, dfx.RESULTS.dt_min_reached)
        return usable, t1, self._end(t1, h), jnp.asarray(False), h, result

    def _next(self, taken: Time, y0: Rows, error: Rows, h: Time) -> Array:
        """From the drift's local error, of order h²; a step cut short says little about longer ones."""
        worst = jnp.max(sizes(error) / (1e-3 + sizes(y0)))
        best = 0.9 * taken * jnp.sqrt(self.rtol / jnp.maximum(worst, 1e-300))
        return jnp.minimum(jnp.clip(best, 0.2 * h, 2.0 * h), self.longest)
