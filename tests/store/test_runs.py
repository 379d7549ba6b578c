"""Runs of every kind of measure survive the disk, also while others write."""

import dataclasses
import json
import math
import threading

import jax
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.measures import MEASURES
from tokenfield.store import runs

TOKENS = tkf.Tokens.uniform_sphere(n=12, d=2, seed=3)
NOISY = tkf.Flow(tkf.Unnormalized(1.0, scaled=True), tkf.PostLN(), kappa=4.0)
RUNS = {
    "tokens with positions": lambda: tkf.layers(
        tkf.Flow(tkf.Causal(tkf.Softmax(1.0))), tkf.Tokens(TOKENS.x, s=np.linspace(0, 1, 12)), depth=3
    ),
    "per layer": lambda: tkf.layers(tkf.sa(tkf.PerLayer([1.0, 2.0, 3.0])), TOKENS, depth=3),
    "one state": lambda: tkf.layers(tkf.sa(1.0), TOKENS, depth=2, save=1),
    "equiangular": lambda: tkf.evolve(tkf.sa(1.0), tkf.Equiangular(rho=0.1, n=50), t=40.0, save=5),
    "gaussian": lambda: tkf.evolve(
        tkf.Flow(tkf.Softmax(0.1)), tkf.Gaussian([0.0, 1.0], [[1.0, 0.2], [0.2, 2.0]]), t=0.5, save=4
    ),
    "circle": lambda: tkf.evolve(NOISY, tkf.CircleDensity.wave(0.1), t=0.2, save=3),
    "sphere": lambda: tkf.evolve(NOISY, tkf.SphereDensity.wave(0.1), t=0.1, save=3),
    "mergers": lambda: tkf.evolve(tkf.sa(9.0), TOKENS, t=1e6, coalesce=1e-5, save="log"),
    "no mergers yet": lambda: tkf.evolve(tkf.sa(9.0), TOKENS, t=1e-3, coalesce=1e-5, save=3),
    "used up": lambda: tkf.evolve(tkf.sa(9.0), TOKENS, t=100.0, save=3, max_steps=5),
}


@pytest.mark.parametrize("name", RUNS)
def test_every_kind_of_run_survives_the_disk(tmp_path, name):
    run = RUNS[name]()
    run.save(tmp_path / "run.zarr")
    again = tkf.Trajectory.load(tmp_path / "run.zarr")
    for one, other in zip(jax.tree.leaves(run), jax.tree.leaves(again), strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype and np.array_equal(one, other)
    assert dataclasses.asdict(run.provenance) == dataclasses.asdict(again.provenance) and str(again) == str(run)


def test_every_kind_of_measure_has_a_table():
    for kind in MEASURES.values():
        table = runs.table(kind)
        assert table["time"] == ("time",) and set(kind.axes) < set(table)
        batch = runs.table(kind, ("flow", "start"))
        assert all(batch[name] == ("flow", "start", "time", *axes) for name, axes in kind.axes.items())
        assert batch["times"] == ("flow", "start", "time") and batch["reached"] == ("flow", "start")
        kept = runs.table(kind, (), {"matrix": 2})
        assert kept["matrix"] == ("time", "matrix_0", "matrix_1") and kept[next(iter(kind.axes))][0] == "last"


def test_numbers_that_are_not_finite_are_spelled(tmp_path):
    """JSON has no word for them, and other readers of the folder stumble over NaN."""
    run = tkf.layers(tkf.sa(1.0), TOKENS, depth=2)
    run = dataclasses.replace(run, provenance=dataclasses.replace(run.provenance, seconds=math.nan, atol=math.inf))
    run.save(tmp_path / "run.zarr")
    text = (tmp_path / "run.zarr" / "zarr.json").read_text()
    json.loads(json.loads(text)["attributes"]["run"], parse_constant=lambda word: pytest.fail(word))
    again = tkf.Trajectory.load(tmp_path / "run.zarr").provenance
    assert math.isnan(again.seconds) and again.atol == math.inf


def test_reading_while_others_write(tmp_path):
    """A reader gets one of the runs, whole, though the folder that it reads is replaced many times."""
    both = [tkf.layers(tkf.sa(β), TOKENS, depth=2) for β in (1.0, 2.0)]
    both[0].save(tmp_path / "run.zarr")
    over = threading.Event()

    def write():
        while not over.is_set():
            for run in both:
                run.save(tmp_path / "run.zarr")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(60):
            found = tkf.Trajectory.load(tmp_path / "run.zarr")
            assert any(np.array_equal(found.x, run.x) and str(found.flow) == str(run.flow) for run in both)
    finally:
        over.set()
        writer.join()
