"""BERT  [devlin2019]: Post-LN, learned positions, a norm after the embedding."""

from tokenfield.transformer.files.config import Config
from tokenfield.transformer.files.families import encoder
from tokenfield.transformer.files.families.encoder import BERT_NAMES
from tokenfield.transformer.files.families.plan import Parts, Plan, Taken, united

DEFAULTS = {
    "vocab_size": 30522,
    "max_position_embeddings": 512,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
}


def plan(config: Config) -> Plan:
    """What a config of a BERT asks for.

    **Arguments**

    - `config`: its fields.

    **Returns** the plan.

    **Raises** `InputError` where a field asks for what is not built here.
    """
    of = encoder.architecture(config, defaults=DEFAULTS, activation="gelu")
    segments = config.whole("type_vocab_size", 2)
    layers = [f"encoder.layer.{k}" for k in range(of.layers)]
    must, may = encoder.head_shapes(of, of.d, "cls.predictions", "transform.")

    def parts(take: Taken) -> Parts:
        blocks = tuple(encoder.layer(of, take, name, BERT_NAMES) for name in layers)
        return encoder.embedding(of, take), blocks, None, encoder.head(of, take, "cls.predictions", "transform.")

    shapes = united(
        [encoder.embedding_shapes(of, of.d, segments), *(encoder.layer_shapes(of, name, BERT_NAMES) for name in layers)]
    )
    return Plan(of, shapes, parts, must, may, (*encoder.LEFT, "cls.seq_relationship.*"))
