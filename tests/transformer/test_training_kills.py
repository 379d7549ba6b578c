"""A training that is killed at random moments and goes on is the undisturbed one, bit for bit."""

import subprocess
import sys

import pytest

import tokenfield as tkf
from tests.transformer.tiny_training import NUMBERS, TEXT, small

NURSERY = """
import os, random, signal, sys, time
from pathlib import Path
import jax
import tokenfield as tkf
from tests.transformer.tiny_training import NUMBERS, TEXT, small
from tokenfield.transformer.training import checkpoints, learning

tkf.train  # load everything, so that children need not
learning.optax()
folder, kills, dice = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
assert not jax._src.xla_bridge._backends, "children are born before JAX has threads"
written, killed = lambda: (folder / "training.safetensors").stat().st_mtime_ns if folder.exists() else 0, 0
while True:
    child = os.fork()
    if child == 0:
        keep = checkpoints.keep
        checkpoints.keep = lambda *all: (time.sleep(0.05), keep(*all))[1]
        result = tkf.train(small(), TEXT, **NUMBERS, out=folder)
        os._exit(0 if result.ok else 1)
    if killed == kills:
        assert os.waitpid(child, 0)[1] == 0
        break
    begun, limit = written(), time.monotonic() + dice.choice([1.0, 120, 120, 120])
    while time.monotonic() < limit and written() == begun and os.waitpid(child, os.WNOHANG) == (0, 0):
        time.sleep(0.001)
    time.sleep(dice.uniform(0, 0.12))
    try:
        os.kill(child, signal.SIGKILL)
        killed += os.waitpid(child, 0)[1] == signal.SIGKILL
    except (ProcessLookupError, ChildProcessError):
        pass
    if folder.exists() and killed < kills:
        tkf_files = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
        assert {"config.json", "model.safetensors", "training.safetensors"} <= tkf_files, tkf_files
print(killed)
"""


@pytest.mark.parametrize("kills", [2, pytest.param(12, marks=pytest.mark.slow)])
def test_killed_and_undisturbed_are_the_same(tmp_path, kills):
    whole = tkf.train(small(), TEXT, **NUMBERS, out=tmp_path / "whole")
    command = [sys.executable, "-c", NURSERY, str(tmp_path / "killed"), str(kills), "7"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip() == str(kills), done.stderr
    again = tkf.train(small(), TEXT, **NUMBERS, out=tmp_path / "killed")
    assert again.losses.tobytes() == whole.losses.tobytes() and again.checks.tobytes() == whole.checks.tobytes()
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    left = {path.name for path in (tmp_path / "killed").iterdir()} - {".training.part.safetensors"}
    assert left - {".model.part.safetensors"} == {path.name for path in (tmp_path / "whole").iterdir()}
