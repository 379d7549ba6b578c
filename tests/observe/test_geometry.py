"""Radii, hemispheres and ranks against closed forms and a linear programme."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

import tokenfield as tkf
from tokenfield import observe
from tokenfield.errors import InputError

rng = np.random.default_rng(4)


def test_the_radius_is_that_of_the_farthest_token_at_every_time():
    mu = tkf.Tokens(rng.normal(size=(9, 3)))
    run = tkf.evolve(tkf.Flow(tkf.Softmax(1.0), tkf.Free()), mu, t=1.0, save=4)
    expected = np.linalg.norm(run.x, axis=-1).max(axis=-1)
    assert np.allclose(observe.support_radius(run), expected, rtol=1e-14)
    assert np.all(expected <= expected[0] * np.exp(run.times) * (1 + 1e-6)), "R₀ exp ∫‖V‖"
    assert np.allclose(jax.vmap(lambda x: observe.support_radius(tkf.Tokens(x)))(run.x), expected)


def test_tokens_without_weight_have_no_part_in_the_support():
    starts = [tkf.Tokens([[1.0, 0.0], [0.0, 3.0], [0.0, 1.0]]), tkf.Tokens([[0.5, 0.0], [0.0, 0.5]])]
    runs = tkf.evolve(tkf.Flow(tkf.Softmax(0.0, V=0.0), tkf.Free()), starts, t=1.0, save=2)
    assert observe.support_radius(runs).tolist() == [[3.0, 3.0], [0.5, 0.5]]
    far = tkf.Tokens(np.array([[1e200, 1e200]]))
    assert float(observe.support_radius(far)) == pytest.approx(np.sqrt(2) * 1e200)


def test_the_support_of_a_gaussian_has_no_radius():
    with pytest.raises(InputError, match=r"has no radius.*mu\.spread"):
        observe.support_radius(tkf.Gaussian([0.0], [[1.0]]))


def programme(θ):
    """The margin of the best p with |p|_∞ ≤ 1, whose sign decides."""
    n, d = θ.shape
    sides = np.hstack([-θ, np.ones((n, 1))])
    return -linprog(np.append(np.zeros(d), -1.0), sides, np.zeros(n), bounds=[(-1, 1)] * d + [(None, 1)]).fun


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_a_hemisphere_is_found_exactly_where_a_linear_programme_finds_one(d):
    decided = set()
    for _ in range(25):
        x = rng.normal(size=(int(rng.integers(1, 3 * d + 2)), d))
        mu = tkf.Tokens(x)
        θ = np.asarray(mu.directions)
        found = observe.hemisphere(mu)
        assert found.exists == (programme(θ) > 1e-7)
        assert np.all(found.certificate >= 0) and found.certificate.sum() == pytest.approx(1.0)
        assert abs(found.gap) < 1e-12, "pole and certificate prove each other"
        short = np.linalg.norm(found.certificate @ θ)
        if found.exists:
            assert np.linalg.norm(found.pole) == pytest.approx(1.0)
            assert np.min(θ @ found.pole) == pytest.approx(found.margin) == pytest.approx(short)
        else:
            assert short < 1e-14 and found.pole is None and found.margin == 0
        decided.add(found.exists)
    assert decided == {True, False}


def test_the_margin_is_euclidean():
    """On the circle it is the cosine of half the arc; of equiangular tokens the length of their mean."""
    angles = np.array([0.3, 1.1, 0.7, 2.2])
    found = observe.hemisphere(tkf.Tokens(np.stack([np.cos(angles), np.sin(angles)], axis=1)))
    assert found.margin == pytest.approx(np.cos((2.2 - 0.3) / 2), rel=1e-13)
    assert np.arctan2(*found.pole[::-1]) == pytest.approx(1.25)
    equal = observe.hemisphere(tkf.Tokens.equiangular(7, rho=0.2))
    assert equal.margin == pytest.approx(np.sqrt((1 + 6 * 0.2) / 7), rel=1e-12)


@pytest.mark.parametrize("tilt", [1e-4, 1e-8, 0.0, -1e-8, -1e-4])
def test_narrow_hemispheres_are_decided(tilt):
    """Three tokens that almost hold each other in balance."""
    angles = np.array([0.0, np.pi - 1.0, np.pi + tilt])
    mu = tkf.Tokens(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    found = observe.hemisphere(mu)
    assert found.exists == (tilt < 0)
    assert found.margin == pytest.approx(np.sin(max(-tilt, 0.0) / 2), rel=1e-3, abs=1e-18)


def test_hemispheres_of_runs_and_of_many_tokens():
    run = tkf.evolve(tkf.sa(1.0), tkf.Tokens.uniform_sphere(6, 3, seed=0), t=12.0, save=5)
    margins = [one.margin for one in observe.hemisphere(run)]
    assert len(margins) == 5 and margins[-1] > 0.999, "all tokens have met"
    many = observe.hemisphere(tkf.Tokens.uniform_sphere(20_000, 3, seed=1))
    assert (
        not many.exists
        and np.linalg.norm(many.certificate @ np.asarray(tkf.Tokens.uniform_sphere(20_000, 3, seed=1).x)) < 1e-12
    )
    runs = tkf.evolve(tkf.sa(1.0), [tkf.Tokens.uniform_sphere(6, 3, seed=k) for k in (0, 1)], t=1.0, save=3)
    assert observe.hemisphere(runs).shape == (2,) and len(observe.hemisphere(runs)[1]) == 3


def test_numerical_ranks():
    a, b = rng.normal(size=(12, 3)), rng.normal(size=(3, 8))
    assert int(observe.numerical_rank(a @ b)) == 3 == int(observe.numerical_rank(tkf.Tokens(a @ b)))
    almost = a @ b + 1e-6 * rng.normal(size=(12, 8))
    assert int(observe.numerical_rank(almost)) == 8 and int(observe.numerical_rank(almost, tolerance=1e-4)) == 3
    assert observe.numerical_rank(np.zeros((2, 4, 4))).tolist() == [0, 0]
    assert int(observe.numerical_rank(1e300 * np.ones((4, 4)))) == 1
    cov = np.diag([1.0, 1e-3, 1e-12])
    assert int(observe.numerical_rank(tkf.Gaussian(np.zeros(3), cov))) == 2
    batch = jnp.stack([jnp.eye(4), jnp.ones((4, 4))])
    assert jax.vmap(observe.numerical_rank)(batch).tolist() == [4, 1]
    with pytest.raises(InputError, match=r"must lie in \[0, 1\), but is 2"):
        observe.numerical_rank(tkf.Tokens(np.eye(2)), tolerance=2.0)


def test_the_rank_of_a_run_of_a_gaussian_falls():
    """Σ = (Σ₀⁻¹ - tM)⁻¹ loses the directions in which M is negative."""
    Q = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    flow = tkf.Flow(tkf.Softmax(Q=Q, K=-Q), tkf.Free())
    run = tkf.evolve(flow, tkf.Gaussian(np.zeros(3), np.eye(3)), t=1e5, save=3)
    assert observe.numerical_rank(run, tolerance=1e-4).tolist() == [3, 1, 1]
