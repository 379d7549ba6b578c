"""A run that goes on is the run that would have been longer from the start."""

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.errors import InputError

MU, FLOW = tkf.Tokens.uniform_sphere(n=7, d=3, seed=0), tkf.sa(4.0)


def test_a_continued_run_equals_the_whole_one():
    how = {"rtol": 1e-9, "atol": 1e-12}
    run, whole = tkf.evolve(FLOW, MU, t=2.0, save=5, **how), tkf.evolve(FLOW, MU, t=4.0, save=9, **how)
    more = tkf.evolve(FLOW, run, 4.0, save=5, **how)
    assert more.times.tolist() == [2.0, 2.5, 3.0, 3.5, 4.0] and np.max(abs(more.x[0] - run.x[-1])) < 1e-15
    extended = run.extend(4.0)
    assert np.array_equal(extended.times, whole.times) and np.max(abs(extended.x - whole.x)) < 1e-8
    assert int(extended.steps) == int(run.steps) + int(more.steps) and extended.provenance.seed == 0
    another = tkf.evolve(tkf.sa(1.0), run, 3.0, save=2, **how)
    assert np.max(abs(another.final.x - tkf.evolve(tkf.sa(1.0), run.final, 1.0, save=2, **how).final.x)) < 1e-8


def test_flows_that_depend_on_time_go_on_in_time():
    flow = tkf.sa(lambda t: 1.0 + t)
    run, whole = tkf.evolve(flow, MU, t=1.0, save=3, rtol=1e-9), tkf.evolve(flow, MU, t=2.0, save=5, rtol=1e-9)
    assert np.max(abs(run.extend(2.0).x - whole.x)) < 1e-7


def test_mergers_go_on():
    mu = tkf.Tokens.uniform_sphere(12, 2, seed=3)
    run, whole = (tkf.evolve(tkf.sa(9.0), mu, t=t, save=11, coalesce=1e-4, rtol=1e-9) for t in (1e2, 1e8))
    extended = run.extend(1e8, save=5)
    assert len(run.mergers) < len(whole.mergers) == len(extended.mergers)
    assert np.max(abs(extended.mergers.t / whole.mergers.t - 1)) < 1e-6
    for name in ("into", "gone", "left"):
        assert np.array_equal(getattr(extended.mergers, name), getattr(whole.mergers, name))
    assert np.array_equal(extended.mergers.labels(1e8), whole.mergers.labels(1e8))


def test_noise_goes_on_along_the_same_path():
    """Without a drift tokens are the path itself. Steps of a given length go on with their numbers."""
    flow = tkf.Flow(tkf.Linear(V=0.0), kappa=4.0)
    run, whole = (tkf.evolve(flow, MU, t=t, save=n, seed=5) for t, n in ((1.0, 3), (2.0, 5)))
    assert np.max(abs(run.extend(2.0).x - whole.x)) < 1e-12
    again = tkf.evolve(flow, MU, t=1.0, save=2, step=0.1, seed=5)
    whole = tkf.evolve(flow, MU, t=2.0, save=3, step=0.1, seed=5)
    assert np.max(abs(again.extend(2.0).x - whole.x)) < 1e-12
    moved = np.diff(np.asarray(again.extend(2.0, step=0.05).x), axis=0)
    assert np.max(abs(moved[0] - moved[1])) > 0.1, "not the same noise again"


def test_every_member_of_an_ensemble_goes_on():
    runs = tkf.evolve([tkf.sa(1.0), FLOW], [MU, tkf.Tokens.uniform_sphere(n=7, d=3, seed=1)], t=1.0, save=3)
    extended = runs.extend(2.0)
    assert extended.batch == (2, 2) and extended.times[1, 1].tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert np.array_equal(extended.x[..., :3, :, :], runs.x)
    assert np.max(abs(extended[1, 0].final.x - tkf.evolve(FLOW, MU, t=2.0, save=2).final.x)) < 1e-5


def test_what_cannot_go_on():
    run = tkf.evolve(FLOW, MU, t=1.0, save=2)
    with pytest.raises(InputError, match="a later time"):
        run.extend(1.0)
    with pytest.raises(InputError, match="the end time alone"):
        tkf.evolve(FLOW, run, (0.0, 2.0))
    with pytest.raises(InputError, match="does not know its flow"):
        tkf.Trajectory.from_states(np.asarray(run.x)).extend(2.0)
    blown = tkf.evolve(tkf.Flow(tkf.Unnormalized(1.0)), tkf.Tokens([[2.0]]), t=1.0, save=2)
    with pytest.raises(InputError, match="no going on"):
        blown.extend(2.0)
