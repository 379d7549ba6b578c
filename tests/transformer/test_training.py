"""Training: its gradient, what it converges to, how it ends."""

import os
import signal

import jax
import numpy as np
import pytest

import tokenfield as tkf
from tests.transformer.tiny_training import ENTROPY, NUMBERS, TEXT, coin, small
from tokenfield.errors import InputError, StoreError
from tokenfield.transformer.training import learning
from tokenfield.transformer.training.objectives import Hidden, Next, Windows, objective_of
from tokenfield.transformer.training.texts import language_reference, split


def same(one, other) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


# The loss and its gradient


@pytest.mark.parametrize(
    "changes",
    [
        {"positions": "rotary", "gated": True},
        {"attention": "sinkhorn", "positions": "sinusoidal", "normalization": "peri_ln"},
        pytest.param({"attention": "l2", "normalization": "ngpt", "shared": True, "layers": 3}, marks=pytest.mark.slow),
        pytest.param({"attention": "additive", "tied": False, "norm": "rms"}, marks=pytest.mark.slow),
    ],
    ids=lambda changes: changes.get("attention", "softmax"),
)
def test_the_gradient_is_that_of_finite_differences(changes):
    """In float64 and along a random direction, to the square of the step."""
    model = small(**changes).astype("float64")
    held, rng = learning.held(model), np.random.default_rng(0)
    text = np.frombuffer(TEXT.encode(), np.uint8).astype(np.int32)
    objective = objective_of(model, 8)
    batch = objective.posed(np.stack([text[at : at + objective.window] for at in (0, 50)]), rng)
    trained = jax.tree.map(lambda leaf: leaf + 0.3 * rng.standard_normal(leaf.shape), held.trained)
    way = jax.tree.map(lambda leaf: rng.standard_normal(leaf.shape), trained)
    loss = jax.jit(lambda weights: learning.loss(weights, held.rest, model.depth, batch))
    slope = jax.grad(loss)(trained)
    along = sum(float(np.sum(a * b)) for a, b in zip(jax.tree.leaves(slope), jax.tree.leaves(way), strict=True))
    moved = lambda h: float(loss(jax.tree.map(lambda a, b: a + h * b, trained, way)))
    assert (moved(1e-5) - moved(-1e-5)) / 2e-5 == pytest.approx(along, rel=1e-6)
    assert abs(along) > 1e-3


def test_the_loss_is_the_mean_surprise_of_logits():
    """What training minimizes is what `model.logits` says of the same tokens."""
    model = small(layers=2)
    ids = np.array([[116, 111, 32, 98, 101, 32, 111, 114, 32]])
    batch = Next(8).posed(ids, np.random.default_rng(0))
    nats = learning.loss(*learning.held(model), model.depth, batch)
    logits = np.asarray(model.logits(ids[0, :-1]), float)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert float(nats) == pytest.approx(-np.log(p[np.arange(8), ids[0, 1:]]).mean(), rel=1e-5)


def test_a_vocabulary_of_one_token_is_no_surprise():
    class One:
        size = 1
        encode = staticmethod(lambda text: [0] * len(text))
        decode = staticmethod(lambda ids: "a" * len(ids))
        names = staticmethod(lambda ids: ["a"] * len(ids))

    sizes = tkf.Architecture(vocabulary=1, d=4, layers=1, heads=1, context=4)
    result = tkf.train(tkf.Transformer.random(sizes, tokenizer=One()), "a" * 60, steps=2, batch=2)
    assert result.validation == 0.0 and np.all(result.losses == 0.0) and result.status.name == "COMPLETED"


def test_the_loss_of_a_chain_comes_to_its_entropy():
    """A Markov chain on two letters: validation ends within 3% of the entropy of its steps, as a trigram model's does, and
    knowing only the letters would be log 2."""
    text = bytes(coin(6000).astype(np.uint8)).decode()
    result = tkf.train(small(d=16, tied=False), text, steps=150, batch=16, lr=0.02, warmup=20, every=50)
    kept = split(np.frombuffer(text.encode(), np.uint8), 9).kept[0]
    own = ENTROPY + (np.mean(kept[1:] == kept[:-1]) - 0.1) * np.log(9)  # that of the very tokens that are asked for
    assert own * 0.97 < result.validation < own * 1.03
    assert own * 0.97 < result.trigram < own * 1.03


# What is predicted


def test_models_that_see_all_predict_hidden_tokens():
    rng, windows = np.random.default_rng(0), np.arange(4000).reshape(100, 40) % 250
    seen, asked, counts = Hidden(40, 256).posed(windows, rng)
    assert np.array_equal(asked, windows) and np.all(seen[counts == 1] == 256)
    assert np.array_equal(seen[counts == 0], windows[counts == 0])
    assert np.all(counts[:, -1] == 1) and 0.13 < counts[:, :-1].mean() < 0.17


