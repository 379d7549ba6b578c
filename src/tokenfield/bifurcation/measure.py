"""What is measured on a stationary state."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from tokenfield.bifurcation.basis import dimension
from tokenfield.bifurcation.coupling import Coupling
from tokenfield.bifurcation.equation import Equation, Point
from tokenfield.bifurcation.stability import TOLERANCE, unstable


class Observed(NamedTuple):
    """One state: κ, coefficients, R, F, the number of unstable directions, and ∫f log f dσ, its distance from uniform."""

    kappa: float
    coefficients: Float[np.ndarray, " l"]
    order: float
    free_energy: float | None
    unstable: int
    distance: float


def observed(equation: Equation, x: Point) -> Observed:
    """What is measured on a solution. Its stability is that among all densities, also if the equation knows only some."""
    energy = None
    if equation.model.kind == "usa":
        energy = equation.model.uniform_energy(equation.d) + equation.strongest * equation.free_energy(x)
    if not np.any(x[:-1]):
        known = observed_uniform(equation.model, equation.d, math.exp(x[-1]) / equation.strongest, equation.degree + 1)
        return known
    coefficients = equation.coefficients(x)
    return Observed(
        kappa=math.exp(x[-1]) / equation.strongest,
        coefficients=coefficients,
        order=abs(float(coefficients[1])) / math.sqrt(equation.d),
        free_energy=energy,
        unstable=unstable(equation.whole, x),
        distance=equation.entropy(x),
    )


def observed_uniform(model: Coupling, d: int, kappa: float, size: int) -> Observed:
    """The same of the uniform state: all harmonics of degree l with κλ_l > 1 grow."""
    λ = model.strengths(d, size - 1)
    count = float(dimension(d, size - 1)[kappa * λ > 1 + TOLERANCE].sum())
    energy = model.uniform_energy(d) if model.kind == "usa" else None
    return Observed(kappa, np.eye(size)[0], 0.0, energy, round(count), 0.0)
