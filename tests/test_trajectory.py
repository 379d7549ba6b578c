"""Runs as things to look at, print, and keep."""

import dataclasses
import json

import jax
import numpy as np
import pytest
import xarray

import tokenfield as tkf
from tokenfield import config
from tokenfield.errors import InputError, StoreError

MU = tkf.Tokens.uniform_sphere(n=15, d=3, seed=6)
RUN = tkf.evolve(tkf.sa(4.0), MU, t=4.0, save=9)


def test_states():
    assert RUN.x.shape == (9, 15, 3) and len(RUN) == 9
    assert np.array_equal(RUN.final.x, RUN.x[-1]) and np.array_equal(RUN[2].x, RUN.x[2])
    assert int(RUN.steps) == int(RUN.accepted) + int(RUN.rejected)
    assert RUN.provenance.seed == 6 and RUN.provenance.versions["jax"] == jax.__version__ and RUN.provenance.seconds > 0


def test_at_any_time_solves_again():
    exact = tkf.evolve(tkf.sa(4.0), MU, t=4.0, save=[1.2345], rtol=1e-11).x[0]
    assert np.max(abs(RUN.at(1.2345).x - exact)) < 1e-5
    fine = tkf.evolve(tkf.sa(4.0), MU, t=4.0, save=3, rtol=1e-11)
    assert np.max(abs(fine.at(1.2345).x - exact)) < 1e-9
    assert np.array_equal(RUN.at(1.0).x, RUN.x[2])
    with pytest.raises(InputError, match=r"The run has t in \[0, 4\], but was asked for t = 5"):
        RUN.at(5.0)


def test_a_run_tells_its_story():
    told = str(RUN)
    for word in (
        "n = 15",
        "d = 3 on the sphere",
        "Softmax(beta=4)",
        "PostLN",
        "0 to 4, 9 states",
        "completed",
        "tsit5",
        "rtol 1e-06",
        f"{int(RUN.steps)} steps",
        "dense sums",
        "clusters",
        "overlap",
        "energy",
        "seed 6",
    ):
        assert word in told, (word, told)


def test_to_xarray():
    data = RUN.to_xarray()
    assert data.x.dims == ("time", "token", "component") and np.array_equal(data.x, RUN.x)
    assert np.array_equal(data.time, RUN.times)
    known = json.loads(data.attrs["run"])
    assert known["flow"]["attention"] == {"kind": "softmax", "beta": 4.0} and known["status"] == "COMPLETED"


@pytest.mark.parametrize(
    ("flow", "mu"),
    [
        (tkf.sa(4.0), MU),
        (
            tkf.usa(2.0, V=[[1.0, 0.1, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.7]], scaled=True),
            tkf.Tokens(MU.x, np.arange(1, 16) / 120),
        ),
        (tkf.Flow(tkf.Softmax(1.0, A=-1.0)), tkf.Tokens(MU.x, s=np.linspace(0, 1, 15))),
        (tkf.sa(4.0), tkf.Tokens(np.asarray(MU.x, np.float32))),
    ],
    ids=["sa", "usa weighted", "free with positions", "float32"],
)
def test_save_and_load(tmp_path, flow, mu):
    run = tkf.evolve(flow, mu, t=2.0, save=5)
    run.save(tmp_path / "deep" / "run.zarr")
    again = tkf.Trajectory.load(tmp_path / "deep" / "run.zarr")
    for one, other in zip(jax.tree.leaves(run), jax.tree.leaves(again), strict=True):
        assert one.dtype == other.dtype and np.array_equal(one, other)
    assert jax.tree.structure((run.flow, run.states)) == jax.tree.structure((again.flow, again.states))
    assert dataclasses.asdict(run.provenance) == dataclasses.asdict(again.provenance)
    assert str(again) == str(run)
    assert np.max(abs(again.at(0.7).x - run.at(0.7).x)) == 0
    assert sorted(p.name for p in (tmp_path / "deep").iterdir()) == ["run.zarr"], "nothing is left lying about"
    assert xarray.open_zarr(tmp_path / "deep" / "run.zarr").x.shape == run.x.shape


