"""GPT-2  [radford2019]: causal, Pre-LN, learned positions; projections are stored transposed, and queries, keys, values in one."""

import numpy as np

from tokenfield import _checks as check
from tokenfield.attention import Softmax
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
    norm_shapes,
    table_of,
    united,
)
from tokenfield.transformer.heads import Heads
from tokenfield.transformer.parts import Affine, FeedForward
from tokenfield.transformer.positions import Learned, NoPositions

LEFT = (
    "h.*.attn.bias",
    "h.*.attn.masked_bias",
    "score.weight",
    "classifier.*",
    "qa_outputs.*",
    "multiple_choice_head.*",
)


def plan(config: Config) -> Plan:
    """What a config of a GPT-2 asks for.

    **Arguments**

    - `config`: its fields.

    **Returns** the plan.

    **Raises** `InputError` where a field asks for what is not built here.
    """
    heads, d = config.whole("n_head", 12), config.whole("n_embd", 768)
    context = config.whole("n_positions", 1024)
    config.only("n_ctx", context)
    β = (max(d // heads, 1)) ** -0.5 if config.flag("scale_attn_weights", True) else 1.0
    of = Architecture(
        vocabulary=config.whole("vocab_size", 50257),
        context=context,
        d=d,
        layers=config.whole("n_layer", 12, most=LAYERS),
        heads=heads,
        hidden=config.maybe("n_inner"),
        attention=Softmax(beta=β),
        activation=config.one_of("activation_function", "gelu_new", ACTIVATIONS),
        eps=config.number("layer_norm_epsilon", 1e-5),
        tied=config.flag("tie_word_embeddings", True),
    )
    falling = config.flag("scale_attn_by_inverse_layer_idx", False)
    βs = [β / (k + 1) if falling else β for k in range(of.layers)]

    def parts(take: Taken) -> Parts:
        embedding = Embedding(take("wte.weight"), Learned(take("wpe.weight")))
        blocks = tuple(_block(of, take, f"h.{k}", β) for k, β in enumerate(βs))
        head = (
            Head(table_of(take, "lm_head.weight", "wte.weight", of.tied))
            if of.tied or "lm_head.weight" in take
            else None
        )
        return embedding, blocks, take.norm("ln_f", of.eps), head

    shapes = united(
        [
            {"wte.weight": (of.vocabulary, d), "wpe.weight": (context, d)},
            *(_shapes(of, f"h.{k}") for k in range(of.layers)),
            norm_shapes("ln_f", d),
        ]
    )
    return Plan(of, shapes, parts, loose={"lm_head.weight": (of.vocabulary, d)}, left=LEFT)


def _shapes(of: Architecture, name: str) -> Shapes:
    sizes = {"attn.c_attn": (of.d, 3 * of.d), "attn.c_proj": (of.d, of.d)}
    sizes |= {"mlp.c_fc": (of.d, of.hidden), "mlp.c_proj": (of.hidden, of.d)}
    projections = [{f"{name}.{p}.weight": size, f"{name}.{p}.bias": size[1:]} for p, size in sizes.items()]
    return united([*projections, norm_shapes(f"{name}.ln_1", of.d), norm_shapes(f"{name}.ln_2", of.d)])


def _block(of: Architecture, take: Taken, name: str, β: float) -> Block:
    heads = Heads(
        *_projections(take, f"{name}.attn.c_attn", 3),
        *_projections(take, f"{name}.attn.c_proj", 1),
        kernel=as_dtype(Softmax(beta=β), take.dtype),
        positions=NoPositions(),
        heads=of.heads,
        groups=of.heads,
        causal=True,
    )
    up, down = (_projections(take, f"{name}.mlp.{part}", 1)[0] for part in ("c_fc", "c_proj"))
    attention = Sublayer(heads, before=take.norm(f"{name}.ln_1", of.eps))
    return Block(
        attention, Sublayer(FeedForward(up, down, None, of.activation), before=take.norm(f"{name}.ln_2", of.eps))
    )


def _projections(take: Taken, name: str, count: int) -> list[Affine]:
    """x ↦ xW + b, as it is stored, in several parts along its outputs."""
    W, b = take.host(f"{name}.weight").T, take.host(f"{name}.bias")
    put = lambda array: check.on_device(np.ascontiguousarray(array))
    return [Affine(put(W), put(b)) for W, b in zip(np.split(W, count), np.split(b, count), strict=True)]
