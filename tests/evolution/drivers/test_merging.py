"""Tokens that have met become one: mergers at the right times, however late, and nobody is lost."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

import tokenfield as tkf
from tokenfield.errors import InputError
from tokenfield.evolution.clocks import log_times
from tokenfield.evolution.drivers.groups import Ledger, Met, leaders_of
from tokenfield.evolution.drivers.merging import fewer
from tokenfield.summation import Dense


def on_circle(*angles):
    return tkf.Tokens(np.stack([np.cos(angles), np.sin(angles)], axis=1))


GAUSSIAN_DIRECTIONS = tkf.Tokens(np.random.default_rng(1).normal(size=(100, 2)))


@pytest.fixture(scope="module")
def hundred():
    return tkf.evolve(tkf.sa(9.0), GAUSSIAN_DIRECTIONS, t=1e30, coalesce=1e-4, save="log")


def test_a_hundred_tokens_reach_one_cluster(hundred):
    assert hundred.status.name == "COMPLETED" and int(hundred.steps) < 2000
    assert len(hundred.mergers) == 99 and hundred.mergers.left[-1] == 1
    assert 1e7 < hundred.mergers.t[-1] < 1e8
    assert bool(jnp.all(jnp.isfinite(hundred.x))) and hundred.final.spread < 1e-12
    assert float(hundred.reached) == 1e30


def test_merger_times_do_not_depend_on_the_radius(hundred):
    """From 1e-4 to 1e-6 a pair takes some units of time; beyond t = 10⁴ that is nothing."""
    finer = tkf.evolve(tkf.sa(9.0), GAUSSIAN_DIRECTIONS, t=1e30, coalesce=1e-6, save="log")
    ours, theirs = (run.mergers.t[run.mergers.t > 1e4] for run in (hundred, finer))
    assert len(ours) == len(theirs) == 2
    assert np.max(abs(ours / theirs - 1)) < 1e-3
    assert np.max(abs(hundred.mergers.t - finer.mergers.t)[:-2]) < 15


def test_tokens_of_one_group_are_in_one_place(hundred):
    """Labels, states and the number of groups tell the same story at all times."""
    for i in range(0, len(hundred), 9):
        t, x = float(hundred.times[i]), np.asarray(hundred.x[i])
        label = hundred.mergers.labels(t)
        assert np.array_equal(x, x[label]) and len(np.unique(label)) == hundred.mergers.groups(t)
    assert np.array_equal(hundred.states.w[-1], GAUSSIAN_DIRECTIONS.w)


def test_before_the_first_merger_nothing_differs(hundred):
    plain = tkf.evolve(tkf.sa(9.0), GAUSSIAN_DIRECTIONS, t=4.0, save=2, rtol=1e-13)
    assert hundred.mergers.t[0] > 4.0
    ours = tkf.evolve(tkf.sa(9.0), GAUSSIAN_DIRECTIONS, t=4.0, save=2, rtol=1e-13, coalesce=1e-4)
    assert np.max(abs(ours.x - plain.x)) < 1e-12


KINETIC = tkf.Tokens(
    [
        [0.99806638, 0.06215705],
        [0.97712061, 0.21268594],
        [-0.24578194, 0.96932515],
        [-0.97354734, 0.2284854],
        [-0.99892629, -0.04632772],
    ]
)


def test_mergers_are_those_of_an_uncoalesced_run():
    """The time at which the last two groups come within the radius, by a plain run with events, and the states on the way."""
    radius = 1e-4
    run = tkf.evolve(tkf.sa(4.0), KINETIC, t=400.0, coalesce=radius, save=[5.0, 50.0, 150.0], rtol=1e-9)
    plain = tkf.evolve(tkf.sa(4.0), KINETIC, t=400.0, save=[5.0, 50.0, 150.0], rtol=1e-9)
    assert np.max(abs(run.x - plain.x)) < 20 * radius**2
    last = run.mergers[-1]
    first, other = last.into, last.gone
    close = lambda t, mu: jnp.linalg.norm(mu.x[first] - mu.x[other]) < radius
    met = tkf.evolve(tkf.sa(4.0), KINETIC, t=400.0, save=2, rtol=1e-9, until=close)
    assert len(run.mergers) == 4 and last.t > 30 * run.mergers[0].t
    assert abs(last.t / float(met.reached) - 1) < 1e-3


def two(angle, w, d=2):
    x = np.zeros((2, d))
    x[0, 0], x[1, 0], x[1, -1] = 1.0, np.cos(angle), np.sin(angle)
    return tkf.Tokens(x, w=[w, 1 - w])


def meeting_time(beta, w, angle, radius):
    """Of two tokens under SA the angle obeys α' = -sin α [w₂/(w₂ + w₁g) + w₁/(w₁ + w₂g)], g = e^{β(1 - cos α)}: token 1 goes to
    token 2 at the rate sin α times attention's weight on it, and so does token 2. The time until the chord is the radius."""

    def slowness(u):
        α = np.exp(u)
        g = np.exp(beta * (1 - np.cos(α)))
        return α / (np.sin(α) * ((1 - w) / (1 - w + w * g) + w / (w + (1 - w) * g)))

    cuts = np.linspace(np.log(2 * np.arcsin(radius / 2)), np.log(angle), 40)
    return sum(quad(slowness, a, b, epsabs=0, epsrel=1e-13)[0] for a, b in pairwise(cuts))


