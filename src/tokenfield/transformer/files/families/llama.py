"""LLaMA  [touvron2023]: causal, Pre-LN with RMSNorm, rotary positions, a gated feed-forward part, heads that share keys."""

from tokenfield.attention.base import as_dtype
from tokenfield.transformer.architecture import Architecture
from tokenfield.transformer.block import Block, Sublayer
from tokenfield.transformer.embedding import Embedding, Head
from tokenfield.transformer.files.config import LAYERS, Config
from tokenfield.transformer.files.families.plan import (
    ACTIVATIONS,
    Parts,
    Plan,
    Shapes,
    Taken,
    affine_shapes,
    norm_shapes,
    table_of,
    united,
)
from tokenfield.transformer.files.families.rotation import FACTORS, rotary, slowed
from tokenfield.transformer.heads import Heads
from tokenfield.transformer.parts import FeedForward
from tokenfield.transformer.positions import NoPositions, Rotary

WORDS = "embed_tokens.weight"
LEFT = ("*rotary_emb.inv_freq", "score.weight", "qa_outputs.*")


def plan(config: Config) -> Plan:
    """What a config of a LLaMA asks for.

    **Arguments**

    - `config`: its fields.

    **Returns** the plan.

    **Raises** `InputError` where a field asks for what is not built here.
    """
    heads, d = config.whole("num_attention_heads", 32), config.whole("hidden_size", 4096)
    size = config.maybe("head_dim") or d // heads
    if size < 2 or size % 2:
        raise config.refusal("head_dim", f"must make heads of an even number of dimensions, not {size}")
    attention_bias, mlp_bias = config.flag("attention_bias", False), config.flag("mlp_bias", False)
    of = Architecture(
        vocabulary=config.whole("vocab_size", 32000),
        context=config.whole("max_position_embeddings", 2048),
        d=d,
        layers=config.whole("num_hidden_layers", 32, most=LAYERS),
        heads=heads,
        groups=config.maybe("num_key_value_heads"),
        head_size=size,
        hidden=config.whole("intermediate_size", 11008),
        norm="rms",
        eps=config.number("rms_norm_eps", 1e-6),
        positions="rotary",
        activation=config.one_of("hidden_act", "silu", ACTIVATIONS),
        gated=True,
        bias=attention_bias and mlp_bias,
        tied=config.flag("tie_word_embeddings", False),
    )
    turning = rotary(config, size, of.context)
    of = of.with_(rotary_base=turning.base)

    def parts(take: Taken) -> Parts:
        turn = turning if FACTORS not in take else slowed(turning, take.host(FACTORS))
        blocks = tuple(_block(of, take, f"layers.{k}", turn, attention_bias, mlp_bias) for k in range(of.layers))
        head = Head(table_of(take, "lm_head.weight", WORDS, of.tied)) if of.tied or "lm_head.weight" in take else None
        return Embedding(take(WORDS), NoPositions()), blocks, take.norm("norm", of.eps, centre=False), head

    shapes = united(
        [
            {WORDS: (of.vocabulary, d)},
            *(_shapes(of, f"layers.{k}", attention_bias, mlp_bias) for k in range(of.layers)),
            norm_shapes("norm", d, centre=False),
        ]
    )
    loose = {"lm_head.weight": (of.vocabulary, d), FACTORS: (size // 2,)}
    return Plan(of, shapes, parts, loose=loose, left=LEFT)


def _shapes(of: Architecture, name: str, attention_bias: bool, mlp_bias: bool) -> Shapes:
    wide, narrow = of.heads * of.head_size, of.groups * of.head_size
    attention = {"q_proj": (wide, of.d), "k_proj": (narrow, of.d), "v_proj": (narrow, of.d), "o_proj": (of.d, wide)}
    mlp = {"gate_proj": (of.hidden, of.d), "up_proj": (of.hidden, of.d), "down_proj": (of.d, of.hidden)}
    return united(
        [
            *(
                affine_shapes(f"{name}.self_attn.{part}", *size, bias=attention_bias)
                for part, size in attention.items()
            ),
            *(affine_shapes(f"{name}.mlp.{part}", *size, bias=mlp_bias) for part, size in mlp.items()),
            *(
                norm_shapes(f"{name}.{part}", of.d, centre=False)
                for part in ("input_layernorm", "post_attention_layernorm")
            ),
        ]
    )


def _block(of: Architecture, take: Taken, name: str, turn: Rotary, attention_bias: bool, mlp_bias: bool) -> Block:
    heads = Heads(
        *(take.affine(f"{name}.self_attn.{part}_proj", bias=attention_bias) for part in "qkvo"),
        kernel=as_dtype(of.attention, take.dtype),
        positions=turn,
        heads=of.heads,
        groups=of.groups,
        causal=True,
    )
    up, down, gate = (take.affine(f"{name}.mlp.{part}_proj", bias=mlp_bias) for part in ("up", "down", "gate"))
    attention = Sublayer(heads, before=take.norm(f"{name}.input_layernorm", of.eps, centre=False))
    norm = take.norm(f"{name}.post_attention_layernorm", of.eps, centre=False)
    return Block(attention, Sublayer(FeedForward(up, down, gate, of.activation), before=norm))
