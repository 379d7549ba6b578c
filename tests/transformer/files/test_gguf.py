"""Small GGUF files, written by the `gguf` package, and the tokenizers that files bring."""

import json

import gguf
import numpy as np
import pytest

import tokenfield as tkf
from tests.transformer.files.oracle import saved, small
from tests.transformer.files.test_families import same
from tokenfield.errors import InputError, StoreError
from tokenfield.transformer.files import vocabularies
from tokenfield.transformer.files.translation import ENDS, LAYER
from tokenfield.transformer.tokenizers import Bytes

WORDS = ["<s>", "Ġ", *"abcdefgh0123456789", "ab", "Ġab"]
MERGES = ["a b", "Ġ ab"]


def written(path, model, kind=gguf.GGMLQuantizationType.F32, *, factors=None, fields=(), words=WORDS, pre="smollm"):
    """A LLaMA of transformers as a GGUF file, as converters write it: queries and keys with rows in pairs."""
    config, writer = model.config, gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(words)
    writer.add_token_types([3, *(1 for _ in words[1:])])
    writer.add_token_merges(MERGES)
    for add, *arguments in fields:
        getattr(writer, add)(*arguments)
    if factors is not None:
        writer.add_tensor("rope_freqs.weight", np.asarray(factors, np.float32))
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        array = tensor.float().numpy()
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(name.split(".")[-2])
        if heads:
            array = array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)
        quantized = kind if array.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(
            named(name), gguf.quants.quantize(np.ascontiguousarray(array), quantized), raw_dtype=quantized
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def named(name: str) -> str:
    """GGUF's name of a tensor."""
    name = name.removeprefix("model.")
    if name in ENDS.values():
        return next(here for here, there in ENDS.items() if there == name)
    _, k, rest = name.split(".", 2)
    part, _, last = rest.rpartition(".")
    return f"blk.{k}.{next(here for here, there in LAYER.items() if there == part)}.{last}"


@pytest.mark.parametrize(
    "options", [{}, dict(tie_word_embeddings=True, attention_bias=True, head_dim=6, num_key_value_heads=4)]
)
def test_a_gguf_file_is_the_same_model(tmp_path, options):
    theirs = small("llama", **options)
    ours = tkf.Transformer.load(written(tmp_path / "model.gguf", theirs))
    folder = tkf.Transformer.load(saved(theirs, tmp_path / "folder"))
    assert ours.name == "model" and same(ours, folder)
    assert vars(ours.architecture) | {"attention": 0, "normalization": 0, "eps": 0} == vars(folder.architecture) | {
        "attention": 0,
        "normalization": 0,
        "eps": 0,
    }
    assert abs(ours.architecture.eps - folder.architecture.eps) < 1e-12  # which GGUF keeps in float32


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0"])
def test_quantized_numbers(tmp_path, kind):
    theirs = small("llama", hidden_size=64, intermediate_size=64)
    quantized = gguf.GGMLQuantizationType[kind]
    ours = tkf.Transformer.load(written(tmp_path / "model.gguf", theirs, quantized))
    exact = theirs.model.layers[0].mlp.up_proj.weight.detach().numpy()
    expected = gguf.quants.dequantize(gguf.quants.quantize(exact, quantized), quantized)
    assert np.array_equal(ours.blocks[0].mlp.f.up.W, expected)
    assert np.abs(expected - exact).max() < 0.1


def test_frequencies_in_a_tensor(tmp_path):
    """Files of LLaMA 3 keep the factors by which frequencies are divided."""
    factors = [1.0, 2.0, 4.0, 8.0]
    ours = tkf.Transformer.load(written(tmp_path / "model.gguf", small("llama"), factors=factors))
    assert np.allclose(ours.blocks[0].attention.f.positions.frequencies, 10000.0 ** (-np.arange(4) / 4) / factors)
    scaled = written(
        tmp_path / "linear.gguf",
        small("llama"),
        fields=[("add_rope_scaling_type", gguf.RopeScalingType.LINEAR), ("add_rope_scaling_factor", 4.0)],
    )
    found = tkf.Transformer.load(scaled).blocks[0].attention.f.positions.frequencies
    assert np.allclose(found, 10000.0 ** (-np.arange(4) / 4) / 4)


@pytest.mark.parametrize(
    ("field", "said"),
    [
        (("add_expert_count", 4), "'llama.expert_count' is not known here"),
        (("add_sliding_window", 8), "'llama.attention.sliding_window' is not known here"),
        (
            ("add_rope_scaling_type", gguf.RopeScalingType.YARN),
            "`llama.rope.scaling.type` is 'yarn'; known are none, linear",
        ),
        (("add_uint32", "split.count", 2), "'split.count' is not known here"),
    ],
)
def test_options_that_are_not_built(tmp_path, field, said):
    with pytest.raises(InputError, match=said):
        tkf.Transformer.load(written(tmp_path / "model.gguf", small("llama"), fields=[field]))


def test_a_truncated_file(tmp_path):
    path = written(tmp_path / "model.gguf", small("llama"))
    data = path.read_bytes()
    for length in (3, 20, 100, 2000, len(data) - 200):
        path.write_bytes(data[:length])
        with pytest.raises(StoreError, match=r"truncated|no GGUF file"):
            tkf.Transformer.load(path)


def test_tokens_of_a_gguf_file(tmp_path):
    first = [("add_add_bos_token", True), ("add_bos_token_id", 0)]
    for fields, begin in (([], []), (first, [0])):
        words = tkf.Transformer.load(written(tmp_path / "a.gguf", small("llama"), fields=fields)).tokenizer
        assert words.names(words.encode("ab ab12<s>")) == [*(["<s>"] if begin else []), "ab", "Ġab", "1", "2", "<s>"]
        assert words.decode(words.encode("ab ab12")) == "ab ab12"


def test_an_unknown_tokenizer_takes_numbers_alone(tmp_path):
    model = tkf.Transformer.load(written(tmp_path / "a.gguf", small("llama"), pre="tekken"))
    assert model.encode([3, 4, 5]).tolist() == [3, 4, 5] and model.tokenizer.names([3]) == ["<3>"]
    with pytest.raises(
        InputError, match=r"tokenizer 'gpt2' \('tekken'\); known is.*tokenizer='tokenizer.json'.*numbers of tokens"
    ):
        model.encode("ab")
    with pytest.raises(InputError, match=r"numbers of tokens"):
        model.tokenizer.decode([3])
    own = tkf.Transformer.load(tmp_path / "a.gguf", tokenizer=Bytes())
    assert own.encode("ABC").tolist() == [65, 66, 67]
    with pytest.raises(InputError, match=r"`tokenizer` must be a tokenizer.json, or an object with encode"):
        tkf.Transformer.load(tmp_path / "a.gguf", tokenizer=3)


def test_parts_of_a_tokenizer_that_do_not_fit():
    fields = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": WORDS, "tokenizer.ggml.merges": MERGES}
    assert vocabularies.of_gguf(fields).size == len(WORDS)
    for change in (
        {"token_type": [1]},
        {"tokens": [1, 2]},
        {"merges": ["a b c"]},
        {"merges": ["x y"]},
        {"merges": None},
    ):
        with pytest.raises(StoreError, match=r"damaged|does not fit together"):
            vocabularies.of_gguf({**fields, **{f"tokenizer.ggml.{name}": value for name, value in change.items()}})
    late = {**fields, "tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.bos_token_id": 99}
    with pytest.raises(StoreError, match=r"begin with the token 99"):
        vocabularies.of_gguf(late)


# Tokenizers of folders


def test_folders_without_a_known_tokenizer(tmp_path):
    assert "There is no tokenizer.json" in vocabularies.of_folder(tmp_path).why
    (tmp_path / "vocab.txt").write_text("[UNK]\nhello\nworld\n")
    assert "neither word pieces (##...) nor chemical SMILES" in vocabularies.of_folder(tmp_path).why
    (tmp_path / "vocab.txt").write_text("hello\nhello\n")
    assert "in which no token stands twice" in vocabularies.of_folder(tmp_path).why
    (tmp_path / "vocab.txt").unlink()
    (tmp_path / "vocab.json").write_text(json.dumps({"a": 0}))
    assert "without a merges.txt" in vocabularies.of_folder(tmp_path).why
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "Secret"}}')
    with pytest.raises(StoreError, match=r"is not a tokenizer that the `tokenizers` library knows"):
        vocabularies.of_folder(tmp_path)


