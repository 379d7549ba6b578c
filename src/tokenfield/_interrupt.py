"""Ctrl-C and SIGTERM as requests, which are answered between two pieces of work and never in the middle of one.

Nothing is raised from a signal handler: that would tear compiled code of others apart. A walk asks between its pieces whether
somebody wants it to stop (`ctrl_c`). The `tokenfield` command goes further (`listen`): signals reach none of its threads but one,
which waits for them. As long as there is nothing to lose it ends the process at once; from the first walk on it takes the first
signal as a request and the second as an order. The run is then saved, and what is being drawn is given up (`pause`).
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any


class Interrupted(Exception):
    """Somebody has asked the `tokenfield` command to stop."""


class Command:
    """What the `tokenfield` command has heard: the signal that `asked` it to stop. While it is `patient` the first is a request."""

    def __init__(self) -> None:
        self.asked: int | None = None
        self.patient = False
        self.done = False

    @property
    def code(self) -> int:
        """What the process ends with, as shells have it: 130 after Ctrl-C, 143 after SIGTERM, 0 if nobody asked."""
        return 0 if self.asked is None else 128 + self.asked

    def hear(self, signum: int) -> None:
        """Answer a signal: take it as a request, or end the process."""
        if self.done:
            return
        if self.patient and self.asked is None:
            self.asked = signum
            _say("Stopping as soon as possible; what was computed is kept. Once more quits at once.")
            return
        _say("Quitting at once." if self.patient else "Interrupted before anything was computed.")
        os._exit(128 + signum)


_command: Command | None = None


def command() -> Command:
    """What the `tokenfield` command has heard; in any other process, and in other systems, nothing."""
    return _command or Command()


def pause() -> None:
    """A good moment to stop work that need not be finished.

    **Raises** `Interrupted` where somebody has asked the `tokenfield` command to.
    """
    if command().asked is not None:
        raise Interrupted


def listen() -> None:
    """Let one thread wait for signals from now on, on behalf of the whole process. For the `tokenfield` command alone, before
    anything is loaded that starts threads of its own. Signals that the process was started to ignore are ignored."""
    global _command
    if _command is not None or not hasattr(signal, "sigwait") or not _in_main_thread():
        return
    heard = [s for s in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(s) is not signal.SIG_IGN]
    _command = here = Command()
    signal.pthread_sigmask(signal.SIG_BLOCK, heard)

    def wait() -> None:
        while True:
            here.hear(int(signal.sigwait(heard)))

    if heard:
        threading.Thread(target=wait, name="signals", daemon=True).start()


@contextlib.contextmanager
def ctrl_c() -> Iterator[Callable[[], bool]]:
    """While a walk goes on, the first Ctrl-C asks it to stop at the next piece; the second one is obeyed at once.

    **Returns** a context, which gives a function that says whether somebody has asked. In the `tokenfield` command SIGTERM
    asks as well. Outside the main thread nobody can ask.
    """
    if _command is not None:
        _command.patient = True  # from now on there is something to lose
        yield lambda: command().asked is not None
        return
    asked = threading.Event()
    before: Any = signal.getsignal(signal.SIGINT) if _in_main_thread() else None
    if before is None or before is signal.SIG_IGN:  # not ours to change
        yield asked.is_set
        return

    def ask(signum: int, frame: FrameType | None) -> None:
        asked.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, ask)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _say(words: str) -> None:
    """To the terminal, past all buffers, which another thread may be using."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.write(sys.__stderr__.fileno(), f"\n{words}\n".encode())  # pyright: ignore[reportOptionalMemberAccess]
