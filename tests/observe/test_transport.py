"""Wasserstein distances against linear programmes, closed forms and each other."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import ot
import pytest
import scipy.linalg

import tokenfield as tkf
from tokenfield import observe
from tokenfield.errors import InputError
from tokenfield.measures import CircleDensity, SphereDensity
from tokenfield.observe import transport
from tokenfield.observe.circle import Wave

POWERS = [1.0, 1.5, 2.0, 3.0]


def circle(θ):
    return np.stack([np.cos(θ), np.sin(θ)], axis=-1)


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def weights(rng, n, equal):
    w = np.ones(n) if equal else rng.exponential(size=n) + 1e-3
    return w / w.sum()


def programme(w, v, costs, p):
    return ot.emd2(w, v, costs**p) ** (1 / p)


@pytest.mark.parametrize("where", ["line", "circle", "plane", "sphere"])
def test_against_a_linear_programme_on_random_pairs(where):
    """A hundred pairs in all, of any sizes, weights and p; on the line and the circle nothing but sorting computes them."""
    rng = np.random.default_rng(sum(map(ord, where)))
    for k in range(25):
        n, m = rng.integers(1, 40, 2)
        w, v, p = weights(rng, n, k % 2), weights(rng, m, k % 2), rng.choice(POWERS)
        if where in ("line", "plane"):
            x, y = rng.normal(size=(n, 1 + (where == "plane"))), rng.normal(size=(m, 1 + (where == "plane"))) + 0.3
            costs, ground = np.linalg.norm(x[:, None] - y, axis=2), None
        elif where == "circle":
            a, b = rng.uniform(0, 7, n), rng.uniform(0, 7, m) * (1.0 if k % 3 else 0.3)
            costs, ground = abs((a[:, None] - b + np.pi) % (2 * np.pi) - np.pi), "geodesic"
            x, y = circle(a), circle(b)
        else:
            x, y = (unit(rng.normal(size=(size, 3))) for size in (n, m))
            costs, ground = np.arccos(np.clip(x @ y.T, -1, 1)), "geodesic"
        found = observe.wasserstein(tkf.Tokens(x, w), tkf.Tokens(y, v), p, ground=ground)
        assert float(found) == pytest.approx(programme(w, v, costs, p), abs=1e-9)


@pytest.mark.parametrize("p", POWERS)
def test_a_measure_is_at_no_distance_from_itself(p):
    """In any order, with tokens that are split in two, and however levels are rounded."""
    rng = np.random.default_rng(3)
    θ, w = rng.uniform(0, 6, 50), weights(rng, 50, False)
    split = np.append(circle(θ), circle(θ), axis=0)[::-1], np.append(0.3 * w, 0.7 * w)[::-1]
    mu, same = tkf.Tokens(circle(θ), w), tkf.Tokens(*split)
    assert float(observe.wasserstein(mu, same, p, ground="geodesic")) < 1e-12
    line, also = tkf.Tokens(θ[:, None], w), tkf.Tokens(np.append(θ, θ)[::-1, None], split[1])
    assert float(observe.wasserstein(line, also, p)) < 1e-12


def test_the_circle_is_closed():
    """Two tokens on either side of angle 0 are near; on the line of angles they would be far."""
    one, other = tkf.Tokens(circle(np.array([0.1]))), tkf.Tokens(circle(np.array([-0.1])))
    assert float(observe.wasserstein(one, other, ground="geodesic")) == pytest.approx(0.2, rel=1e-12)
    assert float(observe.wasserstein(one, other)) == pytest.approx(2 * np.sin(0.1), rel=1e-12), "the chord"


def test_gaussians():
    """The formula of Bures, its value for commuting covariances, and the limits of points."""
    rng = np.random.default_rng(1)
    (m, a), (k, b) = ((rng.normal(size=4), rng.normal(size=(4, 4))) for _ in range(2))
    one, other = a @ a.T, b @ b.T
    root = scipy.linalg.sqrtm(one)
    squared = np.sum((m - k) ** 2) + np.trace(one + other - 2 * scipy.linalg.sqrtm(root @ other @ root).real)
    found = observe.wasserstein(tkf.Gaussian(m, one), tkf.Gaussian(k, other))
    assert float(found) == pytest.approx(np.sqrt(squared), abs=1e-9)
    diagonal = observe.wasserstein(
        tkf.Gaussian([0.0, 0], np.diag([1.0, 4])), tkf.Gaussian([3.0, 0], np.diag([4.0, 16]))
    )
    assert float(diagonal) == pytest.approx(np.sqrt(9 + 1 + 4), rel=1e-14)
    assert float(observe.wasserstein(tkf.Gaussian(m, one), tkf.Gaussian(m, one))) < 1e-7
    points = observe.wasserstein(tkf.Gaussian([0.0, 0], np.zeros((2, 2))), tkf.Gaussian([3.0, 4], np.zeros((2, 2))))
    assert float(points) == pytest.approx(5.0)


def test_gaussians_vmap_and_differentiate():
    to = tkf.Gaussian([0.0, 0.0], np.eye(2))
    distance = lambda s: observe.wasserstein(tkf.Gaussian(jnp.zeros(2), s**2 * jnp.eye(2)), to)
    assert np.allclose(jax.vmap(distance)(jnp.array([2.0, 3.0])), np.sqrt(2) * np.array([1.0, 2.0]))
    assert float(jax.grad(distance)(3.0)) == pytest.approx(np.sqrt(2))


@pytest.mark.parametrize("p", POWERS)
def test_the_uniform_density_and_a_token(p):
    """Everything moves at most half a turn: W_p^p = π^p/(p+1)."""
    found = observe.wasserstein(CircleDensity.uniform(4), tkf.Tokens([[0.6, 0.8]]), p)
    assert float(found) == pytest.approx(np.pi / (p + 1) ** (1 / p), abs=2e-9)


def test_two_waves_by_their_series():
    """W_1 is the least ∫|F - G - α|: of f = 1 + a cos kθ against the uniform density, 2a/(πk)."""
    for a, k in ((0.5, 1), (0.3, 3)):
        found = observe.wasserstein(CircleDensity.wave(a, k=k), CircleDensity.uniform(8), 1)
        assert float(found) == pytest.approx(2 * a / (np.pi * k), rel=1e-9)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_densities_are_limits_of_tokens(p):
    """Tokens at the midpoints of equal masses: at W_p ≤ their spacing from the density, and at its distances from others."""
    f, g = CircleDensity.von_mises(2.0), CircleDensity.from_function(lambda θ: 2 + np.sin(θ) + np.cos(2 * θ))
    n = 4000
    tokens = [
        tkf.Tokens(circle(Wave.of(np.asarray(mu.coefficients)).quantile((np.arange(n) + 0.5) / n))) for mu in (f, g)
    ]
    fine = float(observe.wasserstein(*tokens, p, ground="geodesic"))
    assert float(observe.wasserstein(f, g, p)) == pytest.approx(fine, abs=2e-3 if p == 3 else 1e-4)
    assert float(observe.wasserstein(f, tokens[1], p)) == pytest.approx(fine, abs=2e-3 if p == 3 else 1e-4)
    assert float(observe.wasserstein(f, tokens[0], p)) < 0.03
    assert float(observe.wasserstein(g, tokens[0], p)) == float(observe.wasserstein(tokens[0], g, p))


def test_a_density_on_the_sphere_by_its_grid():
    """Tilted one way and the other: at least the distance of the means; from itself, none."""
    up, down = SphereDensity.wave(0.8, degree=6), SphereDensity.wave(-0.8, degree=6)
    found = float(observe.wasserstein(up, down, 1, ground="euclidean"))
    apart = float(np.linalg.norm(np.asarray(up.mean) - np.asarray(down.mean)))
    assert apart * (1 - 1e-12) <= found < 1.5 * apart
    assert float(observe.wasserstein(up, up)) < 1e-7
    near = float(observe.wasserstein(up, up.sample(200, seed=0)))
    assert near < float(observe.wasserstein(down, up.sample(200, seed=0)))


def test_positions_are_kept():
    """Tokens move within their position: by hand for one each, by a distance at every position for several, and never less than
    where they may leave it."""
    rng = np.random.default_rng(4)
    x, y, s = rng.normal(size=(6, 2)), rng.normal(size=(6, 2)), np.linspace(0, 1, 6)
    order = rng.permutation(6)
    one, other = tkf.Tokens(x, s=s), tkf.Tokens(y[order], s=s[order])
    found = float(observe.wasserstein(one, other, 3))
    assert found == pytest.approx(np.mean(np.linalg.norm(x - y, axis=1) ** 3) ** (1 / 3), rel=1e-12)
    assert found > float(observe.wasserstein(tkf.Tokens(x), tkf.Tokens(y), 3))
    a, b = tkf.Tokens(x, s=[0, 0, 0, 1, 1, 1]), tkf.Tokens(y, s=[1, 1, 1, 0, 0, 0])
    first, last = slice(3), slice(3, 6)
    halves = [float(observe.wasserstein(tkf.Tokens(x[i]), tkf.Tokens(y[j]))) for i, j in ((first, last), (last, first))]
    assert float(observe.wasserstein(a, b)) == pytest.approx(np.sqrt(np.mean(np.square(halves))), rel=1e-12)


def test_along_runs():
    """One value per saved time, against a measure or another run; of a batch, in its shape."""
    starts = [tkf.Tokens.uniform_sphere(n=n, d=2, seed=n) for n in (6, 9)]
    runs = tkf.evolve([tkf.sa(1.0), tkf.sa(4.0)], starts, t=1.0, save=3)
    one = runs[0, 1]
    along = observe.wasserstein(one, starts[0], 1, ground="geodesic")
    assert along.shape == (3,)
    assert float(along[2]) == float(observe.wasserstein(one[2], starts[0], 1, ground="geodesic"))
    every = observe.wasserstein(runs, starts[0])
    assert every.shape == (2, 2, 3)
    assert float(every[0, 0, 0]) < 1e-12 and float(every[1, 1, 2]) == float(
        observe.wasserstein(runs[1, 1][2], starts[0])
    )
    assert np.allclose(observe.wasserstein(one, one), 0.0)
    normal = tkf.Gaussian([1.0], [[1.0]])
    normals = normal.with_moments(jnp.array([[1.0], [2.0]]), jnp.array([[[1.0]], [[4.0]]]))
    assert np.allclose(observe.wasserstein(normals, normal), [0.0, np.sqrt(2)])
    wave = CircleDensity.wave(0.1, degree=8)
    waves = wave.with_coefficients(jnp.stack([wave.coefficients, CircleDensity.uniform(8).coefficients]))
    assert np.allclose(observe.wasserstein(waves, wave, 1), [0.0, 0.2 / np.pi])


def test_a_simplex_that_is_not_done_is_refused(monkeypatch):
    monkeypatch.setattr(transport, "ITERATIONS", 3)
    one, other = (tkf.Tokens.gaussian(60, 2, seed=seed) for seed in (0, 1))
    with pytest.raises(InputError, match=r"did not reach the optimum in 3 steps"):
        observe.wasserstein(one, other)


def test_huge_and_tiny_distances():
    for scale in (1e-200, 1e200):
        mu, nu = tkf.Tokens(scale * np.array([[0.0], [1.0]])), tkf.Tokens(scale * np.array([[2.0], [3.0]]))
        assert float(observe.wasserstein(mu, nu, 3)) == pytest.approx(2 * scale, rel=1e-12)
        plane = tkf.Tokens(scale * np.eye(2)), tkf.Tokens(scale * np.eye(2) + scale)
        assert float(observe.wasserstein(*plane)) == pytest.approx(np.sqrt(2) * scale, rel=1e-12)


LINE, PLANE = tkf.Tokens([[0.0], [1.0]]), tkf.Tokens([[0.0, 1.0], [1.0, 0.0]])


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: observe.wasserstein(LINE, PLANE), "d = 1 and the second d = 2"),
        (lambda: observe.wasserstein(tkf.Gaussian([0.0], [[1.0]]), tkf.Gaussian([0.0, 0], np.eye(2))), "one space R"),
        (lambda: observe.wasserstein(tkf.Gaussian([0.0], [[1.0]]), LINE), "compared with a Gaussian"),
        (lambda: observe.wasserstein(*[tkf.Gaussian([0.0], [[1.0]])] * 2, 1), "known for p = 2"),
        (lambda: observe.wasserstein(tkf.Equiangular(rho=0.5, n=3), PLANE), "mu.tokens"),
        (lambda: observe.wasserstein(PLANE, PLANE, 0.5), "`p` must be 1 or more"),
        (lambda: observe.wasserstein(PLANE, PLANE, ground="geodesc"), "Did you mean 'geodesic'"),
        (lambda: observe.wasserstein(tkf.Tokens([[2.0, 0.0]]), PLANE, ground="geodesic"), "token 0 has length 2"),
        (lambda: observe.wasserstein(LINE, LINE, ground="geodesic"), "needs d ≥ 2"),
        (lambda: observe.wasserstein(CircleDensity.uniform(4), PLANE, ground="euclidean"), "along the circle"),
        (lambda: observe.wasserstein(tkf.Tokens(np.eye(2), s=[0, 1]), PLANE), "positions s and the other has none"),
        (lambda: observe.wasserstein(*(tkf.Tokens(np.eye(2), s=s) for s in ([0, 1], [0, 0.5]))), "same mass at each"),
        (lambda: jax.jit(lambda x: observe.wasserstein(tkf.Tokens(x), PLANE))(np.eye(2)), "outside of jit"),
        (
            lambda: observe.wasserstein(*(tkf.evolve(tkf.sa(1.0), PLANE, 1.0, save=n) for n in (3, 4))),
            "same number of saved",
        ),
        (lambda: observe.wasserstein(SphereDensity.uniform(4, 5, True), tkf.Tokens(np.eye(5))), "zonal"),
    ],
)
def test_measures_that_do_not_go_together_are_refused(ask, sentence):
    with pytest.raises(InputError, match=sentence):
        ask()


def test_costs_that_do_not_fit_are_refused(monkeypatch):
    from tokenfield import _checks

    monkeypatch.setattr(_checks, "available_memory", lambda: float(2**26))
    with pytest.raises(InputError, match="costs between 3000 and 3000 points would take"):
        observe.wasserstein(tkf.Tokens.gaussian(3000, 2), tkf.Tokens.gaussian(3000, 2, seed=1))


@pytest.mark.slow
def test_a_hundred_thousand_tokens_on_the_circle():
    one, other = (tkf.Tokens.uniform_sphere(n=100_000, d=2, seed=seed) for seed in (0, 1))
    observe.wasserstein(one, other, ground="geodesic")
    began = time.perf_counter()
    found = observe.wasserstein(one, other, ground="geodesic")
    assert time.perf_counter() - began < 1.0 and 0 < float(found) < 0.02