GRID = [
    (b, w, a, r, d)
    for b in (0.5, 5.0, 12.0)
    for w in (0.3, 0.5, 0.9)
    for a in (0.3, 1.5, 2.5)
    for r in (1e-3, 1e-4, 1e-5)
    for d in (2, 3)
]
FEW = [(0.5, 0.5, 0.3, 1e-5, 2), (5.0, 0.3, 2.5, 1e-4, 2), (12.0, 0.9, 1.5, 1e-3, 3), (0.5, 0.3, 1.5, 1e-5, 3)]


@pytest.mark.parametrize("cases", [pytest.param(FEW, id="few"), pytest.param(GRID, id="grid", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("rtol", "error"), [(None, 1e-7), (1e-9, 1e-8), (1e-11, 1e-9)])
def test_two_clusters_meet_when_the_integral_says(cases, rtol, error):
    """To the tolerance, whatever β, weights, angle and radius are: 8e-8 at the usual 1e-8, 4e-9 at 1e-9 (a delay of
    e^{β(1 - cos α)} multiplies errors of the angle by β sin α)."""
    for beta, w, angle, radius, d in cases:
        run = tkf.evolve(tkf.sa(beta), two(angle, w, d), t=1e30, coalesce=radius, save=2, rtol=rtol)
        assert len(run.mergers) == 1
        assert abs(run.mergers.t[0] / meeting_time(beta, w, angle, radius) - 1) < error, (beta, w, angle, radius, d)


def test_two_that_part_do_not_delay_the_others():
    """Near e₂, the unstable axis of V, two tokens begin within the radius and part; near e₁ two others meet when they would
    alone."""
    radius, V = 1e-4, np.diag([1.0, -1.0])
    start = on_circle(np.pi / 2 - 2e-5, np.pi / 2 + 3e-5, 0.02, -0.01)
    run = tkf.evolve(tkf.sa(8.0, V=V), start, t=8.0, coalesce=radius, save=2, rtol=1e-9)
    close = lambda t, mu: jnp.linalg.norm(mu.x[2] - mu.x[3]) < radius
    met = tkf.evolve(tkf.sa(8.0, V=V), start, t=8.0, save=2, rtol=1e-12, until=close)
    first = run.mergers[0]
    assert (first.into, first.gone) == (2, 3) and abs(first.t / float(met.reached) - 1) < 1e-6


def test_each_of_two_hundred_tokens_has_its_own_time():
    """The first of many mergers does not wait for others."""
    start = tkf.Tokens.uniform_sphere(200, 2, seed=3)
    run = tkf.evolve(tkf.sa(20.0), start, t=4.0, coalesce=1e-4, save=2, rtol=1e-8)
    i, j = run.mergers[0].into, run.mergers[0].gone
    close = lambda t, mu: jnp.linalg.norm(mu.x[i] - mu.x[j]) < 1e-4
    met = tkf.evolve(tkf.sa(20.0), start, t=4.0, save=2, rtol=1e-11, until=close)
    assert abs(run.mergers[0].t / float(met.reached) - 1) < 1e-6


@pytest.mark.parametrize("beta", [4.0, 15.0, 30.0])
def test_two_tokens_meet_when_the_integral_says(beta):
    """Δ' = -2 sin Δ / (1 + e^{β(1 - cos Δ)}): the time to come from 2.5 rad to the radius, up to 10²³."""
    radius = 1e-5
    run = tkf.evolve(tkf.sa(beta), on_circle(0.0, 2.5), t=1e40, coalesce=radius, save=2, rtol=1e-10)
    chord = 2 * np.arcsin(radius / 2)
    slowness = lambda Δ: (1 + np.exp(beta * (1 - np.cos(Δ)))) / (2 * np.sin(Δ))
    expected = sum(
        quad(slowness, a, b, epsabs=0, epsrel=1e-12)[0] for a, b in ((chord, 1e-3), (1e-3, 0.1), (0.1, 1), (1, 2.5))
    )
    assert abs(run.mergers.t[0] / expected - 1) < 1e-7
    assert np.allclose(np.asarray(run.final.x), [np.cos(1.25), np.sin(1.25)], atol=1e-9)


def test_what_others_do_however_little():
    """Without its own term a token feels e^{-β(1-cos Δ)} = 1e-154 of itself to all digits; with it, rounding."""
    beta, Δ = 250.0, 2.0
    mu = on_circle(0.0, Δ)
    sums = Dense(apart=True).exponential(beta * mu.x, mu.x, mu.x, mu.w)
    kernel = np.exp(beta * (np.cos(Δ) - 1))
    assert abs(float(sums.average[0, 1]) / (kernel * np.sin(Δ) / (1 + kernel)) - 1) < 1e-12
    big = Dense(queries=16, keys=32, apart=True)
    x = tkf.Tokens.uniform_sphere(100, 3, seed=0).x
    w = jnp.full(100, 0.01)
    whole, apart = (s.exponential(4.0 * x, x, x, w) for s in (Dense(), big))
    own = w[:, None] * x * jnp.exp(4.0 - whole.shift)[:, None]
    assert np.max(abs(apart.weighted * jnp.exp(apart.shift - whole.shift)[:, None] - (whole.weighted - own))) < 1e-14
    assert np.max(abs(apart.total * jnp.exp(apart.shift - whole.shift) - whole.total)) < 1e-14


@pytest.fixture(scope="module")
def staircase():
    θ = 0.5 * np.array([0, 0.5, 2, 4, 7]) * np.log(2000) / np.sqrt(2000)
    run = lambda **how: tkf.evolve(tkf.usa(4000.0, scaled=True), on_circle(*θ), coalesce=1e-4, **how)
    return run(t=1e140, save=300, clock="log"), run(t=1.2, save=300, clock="rescaled")


def test_the_staircase_at_beta_4000(staircase):
    """The energy rests at .28, .44, .52 and 1 of one cluster's, the last merger comes near t = 10¹³², and nothing is NaN."""
    run, _ = staircase
    share = 2 * 4000.0 * np.asarray(tkf.observe.energy(run, 4000.0, scaled=True))
    assert np.all(np.isfinite(run.x)) and np.all(np.diff(share) > -1e-12)
    for plateau in (0.28, 0.44, 0.52, 1.0):
        assert np.sum(abs(share - plateau) < 1e-3) >= 10
    assert run.mergers.left[-1] == 1 and 1e131 < run.mergers.t[-1] < 1e133


def test_the_rescaled_clock(staircase):
    """Equal steps of s reach the same mergers; s and t go together; the closest pair starts at a speed of order one."""
    plain, run = staircase
    assert np.allclose(run.mergers.t, plain.mergers.t, rtol=1e-4)
    assert np.allclose(np.asarray(run.rescaled), np.linspace(0, 1.2, 300), atol=1e-12)
    assert np.all(np.diff(np.asarray(run.times)) >= 0)
    gap = 0.5 * np.min(np.linalg.norm(np.diff(np.asarray(run.x[0]), axis=0), axis=1)) ** 2
    assert abs(float(run.times[1] / run.rescaled[1]) / np.exp(4000 * gap) - 1) < 1e-9


def test_few_programs():
    """From n tokens down to one, capacities shrink at most log n times."""
    for n in (100, 5000, 10**6):
        capacity, seen = n, set()
        for count in range(n, 0, -max(1, n // 5000)):
            capacity = fewer(capacity, count)
            assert capacity >= count
            seen.add(capacity)
        assert len(seen) <= np.log2(n) + 1


def test_groups_stay_small():
    """A chain of close neighbours does not become one token; tokens that part do not merge."""
    x = np.stack([np.linspace(0, 1, 101), np.zeros(101)], axis=1)
    count = lambda *tokens: len(np.unique(leaders_of(*tokens)))
    assert count(x, np.zeros_like(x), np.full(101, 1 / 101), 0.015) > 30
    pair, away = np.array([[0.0, 0.0], [1e-6, 0.0]]), np.array([[-1.0, 0.0], [1.0, 0.0]])
    assert count(pair, away, np.full(2, 0.5), 1e-5) == 2
    assert count(pair, -away, np.full(2, 0.5), 1e-5) == 1


def test_the_ledger():
    ledger = Ledger(5)
    ledger.merge(Met.at(1.0, np.array([0, 1, 0, 3, 4])))
    ledger.merge(Met.at(2.0, np.array([0, 1, 1, 0])))
    mergers = ledger.mergers()
    assert [tuple(one) for one in mergers] == [(1.0, 0, 2, 4), (2.0, 1, 3, 3), (2.0, 0, 4, 2)]
    assert mergers.labels(1.5).tolist() == [0, 1, 0, 3, 4] and mergers.labels(2.0).tolist() == [0, 1, 0, 1, 0]


@pytest.mark.parametrize(
    ("flow", "mu", "how"),
    [
        pytest.param(
            tkf.Flow(tkf.Softmax(1.0), tkf.Rescaled()),
            tkf.Tokens(np.random.default_rng(3).uniform(-2, 2, (20, 2))),
            "euclidean",
            marks=pytest.mark.slow,
        ),
        pytest.param(tkf.sa(20.0), tkf.Tokens.uniform_sphere(300, 2, seed=1), "circle", marks=pytest.mark.slow),
        pytest.param(
            tkf.Flow(tkf.Softmax(9.0), tkf.NGPT()),
            tkf.Tokens.uniform_sphere(40, 3, seed=1),
            "sphere",
            marks=pytest.mark.slow,
        ),
        (tkf.usa(2.0), tkf.Tokens.uniform_sphere(12, 20, seed=1), "span"),
    ],
)
def test_with_every_summation(flow, mu, how):
    """The same mergers as with dense sums; n = 300 looks for neighbours through cells."""
    ours, dense = (tkf.evolve(flow, mu, t=12.0, coalesce=1e-3, save=3, summation=s) for s in (how, "dense"))
    assert how in ours.provenance.summation and len(ours.mergers) >= 4
    assert ours.mergers.left[-1] == dense.mergers.left[-1]
    # on the sphere mergers cost O(ε²); rescaled tokens freeze where they merged, within the radius
    assert np.max(abs(ours.final.x - dense.final.x)) < (1e-3 if how == "euclidean" else 1e-4)


def test_stop_watch_save_and_draw(tmp_path):
    seen, few = [], lambda t, mu: jnp.sum(mu.w > 0) <= 3
    watch = lambda t, mu: seen.append((t, mu.n))
    run = tkf.evolve(
        tkf.sa(9.0), GAUSSIAN_DIRECTIONS, t=1e9, coalesce=1e-5, save=[1.0, 5.0, 1e8], until=few, watch=watch
    )
    assert run.status.name == "STOPPED" and seen == [(1.0, 100), (5.0, 100)]
    assert 3 <= run.mergers.left[-1] <= 4 and float(run.times[-1]) == float(run.reached)
    assert "mergers" in repr(run) and "coalesce" in run.describe()
    run.save(tmp_path / "run.zarr")
    again = tkf.Trajectory.load(tmp_path / "run.zarr")
    assert again.mergers.n == 100 and np.array_equal(again.mergers.gone, run.mergers.gone)
    assert np.array_equal(again.rescaled, run.rescaled) and again.provenance.coalesce == 1e-5
    assert run.plot(tmp_path / "run.png").exists()


def test_logarithmic_times():
    run = tkf.evolve(tkf.kuramoto(), on_circle(0.0, 2.0), t=(1.0, 101.0), save=5, clock="log")
    assert np.allclose(run.times, 1.0 + log_times(100.0, 5)) and run.provenance.clock == "log"


@pytest.mark.parametrize(
    ("flow", "mu", "how", "why"),
    [
        (tkf.Flow(tkf.Softmax()), on_circle(0.0, 1.0), {}, "may part again"),
        (tkf.sa(1.0, kappa=3.0), on_circle(0.0, 1.0), {}, "noise pushes"),
        (tkf.Flow(tkf.Causal(tkf.Softmax()), tkf.PostLN()), on_circle(0.0, 1.0), {}, "more than their place"),
        (
            tkf.Flow(tkf.Unnormalized(), tkf.PostLN(), reweighting=tkf.FisherRao()),
            on_circle(0.0, 1.0),
            {},
            "reweighting",
        ),
        (tkf.sa(1.0), tkf.Equiangular(0.1, 5), {}, "is for Tokens"),
        (tkf.sa(1.0), on_circle(0.0, 1.0), {"coalesce": 1e-12}, "between"),
        (tkf.sa(1.0), on_circle(0.0, 1.0), {"clock": "sand"}, "Unknown clock"),
        (tkf.sa(1.0), on_circle(0.0, 1.0), {"coalesce": None, "clock": "rescaled"}, "needs coalesce"),
        (tkf.Flow(tkf.Sigmoid(), tkf.PostLN()), on_circle(0.0, 1.0), {"clock": "rescaled"}, "rescaled clock"),
    ],
)
def test_refusals(flow, mu, how, why):
    with pytest.raises(InputError, match=why):
        tkf.evolve(flow, mu, t=1.0, **{"coalesce": 1e-5, **how})


def test_refused_under_jit():
    with pytest.raises(InputError, match="under jit"):
        jax.jit(lambda b: tkf.evolve(tkf.sa(b), on_circle(0.0, 1.0), t=1.0, coalesce=1e-5).x)(1.0)