def test_merges_of_gpt2(tmp_path):
    (tmp_path / "vocab.json").write_text(json.dumps({word: k for k, word in enumerate(WORDS)}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "\n".join(MERGES) + "\n")
    words = vocabularies.of_folder(tmp_path)
    assert words.names(words.encode("ab ab")) == ["ab", "Ġab"]
    (tmp_path / "merges.txt").write_text("a b c\n")
    with pytest.raises(StoreError, match=r"merges that are no pairs"):
        vocabularies.of_folder(tmp_path)


def test_without_the_library(tmp_path, monkeypatch):
    import sys

    (tmp_path / "tokenizer.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert "pip install 'tokenfield[models]'" in vocabularies.of_folder(tmp_path).why
    monkeypatch.setitem(sys.modules, "gguf", None)
    path = tmp_path / "a.gguf"
    path.write_bytes(b"GGUF")
    with pytest.raises(InputError, match=r"GGUF files need a library"):
        tkf.Transformer.load(path)


def test_short_and_long_texts(tmp_path):
    ours = tkf.Transformer.load(saved(small("gpt2"), tmp_path))
    with pytest.raises(InputError, match=r"at least two tokens"):
        ours.run([3])
    with pytest.raises(InputError, match=r"has 40 positions, but the text has 41 tokens. Cut it"):
        ours.run(np.zeros(41, int))
