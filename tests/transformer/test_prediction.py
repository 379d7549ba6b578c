"""Predictions are those of the equiangular theory; their β is that of models before training."""

import json

import numpy as np
import pytest

import tokenfield as tkf
from tests.test_cli import tokenfield
from tokenfield.errors import InputError, StoreError
from tokenfield.transformer.prediction import architecture_of, concentration, critical_context, effective, spread
from tokenfield.transformer.probe import statistics as of
from tokenfield.transformer.probe.looks import looks, visible

GPT2 = {"model_type": "gpt2", "n_embd": 64, "n_layer": 4, "n_head": 4, "n_positions": 256, "vocab_size": 300}
SMALL = tkf.Architecture(d=64, layers=4, heads=4, context=256)


@pytest.fixture(scope="module")
def told():
    return tkf.predict(SMALL, context=1000, rho=0.3, beta=2.0)


def test_curves_are_layers_of_equiangular_tokens(told):
    for name, scheme in {"PreLN()": tkf.PreLN(), "PostLN()": tkf.PostLN(), "MixLN(tau=1)": tkf.MixLN(tau=1.0)}.items():
        run = tkf.layers(tkf.Flow(tkf.Softmax(2.0), scheme), tkf.Equiangular(rho=0.3, n=1000), 30)
        np.testing.assert_allclose(told.cosine(name)[:31], run.states.rho, atol=1e-9)
    assert told.own == "PreLN()" and len(told.data.normalization) == 6


def test_depths_are_the_first_beyond_a_level(told):
    for name in told.data.normalization.values:
        for level, depth in told.passes(name).items():
            ρ = told.cosine(name)
            assert depth is not None and ρ[depth] >= level > ρ[depth - 1]


def test_short_steps_are_the_flow():
    fine = tkf.predict(SMALL, context=12, rho=0.2, beta=2.0, step=0.01).cosine("PreLN()")
    flowing = tkf.evolve(tkf.Flow(tkf.Softmax(2.0), tkf.PreLN()), tkf.Equiangular(rho=0.2, n=12), t=5.0, save=2)
    assert fine[500] == pytest.approx(float(flowing.states.rho[-1]), abs=2e-3)


@pytest.mark.parametrize(
    ("share", "regime", "limit"), [(0.5, "collapse", 1.0), (1.0, "critical", 0.8), (1.5, "identity", 0.5)]
)
def test_regimes_and_limits_of_a_long_context(share, regime, limit):
    """1, 4ρ/(1+3ρ) = 0.8 and ρ at ρ = 0.5."""
    n = 2 * 10**9
    one = tkf.predict(SMALL, context=n, rho=0.5, beta=share * np.log(n) / 0.5)
    assert one.regime == regime and one.output == pytest.approx(limit, abs=1e-3)
    assert one.share == pytest.approx(share)


def test_what_would_move_it_is_the_transition():
    one = tkf.predict(SMALL, context=1000, rho=0.2, beta=5.0)
    assert one.critical_context == pytest.approx(np.exp(4.0))
    there = tkf.predict(SMALL, context=1000, rho=0.2, beta=one.critical_beta)
    assert there.share == pytest.approx(1.0) and there.regime == "critical"
    first = tkf.predict(tkf.Architecture(d=1024, layers=2, heads=4), context=1000, rho=0.2)
    wider = effective(first.critical_factor * first.spread, 1000, 0.2)
    assert wider == pytest.approx(first.critical_beta, rel=1e-6)
    n = critical_context(1.5, 0.0, 0.2)
    assert effective(1.5, n, 0.2) * 0.8 == pytest.approx(np.log(n), rel=1e-3)
    assert critical_context(0.01, 0.0, 0.2) is None


def test_the_spread_is_that_of_a_model_before_training():
    """σ² d √(1-ρ), and the effective β: in the mean over heads, of which one has a spread of some 1/√k."""
    of_it = tkf.Architecture(vocabulary=257, d=512, layers=1, heads=16, context=128, causal=False)
    model = tkf.Transformer.random(of_it, seed=0)
    text = np.random.default_rng(0).permutation(257)[:128]
    look = next(iter(looks(model, np.asarray(model.run(text).x))))
    seen, ρ = visible(model, 128), of.cosine(look.read)
    assert float(np.mean(of.spread(look.S, seen))) == pytest.approx(spread(of_it, ρ), rel=0.05)
    measured = np.mean(np.sum(look.P**2, axis=-1)) * 128 - 1
    assert measured == pytest.approx(concentration(spread(of_it, ρ), 128) * 128 - 1, rel=0.15)
    assert float(np.mean(of.concentrated(look, seen))) == pytest.approx(effective(spread(of_it, ρ), 128, ρ), rel=0.1)


