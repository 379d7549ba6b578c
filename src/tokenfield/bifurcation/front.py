"""The front door: `stationary(flow)`."""

import math
from typing import Any

import numpy as np

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._types import Count, Number, Whole, no_type_check
from tokenfield.bifurcation.continuation import Trace
from tokenfield.bifurcation.coupling import Coupling, coupling
from tokenfield.bifurcation.diagram import Branch, Diagram
from tokenfield.bifurcation.equation import Equation, equation
from tokenfield.bifurcation.linear import bifurcation_kappas, critical_kappa
from tokenfield.bifurcation.measure import Observed, observed, observed_uniform
from tokenfield.bifurcation.search import Found, Search
from tokenfield.errors import InputError
from tokenfield.flow import Flow
from tokenfield.progress import Progress

RESOLVED = 1e-10
"""The last coefficients of every state are at most this, against the largest."""

FINEST = 1024
"""The highest degree that is tried."""


@front_door
@no_type_check
def stationary(
    flow: Flow,
    *,
    d: Count = 2,
    kappa: tuple[Number, Number] | None = None,
    degree: Whole = None,
    progress: bool | None = None,
) -> Diagram:
    r"""The stationary states of a noisy Transformer on S^{d-1} that are axisymmetric (on the circle: even), by branches.

    They are those of $∂_t μ = -\mathrm{div}(μ v_μ) + κ^{-1}Δμ$  [rigollet2025, section 7]; with f = dμ/dσ they solve
    $f = e^{κΦ}/\int e^{κΦ}dσ$, where $Φ(x) = \frac Vβ \int (e^{β⟨x,y⟩} - 1) f dσ$ for USA and
    $Φ(x) = \frac Vβ \log\int e^{β⟨x,y⟩} f dσ$ for SA. Branches that leave the uniform state at κ_l, branches that cross
    those, and what concentrated densities relax to are followed by pseudo-arclength continuation, through folds; of every
    set of states that differ by a rotation or reflection there is one. USA descends
    $F = κ^{-1}\int f \log f - \frac V2 \iint \frac{e^{β⟨x,y⟩}-1}{β} f f$, which decides stability.

    **Arguments**

    - `flow`: `tkf.usa(...)` or `tkf.sa(...)`, matrices multiples of the identity.
    - `d`: the sphere is S^{d-1}; 2 is the circle.
    - `kappa`: a pair (low, high), (κ_c/2, 3κ_c) when left out, widened to contain all folds, the flow's own κ and 1.1κ_c.
      Branches are followed whole below `high`.
    - `degree`: that of the zonal polynomials; when left out, such that every state is resolved to 1e-10.
    - `progress`: a bar on the terminal; None shows one where it takes long, if anyone is watching.

    **Returns** a `Diagram` of all branches that were found.

    **Raises** `InputError` for other flows, where a number is not what it should be, and where states are too concentrated to be
    resolved.

    >>> import tokenfield as tkf
    >>> print(stationary(tkf.usa(3.0), d=2))
    Stationary states of Unnormalized(beta=3) attention on the circle, κ from 0.379 to 2.28
      uniform    stable up to κ_c = 0.758846 (degree 1)
      transition first-order at κ = 0.752188, R = 0.482
      degree 1   from κ = 0.758846, fold at 0.75026; stable from 0.75026
      degree 2   from κ = 1.33618; unstable
    """
    model, d = coupling(flow), check.whole("d", d, 2, "tokens on the sphere in R^d")
    _refuse_cancellation(model)
    onset = critical_kappa(flow, d)
    low, high = _range(model, onset, kappa) if kappa is not None else _default(model, d, onset)
    size = None if degree is None else check.whole("degree", degree, 4, "of the zonal polynomials")
    branches = [] if math.isinf(onset) else _branches(model, d, max(high, 1.1 * onset), size, progress)
    if kappa is None:
        low = min([low, *(0.9 * float(branch.folds.min()) for branch in branches if len(branch.folds))])
    high = max(high, 1.1 * onset) if math.isfinite(onset) else high
    uniform = _uniform(flow, model, d, low, high, branches)
    return Diagram(flow, d, (low, high), onset, [uniform, *branches], model)


def _branches(model: Coupling, d: int, high: float, degree: int | None, progress: bool | None) -> list[Branch]:
    """All branches but the uniform one, with a degree that resolves them."""
    size = _needed(model, high) if degree is None else degree
    with Progress(progress, "stationary states") as bar:
        while True:
            _refuse_coarse(model, high, size)
            problem = equation(model, d, size)
            η = math.log(high * problem.strongest)
            found = Search(problem, math.log(_unique(model) * problem.strongest) - 0.01, η, bar.update).run()
            tail, where = max(((_tail(one, problem)) for one in found), default=(0.0, 0.0))
            if tail <= RESOLVED:
                return [_branch(one) for one in found]
            if degree is not None:
                raise InputError(
                    f"Argument `degree` is too small: with {degree}, the state at κ = {where:.4g} has coefficients of "
                    f"{tail:.1e} left at the end. Leave `degree` out, or try {max(_needed(model, high), degree + 16)}."
                )
            size = 3 * size // 2


