"""Observables that a run keeps instead of its states: the same numbers, in the same places."""

import jax
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.errors import InputError

MU, FLOW = tkf.Tokens.uniform_sphere(n=7, d=3, seed=0), tkf.sa(4.0)
STARTS = [tkf.Tokens.uniform_sphere(n=7, d=3, seed=s) for s in range(3)]
HOW = {"t": 3.0, "save": 8}
BOTH = ["mean_overlap", tkf.observe.order_parameter]


@pytest.fixture(scope="module")
def whole():
    return tkf.evolve(FLOW, MU, **HOW)


def test_of_one_run(whole):
    run = tkf.evolve(FLOW, MU, observe=BOTH, **HOW)
    assert list(run.observed) == ["mean_overlap", "order_parameter"] and run.mean_overlap.shape == (8,)
    assert np.max(abs(run.mean_overlap - tkf.observe.mean_overlap(whole))) < 1e-13
    assert np.max(abs(run.order_parameter - tkf.observe.order_parameter(whole))) < 1e-13
    assert np.max(abs(run.final.x - whole.final.x)) < 1e-13 and np.array_equal(run.times, whole.times)
    assert len(run[2:5]) == 3 and np.array_equal(run[2:5].mean_overlap, run.mean_overlap[2:5])
    assert "observed 8 times" in str(run) and "mean_overlap" in str(run)


def test_under_jit(whole):
    traced = jax.jit(lambda b: tkf.evolve(tkf.sa(b), MU, observe="mean_overlap", **HOW).mean_overlap)(4.0)
    assert np.max(abs(traced - tkf.observe.mean_overlap(whole))) < 1e-12


def test_of_an_ensemble_and_of_its_members():
    flows = [tkf.sa(1.0), FLOW]
    runs, kept = (tkf.evolve(flows, STARTS, **how, **HOW) for how in ({}, {"observe": BOTH}))
    assert kept.mean_overlap.shape == (2, 3, 8) and kept.final.x.shape == (2, 3, 7, 3)
    assert np.max(abs(kept.mean_overlap - tkf.observe.mean_overlap(runs))) < 1e-13
    assert np.max(abs(kept.final.x - runs.final.x)) < 1e-13
    member = kept[1, 2]
    assert np.array_equal(member.mean_overlap, kept.mean_overlap[1, 2]) and member.final.x.shape == (7, 3)
    assert member.provenance.seed == 2 and "on average" in str(kept)


def test_in_the_tokens_span():
    """A function that sees axes is given those that tokens came in; in an ensemble the span is then not used."""
    mu = tkf.Tokens.uniform_sphere(n=4, d=12, seed=1)
    whole = tkf.evolve(FLOW, mu, **HOW)
    run = tkf.evolve(FLOW, mu, observe={"corner": lambda mu: mu.x[0, :2], "overlap": "mean_overlap"}, **HOW)
    assert run.provenance.summation == "span" and run.corner.shape == (8, 2)
    assert np.max(abs(run.corner - whole.x[:, 0, :2])) < 1e-13
    blind = tkf.evolve([FLOW, tkf.sa(1.0)], mu, observe="mean_overlap", **HOW)
    seeing = tkf.evolve([FLOW, tkf.sa(1.0)], mu, observe={"corner": lambda mu: mu.x[0, :2]}, **HOW)
    assert blind.provenance.summation == "span" and seeing.provenance.summation == "dense"
    assert np.max(abs(seeing.corner[0] - whole.x[:, 0, :2])) < 1e-8


def test_of_runs_that_coalesce_stop_early_or_are_watched():
    mu = tkf.Tokens.uniform_sphere(12, 2, seed=3)
    how = {"t": 1e6, "save": "log", "coalesce": 1e-4}
    merged, kept = tkf.evolve(tkf.sa(9.0), mu, **how), tkf.evolve(tkf.sa(9.0), mu, observe="order_parameter", **how)
    assert np.max(abs(kept.order_parameter - tkf.observe.order_parameter(merged))) < 1e-12
    assert len(kept.mergers) == len(merged.mergers)
    seen = []
    stopped = tkf.evolve(
        tkf.sa(1.0),
        MU,
        t=50.0,
        save=9,
        until=tkf.collapsed,
        observe="mean_overlap",
        watch=lambda t, o: seen.append((t, o)),
    )
    assert stopped.status is tkf.Status.STOPPED and len(stopped) == len(stopped.mean_overlap) < 9
    assert [t for t, _ in seen] == np.asarray(stopped.times)[:-1].tolist() and float(seen[0][1]["mean_overlap"]) < 0.5


@pytest.mark.parametrize("mu", [tkf.Equiangular(rho=0.1, n=20), tkf.CircleDensity.wave(0.2)], ids=["cosine", "density"])
def test_of_other_measures(mu):
    name = "rho" if isinstance(mu, tkf.Equiangular) else "order"
    flow = tkf.sa(2.0) if name == "rho" else tkf.usa(1.0, kappa=4.0)
    how = {"t": 1.0, "save": 4}
    whole, kept = tkf.evolve(flow, mu, **how), tkf.evolve(flow, mu, observe={name: lambda mu: getattr(mu, name)}, **how)
    assert np.max(abs(getattr(kept, name) - getattr(whole, name))) < 1e-12


def test_what_is_refused():
    for observe, why in (("overlap", "no observable"), (3, "functions of a measure"), ([], "one observable or more")):
        with pytest.raises(InputError, match=why):
            tkf.evolve(FLOW, MU, observe=observe, **HOW)
    with pytest.raises(InputError, match="a name of its own"):
        tkf.evolve(FLOW, MU, observe=["mean_overlap"] * 2, **HOW)
    run = tkf.evolve(FLOW, MU, observe=BOTH, **HOW)
    with pytest.raises(InputError, match="instead of its states"):
        run[0]
    with pytest.raises(InputError, match="instead of its states"):
        tkf.observe.mean_overlap(run)
    with pytest.raises(AttributeError, match=r"run\.final"):
        run.x  # noqa: B018
