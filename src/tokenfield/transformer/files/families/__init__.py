"""Architectures whose trained weights are read: what their fields and tensors are here."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tokenfield.transformer.files.config import Config
from tokenfield.transformer.files.families import albert, bert, gpt2, llama
from tokenfield.transformer.files.families.plan import Plan


class Family(NamedTuple):
    """`plan` reads a config; `prefix` is what names of tensors begin with where a head stands beside the model."""

    title: str
    prefix: str
    plan: Callable[[Config], Plan]


FAMILIES: Mapping[str, Family] = {
    "bert": Family("BERT", "bert.", bert.plan),
    "albert": Family("ALBERT", "albert.", albert.plan),
    "gpt2": Family("GPT-2", "transformer.", gpt2.plan),
    "llama": Family("LLaMA", "model.", llama.plan),
}
"""Families by the `model_type` of their configs."""
