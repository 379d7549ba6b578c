"""Tokenizers as models bring them: tokenizer.json, or built from the vocabulary that lies there instead."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenfield.errors import InputError, StoreError, short
from tokenfield.transformer.files import plain
from tokenfield.transformer.tokenizers import FromFile, Tokenizer, Unknown, library

SMILES = r"\[[^\]]+\]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|/|:|~|@|\?|>>?|\*|\$|%[0-9]{2}|[0-9]"
"""Atoms, bonds, rings and brackets of molecules written as SMILES, as the Molecular Transformer splits them [schwaller2019]."""
SPECIAL = r"\[(PAD|UNK|CLS|SEP|MASK|unused\d+)\]"
CONTROL, OWN = 3, 4
"""Kinds of tokens of GGUF that are never split: those that steer, and the user's."""


def of_folder(folder: Path) -> Tokenizer:
    """The tokenizer in a folder; one that refuses text where there is none that is known.

    **Raises** `StoreError` where the files of one are damaged.
    """
    found = [name for name in ("tokenizer.json", "vocab.txt", "vocab.json") if (folder / name).exists()]
    if not found:
        return Unknown(f"There is no tokenizer.json in {folder}, nor a vocabulary that is known")
    try:
        library()
    except InputError as error:
        return Unknown(str(error).removesuffix("."))
    path = plain.inside(folder, found[0])
    if found[0] == "tokenizer.json":
        return FromFile.read(path)
    return _of_words(folder, path) if found[0] == "vocab.txt" else _of_merges(folder, path)


def _of_words(folder: Path, path: Path) -> Tokenizer:
    """From a vocab.txt, one token per line: WordPiece as BERT has it, or SMILES."""
    words = plain.text(path).removesuffix("\n").split("\n")
    words = [word.removesuffix("\r") for word in words]
    if len(set(words)) < len(words) or "[UNK]" not in words:
        return Unknown(
            f"{path} is not a vocabulary with a token for the unknown, [UNK], in which no token stands twice"
        )
    plain_words = [word for word in words if not re.fullmatch(SPECIAL, word)]
    if any(word.startswith("##") for word in plain_words):
        return _word_pieces(folder, words)
    if all(re.fullmatch(SMILES, word) for word in plain_words):
        return _smiles(words)
    return Unknown(f"{path} is a vocabulary of neither word pieces (##...) nor chemical SMILES")


def _word_pieces(folder: Path, words: list[str]) -> FromFile:
    tokenizers = library()
    options = plain.data(plain.inside(folder, name)) if (folder / (name := "tokenizer_config.json")).exists() else {}
    lower, accents = options.get("do_lower_case", True), options.get("strip_accents")
    chinese = options.get("tokenize_chinese_chars", True)
    if (
        not isinstance(lower, bool)
        or not isinstance(chinese, bool)
        or not (accents is None or isinstance(accents, bool))
    ):
        raise StoreError(
            f"{folder / 'tokenizer_config.json'}: do_lower_case, tokenize_chinese_chars or strip_accents is no flag."
        )
    model = tokenizers.models.WordPiece(_numbered(words), unk_token="[UNK]", max_input_chars_per_word=100)
    inner = tokenizers.Tokenizer(model)
    inner.normalizer = tokenizers.normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=chinese, strip_accents=accents, lowercase=lower
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    inner.decoder = tokenizers.decoders.WordPiece()
    return FromFile(_between(inner, words), "vocab.txt")


def _smiles(words: list[str]) -> FromFile:
    tokenizers = library()
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(_numbered(words), unk_token="[UNK]"))
    inner.normalizer = tokenizers.normalizers.Strip()
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(SMILES), behavior="isolated")
    inner.decoder = tokenizers.decoders.Fuse()
    return FromFile(_between(inner, words), "vocab.txt")


def _between(inner: Any, words: list[str]) -> Any:
    """A tokenizer that puts [CLS] before a text and [SEP] behind it, where the vocabulary has them."""
    tokenizers = library()
    special = [word for word in words if re.fullmatch(SPECIAL, word) and "unused" not in word]
    inner.add_special_tokens(special)
    if "[CLS]" in words and "[SEP]" in words:
        ends = [(word, words.index(word)) for word in ("[CLS]", "[SEP]")]
        inner.post_processor = tokenizers.processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return inner


