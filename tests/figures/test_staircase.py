"""The staircase's clock."""

import numpy as np

import tokenfield as tkf
from tokenfield.figures.published.staircase import UNIT, _paced


def test_the_flow_in_the_closest_pair_s_time_is_usa_times_a_number():
    """ẋ/ds = e^{β(1 - c)} ẋ/dt, c the largest inner product of two tokens, weights unequal."""
    θ, β = UNIT * np.array([0.0, 0.5, 2.0, 4.0, 7.0]), 1000.0
    mu = tkf.Tokens(np.stack([np.cos(θ), np.sin(θ)], axis=1), [0.1, 0.3, 0.2, 0.15, 0.25])
    plain = np.asarray(tkf.velocity(tkf.usa(β, scaled=True), mu))
    paced = np.asarray(tkf.velocity(tkf.Flow(_paced()(β), tkf.PostLN()), mu))
    unit = np.exp(β * (1 - np.cos(0.5 * UNIT)))
    np.testing.assert_allclose(paced, unit * plain, rtol=1e-10, atol=1e-12)
    assert np.abs(paced[:2]).max() > 1e-3
