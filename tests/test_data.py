"""Runs as data: named dimensions, coordinates of what varies, slices, and states from elsewhere."""

import equinox as eqx
import jax
import numpy as np
import pytest
import xarray

import tokenfield as tkf
from tokenfield.errors import InputError

STARTS = [tkf.Tokens.uniform_sphere(n=7, d=3, seed=s) for s in range(3)]
HOW = {"t": 1.0, "save": 4}


@pytest.fixture(scope="module")
def runs():
    return tkf.evolve([tkf.sa(1.0), tkf.sa(4.0)], STARTS, **HOW)


def test_dimensions_and_coordinates_of_an_ensemble(runs):
    data = runs.to_xarray()
    assert data.x.dims == ("flow", "start", "time", "token", "component") and np.array_equal(data.x, runs.x)
    assert data.beta.dims == ("flow",) and data.beta.values.tolist() == [1.0, 4.0]
    assert data.seed.dims == ("start",) and data.seed.values.tolist() == [0, 1, 2]
    assert np.array_equal(data.time, runs.times[0, 0]) and data.reached.dims == ("flow", "start")
    assert set(data.coords) == {"time", "beta", "seed"}, "what does not vary is no coordinate"


def test_coordinates_of_unlike_members():
    flows = [tkf.sa(1.0), tkf.Flow(tkf.Softmax(1.0), tkf.PreLN())]
    data = tkf.evolve(flows, [STARTS[0], tkf.Tokens.uniform_sphere(n=5, d=3, seed=0)], **HOW).to_xarray()
    assert data.normalization.values.tolist() == ["PostLN", "PreLN"] and data.n.values.tolist() == [7, 5]
    assert np.all(np.isnan(data.x.values[:, 1, :, 5:])) and np.all(data.w.values[:, 1, :, 5:] == 0)


def test_coordinates_of_zipped_members_and_observables():
    runs = tkf.evolve(
        [tkf.sa(b) for b in (1.0, 2.0, 3.0)], STARTS, zipped=True, observe={"pair": lambda mu: mu.x[:2, 0]}, **HOW
    )
    data = runs.to_xarray()
    assert data.beta.dims == data.seed.dims == ("run",) and data["pair"].dims == ("run", "time", "pair_0")
    assert data.x.dims == ("run", "token", "component"), "the last states"


ENSEMBLES = {
    "one": lambda: tkf.evolve(tkf.sa(1.0), STARTS[0], **HOW),
    "flows and starts": lambda: tkf.evolve([tkf.sa(1.0), tkf.sa(4.0)], STARTS, **HOW),
    "starts": lambda: tkf.evolve(tkf.sa(1.0), STARTS, **HOW),
    "unlike": lambda: tkf.evolve(
        [tkf.sa(1.0), tkf.Flow(tkf.Softmax(1.0), tkf.PreLN())], [STARTS[0], tkf.Tokens.uniform_sphere(5, 3)], **HOW
    ),
    "zipped": lambda: tkf.evolve([tkf.sa(b) for b in (1.0, 4.0, 2.0)], STARTS, zipped=True, **HOW),
    "mapped": lambda: jax.vmap(lambda b: tkf.evolve(tkf.sa(b), STARTS[0], **HOW))(np.array([1.0, 2.0])),
    "observed": lambda: tkf.evolve([tkf.sa(1.0), tkf.sa(4.0)], STARTS, observe=["mean_overlap", corner], **HOW),
    "one, observed": lambda: tkf.evolve(tkf.sa(1.0), STARTS[0], observe=corner, **HOW),
    "cosines": lambda: tkf.evolve([tkf.sa(1.0), tkf.sa(2.0)], tkf.Equiangular(rho=0.1, n=5), **HOW),
    "float32": lambda: tkf.evolve([tkf.sa(1.0), tkf.sa(2.0)], tkf.Tokens(np.eye(3, dtype=np.float32)), **HOW),
}


def corner(mu):
    return mu.x[:2, :2]


@pytest.mark.parametrize("name", ENSEMBLES)
def test_a_round_trip_is_exact_to_the_bit(name, tmp_path):
    """Through our own reader everything, through xarray's all arrays."""
    run = ENSEMBLES[name]()
    run.save(tmp_path / "runs.zarr")
    again = tkf.Trajectory.load(tmp_path / "runs.zarr")
    assert eqx.tree_equal(jax.tree.map(np.asarray, run), jax.tree.map(np.asarray, again))
    about = lambda run: {name: repr(value) for name, value in vars(run.provenance).items() if name != "axes"}
    assert about(again) == about(run)
    with xarray.open_zarr(tmp_path / "runs.zarr") as stored:
        for part, array in (*run.states.arrays.items(), *(run.observed or {}).items()):
            assert np.array_equal(stored[part].values, array), part
    assert str(again).splitlines()[1] == str(run).splitlines()[1], "its flow"


def test_every_observable_of_an_ensemble_is_that_of_its_members(runs):
    o = tkf.observe
    for of in (
        o.mean_overlap,
        o.order_parameter,
        o.overlaps,
        o.effective_rank,
        o.energy,
        o.attention_matrix,
        o.fraction_close,
    ):
        whole = np.asarray(of(runs))
        assert whole.shape[:3] == (2, 3, 4)
        assert np.allclose(whole[1, 2], of(runs[1, 2]), atol=1e-13), of
    assert o.clusters(runs).shape == (2, 3) and len(o.clusters(runs)[1, 2]) == 4
    densities = tkf.evolve([tkf.usa(1.0, kappa=k) for k in (4.0, 8.0)], tkf.CircleDensity.wave(0.2), t=0.5, save=3)
    assert np.allclose(o.free_energy(densities)[1], o.free_energy(densities.member(1)))


