"""How many directions lead away from a stationary state: the inertia of the second variation, one symmetry at a time."""

import functools
import math

import numpy as np
from jaxtyping import Float

from tokenfield.bifurcation.basis import associated, multiplicity
from tokenfield.bifurcation.equation import Equation, Point

TOLERANCE = 1e-10
"""An eigenvalue counts as beyond 1 when it exceeds it by this much. Clusters far apart attract each other exponentially
little: a state that would need some 10¹⁰ units of time to be left is called stable."""


def unstable(equation: Equation, x: Point) -> int:
    r"""The number of unstable directions of a stationary state, in the space of all densities on S^{d-1}.

    A perturbation is a sum of g(t) Y_m(ω), Y_m a harmonic of degree m on S^{d-2}. The free energy of USA, whose gradient
    flow the Fokker–Planck equation is, has the second variation $\frac1κ\int g²/f - \iint g\,W_m g$: negative directions
    are eigenvalues above 1 of $κ\sqrt f\,W_m\sqrt f$, for m = 0 among the g without mass. Higher m have smaller
    kernels, so the count ends where no eigenvalue reaches 1. Rotations have exactly 1, once for m = 1.

    For SA, W is divided by the square roots of ∫e^{β<x,y>}f on both sides. The count changes exactly where stationary
    branches meet; it does not exclude instabilities that oscillate, as SA with noise is not known to descend a free energy.
    """
    total = int(np.sum(zonal_spectrum(equation, x) > 1 + TOLERANCE))
    for m in range(1, equation.size + 1):
        spectrum = angular_spectrum(equation, x, m) if multiplicity(equation.d, m) else np.zeros(1)
        if m == 1:
            spectrum = np.delete(spectrum, np.argmin(abs(spectrum - 1)))
        total += multiplicity(equation.d, m) * int(np.sum(spectrum > 1 + TOLERANCE))
        if not np.any(abs(spectrum) > 1 - TOLERANCE):
            break
    return total


def zonal_spectrum(equation: Equation, x: Point) -> Float[np.ndarray, " L"]:
    """Eigenvalues for m = 0: those of the derivative of the fixed-point map. They are real, also where signs are mixed."""
    derivative = np.eye(equation.size) - equation.jacobian(x)[:, :-1]
    if equation.bend == 0 and np.all(equation.sign > 0):
        return np.linalg.eigvalsh(derivative)
    return np.linalg.eigvals(derivative).real


def angular_spectrum(equation: Equation, x: Point, m: int) -> Float[np.ndarray, " count"]:
    """Eigenvalues for perturbations g(t) Y_m(ω), m ≥ 1."""
    _, slope, share = equation.density(x)
    g, root, sign = _table(equation, m), equation.root[m - 1 :], equation.sign[m - 1 :]
    gram = math.exp(x[-1]) * equation.d * root[:, None] * (g.T @ ((share * slope)[:, None] * g)) * root
    return np.linalg.eigvalsh(gram) if np.all(sign > 0) else np.linalg.eigvals(gram * sign).real


@functools.lru_cache(maxsize=32)
def _table(equation: Equation, m: int) -> Float[np.ndarray, "n count"]:
    return associated(equation.d, equation.size, m, equation.t)
