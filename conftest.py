"""What all tests share: room for compiled programs, and a folder that keeps them while a session lasts."""

import os
import tempfile

# Two workers compile many programs alike, and a program forgotten for want of memory maps need not be compiled again.
if "PYTEST_XDIST_WORKER" not in os.environ and "TOKENFIELD_CACHE" not in os.environ:
    _folder = tempfile.TemporaryDirectory(prefix="tokenfield-tests-")
    os.environ["TOKENFIELD_CACHE"] = _folder.name


def pytest_runtest_teardown(item, nextitem):
    """A session compiles thousands of programs, more than a process has memory maps for."""
    from tokenfield._compile import make_room

    make_room()
