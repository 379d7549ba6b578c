"""Numbers that a spec keeps in files. What a file says of itself is looked at before memory is asked for."""

import io
import math
import os
import stat
import zipfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy

from tokenfield import _files
from tokenfield.errors import InputError

if TYPE_CHECKING:
    from tokenfield.measures import Tokens

MOST_ARRAYS = 16
"""How many arrays an .npz may hold."""
RATIO = 1032
"""How many bytes a compressed one may become: what Deflate can do at best."""


def tokens_from_file(path: str, folder: Any = None) -> "Tokens":
    """Tokens from an .npy of shape (n, d) or an .npz with x and perhaps w and s."""
    from tokenfield.measures import Tokens

    loaded = numbers(path, folder or Path())
    if isinstance(loaded, np.ndarray):
        return Tokens(loaded)
    if "x" not in loaded or set(loaded) - {"x", "w", "s"}:
        raise InputError(f"Argument `path`: {path} must hold x and may hold w and s, but holds {sorted(loaded)}.")
    return Tokens(**loaded)


def numbers(path: str, folder: Path) -> Any:
    """The array of an .npy, or the named arrays of an .npz."""
    try:
        if not stat.S_ISREG(os.stat(folder / path).st_mode):
            raise ValueError("it is not an ordinary file")
        with open(folder / path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if file.peek(1)[:1] == npy.MAGIC_PREFIX[:1]:
                return _array(file, size)
            with zipfile.ZipFile(file) as archive:
                return _arrays(archive, size)
    except Exception as error:  # whatever a damaged file makes of its readers
        reason = str(error).removesuffix(".")[:200] or type(error).__name__
        name = path if len(path) <= 300 else f"...{path[-297:]}"
        raise InputError(
            f"The file {name} cannot be read as numbers: {reason}. Expected an .npy or .npz written by numpy."
        ) from None


def one_array(path: str, folder: Path) -> np.ndarray:
    """The array of an .npy."""
    found = numbers(path, folder)
    if not isinstance(found, np.ndarray):
        raise InputError(f"The file {path} holds the arrays {sorted(found)}, but one array is needed: an .npy.")
    return found


def _array(file: "IO[bytes] | io.BufferedIOBase", size: int) -> np.ndarray:
    """The array in an open .npy of `size` bytes, which must be as long as it says."""
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"its version {version[0]}.{version[1]} is not one for numbers")
    shape, by_columns, dtype = (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(file)
    if dtype.kind not in "fiub":
        raise ValueError(f"it holds {dtype}, not real numbers")
    if any(n < 0 for n in shape):
        raise ValueError(f"it claims the shape {shape}")
    length = math.prod(shape) * dtype.itemsize
    if length != size - file.tell():
        raise ValueError(f"it claims {length} bytes of numbers, but has {size - file.tell()}")
    _refuse_large(length)
    data = file.read(length)
    if len(data) != length or file.read(1):
        raise ValueError("it is not as long as it claims")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if by_columns else "C")


def _arrays(archive: zipfile.ZipFile, size: int) -> dict[str, np.ndarray]:
    members = archive.infolist()
    names = [member.filename for member in members]
    if len(names) > MOST_ARRAYS or len(set(names)) < len(names) or not all(name.endswith(".npy") for name in names):
        raise ValueError(f"it does not hold up to {MOST_ARRAYS} arrays with names of their own")
    if sum(member.compress_size for member in members) > size:
        raise ValueError("its parts are longer than the whole")
    for member in members:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError("it is compressed in a way that numpy does not use")
        if member.file_size > RATIO * member.compress_size + 1024:
            raise ValueError(f"{member.compress_size} bytes cannot become {member.file_size}")
    _refuse_large(sum(member.file_size for member in members))
    found = {}
    for member in members:
        with archive.open(member) as file:
            found[member.filename.removesuffix(".npy")] = _array(file, member.file_size)
    return found


def _refuse_large(length: int) -> None:
    if length > _files.memory() // 4:
        raise ValueError(f"it would take {length / 1e9:.3g} GB of {_files.memory() / 1e9:.3g} GB of memory")
