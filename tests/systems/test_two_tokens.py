"""Two tokens on the sphere: a scalar equation for c = <x₁, x₂>, solved implicitly.

SA:   ċ = 2(1-c²) e^{βc}/(e^β + e^{βc}),  so  t = T(c) - T(c₀) with
      T(c) = ½ artanh c - ¼ [Ei(β(1-c)) + e^{2β} E₁(β(1+c))].
USA:  ċ = (1-c²) e^{βc},                   with
      T(c) = -½ [e^{-β} Ei(β(1-c)) + e^β E₁(β(1+c))].
β = 0 (Kuramoto): tan(φ/2) = tan(φ₀/2) e^{-t}, φ the angle between them.

Both from 1/(1-c²) = ½ (1/(1-c) + 1/(1+c)),  ∫ e^{β(1-c)}/(1-c) dc = -Ei(β(1-c)),
∫ e^{β(1-c)}/(1+c) dc = -e^{2β} E₁(β(1+c)).
"""

import numpy as np
import pytest
from scipy.special import exp1, expi

import tokenfield as tkf


def sa_time(c, beta):
    return 0.5 * np.arctanh(c) - 0.25 * (expi(beta * (1 - c)) + np.exp(2 * beta) * exp1(beta * (1 + c)))


def usa_time(c, beta):
    return -0.5 * (np.exp(-beta) * expi(beta * (1 - c)) + np.exp(beta) * exp1(beta * (1 + c)))


@pytest.mark.parametrize("d", [2, 3, 7])
@pytest.mark.parametrize("beta", [0.3, 1.0, 4.0])
@pytest.mark.parametrize(("flow", "clock"), [(tkf.sa, sa_time), (tkf.usa, usa_time)], ids=["sa", "usa"])
def test_the_overlap_keeps_the_clock(flow, clock, beta, d):
    x = np.zeros((2, d))
    x[0, 0], x[1, 0], x[1, 1] = 1.0, -0.6, 0.8
    t_end = clock(0.9, beta) - clock(-0.6, beta)
    run = tkf.evolve(flow(beta), tkf.Tokens(x), t_end, save=21, rtol=1e-10)
    c = np.einsum("td,td->t", run.x[:, 0], run.x[:, 1])
    assert c[-1] == pytest.approx(0.9, abs=1e-8)
    assert np.max(abs(clock(c, beta) - clock(-0.6, beta) - np.asarray(run.times))) < 1e-8 * max(1, t_end)


def test_kuramoto_angle():
    run = tkf.evolve(tkf.kuramoto(), tkf.Tokens([[1.0, 0.0], [np.cos(2.5), np.sin(2.5)]]), 6.0, save=13, rtol=1e-10)
    sine = run.x[:, 0, 0] * run.x[:, 1, 1] - run.x[:, 0, 1] * run.x[:, 1, 0]
    φ = np.arctan2(sine, np.sum(run.x[:, 0] * run.x[:, 1], axis=1))
    assert np.max(abs(φ - 2 * np.arctan(np.tan(1.25) * np.exp(-run.times)))) < 1e-9


@pytest.mark.parametrize("beta", [1.0, 3.0])
def test_v_minus_identity_runs_the_clock_backward(beta):
    """With V = -I the tokens of SA flee each other, along the same curve."""
    x = np.array([[1.0, 0.0], [0.8, 0.6]])
    t_end = sa_time(0.8, beta) - sa_time(-0.5, beta)
    run = tkf.evolve(tkf.sa(beta, V=-1.0), tkf.Tokens(x), t_end, save=2, rtol=1e-10)
    assert float(run.final.x[0] @ run.final.x[1]) == pytest.approx(-0.5, abs=1e-8)
    back = tkf.evolve(tkf.sa(beta), run.final, t_end, save=2, rtol=1e-10)
    assert np.max(abs(back.final.x - x)) < 1e-8
