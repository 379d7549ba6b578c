"""Ctrl-C and SIGTERM at every moment of the command, sent for real to a process of its own."""

import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield import _interrupt
from tokenfield.spec import TEMPLATE

SMALL = ["--set", "measure.n=40", "--set", "time.save=20"]
ENDLESS = [*SMALL, "--set", "time.end=1e12", "--set", "time.max_steps=1000000000", "--set", "time.rtol=1e-12"]
TELLING = """
import sys, time
from tokenfield import _interrupt
_interrupt.listen()
{changes}
from tokenfield.__main__ import main
sys.argv = ["tokenfield", *sys.argv[1:]]
main()
"""


def launched(answer, *words):
    """The words that start Python with this answer to Ctrl-C, whatever started the tests: a shell's background ignores it."""
    launch = (
        f"import os, signal, sys; signal.signal(signal.SIGINT, signal.{answer}); os.execv(sys.argv[1], sys.argv[1:])"
    )
    return [sys.executable, "-S", "-c", launch, sys.executable, *words]


@pytest.fixture
def command(tmp_path):
    """Start `tokenfield run spec.toml --out out`, as a terminal would, perhaps with parts that tell of themselves."""
    (tmp_path / "spec.toml").write_text(TEMPLATE, encoding="utf-8")
    begun = []

    def command(words, changes=None, out="out"):
        call = ["-m", "tokenfield"] if changes is None else ["-c", TELLING.format(changes=changes)]
        process = subprocess.Popen(
            launched("SIG_DFL", *call, "run", "spec.toml", "--out", out, *words),
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        begun.append(process)
        return process

    yield command
    for process in begun:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_for(process, word):
    while line := process.stdout.readline():
        if word in line:
            return
    raise AssertionError(process.stderr.read())


def names(folder):
    return sorted(os.listdir(folder)) if folder.exists() else []


COMPUTING = "from tokenfield import progress\nprogress.Progress.update = lambda *words: print('piece', flush=True)"


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_while_computing_what_was_computed_is_saved(command, tmp_path, signum):
    process = command(ENDLESS, COMPUTING)
    wait_for(process, "piece")
    process.send_signal(signum)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 128 + signum and "Traceback" not in told
    run = tkf.Trajectory.load(tmp_path / "out" / "run.zarr")
    assert run.status is tkf.Status.INTERRUPTED and f"{run.message} It is saved in out/run.zarr" in told
    assert names(tmp_path / "out") == ["run.toml", "run.zarr"] and float(run.reached) > 0


def test_while_importing_it_ends_at_once(command, tmp_path):
    process = command(ENDLESS, "sys.modules['typer'] = None\nprint('here', flush=True)\ntime.sleep(60)")
    wait_for(process, "here")
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130 and time.monotonic() - began < 5
    assert "before anything was computed" in told and names(tmp_path) == ["spec.toml"]


SAVING = """
from tokenfield.store import arrays
put = arrays.put
arrays.put = lambda *words: (print('saving', flush=True), time.sleep(0.3), put(*words))
"""


def test_while_saving_the_save_is_finished(command, tmp_path):
    process = command([*SMALL, "--set", "time.end=1.0"], SAVING)
    wait_for(process, "saving")
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130 and "is saved in out/run.zarr" in told
    run = tkf.Trajectory.load(tmp_path / "out" / "run.zarr")
    assert run.status is tkf.Status.COMPLETED and names(tmp_path / "out") == ["run.toml", "run.zarr"]


DRAWING = """
from tokenfield.draw import movie
from tokenfield import progress
progress.Progress.update = lambda self, *words: self.title == 'drawing' and print('frame', flush=True)
"""


def test_while_drawing_it_ends_and_leaves_no_half_movie(command, tmp_path):
    process = command([*SMALL, "--set", "time.end=1.0", "--set", "output.animation=true"], DRAWING)
    wait_for(process, "frame")
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 143 and "It is saved in out/run.zarr" in told
    assert names(tmp_path / "out") == ["run.png", "run.toml", "run.zarr"]
    assert tkf.Trajectory.load(tmp_path / "out" / "run.zarr").status is tkf.Status.COMPLETED


LONG = "from tokenfield import progress\nprogress.Progress.update = lambda *words: (print('piece', flush=True), time.sleep(60))"


def test_a_second_signal_quits_at_once(command):
    process = command(ENDLESS, LONG)
    wait_for(process, "piece")
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    while "Once more quits at once" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130 and time.monotonic() - began < 5


def at_a_random_moment(command, folder, dice, out):
    """One signal at a random moment of a command that may have ended before."""
    words = dice.choice([ENDLESS, [*SMALL, "--set", "time.end=3.0"]])
    signum = dice.choice([signal.SIGINT, signal.SIGTERM])
    process = command(words, out=out)
    time.sleep(dice.uniform(0, 1) ** 2 * 12 if words is ENDLESS else dice.uniform(0, 8))
    process.send_signal(signum)
    _, told = process.communicate(timeout=100)
    code, left = process.returncode, names(folder / out)
    assert code in (128 + signum, -signum, 0), (code, told)
    assert set(left) <= {"run.zarr", "run.toml", "run.png"}, left
    if "run.zarr" in left:
        run = tkf.Trajectory.load(folder / out / "run.zarr")
        assert np.all(np.isfinite(run.x)) and (words is not ENDLESS or run.status is tkf.Status.INTERRUPTED)
    if code == 128 + signum:
        assert ("saved in" in told) == ("run.zarr" in left) and "Traceback" not in told, told
    if code == -signum:
        assert left == [], "only before the command has begun"
    if code == 0:
        assert words is not ENDLESS and left == ["run.png", "run.toml", "run.zarr"]
    return code


def test_four_random_moments(command, tmp_path):
    dice = random.Random(4)
    for k in range(4):
        at_a_random_moment(command, tmp_path, dice, f"out{k}")


@pytest.mark.slow
def test_forty_random_moments(command, tmp_path):
    dice = random.Random(40)
    codes = [at_a_random_moment(command, tmp_path, dice, f"out{k}") for k in range(40)]
    assert sum(code > 0 for code in codes) > 20


def test_a_process_that_ignores_signals_goes_on_ignoring_them(tmp_path):
    (tmp_path / "spec.toml").write_text(TEMPLATE, encoding="utf-8")
    script = TELLING.format(changes=SAVING)
    words = launched("SIG_IGN", "-c", script, "run", "spec.toml", "--out", "out", *SMALL, "--set", "time.end=1.0")
    process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    wait_for(process, "saving")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_in_a_program_of_ones_own_handlers_are_given_back():
    before = signal.getsignal(signal.SIGINT)
    with _interrupt.ctrl_c() as asked:
        assert signal.getsignal(signal.SIGINT) is not before and not asked()
        signal.raise_signal(signal.SIGINT)
        assert asked() and signal.getsignal(signal.SIGINT) is before, "the second one is the program's own"
    assert signal.getsignal(signal.SIGINT) is before
    heard = []

    def elsewhere():
        with _interrupt.ctrl_c() as asked:
            heard.append((asked(), signal.getsignal(signal.SIGINT) is before))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert heard == [(False, True)]
