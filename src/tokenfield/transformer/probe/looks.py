"""What is looked at while a text passes through a model: states, attention matrices, scores, and what attention adds."""

from collections.abc import Iterator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from tokenfield._compile import compiled, make_room
from tokenfield._types import AnyArray
from tokenfield.transformer.block import Block
from tokenfield.transformer.model import Transformer
from tokenfield.transformer.norms import normed


class Look(NamedTuple):
    """One block at its tokens x.

    - `read`: what attention reads: x, or its norm where that stands before attention.
    - `added`: what attention adds to x.
    - `P`: the attention matrices of the heads.
    - `S`: their scores β<q_i, k_j>, without masks and biases.
    - `O`: the overlaps <θ_i, θ_j> of what attention reads.
    """

    read: Float[np.ndarray, "n d"]
    added: Float[np.ndarray, "n d"]
    P: Float[np.ndarray, "heads n n"]
    S: Float[np.ndarray, "heads n n"]
    O: Float[np.ndarray, "n n"]

    def among(self, keep: Bool[np.ndarray, " n"]) -> "Look":
        """The same of some tokens alone."""
        pairs = np.ix_(keep, keep)
        return Look(self.read[keep], self.added[keep], self.P[:, *pairs], self.S[:, *pairs], self.O[pairs])


def looks(model: Transformer, states: Float[np.ndarray, "L n d"]) -> Iterator[Look]:
    """A look at every block, one after another, in double precision on the host.

    **Arguments**

    - `model`: the model.
    - `states`: the tokens before every block (and after the last, which is left out).

    **Returns** the looks.
    """
    make_room()
    for block, x in zip(model.blocks, states, strict=False):
        read, added, P, S = (np.asarray(part, np.float64) for part in _look(block, np.asarray(x, model.dtype)))
        yield Look(read, added, P, S, overlap_matrix(read))


def overlap_matrix(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n n"]:
    """<θ_i, θ_j>."""
    θ = directions(x)
    return np.clip(θ @ θ.T, -1, 1)


def directions(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """θ = x/|x|."""
    size = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(size > 0, size, 1.0)


@compiled
def _look(block: Block, x: Float[AnyArray, "n d"]) -> tuple[Array, ...]:
    part = block.attention
    σ, w = jnp.arange(len(x), dtype=x.dtype), jnp.ones(len(x), x.dtype)
    read = normed(part.before, x)
    seen = part.f.see(read, σ, w)
    y = normed(part.inside, part.f(read, σ, seen))
    added = y if part.scale is None else part.scale * y
    return read, added, part.f.matrices(read, σ, seen), part.f.scores(read, σ, seen)


def visible(model: Transformer, n: int) -> np.ndarray:
    """Which keys each query sees, shape (n, n).

    >>> import tokenfield as tkf
    >>> model = tkf.Transformer.random(tkf.Architecture(d=8, layers=1, heads=1, window=2))
    >>> visible(model, 3).astype(int).tolist()
    [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    """
    of = model.architecture
    behind = np.arange(n)[:, None] - np.arange(n)
    near = behind < (of.window or n)
    return near & (behind >= 0) if of.causal else np.ones((n, n), bool)
