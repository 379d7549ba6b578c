"""Histories of clusters that were made up, of metastable runs and of runs that coalesce."""

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield import observe
from tokenfield.errors import InputError


def states(*times):
    """Tokens on the circle by their angles, one list per time."""
    return tkf.Trajectory.from_states(np.stack([np.stack([np.cos(θ), np.sin(θ)], axis=1) for θ in np.array(times)]))


def test_births_mergers_and_lifetimes_of_a_story_that_is_known():
    """Five tokens as {0, 1}, {2, 3}, {4}; then the first two meet; then 1 leaves them; then it joins 4."""
    run = states(
        [0.0, 0.01, 1.0, 1.01, 2.5],
        [0.5, 0.51, 0.52, 0.53, 2.5],
        [0.5, 1.5, 0.52, 0.53, 2.5],
        [0.5, 2.5, 0.52, 0.53, 2.5],
    )
    found = observe.history(run)
    assert found.counts.tolist() == [3, 2, 3, 2]
    assert len(found) == 4 and len(found.mergers) == 2 and len(found.births) == 1
    stays, joins = found.labels[0, 0], found.labels[0, 2]
    if found.labels[1, 0] == joins:
        stays, joins = joins, stays
    lonely, leaver = found.labels[0, 4], found.labels[2, 1]
    assert found.mergers[0] == (1.0, stays, joins) and found.lives[joins].lifetime == 1.0
    assert found.births == [(2.0, stays, leaver)]
    assert found.mergers[1] in [(3.0, lonely, leaver), (3.0, leaver, lonely)]
    assert found.lives[stays].alive and found.lives[stays].lifetime == 3.0 and found.lives[stays].size == 4
    assert "2 mergers, 1 split, 2 alive at t = 3" in repr(found) and "joined" in repr(found)
    assert np.array_equal(found.lifetimes, [life.ended - life.born for life in found.lives])


def test_a_run_without_events_has_no_history():
    found = observe.history(states(*[[0.0, 0.0, 2.0]] * 4))
    assert found.mergers == found.births == [] and found.counts.tolist() == [2] * 4
    assert all(life.alive and life.born == 0 and life.ended == 3 for life in found.lives)


def test_the_heaviest_keeps_its_name():
    run = states([0.0, 1.0, 1.0, 1.0], [0.5, 0.5, 0.5, 0.5])
    found = observe.history(run)
    assert found.labels[1, 0] == found.labels[0, 1] and found.mergers == [(1.0, found.labels[0, 1], found.labels[0, 0])]


def test_histories_with_and_without_coalescing_agree():
    """The mergers of clusters, seen at saved times, are those that the run kept, to the spacing of saved times."""
    start = tkf.Tokens.uniform_sphere(12, 2, seed=4)
    run = tkf.evolve(tkf.sa(4.0), start, t=1e4, coalesce=1e-5, save="log")
    exact, seen = observe.history(run, angle=None), observe.history(run, angle=1e-4)
    assert [(t, i) for t, i, _ in exact.mergers] == [(one.t, one.into) for one in run.mergers]
    assert len(exact) == 12 and sum(life.alive for life in exact.lives) == 12 - len(run.mergers)
    assert max(life.size for life in exact.lives) == max(np.bincount(run.mergers.labels(1e4)))
    assert seen.counts[-1] == exact.counts[-1] and seen.counts[0] == 12
    assert len(seen.mergers) - len(seen.births) == len(exact.mergers)
    for counts in (seen.counts, exact.counts):
        assert np.all(np.diff(counts) <= 0)


def test_histories_of_ensembles_and_by_distance():
    x = np.array([[[0.0, 0.0], [5.0, 0.0]], [[0.0, 0.0], [0.1, 0.0]]])
    assert len(observe.history(tkf.Trajectory.from_states(x), distance=0.5).mergers) == 1
    starts = [tkf.Tokens.uniform_sphere(5, 2, seed=k) for k in range(2)]
    runs = tkf.evolve(tkf.sa(4.0), starts, t=3.0, save=3)
    found = observe.history(runs)
    assert found.shape == (2,) and np.array_equal(found[1].labels, observe.history(runs[1,]).labels)


def test_what_has_no_history_is_refused():
    with pytest.raises(InputError, match=r"takes a run.*but got Tokens\. For one state, use clusters"):
        observe.history(tkf.Tokens(np.eye(2)))
    with pytest.raises(InputError, match=r"did not coalesce.*Give an angle"):
        observe.history(states([0.0], [1.0]), angle=None)
