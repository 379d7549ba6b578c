"""The limits that the cone of covariances is compared with, by other means than the figure's."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tokenfield as tkf
from tokenfield.figures.published.gaussian_cone import FATES, GaussianCone


def covariance(x: float, y: float) -> np.ndarray:
    return np.array([[1 + x, y], [y, 1 - x]]) / 2


def test_limits_of_the_line_are_those_of_the_closed_form():
    figure = GaussianCone.of(rings=2)
    ((V, A),) = figure.heads()["line"]
    inner = figure.starts()[:7]  # of full rank
    for (x, y), expected in zip(inner, figure.limits(inner)[1], strict=True):
        form = tkf.theory.closed_form(tkf.Flow(tkf.Softmax(A=A, V=V)), tkf.Gaussian(np.zeros(2), covariance(x, y)))
        assert np.allclose(tkf.Gaussian(np.zeros(2), form.limit).cone, expected, atol=1e-12)


def moved(Σ: np.ndarray, heads: list[tuple[np.ndarray, np.ndarray]], T: float) -> np.ndarray:
    """Σ at a late time, by SciPy: Σ̇ = Σ_h V_hΣA_hΣ + ΣA_hᵀΣV_hᵀ."""

    def rate(_, flat):
        S = flat.reshape(2, 2)
        B = sum((V @ S @ A @ S for V, A in heads), np.zeros((2, 2)))
        return (B + B.T).ravel()

    return solve_ivp(rate, (0, T), Σ.ravel(), rtol=1e-9, atol=1e-12).y[:, -1].reshape(2, 2)


@pytest.mark.parametrize("fate", ["plane", "two lines"])
def test_limits_of_heads_by_their_matrices(fate):
    """What is left at t is less than √5/t."""
    figure = GaussianCone.of(rings=1)
    starts, k = figure.starts(), list(FATES).index(fate)
    for (x, y), expected in list(zip(starts, figure.limits(starts)[k], strict=True))[1:4]:
        (a, c), (_, b) = moved(covariance(x, y), figure.heads()[fate], 300.0)
        assert np.allclose([a - b, 2 * c, a + b], expected, atol=np.sqrt(5) / 300)