def test_the_last_token_of_a_window_is_the_same_question_to_all():
    kept = [np.arange(100), np.arange(100, 200)]
    for objective in (Next(10), Hidden(10, 999)):
        (seen, asked, counts), places = objective.last(kept, 40)
        answers = asked[counts == 1]
        assert len(answers) == len(seen) and np.array_equal(answers, np.concatenate([kept[k][at] for k, at in places]))
        visible = np.where(np.cumsum(counts[:, ::-1], axis=1)[:, ::-1] > 0, seen, -1)
        assert not np.any(visible[:, :-1] == answers[:, None])
    assert isinstance(objective_of(small(attention="hardmax"), 8), Hidden)


def test_windows_lie_inside_the_stretches_and_depend_on_the_step_alone():
    parts = [np.arange(0, 30), np.arange(100, 140)]
    windows = Windows(parts, Next(9), 200, seed=5)
    seen, asked, _ = windows(3)
    assert np.array_equal(asked, seen + 1), "no window goes from one stretch to the next"
    assert {0, 20, 100, 130} <= set(seen[:, 0].tolist()), "and every place is met"
    assert same(windows(3), Windows(parts, Next(9), 200, seed=5)(3)) and not same(windows(3), windows(4))


def test_the_story_says_why_tokens_are_hidden(tmp_path):
    result = tkf.train(small(attention="sinkhorn"), TEXT, steps=2, batch=2)
    assert "hidden tokens" in str(result) and "Sinkhorn attention cannot be causal" in str(result)
    assert result.plot(tmp_path / "loss.png").stat().st_size > 10_000
    assert result.data.loss.shape == (2,) and result.data.attrs["units"] == "nats a token"


def test_the_embedded_text_is_in_every_python():
    text = language_reference()
    assert len(text) > 400_000 and "statement" in text
    kept = split(np.frombuffer(text.encode(), np.uint8), 129).kept
    assert sum(map(len, kept)) / len(text.encode()) == pytest.approx(0.1, abs=0.01)
    assert all(len(part) == 4096 for part in kept)


# How it ends


def test_training_changes_no_model_but_its_own():
    model = small()
    before = jax.tree.map(np.array, jax.tree.leaves(model))
    result = tkf.train(model, TEXT, **NUMBERS)
    assert same(before, jax.tree.leaves(model)), "the model that came in is as it was"
    assert not same(before, jax.tree.leaves(result.model))
    assert result.model.dtype == np.float32 and result.status is tkf.Status.COMPLETED
    again = tkf.train(model, TEXT, **NUMBERS)
    assert same(again.model, result.model) and same(again.losses, result.losses), "seeds decide everything"


def test_shared_blocks_stay_shared(tmp_path):
    result = tkf.train(small(layers=3, shared=True), TEXT, **NUMBERS, out=tmp_path / "shared")
    W = [np.asarray(block.attention.f.query.W) for block in result.model.blocks]
    assert np.array_equal(W[0], W[2]) and result.model.parameters == small(layers=3, shared=True).parameters
    again = tkf.Transformer.load(tmp_path / "shared")
    assert again.parameters == result.model.parameters and same(again.logits("to be"), result.model.logits("to be"))


@pytest.mark.parametrize("lr", [1e6, 1e30])
def test_a_diverging_run_ends_with_its_last_good_checkpoint(tmp_path, lr):
    model = small()
    result = tkf.train(model, TEXT, **{**NUMBERS, "lr": lr, "warmup": 0}, out=tmp_path / "far")
    assert result.status is tkf.Status.BLOW_UP and not result.ok
    assert "diverged at step" in str(result) and "Lower lr" in str(result)
    loaded = tkf.Transformer.load(tmp_path / "far")
    assert np.all(np.isfinite(loaded.logits("to be"))) and same(loaded.logits("to be"), result.model.logits("to be"))
    assert len(result.losses) == result.checks[-1, 0], "what is returned is of one moment"
    again = tkf.train(model, TEXT, **{**NUMBERS, "lr": lr, "warmup": 0}, out=tmp_path / "far")
    assert again.status is tkf.Status.BLOW_UP, "it would diverge again, and is only told of"


def test_a_run_that_diverges_late_keeps_what_came_before(tmp_path, monkeypatch):
    """The gradient is no number at step 10 of 24: the checkpoint after step 9 is returned, as an undisturbed run has it."""
    step = learning.step

    def broken(known, weights, memory):
        weights, memory, loss, slope = step(known, weights, memory)
        return weights, memory, loss, slope * (np.nan if next(count) == 9 else 1.0)

    count = iter(range(100))
    monkeypatch.setattr(learning, "step", broken)
    result = tkf.train(small(), TEXT, **NUMBERS, out=tmp_path / "late")
    assert result.status is tkf.Status.BLOW_UP and "step 10, where the gradient is not finite" in result.words
    assert len(result.losses) == 9 and result.checks[-1, 0] == 9
    monkeypatch.setattr(learning, "step", step)
    whole = tkf.train(small(), TEXT, **NUMBERS)
    assert np.array_equal(result.losses, whole.losses[:9])


