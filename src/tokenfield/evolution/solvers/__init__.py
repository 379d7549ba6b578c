"""Solvers by name. Runge–Kutta methods are Diffrax's; `ETD4` and `Splitting` are written as Diffrax solvers."""

from collections.abc import Callable, Collection
from typing import Any

import diffrax as dfx
from jaxtyping import Array

from tokenfield._checks import brief
from tokenfield.errors import InputError, suggest
from tokenfield.evolution.solvers.control import Pace as Pace
from tokenfield.evolution.solvers.control import PerToken as PerToken
from tokenfield.evolution.solvers.control import control_with_jumps as control_with_jumps

LARGEST_JACOBIAN = 8000
"""Unknowns (n·d) up to which an implicit solver's dense Jacobian is sensible: (8000)² doubles are half a gigabyte."""


def _kvaerno5(rtol: Array) -> dfx.AbstractSolver:
    """With a full chord iteration: Diffrax's default, which gives up early, rejects half of its steps here."""
    import optimistix as optx

    tolerance: Any = rtol / 10
    return dfx.Kvaerno5(root_finder=optx.Chord(rtol=tolerance, atol=tolerance))


SOLVERS: dict[str, Callable[[Array], dfx.AbstractSolver]] = {
    "tsit5": lambda rtol: dfx.Tsit5(),
    "dopri5": lambda rtol: dfx.Dopri5(),
    "dopri8": lambda rtol: dfx.Dopri8(),
    "kvaerno5": _kvaerno5,
}
"""The solvers of differential equations without structure, by their names."""


def checked_solver(given: Any, known: Collection[str], whose: str, unknowns: int) -> str | dfx.AbstractSolver:
    """A solver as given, by its name or itself, if a motion whose solvers are `known` can use it; refused otherwise."""
    if isinstance(given, str) and given.lower() in known:
        solver = given.lower()
    elif isinstance(given, dfx.AbstractAdaptiveSolver) and set(known) == set(SOLVERS):
        solver = given
    elif set(known) == set(SOLVERS):
        raise InputError(
            f"Unknown solver {brief(given)}. {suggest(given, SOLVERS)} Any adaptive Diffrax solver works too."
        )
    else:
        name = next(iter(known))
        raise InputError(f"{whose} moved by the solver {name!r}, but got {brief(given)}. Leave it out.")
    implicit = solver == "kvaerno5" or isinstance(solver, dfx.AbstractImplicitSolver)
    if implicit and unknowns > LARGEST_JACOBIAN:
        raise InputError(
            f"The implicit solver {solver_name(solver)} needs a dense Jacobian of n·d = {unknowns} unknowns, too large "
            f"beyond {LARGEST_JACOBIAN}. Use solver='tsit5': Post-LN flows have no stiff radial mode here."
        )
    return solver


def solver_name(solver: str | dfx.AbstractSolver) -> str:
    """What a run says about its solver."""
    return solver if isinstance(solver, str) else type(solver).__name__.lower()
