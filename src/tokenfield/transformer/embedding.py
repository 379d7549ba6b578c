"""The two ends of a model: from tokens' numbers to points, and from points to the logits of tokens."""

import equinox as eqx
from jaxtyping import Array, Float, Int

from tokenfield._types import AnyArray
from tokenfield.transformer.norms import Norm, normed
from tokenfield.transformer.parts import ACTIVATIONS, Affine
from tokenfield.transformer.positions import AbstractPositions


class Embedding(eqx.Module):
    """Rows of a table, positions, a segment's vector, a norm, and a projection: those that the model has.

    **Arguments**

    - `words`: the table, one row per token of the vocabulary.
    - `positions`: what is added by positions.
    - `segment`: what is added to every token (BERT's embedding of the first segment).
    - `norm`, `projection`: what follows.
    """

    words: Float[AnyArray, "vocabulary e"]
    positions: AbstractPositions
    segment: Float[AnyArray, " e"] | None = None
    norm: Norm | None = None
    projection: Affine | None = None

    def __call__(self, ids: Int[Array, " n"], σ: Float[Array, " n"]) -> Float[Array, "n d"]:
        x = self.words[ids]
        x = x if self.segment is None else x + self.segment
        x = normed(self.norm, self.positions.add(x, σ))
        return x if self.projection is None else self.projection(x)


class Head(eqx.Module):
    """From points to logits: a transform with its activation and norm, where there is one, then the table.

    **Arguments**

    - `table`: one row per token of the vocabulary; left out, the embedding's own.
    - `bias`: one number per token.
    - `transform`, `activation`, `norm`: what comes before (BERT and ALBERT have it).
    """

    table: Float[AnyArray, "vocabulary e"] | None = None
    bias: Float[AnyArray, " vocabulary"] | None = None
    transform: Affine | None = None
    norm: Norm | None = None
    activation: str = eqx.field(static=True, default="gelu")

    def __call__(self, x: Float[Array, "*n d"], words: Float[Array, "vocabulary e"]) -> Float[Array, "*n vocabulary"]:
        if self.transform is not None:
            x = normed(self.norm, ACTIVATIONS[self.activation](self.transform(x)))
        logits = x @ (words if self.table is None else self.table).T
        return logits if self.bias is None else logits + self.bias
