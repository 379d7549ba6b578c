"""What all tests share: room for compiled programs, and a folder that keeps them while a session lasts."""

import os
import signal
import tempfile

# Two workers compile many programs alike, and a program forgotten for want of memory maps need not be compiled again.
if "PYTEST_XDIST_WORKER" not in os.environ and "TOKENFIELD_CACHE" not in os.environ:
    _folder = tempfile.TemporaryDirectory(prefix="tokenfield-tests-")
    os.environ["TOKENFIELD_CACHE"] = _folder.name

# Shells let what they start in the background ignore Ctrl-C, which some tests send to themselves.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_teardown(item, nextitem):
    """A session compiles thousands of programs, more than a process has memory maps for."""
    from tokenfield._compile import make_room

    make_room()
