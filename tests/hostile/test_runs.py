"""Saved runs from strangers and from broken disks: no code runs, memory stays bounded, a sentence each."""

import base64
import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tests.hostile.earlier import write_earlier
from tokenfield.errors import StoreError
from tokenfield.store import arrays

RUN = tkf.layers(tkf.sa(2.0), tkf.Tokens.uniform_sphere(n=6, d=3, seed=1), depth=4)


class Canary:
    """Unpickled, it writes a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.fixture
def place(tmp_path):
    RUN.save(tmp_path / "run.zarr")
    return tmp_path / "run.zarr"


@pytest.fixture
def earlier(tmp_path):
    write_earlier(RUN, tmp_path / "run.zarr")
    return tmp_path / "run.zarr"


def refused(place, sentence=""):
    """Reading is refused in a sentence, and nothing was run."""
    with pytest.raises(StoreError, match=r"run\.zarr") as told:
        tkf.Trajectory.load(place)
    assert not (place.parent / "canary").exists(), "a file that is read has run code"
    assert sentence in str(told.value), str(told.value)
    assert len(str(told.value)) < 600
    return str(told.value)


def change(place, edit, whole=True):
    """Edit the metadata, as one who knows the format would: all copies of them, and the checksum."""
    root = json.loads((place / "zarr.json").read_text())
    edit(root)
    inside = root["consolidated_metadata"]["metadata"]
    for name, metadata in inside.items():
        (place / name).mkdir(exist_ok=True)
        (place / name / "zarr.json").write_text(json.dumps(metadata, indent=1))
    if whole:
        root["attributes"]["checksum"] = ""
        total = hashlib.sha256(json.dumps(root, indent=1).encode())
        for name in inside:
            for file in sorted(place.glob(f"{name}/c*")):
                total.update(file.read_bytes())
        root["attributes"]["checksum"] = total.hexdigest()
    (place / "zarr.json").write_text(json.dumps(root, indent=1))


def in_arrays(root):
    return root["consolidated_metadata"]["metadata"]


def test_an_edit_that_changes_nothing_is_read(place):
    """So that the others are refused for what they change."""
    change(place, lambda root: None)
    assert np.array_equal(tkf.Trajectory.load(place).x, RUN.x)


def known(part, value):
    def edit(root):
        run = json.loads(root["attributes"]["run"])
        run[part] = value
        root["attributes"]["run"] = json.dumps(run)

    return edit


def set_x(key, value):
    return lambda root: in_arrays(root)["x"].__setitem__(key, value)


def extra_array(root):
    in_arrays(root)["y"] = in_arrays(root)["time"]


EDITS = {
    "pickle codec": (
        set_x("codecs", [{"name": "numcodecs.pickle", "configuration": {}}]),
        "the metadata of x are not what saving writes",
    ),
    "compression": (
        set_x("codecs", [{"name": "zstd", "configuration": {"level": 0}}]),
        "the metadata of x are not what saving writes",
    ),
    "object dtype": (set_x("data_type", "object"), "the numbers of x are 'object'"),
    "strings": (set_x("data_type", "string"), "the numbers of x are 'string'"),
    "structured": (set_x("data_type", {"name": "struct"}), "the numbers of x are"),
    "absurd shape": (set_x("shape", [10**15, 6, 3]), "no list of sizes"),
    "large shape": (set_x("shape", [2**40, 6, 3]), "the metadata of x"),
    "negative shape": (set_x("shape", [-5, 6, 3]), "no list of sizes"),
    "shape of truths": (set_x("shape", [True, 6, 3]), "no list of sizes"),
    "another shape": (set_x("shape", [5, 3, 6]), ""),
    "axes": (set_x("shape", [5, 18]), "x has 2 axes instead of 3"),
    "another layout": (
        set_x("chunk_grid", {"name": "regular", "configuration": {"chunk_shape": [1, 6, 3]}}),
        "the metadata of x",
    ),
    "storage transformers": (set_x("storage_transformers", [{"name": "x"}]), "the metadata of x"),
    "more attributes": (lambda root: root["attributes"].update(more=1), "its attributes are not those of a saved run"),
    "extra array": (extra_array, "an array 'y', which no such run has"),
    "a name that leads out": (
        lambda root: in_arrays(root).update({"../../x": in_arrays(root)["x"]}),
        "no such run has",
    ),
    "a later version": (
        lambda root: root["attributes"].update(tokenfield=3),
        "expected a tokenfield run of format 2, found 3",
    ),
    "no version": (lambda root: root["attributes"].pop("tokenfield"), "found None"),
    "unknown measure": (
        lambda root: root["attributes"].update(measure='{"kind": "Canary"}'),
        "an unknown kind of measure, 'Canary'",
    ),
    "measure with lists": (
        lambda root: root["attributes"].update(measure='{"kind": "Tokens", "x": [1]}'),
        "its measure is not one",
    ),
    "measure as a number": (lambda root: root["attributes"].update(measure=3), "its attributes"),
    "status": (known("status", "GREAT"), "has status = 'GREAT'"),
    "signs for the terminal": (known("solver", "\x1b[2J\x1b]0;mine\x07"), "has solver ="),
    "infinite beta": (known("flow", {"attention": {"kind": "softmax", "beta": {"float": "inf"}}}), "beta"),
    "beta not a number": (known("flow", {"attention": {"kind": "softmax", "beta": {"float": "nan"}}}), "beta"),
    "beta as text": (known("flow", {"attention": {"kind": "softmax", "beta": "4"}}), "beta"),
    "steps": (known("steps", -1), "has steps = -1"),
    "huge steps": (known("steps", 10**40), "has steps ="),
    "seconds": (known("seconds", "long"), "has seconds = 'long'"),
    "reached": (known("reached", None), "has reached = None"),
    "unknown part": (known("hooks", "os.system"), "has an unknown part 'hooks'"),
    "unknown attention": (known("flow", {"attention": {"kind": "os.system"}}), "Unknown kind 'os.system'"),
    "flow without attention": (known("flow", {}), ""),
    "deep flow": (known("flow", {"attention": json.loads('{"a":' * 300 + "1" + "}" * 300)}), ""),
    "NaN": (
        lambda root: root["attributes"].update(
            run=root["attributes"]["run"].replace('"reached": 4.0', '"reached": NaN')
        ),
        "NaN is not a number",
    ),
    "infinity": (
        lambda root: root["attributes"].update(
            run=root["attributes"]["run"].replace('"reached": 4.0', '"reached": 1e999')
        ),
        "has reached = inf",
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_metadata_that_saving_does_not_write(place, name):
    edit, sentence = EDITS[name]
    change(place, edit)
    refused(place, sentence)


def enlarge(place, rows):
    """Consistent metadata of as many states as one likes."""
    inside = in_arrays(json.loads((place / "zarr.json").read_text()))
    layouts = {
        name: arrays.Layout((rows, *old["shape"][1:]), old["data_type"], tuple(old["dimension_names"]))
        for name, old in inside.items()
    }
    change(place, lambda root: in_arrays(root).update({k: new.metadata for k, new in layouts.items()}), whole=False)


@pytest.mark.parametrize(("rows", "sentence"), [(2**37, "GB of memory"), (10**6, "bytes instead of"), (0, "")])
def test_sizes_are_compared_with_memory_and_files_before_anything_is_allocated(place, rows, sentence):
    enlarge(place, rows)
    refused(place, sentence)


@pytest.mark.parametrize("word", ["beta", "status", "created", "solver", "seed", "numpy"])
def test_the_checksum_covers_what_is_known_about_a_run(place, word):
    """One letter of β, the status, the provenance: whatever is not numbers."""
    text = (place / "zarr.json").read_text()
    at = text.index(word) + len(word) + 6
    while not text[at].isalnum():
        at += 1
    (place / "zarr.json").write_text(text[:at] + ("7" if text[at] != "7" else "8") + text[at + 1 :])
    refused(place)


@pytest.mark.parametrize("name", ["x", "w", "time"])
def test_the_checksum_covers_every_number(place, name):
    file = next((place / name).glob("c*"))
    data = bytearray(file.read_bytes())
    for at in (0, len(data) // 2, len(data) - 1):
        data[at] ^= 1
        file.write_bytes(data)
        refused(place, "do not match their checksum")
        data[at] ^= 1


def truncate(file, keep):
    def harm(place):
        (place / file).write_bytes((place / file).read_bytes()[:keep])

    return harm


def lengthen(place):
    (place / "x" / "c.0.0.0").write_bytes((place / "x" / "c.0.0.0").read_bytes() + b"0" * 8)


def link_out(name):
    def harm(place):
        shutil.move(place / name, place.parent / "outside")
        (place / name).symlink_to(place.parent / "outside")

    return harm


def pipe(place):
    (place / "x" / "c.0.0.0").unlink()
    os.mkfifo(place / "x" / "c.0.0.0")


def without_numbers(place):
    change(place, lambda root: in_arrays(root).pop("x"), whole=False)
    shutil.rmtree(place / "x")


HARMS = {
    "half a chunk": (truncate("x/c.0.0.0", 40), "has 40 bytes instead of 720"),
    "an empty chunk": (truncate("time/c.0", 0), "has 0 bytes instead of 40"),
    "a longer chunk": (lengthen, "has 728 bytes"),
    "half of the metadata": (truncate("zarr.json", 100), "not JSON"),
    "no metadata": (truncate("zarr.json", 0), "not JSON"),
    "an array's metadata cut": (truncate("x/zarr.json", 50), "the metadata of x"),
    "no such chunk": (lambda place: (place / "x" / "c.0.0.0").unlink(), "the file 'c.0.0.0' is missing"),
    "no such array": (lambda place: shutil.rmtree(place / "w"), "the folder 'w' is missing"),
    "no root": (lambda place: (place / "zarr.json").unlink(), ""),
    "without its numbers": (without_numbers, ""),
    "another file": (lambda place: (place / "run.py").write_text("x"), "a file 'run.py', which saving does not write"),
    "another chunk": (lambda place: (place / "x" / "c.1.0.0").write_bytes(b"x"), "which saving does not write"),
    "another folder": (lambda place: (place / "more").mkdir(), "a folder 'more', which saving does not write"),
    "a linked chunk": (link_out("x/c.0.0.0"), "a link or device 'c.0.0.0'"),
    "a linked array": (link_out("x"), "a link or device 'x'"),
    "linked metadata": (link_out("zarr.json"), "not an ordinary file"),
    "a pipe": (pipe, "a link or device"),
    "not JSON": (lambda place: (place / "zarr.json").write_bytes(b"\xff\xfe\x00"), "not JSON"),
    "a list": (lambda place: (place / "zarr.json").write_text("[]"), "not those of a saved run"),
    "deep nesting": (lambda place: (place / "zarr.json").write_text("[" * 10**6), "nested too deeply"),
    "a huge number": (lambda place: (place / "zarr.json").write_text("1" * 10**5), "not JSON"),
    "a word twice": (
        lambda place: (place / "zarr.json").write_text(
            (place / "zarr.json").read_text().replace('"zarr_format": 3,', '"zarr_format": 3, "zarr_format": 3,', 1)
        ),
        "not what saving writes",
    ),
}


@pytest.mark.parametrize("name", HARMS)
def test_folders_that_saving_does_not_write(place, name):
    harm, sentence = HARMS[name]
    harm(place)
    refused(place, sentence)


@pytest.mark.parametrize("value", [np.nan, -1.0], ids=["NaN", "time goes back"])
def test_numbers_that_no_run_has(tmp_path, place, value):
    """Even with a checksum that is right."""
    data = np.fromfile(place / "time" / "c.0")
    data[2] = value
    data.tofile(place / "time" / "c.0")
    change(place, lambda root: None)
    refused(place, "NaN" if np.isnan(value) else "not in order")


def test_a_run_with_holes_is_not_saved(tmp_path):
    """What could not be loaded is not written."""
    broken = eqx.tree_at(lambda run: run.times, RUN, jnp.array([0.0, jnp.nan, 2.0, 3.0, 4.0]))
    with pytest.raises(StoreError, match="time has entries that are not a number"):
        broken.save(tmp_path / "run.zarr")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "loop/run.zarr", "file/run.zarr"])
def test_names_that_cannot_be(tmp_path, name):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").write_text("x")
    for door in (tkf.Trajectory.load, RUN.save):
        with pytest.raises(StoreError):
            door(tmp_path / name)


def test_a_folder_that_may_not_be_read(tmp_path, place):
    """As somebody whom the system stops: root sees everything, so the process becomes nobody first."""
    script = """