def test_an_ensemble_at_any_time(runs):
    assert np.array_equal(runs.at(1 / 3).x, runs.x[:, :, 1]) and runs.at(0.5).x.shape == (2, 3, 7, 3)
    assert np.array_equal(runs.at(0.5).x[1, 2], runs[1, 2].at(0.5).x)


def test_slices(runs):
    run = runs[1, 2]
    assert run.x.shape == (4, 7, 3) and runs[1:3].x.shape == (2, 3, 2, 7, 3)
    part = run[1:3]
    assert len(part) == 2 and np.array_equal(part.x, run.x[1:3]) and part.flow is run.flow
    assert np.array_equal(run[::2].times, run.times[::2]) and np.array_equal(run[np.int64(2)].x, run.x[2])
    for index in (0.5, "a", None, True, slice(0.5, 2), slice(3, 1), np.ones(2)):
        with pytest.raises(InputError):
            run[index]
    with pytest.raises(IndexError):
        run[4]
    with pytest.raises(InputError, match="indices below"):
        runs[0, 3]


def test_pictures_of_ensembles(runs, tmp_path):
    for k, one in enumerate(
        (runs, tkf.evolve([tkf.sa(b) for b in np.linspace(0.1, 5, 14)], STARTS[0], observe="mean_overlap", **HOW))
    ):
        assert one.plot(tmp_path / f"{k}.png").stat().st_size > 10_000
    figure = runs.plot()
    names = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert names == ["beta = 1", "beta = 4"]


def test_states_from_elsewhere(tmp_path):
    torch_like = type("Tensor", (), {"__array__": lambda self, dtype=None, copy=None: np.ones((3, 4, 2))})()
    hidden = np.random.default_rng(0).normal(size=(5, 6, 3)).astype(np.float32)
    run = tkf.Trajectory.from_states(hidden, times=[0, 1, 2, 4, 8])
    assert run.x.dtype == np.float32 and np.array_equal(run.x, hidden) and run.status is tkf.Status.COMPLETED
    assert tkf.observe.mean_overlap(run).shape == (5,) and len(tkf.observe.clusters(run)) == 5
    assert "states were given" in str(run) and run.plot(tmp_path / "run.png").exists()
    assert np.array_equal(np.asarray(run.final), hidden[-1]) and tkf.Trajectory.from_states(torch_like).x.shape == (
        3,
        4,
        2,
    )
    run.save(tmp_path / "run.zarr")
    assert np.array_equal(tkf.Trajectory.load(tmp_path / "run.zarr").x, hidden)
    measures = tkf.Trajectory.from_states([tkf.Equiangular(rho=r, n=5) for r in (0.1, 0.2)])
    assert np.allclose(measures.rho, [0.1, 0.2])
    for states, times in (
        (hidden[0], None),
        (hidden, [0, 1]),
        (hidden, [0, 1, 1, 2, 3]),
        (hidden * np.nan, None),
        ("x", None),
    ):
        with pytest.raises(InputError):
            tkf.Trajectory.from_states(states, times)


def test_layers_of_many():
    flows = [tkf.Flow(tkf.Softmax(b), tkf.PreLN()) for b in (1.0, 3.0)]
    runs = tkf.layers(flows, STARTS, depth=4)
    assert runs.batch == (2, 3) and runs.x.shape == (2, 3, 5, 7, 3)
    assert np.array_equal(runs[1, 2].x, tkf.layers(flows[1], STARTS[2], depth=4).x)
    assert tkf.layers(flows, STARTS[:2], depth=4, zipped=True).batch == (2,)


def test_a_run_that_did_not_finish_warns():
    with pytest.warns(tkf.errors.UnfinishedWarning, match="used up its steps"):
        tkf.evolve(tkf.sa(1.0), STARTS[0], max_steps=2, **HOW)
    with pytest.warns(tkf.errors.UnfinishedWarning, match="3 of 3 runs did not finish"):
        tkf.evolve(tkf.sa(1.0), STARTS, max_steps=2, **HOW)


def test_a_coordinate_gives_way_to_an_array_of_its_name():
    """A start's n beside the n of its states, a flow's β beside an observable of that name."""
    runs = tkf.evolve([tkf.sa(1.0), tkf.sa(4.0)], [tkf.Equiangular(0.1, 5), tkf.Equiangular(0.1, 50)], t=1.0, save=2)
    assert runs.to_xarray().start_n.values.tolist() == [5, 50]
    start = tkf.Tokens.uniform_sphere(4, 3, seed=0)
    runs = tkf.evolve([tkf.sa(1.0), tkf.sa(4.0)], start, t=1.0, save=2, observe={"beta": lambda mu: mu.x[0, 0]})
    data = runs.to_xarray()
    assert data.beta.dims == ("flow", "time") and data.flow_beta.values.tolist() == [1.0, 4.0]


def test_tokens_that_differ_in_number_are_told_apart():
    starts = [tkf.Tokens(np.eye(3)[:n]) for n in (2, 3)]
    assert tkf.evolve(tkf.sa(1.0), starts, t=1.0, save=2).to_xarray().n.values.tolist() == [2, 3]


def test_attention_matrices_of_unequal_numbers_of_tokens_are_filled_up_with_zeros():
    runs = tkf.evolve(tkf.sa(1.0), [tkf.Tokens(np.eye(3)[:n]) for n in (2, 3)], t=1.0, save=2)
    matrices = tkf.observe.attention_matrix(runs)
    assert matrices.shape == (2, 2, 3, 3) and not np.any(matrices[0, :, 2]) and not np.any(matrices[0, :, :, 2])
    assert np.allclose(matrices[0, :, :2, :2], tkf.observe.attention_matrix(runs.member(0)), atol=1e-15)
