"""A block: attention, then a feed-forward part, each with its residual, and norms where the scheme puts them."""

from typing import Any, Generic, TypeVar

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from tokenfield._types import AnyArray
from tokenfield.normalization.base import Places
from tokenfield.transformer.heads import Heads, Seen
from tokenfield.transformer.norms import Norm, normed
from tokenfield.transformer.parts import FeedForward

F = TypeVar("F", Heads, FeedForward)


class Sublayer(eqx.Module, Generic[F]):
    """x ↦ after(x + scale · inside(f(before(x)))).

    **Arguments**

    - `f`: attention, or a feed-forward part.
    - `before`, `inside`, `after`: norms, where the scheme puts them.
    - `scale`: a factor; 1 when left out.
    """

    f: F
    before: Norm | None = None
    inside: Norm | None = None
    after: Norm | None = None
    scale: Float[AnyArray, ""] | None = None

    def add(self, x: Float[Array, "n d"], y: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """What the sublayer makes of x, given y = f(before(x))."""
        y = normed(self.inside, y)
        return normed(self.after, x + (y if self.scale is None else self.scale * y))

    @property
    def norm(self) -> Norm | None:
        """The norm of the sublayer, wherever it stands."""
        return next((norm for norm in (self.before, self.after, self.inside) if norm is not None), None)

    def arranged(self, places: Places, fresh: Norm, dtype: Any) -> "Sublayer[F]":
        """The same with norms elsewhere: the one it has, or a fresh one, in each of the places."""
        norm = self.norm or fresh
        put = lambda here: norm if here else None
        scale = None if places.scale is None else np.asarray(places.scale, dtype)
        return Sublayer(self.f, put(places.before), put(places.inside), put(places.after), scale)


class Block(eqx.Module):
    r"""$x \mapsto x + \mathrm{Att}(x)$, then $x \mapsto x + \mathrm{MLP}(x)$, with norms where the scheme puts them.

    **Arguments**

    - `attention`, `mlp`: its two sublayers.
    """

    attention: Sublayer[Heads]
    mlp: Sublayer[FeedForward]

    def arranged(self, places: Places, fresh: Norm, dtype: Any) -> "Block":
        """The same with norms elsewhere."""
        return Block(self.attention.arranged(places, fresh, dtype), self.mlp.arranged(places, fresh, dtype))

    def see(self, x: Float[Array, "n d"], τ: Float[Array, " n"], w: Float[Array, " n"]) -> Seen:
        """What the block's attention sees of tokens x at positions τ, with weights w."""
        return self.attention.f.see(normed(self.attention.before, x), τ, w)

    def half(self, x: Float[Array, "m d"], σ: Float[Array, " m"], seen: Seen) -> Float[Array, "m d"]:
        """Points after attention, before the feed-forward part."""
        return self.attention.add(x, self.attention.f(normed(self.attention.before, x), σ, seen))

    def rest(self, x: Float[Array, "m d"]) -> Float[Array, "m d"]:
        """Points after the feed-forward part, given those after attention."""
        return self.mlp.add(x, self.mlp.f(normed(self.mlp.before, x)))

    def __call__(self, x: Float[Array, "m d"], σ: Float[Array, " m"], seen: Seen) -> Float[Array, "m d"]:
        """Points x at positions σ after the block, among the tokens that are seen."""
        return self.rest(self.half(x, σ, seen))

    def matrices(self, x: Float[Array, "m d"], σ: Float[Array, " m"], seen: Seen) -> Float[Array, "h m n"]:
        """The attention matrices of the heads."""
        return self.attention.f.matrices(normed(self.attention.before, x), σ, seen)

    def scores(self, x: Float[Array, "m d"], σ: Float[Array, " m"], seen: Seen) -> Float[Array, "h m n"]:
        """β<q, k> of the heads."""
        return self.attention.f.scores(normed(self.attention.before, x), σ, seen)
