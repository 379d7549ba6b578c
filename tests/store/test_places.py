"""One whole folder answers to a name at every moment, whoever is killed, and nothing is left lying about."""

import contextlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tokenfield.store import arrays, places

AXES = {"x": ("time", "component")}


def save(path, number):
    """A small folder whose every part says `number`; numpy is all that it takes."""
    with places.replacing(path) as new:
        arrays.write(new, {"x": np.full((50, 3), float(number))}, AXES, {"number": number})


def load(path):
    """The number of the folder that answers to a name, after every part of it was looked at; None where there is none."""
    for place in places.standing(path):
        found, about = arrays.read(place, lambda about: AXES)
        assert np.all(found["x"] == about["number"])
        return about["number"]
    return None


def names(folder):
    return sorted(os.listdir(folder))


NURSERY = """
import os, random, select, signal, sys, time
from pathlib import Path
from tests.store.test_places import load, names, save

folder, kills, dice = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
path, last, between = folder / "run[1].zarr", 0, 0
assert not {"jax", "zarr", "xarray"} & set(sys.modules), "a child must be born quickly"
save(path, 0)
for kill in range(kills):
    ear, mouth = os.pipe()
    child = os.fork()
    if child == 0:
        number, rename = last, os.rename
        if kill % 2:  # half of them dwell on the moment in which nothing has the name
            os.rename = lambda a, b: (time.sleep(0.003), rename(a, b))
        while True:  # numbers grow, and every one that was saved is told
            number += 1
            save(path, number)
            os.write(mouth, number.to_bytes(4, "little"))
    os.close(mouth)
    time.sleep(dice.uniform(0, 0.03))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    told = b""
    while more := os.read(ear, 65536):
        told += more
    os.close(ear)
    told = int.from_bytes(told[-4:], "little") if told else last
    between += not path.exists()
    found = load(path)
    assert found in (told, told + 1), f"kill {kill}: {told} was saved, {found} is there"
    if dice.random() < 0.5:
        last = found + 1
        save(path, last)
        assert load(path) == last and names(folder) == [path.name], (kill, names(folder))
    else:
        last = found  # the next child meets the debris of this one
save(path, last + 1)
assert load(path) == last + 1 and names(folder) == [path.name]
print(between)
"""


def killed(folder, kills, seed=0):
    """How often a child was killed just between the two names, of `kills` that were all survived."""
    words = [sys.executable, "-c", NURSERY, str(folder), str(kills), str(seed)]
    told = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert told.returncode == 0, told.stderr
    return int(told.stdout)


def test_fifty_kills_lose_nothing(tmp_path):
    killed(tmp_path, 50)


@pytest.mark.slow
def test_a_thousand_kills_lose_nothing(tmp_path):
    assert killed(tmp_path, 1000, seed=1) > 10, "some should have hit the moment in which nothing has the name"


class Crash(BaseException):
    pass


@pytest.fixture
def cut_off(monkeypatch):
    """Saving as if the process were killed at a moment: nothing is cleaned up."""

    def cut_off(path, number, moment):
        def rename(a, b):
            here = "first name" if b.name.startswith(".") else "second name"
            if here == moment:
                raise Crash
            os.replace(a, b)

        def rmtree(place, **options):
            raise Crash

        def half(*words):
            raise Crash

        with monkeypatch.context() as patch:
            patch.setattr(places.os, "rename", rename)
            patch.setattr(places.shutil, "rmtree", rmtree)
            if moment == "filling":
                patch.setattr(arrays, "root_text", half)
            with pytest.raises(Crash):
                save(path, number)

    return cut_off


MOMENTS = {"filling": 1, "first name": 1, "second name": 2, "sweeping": 2}


