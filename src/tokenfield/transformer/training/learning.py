"""One step of training as one compiled program: loss, gradient, AdamW."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tokenfield import _checks as check
from tokenfield._compile import compiled
from tokenfield._types import AnyArray
from tokenfield.errors import InputError
from tokenfield.transformer.model import Transformer
from tokenfield.transformer.norms import normed
from tokenfield.transformer.training.objectives import Batch

ROWS = 32
"""Windows that are validated at a time."""


class Recipe(NamedTuple):
    """The numbers of AdamW  [loshchilov2019], in the precision of the weights: the factors of its two means, decay, and the longest
    gradient."""

    b1: Any
    b2: Any
    decay: Any
    clip: Any


class Held(NamedTuple):
    """A model in two: what is trained, and everything else. Blocks that share their weights are held once."""

    trained: Any
    rest: Any


def optax() -> Any:
    """The `optax` library, where it is installed."""
    try:
        import optax
    except ImportError:
        raise InputError("Training needs a library: pip install 'tokenfield[models]'.") from None
    return optax


def held(model: Transformer) -> Held:
    """The parts of a model, its weights apart: all arrays that are not parameters of the kernel, nor single numbers.

    **Arguments**

    - `model`: the model.

    **Returns** weights, which are copies, and the rest.
    """
    blocks = model.blocks[:1] if model.architecture.shared else model.blocks
    parts = (model.embedding, blocks, model.norm, model.head)
    of_kernel = lambda path: any(getattr(key, "name", None) == "kernel" for key in path)
    weight = lambda path, leaf: eqx.is_inexact_array(leaf) and leaf.ndim > 0 and not of_kernel(path)
    trained, rest = eqx.partition(parts, jax.tree_util.tree_map_with_path(weight, parts))
    return Held(on_device(trained), rest)


def on_device(weights: Any) -> Any:
    """Copies of arrays that a program may take the memory of."""
    return jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), weights)


def joined(model: Transformer, weights: Any, rest: Any) -> Transformer:
    """The model with other weights."""
    embedding, blocks, norm, head = eqx.combine(jax.tree.map(check.on_device, weights), rest)
    blocks = blocks * model.depth if model.architecture.shared else blocks
    return eqx.tree_at(
        lambda m: (m.embedding, m.blocks, m.norm, m.head),
        model,
        (embedding, blocks, norm, head),
        is_leaf=lambda leaf: leaf is None,
    )


def surprises(
    weights: Any, rest: Any, depth: int, seen: Int[AnyArray, "b n"], asked: Int[AnyArray, "b n"]
) -> Float[Array, "b n"]:
    """-log p of the tokens that are asked for, at every place.

    **Arguments**

    - `weights`, `rest`: the model.
    - `depth`: how many blocks it has.
    - `seen`, `asked`: what it sees, and what it is to predict.

    **Returns** nats.
    """
    embedding, blocks, norm, head = eqx.combine(weights, rest)
    σ = jnp.arange(seen.shape[1], dtype=embedding.words.dtype)
    w = jnp.ones_like(σ)
    x = jax.vmap(lambda ids: embedding(ids, σ))(seen)
    for k in range(depth):
        block = blocks[k % len(blocks)]
        x = jax.vmap(lambda x, block=block: block(x, σ, block.see(x, σ, w)))(x)
    logits = head(normed(norm, x).reshape(-1, x.shape[-1]), embedding.words)
    right = jnp.take_along_axis(logits, asked.reshape(-1, 1), axis=-1)[:, 0]
    return (jax.nn.logsumexp(logits, axis=-1) - right).reshape(asked.shape)


def loss(weights: Any, rest: Any, depth: int, batch: Any) -> Float[Array, ""]:
    """The mean of -log p over the places that count, in nats."""
    seen, asked, counts = batch
    nats = surprises(weights, rest, depth, seen, asked)
    return jnp.sum(counts * nats) / jnp.sum(counts)


def optimizer(recipe: Recipe, rate: Any) -> Any:
    """AdamW behind a bound on the gradient's length; only matrices decay."""
    lib = optax()
    matrices = lambda weights: jax.tree.map(lambda leaf: leaf.ndim > 1, weights)
    return lib.chain(
        lib.clip_by_global_norm(recipe.clip),
        lib.scale_by_adam(recipe.b1, recipe.b2),
        lib.add_decayed_weights(recipe.decay, matrices),
        lib.scale(-rate),
    )


@compiled(donate="all-except-first")
def step(known: Any, weights: Any, memory: Any) -> tuple[Any, Any, Array, Array]:
    """One step of training.

    **Arguments**

    - `known`: the rest of the model, its depth, a batch, the recipe, and the rate.
    - `weights`, `memory`: the weights and what the optimizer remembers, whose memory the results take.

    **Returns** the next ones, the loss before the step, and the length of its gradient.
    """
    rest, depth, batch, recipe, rate = known
    value, slope = jax.value_and_grad(loss)(weights, rest, depth, batch)
    change, memory = optimizer(recipe, rate).update(slope, memory, weights)
    return optax().apply_updates(weights, change), memory, value, optax().tree.norm(slope)


@compiled
def _nats(weights: Any, rest: Any, depth: int, batch: Any) -> tuple[Array, Array]:
    seen, asked, counts = batch
    return jnp.sum(counts * surprises(weights, rest, depth, seen, asked)), jnp.sum(counts)


def validated(weights: Any, rest: Any, depth: int, batch: Batch) -> float:
    """The loss of many windows, a few at a time.

    **Arguments**

    - `weights`, `rest`, `depth`: the model.
    - `batch`: the windows.

    **Returns** nats a token.
    """
    total = count = 0.0
    for at in range(0, len(batch.seen), ROWS):
        some = [_filled(part[at : at + ROWS]) for part in batch]
        nats, counted = _nats(weights, rest, depth, tuple(some))
        total, count = total + float(nats), count + float(counted)
    return total / count


def _filled(rows: np.ndarray) -> np.ndarray:
    """Rows filled up with zeros, which count nothing, so that all programs are one."""
    return np.concatenate([rows, np.zeros((ROWS - len(rows), rows.shape[1]), rows.dtype)])


def rates(steps: int, warmup: int, rate: float) -> np.ndarray:
    """The learning rate of every step: it rises in proportion for `warmup` steps, then falls along a cosine to a tenth.

    **Arguments**

    - `steps`, `warmup`: how many steps there are, and how many of them are for warming up.
    - `rate`: the largest.

    **Returns** one number per step.
    """
    warmup = min(warmup, steps - 1)
    schedule = optax().warmup_cosine_decay_schedule(rate / max(warmup, 1), rate, warmup, max(steps, 1), rate / 10)
    return np.asarray(jax.vmap(schedule)(jnp.arange(steps)), np.float64)
