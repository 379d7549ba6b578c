"""How fast something falls or grows along a run."""

from typing import Any, NamedTuple

import numpy as np

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._types import Numbers, no_type_check
from tokenfield.errors import InputError, suggest
from tokenfield.trajectory import Trajectory

LAWS = ("exponential", "power", "stretched")


class Rate(NamedTuple):
    """A law that was fitted, with the standard errors of its numbers.

    - `law`: "exponential" $C e^{-rt}$, "power" $C t^{-r}$, or "stretched" $C e^{-(rt)^p}$.
    - `rate`, `error`: r and its standard error.
    - `constant`: C.
    - `exponent`, `exponent_error`: p of the stretched law; 1 and 0 for others.
    - `residual`: the root mean square of what is left of the logarithm.
    """

    law: str
    rate: float
    error: float
    constant: float
    exponent: float
    exponent_error: float
    residual: float

    def __repr__(self) -> str:
        power = f", p = {self.exponent:.4g} ± {self.exponent_error:.1g}" if self.law == "stretched" else ""
        return f"{self.law}: r = {self.rate:.6g} ± {self.error:.1g}{power}, residual {self.residual:.1g}"


@front_door
@no_type_check
def fit_rate(
    thing: Trajectory | Numbers,
    values: Any = None,
    law: str = "exponential",
    *,
    window: tuple[float, float] | None = None,
) -> Rate:
    r"""The rate at which positive values fall (or grow, then it is negative) with time: a least-squares fit of their logarithm.

    **Arguments**

    - `thing`: a run, or an array of times.
    - `values`: one positive number per time; a function of the run's states such as `tkf.observe.mean_overlap`, or for instance
      `lambda run: 1 - tkf.observe.mean_overlap(run)`.
    - `law`: "exponential" for $C e^{-rt}$, "power" for $C t^{-r}$, "stretched" for $C e^{-(rt)^p}$.
    - `window`: the times (from, to) that count; all when left out. Transients at the beginning, and round-off where values have
      reached it, do not belong to a law.

    **Returns** a `Rate`: r and its standard error, C, p, and what the law leaves unexplained.

    **Raises** `InputError` where values are not positive, fewer than four times are left, or the law is unknown.

    >>> t = np.linspace(0, 5, 50)
    >>> fit_rate(t, 3 * np.exp(-2 * t))
    exponential: r = 2 ± ..., residual ...
    >>> round(fit_rate(t + 1, (t + 1) ** -0.5, "power").rate, 9)
    0.5
    """
    times, y = _series(thing, values)
    if law not in LAWS:
        raise InputError(f"Unknown law {law!r}. {suggest(law, LAWS)}")
    if window is not None:
        low, high = (check.number("window", end) for end in _pair(window))
        inside = (times >= low) & (times <= high)
        times, y = times[inside], y[inside]
    if law != "exponential":
        times, y = times[times > 0], y[times > 0]  # where a power of t has a logarithm
    if len(times) < 4 or np.ptp(times) == 0:
        raise InputError(
            f"A law is fitted to four times or more, but {len(times)} are left. Save more states, or widen `window`."
        )
    if not np.all(y > 0):
        raise InputError(
            f"Rates are those of positive values, but one is {y.min():g}. Fit 1 - overlap, say, or narrow `window`."
        )
    return _stretched(times, np.log(y)) if law == "stretched" else _straight(law, times, np.log(y))


def _series(thing: Any, values: Any) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(thing, Trajectory):
        thing.refuse_batches("fitted")
        times = np.asarray(thing.times, float)
    else:
        times = np.asarray(check.finite("times", check.real_array("times", thing)), float)
    if values is None:
        raise InputError("fit_rate(run, values) needs values along the run, e.g. 1 - tkf.observe.mean_overlap(run).")
    if callable(values) and not isinstance(thing, Trajectory):
        raise InputError("Argument `values` may be a function of a run, but these are times: give one value per time.")
    y = values(thing) if callable(values) else values
    y = np.asarray(check.finite("values", check.real_array("values", y)), float)
    if times.ndim != 1 or y.shape != times.shape:
        raise InputError(f"There must be one value per time, shape {times.shape}, but values have shape {y.shape}.")
    return times, y


def _pair(window: Any) -> tuple[Any, Any]:
    if not isinstance(window, tuple | list) or len(window) != 2:
        raise InputError(f"Argument `window` must be a pair of times (from, to), but is {check.brief(window)}.")
    return window[0], window[1]


def _straight(law: str, times: np.ndarray, logs: np.ndarray) -> Rate:
    """log y = log C - r x, with x = t or log t."""
    x = times if law == "exponential" else np.log(times)
    middle = x - x.mean()
    slope = float(middle @ logs / (middle @ middle))
    start = float(logs.mean() - slope * x.mean())
    left = logs - start - slope * x
    error = np.sqrt(left @ left / (len(x) - 2) / (middle @ middle))
    return Rate(law, -slope, float(error), float(np.exp(start)), 1.0, 0.0, float(np.sqrt(np.mean(left**2))))


def _stretched(times: np.ndarray, logs: np.ndarray) -> Rate:
    """log y = log C - (r t)^p, by Gauss and Newton from the exponential fit."""
    from scipy.optimize import least_squares

    first = _straight("exponential", times, logs)
    if not first.rate > 0:
        raise InputError("A stretched exponential falls, but these values grow. Use law='exponential'.")
    model = lambda a: a[0] - np.exp(np.exp(a[2]) * (a[1] + np.log(times))) - logs  # log C, log r, log p
    found = least_squares(model, [np.log(first.constant), np.log(first.rate), 0.0], xtol=1e-14, ftol=1e-14, gtol=1e-14)
    left = found.fun
    spread = np.linalg.pinv(found.jac.T @ found.jac) * (left @ left) / max(len(times) - 3, 1)
    (_, r, p), errors = np.exp(found.x), np.sqrt(np.maximum(np.diag(spread), 0.0))
    residual = float(np.sqrt(np.mean(left**2)))
    return Rate(
        "stretched", float(r), float(r * errors[1]), float(np.exp(found.x[0])), float(p), float(p * errors[2]), residual
    )
