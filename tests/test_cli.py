"""The command line as a user meets it: in a process of its own."""

import subprocess
import sys

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.spec import TEMPLATE


def tokenfield(*words, cwd=None, ok=True):
    result = subprocess.run([sys.executable, "-m", "tokenfield", *words], capture_output=True, text=True, cwd=cwd)
    assert (result.returncode == 0) is ok, result.stderr
    return result


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("run",),
        ("show",),
        ("new",),
        ("demo",),
        ("verify",),
        ("figure",),
        ("sweep",),
        ("report",),
        ("train",),
        ("generate",),
        ("probe",),
        ("predict",),
    ],
)
def test_help_teaches_by_example(words):
    told = tokenfield(*words, "--help").stdout
    assert "tokenfield" in told and ("Example" in told or "Start here" in told)


def test_help_loads_no_jax():
    program = """
import sys
from typer.testing import CliRunner
from tokenfield.cli import app
helps = [[name, "--help"] for name in "run show play verify figure sweep report train generate probe predict".split()]
for words in (["--help"], *helps, ["new"], ["verify", "--list"], ["figure", "--list"]):
    assert CliRunner().invoke(app, words).exit_code == 0
heavy = {"jax", "diffrax", "equinox", "xarray", "zarr", "matplotlib", "torch"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_new_run_show(tmp_path):
    (tmp_path / "spec.toml").write_text(tokenfield("new").stdout, encoding="utf-8")
    changes = ["--set", "measure.n=30", "--set", "time.end=2", "--set", "time.save=5", "-s", "flow.attention.beta=4"]
    told = tokenfield("run", "spec.toml", "--out", "out/mine", *changes, cwd=tmp_path).stdout
    assert "Softmax(beta=4)" in told and "n = 30" in told
    run = tkf.Trajectory.load(tmp_path / "out" / "mine" / "run.zarr")
    assert run.x.shape == (5, 30, 3)
    assert (tmp_path / "out" / "mine" / "run.png").stat().st_size > 10_000
    (tmp_path / "out" / "mine" / "run.png").unlink()
    shown = tokenfield("show", "out/mine", cwd=tmp_path).stdout
    assert str(run) in shown and (tmp_path / "out" / "mine" / "run.png").exists()
    again = tokenfield("run", "out/mine/run.toml", "--out", "out/again", cwd=tmp_path)
    assert "n = 30" in again.stdout, "the spec that was written runs by itself"


SMALL = ["--set", "measure.n=20", "--set", "time.end=1", "--set", "time.save=3", "--set", "output.picture=false"]


def test_the_users_own_spec_is_never_written_to(tmp_path):
    """The folder of the results may be that of the spec. Its comments stay, and what was set for one run stays out of it."""
    (tmp_path / "spec.toml").write_text(own := TEMPLATE + "# my own words\n", encoding="utf-8")
    tokenfield("run", "spec.toml", "--out", ".", *SMALL, cwd=tmp_path)
    assert (tmp_path / "spec.toml").read_text(encoding="utf-8") == own
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.toml", "run.zarr", "spec.toml"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "run.toml").write_text(own, encoding="utf-8")
    for more in ([], ["--force"]):
        told = tokenfield("run", "mine/run.toml", "--out", "mine", *SMALL, *more, cwd=tmp_path, ok=False).stderr
        assert "it is left as it is" in told
    assert (tmp_path / "mine" / "run.toml").read_text(encoding="utf-8") == own


def test_results_from_before_are_replaced_only_by_force(tmp_path):
    (tmp_path / "spec.toml").write_text(TEMPLATE, encoding="utf-8")
    tokenfield("run", "spec.toml", "--out", "out", *SMALL, cwd=tmp_path)
    (tmp_path / "out" / "run.png").write_text("a picture from before")
    told = tokenfield("run", "spec.toml", "--out", "out", *SMALL, "-s", "measure.n=7", cwd=tmp_path, ok=False).stderr
    assert "run.zarr, run.toml, run.png from before; nothing was overwritten" in told and "--force" in told
    assert tkf.Trajectory.load(tmp_path / "out" / "run.zarr").states.n == 20
    tokenfield("run", "spec.toml", "--out", "out", *SMALL, "-s", "measure.n=7", "--force", cwd=tmp_path)
    assert tkf.Trajectory.load(tmp_path / "out" / "run.zarr").states.n == 7
    assert not (tmp_path / "out" / "run.png").exists(), "pictures of another run do not stay"


def test_without_a_home(tmp_path):
    """A process without HOME whose user nobody knows: containers have them."""
    (tmp_path / "spec.toml").write_text(TEMPLATE, encoding="utf-8")
    script = """
import os, pwd, sys
for name in ("HOME", "TOKENFIELD_CACHE", "XDG_CACHE_HOME", "USER", "LOGNAME"):
    os.environ.pop(name, None)
def nobody(*words):
    raise KeyError("no such user")
pwd.getpwuid = pwd.getpwnam = nobody
from tokenfield.__main__ import main
sys.argv = ["tokenfield", *sys.argv[1:]]
main()
"""
    words = ["run", "spec.toml", "--out", "out", *SMALL, "--set", "output.picture=true"]
    told = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "spec.toml"], "nor is a folder ~ made"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("run", "spec.toml", "--out", "x", "--set", "measure={kind='file', path='bad.npz'}"),
            "cannot be read as numbers",
        ),
        (("run", "spec.toml", "--out", "x", "--set", "flow.attention.beta=[1, 2]"), "would mean one value per layer"),
        (("run", "spec.toml", "--out", "spec.toml"), "cannot be made"),
        (("show", "spec.toml"), "There is no saved run"),
        (("run", "none.toml", "--out", "x"), "none.toml cannot be read: No such file"),
        (("show", "nothing"), "There is no saved run at"),
        (("run", "spec.toml", "--out", "x", "--set", "flow.attention.betta=1"), "Did you mean 'beta'?"),
    ],
)
def test_errors_are_sentences_without_tracebacks(tmp_path, words, sentence):
    (tmp_path / "spec.toml").write_text(tokenfield("new").stdout, encoding="utf-8")
    np.savez_compressed(tmp_path / "bad.npz", x=np.zeros((50, 3)))
    data = (tmp_path / "bad.npz").read_bytes()
    (tmp_path / "bad.npz").write_bytes(data[:60] + b"\xff\xff\xff" + data[63:])
    result = tokenfield(*words, cwd=tmp_path, ok=False)
    assert result.returncode == 2 and sentence in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.stderr


def test_the_demo_tells_draws_and_keeps(tmp_path, monkeypatch, capsys):
    """The demonstration itself at a smaller size; `make demo` runs it whole."""
    from tokenfield import demo
    from tokenfield.cli import demo as command

    small = {
        **demo.SPEC,
        "measure": {**demo.SPEC["measure"], "n": 200},
        "time": {"end": 300.0, "save": 40, "spacing": "log"},
    }
    monkeypatch.setattr(demo, "SPEC", small)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    command(tmp_path / "demo")
    told = capsys.readouterr().out
    assert "a uniform cloud" in told and "metastable clusters of" in told and "Trajectory of n = 200" in told
    assert {p.name for p in (tmp_path / "demo").iterdir()} == {"run.zarr", "run.png", "run.mp4", "run.toml"}