def _numbered(words: list[str]) -> dict[str, int]:
    return {word: k for k, word in enumerate(words)}


def _of_merges(folder: Path, path: Path) -> Tokenizer:
    """From vocab.json and merges.txt: pairs of bytes that are merged, as GPT-2 has it."""
    if not (folder / "merges.txt").exists():
        return Unknown(f"{path} lies there without a merges.txt")
    vocabulary = plain.data(path)
    lines = plain.text(plain.inside(folder, "merges.txt")).splitlines()
    merges = [line for line in lines if line and not line.startswith("#version")]
    return _byte_pairs(vocabulary, merges, [], digits=False, name="vocab.json")


def of_gguf(fields: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer in the fields of a GGUF file; one that refuses text where it is not known.

    **Raises** `StoreError` where its parts do not fit each other.
    """
    kind, how = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre", "gpt-2")
    if kind != "gpt2" or how not in ("gpt-2", "smollm"):
        return Unknown(
            f"The GGUF file has a tokenizer {short(kind)} ({short(how)}); known is 'gpt2' ('gpt-2' or 'smollm')"
        )
    try:
        library()
    except InputError as error:
        return Unknown(str(error).removesuffix("."))
    words, merges = _texts(fields, "tokens"), _texts(fields, "merges")
    kinds = fields.get("tokenizer.ggml.token_type", [1] * len(words))
    if not isinstance(kinds, list) or len(kinds) != len(words):
        raise StoreError("The GGUF file's tokens and their kinds do not fit each other: it is damaged.")
    special = [word for word, kind in zip(words, kinds, strict=True) if kind in (CONTROL, OWN)]
    inner = _byte_pairs(_numbered(words), merges, special, digits=how == "smollm", name="tokenizer of the GGUF file")
    if fields.get("tokenizer.ggml.add_bos_token") is True:
        return _after_first(inner, words, fields.get("tokenizer.ggml.bos_token_id"))
    return inner


def _texts(fields: Mapping[str, Any], name: str) -> list[str]:
    parts = fields.get(f"tokenizer.ggml.{name}")
    if not isinstance(parts, list) or not parts or not all(isinstance(part, str) for part in parts):
        raise StoreError(f"The GGUF file has no {name} for its tokenizer: it is damaged.")
    return parts


def _after_first(made: FromFile, words: list[str], first: Any) -> FromFile:
    """Texts begin with a token of their own."""
    if type(first) is not int or not 0 <= first < len(words):
        raise StoreError(f"The GGUF file says that texts begin with the token {short(first)}, which there is not.")
    processor = library().processors.TemplateProcessing(
        single=f"{words[first]}:0 $A:0", special_tokens=[(words[first], first)]
    )
    made.inner.post_processor = processor
    return made


def _byte_pairs(
    vocabulary: dict[str, Any], merges: list[str], special: list[str], *, digits: bool, name: str
) -> FromFile:
    tokenizers = library()
    pairs = [tuple(merge.split(" ")) for merge in merges]
    if any(len(pair) != 2 for pair in pairs) or not all(type(k) is int and k >= 0 for k in vocabulary.values()):
        raise StoreError(f"The {name} holds merges that are no pairs, or tokens without a number: it is damaged.")
    try:
        inner = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, pairs))
    except Exception as error:  # the library raises plain exceptions
        raise StoreError(f"The {name} does not fit together: {short(str(error), 120)}.") from None
    split = tokenizers.pre_tokenizers
    bytewise = split.ByteLevel(add_prefix_space=False, use_regex=True)
    inner.pre_tokenizer = split.Sequence([split.Digits(individual_digits=True), bytewise]) if digits else bytewise
    inner.decoder = tokenizers.decoders.ByteLevel()
    inner.add_special_tokens([tokenizers.AddedToken(word, special=True, normalized=False) for word in special])
    return FromFile(inner, name)
