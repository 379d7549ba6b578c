"""Without scores attention is the mean: Q = 0 in R^d gives ẋ_i = V m, m = Σ w_j x_j, hence m(t) = e^{tV} m₀ and
x_i(t) = x_i(0) + (e^{tV} - I) m₀."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import expm

import tokenfield as tkf

rng = np.random.default_rng(5)


@pytest.mark.parametrize("attention", [tkf.Softmax, tkf.Unnormalized])
def test_q_zero(attention):
    x, w = rng.normal(size=(15, 4)), rng.uniform(1, 3, 15)
    w /= w.sum()
    V = rng.normal(size=(4, 4))
    run = tkf.evolve(
        tkf.Flow(attention(7.0, Q=np.zeros((2, 4)), K=rng.normal(size=(2, 4)), V=V)),
        tkf.Tokens(x, w),
        2.0,
        save=5,
        rtol=1e-10,
    )
    for i, t in enumerate(np.asarray(run.times)):
        exact = x + (expm(t * V) - np.eye(4)) @ (w @ x)
        assert np.max(abs(run.x[i] - exact)) < 1e-8 * np.max(abs(exact))


def test_v_minus_identity_gathers_a_single_token_at_the_origin():
    run = tkf.evolve(tkf.Flow(tkf.Softmax(3.0, V=-1.0)), tkf.Tokens([[2.0, -1.0]]), 5.0, save=6, rtol=1e-10)
    assert np.max(abs(run.x[:, 0] - np.outer(np.exp(-run.times), [2.0, -1.0]))) < 1e-9


def test_v_minus_identity_on_a_symmetric_pair():
    """Tokens ±x in R: ẋ = -x tanh(βx²); with u = x², t = ∫_{u(t)}^{u₀} du / (2u tanh βu)."""
    beta = 1.5
    run = tkf.evolve(tkf.Flow(tkf.Softmax(beta, V=-1.0)), tkf.Tokens([[1.2], [-1.2]]), 4.0, save=5, rtol=1e-10)
    assert np.max(abs(run.x[:, 0] + run.x[:, 1])) < 1e-12
    for t, x in zip(np.asarray(run.times), np.asarray(run.x[:, 0, 0]), strict=True):
        assert quad(lambda u: 1 / (2 * u * np.tanh(beta * u)), x**2, 1.44, epsabs=1e-13)[0] == pytest.approx(
            t, abs=1e-8
        )


def test_v_minus_identity_ends_in_one_cluster_at_the_origin():
    """V = -I, A = I in R^d: every token tends to 0 (slowly, like t^{-1/2}, once they look alike)."""
    run = tkf.evolve(
        tkf.Flow(tkf.Softmax(1.0, V=-1.0)), tkf.Tokens.uniform_box(n=40, d=2, low=-5, high=5, seed=3), 1e4, save=3
    )
    assert np.max(run.final.radii) < 0.05 * np.max(run[0].radii)
