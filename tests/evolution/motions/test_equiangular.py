"""Equiangular tokens: the scalar equation against tokens, its rates, and long contexts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tokenfield as tkf
from tests import naive_models
from tokenfield import attention, normalization, theory
from tokenfield.errors import InputError

SCHEMES = {
    "free": tkf.Free(),
    "rescaled": tkf.Rescaled(),
    "post_ln": tkf.PostLN(),
    "pre_ln": tkf.PreLN(),
    "peri_ln": tkf.PeriLN(),
    "mix_ln": tkf.MixLN(0.3),
    "ngpt": tkf.NGPT(0.6),
    "sqrt_scaling": tkf.SqrtScaling(),
}
N = 5
LAYER_NORMS = [name for name in SCHEMES if name not in ("free", "rescaled")]


def vectors(rho, r):
    gram = (1 - rho) * np.eye(N) + rho
    return r * np.linalg.cholesky(gram)


def parameters(beta):
    return {"Q": np.eye(N), "K": np.eye(N), "V": np.eye(N), "beta": beta, "b": 0.0}


@pytest.mark.parametrize("norm", SCHEMES)
@pytest.mark.parametrize("kind", ["softmax", "unnormalized", "l2", "sinkhorn", "sigmoid", "linear", "relu"])
def test_rates_are_those_of_tokens(kind, norm):
    """Every kind with every scheme: (u̇, ṙ), u = log[(1+(n-1)ρ)/(1-ρ)], from n actual tokens in plain numpy."""
    beta, rho, t = 1.3, 0.2, 0.5
    r = 1.0 if SCHEMES[norm].confines else 1.4
    x, w = vectors(rho, r), np.full(N, 1 / N)
    flow = tkf.Flow(attention.KINDS[kind](beta=beta), SCHEMES[norm])
    v = naive_models.velocity(norm, x, w, t, [(kind, parameters(beta))], tau=0.3)
    growth = np.sum(x * v, axis=1) / r
    slope = (v @ x.T + x @ v.T) / r**2 - 2 * (x @ x.T) / r**3 * growth[0]
    got = flow.normalization.equiangular(jnp.asarray(t), tkf.Equiangular(rho=rho, n=N, r=r), flow.attention)
    assert np.allclose(float(got[0]), slope[0, 1] * N / (1 - rho) / (1 + (N - 1) * rho), rtol=1e-11, atol=1e-13)
    assert np.allclose(float(got[1]), growth[0], rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("norm", SCHEMES)
def test_runs_agree_with_tokens(norm):
    """The whole course, against N tokens moved by SciPy in plain numpy."""
    beta, rho, t = 2.0, -0.1, 2.0
    r = 1.0 if SCHEMES[norm].confines or norm == "mix_ln" else 1.5
    rhs = lambda t, y: naive_models.velocity(
        norm, y.reshape(N, N), np.full(N, 1 / N), t, [("softmax", parameters(beta))], tau=0.3
    ).ravel()
    x = vectors(rho, r)
    for start, end in ((0, 0.3), (0.3 + 1e-15, t)):  # Mix-LN switches at 0.3
        x = solve_ivp(rhs, (start, end), x.ravel(), method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1].reshape(N, N)
    run = tkf.evolve(tkf.Flow(tkf.Softmax(beta), SCHEMES[norm]), tkf.Equiangular(rho=rho, n=N, r=r), t=t, save=3)
    size = np.linalg.norm(x, axis=1)
    assert abs(float(run.rho[-1]) - x[0] @ x[1] / size[0] / size[1]) < 1e-8
    if norm not in ("post_ln", "ngpt", "sqrt_scaling"):
        assert abs(float(run.r[-1]) - size[0]) < 1e-8


def test_the_last_digits_of_the_gap():
    """From 1-ρ = 1e-14, where ρ itself has two digits left, SA multiplies the gap by e^{-2t} up to 1e-14."""
    run = tkf.evolve(tkf.sa(5.0), tkf.Equiangular(gap=1e-14, n=256), t=300.0, save=3)
    assert np.allclose(np.asarray(run.log_gap), np.log(1e-14) - 2 * np.asarray(run.times), rtol=1e-9)


@pytest.mark.parametrize(
    ("norm", "times"),
    [
        ("post_ln", (8, 16)),
        ("ngpt", (10, 20)),
        ("sqrt_scaling", (300, 900)),
        ("pre_ln", (1e5, 1e6)),
        ("peri_ln", (1e5, 1e6)),
        ("mix_ln", (1e5, 1e6)),
    ],
)
def test_fitted_rates(norm, times):
    """The slope of log(1-ρ) between two late times is the law's: e^{-2t}, e^{-2αt}, e^{-4√t}, 1/t²."""
    flow = tkf.Flow(tkf.Softmax(2.0), SCHEMES[norm])
    run = tkf.evolve(flow, tkf.Equiangular(rho=0.0, n=16), t=float(times[1]), save=np.array(times, float))
    fall = float(run.log_gap[0] - run.log_gap[1])
    law = float(theory.collapse_exponent(flow, times[1]) - theory.collapse_exponent(flow, times[0]))
    assert abs(fall / law - 1) < 2e-3
    expected = {"post_ln": 2 * 8, "ngpt": 2 * 0.6 * 10, "sqrt_scaling": 4 * (30 - 300**0.5)}.get(norm, 2 * np.log(10))
    assert abs(law - expected) < 1e-9


