"""Specs and files of numbers from strangers: they are read quickly or refused quickly, in a sentence, and run no code."""

import io
import pickle
import time
import tomllib
import zipfile

import numpy as np
import pytest

from tests.hostile.test_runs import Canary
from tokenfield.errors import InputError
from tokenfield.spec import TEMPLATE, Spec, SpecError, toml
from tokenfield.spec.files import numbers

SECONDS = 10
"""Of the processor, longer than any of these should take by far; the worst took minutes."""


def refused(path, overrides=()):
    began = time.process_time()
    with pytest.raises(SpecError) as told:
        Spec.load(path, overrides).run()
    assert time.process_time() - began < SECONDS
    assert len(str(told.value)) < 8000 and max(map(len, str(told.value).splitlines())) < 1000
    return str(told.value)


SPECS = {
    "leading spaces": TEMPLATE + " " * 100_000 + "x\n",
    "spaces in a header": "[" + " " * 100_000 + "x\n",
    "spaces in a key": "x" + " " * 100_000 + "y\n",
    "lists": "x = " + "[" * 100_000,
    "closed lists": "x = " + "[" * 5000 + "]" * 5000,
    "tables": "x = " + "{a=" * 100_000,
    "a dotted name": ".".join("a" * 300_000) + " = 1",
    "a dotted header": "[" + ".".join("a" * 300_000) + "]",
    "dotted names in quotes": ".".join(['"a"'] * 100_000) + " = 1",
    "many digits": "x = " + "1" * 100_000,
    "many quotes": '"' * 1_000_000,
    "many escapes": 'x = "' + "\\" * 999_999,
    "many strings without an end": 'x = """a\\"' * 50_000,
    "many headers": "".join(f"[a{k}]\n" for k in range(20_000)),
    "no end of a comment": "#" * 1_000_000 + "\x00",
    "a huge whole number": TEMPLATE.replace("beta = 9.0", "beta = 1" + "0" * 400),
    "a number of four thousand digits": TEMPLATE.replace("n = 500", "n = 1" + "0" * 4000),
    "more tokens than memory": TEMPLATE.replace("n = 500", "n = 1000000000000"),
    "more states than memory": TEMPLATE.replace("save = 200", "save = 1000000000000"),
    "more dimensions than memory": TEMPLATE.replace("d = 3", "d = 1000000000000"),
    "a file without a name": TEMPLATE.replace("# V = -1.0", 'V = "a\\u0000b.npy"'),
    "a file with a long name": TEMPLATE.replace("# V = -1.0", f'V = "{"a" * 5000}.npy"'),
    "a file of no end": TEMPLATE.replace("# V = -1.0", 'V = "/dev/zero"'),
    "NaN": TEMPLATE.replace("beta = 9.0", "beta = nan"),
}


@pytest.mark.parametrize("name", SPECS)
def test_specs_that_are_meant_to_hurt(tmp_path, name):
    (tmp_path / "spec.toml").write_text(SPECS[name], encoding="utf-8")
    refused(tmp_path / "spec.toml")


def test_what_is_too_large_or_has_no_end(tmp_path):
    (tmp_path / "spec.toml").write_bytes(b"#" * (toml.LARGEST + 1))
    assert "longer than 4 MB" in refused(tmp_path / "spec.toml")
    assert "longer than 4 MB" in refused("/dev/zero")


def test_deep_and_long_overrides(tmp_path):
    (tmp_path / "spec.toml").write_text(TEMPLATE, encoding="utf-8")
    for change in ("a." * 5000 + "b=1", "measure.n=" + "[" * 50_000, "measure.n=" + "1" * 50_000):
        refused(tmp_path / "spec.toml", [change])


def test_deep_data():
    deep: dict = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(SpecError):
        Spec.from_dict({"measure": deep})


def test_reading_takes_a_time_that_grows_with_the_length():
    """Sixteen times the spaces take about sixteen times as long; cubic, it would be four thousand times."""

    def seconds(count):
        text = TEMPLATE + (" " * count + "x = 1\n") + ("y" + " " * count + "= 1\n")
        began = time.process_time()
        toml.lines(text)
        toml.parsed(text)
        return time.process_time() - began

    seconds(1000)
    assert seconds(320_000) < 200 * max(min(seconds(20_000) for _ in range(3)), 1e-3)


@pytest.mark.parametrize(
    "text",
    [
        TEMPLATE,
        'a = "[[[["\nb = """\n[x]\n"""\n[c]\n"d.e" = 1 # [[[[\n[[f]]\n  g.h = 2.5\n',
        "x = [[1.0, 2.0], [3.0, 4.0]]\ny = {a = {b = [1, 2]}}\n",
        "x = '" + "[" * 100 + "'\ny = '''\n" + "{" * 100 + "'''\nz = \"\\\"" + "[" * 100 + '"\n#' + "[" * 100,
        "[" + ".".join("abcdefgh") + "]\nk = 1",
    ],
)
def test_what_is_not_deep_is_read_as_before(text):
    assert toml.parsed(text) == tomllib.loads(text)


