"""A sweep on a Dask cluster that is there: the same numbers; a sentence where its scheduler is killed, or mute, or not there."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

import tokenfield as tkf
from tests.sweeps.tiny import OVER, SPEC, marks, same
from tokenfield.errors import InputError, UnfinishedWarning
from tokenfield.sweeps import runners
from tokenfield.sweeps.folder import Folder
from tokenfield.sweeps.worker import one_thread

pytest.importorskip("distributed")


@contextlib.contextmanager
def running(*words):
    """A process of `dask`, which is killed in the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dask", *words, "--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0"],
        env={**os.environ, **one_thread(), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def laboratory(scheduler, worker):
    """A scheduler and one worker at ports of this machine, as a laboratory starts them: the process of the scheduler."""
    at = f"tcp://127.0.0.1:{scheduler}"
    alone = ["--worker-port", str(worker), "--nthreads", "1", "--no-nanny"]
    with running("scheduler", "--port", str(scheduler)) as one, running("worker", at, *alone):
        yield one


@pytest.fixture
def ports():
    """Two that are free."""
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def sweep(scheduler, out=None):
    """The sweep, once there is a scheduler that has workers."""
    limit = time.monotonic() + 120
    while True:
        try:
            return tkf.sweep(SPEC, over=OVER, observe="mean_overlap", scheduler=scheduler, out=out)
        except InputError as error:
            patient = "does not answer" in str(error) or "has no workers" in str(error)
            if not patient or time.monotonic() > limit:
                raise
            time.sleep(0.2)


def test_a_cluster_computes_the_same_and_may_fall_silent_or_die(tmp_path, ports, monkeypatch):
    """Its scheduler is stopped, then killed, each in the middle of a sweep, which keeps what it has; the same call goes on."""
    at, out = f"tcp://127.0.0.1:{ports[0]}", tmp_path / "grid.zarr"
    own = tkf.sweep(SPEC, over=OVER, observe="mean_overlap", workers=1)
    keep, signals = Folder.keep, {3: signal.SIGSTOP, 6: signal.SIGKILL}

    def kept(folder, block):
        keep(folder, block)
        if (number := signals.pop(len(marks(out)), None)) is not None:
            scheduler.send_signal(number)

    with laboratory(*ports) as scheduler:
        assert same(sweep(at), own)
        with pytest.raises(InputError, match="there is a Worker of Dask, but no scheduler"):
            sweep(f"tcp://127.0.0.1:{ports[1]}")
        monkeypatch.setattr(Folder, "keep", kept)
        monkeypatch.setattr(runners, "SILENCE", 1.0)
        with pytest.warns(UnfinishedWarning, match="no longer answers.* of 60 members are kept; the same call goes on"):
            sweep(at, out)
        assert 3 <= len(marks(out)) < 6
        scheduler.send_signal(signal.SIGCONT)
        monkeypatch.setattr(runners, "SILENCE", 30.0)
        with pytest.warns(UnfinishedWarning, match="no longer answers.* of 60 members are kept; the same call goes on"):
            sweep(at, out)
        assert scheduler.wait() == -signal.SIGKILL
    before = marks(out)
    assert 6 <= len(before) < 10
    with laboratory(*ports):
        assert same(sweep(at, out), own)
    assert all(marks(out)[name] == mark for name, mark in before.items()), "a finished group was computed again"


@pytest.mark.parametrize("listens", [False, True])
def test_a_scheduler_that_does_not_answer_is_told(listens, tmp_path, monkeypatch):
    """Nobody is there, or somebody who takes the call and says nothing."""
    assert runners.ANSWER <= 10
    monkeypatch.setattr(runners, "ANSWER", 1.0)
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        if listens:
            mute.listen()
        began, at = time.monotonic(), f"tcp://127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(InputError, match=f"The scheduler {at} does not answer"):
            tkf.sweep(SPEC, over=OVER, observe="mean_overlap", scheduler=at, out=tmp_path / "grid.zarr")
    assert time.monotonic() - began < 60
    assert not marks(tmp_path / "grid.zarr")
