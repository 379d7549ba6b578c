"""Files of a folder as strangers: ordinary files inside it, of bounded size; JSON in which no name stands twice."""

import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from tokenfield import _files
from tokenfield.errors import StoreError, short

TEXT = 64 * _files.MEGABYTE
"""The largest text that is read; parsed it takes up to thirty times as much memory, so that a small machine takes less of it."""


def inside(folder: Path, name: str) -> Path:
    """The path of a file of a folder.

    **Arguments**

    - `folder`: the folder.
    - `name`: the file's name, without a path.

    **Returns** its path.

    **Raises** `StoreError` where the name leads elsewhere, or it is no ordinary file.
    """
    if not name or name in (".", "..") or set(name) & set("/\\:\0"):
        raise StoreError(
            f"{folder}: {short(name)} is not the name of a file in this folder. Weights lie beside config.json."
        )
    path = folder / name
    try:
        real = path.resolve(strict=True)
        ordinary = stat.S_ISREG(os.stat(real).st_mode)
    except (OSError, RuntimeError) as error:
        raise StoreError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if not ordinary:
        raise StoreError(f"{path} is not an ordinary file.")
    if real.parent not in _homes(folder):
        raise StoreError(f"{path} is a link that leads out of its folder. Put the file itself there.")
    return real


def _homes(folder: Path) -> list[Path]:
    """Where files of a folder may lie: in it, or in the blobs beside a snapshot, where the cache of Hugging Face keeps them."""
    here = folder.resolve()
    return [here, here.parent.parent / "blobs"] if here.parent.name == "snapshots" else [here]


def opened(path: Path) -> BinaryIO:
    """An ordinary file, for reading.

    **Raises** `StoreError` where it cannot be opened.
    """
    try:
        file = open(path, "rb")  # noqa: SIM115  # the caller closes it
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise StoreError(f"{path} is not an ordinary file.")
        return file
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}.") from None


def text(path: Path, limit: int = TEXT) -> str:
    """All of a file of text.

    **Raises** `StoreError` where it is too long, or no UTF-8.
    """
    limit = min(limit, _files.memory() // 30)
    with opened(path) as file:
        data = file.read(
            min(os.fstat(file.fileno()).st_size, limit) + 1
        )  # `read` makes room for all that it is asked for
    if len(data) > limit:
        raise StoreError(f"{path} is longer than {limit / _files.MEGABYTE:.3g} MB, more than such a file ever is.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise StoreError(f"{path} is not text in UTF-8: it is damaged, or something else.") from None


def data(path: Path, limit: int = TEXT) -> dict[str, Any]:
    """The fields of a file of JSON.

    **Raises** `StoreError` where it is not JSON, a name stands twice, or it holds no fields.
    """
    return parsed(text(path, limit), str(path))


def parsed(content: str, where: str) -> dict[str, Any]:
    """Fields from JSON, in which no name stands twice and every number is finite.

    **Arguments**

    - `content`: the JSON.
    - `where`: what a refusal calls it.

    **Returns** the fields.

    **Raises** `StoreError`.
    """
    try:
        found = json.loads(content, object_pairs_hook=_once, parse_constant=_no_number)
    except RecursionError:
        raise StoreError(f"{where} is nested too deeply to be what it should be.") from None
    except ValueError as error:
        raise StoreError(f"{where} is not JSON as it should be: {short(str(error), 120)}. It is damaged.") from None
    if not isinstance(found, dict):
        raise StoreError(f"{where} must hold fields, {{...}}, but holds {short(found)}.")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(name for name in names if names.count(name) > 1)!r} stands twice")
    return found


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a number")
