"""Causal sums by halves against dense causal sums."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.summation import Circle, Halving, Sphere, choose
from tokenfield.summation.halving import BLOCK, rounds_for

rng = np.random.default_rng(5)
N = 3 * BLOCK + 77


def fields(attention, mu, summation):
    """By halves and densely."""
    causal = tkf.Causal(attention)
    return np.asarray(causal(mu, summation=summation)), np.asarray(causal(mu, summation="dense"))


def worst(one, other):
    return np.max(np.linalg.norm(one - other, axis=1))


@pytest.mark.parametrize("kind", [tkf.Softmax, tkf.Unnormalized])
@pytest.mark.parametrize(("d", "summation", "beta"), [(2, "circle", 1.0), (2, "circle", 100.0), (3, "sphere", 9.0)])
def test_on_spheres(d, summation, kind, beta):
    w = rng.random(N)
    mu = tkf.Tokens(tkf.Tokens.uniform_sphere(N, d, seed=1).x, w / w.sum(), s=rng.permutation(N) / N)
    one, other = fields(kind(beta), mu, summation)
    assert worst(one, other) < 1e-12 * np.max(np.linalg.norm(other, axis=1))


def test_in_the_plane():
    mu = tkf.Tokens(0.5 * rng.normal(size=(N, 2)))
    assert worst(*fields(tkf.Softmax(1.0), mu, "euclidean")) < 1e-9


def test_lonely_tokens_are_as_accurate_as_the_crowd():
    """A few tokens on the other side of the circle, early, in the middle and late, beside a crowd."""
    θ = 0.02 * rng.normal(size=N)
    lonely = np.array([3, BLOCK // 2, BLOCK + 5, N // 2, N - 2, N - 1])
    θ[lonely] = np.pi + 0.3 * np.arange(len(lonely))
    mu = tkf.Tokens(np.stack([np.cos(θ), np.sin(θ)], axis=1))
    for beta in (9.0, 100.0):
        one, other = fields(tkf.Softmax(beta), mu, "circle")
        assert np.max(np.linalg.norm(one - other, axis=1)) < 1e-9


def test_tokens_that_share_a_position_see_each_other():
    s = np.arange(N) / N
    s[BLOCK + 40 : BLOCK + 60] = s[BLOCK + 40]  # across the cut between two halves
    mu = tkf.Tokens(tkf.Tokens.uniform_sphere(N, 2, seed=2).x, s=s)
    assert worst(*fields(tkf.Softmax(4.0), mu, "circle")) < 1e-12


def test_first_tokens_see_few():
    mu = tkf.Tokens.uniform_sphere(N, 2, seed=3)
    found = tkf.Causal(tkf.Softmax(9.0))(mu, summation="circle")
    assert np.allclose(found[0], mu.x[0], atol=1e-14)


def test_gradients():
    mu = tkf.Tokens.uniform_sphere(N, 2, seed=4)
    probe = jnp.asarray(rng.normal(size=(N, 2)))
    τ = jnp.arange(N) / N
    fast = lambda x, sums: jnp.sum(probe * sums.exponential(9.0 * x, x, x, jnp.full(N, 1 / N)).average)
    halves = Halving(Circle(9.0), τ)
    along = jnp.stack([-mu.x[:, 1], mu.x[:, 0]], axis=1)  # series know the circle only
    slopes = [jnp.sum(along * jax.grad(fast)(mu.x, sums), axis=1) for sums in (halves, halves.other)]
    assert np.max(abs(slopes[0] - slopes[1])) < 1e-9 * np.max(abs(slopes[1]))


def test_windows_biases_and_other_points_stay_dense():
    mu = tkf.Tokens.uniform_sphere(40, 2, seed=5)
    for causal in (tkf.Causal(tkf.Softmax(2.0), window=0.3), tkf.Causal(tkf.Softmax(2.0), alibi=1.0)):
        assert causal.scores(2) is None
    points = mu.x[:3]
    one = tkf.Causal(tkf.Softmax(2.0))(mu, points, s=np.array([0.1, 0.5, 1.0]))
    assert one.shape == (3, 2)


def test_many_tokens_choose_halves_and_few_do_not():
    flow = tkf.Flow(tkf.Causal(tkf.Softmax(9.0)), tkf.PostLN())
    many, few = (tkf.Tokens.uniform_sphere(n, 2, seed=6) for n in (100_000, 500))
    assert isinstance(flow.summation(many, None, None, 1e-9), Circle)
    assert flow.summation(few, None, None, 1e-9).exact
    sphere = tkf.Tokens.uniform_sphere(100_000, 3, seed=6)
    assert isinstance(flow.summation(sphere, None, None, 1e-9), Sphere)
    assert choose("dense").halves is False and rounds_for(100_000) == 7


def test_a_run_by_halves_is_the_dense_run():
    flow, mu = tkf.Flow(tkf.Causal(tkf.Softmax(9.0)), tkf.PostLN()), tkf.Tokens.uniform_sphere(BLOCK + 300, 2, seed=7)
    fast, dense = (tkf.evolve(flow, mu, t=1.0, save=3, summation=name, rtol=1e-8) for name in ("circle", "dense"))
    assert np.max(abs(fast.x - dense.x)) < 1e-8