import os, sys, tokenfield as tkf
from tokenfield.errors import StoreError
from tokenfield.store import runs
place = sys.argv[1]
run = tkf.Trajectory.load(place)
os.chmod(os.path.dirname(place), 0o755)
for folder in (place, os.path.join(place, "x"), os.path.dirname(place)):
    os.chmod(folder, 0)
    if os.getuid() == 0:
        os.seteuid(65534)
    for door in (tkf.Trajectory.load, run.save):
        try:
            door(place)
        except StoreError as error:
            assert "ermission denied" in str(error), error
        else:
            assert door == run.save and folder.endswith("x"), (door, folder)
    if os.getuid() == 0:
        os.seteuid(0)
    os.chmod(folder, 0o755)
"""
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    told = subprocess.run([sys.executable, "-c", script, str(place)], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr


MEASURED = """
import resource, sys
import tokenfield as tkf
from tokenfield.errors import InputError
tkf.Trajectory
try:
    tkf.Trajectory.load(sys.argv[1] + "/none")
except InputError:
    pass
import tokenfield.spec.files
from pathlib import Path
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[1:]:
    try:
        tkf.Trajectory.load(path) if path.endswith(".zarr") else tokenfield.spec.files.numbers(path, Path())
    except InputError as error:
        assert len(str(error)) < 600
    else:
        raise AssertionError(path)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def grown(*paths):
    """By how many MB a process grows that tries to read these files and is refused each."""
    told = subprocess.run([sys.executable, "-c", MEASURED, *map(str, paths)], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    return int(told.stdout) / 1024


def test_bombs_take_no_memory(tmp_path):
    """Sparse files, sizes that are not there, compressed zeros, nested brackets."""
    import zipfile

    sparse = tmp_path / "sparse.zarr"
    RUN.save(sparse)
    enlarge(sparse, 4_000_000_000)
    for k in range(100):
        with open(sparse / "time" / f"c.{k}", "wb") as file:
            file.truncate(arrays.PIECE)
    deep = tmp_path / "deep.zarr"
    RUN.save(deep)
    (deep / "zarr.json").write_text("[" * 3_000_000)
    claimed = tmp_path / "claimed.npy"
    np.save(claimed, np.zeros(10))
    claimed.write_bytes(claimed.read_bytes().replace(b"(10,)", b"(9999999999,)".ljust(13)))
    zeros = tmp_path / "zeros.npz"
    with zipfile.ZipFile(zeros, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", b"\x93NUMPY" + bytes(200_000_000))
    assert zeros.stat().st_size < 1e6
    assert grown(sparse, deep, claimed, zeros) < 60


# The earlier format


def edit_earlier(place, edit):
    together = json.loads((place / ".zmetadata").read_text())
    edit(together["metadata"])
    (place / ".zmetadata").write_text(json.dumps(together))
    for name, part in together["metadata"].items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(json.dumps(part))


def test_runs_of_the_earlier_format_are_read(earlier):
    again = tkf.Trajectory.load(earlier)
    assert np.array_equal(again.x, RUN.x) and str(again) == str(RUN)
    again.save(earlier)
    assert sorted(os.listdir(earlier)) == ["time", "w", "x", "zarr.json"]
    assert str(tkf.Trajectory.load(earlier)) == str(RUN)


def pickled(place, metadata):
    metadata["x/.zarray"].update(filters=[{"id": "pickle", "protocol": 5}], dtype="|O", compressor=None)
    (place / "x" / "0.0.0").write_bytes(pickle.dumps(Canary(place.parent / "canary")))


def pickled_numbers(place, metadata):
    metadata["x/.zarray"].update(filters=[{"id": "pickle", "protocol": 5}], compressor=None)
    (place / "x" / "0.0.0").write_bytes(pickle.dumps(Canary(place.parent / "canary")))


def bomb(place, metadata):
    """A piece whose header claims more than there is."""
    data = bytearray((place / "x" / "0.0.0").read_bytes())
    data[4:8] = (2**31 - 1).to_bytes(4, "little")
    (place / "x" / "0.0.0").write_bytes(data)


EARLIER = {
    "pickle filter": (pickled, "the numbers of x are |O"),
    "pickle filter on numbers": (pickled_numbers, "the metadata of x are not what saving wrote"),
    "another compressor": (
        lambda place, metadata: metadata["x/.zarray"].update(compressor={"id": "zlib", "level": 1}),
        "the metadata of x",
    ),
    "pickle compressor": (
        lambda place, metadata: metadata["x/.zarray"].update(compressor={"id": "pickle"}),
        "the metadata of x",
    ),
    "object fill": (
        lambda place, metadata: metadata["x/.zarray"].update(fill_value=base64.b64encode(b"x").decode()),
        "",
    ),
    "absurd shape": (lambda place, metadata: metadata["x/.zarray"].update(shape=[10**13, 6, 3]), ""),
    "absurd shape and pieces": (
        lambda place, metadata: metadata["x/.zarray"].update(shape=[10**13, 6, 3], chunks=[10**13, 6, 3]),
        "",
    ),
    "many pieces": (
        lambda place, metadata: metadata["x/.zarray"].update(shape=[10**9, 6, 3], chunks=[1, 1, 1]),
        "pieces",
    ),
    "more numbers than bytes": (
        lambda place, metadata: metadata["x/.zarray"].update(shape=[10**7, 6, 3], chunks=[10**7, 6, 3]),
        "cannot be",
    ),
    "a bomb": (bomb, "x/0.0.0 is damaged"),
    "noise": (lambda place, metadata: (place / "x" / "0.0.0").write_bytes(os.urandom(500)), "is damaged"),
    "half a piece": (lambda place, metadata: truncate("x/0.0.0", 60)(place), "is damaged"),
    "no piece": (lambda place, metadata: (place / "x" / "0.0.0").unlink(), "the file '0.0.0' is missing"),
    "an extra array": (lambda place, metadata: metadata.update({"y/.zarray": metadata["x/.zarray"]}), "an array 'y'"),
    "a link": (lambda place, metadata: link_out("x/0.0.0")(place), "link or device"),
    "another version": (lambda place, metadata: metadata[".zattrs"].update(tokenfield=0), "found 0"),
    "another file": (lambda place, metadata: (place / "x" / "evil").write_text(""), "which saving does not write"),
    "another number": (
        lambda place, metadata: metadata[".zattrs"].update(checksum=metadata[".zattrs"]["checksum"] + 1),
        "do not match their checksum",
    ),
}


@pytest.mark.parametrize("name", EARLIER)
def test_the_earlier_format_is_read_as_strictly(earlier, name):
    harm, sentence = EARLIER[name]
    edit_earlier(earlier, lambda metadata: harm(earlier, metadata))
    refused(earlier, sentence)


def test_an_edit_of_the_earlier_format_that_changes_nothing_is_read(earlier):
    edit_earlier(earlier, lambda metadata: None)
    assert np.array_equal(tkf.Trajectory.load(earlier).x, RUN.x)
