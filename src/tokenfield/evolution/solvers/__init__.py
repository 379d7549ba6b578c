"""Solvers by name. Runge–Kutta methods are Diffrax's; `ETD4` and `Splitting` are written as Diffrax solvers."""

from collections.abc import Callable, Collection
from typing import Any

import diffrax as dfx
import equinox as eqx
from jaxtyping import Array

from tokenfield._checks import brief
from tokenfield.errors import InputError, suggest
from tokenfield.evolution.solvers.control import Pace as Pace
from tokenfield.evolution.solvers.control import PerToken as PerToken
from tokenfield.evolution.solvers.control import control_with_jumps as control_with_jumps

LARGEST_JACOBIAN = 8000
"""Unknowns (n·d) up to which an implicit solver's dense Jacobian is sensible: (8000)² doubles are half a gigabyte."""


def with_tolerances(solver: dfx.AbstractSolver, rtol: Array) -> dfx.AbstractSolver:
    """A Diffrax solver whose root finder, if it was given no tolerances, has a tenth of the run's.

    Diffrax would take them from the step control together with its norm, but ours is one of lengths of tokens, not of
    residuals. Its default, a chord iteration that gives up early, rejects half of its steps here and is replaced by a full one."""
    left_out = dfx.Kvaerno5().root_finder.rtol  # pyright: ignore[reportAttributeAccessIssue]
    finder = getattr(solver, "root_finder", None)
    if finder is None or getattr(finder, "rtol", None) is not left_out:
        return solver
    import optimistix as optx

    tolerance: Any = rtol / 10
    if isinstance(finder, dfx.VeryChord):
        finder = optx.Chord(rtol=tolerance, atol=tolerance)
    else:
        parts = lambda f: (f.rtol, f.atol, f.norm)
        finder = eqx.tree_at(
            parts, finder, (tolerance, tolerance, optx.max_norm), is_leaf=lambda leaf: leaf is left_out
        )
    return eqx.tree_at(lambda s: s.root_finder, solver, finder)


SOLVERS: dict[str, Callable[[Array], dfx.AbstractSolver]] = {
    "tsit5": lambda rtol: dfx.Tsit5(),
    "dopri5": lambda rtol: dfx.Dopri5(),
    "dopri8": lambda rtol: dfx.Dopri8(),
    "kvaerno5": lambda rtol: with_tolerances(dfx.Kvaerno5(), rtol),
}
"""The solvers of differential equations without structure, by their names."""


def checked_solver(given: Any, known: Collection[str], whose: str, unknowns: int) -> str | dfx.AbstractSolver:
    """A solver as given, by its name or itself, if a motion whose solvers are `known` can use it; refused otherwise."""
    if isinstance(given, str) and given.lower() in known:
        solver = given.lower()
    elif isinstance(given, dfx.AbstractAdaptiveSolver) and set(known) == set(SOLVERS):
        if given.term_structure not in (dfx.ODETerm, dfx.AbstractTerm) or _wraps_implicit(given):
            raise InputError(
                f"{type(given).__name__} does not serve here: it is for equations in several terms or with noise, or it halves the "
                "steps of an implicit solver. Use an adaptive solver of ordinary differential equations, such as dfx.Kvaerno5()."
            )
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


def _wraps_implicit(solver: dfx.AbstractSolver) -> bool:
    """Whether a solver is made of an implicit one; Diffrax then looks for its root finder in vain."""
    return isinstance(solver, dfx.AbstractWrappedSolver) and isinstance(solver.solver, dfx.AbstractImplicitSolver)


def solver_name(solver: str | dfx.AbstractSolver) -> str:
    """What a run says about its solver."""
    return solver if isinstance(solver, str) else type(solver).__name__.lower()
