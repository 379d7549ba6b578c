"""Late times for ensembles, for causal masks and for many tokens: the same mergers as alone, as uncoalesced, as located."""

import signal
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

import tokenfield as tkf
from tokenfield.errors import InputError
from tokenfield.evolution.drivers import meeting, merging
from tokenfield.evolution.drivers.groups import dated, first_neighbours
from tokenfield.evolution.step import NODES, Trail

STARTS = [tkf.Tokens.uniform_sphere(16, 2, seed=k) for k in range(2)]
FLOWS = [tkf.sa(4.0), tkf.sa(6.0)]
HOW = {"t": 1e7, "coalesce": 1e-4, "save": "log"}


@pytest.fixture(scope="module")
def ensemble():
    return tkf.evolve(FLOWS, STARTS, **HOW)


def same(one, other):
    assert np.array_equal(one.times, other.times) and np.max(abs(one.x - other.x)) < 1e-12
    assert np.allclose(one.mergers.t, other.mergers.t, rtol=1e-12) and one.mergers.n == other.mergers.n
    assert np.array_equal(one.mergers.gone, other.mergers.gone) and np.allclose(one.rescaled, other.rescaled)
    assert one.status is other.status and int(one.steps) == int(other.steps)


def test_a_member_is_the_run_alone(ensemble):
    assert ensemble.batch == (2, 2) and ensemble.mergers.counts.tolist() == [[15, 15], [15, 15]]
    for i, j in np.ndindex(2, 2):
        same(ensemble.member(i, j), tkf.evolve(FLOWS[i], STARTS[j], **HOW))
    assert "15 mergers a run" in repr(ensemble)
    with pytest.raises(InputError, match="of an ensemble"):
        ensemble.mergers.labels(1.0)


