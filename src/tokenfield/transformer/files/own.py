"""Models of our own on disk: what they are made of as plain data (config.json), weights (model.safetensors), and the tokenizer.

config.json has the architecture, and the tree of parts: every part with its name and fields, and in place of an array the name and
shape of a tensor in model.safetensors. Nothing else is ever made of a file: parts are looked up in a list.
"""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenfield import _checks as check
from tokenfield import _files, config
from tokenfield.errors import InputError, StoreError, short
from tokenfield.flow import Flow
from tokenfield.store import places
from tokenfield.transformer import positions
from tokenfield.transformer.architecture import Architecture
from tokenfield.transformer.block import Block, Sublayer
from tokenfield.transformer.embedding import Embedding, Head
from tokenfield.transformer.heads import Heads
from tokenfield.transformer.norms import Norm
from tokenfield.transformer.parts import Affine, FeedForward
from tokenfield.transformer.tokenizers import Bytes, FromFile, given

if TYPE_CHECKING:
    from tokenfield.transformer.model import Transformer

TYPE = "tokenfield"
CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
LARGEST = 16 * _files.MEGABYTE
"""Bytes of a config.json."""
_TOP = ("embedding", "blocks", "norm", "head")
_PARTS: dict[str, Any] = {
    cls.__name__: cls
    for cls in (Affine, FeedForward, Norm, Heads, Sublayer, Block, Embedding, Head, *positions.POSITIONS.values())
}


def save(model: "Transformer", path: str | Path) -> Path:
    """Write a model to a folder, whole or not at all.

    **Arguments**

    - `model`: the model.
    - `path`: the folder. A model of ours that is there is replaced; anything else is left alone.

    **Returns** the folder.

    **Raises** `InputError` where a part of the model cannot be written down, `StoreError` where the folder cannot be written or
    holds something else.
    """
    path, files = Path(path), contents(model)
    refuse_others(path)
    try:
        with places.replacing(path.absolute()) as new:
            for name, data in files.items():
                (new / name).write_bytes(data)
    except OSError as error:
        raise StoreError(f"The model could not be written to {path}: {error.strerror or error}.") from None
    return path


def refuse_others(path: Path) -> None:
    """Refuse a folder that holds something else than a model of ours.

    **Raises** `StoreError`.
    """
    if path.is_dir() and (path / CONFIG).is_file() and f'"{TYPE}"' in (path / CONFIG).read_text(errors="replace")[:200]:
        return
    if path.is_dir() and not any(path.iterdir()):
        return
    if path.exists() or path.is_symlink():
        raise StoreError(
            f"{path} holds something that is no model of tokenfield's; it is left as it is. Choose another."
        )


def contents(model: "Transformer") -> dict[str, bytes]:
    """The files of a model, by their names."""
    tensors: dict[str, Any] = {}
    tree = {name: _plain(getattr(model, name), name, tensors) for name in _TOP}
    told = {
        "model_type": TYPE,
        "name": model.name,
        "dtype": str(model.dtype),
        "tokenizer": "bytes" if isinstance(model.tokenizer, Bytes) else TOKENIZER,
        "architecture": plain_architecture(model.architecture),
        "parts": tree,
    }
    files = {CONFIG: json.dumps(told, indent=1).encode(), WEIGHTS: packed(tensors)}
    if isinstance(model.tokenizer, FromFile):
        files[TOKENIZER] = model.tokenizer.inner.to_str().encode()
    elif not isinstance(model.tokenizer, Bytes):
        raise InputError(
            f"A tokenizer of your own cannot be saved: {short(model.tokenizer)}. Models with bytes or a tokenizer.json can."
        )
    return files


def packed(tensors: dict[str, Any], metadata: dict[str, str] | None = None) -> bytes:
    """Arrays as one safetensors file."""
    from safetensors.numpy import save

    return save({name: np.asarray(array, order="C") for name, array in tensors.items()}, metadata)


def plain_architecture(of: Architecture) -> dict[str, Any]:
    """An architecture as plain data.

    **Raises** `InputError` where its attention or its scheme is none of the library's.
    """
    kinds = config.encode(Flow(of.attention, of.normalization))
    if kinds is None:
        raise InputError(
            f"{of.attention} or {of.normalization} is no kind of the library's, and cannot be written down."
        )
    return {field.name: kinds.get(field.name, getattr(of, field.name)) for field in dataclasses.fields(of)}