def test_lines_are_found():
    text = 'a = 1\n\n[b . "c"]\n  d.e = 2\n"f" = 3\n[[g]]\nh\t= 4\n'
    found = toml.lines(text)
    assert found == {("a",): 1, ("b", "c"): 3, ("b", "c", "d", "e"): 4, ("b", "c", "f"): 5, ("g",): 6, ("g", "h"): 7}


# Numbers


def npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def npz(compressed=False, **parts):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as archive:
        for name, data in parts.items():
            archive.writestr(f"{name}.npy", data)
    return file.getvalue()


X = npy(np.random.default_rng(0).normal(size=(40, 3)))


def broken(data, at, by=b"\xff\xff\xff\xff"):
    return data[:at] + by + data[at + len(by) :]


def header(text):
    """An .npy with this header."""
    text = text.encode().ljust(120) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(80)


def encrypted(data):
    at = data.index(b"PK\x01\x02")
    return broken(broken(data, at + 8, b"\x01"), 6, b"\x01")


def files(canary):
    objects = npy(np.array([Canary(canary)], dtype=object))
    return {
        "objects": (objects, "not real numbers"),
        "objects in an archive": (npz(x=objects), "not real numbers"),
        "pickle": (pickle.dumps(Canary(canary)), "not a zip file"),
        "pickle in an archive": (npz(x=pickle.dumps(Canary(canary))), "magic"),
        "text": (npy(np.array(["a", "b"])), "not real numbers"),
        "records": (npy(np.zeros(3, [("a", float), ("b", int)])), "not real numbers"),
        "complex": (npy(np.zeros(3, complex)), "not real numbers"),
        "dates": (npy(np.zeros(3, "M8[s]")), "not real numbers"),
        "half": (X[:300], "it claims 960 bytes of numbers, but has"),
        "longer": (X + b"0", "it claims 960 bytes of numbers, but has 961"),
        "no header": (X[:8], ""),
        "empty": (b"", "not a zip file"),
        "another version": (broken(X, 6, b"\x09"), "version"),
        "absurd shape": (
            header("{'descr': '<f8', 'fortran_order': False, 'shape': (10**30,)}".replace("10**30", "1" + "0" * 30)),
            "bytes of numbers",
        ),
        "negative shape": (header("{'descr': '<f8', 'fortran_order': False, 'shape': (-2, -5)}"), "shape"),
        "code as a header": (header(f"open({str(canary)!r}, 'w')"), ""),
        "code in a shape": (
            header("{'descr': '<f8', 'fortran_order': False, 'shape': (len(__import__('os').listdir()),)}"),
            "",
        ),
        "deep header": (header("(" * 110), ""),
        "half an archive": (npz(x=X)[:500], "not a zip file"),
        "damaged archive": (broken(npz(compressed=True, x=X), 60), ""),
        "damaged numbers": (broken(npz(x=X), 300), "CRC"),
        "encrypted": (encrypted(npz(x=X)), ""),
        "other files": (npz(**{"x": X, "../y": X})[:0] + npz(x=X).replace(b"x.npy", b"x.exe"), "arrays with names"),
        "many arrays": (npz(**{f"x{k}": X for k in range(100)}), "up to 16 arrays"),
        "a lie about sizes": (_lie(npz(compressed=True, x=X)), ""),
    }


def _lie(data):
    """The archive says that its part is 3 GB long."""
    at = data.index(b"PK\x01\x02")
    return broken(data, at + 24, (3_000_000_000).to_bytes(4, "little"))


@pytest.mark.parametrize("name", files("canary"))
def test_files_of_numbers_that_are_none(tmp_path, name):
    data, sentence = files(tmp_path / "canary")[name]
    (tmp_path / "x.npz").write_bytes(data)
    with pytest.raises(InputError, match=r"x\.npz cannot be read as numbers: .*Expected an \.npy or \.npz") as told:
        numbers("x.npz", tmp_path)
    assert sentence in str(told.value) and len(str(told.value)) < 600, str(told.value)
    assert not (tmp_path / "canary").exists(), "a file that is read has run code"


def test_what_is_no_file(tmp_path):
    for name in ("none.npy", ".", "/dev/zero", "a\0b"):
        with pytest.raises(InputError, match="cannot be read as numbers"):
            numbers(name, tmp_path)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((0, 3)),
        np.float32([[1, 2], [3, 4]]),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(4, dtype=">i4"),
        np.array(2.5),
        np.array([True, False]),
    ],
)
def test_numbers_are_read_as_numpy_reads_them(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    np.savez_compressed(tmp_path / "a.npz", x=array, w=np.zeros(1000))
    for found in (numbers("a.npy", tmp_path), numbers("a.npz", tmp_path)["x"]):
        assert found.dtype == array.dtype and np.array_equal(found, np.load(tmp_path / "a.npy"))


def test_an_archive_where_one_array_is_needed(tmp_path):
    np.savez(tmp_path / "V.npz", a=np.eye(3), b=np.eye(3))
    (tmp_path / "spec.toml").write_text(TEMPLATE, encoding="utf-8")
    with pytest.raises(SpecError, match=r"holds the arrays \['a', 'b'\], but one array is needed"):
        Spec.load(tmp_path / "spec.toml", ["flow.attention.V=V.npz"]).flow()