@pytest.mark.parametrize("name", ["run.zarr", "run[1].zarr", "run*.zarr", "r.?{}"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_save_that_is_cut_off(tmp_path, cut_off, name, moment):
    """The old run before the two names change; then the new one."""
    path = tmp_path / name
    save(path, 1)
    cut_off(path, 2, moment)
    assert names(tmp_path) != [name] and load(path) == MOMENTS[moment]
    save(path, 3)
    assert load(path) == 3 and names(tmp_path) == [name]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_deleted_run_stays_deleted(tmp_path, cut_off, moment):
    """Debris brings nothing back, but for a save that was cut off between the names, when there was nothing to delete."""
    path = tmp_path / "run.zarr"
    save(path, 1)
    cut_off(path, 2, moment)
    if moment == "second name":
        assert not path.exists()
        return
    places.shutil.rmtree(path)
    assert load(path) is None
    save(path, 3)
    assert load(path) == 3 and names(tmp_path) == ["run.zarr"]


def test_a_new_run_that_is_damaged_gives_way_to_the_old_one(tmp_path, cut_off):
    """Not every disk keeps what it was told when the power fails."""
    import tokenfield as tkf

    path = tmp_path / "run.zarr"
    runs = [tkf.layers(tkf.sa(β), tkf.Tokens([[1.0, 0.0], [0.0, 1.0]]), depth=2) for β in (1.0, 2.0)]
    runs[0].save(path)
    save(tmp_path / "other", 0)
    cut_off(path, 2, "second name")  # what it would have put there is no run
    assert np.array_equal(tkf.Trajectory.load(path).x, runs[0].x)


def test_others_are_left_alone(tmp_path, cut_off):
    """`run*.zarr` is a name, not a search: the waiting copies of other runs stay."""
    save(tmp_path / "run1.zarr", 1)
    cut_off(tmp_path / "run1.zarr", 2, "second name")
    save(tmp_path / "run*.zarr", 3)
    save(tmp_path / "run*.zarr", 4)
    save(tmp_path / "un1.zarr", 5)
    assert load(tmp_path / "run1.zarr") == 2


def test_a_folder_that_somebody_is_filling_is_left_alone(tmp_path):
    path = tmp_path / "run.zarr"
    with places.replacing(path) as new:
        save(path, 1)
        assert new.exists(), "the other writer is alive"
        arrays.write(new, {"x": np.full((50, 3), 2.0)}, AXES, {"number": 2})
    assert load(path) == 2 and names(tmp_path) == ["run.zarr"]


def test_a_full_disk_leaves_no_debris(tmp_path):
    """A limit on the size of files stands for the disk: the system itself refuses to write on."""
    script = """
import resource, sys
from pathlib import Path
from tests.store.test_places import AXES, load, names, save
from tokenfield.store import arrays, places
import numpy as np
path = Path(sys.argv[1]) / "run.zarr"
save(path, 1)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    with places.replacing(path) as new:
        arrays.write(new, {"x": np.ones((10_000, 3))}, AXES, {"number": 1})
except OSError as error:
    print(error)
assert names(path.parent) == ["run.zarr"] and load(path) == 1
"""
    told = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True)
    assert told.returncode == 0 and "File too large" in told.stdout, told.stderr


def test_failing_to_give_the_name_gives_the_old_one_back(tmp_path, monkeypatch):
    path = tmp_path / "run.zarr"
    save(path, 1)

    def rename(a, b):
        if ".new." in a.name:
            raise OSError("no space left")
        os.replace(a, b)

    with monkeypatch.context() as patch, contextlib.suppress(OSError):
        patch.setattr(places.os, "rename", rename)
        save(path, 2)
    assert load(path) == 1 and names(tmp_path) == ["run.zarr"]


def test_large_arrays_are_cut_along_their_first_axis(tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "PIECE", 1000)
    x = np.random.default_rng(0).normal(size=(53, 7, 3))
    axes = {"x": ("time", "token", "component"), "none": ("merger",), "one": ()}
    mine = {"x": x, "none": np.zeros(0, np.int64), "one": np.asarray(2.5, np.float32)}
    arrays.write(tmp_path, mine, axes, {"a": 1})
    found, about = arrays.read(tmp_path, lambda about: axes)
    assert about == {"a": 1} and all(
        np.array_equal(found[k], mine[k]) and found[k].dtype == mine[k].dtype for k in mine
    )
    assert len(names(tmp_path / "x")) == 12
    xarray = pytest.importorskip("xarray")
    assert np.array_equal(xarray.open_zarr(tmp_path).x, x)
    last = sorted((tmp_path / "x").glob("c.*"), key=lambda file: int(file.name.split(".")[1]))[-1]
    data = last.read_bytes()
    last.write_bytes(data[:-1] + b"x")
    with pytest.raises(arrays.Refused, match="holds more than its numbers"):
        arrays.read(tmp_path, lambda about: axes)
    metadata = json.loads((tmp_path / "x" / "zarr.json").read_text())
    assert metadata["codecs"] == [{"name": "bytes", "configuration": {"endian": "little"}}]
