"""A sweep's folder: whatever is not this sweep is left alone, whatever is damaged is told, a full disk loses nothing."""

import errno
import json
import subprocess
import sys

import numpy as np
import pytest

import tokenfield as tkf
from tests.sweeps.tiny import BETA, KEPT, SEED, SPEC, TEXT, failures, marks, same, spec, tokenfield, tree
from tokenfield.errors import InputError, StoreError
from tokenfield.status import Status
from tokenfield.store import arrays
from tokenfield.sweeps.folder import Folder

OVER = {"time.end": [1.0, 2.0, 3.0], BETA: [1.0, 4.0], SEED: [0, 1, 2]}


def sweep(out=None, data=SPEC, over=OVER, **more):
    return tkf.sweep(data, over=over, observe="mean_overlap", workers=0, out=out, **more)


@pytest.fixture(scope="module")
def known():
    return sweep()


def test_another_sweep_is_refused_with_the_difference(tmp_path):
    sweep(tmp_path / "grid.zarr")
    before = tree(tmp_path)
    with pytest.raises(StoreError, match=r"measure\.n: 4 there, 5 here"):
        sweep(tmp_path / "grid.zarr", spec(measure__n=5))
    with pytest.raises(StoreError, match="another sweep"):
        sweep(tmp_path / "grid.zarr", over={**OVER, SEED: [0, 1]})
    assert tree(tmp_path) == before


