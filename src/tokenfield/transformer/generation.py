"""Text token by token: keys and values of what was said are kept."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from tokenfield._compile import compiled, make_room
from tokenfield._types import AnyArray
from tokenfield.transformer.block import Block
from tokenfield.transformer.heads import Seen
from tokenfield.transformer.norms import normed

if TYPE_CHECKING:
    from tokenfield.transformer.model import Transformer

PLACES = 64
"""Caches have places for a multiple of so many tokens, so that texts of like length share programs."""


def generated(
    model: "Transformer",
    ids: np.ndarray,
    n: int,
    temperature: float,
    seed: int,
    cache: bool,
    watch: Callable[[int], Any] | None,
) -> list[int]:
    """n more tokens after those with numbers `ids`."""
    make_room()
    rng = np.random.default_rng(seed)
    read = Cached(model, len(ids) + n) if cache else lambda ids: _whole(model, ids)
    said = ids.tolist()
    for _ in range(n):
        said.append(_drawn(np.asarray(read(said), np.float64), temperature, rng))
        if watch is not None:
            watch(said[-1])
    return said[len(ids) :]


def _drawn(logits: np.ndarray, temperature: float, rng: np.random.Generator) -> int:
    """The likeliest token, or one drawn from the softmax: the largest of logits and Gumbel noise."""
    if temperature == 0:
        return int(np.argmax(logits))
    return int(np.argmax(logits / temperature + rng.gumbel(size=logits.shape)))


def _whole(model: "Transformer", ids: list[int]) -> Array:
    """The logits of what comes next, from the whole text."""
    return model.logits(np.asarray(ids))[-1]


class Cached:
    """The same, with what earlier tokens are to attention kept from call to call."""

    def __init__(self, model: "Transformer", most: int):
        of, self.model = model.architecture, model
        self.places = -(-most // PLACES) * PLACES
        shape = (of.groups, self.places, of.head_size)
        τ = jnp.arange(self.places, dtype=model.dtype)
        empty = lambda: jnp.zeros(shape, model.dtype)  # one array each: they are given away and written to
        self.seen = [Seen(empty(), empty(), τ + 0, jnp.zeros_like(τ)) for _ in model.blocks]
        self.done = 0

    def __call__(self, ids: list[int]) -> Array:
        """The logits after tokens of which the first are known already."""
        new, start = np.asarray(ids[self.done :], np.int32), np.asarray(self.done, np.int32)
        embedding = self.model.embedding
        x = _embedded(embedding, new, start)
        for k, block in enumerate(self.model.blocks):
            x, self.seen[k] = _on(block, x, start, self.seen[k])
        self.done = len(ids)
        return _logits(self.model.norm, self.model.head, x[-1:], embedding.words)[0]


@compiled
def _embedded(embedding: Any, ids: AnyArray, start: AnyArray) -> Array:
    return embedding(ids, (start + jnp.arange(len(ids))).astype(embedding.words.dtype))


@compiled(donate="all-except-first")
def _on(block: Block, x: Array, start: AnyArray, seen: Seen) -> tuple[Array, Seen]:
    """New tokens through a block, and what it has seen then."""
    σ = (start + jnp.arange(len(x))).astype(x.dtype)
    new = block.see(x, σ, jnp.ones_like(σ))
    put = lambda old, part: lax.dynamic_update_slice_in_dim(old, part, start, axis=-2)
    w = lax.dynamic_update_slice_in_dim(seen.w, new.w, start, axis=0)
    seen = Seen(put(seen.keys, new.keys), put(seen.values, new.values), seen.τ, w)
    return block(x, σ, seen), seen


@compiled
def _logits(norm: Any, head: Any, x: Array, words: Array) -> Array:
    return head(normed(norm, x), words)
