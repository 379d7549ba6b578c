"""What is learned from: a text as numbers of tokens, and which part of it is kept for validation."""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tokenfield import _files
from tokenfield.errors import InputError, StoreError, short

BLOCK = 4096
"""Tokens of a block. Every tenth block is kept for validation."""
EVERY = 10
LARGEST = 512 * _files.MEGABYTE


class Split(NamedTuple):
    """A text in two: `learned` are the stretches between blocks that are kept, `kept` those blocks."""

    learned: list[np.ndarray]
    kept: list[np.ndarray]

    @property
    def mark(self) -> str:
        """What tells two texts apart: the SHA-256 of their tokens, split as they are."""
        digest = hashlib.sha256()
        for part in (*self.learned, *self.kept):
            digest.update(len(part).to_bytes(8, "little") + part.astype("<i4").tobytes())
        return digest.hexdigest()


def language_reference() -> str:
    """The embedded default: the language reference that Python itself carries, its topics in alphabetical order.

    **Returns** 0.46 MB of English and Python.

    >>> language_reference()[:24]
    'The "assert" statement\\n*'
    """
    from pydoc_data.topics import topics

    return "\n".join(topics[name] for name in sorted(topics))


def text_of(text: Any) -> str:
    """The text that an argument stands for: itself, a file's, or the embedded default.

    **Arguments**

    - `text`: a text; a `Path`, whose file has it in UTF-8; or None.

    **Returns** the text.

    **Raises** `InputError` where it is something else, `StoreError` where the file cannot be read.
    """
    if text is None:
        return language_reference()
    if isinstance(text, str):
        return text
    if not isinstance(text, Path):
        raise InputError(
            f"Argument `text` must be a text, or the pathlib.Path of a file that has one, but is {short(text)}."
        )
    try:
        return _files.read(text, LARGEST).decode("utf-8")
    except UnicodeDecodeError as error:
        raise StoreError(
            f"{text} is no text in UTF-8: byte {error.start} cannot be read. Convert it, or name another file."
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StoreError(f"The text {text} cannot be read: {reason}.") from None


def split(ids: np.ndarray, window: int) -> Split:
    """Every tenth block of a text for validation, the stretches between them for learning.

    **Arguments**

    - `ids`: the numbers of all tokens.
    - `window`: how many tokens a block must have at least; those of short texts are shorter than 4096.

    **Returns** the two parts.

    **Raises** `InputError` where the text is too short.

    >>> [len(part) for part in split(np.arange(100), 5).learned], split(np.arange(100), 5).kept[0].tolist()
    ([90], [90, 91, 92, 93, 94, 95, 96, 97, 98, 99])
    """
    if len(ids) < EVERY * window:
        raise InputError(
            f"The text has {len(ids)} tokens, but training needs at least {EVERY * window}: every tenth block is kept for "
            f"validation, and a block has at least {window} tokens. Give a longer text, or a model with a shorter context."
        )
    block = min(BLOCK, len(ids) // EVERY)
    parts = [ids[at : at + EVERY * block] for at in range(0, len(ids), EVERY * block)]
    learned = [part[: (EVERY - 1) * block] for part in parts]
    kept = [part[(EVERY - 1) * block :] for part in parts]
    long = lambda some: [part for part in some if len(part) >= window]
    return Split(long(learned), long(kept))
