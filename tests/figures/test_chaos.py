"""The distance of moments against Fourier coefficients, written out."""

import numpy as np
import pytest

from tokenfield.figures.published.chaos import distance, known_at_start


def test_on_the_circle_moments_are_fourier_coefficients():
    θ = np.random.default_rng(0).normal(size=(1, 50))
    x, c = np.stack([np.cos(θ), np.sin(θ)], axis=-1), np.array([[0.7, 0.2]])
    z = [np.exp(1j * k * θ).mean() - c[0, k - 1] / 2**0.5 for k in (1, 2)]
    assert distance(x, c)[0] == pytest.approx(2 * np.sum(np.abs(z) ** 2), rel=1e-12)


@pytest.mark.parametrize("d", [2, 3])
def test_one_token_has_as_many_squares_as_there_are_harmonics(d):
    x = np.random.default_rng(1).normal(size=(1, 1, d))
    found = distance(x / np.linalg.norm(x), np.zeros((1, 2)))[0]
    assert found == pytest.approx({2: 4, 3: 8}[d], rel=1e-12) and known_at_start(d, np.zeros(2)) == {2: 4, 3: 8}[d]
