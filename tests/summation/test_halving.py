"""Causal sums by halves against dense causal sums."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tests import fast_first
from tokenfield.summation import Circle, Halving, Sphere, choose, halving
from tokenfield.summation.halving import BLOCK, rounds_for
from tokenfield.summation.windows import partly, wholly

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


def test_rotary_scores_and_other_points_stay_dense():
    mu = tkf.Tokens.uniform_sphere(40, 2, seed=5)
    assert tkf.Causal(tkf.Softmax(2.0), rotary=3.0).scores(2) is None
    points = mu.x[:3]
    one = tkf.Causal(tkf.Softmax(2.0))(mu, points, s=np.array([0.1, 0.5, 1.0]))
    assert one.shape == (3, 2)


M = 1_100


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks so small that windows of a few hundred tokens have blocks of several sizes that are summed fast. No other test has as
    many tokens, so that none gets a program of these."""
    monkeypatch.setattr(halving, "BLOCK", 128)
    monkeypatch.setattr(halving, "LEAF", 64)


SPACINGS = {
    "even": np.arange(M) / M,
    "random": rng.random(M),
    "crowded": rng.random(M) ** 6,
    "two groups": np.where(np.arange(M) < M // 2, 0.01, 0.1) * rng.random(M) + 0.9 * (np.arange(M) >= M // 2),
}


@pytest.mark.parametrize("spacing", fast_first(SPACINGS, "random"))
def test_windows(spacing, small_blocks):
    """Of no token but oneself, of fewer than a block, of several blocks, and of all; weights and positions are irregular."""
    w = rng.random(M)
    mu = tkf.Tokens(tkf.Tokens.uniform_sphere(M, 2, seed=11).x, w / w.sum(), s=SPACINGS[spacing])
    for window in (0.0, 1e-3, 0.4, 2.0):
        causal = tkf.Causal(tkf.Softmax(9.0), window=window)
        assert worst(*(np.asarray(causal(mu, summation=name)) for name in ("circle", "dense"))) < 1e-13


def test_windows_are_summed_fast_and_know_their_errors(small_blocks):
    """Without the guard: every row's error is below what is said of it, and that is far below its total."""
    x, τ = tkf.Tokens.uniform_sphere(M, 2, seed=12).x, jnp.sort(jnp.asarray(rng.random(M)))
    sums, parts = Halving(Circle(9.0), τ, jnp.asarray(0.45)), (9.0 * x, x, x, jnp.full(M, 1 / M))
    found, error, reaches = sums.in_windows(*parts, jnp.zeros(M), τ)
    exact = sums.other.exponential(*parts)
    off = abs(found.total * jnp.exp(found.shift - exact.shift) - exact.total)
    noise = 1e-14 * exact.total  # of dense sums of a thousand terms
    assert bool(reaches) and np.all(off < error * np.exp(found.shift - exact.shift) + noise)
    assert np.all(error[M // 2 :] > 0) and np.all(error < 1e-10 * found.total)


def test_lonely_tokens_of_windows_are_as_accurate_as_the_crowd(small_blocks):
    θ = 0.02 * rng.normal(size=M)
    lonely = np.array([3, 300, M // 2, M - 1])
    θ[lonely] = np.pi + 0.3 * np.arange(len(lonely))
    mu = tkf.Tokens(np.stack([np.cos(θ), np.sin(θ)], axis=1))
    causal = tkf.Causal(tkf.Softmax(100.0), window=0.6)
    assert worst(*(np.asarray(causal(mu, summation=name)) for name in ("circle", "dense"))) < 1e-9


def test_tokens_of_windows_that_share_a_position(small_blocks):
    s = np.arange(M) // 2 / M
    mu = tkf.Tokens(tkf.Tokens.uniform_sphere(M, 2, seed=2).x, s=s)
    causal = tkf.Causal(tkf.Softmax(4.0), window=0.2)
    assert worst(*(np.asarray(causal(mu, summation=name)) for name in ("circle", "dense"))) < 1e-12


@pytest.mark.parametrize("kind", [tkf.Softmax, tkf.Unnormalized])
@pytest.mark.parametrize("options", [{"alibi": 500.0}, {"alibi": -4.0, "window": 0.5}])
def test_alibi_is_a_bias(kind, options):
    causal, mu = tkf.Causal(kind(4.0), **options), tkf.Tokens.uniform_sphere(N, 3, seed=13)
    one, other = (np.asarray(causal(mu, summation=name)) for name in ("sphere", "dense"))
    assert worst(one, other) < 1e-10 * np.max(np.linalg.norm(other, axis=1))


@pytest.mark.parametrize("block", [1, 2, 4])
def test_every_pair_of_a_window_is_in_one_list(block):
    """By counting, of positions at random and of the worst ones, in which lists are longest."""
    n = 64
    jumps = np.repeat(np.arange(0, n, 8), 8)
    for first in (*(np.sort(rng.integers(0, n, n)) for _ in range(20)), jumps, np.zeros(n, int), np.arange(n)):
        first = jnp.asarray(np.minimum(first, np.arange(n)))
        counted = np.zeros((n, n), int)
        size = block
        found = partly(first, block)
        while True:
            assert int(found.there.sum()) < len(found.there)  # so none was cut off
            for i, j, there in zip(*map(np.asarray, found), strict=True):
                counted[i * size : (i + 1) * size, j * size : (j + 1) * size] += there
            if size == block and found.keys.shape[0] == 4 * (n // block):
                seen = np.tri(n, dtype=bool) & (np.arange(n) >= np.asarray(first)[:, None])
                counted = counted * seen  # these blocks are masked
                found = wholly(first, size)
                continue
            if 2 * size == n:
                break
            size *= 2
            found = wholly(first, size)
        assert np.array_equal(counted, seen.astype(int))


@pytest.mark.slow
def test_gradients_of_windows(small_blocks):
    mu, probe = tkf.Tokens.uniform_sphere(M, 2, seed=4), jnp.asarray(rng.normal(size=(M, 2)))
    fast = lambda x, sums: jnp.sum(probe * sums.exponential(9.0 * x, x, x, jnp.full(M, 1 / M)).average)
    windows = Halving(Circle(9.0), jnp.arange(M) / M, jnp.asarray(0.4))
    along = jnp.stack([-mu.x[:, 1], mu.x[:, 0]], axis=1)
    slopes = [jnp.sum(along * jax.grad(fast)(mu.x, sums), axis=1) for sums in (windows, windows.other)]
    assert np.max(abs(slopes[0] - slopes[1])) < 1e-9 * np.max(abs(slopes[1]))


def test_short_windows_choose_dense_sums():
    mu = tkf.Tokens.uniform_sphere(100_000, 2, seed=6)
    chosen = lambda **options: tkf.Flow(tkf.Causal(tkf.Softmax(9.0), **options), tkf.PostLN()).summation(
        mu, None, None, 1e-9
    )
    assert isinstance(chosen(window=0.3), Circle) and isinstance(chosen(alibi=1.0), Circle)
    assert chosen(window=0.001).exact
    heads = tkf.MultiHead([tkf.Causal(tkf.Softmax(2.0), window=w) for w in (0.1, 0.2)])
    assert abs(heads.seen(mu) - 0.2 * mu.n * 0.9) < 2  # the first fifth sees less
    assert tkf.Causal(tkf.Softmax(2.0)).seen(mu) is None


def test_causal_heads():
    """Their sums are by halves, too, and at other points they are dense."""
    heads = tkf.MultiHead([tkf.Causal(tkf.Softmax(2.0)), tkf.Causal(tkf.Softmax(5.0))])
    mu = tkf.Tokens.uniform_sphere(N, 2, seed=8)
    assert (
        heads.halved
        and worst(np.asarray(heads(mu, summation="circle")), np.asarray(heads(mu, summation="dense"))) < 1e-12
    )
    flow = tkf.Flow(heads, tkf.PostLN())
    assert flow.summation(mu, mu.x[:3], None, 1e-9).exact


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
