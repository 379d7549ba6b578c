"""A sweep that is as small as can be, and what its tests share."""

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

SPEC = {
    "flow": {"attention": {"kind": "softmax", "beta": 1.0}, "normalization": {"kind": "post_ln"}},
    "measure": {"kind": "uniform_sphere", "n": 4, "d": 2, "seed": 0},
    "time": {"end": 2.0, "save": 5},
}
BETA, SEED, END = "flow.attention.beta", "measure.seed", "time.end"
OVER = {END: [float(t) for t in range(1, 11)], BETA: [1.0, 4.0], SEED: [0, 1, 2]}
"""Ten groups of six members, all of one program."""
TEXT = """
[flow.attention]
kind = "softmax"
beta = 1.0
[flow.normalization]
kind = "post_ln"
[measure]
kind = "uniform_sphere"
n = 4
d = 2
seed = 0
[time]
end = 2.0
save = 5
"""
WORDS = ["--over", f"{END}=range:1:11", "--over", f"{BETA}=1.0,4.0", "--over", f"{SEED}=range:0:3"]
KEPT = ["--observe", "mean_overlap"]


def spec(**changes):
    """The spec with fields changed, by their paths with two underscores for a dot."""
    data = copy.deepcopy(SPEC)
    for path, value in changes.items():
        *sections, field = path.split("__")
        here = data
        for section in sections:
            here = here.setdefault(section, {})
        here[field] = value
    return data


def same(one, other):
    """Whether two data sets are the same, bit for bit."""
    return set(one.variables) == set(other.variables) and all(
        one[name].dims == other[name].dims and one[name].values.tobytes() == other[name].values.tobytes()
        for name in one.variables
    )


def marks(folder):
    """What there is of finished groups: every mark, and that it is still the same file."""
    place = Path(folder) / "blocks"
    if not place.is_dir():
        return {}
    found = [entry for entry in os.scandir(place) if not entry.name.startswith(".")]
    return {entry.name: (entry.inode(), entry.stat().st_mtime_ns) for entry in found}


def tree(folder):
    """All that lies in a folder, with its contents."""
    paths = sorted(Path(folder).rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in paths}


def tokenfield(*words, cwd, code=0, **more):
    """The command in a process of its own."""
    told = subprocess.run(
        [sys.executable, "-m", "tokenfield", *words], capture_output=True, text=True, cwd=cwd, timeout=300, **more
    )
    assert told.returncode == code, (told.returncode, told.stdout, told.stderr)
    assert "Traceback" not in told.stderr
    return told


def failures(data):
    """Why members could not be run, by their numbers."""
    return {int(number): why for number, why in json.loads(data.attrs["failures"]).items()}


def close(one, other):
    return np.allclose(np.asarray(one), np.asarray(other), rtol=1e-12, atol=1e-12)