def test_concentration_of_normal_scores():
    draws = np.exp(1.0 * np.random.default_rng(0).normal(size=(200, 4000)))
    measured = np.mean(np.sum((draws / draws.sum(axis=1, keepdims=True)) ** 2, axis=1))
    assert concentration(1.0, 4000) == pytest.approx(measured, rel=0.1)
    assert concentration(0.0, 10) == pytest.approx(0.1) and concentration(0.5, 1e12) * 1e12 == pytest.approx(
        np.exp(0.25), rel=0.01
    )


SIZES = {"hidden_size": 64, "num_attention_heads": 4}


@pytest.mark.parametrize(
    ("config", "scheme", "layers", "context"),
    [
        (GPT2, "PreLN()", 4, 256),
        ({"model_type": "bert", **SIZES, "num_hidden_layers": 3, "max_position_embeddings": 99}, "PostLN()", 3, 99),
        ({"model_type": "albert", **SIZES, "num_hidden_layers": 5, "embedding_size": 32}, "PostLN()", 5, 512),
        ({"model_type": "llama", **SIZES, "num_hidden_layers": 2, "max_position_embeddings": 777}, "PreLN()", 2, 777),
    ],
)
def test_configs_of_four_families(config, scheme, layers, context):
    found = architecture_of(config)
    assert (str(found.normalization), found.layers, found.context) == (scheme, layers, context)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tkf.predict({"model_type": "mamba"}), r"`model_type` is 'mamba'.*Known: albert, bert, gpt2, llama"),
        (lambda: tkf.predict({}), r"`model_type` is None"),
        (lambda: tkf.predict({**GPT2, "n_layer": -3}), r"`n_layer` must be a whole number"),
        (lambda: tkf.predict({**GPT2, "mystery": 1}), r"`mystery` is not known here"),
        (lambda: tkf.predict(3.0), r"predict takes a tkf\.Architecture"),
        (lambda: tkf.predict(SMALL, context=1), r"`context`"),
        (lambda: tkf.predict(SMALL, context=10**16), r"`context`.*below 2³¹"),
        (lambda: tkf.predict(SMALL, depth=0), r"`depth`"),
        (lambda: tkf.predict(SMALL, rho=1.0), r"`rho` must lie in \[0, 1\)"),
        (lambda: tkf.predict(SMALL, beta=-1.0), r"`beta` must lie between 0"),
        (lambda: tkf.predict(SMALL, step=0.0), r"`step`"),
        (lambda: tkf.predict(SMALL, beta=1.0).cosine("LN"), r"Unknown normalization"),
        (lambda: tkf.predict("nowhere.json"), r"cannot be read"),
    ],
)
def test_what_cannot_be_predicted_is_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_files_that_are_no_configs(tmp_path):
    for content, words in (("{", "not JSON"), ("[1]", "must hold fields"), ('{"a": 1, "a": 2}', "stands twice")):
        (tmp_path / "c.json").write_text(content)
        with pytest.raises(StoreError, match=words):
            tkf.predict(tmp_path / "c.json")


def test_the_command_tells_and_draws(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(GPT2))
    words = ("predict", "config.json", "--context", "8192", "--out", "told")
    said = tokenfield(*words, cwd=tmp_path).stdout
    assert (
        "8,192 tokens" in said and "PreLN() (its own)" in said and "Assumed:" in said and "What would move it:" in said
    )
    assert sorted(path.name for path in (tmp_path / "told").iterdir()) == ["predict.pdf", "predict.png", "predict.zarr"]
    again = tokenfield(*words, cwd=tmp_path, ok=False).stderr
    assert "holds a prediction from before; nothing was overwritten" in again
    bad = tokenfield("predict", "nowhere.json", cwd=tmp_path, ok=False).stderr
    assert bad.startswith("error: ") and "Traceback" not in bad
