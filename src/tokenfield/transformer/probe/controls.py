"""The control of a trained model: the same architecture with untrained weights."""

from typing import Any

import equinox as eqx
import jax
import numpy as np

from tokenfield import _checks as check
from tokenfield.errors import InputError, suggest
from tokenfield.transformer.block import Block
from tokenfield.transformer.model import Transformer
from tokenfield.transformer.norms import Norm
from tokenfield.transformer.parts import Affine
from tokenfield.transformer.random import SCALE

UNTRAINED = {
    "initial": "weights drawn from N(0, 0.02²), offsets 0, gains 1: the model before training",
    "own": "every tensor drawn anew from a normal law with its own mean and standard deviation",
}
"""Kinds of untrained weights, and what they are."""


def untrained(model: Transformer, seed: int = 0, kind: str = "initial") -> Transformer:
    """The same architecture with untrained weights.

    The honest control is the model before training, "initial": tables and matrices N(0, 0.02²), offsets 0, gains 1, as the
    BERT, ALBERT, GPT-2 and LLaMA families begin. Where tokens are not normalized after a sublayer, matrices that write to the
    residual stream are smaller by √(2L), as GPT-2's are. Its scores are nearly all alike, though, so that some of what training
    changes is only scale: "own" draws every tensor anew with its own mean and standard deviation, which keeps the scale and
    forgets the rest.

    **Arguments**

    - `model`: the model.
    - `seed`: the seed of the draws.
    - `kind`: "initial" or "own".

    **Returns** a model of the same parts, sizes and precision; blocks that share weights share them again.

    **Raises** `InputError` where the kind is unknown.

    >>> import tokenfield as tkf
    >>> model = tkf.Transformer.random(tkf.Architecture(d=32, layers=2, heads=4), seed=0)
    >>> round(float(np.std(untrained(model, seed=1).blocks[0].attention.f.query.W)), 3)
    0.02
    """
    if kind not in UNTRAINED:
        raise InputError(f"Argument `untrained` is unknown: {check.brief(kind)}. {suggest(kind, UNTRAINED)}")
    rng = np.random.default_rng([seed, 1])
    model = _drawn(model, rng, kind)
    return model if kind == "own" else _damped(model)


def _drawn(tree: Any, rng: np.random.Generator, kind: str) -> Any:
    """All arrays drawn anew, those that are shared once."""
    known: dict[int, Any] = {}
    fixed = {id(leaf) for leaf in _fixed(tree)}

    def draw(path: Any, leaf: Any) -> Any:
        if not eqx.is_inexact_array_like(leaf) or not np.ndim(leaf) or id(leaf) in fixed:
            return leaf
        if id(leaf) not in known:
            known[id(leaf)] = check.on_device(_one(_last_name(path), np.asarray(leaf), rng, kind))
        return known[id(leaf)]

    return jax.tree_util.tree_map_with_path(draw, tree)


def _fixed(model: Transformer) -> list[Any]:
    """What is no weight: the numbers of kernels."""
    return [leaf for block in model.blocks for leaf in jax.tree.leaves(block.attention.f.kernel)]


def _last_name(path: Any) -> str:
    return getattr(path[-1], "name", "")


def _one(name: str, leaf: np.ndarray, rng: np.random.Generator, kind: str) -> np.ndarray:
    """A tensor as it is before training, or one with its own mean and spread."""
    noise = rng.standard_normal(leaf.shape)
    if kind == "own":
        return (leaf.mean() + leaf.std() * noise).astype(leaf.dtype)
    if name == "gain":
        return np.ones_like(leaf)
    if name in ("b", "bias"):
        return np.zeros_like(leaf)
    return (SCALE * noise).astype(leaf.dtype)


def _damped(model: Transformer) -> Transformer:
    """Smaller matrices, by √(2L), where what they write is only added up."""
    known: dict[int, Block] = {}
    factor = (2 * model.depth) ** -0.5

    def smaller(part: Affine, after: Norm | None) -> Affine:
        return part if after is not None else eqx.tree_at(lambda a: a.W, part, factor * part.W)

    def damped(block: Block) -> Block:
        attention, mlp = block.attention, block.mlp
        shared = id(attention.f.output.W)
        if shared not in known:
            new = smaller(attention.f.output, attention.after), smaller(mlp.f.down, mlp.after)
            known[shared] = eqx.tree_at(lambda b: (b.attention.f.output, b.mlp.f.down), block, new)
        return known[shared]

    return eqx.tree_at(lambda m: m.blocks, model, tuple(damped(block) for block in model.blocks))
