"""Small random models of every family, with every option that is accepted, against transformers: all hidden states and logits."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from transformers.activations import ACT2FN

import tokenfield as tkf
from tests.transformer.files.oracle import HEADS, distance, own_states, saved, small, states
from tokenfield.transformer.files.families.plan import ACTIVATIONS
from tokenfield.transformer.parts import ACTIVATIONS as OWN

IDS = np.random.default_rng(0).integers(0, 97, 16)
LLAMA3 = dict(rope_type="llama3", rope_theta=100.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0)
OPTIONS = {
    "bert": [
        dict(),
        dict(
            hidden_act="relu",
            type_vocab_size=3,
            tie_word_embeddings=False,
            layer_norm_eps=1e-3,
            chunk_size_feed_forward=4,
            pad_token_id=None,
        ),
    ],
    "albert": [
        dict(),
        dict(num_hidden_groups=3, hidden_act="gelu", embedding_size=16, type_vocab_size=1, layer_norm_eps=1e-3),
        dict(num_hidden_groups=2, inner_group_num=2, tie_word_embeddings=False),
    ],
    "gpt2": [
        dict(),
        dict(n_inner=40, scale_attn_weights=False, activation_function="silu", tie_word_embeddings=False),
        dict(scale_attn_by_inverse_layer_idx=True, layer_norm_epsilon=1e-3),
    ],
    "llama": [
        dict(rope_parameters=dict(rope_type="default", rope_theta=500.0), pretraining_tp=2),
        dict(num_key_value_heads=None, attention_bias=True, head_dim=6, tie_word_embeddings=True),
        dict(
            num_key_value_heads=1,
            mlp_bias=True,
            hidden_act="gelu",
            rope_parameters=dict(rope_type="linear", factor=3.0),
        ),
        dict(rope_parameters=dict(**LLAMA3, original_max_position_embeddings=20), rms_norm_eps=1e-3),
    ],
}
"""Options of configs that change what is computed, several at a time, at values that are no defaults."""
CASES = [(family, k) for family, options in OPTIONS.items() for k in range(len(options))]


@pytest.mark.parametrize(("family", "k"), CASES)
def test_all_hidden_states_and_logits_in_float64(tmp_path, family, k):
    theirs = small(family, **OPTIONS[family][k]).double()
    ours = tkf.Transformer.load(saved(theirs, tmp_path), dtype="float64")
    assert distance(own_states(ours, IDS), states(theirs, IDS)) < 1e-12


@pytest.mark.parametrize("family", HEADS)
def test_all_hidden_states_and_logits_in_float32(tmp_path, family):
    options = dict(reorder_and_upcast_attn=True) if family == "gpt2" else {}
    theirs = small(family, **options)
    ours = tkf.Transformer.load(saved(theirs, tmp_path))
    assert distance(own_states(ours, IDS), states(theirs, IDS)) < 1e-5
    batch = np.stack([IDS, IDS[::-1]])
    with torch.no_grad():
        logits = theirs(torch.as_tensor(batch.copy())).logits.numpy()
    assert np.abs(np.asarray(ours.logits(batch)) - logits).max() < 1e-5 * np.abs(logits).max()


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_those_of_the_same_name(name):
    x = np.linspace(-6, 6, 241)
    ours = OWN[ACTIVATIONS[name]](jnp.asarray(x))
    assert np.abs(np.asarray(ours) - ACT2FN[name](torch.as_tensor(x)).numpy()).max() < 1e-14


@pytest.mark.parametrize("family", HEADS)
def test_a_model_without_its_head(tmp_path, family):
    """What the base class saves has other names; BERT and ALBERT have no logits then, and say so."""
    theirs = small(family, tie_word_embeddings=False).double()
    ours = tkf.Transformer.load(saved(theirs.base_model, tmp_path), dtype="float64")
    assert ours.head is None
    assert distance(own_states(ours, IDS), (states(theirs, IDS)[0], None)) < 1e-12
    with pytest.raises(tkf.errors.InputError, match="no head that predicts tokens"):
        ours.logits(IDS)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_read_exactly(tmp_path, dtype):
    half = small("llama").to(getattr(torch, dtype))
    ours = tkf.Transformer.load(saved(half, tmp_path))
    theirs = half.float()
    assert np.array_equal(ours.embedding.words, theirs.get_input_embeddings().weight.detach().numpy())
    assert np.array_equal(ours.blocks[1].mlp.f.gate.W, theirs.model.layers[1].mlp.gate_proj.weight.detach().numpy())


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_weights_in_parts(tmp_path, family):
    theirs = small(family)
    whole = tkf.Transformer.load(saved(theirs, tmp_path / "whole"))
    theirs.save_pretrained(tmp_path / "parts", max_shard_size="20KB")
    assert len(list((tmp_path / "parts").glob("model-*.safetensors"))) > 2
    assert same(whole, tkf.Transformer.load(tmp_path / "parts"))


def test_weights_of_torch(tmp_path):
    """pytorch_model.bin of both of torch's formats, and with the names that norms had in old files."""
    theirs = small("bert")
    whole = tkf.Transformer.load(saved(theirs, tmp_path))
    (tmp_path / "model.safetensors").unlink()
    found = {name.replace("LayerNorm.weight", "LayerNorm.gamma"): one for name, one in theirs.state_dict().items()}
    for zipped in (True, False):
        torch.save(found, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
        assert same(whole, tkf.Transformer.load(tmp_path))


def test_earlier_fields_of_rotary_positions(tmp_path):
    """rope_theta and rope_scaling, as files had them before rope_parameters."""
    theirs = small("llama", rope_parameters=dict(**LLAMA3, original_max_position_embeddings=20))
    new = tkf.Transformer.load(saved(theirs, tmp_path))
    config = json.loads((tmp_path / "config.json").read_text())
    scaling = config.pop("rope_parameters")
    config |= {"rope_theta": scaling.pop("rope_theta"), "rope_scaling": scaling}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert tkf.Transformer.load(tmp_path).blocks[0].attention.f.positions == new.blocks[0].attention.f.positions


def test_layers_share_their_weights(tmp_path):
    theirs = small("albert", num_hidden_groups=2)
    ours = tkf.Transformer.load(saved(theirs, tmp_path))
    assert (
        ours.blocks[0] is ours.blocks[1] and ours.blocks[2] is ours.blocks[3] and ours.blocks[1] is not ours.blocks[2]
    )
    pooled = sum(p.numel() for name, p in theirs.named_parameters() if "pooler" not in name)
    segments = ours.embedding.segment.size  # one of the two is used
    assert ours.parameters == pooled - segments


def test_another_temperature_in_every_layer(tmp_path):
    """What GPT-2's falling temperatures become under `replace`: their ratios stay."""
    ours = tkf.Transformer.load(saved(small("gpt2", scale_attn_by_inverse_layer_idx=True), tmp_path))
    βs = [float(block.attention.f.kernel.beta) for block in ours.blocks]
    assert np.allclose(βs, 8**-0.5 / np.arange(1, 4))
    for changed in (ours.replace(attention="l2"), ours.replace(beta=0.1)):
        found = [float(block.attention.f.kernel.beta) for block in changed.blocks]
        assert np.allclose(np.divide(found, found[0]), 1 / np.arange(1, 4))


def same(one: tkf.Transformer, two: tkf.Transformer) -> bool:
    import equinox as eqx
    import jax

    leaves = [jax.tree.leaves(eqx.filter(model, eqx.is_array)) for model in (one, two)]
    return all(np.array_equal(a, b) for a, b in zip(*leaves, strict=True))
