"""GGUF's names for what the LLaMA family has: its fields as a config, its tensors as Hugging Face names them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tokenfield.errors import InputError, StoreError, short
from tokenfield.transformer.files.config import Config
from tokenfield.transformer.files.families.rotation import FACTORS
from tokenfield.transformer.files.gguf import Gguf
from tokenfield.transformer.files.tensors import Tensor, Weights

FIELDS = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "rope.freq_base": "rope_theta",
    "vocab_size": "vocab_size",
}
"""Fields of GGUF, after `llama.`, and of config.json."""
REST = ("general.", "tokenizer.", "quantize.")
"""Names, what tokenizers are made of, and how weights were quantized: no options of the model."""

LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
ENDS = {
    "token_embd.weight": "embed_tokens.weight",
    "output_norm.weight": "norm.weight",
    "output.weight": "lm_head.weight",
    FACTORS: FACTORS,
}
"""Tensors of GGUF and of Hugging Face, inside layers and outside."""


def translated(path: Path, file: Gguf) -> tuple[Config, Weights]:
    """A GGUF file of the LLaMA family as config and tensors.

    **Arguments**

    - `path`: the file.
    - `file`: what it holds.

    **Returns** both.

    **Raises** `InputError` where it is of another architecture, or has an option that is not built here.
    """
    kind = file.fields.get("general.architecture")
    if kind != "llama":
        raise InputError(
            f"{path}: `general.architecture` is {short(kind)}; GGUF files of the LLaMA family are read, where it is 'llama'."
        )
    config = _config(path, file)
    heads = {"attn_q": config.fields.get("num_attention_heads"), "attn_k": config.fields.get("num_key_value_heads")}
    heads["attn_k"] = heads["attn_k"] or heads["attn_q"]
    return config, _renamed(path, file.tensors, heads)


def _config(path: Path, file: Gguf) -> Config:
    own = {name.removeprefix("llama."): value for name, value in file.fields.items() if name.startswith("llama.")}
    strange = [name for name in file.fields if not name.startswith(("llama.", *REST))]
    fields = {FIELDS[name]: own.pop(name) for name in FIELDS if name in own}
    _shape_of_heads(path, fields, own)
    _scaling(path, fields, own)
    own = {
        name: value for name, value in own.items() if not (name in ("expert_count", "expert_used_count") and value == 0)
    }
    if strange := [*strange, *(f"llama.{name}" for name in own)]:
        raise InputError(
            f"{path}: the field {short(strange[0])} is not known here and may change what the model computes."
        )
    fields["tie_word_embeddings"] = "output.weight" not in file.tensors
    for bias, parts in {
        "attention_bias": ("attn_q", "attn_k", "attn_v", "attn_output"),
        "mlp_bias": ("ffn_up",),
    }.items():
        fields[bias] = any(f"blk.0.{part}.bias" in file.tensors for part in parts)
    if isinstance(words := file.fields.get("tokenizer.ggml.tokens"), list):
        fields.setdefault("vocab_size", len(words))
    said = {there: f"llama.{here}" for here, there in FIELDS.items()}
    return Config(fields, str(path), said)


def _shape_of_heads(path: Path, fields: dict[str, Any], own: dict[str, Any]) -> None:
    """Keys and values have one size, and all of it is turned."""
    d, heads = fields.get("hidden_size"), fields.get("num_attention_heads")
    if type(d) is int and type(heads) is int and heads > 0:
        fields.setdefault("head_dim", d // heads)
    for name in ("attention.value_length", "rope.dimension_count"):
        if (size := own.pop(name, fields.get("head_dim"))) != fields.get("head_dim"):
            raise InputError(
                f"{path}: the field `llama.{name}` is {short(size)}, but heads have {short(fields.get('head_dim'))} dimensions, "
                "which is not built here."
            )


def _scaling(path: Path, fields: dict[str, Any], own: dict[str, Any]) -> None:
    """Frequencies that are divided by a number."""
    kind, factor = own.pop("rope.scaling.type", "none"), own.pop("rope.scaling.factor", 1.0)
    if kind not in ("none", "linear"):
        raise InputError(f"{path}: the field `llama.rope.scaling.type` is {short(kind)}; known are none, linear.")
    if kind == "linear":
        fields["rope_scaling"] = {"rope_type": "linear", "factor": factor}


def _renamed(path: Path, tensors: Weights, heads: Mapping[str, Any]) -> Weights:
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        inside = re.fullmatch(r"blk\.(\d{1,6})\.(\w+)\.(weight|bias)", name)
        if name in ENDS:
            found[ENDS[name]] = tensor
        elif inside and inside[2] in LAYER:
            new = f"layers.{int(inside[1])}.{LAYER[inside[2]]}.{inside[3]}"
            if new in found:
                raise StoreError(f"{path}: the tensor {short(name)} stands twice.")
            found[new] = _turned_back(tensor, heads[inside[2]]) if inside[2] in heads else tensor
        else:
            found[name] = tensor  # which the plan does not know, and refuses by this name
    return found


def _turned_back(tensor: Tensor, heads: Any) -> Tensor:
    """Rows of queries and keys in the order of halves: GGUF has the two coordinates that are turned together side by side."""

    def read() -> np.ndarray:
        W = tensor.read()
        return W.reshape(heads, -1, 2, *W.shape[1:]).swapaxes(1, 2).reshape(W.shape)

    return tensor._replace(read=read)