def test_ensembles_with_mergers_are_kept_and_go_on(ensemble, tmp_path):
    """On disk, as data, and along time; members have different numbers of mergers at first."""
    early = tkf.evolve(FLOWS, STARTS, t=9.0, coalesce=1e-4, save=5)
    counts = early.mergers.counts
    assert counts.min() < counts.max() and np.all(np.isinf(early.mergers.t).sum(axis=-1) == counts.max() - counts)
    early.save(tmp_path / "runs.zarr")
    again = tkf.Trajectory.load(tmp_path / "runs.zarr")
    for one, other in zip(jax.tree.leaves(early), jax.tree.leaves(again), strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype and np.array_equal(one, other)
    same(again.member(1, 0), early.member(1, 0))
    assert early.to_xarray().merger_t.dims == ("flow", "start", "merger")
    more = again.extend(1e7, save=3)
    assert np.array_equal(more.mergers.counts, ensemble.mergers.counts)
    assert np.allclose(more.member(1, 1).mergers.t, ensemble.member(1, 1).mergers.t, rtol=1e-5)
    assert early.plot(tmp_path / "runs.png").exists()


@pytest.mark.slow
def test_members_with_programs_of_their_own_zipped_and_observed():
    flows, starts = FLOWS, [STARTS[0], tkf.Tokens.uniform_sphere(12, 2, seed=5)]
    how = {"t": 1e7, "coalesce": 1e-4, "save": 4}
    runs = tkf.evolve(flows, starts, zipped=True, **how)
    for i in range(2):
        same(runs.member(i), tkf.evolve(flows[i], starts[i], **how))
    assert runs.mergers.counts.tolist() == [15, 11]
    seen = tkf.evolve(flows, starts, zipped=True, observe="mean_overlap", **how)
    assert np.allclose(seen.mean_overlap, tkf.observe.mean_overlap(runs), atol=1e-12)


@pytest.mark.slow
def test_members_stop_by_themselves_in_the_rescaled_clock():
    """One that ends early holds its last state; the others go on."""
    how = {"t": 17.0, "coalesce": 1e-4, "save": 6, "clock": "rescaled", "until": tkf.Collapsed(0.3)}
    runs = tkf.evolve(FLOWS, STARTS[0], **how)
    assert {tkf.Status(int(code)).name for code in np.ravel(runs.code)} == {"STOPPED", "COMPLETED"}
    for i in range(2):
        same(runs.member(i), tkf.evolve(FLOWS[i], STARTS[0], **how))


def test_ctrl_c_keeps_the_members_so_far(monkeypatch):
    """The first is whole, the second ends where it was, the others are where they started."""
    phases, walk = [], merging.walk

    def walked(plan, motion, saves, company):
        phases.append(float(motion.inner.flow.attention.beta))
        if phases[-1] == 6.0 and phases.count(6.0) == 3:
            signal.raise_signal(signal.SIGINT)
        return walk(plan, motion, saves, company)

    monkeypatch.setattr(merging, "walk", walked)
    runs = tkf.evolve([*FLOWS, tkf.sa(5.0)], STARTS[0], **HOW)
    status = [tkf.Status(int(code)).name for code in runs.code]
    assert status == ["COMPLETED", "INTERRUPTED", "INTERRUPTED"]
    assert runs.mergers.counts[0] == 15 and 0 < runs.mergers.counts[1] < 15 and runs.mergers.counts[2] == 0
    assert 0 < float(runs.reached[1]) < 1e7
    assert float(runs.reached[2]) == 0 and np.allclose(runs.x[2, -1], STARTS[0].directions)


# Causal masks


def causal(beta):
    return tkf.Flow(tkf.Causal(tkf.Unnormalized(beta)), tkf.PostLN())


def test_the_second_of_two_goes_to_the_first_when_the_integral_says():
    """Token 1 sees itself alone and rests; of token 2, α' = -w₁ e^{β cos α} sin α."""
    beta, w, angle, radius = 3.0, 0.3, 2.0, 1e-5
    mu = tkf.Tokens([[1.0, 0.0], [np.cos(angle), np.sin(angle)]], w=[w, 1 - w])
    run = tkf.evolve(causal(beta), mu, t=1e6, coalesce=radius, save=2)
    slowness = lambda u: np.exp(u) / (np.sin(np.exp(u)) * w * np.exp(beta * np.cos(np.exp(u))))
    cuts = np.linspace(np.log(2 * np.arcsin(radius / 2)), np.log(angle), 40)
    expected = sum(quad(slowness, a, b, epsabs=0, epsrel=1e-13)[0] for a, b in pairwise(cuts))
    assert abs(run.mergers.t[0] / expected - 1) < 1e-7
    assert np.array_equal(run.final.x, [[1.0, 0.0], [1.0, 0.0]])


@pytest.mark.slow
def test_causal_mergers_are_those_of_an_uncoalesced_run():
    """Positions in another order than the tokens. Merged tokens are where the first of them is, to all digits of the tolerance, and
    the others were within the radius."""
    s = np.random.default_rng(0).permutation(16) / 15
    mu = tkf.Tokens(STARTS[1].x, s=s)
    how = {"t": 60.0, "save": [5.0, 12.0, 60.0], "rtol": 1e-10}
    run, plain = tkf.evolve(causal(2.0), mu, coalesce=1e-4, **how), tkf.evolve(causal(2.0), mu, **how)
    assert run.mergers.left[-1] == 1 and 0 < len(run.mergers.t[run.mergers.t < 12.0]) < 15
    assert np.max(abs(run.x - plain.x)) < 1e-4
    label = run.mergers.labels(12.0)
    for group in np.unique(label):
        first = min(np.flatnonzero(label == group), key=lambda i: s[i])
        assert np.max(abs(run.x[1, first] - plain.x[1, first])) < 1e-5
    assert np.array_equal(np.asarray(run.states.s)[-1], s)


def test_groups_are_runs_of_neighbours():
    """By position: the first leads those right after it, up to one that is elsewhere or leaves."""
    x, s = np.array([[0.0], [9.0], [0.1], [0.2], [0.1], [0.0]]), np.array([0.1, 0.5, 0.3, 0.2, 0.7, 0.9])
    assert first_neighbours(x, np.zeros_like(x), s, 0.5).tolist() == [0, 1, 0, 0, 4, 4]
    leaves = np.array([[0.0], [0.0], [0.0], [1.0], [0.0], [0.0]])
    assert first_neighbours(x, leaves, s, 0.5).tolist() == [0, 1, 2, 3, 4, 4]


@pytest.mark.slow
def test_tokens_in_one_place_that_are_no_neighbours_do_not_merge():
    """Tokens 0 and 2 begin in one place, and token 1 between them draws token 2 alone away."""
    mu = tkf.Tokens([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, -1.0]])
    run = tkf.evolve(causal(1.0), mu, t=2.0, coalesce=1e-4, save=3, rtol=1e-9)
    plain = tkf.evolve(causal(1.0), mu, t=2.0, save=3, rtol=1e-9)
    assert len(run.mergers) == 0 and np.max(abs(run.x - plain.x)) < 1e-7
    assert np.linalg.norm(run.final.x[0] - run.final.x[2]) > 0.05