def test_minutes_and_ctrl_c_end_with_what_there_is(tmp_path, monkeypatch):
    first = tkf.train(small(), TEXT, **NUMBERS, minutes=1e-9, out=tmp_path / "a")
    assert first.status is tkf.Status.STOPPED and len(first.losses) == 1
    step = learning.step
    asked = lambda *all: (os.kill(os.getpid(), signal.SIGINT), step(*all))[1]
    monkeypatch.setattr(learning, "step", asked)
    second = tkf.train(small(), TEXT, **NUMBERS, out=tmp_path / "a")
    assert second.status is tkf.Status.INTERRUPTED and "the same call goes on" in str(second)
    assert len(second.losses) == 2
    monkeypatch.setattr(learning, "step", step)
    whole = tkf.train(small(), TEXT, **NUMBERS, out=tmp_path / "a")
    assert whole.status is tkf.Status.COMPLETED and same(whole.model, tkf.train(small(), TEXT, **NUMBERS).model)


# Bad input


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"text": "too short"}, "The text has 9 tokens, but training needs at least 90"),
        ({"text": ""}, "The text has 0 tokens"),
        ({"text": b"bytes"}, "must be a text"),
        ({"steps": 0}, "`steps` must be at least 1"),
        ({"steps": 2.5}, "`steps` must be a whole number"),
        ({"lr": -1.0}, "`lr` must be positive"),
        ({"lr": "fast"}, "`lr` must be"),
        ({"beta2": 1.0}, r"`beta2` must lie in \[0, 1\)"),
        ({"decay": -0.1}, "`decay` must not be negative"),
        ({"context": 9}, "the model has 8 positions"),
        ({"batch": 2**30}, "of memory"),
        ({"minutes": 0.0}, "`minutes` must be positive"),
        ({"stepz": 3}, "Did you mean 'steps'"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(changes, words):
    with pytest.raises(InputError, match=words):
        tkf.train(small(), **{"text": TEXT, **changes})


def test_models_that_cannot_be_trained_are_refused(tmp_path):
    with pytest.raises(InputError, match="knows those below 100"):
        tkf.train(small(vocabulary=100), TEXT)
    with pytest.raises(InputError, match="no token that stands for them"):
        tkf.train(small(vocabulary=256, causal=False), TEXT)
    with pytest.raises(InputError, match="must be a Transformer"):
        tkf.train("gpt", TEXT)
    with pytest.raises(StoreError, match="cannot be read"):
        tkf.train(small(), tmp_path / "nowhere.txt")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 " * 100)
    with pytest.raises(StoreError, match="no text in UTF-8: byte 3"):
        tkf.train(small(), tmp_path / "latin.txt")


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name in ("notes", "file"):
        with pytest.raises(StoreError, match="something that is no training"):
            tkf.train(small(), TEXT, **NUMBERS, out=tmp_path / name)
    assert (tmp_path / "notes" / "mine.txt").read_text() == "mine" == (tmp_path / "file").read_text()
    tkf.train(small(), TEXT, **NUMBERS, out=tmp_path / "run", minutes=1e-9)
    with pytest.raises(InputError, match=r"other settings \(train.lr, text\)"):
        tkf.train(small(), "?" + TEXT, **{**NUMBERS, "lr": 0.02}, out=tmp_path / "run")
    with pytest.raises(InputError, match=r"other settings \(model.positions, model.weights\)"):
        tkf.train(small(positions="rotary"), TEXT, **NUMBERS, out=tmp_path / "run")
    anew = tkf.train(small(), TEXT, **{**NUMBERS, "steps": 2}, out=tmp_path / "run", force=True)
    assert anew.asked == 2 and anew.status is tkf.Status.COMPLETED


def test_a_damaged_checkpoint_says_so(tmp_path):
    tkf.train(small(), TEXT, **NUMBERS, out=tmp_path / "run", minutes=1e-9)
    state = tmp_path / "run" / "training.safetensors"
    state.write_bytes(state.read_bytes()[:-100])
    with pytest.raises(StoreError, match="is damaged"):
        tkf.train(small(), TEXT, **NUMBERS, out=tmp_path / "run")


# The whole size


@pytest.mark.slow
def test_the_embedded_default_beats_trigrams():
    """On two idle cores it takes four minutes; here only what comes of a third of its steps is asked for."""
    result = tkf.train(steps=350)
    assert result.validation < result.trigram < 1.83
