"""Rates of known laws, and of a run whose rate is known."""

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.errors import InputError

T = np.linspace(0.5, 6, 60)
NOISE = np.exp(0.01 * np.random.default_rng(1).normal(size=60))


@pytest.mark.parametrize(
    ("law", "values", "rate", "exponent"),
    [
        ("exponential", 3 * np.exp(-2 * T), 2.0, 1.0),
        ("exponential", np.exp(0.5 * T), -0.5, 1.0),
        ("power", 5 * T**-1.5, 1.5, 1.0),
        ("stretched", 2 * np.exp(-((0.7 * T) ** 0.6)), 0.7, 0.6),
    ],
)
def test_known_laws(law, values, rate, exponent):
    exact, noisy = tkf.observe.fit_rate(T, values, law), tkf.observe.fit_rate(T, values * NOISE, law)
    assert exact.rate == pytest.approx(rate, rel=1e-8) and exact.exponent == pytest.approx(exponent, rel=1e-8)
    assert abs(noisy.rate - rate) < 4 * noisy.error and 0 < noisy.error < 0.2 * abs(rate)
    assert 0.005 < noisy.residual < 0.02


def test_the_rate_of_the_last_approach():
    """Two tokens close together under sa draw near as e^{-t}: the angle obeys α' = -2 sin α/(1 + e^{β(1-cos α)}) → -α."""
    run = tkf.evolve(tkf.sa(2.0), tkf.Tokens([[1.0, 0.0], [0.0, 1.0]]), t=12.0, save=60, rtol=1e-11)
    found = tkf.observe.fit_rate(run, lambda run: 1 - tkf.observe.mean_overlap(run), window=(6.0, 10.0))
    assert found.rate == pytest.approx(2.0, rel=1e-3), "1 - cos α falls twice as fast as α"


def test_refusals():
    for values, law, why in (
        (-T, "exponential", "positive"),
        (T, "linear", "Unknown law"),
        (T[:3], "power", "one value"),
    ):
        with pytest.raises(InputError, match=why):
            tkf.observe.fit_rate(T, values, law)
    with pytest.raises(InputError, match="four times"):
        tkf.observe.fit_rate(T, T, window=(0.0, 0.6))


def test_fraction_of_close_pairs():
    mu = tkf.Tokens(np.random.default_rng(3).normal(size=(40, 3)), np.random.default_rng(4).dirichlet(np.ones(40)))
    θ, w = np.asarray(mu.directions), np.asarray(mu.w)
    pairs = np.outer(w, w) * ~np.eye(40, dtype=bool)
    for c in (-0.5, 0.3, 0.9):
        assert float(tkf.observe.fraction_close(mu, c)) == pytest.approx(pairs[θ @ θ.T >= c].sum() / pairs.sum())
    run = tkf.evolve(tkf.sa(1.0), tkf.Tokens.uniform_sphere(7, 3, seed=0), t=20.0, save=3)
    assert float(tkf.observe.fraction_close(run, 0.999)[-1]) == pytest.approx(1.0, abs=1e-15)


def test_the_energy_of_a_run_is_that_of_its_flow():
    run = tkf.evolve(tkf.sa(4.0), tkf.Tokens.uniform_sphere(7, 3, seed=0), t=1.0, save=4)
    assert np.array_equal(tkf.observe.energy(run), tkf.observe.energy(run, 4.0))
    runs = tkf.evolve([tkf.sa(1.0), tkf.sa(4.0)], tkf.Tokens.uniform_sphere(7, 3, seed=0), t=1.0, save=4)
    assert np.allclose(tkf.observe.energy(runs)[1], tkf.observe.energy(run)) and tkf.observe.energy(runs).shape == (
        2,
        4,
    )
    with pytest.raises(InputError, match="needs its β"):
        tkf.observe.energy(run.final)
