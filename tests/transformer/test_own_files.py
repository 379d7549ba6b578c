"""Models of our own on disk: what comes back is what went, and damaged folders are refused."""

import json

import numpy as np
import pytest

import tokenfield as tkf
from tests.transformer.tiny_training import small
from tokenfield.errors import InputError, StoreError
from tokenfield.transformer.files import own

KINDS = [
    {"positions": "rotary", "gated": True, "groups": 1},
    {"attention": "sinkhorn", "normalization": tkf.PeriLN(), "layers": 2},
    {"attention": tkf.L2(beta=0.3), "normalization": tkf.NGPT(alpha=0.5), "layers": 2, "shared": True},
    {"attention": "hardmax", "normalization": tkf.MixLN(tau=1), "layers": 2, "norm": "rms", "bias": False},
    {"positions": "alibi", "tied": False, "window": 3, "activation": "silu"},
]


@pytest.mark.parametrize("changes", KINDS, ids=lambda changes: str(next(iter(changes.items()))))
def test_what_was_saved_comes_back(tmp_path, changes):
    model = small(**changes)
    again = tkf.Transformer.load(model.save(tmp_path / "model"))
    assert np.array_equal(again.logits("to be"), model.logits("to be"))
    assert str(again) == str(model) and again.parameters == model.parameters
    assert tkf.Transformer.load(tmp_path / "model", dtype="float64").dtype == np.float64


def test_a_model_is_replaced_and_nothing_else(tmp_path):
    small().save(tmp_path / "model")
    small(d=16).save(tmp_path / "model")
    assert tkf.Transformer.load(tmp_path / "model").d == 16
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="no model of tokenfield's"):
        small().save(tmp_path / "mine")
    assert (tmp_path / "mine" / "notes.txt").read_text() == "mine"


def test_tokenizers_of_a_file_are_kept(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    from tokenfield.transformer.tokenizers import FromFile

    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"to": 0, "be": 1, "?": 2}, unk_token="?"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    sizes = tkf.Architecture(vocabulary=3, d=8, layers=1, heads=2)
    model = tkf.Transformer.random(sizes, tokenizer=FromFile(words, "words"))
    again = tkf.Transformer.load(model.save(tmp_path / "words"))
    assert again.encode("to be or").tolist() == [0, 1, 2]
    with pytest.raises(InputError, match="of your own cannot be saved"):
        tkf.Transformer.random(sizes, tokenizer=Own()).save(tmp_path / "own")


class Own:
    size = 3

    def encode(self, text):
        return [0]

    def decode(self, ids):
        return ""

    def names(self, ids):
        return []


def changed(folder, **changes):
    told = json.loads((folder / own.CONFIG).read_text())
    for name, value in changes.items():
        told[name] = value(told[name]) if callable(value) else value
    (folder / own.CONFIG).write_text(json.dumps(told))


@pytest.mark.parametrize(
    "changes",
    [
        {"architecture": lambda a: {**a, "d": 16}},
        {"architecture": lambda a: {**a, "layers": 3}},
        {"architecture": lambda a: {**a, "attention": {"kind": "softmix"}}},
        {"architecture": lambda a: {**a, "colour": "red"}},
        {"architecture": []},
        {"parts": {}},
        {"parts": lambda p: {**p, "norm": {"part": "Popen", "args": "ls"}}},
        {"parts": lambda p: {**p, "norm": {"tensor": "nowhere", "shape": [8]}}},
        {
            "parts": lambda p: {
                **p,
                "embedding": {**p["embedding"], "words": {"tensor": "embedding.words", "shape": [3]}},
            }
        },
        {"tokenizer": "tokenizer.json"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_damaged_folders_are_refused(tmp_path, changes):
    folder = small().save(tmp_path / "model")
    changed(folder, **changes)
    with pytest.raises((StoreError, InputError)):
        tkf.Transformer.load(folder)


def test_a_truncated_file_of_weights_is_refused(tmp_path):
    folder = small().save(tmp_path / "model")
    data = (folder / own.WEIGHTS).read_bytes()
    for size in (0, 7, 100, len(data) - 1):
        (folder / own.WEIGHTS).write_bytes(data[:size])
        with pytest.raises(StoreError, match=r"damaged|cannot be read"):
            tkf.Transformer.load(folder)
    (folder / own.WEIGHTS).unlink()
    with pytest.raises(StoreError, match="cannot be read"):
        tkf.Transformer.load(folder)
