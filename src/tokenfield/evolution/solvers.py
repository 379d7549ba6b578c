"""Solvers by name, and a step-size control that sees tokens, not coordinates."""

from collections.abc import Callable
from typing import Any

import diffrax as dfx
import jax.numpy as jnp
import optimistix as optx
from jax import lax
from jaxtyping import Array, Float

from tokenfield._norms import sizes
from tokenfield.errors import InputError, suggest

LARGEST_JACOBIAN = 8000
"""Unknowns (n·d) up to which an implicit solver's dense Jacobian is sensible: (8000)² doubles are half a gigabyte."""


def tokens_norm(sizes: Float[Array, " n"]) -> Float[Array, ""]:
    """The worst token decides, so that a lonely one is as accurate as the crowd."""
    return jnp.max(sizes)


# Kvaerno5 with a full chord iteration: Diffrax's default, which gives up early, rejects half of its steps here.
SOLVERS: dict[str, Callable[[Any, Any], dfx.AbstractSolver]] = {
    "tsit5": lambda rtol, atol: dfx.Tsit5(),
    "dopri5": lambda rtol, atol: dfx.Dopri5(),
    "dopri8": lambda rtol, atol: dfx.Dopri8(),
    "kvaerno5": lambda rtol, atol: dfx.Kvaerno5(root_finder=optx.Chord(rtol=rtol / 10, atol=rtol / 10)),
}


def solver_named(name: Any, rtol: Array, atol: Array, unknowns: int) -> dfx.AbstractSolver:
    """A solver by its name in `SOLVERS`, or any Diffrax solver with an error estimate."""
    if isinstance(name, str) and name.lower() in SOLVERS:
        solver = SOLVERS[name.lower()](rtol, atol)
    elif isinstance(name, dfx.AbstractAdaptiveSolver):
        solver = name
    else:
        raise InputError(f"Unknown solver {name!r}. {suggest(name, SOLVERS)} Any adaptive Diffrax solver works too.")
    if isinstance(solver, dfx.AbstractImplicitSolver) and unknowns > LARGEST_JACOBIAN:
        raise InputError(
            f"The implicit solver {solver_name(solver)} needs a dense Jacobian of n·d = {unknowns} unknowns, too large "
            f"beyond {LARGEST_JACOBIAN}. Use solver='tsit5': Post-LN flows have no stiff radial mode here."
        )
    return solver


def solver_name(solver: dfx.AbstractSolver) -> str:
    return type(solver).__name__.lower()


class PerToken(dfx.AbstractAdaptiveStepSizeController):
    """Diffrax's PID control of the error |e_i| ≤ atol + rtol·|x_i| of every token i.

    Errors and sizes are Euclidean norms of tokens, so that steps do not depend on the choice of axes, and a step that
    no longer advances the time is reported instead of repeated.
    """

    rtol: Any
    atol: Any
    norm: Callable = tokens_norm

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
        t0: Any,
        t1: Any,
        y0: Any,
        y1_candidate: Any,
        args: Any,
        y_error: Any,
        error_order: Any,
        controller_state: Any,
    ) -> Any:
        usable = jnp.all(jnp.isfinite(y1_candidate), axis=-1) & jnp.all(jnp.isfinite(y_error), axis=-1)
        error = jnp.where(usable, sizes(y_error), jnp.inf)
        size = jnp.where(usable, sizes(y1_candidate), sizes(y0))
        keep, next_t0, next_t1, jump, state, result = self.pid.adapt_step_size(
            t0, t1, sizes(y0), size, args, error, error_order, controller_state
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