def _tail(one: Found, problem: Equation) -> tuple[float, float]:
    """The worst resolution on a branch, and where."""
    return max((problem.tail(p.x), math.exp(p.η) / problem.strongest) for p in one.trace.places)


def _branch(one: Found) -> Branch:
    seen = [observed(one.trace.equation, place.x) for place in one.trace.places]
    folds = np.array([seen[i].kappa for i in one.trace.folds])
    return _assembled(one.name, one.origin, one.trace.equation.d, seen, folds, one.trace)


def _uniform(flow: Flow, model: Coupling, d: int, low: float, high: float, others: list[Branch]) -> Branch:
    size = others[0].coefficients.shape[1] if others else 5
    onsets = bifurcation_kappas(flow, d, size - 1)
    κ = np.union1d(np.geomspace(low, high, 60), onsets[(onsets > low) & (onsets < high)])
    seen = [observed_uniform(model, d, float(one), size) for one in κ]
    return _assembled("uniform", "uniform", d, seen, np.zeros(0), None)


def _assembled(name: str, origin: str, d: int, seen: list[Observed], folds: np.ndarray, trace: Trace | None) -> Branch:
    kappa, coefficients, order, energy, unstable, distance = map(list, zip(*seen, strict=True))
    energies = None if energy[0] is None else np.array(energy, float)
    arrays = (np.array(kappa), np.array(coefficients), np.array(order), energies, np.array(unstable))
    return Branch(name, origin, d, *arrays, folds, np.array(distance), trace)


# How far, and how finely.


def _range(model: Coupling, onset: float, kappa: Any) -> tuple[float, float]:
    try:
        low, high = kappa
    except (TypeError, ValueError):
        raise InputError(
            f"Argument `kappa` must be a pair (low, high), but is {check.brief(kappa)}. Then ask `.at(kappa)`."
        ) from None
    low, high = (check.number(f"kappa[{i}]", value, positive=True) for i, value in enumerate((low, high)))
    if low >= high:
        raise InputError(f"Argument `kappa` must be a pair (low, high) with low < high, but is ({low:g}, {high:g}).")
    return _with_own(model, low, high)


def _default(model: Coupling, d: int, onset: float) -> tuple[float, float]:
    """(κ_c/2, 3κ_c), or less where states would be too concentrated to be resolved."""
    centre = onset if math.isfinite(onset) else model.kappa or 1.0
    steepest = _sharpness(model)
    finest = (FINEST - 24) ** 2 / 85 / steepest if steepest > 0 else math.inf
    return _with_own(model, 0.5 * centre, min(3 * centre, max(finest, 1.2 * centre)))


def _with_own(model: Coupling, low: float, high: float) -> tuple[float, float]:
    return (low, high) if model.kappa is None else (min(low, 0.9 * model.kappa), max(high, 1.1 * model.kappa))


def _sharpness(model: Coupling) -> float:
    """The steepest that Φ can be: a state is at most as concentrated as e^{κ·sharpness·t}."""
    return abs(model.V) * (math.exp(min(abs(model.beta) - model.log_unit, 700.0)) if model.kind == "usa" else 1.0)


def _needed(model: Coupling, kappa: float) -> int:
    """A degree at which the coefficients of e^{κ·sharpness·t} have fallen to 1e-14 or so."""
    return 24 + math.ceil(math.sqrt(85 * kappa * _sharpness(model)))


def _unique(model: Coupling) -> float:
    """A κ below which the uniform state is the only one, as f → e^{κΦ[f]}/Z contracts: in total variation for USA, in
    Hilbert's metric for SA."""
    β = max(abs(model.beta), 1e-8)
    if model.kind == "sa":
        return β / math.tanh(β) / abs(model.V)
    return 2 * β * math.exp(model.log_unit - β) / -math.expm1(-2 * β) / abs(model.V)


def _refuse_coarse(model: Coupling, high: float, degree: int) -> None:
    if degree > FINEST:
        raise InputError(
            f"States at κ = {high:.4g} are too concentrated: polynomials of degree {degree} would be needed, and {FINEST} "
            "is the most that is tried. Ask for a smaller kappa[1], or for a smaller β."
        )


def _refuse_cancellation(model: Coupling) -> None:
    if model.kind == "sa" and model.beta < -6 and model.V > 0:
        raise InputError(
            f"Softmax with β = {model.beta:g} below -6 lets tokens gather where ∫e^(β<x,y>)dμ nearly vanishes, which is "
            "lost in round-off. Use β ≥ -6, or tkf.usa."
        )
