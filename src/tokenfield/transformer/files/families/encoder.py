"""What BERT and ALBERT share: the embedding, Post-LN layers under two sets of names, and the head that predicts masked tokens."""

from tokenfield.attention import Softmax
from tokenfield.attention.base import as_dtype
from tokenfield.transformer.architecture import Architecture
from tokenfield.transformer.block import Block, Sublayer
from tokenfield.transformer.embedding import Embedding, Head
from tokenfield.transformer.files.config import LAYERS, Config
from tokenfield.transformer.files.families.plan import (
    ACTIVATIONS,
    Shapes,
    Taken,
    affine_shapes,
    norm_shapes,
    table_of,
    united,
)
from tokenfield.transformer.heads import Heads
from tokenfield.transformer.parts import Affine, FeedForward
from tokenfield.transformer.positions import Learned, NoPositions

WORDS = "embeddings.word_embeddings.weight"
LEFT = ("embeddings.position_ids", "embeddings.token_type_ids", "pooler.*", "classifier.*", "qa_outputs.*")
"""What is left alone: buffers, the pooler, and heads of other tasks."""


def architecture(config: Config, *, defaults: dict[str, int], activation: str, repeats: int = 1) -> Architecture:
    """Sizes and kinds, from the fields that both families have.

    **Arguments**

    - `config`: the fields.
    - `defaults`: of the sizes that a file may leave out.
    - `activation`: that of σ.
    - `repeats`: how many blocks a layer has.

    **Returns** the architecture, without shared blocks.
    """
    size = lambda name, **most: config.whole(name, defaults[name], **most)
    config.only("position_embedding_type", "absolute")
    return Architecture(
        vocabulary=size("vocab_size"),
        context=size("max_position_embeddings"),
        d=size("hidden_size"),
        layers=size("num_hidden_layers", most=LAYERS) * repeats,
        heads=size("num_attention_heads"),
        hidden=size("intermediate_size"),
        activation=config.one_of("hidden_act", activation, ACTIVATIONS),
        eps=config.number("layer_norm_eps", 1e-12),
        normalization="post_ln",
        causal=False,
        tied=config.flag("tie_word_embeddings", True),
    )


def embedding_shapes(of: Architecture, e: int, segments: int) -> Shapes:
    """The tensors of the embedding."""
    return {
        WORDS: (of.vocabulary, e),
        "embeddings.position_embeddings.weight": (of.context, e),
        "embeddings.token_type_embeddings.weight": (segments, e),
        **norm_shapes("embeddings.LayerNorm", e),
    }


def embedding(of: Architecture, take: Taken, projection: Affine | None = None) -> Embedding:
    """The embedding; all tokens are of the first segment."""
    return Embedding(
        words=take(WORDS),
        positions=Learned(take("embeddings.position_embeddings.weight")),
        segment=take("embeddings.token_type_embeddings.weight")[0],
        norm=take.norm("embeddings.LayerNorm", of.eps),
        projection=projection,
    )


BERT_NAMES = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "output": "attention.output.dense",
    "norm": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "last": "output.LayerNorm",
}
ALBERT_NAMES = {
    "query": "attention.query",
    "key": "attention.key",
    "value": "attention.value",
    "output": "attention.dense",
    "norm": "attention.LayerNorm",
    "up": "ffn",
    "down": "ffn_output",
    "last": "full_layer_layer_norm",
}
"""What the parts of a layer are called."""


def layer_shapes(of: Architecture, prefix: str, names: dict[str, str]) -> Shapes:
    """The tensors of a layer."""
    sizes = {"up": (of.hidden, of.d), "down": (of.d, of.hidden)}
    return united(
        norm_shapes(f"{prefix}.{name}", of.d)
        if part in ("norm", "last")
        else affine_shapes(f"{prefix}.{name}", *sizes.get(part, (of.d, of.d)))
        for part, name in names.items()
    )


def layer(of: Architecture, take: Taken, prefix: str, names: dict[str, str]) -> Block:
    """A layer: attention and feed-forward part, each followed by its norm."""
    part = {key: f"{prefix}.{name}" for key, name in names.items()}
    heads = Heads(
        *(take.affine(part[key]) for key in ("query", "key", "value", "output")),
        kernel=as_dtype(Softmax(beta=of.head_size**-0.5), take.dtype),
        positions=NoPositions(),
        heads=of.heads,
        groups=of.heads,
    )
    mlp = FeedForward(take.affine(part["up"]), take.affine(part["down"]), None, of.activation)
    attention = Sublayer(heads, after=take.norm(part["norm"], of.eps))
    return Block(attention, Sublayer(mlp, after=take.norm(part["last"], of.eps)))


def head_shapes(of: Architecture, e: int, prefix: str, transform: str) -> tuple[Shapes, Shapes]:
    """The tensors of the head, and those that may be there."""
    must = {
        **affine_shapes(f"{prefix}.{transform}dense", e, of.d),
        **norm_shapes(f"{prefix}.{transform}LayerNorm", e),
        f"{prefix}.bias": (of.vocabulary,),
    }
    return must, affine_shapes(f"{prefix}.decoder", of.vocabulary, e)


def head(of: Architecture, take: Taken, prefix: str, transform: str) -> Head | None:
    """The head that predicts masked tokens, where its tensors are."""
    if f"{prefix}.bias" not in take:
        return None
    own = not of.tied and f"{prefix}.decoder.bias" in take
    return Head(
        table=table_of(take, f"{prefix}.decoder.weight", WORDS, of.tied),
        bias=take(f"{prefix}.decoder.bias" if own else f"{prefix}.bias"),
        transform=take.affine(f"{prefix}.{transform}dense"),
        norm=take.norm(f"{prefix}.{transform}LayerNorm", of.eps),
        activation=of.activation,
    )
