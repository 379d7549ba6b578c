"""The times at which Gaussians become infinite that the figure predicts, by SciPy."""

import numpy as np
from scipy.integrate import solve_ivp

from tokenfield.figures.published.gaussian_variants import E11, E22, VARIANTS, GaussianVariants

LARGE = 1e7


def infinite_at(slope, Σ: np.ndarray) -> float:
    """When tr Σ = 10⁷, of Σ̇ = BΣ + ΣBᵀ; then little is left of the time to a blow-up like 1/(t* - t), or its square."""

    def rate(_, flat):
        B = slope(flat.reshape(2, 2)) @ flat.reshape(2, 2)
        return (B + B.T).ravel()

    done = lambda _, flat: flat[0] + flat[3] - LARGE
    done.terminal = True
    return float(solve_ivp(rate, (0, 10), Σ.ravel(), events=done, rtol=1e-10, atol=1e-12).t[-1])


def test_when_two_heads_and_thin_keys_become_infinite():
    figure = GaussianVariants.of(rings=1, T=10.0)
    expected = dict(zip(VARIANTS, figure.expected(), strict=True))
    K, Q = E11, np.array([[0.0, 1.0], [0.0, 0.0]])
    slopes = {
        "two heads": lambda Σ: E11 @ Σ @ E22 + E22 @ Σ @ E11,
        "L2, thin keys": lambda Σ: 2 * E22 @ np.linalg.solve(np.eye(2) + 2 * Σ @ K.T @ K, Σ @ K.T @ Q),
    }
    for name, slope in slopes.items():
        for k in (1, 2):  # with c > 0
            x, y = figure.starts()[k]
            found = infinite_at(slope, np.array([[1 + x, y], [y, 1 - x]]) / 2)
            assert abs(found - expected[name][k]) < 10 / np.sqrt(LARGE), name
