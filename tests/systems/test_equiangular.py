"""Equiangular tokens stay equiangular; their cosine solves a scalar equation [rigollet2025, section 6.1].

SA:  ρ̇ = 2e^{βρ}(1-ρ)((n-1)ρ+1)/(e^β+(n-1)e^{βρ}),   USA:  ρ̇ = (2/n)e^{βρ}(1-ρ)((n-1)ρ+1).
For USA at β = 0 it is a logistic equation: with a = n-1, ρ(t) = (g-1)/(g+a), g = (1+aρ₀)/(1-ρ₀) e^{2t}.
"""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tokenfield as tkf


def sa_rate(ρ, beta, n):
    return 2 * np.exp(beta * ρ) * (1 - ρ) * ((n - 1) * ρ + 1) / (np.exp(beta) + (n - 1) * np.exp(beta * ρ))


def usa_rate(ρ, beta, n):
    return 2 / n * np.exp(beta * ρ) * (1 - ρ) * ((n - 1) * ρ + 1)


@pytest.mark.parametrize("rho", [0.0, 0.3, -0.1])
@pytest.mark.parametrize("beta", [1.0, 5.0])
@pytest.mark.parametrize(("flow", "rate"), [(tkf.sa, sa_rate), (tkf.usa, usa_rate)], ids=["sa", "usa"])
def test_cosine_follows_the_scalar_equation(flow, rate, beta, rho):
    n = 9
    t_end = 2 / rate(rho, beta, n)
    run = tkf.evolve(flow(beta), tkf.Tokens.equiangular(n, rho, d=11, seed=2), t_end, save=12, rtol=1e-10)
    exact = solve_ivp(
        lambda t, ρ: rate(ρ, beta, n),
        (0, t_end),
        [rho],
        method="DOP853",
        t_eval=np.asarray(run.times),
        rtol=1e-12,
        atol=1e-14,
    ).y[0]
    pairs = np.asarray(tkf.observe.overlaps(run))
    assert np.max(np.ptp(pairs, axis=1)) < 1e-8, "they stay equiangular"
    assert np.max(abs(pairs.mean(axis=1) - exact)) < 1e-8
    assert abs(exact[-1] - rho) > 0.1


def test_logistic_equation_at_beta_zero():
    n, rho = 12, 0.1
    run = tkf.evolve(tkf.kuramoto(), tkf.Tokens.equiangular(n, rho), 3.0, save=7, rtol=1e-10)
    g = (1 + (n - 1) * rho) / (1 - rho) * np.exp(2 * np.asarray(run.times))
    assert np.max(abs(np.asarray(tkf.observe.mean_overlap(run)) - (g - 1) / (g + n - 1))) < 1e-9
