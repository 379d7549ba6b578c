"""Numbers that a spec keeps in files."""

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenfield.errors import InputError

if TYPE_CHECKING:
    from tokenfield.measures import Tokens


def tokens_from_file(path: str, folder: Any = None) -> "Tokens":
    """Tokens from an .npy of shape (n, d) or an .npz with x and perhaps w and s."""
    from tokenfield.measures import Tokens

    loaded = numbers(path, folder or Path())
    if isinstance(loaded, np.ndarray):
        return Tokens(loaded)
    if unknown := set(loaded) - {"x", "w", "s"} or "x" not in loaded:
        raise InputError(
            f"Argument `path`: {path} must hold x and may hold w and s, but holds {sorted(loaded)}; {unknown}."
        )
    return Tokens(**loaded)


def numbers(path: str, folder: Path) -> Any:
    """The array of an .npy, or the named arrays of an .npz."""
    try:
        loaded = np.load(folder / path, allow_pickle=False)
        return loaded if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(
            f"The file {path} cannot be read as numbers: {error}. Expected an .npy or .npz written by numpy."
        ) from None
