"""The command line as a user meets it: in a process of its own."""

import subprocess
import sys

import pytest

import tokenfield as tkf


def tokenfield(*words, cwd=None, ok=True):
    result = subprocess.run([sys.executable, "-m", "tokenfield", *words], capture_output=True, text=True, cwd=cwd)
    assert (result.returncode == 0) is ok, result.stderr
    return result


@pytest.mark.parametrize("words", [(), ("run",), ("show",), ("new",), ("demo",)])
def test_help_teaches_by_example(words):
    told = tokenfield(*words, "--help").stdout
    assert "tokenfield" in told and ("Example" in told or "Start here" in told)


def test_help_loads_no_jax():
    program = """
import sys
from typer.testing import CliRunner
from tokenfield.cli import app
for words in (["--help"], ["run", "--help"], ["new"]):
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
    again = tokenfield("run", "out/mine/spec.toml", "--out", "out/again", cwd=tmp_path)
    assert "n = 30" in again.stdout, "the spec that was written runs by itself"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("run", "none.toml", "--out", "x"), "none.toml cannot be read: No such file"),
        (("show", "nothing"), "There is no saved run at"),
        (("run", "spec.toml", "--out", "x", "--set", "flow.attention.betta=1"), "Did you mean 'beta'?"),
    ],
)
def test_errors_are_sentences_without_tracebacks(tmp_path, words, sentence):
    (tmp_path / "spec.toml").write_text(tokenfield("new").stdout, encoding="utf-8")
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
    assert {p.name for p in (tmp_path / "demo").iterdir()} == {"run.zarr", "run.png", "run.mp4", "spec.toml"}
