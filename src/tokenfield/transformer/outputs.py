"""Folders to which something is written once: what may be there, and what is left alone."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenfield._files import whole
from tokenfield.errors import InputError, StoreError
from tokenfield.figures.style import STYLE


def prepare(out: Path, force: bool, files: Sequence[str], what: str) -> None:
    """Refuse, before anything is computed, a folder that cannot be written to or holds something else.

    **Arguments**

    - `out`: the folder, which is made.
    - `force`: whether what is there from before is replaced.
    - `files`: the names of what will be written.
    - `what`: what is written, in a word.

    **Raises** `InputError`.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        inside = sorted(entry for entry in os.listdir(out) if not entry.startswith("."))
    except OSError as error:
        raise InputError(f"The folder {out} cannot be made: {error.strerror}. Choose another --out.") from None
    if not os.access(out, os.W_OK | os.X_OK):
        raise InputError(f"The folder {out} cannot be written to. Choose another --out.")
    if foreign := [entry for entry in inside if entry not in files]:
        raise InputError(
            f"{out} holds something else than a {what} of tokenfield's ({foreign[0]}); nothing was overwritten. Choose another "
            "--out."
        )
    if inside and not force:
        raise InputError(
            f"{out} holds a {what} from before; nothing was overwritten. Choose another --out, or add --force."
        )


def drawn(figure: Any, path: Path) -> Path:
    """A figure of matplotlib's in a file.

    **Raises** `StoreError` where it cannot be written.
    """
    try:
        with whole(path) as part:
            metadata = {"CreationDate": None} if path.suffix == ".pdf" else {}
            figure.savefig(part, dpi=STYLE["savefig.dpi"], metadata=metadata)
    except (OSError, ValueError) as error:
        raise StoreError(f"The picture could not be written to {path}: {error}.") from None
    return path
