"""From a folder, a GGUF file or the name of a package to a model."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from tokenfield import _checks as check
from tokenfield.errors import InputError, StoreError, short
from tokenfield.transformer.files import gguf, pickles, plain, safetensors
from tokenfield.transformer.files.config import Config
from tokenfield.transformer.files.families import FAMILIES, Family
from tokenfield.transformer.files.families.plan import Plan, Taken
from tokenfield.transformer.files.packages import PACKAGES, installed
from tokenfield.transformer.files.tensors import Weights
from tokenfield.transformer.files.translation import translated
from tokenfield.transformer.files.vocabularies import of_folder, of_gguf
from tokenfield.transformer.tokenizers import Tokenizer, given

if TYPE_CHECKING:
    from tokenfield.transformer.model import Transformer

CONFIG = 4 << 20
"""The longest config.json."""
READERS = {"model.safetensors": safetensors.read, "pytorch_model.bin": pickles.read}
"""Names of files of weights, the better one first. In several parts, an index beside them says which tensor is in which."""


def loaded(folder: str | Path, dtype: str = "float32", tokenizer: Any = None) -> "Transformer":
    """The model in a folder, a GGUF file, or an installed package.

    **Arguments**

    - `folder`: its path; or "minilm", "rxnmapper" or "smollm2".
    - `dtype`: "float32" or "float64".
    - `tokenizer`: instead of the one in the folder.

    **Returns** the model.

    **Raises** `StoreError` where files are missing, damaged or do not fit each other, `InputError` where the architecture, or an
    option of it, is not known.
    """
    if dtype not in ("float32", "float64"):
        raise InputError(f"Argument `dtype` must be 'float32' or 'float64', but is {check.brief(dtype)}.")
    if dtype == "float64" and not jax.config.read("jax_enable_x64"):
        raise InputError("Weights in float64 need JAX_ENABLE_X64, which this process has turned off.")
    path = Path(folder).expanduser()
    name = path.stem if path.is_file() else path.resolve().name or "Transformer"
    if not path.exists() and str(folder) in PACKAGES:
        path, name = installed(str(folder)), str(folder)
    if path.is_dir():
        return _folder(path, name, dtype, tokenizer)
    if path.is_file():
        return _gguf(path, name, dtype, tokenizer)
    raise StoreError(
        f"There is no folder or file {str(path)!r}. Give a folder with config.json and weights, a .gguf file, or one of "
        f"{', '.join(PACKAGES)}."
    )


def _folder(folder: Path, name: str, dtype: str, tokenizer: Any) -> "Transformer":
    if not (folder / "config.json").exists():
        found = sorted(path.name for path in folder.glob("*.gguf"))
        hint = (
            f"Give the GGUF file itself: {folder / found[0]}."
            if found
            else "A model's folder has one beside its weights."
        )
        raise StoreError(f"There is no config.json in {folder}. {hint}")
    path = plain.inside(folder, "config.json")
    fields = plain.data(path, CONFIG)
    if (kind := fields.get("model_type")) == "tokenfield":
        return _own(folder, fields, dtype, tokenizer)
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise InputError(
            f"{folder / 'config.json'}: the field `model_type` is {short(kind)}, an architecture that is not read. "
            f"Known: {', '.join(FAMILIES)}."
        )
    words = given(tokenizer) if tokenizer is not None else None
    config = Config(fields, str(folder / "config.json"))
    return _made(FAMILIES[kind], config, _weights(folder), dtype, words or of_folder(folder), name)


def _own(folder: Path, fields: dict[str, Any], dtype: str, tokenizer: Any) -> "Transformer":
    try:
        from tokenfield.transformer.files import own  # pyright: ignore[reportAttributeAccessIssue]
    except ImportError:
        raise StoreError(f"{folder} was written by another version of tokenfield, which trains models.") from None
    return own.read(folder, fields, dtype, tokenizer)


def _gguf(path: Path, name: str, dtype: str, tokenizer: Any) -> "Transformer":
    file = gguf.read(path)
    config, weights = translated(path, file)
    words = given(tokenizer) if tokenizer is not None else of_gguf(file.fields)
    return _made(FAMILIES["llama"], config, weights, dtype, words, name)


def _made(family: Family, config: Config, weights: Weights, dtype: str, words: Tokenizer, name: str) -> "Transformer":
    """The model that a config and its tensors make."""
    from tokenfield.transformer.model import Transformer

    plan = planned(family, config)
    weights = _without(family.prefix, weights, config.where)
    plan.fit(weights, config.where)
    _refuse_large(plan, weights, dtype)
    parts = plan.parts(Taken(weights, dtype))
    return Transformer(*parts, plan.architecture, words, name)


def planned(family: Family, config: Config) -> Plan:
    """The plan of a config of which every field is used, irrelevant, or refused.

    **Arguments**

    - `family`: the architecture.
    - `config`: its fields.

    **Returns** the plan.

    **Raises** `InputError`, which names the field.
    """
    try:
        plan = family.plan(config)
    except InputError as error:
        if str(error).startswith(config.where):
            raise
        raise InputError(f"{config.where}: {error}") from None
    config.finish()
    return plan


def _without(prefix: str, weights: Weights, where: str) -> Weights:
    """Tensors by the names that a model without a head gives them; norms of old files have a gamma and a beta."""
    found = {}
    for name, tensor in weights.items():
        new = name.removeprefix(prefix)
        new = new.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        if new in found:
            raise StoreError(f"{where}: there are two tensors {new}, one of them as {short(name)}. Which one is meant?")
        found[new] = tensor
    return found


def _refuse_large(plan: Plan, weights: Weights, dtype: str) -> None:
    """All numbers in their precision, and one tensor while it is read."""
    used = [weights[name] for name in plan.used(weights)]
    size = np.dtype(dtype).itemsize * sum(int(np.prod(tensor.shape, dtype=object)) for tensor in used)
    check.room(size + 2 * max(tensor.size for tensor in used), "The weights of the model")


# Weights


def _weights(folder: Path) -> Weights:
    for name, read in READERS.items():
        if (folder / name).exists():
            return read(plain.inside(folder, name))
        if (folder / f"{name}.index.json").exists():
            return _sharded(folder, f"{name}.index.json", read)
    raise StoreError(
        f"There are no weights in {folder}: neither of {', '.join(READERS)}, whole or in parts with an index."
    )


def _sharded(folder: Path, name: str, read: Any) -> Weights:
    """Weights in several files, of which an index says what is where."""
    index = plain.data(plain.inside(folder, name))
    places = index.get("weight_map")
    if not isinstance(places, dict) or not places or not all(isinstance(place, str) for place in places.values()):
        raise StoreError(
            f"{folder / name} must hold a `weight_map` from tensors to files, but does not. It is damaged."
        )
    _refuse_places(folder, name, places)
    files = {place: read(plain.inside(folder, place)) for place in sorted(set(places.values()))}
    missing = [tensor for tensor, place in places.items() if tensor not in files[place]]
    if missing:
        raise StoreError(
            f"{folder / name} says that {places[missing[0]]} holds {short(missing[0])}, which it does not."
        )
    return {tensor: files[place][tensor] for tensor, place in places.items()}


def _refuse_places(folder: Path, name: str, places: Mapping[str, str]) -> None:
    ending = name.removesuffix(".index.json").rpartition(".")[2]
    for place in set(places.values()):
        if not place.endswith(f".{ending}"):
            raise StoreError(f"{folder / name} names the file {json.dumps(place)[:80]}, which is no .{ending}.")
