"""A sweep into a file system that is really full: a sentence, and when there is room again, the same command goes on."""

import json
import os
import shutil
import subprocess
import sys

import pytest

import tokenfield as tkf
from tests.sweeps.tiny import KEPT, TEXT, WORDS, marks, same
from tests.sweeps.tiny import tokenfield as tokenfield  # for the story
from tokenfield.sweeps import ranges

SWEEP = ["sweep", "spec.toml", *WORDS, *KEPT, "--workers", "0", "--out", "disk/grid.zarr"]
SIZE, ROOM = 1 << 20, 160 << 10
"""Bytes of the file system, and what is left of it at first: enough for some groups, but not for all."""
STORY = """
import json, os, shutil, subprocess
from pathlib import Path
from tests.sweeps.test_full_disk import ROOM, SIZE, SWEEP, marks, sweep, tokenfield

subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", "disk"], check=True)
disk, ballast = Path("disk"), Path("disk/ballast")
ballast.write_bytes(bytes(SIZE))
try:
    sweep("disk/grid.zarr")
except Exception as error:
    none = f"{type(error).__name__}: {error}"
left = [path.name for path in disk.iterdir()]
ballast.write_bytes(bytes(SIZE - ROOM))
some = tokenfield(*SWEEP, cwd=".", code=2).stderr
before = marks("disk/grid.zarr")
ballast.unlink()
tokenfield(*SWEEP, cwd=".")
after = marks("disk/grid.zarr")
shutil.copytree("disk/grid.zarr", "grid.zarr")
print(json.dumps({"none": none, "left": left, "some": some, "before": before, "after": after}))
"""


def sweep(out=None, spec="spec.toml", workers=0):
    """What the command does."""
    over = dict(map(ranges.over, WORDS[1::2]))
    return tkf.sweep(spec, over=over, observe="mean_overlap", workers=workers, out=out)


def namespace():
    """What puts before a command that it may mount what nobody else sees, here and now."""
    for words in (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"]):
        probe = [*words, "mount", "-t", "tmpfs", "-o", "size=64k", "none", "/tmp"]
        if shutil.which("unshare") and subprocess.run(probe, capture_output=True).returncode == 0:
            return words
    pytest.skip("a small file system cannot be mounted here: neither `unshare --mount` nor with --map-root-user")


def test_a_full_disk_is_told_and_the_same_command_goes_on(tmp_path):
    pytest.importorskip("distributed")
    apart = namespace()
    (tmp_path / "spec.toml").write_text(TEXT, encoding="utf-8")
    (tmp_path / "disk").mkdir()
    place = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    done = subprocess.run(
        [*apart, sys.executable, "-c", STORY], cwd=tmp_path, capture_output=True, text=True, env=place, timeout=600
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["none"].startswith("StoreError: ") and "cannot be written: No space left" in told["none"]
    assert told["left"] == ["ballast"], "nothing is left behind"
    kept = len(told["before"])
    assert 0 < kept < 10 and f"No space left on device. {kept} of 10 groups are kept there" in told["some"]
    assert len(told["after"]) == 10 and told["before"].items() <= told["after"].items(), "a group was computed again"
    undisturbed = sweep(spec=tmp_path / "spec.toml", workers=1)  # the command computes as a worker does, in one thread
    assert same(tkf.load_sweep(tmp_path / "grid.zarr"), undisturbed)
    assert marks(tmp_path / "disk") == {}, "what was mounted was the story's own"
