"""Files as strangers: how much may be read from them, and how a file is written whole or not at all."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

MEGABYTE = 2**20


def memory() -> int:
    """Bytes of memory that this process may have: the machine's, or less where limits are set."""
    found = [2**62]
    with contextlib.suppress(AttributeError, ValueError, OSError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        found += [limit] if limit != resource.RLIM_INFINITY else []
    with contextlib.suppress(OSError, ValueError):
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(size for size in found if size > 0)


def read(path: str | os.PathLike[str], limit: int) -> bytes:
    """All of a file, which may be a pipe.

    **Arguments**

    - `path`: its name.
    - `limit`: how many bytes it may have.

    **Returns** its bytes.

    **Raises** `OSError` where it cannot be read, `ValueError` where it is longer.
    """
    with open(path, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"it is longer than {limit / MEGABYTE:.3g} MB")
    return data


def open_own(path: str | os.PathLike[str]) -> int:
    """A file descriptor of an ordinary file that is no symbolic link, for reading.

    **Arguments**

    - `path`: its name.

    **Returns** the descriptor, which the caller closes.

    **Raises** `OSError` where it cannot be opened, `ValueError` where it is something else.
    """
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise ValueError(f"{os.path.basename(path)} is not an ordinary file")
    return os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))


@contextlib.contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A name beside `path` to write to, which becomes `path` when all is well and vanishes otherwise:
    `with whole("run.png") as part: figure.savefig(part)`. Folders are made on the way."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.stem}.part{path.suffix}")
    try:
        yield part
        os.replace(part, path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