def test_something_else_is_left_alone(tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine").write_text("mine")
    tkf.evolve(tkf.sa(1.0), tkf.Tokens.orthonormal(2), t=1.0, save=2).save(tmp_path / "run.zarr")
    before = tree(tmp_path)
    for name in ("file", "folder", "run.zarr"):
        with pytest.raises(InputError):
            sweep(tmp_path / name)
    assert tree(tmp_path) == before


def test_two_at_once_are_refused(tmp_path):
    sweep(tmp_path / "grid.zarr")
    with Folder.opened(tmp_path / "grid.zarr").held():
        place = str(tmp_path / "grid.zarr")
        code = f"from tests.sweeps.test_folder import sweep; sweep({place!r})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode and "Another process is computing" in done.stderr


def test_a_full_disk_is_told_and_loses_nothing(tmp_path, known, monkeypatch):
    put, count = arrays.put, []

    def full(path, parts):
        if path.name.startswith(".part"):
            count.append(path)
            if len(count) > 12:
                raise OSError(errno.ENOSPC, "No space left on device")
        put(path, parts)

    monkeypatch.setattr(arrays, "put", full)
    with pytest.raises(StoreError, match=r"No space left on device\. \d of 3 groups are kept"):
        sweep(tmp_path / "grid.zarr")
    monkeypatch.setattr(arrays, "put", put)
    before = marks(tmp_path / "grid.zarr")
    assert 0 < len(before) < 3
    half = tkf.load_sweep(tmp_path / "grid.zarr")
    assert int((half.status == Status.RUNNING).sum()) == 6 * (3 - len(before))
    assert same(sweep(tmp_path / "grid.zarr"), known)
    after = marks(tmp_path / "grid.zarr")
    assert all(after[name] == mark for name, mark in before.items())


def test_damage_is_told(tmp_path, known):
    path = tmp_path / "grid.zarr"
    sweep(path)
    chunk = next(path.glob("mean_overlap/c.1.*"))
    data = bytearray(chunk.read_bytes())
    data[3] ^= 1
    chunk.write_bytes(data)
    with pytest.raises(StoreError, match="does not match its checksum"):
        tkf.load_sweep(path)
    chunk.write_bytes(data[:-8])  # a group whose files are cut off is computed again
    assert same(sweep(path), known)
    mark = next((path / "blocks").iterdir())
    mark.write_text("[" * 100_000)
    with pytest.raises(StoreError, match="mark"):
        tkf.load_sweep(path)


@pytest.mark.parametrize("what", ["codecs", "shape", "name", "dtype", "axes", "deep", "link"])
def test_a_hostile_folder_is_refused(tmp_path, what):
    path = tmp_path / "grid.zarr"
    sweep(path)
    root = json.loads((path / "zarr.json").read_text())
    inside, described = root["consolidated_metadata"]["metadata"], root["attributes"]["sweep"]
    if what == "codecs":
        inside["mean_overlap"]["codecs"] = [{"name": "numcodecs.pickle"}]
    elif what == "shape":
        described["variables"]["mean_overlap"][1] = [2**60]
    elif what == "name":
        described["variables"]["../../etc"] = described["variables"].pop("mean_overlap")
    elif what == "dtype":
        described["variables"]["mean_overlap"][0] = "object"
    elif what == "axes":
        described["axes"] = [{"path": "a", "name": "a", "values": []}]
    text = "[" * 10**6 if what == "deep" else json.dumps(root, indent=1)
    (path / "zarr.json").unlink()
    if what == "link":
        (tmp_path / "elsewhere").write_text(text)
        (path / "zarr.json").symlink_to(tmp_path / "elsewhere")
    else:
        (path / "zarr.json").write_text(text)
    with pytest.raises(StoreError):
        tkf.load_sweep(path)


def test_members_that_fail_are_recorded_and_stop_nothing(tmp_path):
    """One that raises, one that is refused, one that blows up and those that run out of steps."""

    def flow(case):
        if case == "raises":
            raise KeyError("a mistake of mine")
        if case == "refused":
            return tkf.sa("hot")
        scale = {"fine": -1.0, "blows up": 1.0}.get(case, -1.0)
        return tkf.Flow(tkf.Softmax(1.0, V=scale), tkf.Free())

    normal = tkf.Gaussian([0.0, 0.0], np.eye(2))
    over = {"case": ["fine", "raises", "refused", "blows up"]}
    grid = tkf.sweep(flow, normal, 4.0, over=over, observe="trace", save=3, workers=0, out=tmp_path / "grid.zarr")
    assert grid.status.values.tolist() == [Status.COMPLETED, -3, -3, Status.BLOW_UP]
    told = failures(grid)
    assert "a mistake of mine" in told[1] and "beta" in told[2] and set(told) == {1, 2}
    short = tkf.sweep(SPEC, over={BETA: [1.0, 2.0], "time.max_steps": [2, 1000]}, observe="mean_overlap", workers=0)
    assert short.status.values.tolist() == [[Status.MAX_STEPS, Status.COMPLETED]] * 2
    shown = tokenfield("show", "grid.zarr", cwd=tmp_path).stdout
    assert "2 refused" in shown and "1 blow up" in shown and "a mistake of mine" in shown


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--over", "flow.attention.betta=1,2"], "betta"),
        (["--over", "flow.attention.beta=linspace:1:2"], "cannot be read"),
        (["--over", "measure.seed=range:3:3"], "no values"),
        (["--over", "nonsense=1,2"], "no such field"),
        (["--over", "flow.attention.beta=1,1"], "twice"),
        (["--over", "flow.attention.beta=1,2", "--observe", "mean_overlapp"], "Did you mean 'mean_overlap'"),
        (["--over", "flow.attention.beta=1,2", "--workers", "-1"], "--workers"),
        (["--over", "flow.attention.beta=1,2", "--scheduler", "tcp://127.0.0.1:1"], "does not answer"),
    ],
)
def test_mistakes_on_the_command_line_are_told_in_a_sentence(words, told, tmp_path):
    (tmp_path / "spec.toml").write_text(TEXT, encoding="utf-8")
    kept = [] if "--observe" in words else KEPT
    said = tokenfield("sweep", "spec.toml", *words, *kept, "--out", "grid.zarr", cwd=tmp_path, code=2).stderr
    assert told in said


def test_a_half_finished_sweep_opens_with_xarray(tmp_path):
    import xarray

    sweep(tmp_path / "grid.zarr")
    folder = Folder.opened(tmp_path / "grid.zarr")
    gone = next((tmp_path / "grid.zarr" / "mean_overlap").glob("c.2.*"))
    gone.unlink()
    with xarray.open_zarr(folder.path) as data:
        assert np.isnan(data.mean_overlap.sel(end=3.0)).all() and not np.isnan(data.mean_overlap.sel(end=1.0)).any()