def test_usa_collapses_at_twice_e_to_the_beta():
    flow = tkf.usa(1.0)
    assert np.allclose(theory.collapse_exponent(flow, np.array([1.0, 3.0])), 2 * np.e * np.array([1.0, 3.0]))
    p, q = flow.attention.equiangular(tkf.Equiangular(log_gap=-50.0, n=7))
    assert abs(float(p + 6 * q) - np.e) < 1e-12


@pytest.mark.parametrize("norm", LAYER_NORMS)
def test_initial_speeds(norm):
    beta, n, r = 3.0, 50, 1.7
    root = np.sqrt(np.exp(2 * beta) + n - 1)
    post = 2 / (np.exp(beta) + n - 1)
    expected = {"pre_ln": post / r, "peri_ln": 2 / (r * root), "ngpt": 2 * 0.6 / root}.get(norm, post)
    speed = theory.initial_speed(tkf.Flow(tkf.Softmax(beta), SCHEMES[norm]), n, r=r)
    assert abs(float(speed) / expected - 1) < 1e-12


def test_three_regimes_of_long_context():
    for rho in (0.1, 0.5, 0.7):
        critical = 1 / (1 - rho)
        below, at, above = (float(tkf.long_context(1e16, rho, c * critical)) for c in (0.7, 1.0, 1.3))
        assert abs(below - 1) < 1e-3 and abs(at - 4 * rho / (1 + 3 * rho)) < 1e-6 and abs(above - rho) < 1e-3
    cosine = jax.vmap(lambda n: tkf.long_context(n, 0.5, 2.0))(10.0 ** jnp.arange(2, 17, 2))
    assert np.all(np.diff(abs(np.asarray(cosine) - 0.8)) < 1e-9), "the limit is approached from n = 100 to 10¹⁶"


def test_long_context_is_the_layer_on_tokens():
    n, rho, gamma = 40, 0.3, 1.2
    x = np.linalg.cholesky((1 - rho) * np.eye(n) + rho)
    a = np.asarray(tkf.Softmax(gamma * np.log(n))(tkf.Tokens(x)))
    cosine = a[0] @ a[1] / np.linalg.norm(a[0]) / np.linalg.norm(a[1])
    assert abs(float(tkf.long_context(n, rho, gamma)) - cosine) < 1e-13


