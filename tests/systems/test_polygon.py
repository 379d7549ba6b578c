"""A regular polygon on the circle is stationary, for every β, under SA and USA: by symmetry the field is radial."""

import numpy as np
import pytest

import tokenfield as tkf


def polygon(n):
    angle = 2 * np.pi * np.arange(n) / n + 0.3
    return tkf.Tokens(np.stack([np.cos(angle), np.sin(angle)], axis=1))


@pytest.mark.parametrize("n", [3, 8])
@pytest.mark.parametrize("flow", [tkf.sa, tkf.usa])
def test_it_does_not_move(flow, n):
    for beta in (0.0, 1.0, 9.0):
        v = tkf.velocity(flow(beta), polygon(n))
        assert np.max(abs(v)) < 1e-15 * np.exp(beta if flow is tkf.usa else 0)
        run = tkf.evolve(flow(beta), polygon(n), t=np.exp(-beta) if flow is tkf.usa else 1.0, save=3)
        assert np.max(abs(run.x - run.x[0])) < 1e-12


def test_it_is_unstable_and_a_nudge_ends_it():
    x = np.asarray(polygon(5).x) + 1e-3 * np.random.default_rng(0).normal(size=(5, 2))
    run = tkf.evolve(tkf.sa(1.0), tkf.Tokens(x), t=200.0, until=tkf.collapsed)
    assert run.status is tkf.Status.STOPPED