def _plain(part: Any, name: str, tensors: dict[str, Any]) -> Any:
    """A part as plain data; its arrays go to `tensors`, those that are shared once."""
    if isinstance(part, tuple):
        return [_plain(one, f"{name}.{k}", tensors) for k, one in enumerate(part)]
    if eqx.is_array_like(part) and hasattr(part, "dtype"):
        known = next((one for one, array in tensors.items() if array is part), name)
        tensors[known] = part
        return {"tensor": known, "shape": list(np.shape(part))}
    if not isinstance(part, eqx.Module):
        return part
    if type(part).__name__ not in _PARTS:
        raise InputError(f"{name} is a {type(part).__name__} of your own, which cannot be written down.")
    fields = {one: getattr(part, one) for one in part.__dataclass_fields__ if one != "kernel"}
    return {"part": type(part).__name__} | {
        one: _plain(value, f"{name}.{one}", tensors) for one, value in fields.items()
    }


def read(folder: Path, told: dict[str, Any], dtype: str, tokenizer: Any) -> "Transformer":
    """The model in a folder that `save` has written.

    **Arguments**

    - `folder`: the folder.
    - `told`: what its config.json says.
    - `dtype`: the precision of the weights.
    - `tokenizer`: instead of the one in the folder.

    **Returns** the model.

    **Raises** `StoreError` where files are missing or damaged, or do not fit each other.
    """
    from tokenfield.transformer.model import Transformer

    try:
        kinds = config.decode({name: told["architecture"][name] for name in ("attention", "normalization")})
        of = Architecture(
            **{**told["architecture"], "attention": kinds.attention, "normalization": kinds.normalization}
        )
        tensors = unpacked(folder / WEIGHTS)
        parts = {name: _made(told["parts"][name], of, tensors, folder) for name in _TOP}
        tokenizer = _tokenizer(folder, told["tokenizer"]) if tokenizer is None else given(tokenizer)
        model = Transformer(**parts, architecture=of, tokenizer=tokenizer, name=str(told["name"])).astype(dtype)
    except StoreError:
        raise
    except (InputError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise _damaged(folder, f"its {CONFIG} describes no model ({short(str(error), 200)})") from None
    _refuse_misfits(model, folder)
    return model


def unpacked(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file.

    **Raises** `StoreError` where it is missing, truncated or larger than memory.
    """
    import safetensors.numpy

    try:
        check.room(2 * path.stat().st_size, f"{path}")
        return safetensors.numpy.load_file(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}.") from None
    except safetensors.SafetensorError as error:
        raise StoreError(f"{path} is damaged: {error}. It was cut off, or is no safetensors file.") from None


def _made(told: Any, of: Architecture, tensors: dict[str, Any], folder: Path) -> Any:
    """The part that plain data describes."""
    if isinstance(told, list):
        return tuple(_made(one, of, tensors, folder) for one in told)
    if not isinstance(told, dict):
        return told
    if "tensor" in told:
        array = tensors.get(told["tensor"])
        if array is None or list(array.shape) != told["shape"]:
            came = "is missing" if array is None else f"has shape {array.shape}"
            raise _damaged(
                folder, f"{told['tensor']}, of shape {tuple(told['shape'])} by {CONFIG}, {came} in {WEIGHTS}"
            )
        return array
    cls = _PARTS[told["part"]]
    fields = {name: _made(value, of, tensors, folder) for name, value in told.items() if name != "part"}
    if cls is Heads:
        fields["kernel"] = of.attention
    return cls(**fields)


def _refuse_misfits(model: "Transformer", folder: Path) -> None:
    """Refuse parts that do not fit each other or the architecture, without computing anything."""
    of = model.architecture

    def through(ids: Any) -> tuple[Any, Any]:
        σ, w = jnp.arange(2, dtype=model.dtype), jnp.ones(2, model.dtype)
        x = model.embedding(ids, σ)
        for block in model.blocks:
            x = block(x, σ, block.see(x, σ, w))
        return x, x if model.head is None else model.head(x, model.embedding.words)

    try:
        model.blocks[0].attention.f.check()
        x, seen = jax.eval_shape(through, jax.ShapeDtypeStruct((2,), np.int32))
    except Exception as error:  # shapes that do not fit raise whatever the operation raises
        raise _damaged(folder, f"its parts do not fit each other ({short(str(error), 160)})") from None
    asked = {"layers": of.layers, "d": of.d, "vocabulary": of.d if model.head is None else of.vocabulary}
    found = {"layers": len(model.blocks), "d": x.shape[-1], "vocabulary": seen.shape[-1]}
    for block in model.blocks:
        asked |= {"queries": of.heads * of.head_size, "keys": of.groups * of.head_size, "hidden": of.hidden}
        heads = block.attention.f
        found |= {"queries": len(heads.query.W), "keys": len(heads.key.W), "hidden": len(block.mlp.f.up.W)}
        if asked != found:
            raise _damaged(folder, f"its parts have the sizes {found}, but its architecture asks for {asked}")


def _tokenizer(folder: Path, name: str) -> Any:
    return Bytes() if name == "bytes" else FromFile.read(folder / TOKENIZER)


def _damaged(folder: Path, why: str) -> StoreError:
    return StoreError(f"The model in {folder} cannot be read: {why}. Train or save it again.")