def test_huge_numbers_of_tokens():
    """At β = 0, n = 10¹⁶ and ρ(0) = 0 the equation is logistic, (1+nρ)/(1-ρ) = e^{2t}: ρ keeps its digits near 1e-16."""
    run = tkf.evolve(tkf.sa(0.0), tkf.Equiangular(rho=0.0, n=1e16), t=30.0, save=7)
    exact = np.expm1(2 * np.asarray(run.times)) / (1e16 + np.exp(2 * np.asarray(run.times)))
    assert np.allclose(np.asarray(run.rho), exact, rtol=1e-7, atol=0)
    late = tkf.evolve(tkf.sa(30.0), tkf.Equiangular(rho=0.0, n=1e16), t=40.0, save=2)
    assert late.status.ok and float(late.rho[-1]) > 0.99


def test_a_regular_simplex_rests():
    run = tkf.evolve(tkf.sa(2.0), tkf.Equiangular(rho=-0.25, n=5), t=50.0, save=3)
    assert np.array_equal(np.asarray(run.rho), np.full(3, -0.25))


@pytest.mark.slow
def test_batches_and_gradients():
    final = lambda beta, n: tkf.evolve(tkf.sa(beta), tkf.Equiangular(rho=0.0, n=n), t=1.0, save=1, rtol=1e-9).log_gap[
        -1
    ]
    grads = jax.jit(jax.vmap(jax.grad(final)))(jnp.array([1.0, 2.0]), jnp.array([10.0, 1e6]))
    step = 1e-5
    numeric = [(final(b + step, n) - final(b - step, n)) / (2 * step) for b, n in ((1.0, 10.0), (2.0, 1e6))]
    assert np.allclose(grads, numeric, rtol=1e-4)


def test_conversions_and_words():
    mu = tkf.Equiangular(rho=0.25, n=4, r=2.0)
    assert np.allclose(mu.tokens().gram, 4 * (0.75 * np.eye(4) + 0.25))
    assert "rho=0.25" in repr(mu) and "1-1e-20" in repr(tkf.Equiangular(gap=1e-20, n=3))
    assert float(mu.spread) == pytest.approx(np.linalg.norm(mu.tokens().x - mu.tokens().mean, axis=1)[0])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tkf.Equiangular(rho=0.0), "need their number"),
        (lambda: tkf.Equiangular(n=5), "Give the angle once"),
        (lambda: tkf.Equiangular(rho=1.0, n=5), "need ρ < 1"),
        (lambda: tkf.Equiangular(rho=-0.5, n=5), "no such vectors"),
        (lambda: tkf.Equiangular(rho=0.0, n=1), "2 or more"),
        (lambda: tkf.Equiangular(rho=0.0, n=2.5), "whole number"),
        (lambda: tkf.Equiangular(rho=0.0, n=5, r=0.0), "must be positive"),
        (
            lambda: tkf.evolve(tkf.sa(1.0, V=np.diag([1.0, 2.0])), tkf.Equiangular(rho=0.0, n=5), t=1.0),
            "multiples of the identity",
        ),
        (lambda: tkf.evolve(tkf.sa(1.0, kappa=2.0), tkf.Equiangular(rho=0.0, n=5), t=1.0), "noise"),
        (
            lambda: tkf.evolve(tkf.Flow(tkf.Causal(tkf.Softmax()), tkf.PostLN()), tkf.Equiangular(rho=0.0, n=5), t=1.0),
            "Causal",
        ),
        (
            lambda: tkf.evolve(tkf.Flow(tkf.Softmax(), tkf.TraceNorm()), tkf.Equiangular(rho=0.0, n=5), t=1.0),
            "TraceNorm",
        ),
        (
            lambda: tkf.evolve(
                tkf.Flow(tkf.Softmax(), tkf.PostLN(gain=[1.0, 2.0])), tkf.Equiangular(rho=0.0, n=5), t=1.0
            ),
            "gain",
        ),
        (lambda: theory.collapse_exponent(tkf.Flow(tkf.Softmax()), 1.0), "schemes on directions"),
    ],
)
def test_refusals(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_every_scheme_is_here():
    assert set(SCHEMES) | {"trace_norm"} == set(normalization.KINDS)
