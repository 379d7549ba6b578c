"""A folder takes the name of another, so that at every moment one whole folder answers to the name.

The new folder is filled as `.NAME.new.MARK`. Then two names change: NAME becomes `.NAME.old.MARK`, and `.NAME.new.MARK` becomes
NAME. Whoever is killed before leaves a `.new` alone, whoever is killed afterwards an `.old` alone; both are debris. Only between
the two is there a pair of one MARK and nothing at NAME, and only then does the pair answer to the name: a folder that somebody
has deleted stays deleted.

Who fills a folder holds a lock on it, which the system releases when the process ends: a `.new` that can be locked is debris.
Names are changed under a lock on the folder above. Where there are no such locks, debris is left alone.
"""

import contextlib
import errno
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on this system
    fcntl = None


@contextlib.contextmanager
def replacing(path: Path, fresh: bool = False) -> Iterator[Path]:
    """An empty folder to fill, which takes the name `path` at the end of the block: `with replacing(path) as new: ...`

    **Arguments**

    - `path`: the name; the folder that has it, if any, is deleted in the end.
    - `fresh`: whether the name must be free. What has it by then, if anything, is left alone.

    **Raises** `OSError` where that cannot be done (`FileExistsError` where the name is not free); `path` is then as it was, and
    nothing is left beside it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _begun(path) as new:
        try:
            yield new
            with held(path.parent):
                _recover(path)
                if fresh and os.path.lexists(path):
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
                _swap(path, new, _beside(path, "old", new.name.rsplit(".", 1)[1]))
                _sweep(path)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise


def standing(path: Path) -> list[Path]:
    """The folders that answer to a name, best first: the one that has it, or those of a save that was cut off in between.

    **Arguments**

    - `path`: the name.

    **Returns** the folders, none where there is nothing.
    """
    if os.path.lexists(path):
        return [path]
    pair = _pair(path)
    return [path] if os.path.lexists(path) else pair  # another process may just have given the name


@contextlib.contextmanager
def _begun(path: Path) -> Iterator[Path]:
    """A new folder that is held. One who sweeps may take it away just before; then another is made."""
    while True:
        new = _beside(path, "new", uuid.uuid4().hex[:16])
        new.mkdir()
        with held(new):
            if new.exists():
                yield new
                return


def _recover(path: Path) -> None:
    """Finish what was cut off between the two names."""
    if not os.path.lexists(path) and (pair := _pair(path)):
        os.rename(pair[0], path)


def _swap(path: Path, new: Path, old: Path) -> None:
    if not os.path.lexists(path):
        os.rename(new, path)
    else:
        os.rename(path, old)
        try:
            os.rename(new, path)
        except OSError:
            os.rename(old, path)
            raise
    _settle(path.parent)


def _pair(path: Path) -> list[Path]:
    """The new and the old folder of a save that was cut off between the two names."""
    marks = {role: {mark for which, mark in _left(path) if which == role} for role in ("new", "old")}
    both = sorted(marks["new"] & marks["old"])
    return [_beside(path, role, both[0]) for role in ("new", "old")] if both else []


def _sweep(path: Path) -> None:
    """Delete the debris of this name that nobody is filling."""
    left = _left(path)
    for mark in {mark for _, mark in left}:
        new = _beside(path, "new", mark)
        with held(new, wait=False) if ("new", mark) in left else contextlib.nullcontext(True) as debris:
            if debris:
                shutil.rmtree(new, ignore_errors=True)
                shutil.rmtree(_beside(path, "old", mark), ignore_errors=True)


def _left(path: Path) -> list[tuple[str, str]]:
    """Roles and marks of what lies beside a name. (The name may contain signs that mean something to a search.)"""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.(new|old)\.([0-9a-f]+)")
    try:
        with os.scandir(path.parent) as entries:
            found = [pattern.fullmatch(entry.name) for entry in entries]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [(one[1], one[2]) for one in found if one]


@contextlib.contextmanager
def held(folder: Path, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of a folder, and say whether it could be had: `with held(folder) as mine: ...`

    **Arguments**

    - `folder`: the folder.
    - `wait`: whether to wait for whoever holds it.
    """
    if fcntl is None:
        yield False
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        yield False
        return
    try:
        yield _lock(descriptor, wait)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, wait: bool) -> bool:
    assert fcntl is not None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _settle(folder: Path) -> None:
    """Names that have changed are on the disk, where the system can say so."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _beside(path: Path, role: str, mark: str) -> Path:
    return path.parent / f".{path.name}.{role}.{mark}"
