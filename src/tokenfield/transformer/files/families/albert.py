"""ALBERT  [lan2020]: layers in groups that share their weights, and an embedding of fewer dimensions that is projected."""

from tokenfield.transformer.files.config import Config
from tokenfield.transformer.files.families import encoder
from tokenfield.transformer.files.families.encoder import ALBERT_NAMES
from tokenfield.transformer.files.families.plan import Parts, Plan, Taken, affine_shapes, united

DEFAULTS = {
    "vocab_size": 30000,
    "max_position_embeddings": 512,
    "hidden_size": 4096,
    "num_hidden_layers": 12,
    "num_attention_heads": 64,
    "intermediate_size": 16384,
}
MAPPING = "encoder.embedding_hidden_mapping_in"
LEGACY = {"down_scale_factor": 1, "gap_size": 0, "net_structure_type": 0, "num_memory_blocks": 0}
"""Fields of the first release, with the only values that models have."""


def plan(config: Config) -> Plan:
    """What a config of an ALBERT asks for.

    **Arguments**

    - `config`: its fields.

    **Returns** the plan.

    **Raises** `InputError` where a field asks for what is not built here.
    """
    inner = config.whole("inner_group_num", 1, most=64)
    of = encoder.architecture(config, defaults=DEFAULTS, activation="gelu_new", repeats=inner)
    depth = of.layers // inner
    groups = config.whole("num_hidden_groups", 1, most=depth)
    of = of.with_(shared=groups == inner == 1)
    e, segments = config.whole("embedding_size", 128), config.whole("type_vocab_size", 2)
    for name, value in LEGACY.items():
        config.only(name, value)
    name = lambda group, k: f"encoder.albert_layer_groups.{group}.albert_layers.{k}"
    every = [name(group, k) for group in range(groups) for k in range(inner)]
    order = [name(int(i / (depth / groups)), k) for i in range(depth) for k in range(inner)]
    must, may = encoder.head_shapes(of, e, "predictions", "")

    def parts(take: Taken) -> Parts:
        blocks = {name: encoder.layer(of, take, name, ALBERT_NAMES) for name in every}
        embedding = encoder.embedding(of, take, take.affine(MAPPING))
        return embedding, tuple(blocks[name] for name in order), None, encoder.head(of, take, "predictions", "")

    shapes = united(
        [
            encoder.embedding_shapes(of, e, segments),
            affine_shapes(MAPPING, of.d, e),
            *(encoder.layer_shapes(of, name, ALBERT_NAMES) for name in every),
        ]
    )
    return Plan(of, shapes, parts, must, may, (*encoder.LEFT, "sop_classifier.*"))
