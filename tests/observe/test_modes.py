"""Modes against interval arithmetic in 50 digits, written independently, and closed forms."""

import mpmath
import numpy as np
import pytest
from mpmath import iv

import tokenfield as tkf
from tokenfield import observe
from tokenfield.errors import InputError

rng = np.random.default_rng(11)


def line(x, w, beta):
    """Enclosures of f' and f" on an interval, in 50 digits, by Taylor's formula about its middle with the third derivative on all
    of it."""
    iv.dps = 50
    scale = iv.sqrt(iv.mpf(float(beta)))
    x, w = [iv.mpf(float(a)) for a in x], [iv.mpf(float(a)) for a in w]

    def sums(y):
        first = second = third = iv.mpf(0)
        for a, b in zip(x, w, strict=True):
            u = scale * (y - a)
            e = b * iv.exp(-(u**2) / 2)
            first, second, third = first - u * e, second + (u**2 - 1) * e, third + u * (3 - u**2) * e
        return first, second, third

    def slopes(y):
        middle = iv.mpf(y.mid)
        first, second, _ = sums(middle)
        third, way = sums(y)[2], scale * (y - middle)
        return first + second * way + third * way**2 / 2, second + third * way

    return slopes


def circle(θ, w, beta):
    θ, w, beta = [iv.mpf(float(a)) for a in θ], [iv.mpf(float(a)) for a in w], iv.mpf(float(beta))

    def slopes(y):
        first, second = iv.mpf(0), iv.mpf(0)
        for a, b in zip(θ, w, strict=True):
            s, c = iv.sin(y - a), iv.cos(y - a)
            e = b * iv.exp(beta * (c - 1))
            first, second = first - s * e, second + (beta * s**2 - c) * e
        return first, second

    return slopes


def reference(slopes, low, high):
    """The modes between two places that are none, by bisection of intervals until f' or f'' has a sign on each."""
    iv.dps = 50
    waiting, found = [(mpmath.mpf(low), mpmath.mpf(high))], 0
    while waiting:
        a, b = waiting.pop()
        first, second = slopes(iv.mpf([a, b]))
        if first.a > 0 or first.b < 0:
            continue
        if second.b < 0:  # f' falls: a mode if it falls through zero
            found += slopes(iv.mpf(a))[0].a > 0 > slopes(iv.mpf(b))[0].b
            continue
        if second.a > 0:
            continue
        middle = (a + b) / 2 + (b - a) / 97
        assert b - a > mpmath.mpf(10) ** -30, "a degenerate sample"
        waiting += [(a, middle), (middle, b)]
    return found


def on_the_circle(θ):
    return np.stack([np.cos(θ), np.sin(θ)], axis=1)


def grid_on_the_line(x, w, beta, points=10_000):
    y = np.linspace(x.min() - 1e-3, x.max() + 1e-3, points)
    f = np.exp(-0.5 * beta * (y[:, None] - x) ** 2) @ w
    return int(np.sum((f[1:-1] > f[:-2]) & (f[1:-1] > f[2:])))


def pairs(beta, gaps):
    """Pairs of tokens near the distance 2β^-1/2 at which a pair gets a second mode, pairs far apart."""
    starts = 12 * np.arange(len(gaps))
    y = np.concatenate([starts - np.asarray(gaps) / 2, starts + np.asarray(gaps) / 2])
    return y / np.sqrt(beta)


@pytest.mark.parametrize("beta", [1.0, 37.0])
def test_samples_that_a_grid_miscounts(beta):
    """Pairs whose two modes are too near each other for ten thousand points; 50 digits see them."""
    x, w = pairs(beta, [2 + sign * 10.0**-k for k in (3, 5, 7) for sign in (1, -1)]), np.full(12, 1 / 12)
    exact = reference(line(x, w, beta), x.min() - 0.01, x.max() + 0.01)
    found = observe.modes(tkf.Tokens(x[:, None]), beta)
    assert found.count == exact == 9 and found.doubtful == 0
    assert grid_on_the_line(x, w, beta) < exact


