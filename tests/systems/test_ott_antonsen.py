"""Kuramoto on the Ott–Antonsen manifold [ott2008].

n equally spaced angles e^{iψ_k} under the Möbius map M_r(z) = (r + z)/(1 + rz), 0 < r < 1, have the mean r up to
r^{n-1}, and Kuramoto's flow only moves r:  ṙ = r(1-r²)/2,  so that  r(t)² = 1/(1 + (1/r₀² - 1) e^{-t})  and every
token is M_{r(t)}(e^{iψ_k}).
"""

import numpy as np

import tokenfield as tkf


def on_manifold(r, n):
    z = np.exp(2j * np.pi * np.arange(n) / n)
    z = (r + z) / (1 + r * z)
    return np.stack([z.real, z.imag], axis=1)


def radius(t, r0):
    return 1 / np.sqrt(1 + (1 / r0**2 - 1) * np.exp(-t))


def test_every_token_follows_the_mobius_map():
    n, r0 = 400, 0.2
    run = tkf.evolve(tkf.kuramoto(), tkf.Tokens(on_manifold(r0, n)), 4.0, save=9, rtol=1e-10)
    assert radius(4.0, r0) ** (n - 1) < 1e-16, "the manifold is exact to round-off as long as r^{n-1} is nothing"
    for i, t in enumerate(np.asarray(run.times)):
        assert np.max(abs(run.x[i] - on_manifold(radius(t, r0), n))) < 1e-8
    R = np.asarray(tkf.observe.order_parameter(run))
    assert np.max(abs(R - radius(np.asarray(run.times), r0))) < 1e-9
