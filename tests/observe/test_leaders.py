"""Leaders and entropies of attention matrices against brute force and the theorem on the line."""

import itertools

import jax
import numpy as np
import pytest
from scipy.stats import entropy

import tokenfield as tkf
from tokenfield import observe
from tokenfield.errors import InputError

rng = np.random.default_rng(2)
W = np.array([0.1, 0.2, 0.3, 0.4])


def nearest_boolean(P, allowed):
    """The distance to all matrices of unit rows e_j, j allowed, but for one row that is P's own."""
    n = len(P)
    unit = np.eye(n)
    best = np.inf
    for rows in itertools.product(allowed, repeat=n):
        squares = np.sum((P - unit[list(rows)]) ** 2, axis=1)
        best = min(best, squares.sum() - squares.max())
    return np.sqrt(best)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_leaders_against_all_boolean_matrices(d):
    for _ in range(3):
        mu = tkf.Tokens(rng.normal(size=(4, d)), W)
        found = observe.leaders(tkf.Softmax(2.0), mu)
        P = np.asarray(observe.attention_matrix(mu, tkf.Softmax(2.0)))
        ends = (int(np.argmin(mu.x[:, 0])), int(np.argmax(mu.x[:, 0])))
        assert float(found.distance) == pytest.approx(nearest_boolean(P, ends if d == 1 else range(4)), rel=1e-12)
        assert found.followed.tolist() == P.argmax(axis=1).tolist()
        assert np.allclose(found.held, W @ P) and float(found.held.sum()) == pytest.approx(1.0)
        assert set(found.indices) == set(P.argmax(axis=1)) and np.all(np.diff(found.held[found.indices]) <= 0)


def test_on_the_line_the_attention_matrix_tends_to_rank_two():
    """[geshkovski2023, Theorem 2.1]: the two outermost tokens lead, and the distance falls doubly exponentially."""
    x = np.sort(rng.normal(size=20))[:, None]
    run = tkf.evolve(tkf.Flow(tkf.Softmax(1.0), tkf.Free()), tkf.Tokens(x), t=4.5, save=10)
    found = observe.leaders(run)
    assert set(found.indices[-1]) == {0, 19}
    fall = -np.log(found.distance)
    assert np.all(np.diff(found.distance) < 0) and float(found.distance[-1]) < 1e-12
    assert fall[-1] - fall[-2] > 2 * (fall[-3] - fall[-4]) > 0, "faster than exponentially"
    P = observe.attention_matrix(run)[-1]
    assert (
        int(observe.numerical_rank(P, tolerance=1e-6)) <= 3
        and int(observe.numerical_rank(P[1:-1], tolerance=1e-6)) <= 3
    )
    away = tkf.evolve(tkf.Flow(tkf.Softmax(1.0, V=-1.0), tkf.Free()), tkf.Tokens(x), t=4.5, save=2)
    assert float(observe.leaders(away).distance[-1]) > 1, "with V < 0 there is no such limit"


def test_entropies_against_scipy():
    mu = tkf.Tokens(rng.normal(size=(4, 3)), W)
    for attention in (tkf.Softmax(2.0), tkf.Unnormalized(1.0), tkf.Causal(tkf.Softmax(1.0))):
        P = np.asarray(observe.attention_matrix(mu, attention))
        found = observe.attention_entropy(attention, mu)
        assert np.allclose(found.tokens, entropy(P, axis=1), atol=1e-14)
        assert float(found.mean) == pytest.approx(W @ entropy(P, axis=1))
    assert float(found.tokens[0]) == 0.0, "the first token sees itself alone"
    share = observe.attention_entropy(tkf.Softmax(0.0), tkf.Tokens(np.eye(5)), normalized=True)
    assert np.allclose(share.tokens, 1.0) and float(share.mean) == pytest.approx(1.0)


def test_heads_runs_ensembles_and_vmap():
    heads = tkf.MultiHead([tkf.Softmax(0.0), tkf.Softmax(50.0)])
    mu = tkf.Tokens.uniform_sphere(6, 3, seed=0)
    found = observe.attention_entropy(heads, mu)
    assert found.tokens.shape == (2, 6) and np.allclose(found.tokens[0], np.log(6)) and float(found.mean[1]) < 1
    led = observe.leaders(heads, mu)
    assert led.held.shape == (2, 6) and led.distance.shape == (2,) and len(led.indices) == 2
    run = tkf.evolve(tkf.sa(4.0), mu, t=2.0, save=3)
    runs = tkf.evolve([tkf.sa(4.0), tkf.sa(1.0)], mu, t=2.0, save=3)
    for of in (observe.attention_entropy, observe.leaders):
        alone, many = of(run), of(runs)
        assert all(part.shape[0] == 3 for part in alone)
        for one, whole in zip(alone, many, strict=True):
            assert np.allclose(whole[0], one, atol=1e-6) and whole.shape == (2, *one.shape)
        mapped = jax.vmap(lambda x, of=of: of(tkf.sa(4.0), tkf.Tokens(x)))(run.x)
        assert all(np.allclose(one, other) for one, other in zip(mapped, alone, strict=True))


def test_states_are_looked_at_when_they_are():
    """In the coordinates z = e^{-tV}x attention is that of x = e^{tV}z; a β that changes is that of the state's time."""
    V = np.array([[0.6, 0.3], [-0.2, 0.4]])
    mu = tkf.Tokens(rng.normal(size=(7, 2)))
    free, moving = (
        tkf.evolve(tkf.Flow(tkf.Softmax(1.3, V=V), scheme), mu, t=2.0, save=5, rtol=1e-10)
        for scheme in (tkf.Free(), tkf.Rescaled())
    )
    for of in (observe.leaders, observe.attention_entropy, lambda run: (observe.attention_matrix(run),)):
        for one, other in zip(of(free), of(moving), strict=True):
            assert np.allclose(one, other, atol=1e-7)
    assert np.allclose(observe.leaders(free.flow, free).held, observe.leaders(free).held)
    hot = tkf.evolve(tkf.sa(lambda t: 1.0 + t), mu, t=2.0, save=5)
    for k, t in enumerate(hot.times):
        P = observe.attention_matrix(hot[k], tkf.sa(1.0 + float(t)))
        assert np.allclose(observe.attention_matrix(hot)[k], P, atol=1e-12)
        assert np.allclose(observe.attention_matrix(hot, t=t)[k], P, atol=1e-12)


def test_what_is_no_share_of_attention_is_refused():
    mu = tkf.Tokens([[1.0, 0.0], [-1.0, 0.0]])
    with pytest.raises(InputError, match="without negative entries"):
        observe.attention_entropy(tkf.Linear(1.0), mu)
    with pytest.raises(InputError, match=r"needs an attention or a flow, and tokens: for instance leaders"):
        observe.leaders(mu)
    with pytest.raises(InputError, match="a run that knows its flow"):
        observe.leaders(tkf.Trajectory.from_states(np.ones((2, 3, 2))))
