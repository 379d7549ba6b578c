"""The three trained models against transformers: all hidden states and logits, tokens, and generated text."""

import jax
import numpy as np
import pytest
import torch
import transformers

import tokenfield as tkf
from tests.transformer.files.oracle import distance, of_gguf, own_states, quiet, states
from tokenfield.errors import InputError
from tokenfield.transformer.files import installed
from tokenfield.transformer.files.packages import PACKAGES

TEXT = "The theory of mean fields says that many particles, each of which feels all others, move like one."
REACTION = "CC(C)S.CN(C)C=O.Fc1cccnc1F.O=C([O-])[O-].[K+].[K+]>>CC(C)Sc1ncccc1F"
TEXTS = [
    TEXT,
    "Naïve café, 2048 tokens; I'll don't\n\n\tdef f(x):\n        return 3.14159 * x  # 日本語 🙂 <|im_end|> [MASK]",
    "",
    " ",
]
SEEDS = ["Once upon a time, in a world of particles,", "def attention(q, k, v):\n", "The capital of France is"]


SIZES = dict(
    vocab_size=49152,
    hidden_size=576,
    intermediate_size=1536,
    num_hidden_layers=30,
    num_attention_heads=9,
    num_key_value_heads=3,
    max_position_embeddings=8192,
    rms_norm_eps=float(np.float32(1e-5)),  # as the file has it, in single precision
    rope_parameters=dict(rope_type="default", rope_theta=100000.0),
    tie_word_embeddings=True,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=2,
)
"""The config of SmolLM2-135M."""


@pytest.fixture(scope="module", autouse=True)
def optimized():
    """These models are large enough for optimized programs to be worth their compiling."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(scope="module")
def smol():
    return tkf.Transformer.load("smollm2")


@pytest.fixture(scope="module")
def smol_oracle():
    return of_gguf(installed("smollm2"), **SIZES)


def folder_model(name: str, cls, dtype: str):
    with quiet():
        model = cls.from_pretrained(installed(name), attn_implementation="eager", dtype=getattr(torch, dtype))
    return model.eval()


LIMITS = {"float32": 1e-5, "float64": 1e-12}
"""A tenth, and a thousandth, of what is asked for."""


@pytest.mark.parametrize("dtype", LIMITS)
def test_minilm(dtype):
    ours = tkf.Transformer.load("minilm", dtype=dtype)
    theirs = folder_model("minilm", transformers.BertModel, dtype)
    ids = ours.encode(TEXT)
    assert len(ids) == 23 and ours.depth == 6 and ours.parameters == 22_564_992
    assert distance(own_states(ours, ids), states(theirs, ids)) < LIMITS[dtype]
    with pytest.raises(InputError, match=r"minilm has no head that predicts tokens"):
        ours.logits(TEXT)
    with pytest.raises(InputError, match=r"has 512 positions, but the text has 600 tokens. Cut it"):
        ours.run(np.ones(600, int))


@pytest.mark.parametrize("dtype", LIMITS)
def test_rxnmapper(dtype):
    ours = tkf.Transformer.load("rxnmapper", dtype=dtype)
    theirs = folder_model("rxnmapper", transformers.AlbertForMaskedLM, dtype)
    ids = ours.encode(REACTION)
    assert ours.depth == 12 and all(block is ours.blocks[0] for block in ours.blocks)
    assert distance(own_states(ours, ids), states(theirs, ids)) < LIMITS[dtype]


def test_smollm2(smol, smol_oracle):
    """Hidden states and logits; and fifty tokens that both write, the likeliest each time, ours with the cache."""
    ids = smol.encode(TEXT)
    assert smol.parameters == 134_515_008
    assert distance(own_states(smol, ids), states(smol_oracle, ids)) < LIMITS["float32"]
    assert_greedy(smol, smol_oracle, SEEDS[0])


def assert_greedy(ours: tkf.Transformer, theirs, text: str) -> None:
    ids, found = ours.encode(text), ours.continued(text, 50)
    theirs.generation_config.eos_token_id = None
    with torch.no_grad(), quiet():
        expected = theirs.generate(
            torch.as_tensor(ids)[None].long(), max_new_tokens=50, do_sample=False, pad_token_id=2
        )
    assert len(found) == 50 and found == expected[0, len(ids) :].tolist()


@pytest.mark.slow
def test_smollm2_in_float64():
    ours = tkf.Transformer.load("smollm2", dtype="float64")
    ids = ours.encode(TEXT)
    theirs = of_gguf(installed("smollm2"), **SIZES).double()
    assert distance(own_states(ours, ids), states(theirs, ids)) < LIMITS["float64"]


@pytest.mark.slow
@pytest.mark.parametrize("text", SEEDS[1:])
def test_smollm2_writes_what_transformers_writes(smol, smol_oracle, text):
    assert_greedy(smol, smol_oracle, text)


@pytest.mark.slow
def test_smollm2_writes_the_same_without_the_cache(smol):
    assert smol.continued(SEEDS[0], 50) == smol.continued(SEEDS[0], 50, cache=False)


# Tokens


@pytest.mark.parametrize("text", TEXTS)
def test_tokens_of_minilm(text):
    """From tokenizer.json, and from vocab.txt where that is missing."""
    from tokenfield.transformer.files import vocabularies

    with quiet():
        theirs = transformers.BertTokenizerFast(
            tokenizer_file=str(installed("minilm") / "tokenizer.json"), clean_up_tokenization_spaces=False
        )
    ours = vocabularies.of_folder(installed("minilm"))
    words = vocabularies._of_words(installed("minilm"), installed("minilm") / "vocab.txt")
    expected = theirs(text, padding=False, truncation=False)["input_ids"]
    assert ours.encode(text) == expected == words.encode(text)


def test_tokens_of_smollm2(smol):
    """Digits stand alone, a space belongs to the word behind it, a token that steers is one, and nothing is lost."""
    names = lambda text: smol.tokenizer.names(smol.tokenizer.encode(text))
    assert names("It is 2048<|im_end|>") == ["It", "Ġis", "Ġ", "2", "0", "4", "8", "<|im_end|>"]
    assert smol.tokenizer.encode("") == []
    for text in (TEXT, SEEDS[1], "Naïve café\n\n\t日本語 🙂"):
        assert smol.tokenizer.decode(smol.tokenizer.encode(text)) == text


@pytest.mark.slow
def test_tokens_of_smollm2_are_those_of_transformers(smol):
    """Those that transformers makes of the same file."""
    path = installed("smollm2")
    with quiet():
        theirs = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    for text in TEXTS:
        assert smol.tokenizer.encode(text) == theirs(text)["input_ids"]


def test_tokens_of_rxnmapper():
    """A reaction is split at atoms and bonds, as the package itself splits it."""
    import re

    ours = tkf.Transformer.load("rxnmapper").tokenizer
    source = (installed("rxnmapper").parents[2] / "smiles_utils.py").read_text()
    pattern = re.search(r'SMI_REGEX_PATTERN = r"(.*)"', source)[1]
    words = (installed("rxnmapper") / "vocab.txt").read_text().split("\n")
    expected = [words.index(token) for token in ["[CLS]", *re.findall(pattern, REACTION), "[SEP]"]]
    assert ours.encode(REACTION) == expected and ours.decode(expected) == REACTION
    assert ours.names(ours.encode("Cl[Xx]")) == ["[CLS]", "Cl", "[UNK]", "[SEP]"]


def test_the_makefile_installs_these_packages():
    from pathlib import Path

    makefile = (Path(__file__).parents[3] / "Makefile").read_text()
    assert all(f"{package}=={version}" in makefile for package, version, _ in PACKAGES.values())
