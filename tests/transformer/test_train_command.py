"""`tokenfield train` and `tokenfield generate`: what they write, say and refuse."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import tokenfield as tkf
from tests.transformer.tiny_training import TEXT
from tokenfield.cli import app
from tokenfield.errors import InputError
from tokenfield.transformer.training import command

SIZES = ("d=8", "layers=1", "heads=2", "context=8", "hidden=16", "positions=rotary")
SMALL = [f"model.{one}" for one in SIZES] + ["train.steps=4", "train.batch=2", "train.every=2"]


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def settings(*more: str) -> list[str]:
    return [word for one in (*SMALL, *more) for word in ("--set", one)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("command")
    (folder / "text.txt").write_text(TEXT)
    return folder, run("train", str(folder / "text.txt"), "--out", str(folder / "model"), *settings())


def test_train_writes_a_model_its_picture_and_a_story(trained):
    folder, done = trained
    assert done.exit_code == 0 and "validation  loss" in done.output and "a trigram model" in done.output
    assert {"config.json", "model.safetensors", "training.safetensors", "loss.png"} == {
        path.name for path in (folder / "model").iterdir()
    }
    again = run("train", str(folder / "text.txt"), "--out", str(folder / "model"), *settings())
    assert again.exit_code == 0 and "4 of 4 steps" in again.output


def test_generate_says_what_the_model_says(trained):
    folder = trained[0] / "model"
    for temperature in (0.0, 1.5):
        done = run("generate", str(folder), "to be", "-n", "20", "--temperature", str(temperature), "--seed", "3")
        model = tkf.Transformer.load(folder)
        assert done.exit_code == 0
        assert done.output == "to be" + model.generate("to be", 20, temperature=temperature, seed=3) + "\n"


def test_pieces_are_written_as_they_come_and_characters_whole(trained, monkeypatch):
    """A character of several bytes is written when its last byte has come."""
    monkeypatch.setattr(tkf.Transformer, "load", lambda folder: Told(tkf.Transformer.random(), list("né→".encode())))
    pieces: list[str] = []
    command.generated(trained[0], "", 6, 0.0, 0, pieces.append)
    assert [piece for piece in pieces if piece] == ["n", "é", "→"]


class Told:
    """A model that says what it is told to."""

    def __init__(self, model, ids):
        self.tokenizer, self.ids = model.tokenizer, ids

    def generate(self, text, n, *, temperature, seed, watch):
        for one in self.ids:
            watch(one)
        return self.tokenizer.decode(self.ids)


def test_a_diverging_run_has_an_exit_code_of_its_own(trained):
    folder, _ = trained
    out = str(folder / "far")
    done = run("train", str(folder / "text.txt"), "--out", out, *settings("train.lr=1e30", "train.warmup=0"))
    assert done.exit_code == 1 and "ended       as BLOW_UP: it diverged at step" in done.output
    assert tkf.Transformer.load(out).depth == 1


def test_settings_name_kinds_and_their_parameters():
    made = lambda *settings: command._architecture(command.asked(settings)[0])
    kind = lambda of: (type(of.attention).__name__, type(of.normalization).__name__)
    assert (
        kind(made("model.attention.kind=sinkhorn")) == ("Sinkhorn", "PreLN")
        and not made("model.attention=sinkhorn").causal
    )
    some = made("model.attention.kind=sinkhorn", "model.attention.iterations=50", "model.d=64")
    assert some.attention.iterations == 50 and float(some.attention.beta) == pytest.approx(16**-0.5)
    assert float(made("model.attention.kind=softmax", "model.attention.beta=0.3").attention.beta) == 0.3
    assert kind(made("model.normalization.kind=mix_ln", "model.normalization.tau=2"))[1] == "MixLN"
    assert command.asked(["train.lr=1e-3", "train.steps=7"])[1] == {"lr": 1e-3, "steps": 7}


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("model.dd=8", "model.dd: there is no such field. Did you mean 'd'"),
        ("train.stepz=8", "train.stepz: there is no such field. Did you mean 'steps'"),
        ("modle.d=8", "there is no section 'modle'. Did you mean 'model'"),
        ("model.attention.kind=softmix", "Did you mean 'softmax'"),
        ("model.attention.gamma=1", "model.attention.kind is missing"),
        ("model.d=eight", "Argument `d` must be a whole number"),
        ("model.d=10", "must be a multiple of `heads`"),
        ("model.d.x=10", "'d' is a value, not a section"),
        ("model.positions=everywhere", "`positions` is unknown"),
        ("model.d", "--set needs FIELD=VALUE"),
        ("model.normalization=mix_ln", "needs the number of its Post-LN blocks"),
    ],
)
def test_what_cannot_be_set_is_refused(setting, words):
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        command._architecture(command.asked([setting])[0])


def test_unknown_parameters_of_a_kind_are_refused():
    asked = ["model.attention.kind=softmax", "model.attention.gamma=1"]
    with pytest.raises(InputError, match=r"model.attention.gamma: there is no such field"):
        command._architecture(command.asked(asked)[0])


def test_mistakes_are_sentences_without_tracebacks(tmp_path):
    (tmp_path / "mine.txt").write_text("short")
    tokenfield = [sys.executable, "-m", "tokenfield"]
    done = subprocess.run(
        [*tokenfield, "train", str(tmp_path / "mine.txt"), "--out", str(tmp_path / "out"), *settings()],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "training needs at least 90" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_models_that_are_not_causal_generate_nothing(tmp_path, trained):
    model = tkf.Transformer.random(tkf.Architecture(vocabulary=257, d=8, layers=1, heads=2, causal=False))
    model.save(tmp_path / "full")
    with pytest.raises(InputError, match="generated by causal models"):
        command.generated(tmp_path / "full", "to be", 3, 0.0, 0, print)
