"""The constants of the figure against singular values of the Jacobian, written out."""

import numpy as np
import pytest

from tokenfield.figures import make


@pytest.fixture(scope="module")
def data():
    return make("lipschitz", small=True).data


@pytest.mark.parametrize("mask", ["softmax", "causal"])
@pytest.mark.parametrize("R", [1.0, 3.0])
def test_largest_singular_value(data, mask, R):
    n = 16
    x = np.full((n, 2), [R, 0.0])
    x[0] *= -1  # A = -I: the first token stands opposite to all others
    expected = np.linalg.norm(jacobian(x, mask == "causal"), 2)
    assert data.constant.sel(attention=mask, R=R, n=n) == pytest.approx(expected, rel=2e-6)


def jacobian(x: np.ndarray, causal: bool) -> np.ndarray:
    """Of f_i = Σ_j P_ij x_j, P = softmax(-<x_i, x_j>): P_ij I - P_ij (x_j - f_i)x_iᵀ, and -Cov_i on the diagonal."""
    n, d = x.shape
    score = np.exp(-x @ x.T) * (np.tri(n) if causal else 1.0)
    P = score / score.sum(axis=1, keepdims=True)
    J = np.zeros((n, d, n, d))
    for i in range(n):
        away = x - P[i] @ x
        for j in range(n):
            J[i, :, j] = P[i, j] * (np.eye(d) - np.outer(away[j], x[i]))
        J[i, :, i] -= np.einsum("j,ja,jb->ab", P[i], away, x)
    return J.reshape(n * d, n * d)
