"""Models before training."""

import numpy as np

from tokenfield import _checks as check
from tokenfield.transformer.architecture import NORMS, Architecture
from tokenfield.transformer.block import Block, F, Sublayer
from tokenfield.transformer.embedding import Embedding, Head
from tokenfield.transformer.heads import Heads
from tokenfield.transformer.norms import Norm
from tokenfield.transformer.parts import Affine, FeedForward
from tokenfield.transformer.positions import POSITIONS, AbstractPositions, Learned, NoPositions, Rotary

SCALE = 0.02
"""The standard deviation of weights before training  [radford2019]."""


def randomly(of: Architecture, seed: int) -> tuple[Embedding, tuple[Block, ...], Norm | None, Head]:
    """The parts of a model with random weights: N(0, 0.02²), those that write to the residual stream smaller by √(2L).

    **Arguments**

    - `of`: the architecture.
    - `seed`: the seed of the random numbers.

    **Returns** embedding, blocks, last norm and head.
    """
    check.room(3 * 4 * of.numbers, "The weights of the model")
    rng = np.random.default_rng(seed)
    added, inside = positions_of(of, rng)
    words = (SCALE * rng.standard_normal((of.vocabulary, of.d))).astype(np.float32)
    blocks: list[Block] = []
    for k in range(of.layers):
        blocks.append(blocks[0] if of.shared and k else block_of(of, k, inside, rng))
    head = Head(None if of.tied else (SCALE * rng.standard_normal((of.vocabulary, of.d))).astype(np.float32))
    last = None if of.normalization.places(of.layers - 1).after else norm_of(of)
    return Embedding(words, added), tuple(blocks), last, head


def positions_of(of: Architecture, rng: np.random.Generator) -> tuple[AbstractPositions, AbstractPositions]:
    """What positions add to embedded tokens, and what they do inside attention."""
    if of.positions == "learned":
        return Learned((SCALE * rng.standard_normal((of.context, of.d))).astype(np.float32)), NoPositions()
    kind = Rotary(of.rotary_base) if of.positions == "rotary" else POSITIONS[of.positions]()
    return (kind, NoPositions()) if of.positions == "sinusoidal" else (NoPositions(), kind)


def norm_of(of: Architecture) -> Norm:
    return Norm.fresh(of.d, eps=of.eps, centre=NORMS[of.norm], bias=of.bias and of.norm == "layer")


def block_of(of: Architecture, k: int, positions: AbstractPositions, rng: np.random.Generator) -> Block:
    """Block k with random weights."""
    back = SCALE / (2 * of.layers) ** 0.5
    affine = lambda out, into, scale=SCALE: Affine.random(rng, out, into, scale=scale, bias=of.bias)
    wide, narrow = of.heads * of.head_size, of.groups * of.head_size
    heads = Heads(
        query=affine(wide, of.d),
        key=affine(narrow, of.d),
        value=affine(narrow, of.d),
        output=affine(of.d, wide, back),
        kernel=of.attention,
        positions=positions,
        heads=of.heads,
        groups=of.groups,
        causal=of.causal,
        window=of.window,
    )
    heads.check()
    gate = affine(of.hidden, of.d) if of.gated else None
    mlp = FeedForward(affine(of.hidden, of.d), affine(of.d, of.hidden, back), gate, of.activation)
    return Block(placed(of, k, heads), placed(of, k, mlp))


def placed(of: Architecture, k: int, f: F) -> Sublayer[F]:
    """A sublayer of block k, with norms of its own where the scheme puts them."""
    places = of.normalization.places(k)
    put = lambda here: norm_of(of) if here else None
    scale = None if places.scale is None else np.asarray(places.scale, np.float32)
    return Sublayer(f, put(places.before), put(places.inside), put(places.after), scale)