def test_neighbours_under_softmax_part_again():
    """The reason why they are refused: two neighbours in one place have velocities of one direction and different lengths."""
    mu = tkf.Tokens([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    speed = lambda attention: np.linalg.norm(tkf.velocity(tkf.Flow(tkf.Causal(attention), tkf.PostLN()), mu), axis=1)
    plain, divided = speed(tkf.Unnormalized(1.0)), speed(tkf.Softmax(1.0))
    assert abs(plain[1] - plain[2]) < 1e-15 and divided[1] / divided[2] > 1.5


@pytest.mark.parametrize(
    ("attention", "why"),
    [
        (tkf.Causal(tkf.Softmax()), "divides that of the later one"),
        (tkf.Causal(tkf.Unnormalized(), window=0.5), "more than their place"),
        (tkf.Causal(tkf.Unnormalized(), alibi=1.0), "more than their place"),
        (tkf.Causal(tkf.Unnormalized(V=np.diag([1.0, 2.0]))), "more than their place"),
        (tkf.MultiHead([tkf.Causal(tkf.Unnormalized()), tkf.Causal(tkf.Softmax())]), "more than their place"),
    ],
)
def test_other_masks_are_refused(attention, why):
    with pytest.raises(InputError, match=why):
        tkf.evolve(tkf.Flow(attention, tkf.PostLN()), STARTS[0], t=1.0, coalesce=1e-4)


def test_shared_positions_are_refused():
    mu = tkf.Tokens(STARTS[0].x, s=np.full(16, 0.5))
    with pytest.raises(InputError, match="share theirs"):
        tkf.evolve(causal(1.0), mu, t=1.0, coalesce=1e-4)


# Many tokens


def test_dates_by_the_steps_of_a_trail():
    """Tokens on a line: 0 rests, 1 comes to it, 2 meets both at their mean, 3 leaves, 4 and 5 go together within the radius."""
    t = np.concatenate([[np.inf * np.ones(5)], 2.0 + np.array(NODES)[None], 1.0 + np.array(NODES)[None]])
    finite = np.where(np.isfinite(t), t, 0.0)
    lines = [0 * finite, 3.3 - finite, -6.6 + 2 * finite, finite + 10.0, 30 + finite, 30.5 + finite]
    y = np.stack(lines, axis=-1)[..., None]
    w = np.array([1.0, 1.0, 2.0, 1.0, 1.0, 1.0])
    company, alone = np.array([0, 0, 0, 1, 2, 2]), np.arange(6)
    met = dated(Trail(jnp.asarray(t), jnp.asarray(y)), company, alone, w, (1.0, lambda rows: rows))
    order = np.argsort(met.dates)
    found = [(*sorted(met.pairs[k].tolist()), round(float(met.dates[k]), 9)) for k in order]
    # |3.3 - t| = 1 at 2.3; then the mean (3.3 - t)/2 and -6.6 + 2t are 1 apart where 8.25 - 2.5 t = 1
    assert found == [(4, 5, 1.0), (0, 1, 2.3), (0, 2, 2.9)]
    assert len(np.unique(met.groups(2.5))) == 4 and len(np.unique(met.groups())) == 3
    led = dated(
        Trail(jnp.asarray(t), jnp.asarray(y)), np.arange(6), np.array([0, 0, 0, 3, 4, 5]), w, (1.0, lambda x: x)
    )
    assert np.allclose(np.sort(led.dates), [2.3, 2.8])


def test_mergers_of_many_tokens_are_dated_inside_steps():
    """300 tokens: merged in bulk, each at the time that a plain run with events says, and saved in one place from then on."""
    start, radius = tkf.Tokens.uniform_sphere(300, 2, seed=3), 1e-4
    run = tkf.evolve(tkf.sa(20.0), start, t=4.0, coalesce=radius, save=[3.15, 4.0], rtol=1e-8)
    assert len(run.mergers) > 3 and len(np.unique(run.mergers.t)) == len(run.mergers)
    assert np.all(np.diff(run.mergers.t) > 0)
    for one in (run.mergers[0], run.mergers[1]):
        close = lambda t, mu, one=one: jnp.linalg.norm(mu.x[one.into] - mu.x[one.gone]) < radius
        met = tkf.evolve(tkf.sa(20.0), start, t=4.0, save=2, rtol=1e-11, until=close)
        assert abs(one.t / float(met.reached) - 1) < 1e-7
    for k, t in enumerate((3.15, 4.0)):
        label = run.mergers.labels(t)
        assert np.array_equal(run.x[k], run.x[k][label]) and len(np.unique(label)) == run.mergers.groups(t)


@pytest.mark.slow
@pytest.mark.parametrize(("rtol", "error"), [(None, 1e-5), (1e-9, 1e-5)])
def test_the_same_dates_as_if_every_pair_were_looked_at(rtol, error, monkeypatch):
    """All 213 mergers of 300 tokens until t = 10, pair by pair: within the tolerance, or the ε² that a merger changes others by."""
    start, how = tkf.Tokens.uniform_sphere(300, 2, seed=3), {"t": 10.0, "coalesce": 1e-4, "save": 2}
    many = tkf.evolve(tkf.sa(20.0), start, rtol=rtol, **how)
    jax.clear_caches()  # programs do not know the constant
    for room in (merging, meeting):
        monkeypatch.setattr(room, "PAIRWISE", 1000)
    every = tkf.evolve(tkf.sa(20.0), start, rtol=1e-9, **how)
    jax.clear_caches()
    dates = lambda run: {(one.into, one.gone): one.t for one in run.mergers}
    ours, theirs = dates(many), dates(every)
    assert ours.keys() == theirs.keys() and len(ours) > 200
    assert max(abs(ours[pair] - theirs[pair]) for pair in ours) < error


@pytest.mark.slow
def test_many_causal_neighbours():
    start = tkf.Tokens.uniform_sphere(300, 2, seed=3)
    how = {"t": 4.0, "save": 3, "rtol": 1e-8}
    run, plain = tkf.evolve(causal(4.0), start, coalesce=1e-4, **how), tkf.evolve(causal(4.0), start, **how)
    assert len(run.mergers) > 50 and np.max(abs(run.x - plain.x)) < 1e-4
    one = run.mergers[0]
    assert one.gone == one.into + 1
    close = lambda t, mu: jnp.linalg.norm(mu.x[one.into] - mu.x[one.gone]) < 1e-4
    met = tkf.evolve(causal(4.0), start, t=4.0, save=2, rtol=1e-10, until=close)
    assert abs(one.t / float(met.reached) - 1) < 1e-6
