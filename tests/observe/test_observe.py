"""Observables against brute force and closed forms, of one state and of runs."""

import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield import observe

rng = np.random.default_rng(9)
X = rng.normal(size=(25, 4))
W = rng.uniform(0.5, 2, 25)
W /= W.sum()
MU = tkf.Tokens(X, W)
RUN = tkf.evolve(tkf.sa(3.0), MU, t=3.0, save=6)


@pytest.mark.parametrize(
    "of",
    [
        lambda m: observe.energy(m, 3.0),
        observe.overlaps,
        observe.mean_overlap,
        observe.order_parameter,
        observe.effective_rank,
        lambda m: observe.attention_matrix(m, tkf.sa(3.0)),
        lambda m: observe.overlap_histogram(m, bins=10).share,
        lambda m: [len(c) for c in observe.clusters(m)] if isinstance(m, tkf.Trajectory) else len(observe.clusters(m)),
    ],
)
def test_of_a_run_is_of_each_state(of):
    whole = of(RUN)
    assert len(whole) == 6
    for i in range(6):
        assert np.allclose(whole[i], of(RUN[i]), rtol=1e-12, atol=1e-14)


def test_energy_of_densities_without_temperature():
    """At β = 0 the energy is |∫x dμ|²/2, of densities as of tokens; and it is the limit of E_β - 1/(2β)."""
    wave = tkf.CircleDensity.wave(0.4, degree=8)
    assert float(observe.energy(wave, 0.0)) == pytest.approx(0.5 * 0.2**2, rel=1e-12)  # R = amplitude/2
    assert float(observe.energy(wave, 1e-4)) - 1 / 2e-4 == pytest.approx(0.02, abs=1e-4)
    assert float(observe.energy(tkf.SphereDensity.uniform(4), 0.0)) == 0.0


def test_energy():
    direct = np.einsum("i,j,ij->", W, W, np.exp(0.7 * X @ X.T)) / 1.4
    assert float(observe.energy(MU, 0.7)) == pytest.approx(direct, rel=1e-12)
    assert float(observe.energy(MU, 0.7, scaled=True)) == pytest.approx(direct * np.exp(-0.7), rel=1e-12)
    assert float(observe.energy(MU, 0.0)) == pytest.approx(0.5 * np.sum((W @ X) ** 2), rel=1e-12)
    one = tkf.Tokens(np.tile([1.0, 0, 0], (4, 1)))
    assert float(2e4 * observe.energy(one, 1e4, scaled=True)) == pytest.approx(1.0, rel=1e-12)


def test_overlaps_and_their_histogram():
    θ = X / np.linalg.norm(X, axis=1, keepdims=True)
    upper = np.triu_indices(25, 1)
    assert np.allclose(observe.overlaps(MU), (θ @ θ.T)[upper])
    share, edges = observe.overlap_histogram(MU, bins=17)
    weights = np.outer(W, W)[upper]
    direct, _ = np.histogram((θ @ θ.T)[upper], bins=edges, weights=weights)
    assert np.allclose(share, direct / weights.sum()) and share.sum() == pytest.approx(1)
    assert float(observe.mean_overlap(MU)) == pytest.approx(float((θ @ θ.T)[upper] @ weights / weights.sum()))
    same = observe.overlap_histogram(tkf.Tokens(np.tile([1.0, 0.0], (600, 1))), bins=4).share
    assert same.tolist() == [0, 0, 0, 1], "one is in the last bin; blocks of rows join"


def test_order_parameter():
    θ = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert float(observe.order_parameter(MU)) == pytest.approx(np.linalg.norm(W @ θ))