@pytest.mark.parametrize("seed", range(6))
def test_random_samples_on_the_line_against_fifty_digits(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    x, w = rng.normal(size=n), rng.uniform(0.01, 1.0, n)
    w, beta = w / w.sum(), 10 ** rng.uniform(0, 3)
    exact = reference(line(x, w, beta), x.min() - 1e-3, x.max() + 1e-3)
    found = observe.modes(tkf.Tokens(x[:, None], w), beta)
    assert (found.count, found.doubtful) == (exact, 0)


@pytest.mark.parametrize("seed", range(6))
def test_random_samples_on_the_circle_against_fifty_digits(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    x, w = on_the_circle(rng.uniform(-np.pi, np.pi, n)), rng.uniform(0.01, 1.0, n)
    w, beta = w / w.sum(), 10 ** rng.uniform(-2, 2)
    exact = reference(circle(np.arctan2(x[:, 1], x[:, 0]), w, beta), -np.pi, np.pi)
    found = observe.modes(tkf.Tokens(x, w), beta)
    assert (found.count, found.doubtful) == (exact, 0)


def test_places_are_zeros_of_the_derivative():
    x, w = rng.normal(size=40), np.full(40, 1 / 40)
    for beta in (5.0, 80.0, 2000.0):
        found = observe.modes(tkf.Tokens(x[:, None]), beta)
        u = found.places[:, None] - x
        e = np.exp(-0.5 * beta * u**2)
        step = np.sum(u * e, axis=1) / np.sum((beta * u**2 - 1) * e, axis=1)  # of Newton's method
        assert np.abs(step).max() * np.sqrt(beta) < 1e-10
        assert np.all((beta * u**2 - 1) * e @ w < 0)
        assert np.all(np.diff(found.places) > 0)


def test_what_two_tokens_do_is_known():
    """Equal ones have one mode to the distance 2β^-1/2, on the line; on the circle until β sin² = cos of half their angle."""
    for gap, count in ((1.9, 1), (2.1, 2), (500.0, 2)):
        assert observe.modes(tkf.Tokens([[0.0], [gap / 3]]), 9.0).count == count
    α = 0.7
    critical = np.cos(α / 2) / np.sin(α / 2) ** 2
    mu = tkf.Tokens(on_the_circle(np.array([3.0, 3.0 + α])))
    for factor, count in ((1 - 1e-6, 1), (1 + 1e-6, 2)):
        assert observe.modes(mu, factor * critical).count == count
    assert observe.modes(mu, 0.99 * critical).places == pytest.approx([3.0 + α / 2 - 2 * np.pi])


def test_degenerate_modes_are_doubtful():
    at = observe.modes(tkf.Tokens([[-1.0], [1.0]]), 1.0)
    assert at.count == 1 and at.doubtful == 1 and repr(at) == "1 mode, 1 doubtful place"
    polygon = observe.modes(tkf.Tokens(on_the_circle(2 * np.pi * np.arange(60) / 60)), 9.0)  # ripples of e^-200
    assert polygon.doubtful >= 1 and polygon.count <= 60


def test_units_do_not_matter():
    """Modes of λx at β/λ² are those of x at β, places times λ; of rotated tokens on the circle likewise."""
    x = rng.normal(size=(30, 1))
    first = observe.modes(tkf.Tokens(x), 200.0)
    for λ in (1e-150, 1e-9, 1e9, 1e140):
        other = observe.modes(tkf.Tokens(λ * x), 200.0 / λ**2)
        assert other.count == first.count and np.allclose(other.places / λ, first.places, rtol=1e-9)
    θ = rng.uniform(-np.pi, np.pi, 30)
    counts = {observe.modes(tkf.Tokens(on_the_circle(θ + turn)), 300.0).count for turn in (0.0, 1.0, 2.5, -2.0)}
    assert len(counts) == 1


def test_far_tokens_tiny_weights_and_coinciding_ones():
    assert observe.modes(tkf.Tokens([[0.0], [1.0], [1e6]]), 1e4).count == 3
    assert observe.modes(tkf.Tokens([[0.0], [0.0], [0.0]]), 1e4).count == 1
    assert (
        observe.modes(tkf.Tokens([[0.0], [6.0]], [1 - 1e-12, 1e-12]), 1.0).count == 1
    )  # in the other's tail e^-18 there is no mode
    assert observe.modes(tkf.Tokens([[0.0], [9.0]], [1 - 1e-12, 1e-12]), 1.0).count == 2
    assert observe.modes(tkf.Tokens([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]), 1e-9).count == 1


def test_modes_of_runs():
    run = tkf.evolve(tkf.sa(9.0), tkf.Tokens.uniform_sphere(40, 2, seed=1), t=10.0, save=4)
    found = observe.modes(run, 9.0)
    assert len(found) == 4 and found[-1].count == len(observe.clusters(run.final))
    for state, one in zip(run, found, strict=True):
        θ = np.arctan2(np.asarray(state.x)[:, 1], np.asarray(state.x)[:, 0])
        y = np.linspace(-np.pi, np.pi, 4000, endpoint=False)
        f = np.exp(9.0 * np.cos(y[:, None] - θ)).sum(axis=1)
        assert one.count == np.sum((f > np.roll(f, 1)) & (f > np.roll(f, -1)))


def test_modes_in_space_are_refused():
    with pytest.raises(InputError, match=r"d = 1.*d = 2.*but these tokens have d = 3\. Project them"):
        observe.modes(tkf.Tokens(np.eye(3)), 1.0)
    with pytest.raises(InputError, match="`beta` must be positive"):
        observe.modes(tkf.Tokens([[1.0]]), 0.0)


def test_normal_samples_have_modes_of_the_order_of_the_theorem():
    """√(β log β) [geshkovski2024modes], here to a factor."""
    x = np.random.default_rng(0).normal(size=(3000, 1))
    for beta in (3000.0**0.8, 3000.0, 3000.0**1.3):
        ratio = observe.modes(tkf.Tokens(x), beta).count / np.sqrt(beta * np.log(beta))
        assert 0.3 < ratio < 1.0


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.2, 0.6, 1.0, 1.4, 1.8])
def test_a_hundred_thousand_tokens(power):
    rng = np.random.default_rng(3)
    on_line = observe.modes(tkf.Tokens(rng.normal(size=(100_000, 1))), 1e5**power)
    on_circle = observe.modes(tkf.Tokens(on_the_circle(rng.uniform(-np.pi, np.pi, 100_000))), 1e5**power)
    assert on_line.count >= 1 and on_circle.count >= 1 and on_line.doubtful == on_circle.doubtful == 0
