"""The texts of a probe: where they come from, and how they become tokens."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from tokenfield import _checks as check
from tokenfield import _files
from tokenfield.errors import InputError, StoreError, short
from tokenfield.transformer.model import Transformer

TOPICS = ("objects", "naming", "exceptions", "compound")
"""The embedded texts: how these topics of the language reference begin, which every Python carries."""
USUAL = 128
"""How many tokens of the embedded texts are taken."""
LARGEST = 1 << 24
"""Bytes that a file of texts may have."""
FOREIGN = 0.5
"""Where one token makes up more than this share of the embedded texts, the model does not read English."""


def embedded() -> list[str]:
    """The embedded texts.

    **Returns** paragraphs of Python's language reference, without its signs for headings and code.

    >>> len(embedded()), embedded()[1][:18]
    (4, 'Naming and binding')
    """
    from pydoc_data.topics import topics

    return [plain(topics[name]) for name in TOPICS]


def plain(text: str) -> str:
    """A text on one line, without rows of signs that only underline."""
    lines = [line.strip() for line in text.splitlines()]
    return " ".join(line for line in lines if line and line.strip("*=-~^"))


def read(path: str | os.PathLike[str]) -> list[str]:
    """The texts in a file: its paragraphs, which blank lines separate.

    **Arguments**

    - `path`: the file, in UTF-8.

    **Returns** the texts.

    **Raises** `StoreError` where it cannot be read, is too long, or is no text; `InputError` where it is empty.
    """
    try:
        text = _files.read(path, LARGEST).decode("utf-8")
    except OSError as error:
        raise StoreError(f"The texts {path} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise StoreError(f"The texts {path} are not in UTF-8. Save them as such.") from None
    except ValueError as error:
        raise StoreError(f"The texts {path} cannot be read: {error}.") from None
    paragraphs = [" ".join(part.split()) for part in text.replace("\r\n", "\n").split("\n\n")]
    found = [part for part in paragraphs if part]
    if not found:
        raise InputError(f"The file {path} holds no text. Write paragraphs, with blank lines between them.")
    return found


def encoded(model: Transformer, texts: Any, tokens: int | None) -> list[np.ndarray]:
    """The numbers of the tokens of every text.

    **Arguments**

    - `model`: whose tokenizer is used.
    - `texts`: a text, several texts or lists of numbers; the embedded ones when None.
    - `tokens`: how many tokens of each are taken; all when None, of the embedded ones 128 or as many as the model has positions.

    **Returns** one array per text.

    **Raises** `InputError` where a text is too short or too long, there is none, or the embedded ones are foreign to the model.
    """
    if tokens is not None:
        check.whole("tokens", tokens, 2, "how many tokens of each text are taken")
    own = texts is None
    if own:
        most = model.architecture.context if model.longest is None else min(model.longest, model.architecture.context)
        texts, tokens = embedded(), min(tokens or USUAL, most)
    ids = [_cut(model, text, tokens) for text in _several(texts)]
    if own:
        _refuse_foreign(model, ids)
    return ids


def shuffled(ids: np.ndarray, seed: int) -> np.ndarray:
    """The same tokens in another order."""
    return np.random.default_rng([seed, len(ids)]).permutation(ids)


def _several(texts: Any) -> list[Any]:
    if isinstance(texts, str):
        return [texts]
    if not isinstance(texts, Sequence | np.ndarray) or isinstance(texts, bytes) or getattr(texts, "ndim", 1) == 0:
        raise InputError(f"Argument `texts` must be a text or a list of texts, but is {check.brief(texts)}.")
    if len(texts) == 0:
        raise InputError("Argument `texts` holds no text. Leave it out for those that are embedded.")
    return [texts] if all(isinstance(one, int | np.integer) for one in texts) else list(texts)


def _cut(model: Transformer, text: Any, tokens: int | None) -> np.ndarray:
    if not isinstance(text, str | Sequence | np.ndarray) or isinstance(text, bytes):
        raise InputError(f"A text must be a string, or the numbers of its tokens, but is {check.brief(text)}.")
    ids = model.tokenizer.encode(text) if isinstance(text, str) else text
    if model.longest is not None and tokens is None and len(ids) > model.longest:
        raise InputError(
            f"The model has {model.longest} positions, but a text has {len(ids)} tokens: {short(text, 40)}. Cut texts: "
            f"tokens={model.longest}, of the command --tokens {model.longest}."
        )
    if len(ids) < 2:
        raise InputError(
            f"A text must have at least two tokens, for there to be an interaction, but this has {len(ids)}: {short(text)}."
        )
    return np.asarray(model.encode(ids if tokens is None else ids[:tokens]))


def _refuse_foreign(model: Transformer, ids: list[np.ndarray]) -> None:
    numbers, counts = np.unique(np.concatenate(ids), return_counts=True)
    if counts.max() > FOREIGN * counts.sum():
        name = model.tokenizer.names([int(numbers[counts.argmax()])])[0]
        raise InputError(
            f"{model.name} does not read English: {counts.max() / counts.sum():.0%} of the tokens of the embedded texts are "
            f"{short(name)}. Give texts of its own language: probe(model, texts), of the command --text FILE."
        )
