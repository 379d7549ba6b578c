"""A sweep loses nothing, whoever is killed: finished groups are never computed again, and what is there in the end is the same, bit
for bit, as if nothing had happened."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tokenfield as tkf
from tests.sweeps.tiny import BETA, END, KEPT, SEED, SPEC, TEXT, marks, same, tokenfield
from tokenfield.sweeps import runners

OVER = {END: [float(t) for t in range(1, 25)], BETA: [1.0, 4.0], SEED: [0, 1, 2]}
"""Twenty-four groups of six members, all of one program."""

NURSERY = """
import os, random, signal, sys, time
from pathlib import Path
from tests.sweeps.test_kills import OVER
from tests.sweeps.tiny import SPEC, marks
from tokenfield.sweeps import front
import tokenfield.observe, jax

place, kills, dice = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
assert not jax._src.xla_bridge._backends, "children are born before JAX has threads"
before, killed, sweeps = {}, 0, 1
while True:
    folder = place / f"{sweeps}.zarr"
    child = os.fork()
    if child == 0:
        keep = front.Folder.keep
        front.Folder.keep = lambda self, block: (time.sleep(0.02), keep(self, block))[1]
        front.sweep(SPEC, over=OVER, observe="mean_overlap", workers=0, out=folder)
        os._exit(0)
    ended = 0
    if killed < kills:  # some before anything is there, most in the middle of writing
        begun, patience = len(marks(folder)), dice.choice([0, 1, 1, 2])
        limit = time.monotonic() + (dice.uniform(0, 1) if patience == 0 else 120)
        while not ended and time.monotonic() < limit and len(marks(folder)) < begun + patience:
            ended, status = os.waitpid(child, os.WNOHANG)
            time.sleep(0.002)
        if not ended:
            time.sleep(dice.uniform(0, 0.05))
            os.kill(child, signal.SIGKILL)
    if not ended:
        ended, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL)
    killed += status == signal.SIGKILL
    now = marks(folder)
    assert all(now.get(name) == mark for name, mark in before.items()), "a finished group was computed again"
    before = now
    if len(now) == 24 and killed >= kills:
        break
    if len(now) == 24:  # finished too soon: the rest of the kills go to another sweep
        before, sweeps = {}, sweeps + 1
print(killed)
"""


def killed(place, kills, seed):
    """Sweeps that were killed so many times at random moments, each gone on with until it was whole."""
    words = [sys.executable, "-c", NURSERY, str(place), str(kills), str(seed)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == kills
    return sorted(place.iterdir())


@pytest.fixture(scope="module")
def undisturbed():
    return tkf.sweep(SPEC, over=OVER, observe="mean_overlap", workers=0)


def whole(path, undisturbed):
    """Whether a sweep has every member once, as if it had never been disturbed."""
    found = tkf.load_sweep(path)
    return same(found, undisturbed) and bool((found.status == 0).all()) and len(marks(path)) == 24


def test_the_whole_is_killed_at_random_moments(tmp_path, undisturbed):
    """Twelve times; each goes on where the one before was killed."""
    assert all(whole(path, undisturbed) for path in killed(tmp_path, 12, 7))


def workers_of(parent):
    """The worker processes that a process has started."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, IndexError, ValueError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"tokenfield.sweeps.worker" in words and int(words[-2]) == parent:
                found.append(int(pid))
    return found


def shot(monkeypatch, path, kills, seed):
    """A sweep, of whose two workers so many are killed while it goes on: at any moment of their lives, and one at least for every
    group that is finished, until there were enough. How many there were."""
    dice, dead, tend = random.Random(seed), [], runners.Crew.tend

    def hunt(crew):
        if len(dead) < min(kills, len(marks(path)) + 2) and (dice.random() < 0.05 or len(dead) < len(marks(path))):
            victim = dice.choice([one for one in crew.processes if one.poll() is None])
            victim.kill()
            dead.append(victim.wait())
        tend(crew)

    monkeypatch.setattr(runners.Crew, "tend", hunt)
    tkf.sweep(SPEC, over=OVER, observe="mean_overlap", workers=2, out=path)
    monkeypatch.undo()
    return dead.count(-signal.SIGKILL)


@pytest.fixture(scope="module")
def by_a_worker():
    """This process has more threads than a worker."""
    pytest.importorskip("distributed")
    return tkf.sweep(SPEC, over=OVER, observe="mean_overlap", workers=1)


def test_workers_are_killed_at_random_moments(tmp_path, by_a_worker, monkeypatch):
    """Ten of them, while the sweep goes on: others take their places."""
    assert shot(monkeypatch, tmp_path / "grid.zarr", 10, 3) == 10
    assert whole(tmp_path / "grid.zarr", by_a_worker)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_workers_are_killed_many_times(tmp_path, by_a_worker, monkeypatch, seed):
    assert shot(monkeypatch, tmp_path / "grid.zarr", 20, seed) == 20
    assert whole(tmp_path / "grid.zarr", by_a_worker)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_the_whole_is_killed_many_times(tmp_path, undisturbed, seed):
    assert all(whole(path, undisturbed) for path in killed(tmp_path, 18, 100 + seed))


def lives(pid):
    """Whether a process runs; one that has ended and that nobody has asked about does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks for processes in /proc")
def test_a_killed_sweep_leaves_no_workers_behind(tmp_path):
    pytest.importorskip("distributed")
    (tmp_path / "spec.toml").write_text(TEXT, encoding="utf-8")
    over = ["--over", f"{END}=range:1:400", "--over", f"{BETA}=1.0,4.0"]
    words = ["sweep", "spec.toml", *over, *KEPT, "--out", "grid.zarr", "--workers", "1"]
    running = subprocess.Popen([sys.executable, "-m", "tokenfield", *words], cwd=tmp_path, stderr=subprocess.PIPE)
    try:
        limit = time.monotonic() + 120
        while not workers_of(running.pid) and time.monotonic() < limit:
            time.sleep(0.05)
        (worker,) = workers_of(running.pid)
    finally:
        running.kill()
        running.communicate()
    assert running.returncode == -signal.SIGKILL
    limit = time.monotonic() + 30
    while lives(worker) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not lives(worker)


def test_ctrl_c_keeps_what_is_finished(tmp_path):
    (tmp_path / "spec.toml").write_text(TEXT, encoding="utf-8")
    over = ["--over", f"{END}=range:1:200", "--over", f"{BETA}=1.0,4.0"]
    words = ["sweep", "spec.toml", *over, *KEPT, "--out", "grid.zarr", "--workers", "0"]
    running = subprocess.Popen(
        [sys.executable, "-m", "tokenfield", *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    limit = time.monotonic() + 120
    while not marks(tmp_path / "grid.zarr") and time.monotonic() < limit:
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    told, said = running.communicate(timeout=120)
    assert running.returncode == 130 and "Traceback" not in said, said
    assert "are kept; the same call goes on" in told
    done = len(marks(tmp_path / "grid.zarr"))
    assert 0 < done < 199
    shown = tokenfield("show", "grid.zarr", cwd=tmp_path).stdout
    assert f"{2 * done} of 398 are computed" in shown
