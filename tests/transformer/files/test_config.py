"""Every field of a config is used, known to change nothing, or refused. The walk goes over transformers' own classes."""

import dataclasses
import zlib
from functools import cache, partial

import jax
import numpy as np
import pytest

from tests.transformer.files.oracle import CONFIGS, SMALL
from tokenfield.errors import InputError
from tokenfield.transformer.files.config import IRRELEVANT, PLAIN, Config, reason
from tokenfield.transformer.files.families import FAMILIES
from tokenfield.transformer.files.families.plan import Plan, Taken
from tokenfield.transformer.files.families.rotation import FACTORS
from tokenfield.transformer.files.folders import planned
from tokenfield.transformer.files.tensors import Tensor

OTHER = {
    "hidden_act": "relu",
    "activation_function": "relu",
    "head_dim": 6,
    "num_key_value_heads": 1,
    "n_inner": 44,
    "num_hidden_groups": 2,
    "inner_group_num": 2,
    "rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0},
    "position_embedding_type": "relative_key",
    "per_layer_config": {"0": {"num_attention_heads": 2}},
    "pruned_heads": {"0": [1]},
    "quantization_config": {"quant_method": "awq"},
    "rope_scaling": {"type": "linear", "factor": 2.0},
    "partial_rotary_factor": 0.5,
    "rope_theta": 500.0,
    "sliding_window": 16,
    "cross_attention_hidden_size": 32,
}
"""Another value of a field, where it is no number, flag or size that could be doubled."""


def fields_of(family: str) -> dict:
    """All fields that the class of transformers has, by name, and those that files of earlier versions have."""
    config = CONFIGS[family](**SMALL[family])
    fields = {**{field.name: getattr(config, field.name) for field in dataclasses.fields(config)}, **config.to_dict()}
    return {name: value for name, value in fields.items() if name not in ("dtype", "_attn_implementation_internal")}


def plan_of(family: str, fields: dict) -> Plan | str:
    """The plan that these fields make, or the refusal."""
    try:
        return planned(FAMILIES[family], Config(fields, "config.json"))
    except InputError as error:
        return f"refused: {error}"


def about(plan: Plan) -> tuple:
    """Sizes, kinds and tensors."""
    of = {**vars(plan.architecture), "normalization": "", "attention": str(plan.architecture.attention)}
    return of, plan.shapes, plan.head, plan.loose


@cache
def usual(family: str) -> object:
    """What is computed with the fields of a small model."""
    return outcome(family, fields_of(family))


def outcome(family: str, fields: dict) -> object:
    """All that is computed with these fields: sizes and kinds, and the parts of a model, numbers included; or the refusal."""
    plan = plan_of(family, fields)
    if isinstance(plan, str):
        return plan
    loose = {} if plan.architecture.tied else plan.loose
    shapes = {**plan.shapes, **plan.head, **{name: shape for name, shape in loose.items() if name != FACTORS}}
    weights = {name: Tensor(shape, 0, partial(numbers, name, shape)) for name, shape in shapes.items()}
    leaves, tree = jax.tree.flatten(plan.parts(Taken(weights, "float32")))
    return about(plan), tree, [(np.shape(leaf), float(np.sum(leaf))) for leaf in leaves]


def numbers(name: str, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(zlib.crc32(name.encode())).random(shape, np.float32)


def another(name: str, value: object) -> object:
    if name in OTHER:
        return OTHER[name]
    if isinstance(value, bool):
        return not value
    if value is None:
        return 7
    return value * 2 if isinstance(value, int | float) else f"another {value}"


WALK = [(family, name) for family in CONFIGS for name in fields_of(family)]
EXTRA = ["rope_scaling", "rope_theta", "partial_rotary_factor", "position_embedding_type", *PLAIN]


@pytest.mark.parametrize("family", CONFIGS)
def test_the_fields_of_transformers_are_accepted(family):
    """As its classes have them, at the sizes of a small model, and at those that a file may leave out: its defaults are ours."""
    assert not isinstance(usual(family), str), usual(family)
    assert about(plan_of(family, {"model_type": family})) == about(plan_of(family, CONFIGS[family]().to_dict()))


@pytest.mark.parametrize(("family", "name"), WALK, ids=[f"{family}-{name}" for family, name in WALK])
def test_a_field_is_used_irrelevant_or_refused(family, name):
    fields = fields_of(family)
    before, after = usual(family), outcome(family, {**fields, name: another(name, fields[name])})
    if reason(name) is not None:
        assert after == before, f"{name} is said to be {reason(name)}"
    else:
        assert after != before, f"{name} is neither irrelevant nor does it change anything"


@pytest.mark.parametrize("family", CONFIGS)
@pytest.mark.parametrize("name", EXTRA)
def test_fields_of_earlier_files(family, name):
    fields = fields_of(family)
    fields.pop("rope_parameters", None)
    assert outcome(family, {**fields, name: OTHER.get(name, True)}) != outcome(family, fields)


@pytest.mark.parametrize("family", CONFIGS)
def test_a_field_that_nobody_knows_is_refused(family):
    said = outcome(family, {**fields_of(family), "use_secret_sauce": True})
    assert "`use_secret_sauce` is not known here and may change what the model computes, but is True" in said


def test_reasons_are_one_per_field():
    names = [name for names in IRRELEVANT.values() for name in names]
    assert len(names) == len(set(names)) and not set(names) & set(PLAIN)


REFUSED = {
    "a kind of rotary positions": (
        "llama",
        {"rope_parameters": {"rope_type": "yarn", "factor": 2.0}},
        "the kind 'yarn'; known are",
    ),
    "a field of rotary positions": (
        "llama",
        {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "beta": 1}},
        "'beta'",
    ),
    "two kinds of rotary positions": ("llama", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "say the same"),
    "no factor": ("llama", {"rope_parameters": {"rope_type": "linear"}}, "must hold a positive number `factor`"),
    "an activation": (
        "bert",
        {"hidden_act": "mish"},
        "`hidden_act` names a kind that is not built here, but is 'mish'",
    ),
    "a decoder": ("bert", {"is_decoder": True}, "`is_decoder` is accepted only as false"),
    "heads that do not divide": ("bert", {"num_attention_heads": 5}, "multiple of `heads`"),
    "groups that do not divide": ("llama", {"num_key_value_heads": 3}, "multiple of `groups`"),
    "a size that is none": ("gpt2", {"n_layer": 2.5}, "`n_layer` must be a whole number from 1"),
    "a size that is a flag": ("gpt2", {"n_layer": True}, "`n_layer` must be a whole number from 1"),
    "more layers than there can be": ("bert", {"num_hidden_layers": 10**9}, "from 1 to 4096"),
    "a negative ε": ("albert", {"layer_norm_eps": -1.0}, "`layer_norm_eps` must be a positive number"),
    "a flag that is none": ("gpt2", {"tie_word_embeddings": "yes"}, "must be true or false"),
    "odd heads": ("llama", {"head_dim": 5}, "an even number of dimensions"),
    "two contexts": ("gpt2", {"n_ctx": 7}, "`n_ctx` is accepted only as 40"),
    "relative positions": ("albert", {"position_embedding_type": "relative_key_query"}, "only as 'absolute'"),
    "quantized weights": (
        "llama",
        {"quantization_config": {"bits": 4}},
        "`quantization_config` is accepted only as null",
    ),
    "experiments of ALBERT": ("albert", {"num_memory_blocks": 2}, "`num_memory_blocks` is accepted only as 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_built_is_refused(case):
    family, change, said = REFUSED[case]
    assert said in outcome(family, {**fields_of(family), **change})