def test_a_flow_of_ones_own_is_kept_without_its_flow(tmp_path):
    class Own(tkf.Free):
        pass

    run = tkf.evolve(tkf.Flow(tkf.Softmax(1.0), Own()), MU, t=1.0, save=3)
    assert config.encode(run.flow) is None
    run.save(tmp_path / "run.zarr")
    again = tkf.Trajectory.load(tmp_path / "run.zarr")
    assert again.flow is None and "not one of the library" in str(again)
    with pytest.raises(InputError, match=r"nearest saved times are 0 and 0\.5"):
        again.at(0.2)


def test_two_writers_leave_one_whole_run(tmp_path):
    import threading

    runs = [RUN, tkf.evolve(tkf.sa(5.0), MU, t=4.0, save=9)]
    threads = [threading.Thread(target=lambda r=r: [r.save(tmp_path / "run.zarr") for _ in range(5)]) for r in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    left = tkf.Trajectory.load(tmp_path / "run.zarr")
    assert any(np.array_equal(left.x, r.x) for r in runs)


def test_what_is_not_a_run_is_not_overwritten(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.tex").write_text("x")
    with pytest.raises(StoreError, match="exists and is not a saved run; it is left as it is"):
        RUN.save(tmp_path / "precious")
    assert (tmp_path / "precious" / "thesis.tex").exists()
    xarray.Dataset({"mine": ("a", np.arange(3))}).to_zarr(tmp_path / "other2.zarr", zarr_format=2, consolidated=True)
    xarray.Dataset({"mine": ("a", np.arange(3))}).to_zarr(tmp_path / "other3.zarr", zarr_format=3, consolidated=False)
    for name in ("other2.zarr", "other3.zarr"):
        with pytest.raises(StoreError, match="is not a saved run"):
            RUN.save(tmp_path / name)
        assert "mine" in xarray.open_zarr(tmp_path / name, consolidated=False)


def test_states_can_be_walked_through():
    assert [np.array_equal(mu.x, RUN.x[i]) for i, mu in enumerate(RUN)] == [True] * 9
    with pytest.raises(IndexError, match="has 9 saved states, but state 9"):
        RUN[9]


def test_save_times_that_leave_the_end_out():
    run = tkf.evolve(tkf.sa(4.0), MU, t=4.0, save=[1.0, 2.0])
    assert float(run.reached) == 4 and "reached t = 4" in run.message and run.final.x is not None
    whole = tkf.evolve(tkf.sa(4.0), MU, t=4.0, save=2, rtol=1e-10)
    assert np.max(abs(run.at(4.0).x - whole.final.x)) < 1e-5


@pytest.mark.slow
def test_a_batch_of_runs_is_indexed_by_time_observed_and_stored(tmp_path):
    runs = jax.vmap(lambda b: tkf.evolve(tkf.sa(b), MU, t=2.0, save=4))(np.array([1.0, 4.0, 9.0]))
    assert runs.final.x.shape == (3, 15, 3) and runs.final.w.shape == (3, 15)
    alone = tkf.evolve(tkf.sa(4.0), MU, t=2.0, save=4)
    assert np.allclose(runs.final.x[1], alone.final.x, atol=1e-9)
    assert tkf.observe.energy(runs, 4.0).shape == tkf.observe.mean_overlap(runs).shape == (3, 4)
    runs.save(tmp_path / "runs.zarr")
    assert np.array_equal(tkf.Trajectory.load(tmp_path / "runs.zarr").x, runs.x)


def test_a_function_of_runs_is_compiled_once():
    traces = []

    @jax.jit
    def spread(run):
        traces.append(1)
        return run.x.std()

    for beta in (1.0, 2.0, 3.0):
        spread(tkf.evolve(tkf.sa(beta), MU, t=1.0, save=3))
    assert len(traces) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: tkf.Tokens.gaussian(8, 3, mean=np.zeros(3), cov=np.eye(3)),
        lambda: tkf.Tokens.uniform_sphere(np.int64(8), 3),
    ],
)
def test_origins_of_any_number_type_are_kept(tmp_path, make):
    tkf.evolve(tkf.sa(1.0), make(), t=1.0, save=2).save(tmp_path / "run.zarr")
    assert tkf.Trajectory.load(tmp_path / "run.zarr").provenance.origin["n"] == 8
