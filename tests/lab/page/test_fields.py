"""The explorables' right-hand sides, in JavaScript in a browser, against the library."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import iv

import tokenfield as tkf
from tokenfield.bifurcation import stationary

CLOSE = 1e-6
SCHEMES = {
    "post_ln": tkf.PostLN(),
    "pre_ln": tkf.PreLN(),
    "peri_ln": tkf.PeriLN(),
    "mix_ln": tkf.MixLN(tau=1.0),
    "ngpt": tkf.NGPT(alpha=0.7),
    "sqrt_scaling": tkf.SqrtScaling(),
}


@pytest.fixture
def javascript(files, visit):
    """javascript(body, argument) runs with the module of right-hand sides as `f` and the argument as `a`."""
    page = visit(f"{files}/lab.css")

    def run(body, argument):
        return page.evaluate("async a => { const f = await import('/fields.js'); " + body + " }", argument)

    return run


def sphere(n, d, seed=0):
    return np.asarray(tkf.Tokens.uniform_sphere(n=n, d=d, seed=seed).x)


TOKENS = "const x = Float64Array.from(a.x.flat()), out = new Float64Array(x.length), n = a.x.length, d = a.x[0].length;"


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("beta", [0.0, 1.0, 9.0, 50.0])
def test_self_attention_is_the_librarys(javascript, d, beta):
    x = sphere(60, d)
    for attention, normalized in ((tkf.Softmax(beta), True), (tkf.Unnormalized(beta, scaled=True), False)):
        got = javascript(
            TOKENS + "f.attention(x, n, d, a.beta, a.normalized, out); return [...out]",
            {"x": x.tolist(), "beta": beta, "normalized": normalized},
        )
        want = np.asarray(tkf.velocity(tkf.Flow(attention, tkf.PostLN()), tkf.Tokens(x)))
        assert np.reshape(got, x.shape) == pytest.approx(want, abs=CLOSE * max(1e-3, np.abs(want).max()))


def test_energy_is_the_librarys(javascript):
    x = sphere(40, 3)
    got = javascript(TOKENS + "return f.attention(x, n, d, 4, true, out)", {"x": x.tolist()})
    assert got == pytest.approx(8 * float(tkf.observe.energy(tkf.Tokens(x), beta=4.0)) * np.exp(-4.0), rel=CLOSE)


@pytest.mark.parametrize("d", [2, 3])
def test_causal_attention_is_the_librarys(javascript, d):
    x = sphere(50, d)
    got = javascript(TOKENS + "f.causalAttention(x, n, d, 16, out); return [...out]", {"x": x.tolist()})
    want = tkf.velocity(
        tkf.Flow(tkf.Causal(tkf.Softmax(16.0)), tkf.PostLN()), tkf.Tokens(x, s=np.linspace(0, 1, len(x)))
    )
    assert np.reshape(got, x.shape) == pytest.approx(np.asarray(want), abs=CLOSE)


@pytest.mark.parametrize("d", [2, 3])
def test_renyi_centres_are_the_librarys(javascript, d):
    x = sphere(200, d, seed=3)
    got = javascript(TOKENS + "return f.renyiCentres(x, n, d, .5)", {"x": x.tolist()})
    assert got == tkf.observe.renyi_centres(tkf.Tokens(x), delta=0.5).indices.tolist()


@pytest.mark.parametrize("t", [0.0, 2.5])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_equiangular_rates_are_those_of_tokens(javascript, scheme, t):
    """The library moves n tokens in n dimensions; their common cosine and radius move as the one equation says."""
    n, ρ, r, beta = 6, 0.3, 1.0 if scheme in ("post_ln", "ngpt", "sqrt_scaling") else 1.7, 2.0
    θ = np.linalg.cholesky((1 - ρ) * np.eye(n) + ρ)
    v = np.asarray(tkf.velocity(tkf.Flow(tkf.Softmax(beta), SCHEMES[scheme]), tkf.Tokens(r * θ), t=t))
    growth = (θ * v).sum(1)
    turning = (v - growth[:, None] * θ) / r
    want = turning[0] @ θ[1] + θ[0] @ turning[1], growth[0]
    got = javascript(
        "return f.equiangular(a.scheme, a.t, .3, a.r, {n: 6, β: 2, τ: 1, α: .7})", {"scheme": scheme, "t": t, "r": r}
    )
    assert got == pytest.approx(want, abs=CLOSE)


def test_gaussian_rates_are_the_librarys(javascript):
    rng = np.random.default_rng(0)
    V, A = rng.normal(size=(2, 2, 2))
    W, B = rng.normal(size=(2, 2, 2))
    cov = np.array([[1.0, 0.3], [0.3, 0.6]])
    attention = tkf.MultiHead([tkf.Softmax(A=A, V=V), tkf.Softmax(A=B, V=W)])
    _, slope = attention.gaussian(*map(jnp.asarray, (np.zeros(2), np.linalg.cholesky(cov), np.eye(2))))
    rate = np.asarray(slope) @ cov + cov @ np.asarray(slope).T
    got = javascript(
        "return f.gaussian(a.heads, [1, .6, .3])",
        {"heads": [[V.ravel().tolist(), A.ravel().tolist()], [W.ravel().tolist(), B.ravel().tolist()]]},
    )
    assert got == pytest.approx([rate[0, 0], rate[1, 1], rate[0, 1]], abs=CLOSE)


@pytest.mark.parametrize("beta", [0.0, 0.5, 4.0])
def test_noisy_drift_is_the_librarys(javascript, beta):
    θ = np.random.default_rng(1).uniform(0, 2 * np.pi, 40)
    x = np.stack([np.cos(θ), np.sin(θ)], 1)
    v = np.asarray(tkf.velocity(tkf.usa(beta), tkf.Tokens(x)))
    want = v[:, 1] * x[:, 0] - v[:, 0] * x[:, 1]
    got = javascript(
        "const out = new Float64Array(a.θ.length); f.noisyDrift(a.θ, a.beta, out); return [...out]",
        {"θ": θ.tolist(), "beta": beta},
    )
    assert got == pytest.approx(want, abs=CLOSE * max(1, np.abs(want).max()))


@pytest.mark.parametrize(("beta", "kappa"), [(0.0, 4.0), (1.0, 3.0)])
def test_predicted_order_is_the_librarys(javascript, beta, kappa):
    states = stationary(tkf.usa(beta) if beta else tkf.kuramoto(), d=2).at(kappa)
    assert javascript("return f.stationary(a.beta, a.kappa).R", {"beta": beta, "kappa": kappa}) == pytest.approx(
        states[0].order, abs=CLOSE
    )


@pytest.mark.parametrize("beta", [0.25, 1.0, 3.0])
def test_threshold_is_where_the_first_mode_grows(javascript, beta):
    assert javascript("return f.threshold(a.beta)", {"beta": beta}) == pytest.approx(beta / iv(1, beta), rel=CLOSE)


def test_the_transition_becomes_sudden(javascript):
    """What the words of the explorable say: an ordered state before the threshold, at β = 3 and 4 but not at β = 2.3."""
    orders = javascript(
        "return [[2.3, .995], [3, .995], [4, .96]].map(([β, part]) => f.stationary(β, part * f.threshold(β)).R)", None
    )
    assert orders[0] < 0.01
    assert min(orders[1:]) > 0.1
    branches = stationary(tkf.usa(4.0), d=2)
    assert (branches.folds[0], branches.kappa_c) == (pytest.approx(0.387, abs=1e-3), pytest.approx(0.410, abs=1e-3))
