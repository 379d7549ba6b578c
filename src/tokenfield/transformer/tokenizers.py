"""From text to the numbers of tokens and back."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tokenfield import _files
from tokenfield.errors import InputError, StoreError, short

TEXT = 64 * _files.MEGABYTE
"""The longest tokenizer.json."""


@runtime_checkable
class Tokenizer(Protocol):
    """What a model asks of its tokenizer."""

    @property
    def size(self) -> int:
        """How many different tokens there are."""
        ...

    def encode(self, text: str) -> list[int]: ...

    def decode(self, ids: Iterable[int | np.integer]) -> str: ...

    def names(self, ids: Iterable[int | np.integer]) -> list[str]:
        """What each token is called, for pictures and tables."""
        ...


class Bytes:
    """The embedded default: a token is a byte of UTF-8, and one more stands for what is hidden.

    >>> Bytes().encode("né"), Bytes().decode([110, 195, 169])
    ([110, 195, 169], 'né')
    """

    size = 257
    hidden = 256
    """The token that stands in for one that is to be predicted."""

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, ids: Iterable[int | np.integer]) -> str:
        return bytes(one for one in ids if one < 256).decode(errors="replace")

    def names(self, ids: Iterable[int | np.integer]) -> list[str]:
        return [repr(chr(one))[1:-1] if one < 128 else f"0x{one:02x}" for one in ids]

    def __repr__(self) -> str:
        return "Bytes()"


class FromFile:
    """A tokenizer of Hugging Face's `tokenizers`, from a tokenizer.json or built from a vocabulary."""

    def __init__(self, inner: Any, name: str):
        self.inner, self.name = inner, name

    @classmethod
    def read(cls, path: Path) -> "FromFile":
        """The tokenizer in a file tokenizer.json."""
        tokenizers = library()
        try:
            inner = tokenizers.Tokenizer.from_str(_files.read(path, TEXT).decode())
        except Exception as error:  # the library raises plain exceptions
            raise StoreError(
                f"{path} is not a tokenizer that the `tokenizers` library knows: {short(str(error), 160)}."
            ) from None
        inner.no_padding()
        inner.no_truncation()
        return cls(inner, path.name)

    @property
    def size(self) -> int:
        return self.inner.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        return self.inner.encode(text).ids

    def decode(self, ids: Iterable[int | np.integer]) -> str:
        return self.inner.decode([int(one) for one in ids])

    def names(self, ids: Iterable[int | np.integer]) -> list[str]:
        return [self.inner.id_to_token(int(one)) or f"<{one}>" for one in ids]

    def __repr__(self) -> str:
        return f"FromFile({self.name!r}, {self.size} tokens)"


def given(tokenizer: Any) -> Tokenizer:
    """A tokenizer that the user gives: an object that encodes and decodes, one of the `tokenizers` library, or a tokenizer.json.

    **Raises** `InputError` where it is something else.
    """
    if isinstance(tokenizer, str | Path):
        return FromFile.read(Path(tokenizer))
    if hasattr(tokenizer, "get_vocab_size") and hasattr(tokenizer, "id_to_token"):
        return FromFile(tokenizer, "given")
    if not all(hasattr(tokenizer, name) for name in ("encode", "decode", "names", "size")):
        raise InputError(
            "Argument `tokenizer` must be a tokenizer.json, or an object with encode, decode, names and size, but is "
            f"{short(tokenizer)}."
        )
    return tokenizer


class Unknown:
    """In the place of a tokenizer that is not known: numbers of tokens go through, text is refused.

    **Arguments**

    - `why`: the reason, the beginning of a sentence.
    """

    size = 0

    def __init__(self, why: str):
        self.why = why

    def encode(self, text: str) -> list[int]:
        raise self._refusal()

    def decode(self, ids: Iterable[int | np.integer]) -> str:
        raise self._refusal()

    def names(self, ids: Iterable[int | np.integer]) -> list[str]:
        return [f"<{one}>" for one in ids]

    def _refusal(self) -> InputError:
        return InputError(
            f"{self.why}. Give a tokenizer, Transformer.load(..., tokenizer='tokenizer.json'), or numbers of tokens instead of "
            "text."
        )

    def __repr__(self) -> str:
        return "Unknown()"


def library() -> Any:
    """The `tokenizers` library, where it is installed."""
    try:
        import tokenizers
    except ImportError:
        raise InputError("This tokenizer needs a library: pip install 'tokenfield[models]'.") from None
    return tokenizers