def test_clusters_are_balls_around_tokens_with_most_about_them():
    """By the definition, word for word: in loops over all pairs, in any order of the tokens."""
    mu = tkf.Tokens(X, W)
    θ = X / np.linalg.norm(X, axis=1, keepdims=True)
    apart = np.linalg.norm(θ[:, None] - θ, axis=2)
    near = apart <= 2 * np.sin(0.6 / 2)
    left, leaders = set(range(len(X))), []
    while left:
        leaders.append(max(sorted(left), key=lambda i: round(float(W[near[i]].sum()), 12)))
        left -= set(np.flatnonzero(near[leaders[-1]]).tolist())
    expected = np.argmin(apart[:, leaders], axis=1)
    found = observe.clusters(mu, angle=0.6)
    assert len(found) == len(leaders) > 3
    assert len({*zip(expected.tolist(), found.labels.tolist(), strict=True)}) == len(leaders), "the same partition"
    assert np.all(np.diff(found.weights) <= 0) and found.sizes.sum() == len(X)
    assert np.allclose(np.linalg.norm(found.centres, axis=1), 1)
    order = np.random.default_rng(1).permutation(len(X))
    assert np.array_equal(observe.clusters(tkf.Tokens(X[order], W[order]), angle=0.6).sizes, found.sizes)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_clusters_of_many_tokens(d, monkeypatch):
    """Neighbours found by a tree are those of all pairs."""
    mu = tkf.Tokens(np.random.default_rng(d).normal(size=(1500, d)))
    for reach in (1e-3, 0.04, 0.2):
        pairs = observe.clusters(mu, distance=reach)
        monkeypatch.setattr(observe.clustering, "MANY", 0)
        tree = observe.clusters(mu, distance=reach)
        monkeypatch.undo()
        assert np.array_equal(pairs.labels, tree.labels)


def test_a_uniform_cloud_is_no_cluster():
    """Where neighbours are closer than the angle everywhere, chains of them would reach around the sphere. So many balls of
    0.1 rad cover it: at least its area over theirs, 400."""
    cloud = observe.clusters(tkf.Tokens.uniform_sphere(5000, 3, seed=1))
    assert 400 < len(cloud) < 1000 and cloud.weights[0] < 0.01


def test_clusters_far_from_the_origin_and_very_close():
    far = 1e8 * np.array([1.0, 2, 3]) + np.arange(20)[:, None] * np.array([1.0, 0, 0])
    assert len(observe.clusters(tkf.Tokens(far), distance=0.1)) == 20
    pairs = np.repeat(np.asarray(tkf.Tokens.uniform_sphere(4, 3).x), 2, axis=0)
    assert len(observe.clusters(tkf.Tokens(pairs), angle=1e-8)) == 4


def test_cluster_centres_weights_and_distance():
    x = [[1.0, 0.0], [1.0, 0.02], [0.0, 3.0], [5.0, 0.0]]
    found = observe.clusters(tkf.Tokens(x, [0.1, 0.1, 0.2, 0.6]))
    assert (
        found.labels.tolist() == [0, 0, 1, 0]
        and found.sizes.tolist() == [3, 1]
        and np.allclose(found.weights, [0.8, 0.2])
    )
    apart = observe.clusters(tkf.Tokens(x, [0.1, 0.1, 0.2, 0.6]), distance=0.5)
    assert len(apart) == 3 and np.allclose(apart.centres[0], [5, 0]) and "distance 0.5" in repr(apart)


def test_attention_matrix_of_a_run_knows_its_flow():
    P = observe.attention_matrix(RUN)
    assert P.shape == (6, 25, 25) and np.allclose(P.sum(-1), 1)
    θ = np.asarray(RUN[2].x)
    direct = np.exp(3 * θ @ θ.T) * W
    assert np.allclose(P[2], direct / direct.sum(1, keepdims=True))
    off = observe.attention_matrix(MU, tkf.sa(3.0))
    assert np.allclose(off, observe.attention_matrix(tkf.Tokens(MU.directions, W), tkf.Softmax(3.0))), (
        "it reads directions"
    )


def test_effective_rank():
    assert float(observe.effective_rank(tkf.Tokens(np.outer(rng.normal(size=9), [1.0, 2, 3])))) == pytest.approx(
        1, abs=1e-9
    )
    assert float(observe.effective_rank(jnp.eye(7))) == pytest.approx(7)
    σ = np.array([3.0, 1.0])
    p = σ / σ.sum()
    assert float(observe.effective_rank(np.diag(σ))) == pytest.approx(np.exp(-np.sum(p * np.log(p))))
    ranks = observe.effective_rank(tkf.evolve(tkf.sa(1.0), tkf.Tokens.orthonormal(8), t=30.0, save=4))
    assert float(ranks[0]) == pytest.approx(8) and float(ranks[-1]) == pytest.approx(1, abs=1e-3)
