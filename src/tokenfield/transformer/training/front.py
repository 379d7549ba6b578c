"""`train`: from a model and a text to a trained model, kept on the way."""

import hashlib
import inspect
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tokenfield import _checks as check
from tokenfield._compile import make_room
from tokenfield._front import Door, front_door
from tokenfield._interrupt import ctrl_c
from tokenfield.errors import InputError, StoreError
from tokenfield.progress import Progress
from tokenfield.status import Status
from tokenfield.transformer.architecture import Architecture
from tokenfield.transformer.files import own
from tokenfield.transformer.model import Transformer
from tokenfield.transformer.tokenizers import Bytes
from tokenfield.transformer.training import checkpoints, learning
from tokenfield.transformer.training.checkpoints import State
from tokenfield.transformer.training.objectives import Windows, objective_of
from tokenfield.transformer.training.result import Training
from tokenfield.transformer.training.texts import split, text_of
from tokenfield.transformer.training.trigram import Trigram

DEFAULT: dict[str, Any] = {
    "vocabulary": Bytes.size,
    "d": 128,
    "layers": 4,
    "heads": 4,
    "context": 128,
    "positions": "rotary",
    "norm": "rms",
    "activation": "gelu_tanh",
    "bias": False,
}
"""The architecture that is trained when no other is asked for: a few minutes on two cores."""
DECIDES = ("steps", "batch", "lr", "warmup", "decay", "clip", "beta1", "beta2", "context", "every", "seed")
"""The arguments of `train` that decide its result, beside the model and the text."""
FAR = 4.0
"""A loss that is larger than this many times that of knowing nothing has diverged."""


@front_door
def train(  # noqa: PLR0913  # a front door
    model: Transformer | None = None,
    text: Any = None,
    *,
    out: str | Path | None = None,
    steps: int = 1000,
    minutes: float | None = None,
    batch: int = 16,
    lr: float = 3e-3,
    warmup: int = 100,
    decay: float = 0.1,
    clip: float = 1.0,
    beta1: float = 0.9,
    beta2: float = 0.99,
    context: int | None = None,
    every: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
    force: bool = False,
) -> Training:
    """Train a model on a text: AdamW with warm-up, a cosine and bounded gradients.

    Causal models learn to predict the next token. Models whose tokens see all others (attention that cannot be causal, such as
    Sinkhorn's and hardmax, or causal=False) learn to predict hidden ones: 15% of a window, its last token always among them.

    **Arguments**

    - `model`: the model; left out, one of 0.8 million weights, made with the same seed. It is not changed.
    - `text`: a text, or the `Path` of a file with one; left out, the language reference that Python carries. Every tenth block of
      4096 tokens is kept for validation.
    - `out`: a folder, where checkpoints are kept. The same call goes on from the last one, bit for bit, however it was ended. Left
      out, nothing is kept.
    - `steps`: how many; the learning rate's course is laid out over them.
    - `minutes`: how long at most.
    - `batch`: how many windows of the text a step has.
    - `lr`, `warmup`: the largest learning rate, and how many steps it takes to rise to it; then it falls along a cosine to a tenth.
    - `decay`: AdamW's, of matrices. `clip`: the longest gradient. `beta1`, `beta2`: the factors of Adam's means.
    - `context`: how many tokens of a window are seen; the model's own context when left out.
    - `every`: how many steps lie between two validations, each of which ends with a checkpoint; a twentieth of all when left out.
    - `seed`: which windows are seen at which step.
    - `progress`: whether to show progress; on a terminal when left out.
    - `force`: whether to begin anew where the folder holds another training.

    **Returns** a `Training`: the model, its losses, a status; `print` tells its story.

    **Raises** `InputError` where the text is shorter than ten windows, a number makes no sense, or the folder belongs to another
    training; `StoreError` where it cannot be written or holds something else.

    >>> import tokenfield as tkf
    >>> small = tkf.Architecture(vocabulary=257, d=8, layers=1, heads=2, context=8)
    >>> result = tkf.train(tkf.Transformer.random(small), "to be or not to be, " * 20, steps=30, batch=8, lr=0.03, warmup=5)
    >>> result.status.name, len(result.losses), bool(result.validation < result.checks[0, 1])
    ('COMPLETED', 30, True)
    """
    if model is None:
        model = Transformer.random(usual(), seed=check.whole("seed", seed, 0, "a seed"))
    numbers = {"batch": batch, "lr": lr, "warmup": warmup, "decay": decay, "clip": clip, "beta1": beta1, "beta2": beta2}
    run = prepared(model, text, minutes, **numbers, steps=steps, context=context, every=every, seed=seed)
    folder = None if out is None else Path(out)
    return run.ended(run.found(folder, force), folder, minutes, progress)


def usual(**changes: Any) -> Architecture:
    """The embedded default with some fields changed. What is causal sees no farther back than it was trained to, so that texts may
    become longer than the context.

    **Arguments**

    - `changes`: fields of `Architecture`.

    **Returns** the architecture.
    """
    of = Architecture(**{**DEFAULT, **changes})
    return of.with_(window=of.context) if of.causal and "window" not in changes else of


def prepared(model: Transformer, text: Any, minutes: float | None, **numbers: Any) -> "Run":
    """A training that is ready to begin: arguments as `train` has them, and its defaults for those that are left out.

    **Raises** `InputError` where numbers make no sense, or the text is too short.
    """
    learning.optax()
    left = {name: one.default for name, one in inspect.signature(train).parameters.items() if name in DECIDES}
    _, numbers = Door(train).read((), numbers)
    numbers = {**left, **numbers}
    numbers["context"] = model.architecture.context if numbers["context"] is None else numbers["context"]
    numbers["every"] = max(1, numbers["steps"] // 20) if numbers["every"] is None else numbers["every"]
    _refuse(numbers, minutes, model)
    return Run(model, text, numbers)


def _refuse(numbers: dict[str, Any], minutes: float | None, model: Transformer) -> None:
    """Refuse numbers that make no sense, and models that predict nothing."""
    for name, least in (("steps", 1), ("batch", 1), ("context", 2), ("every", 1), ("warmup", 0), ("seed", 0)):
        check.whole(name, numbers[name], least, "training")
    for name in ("lr", "clip"):
        check.number(name, numbers[name], positive=True)
    for name in ("beta1", "beta2"):
        if not 0 <= numbers[name] < 1:
            raise InputError(f"Argument `{name}` must lie in [0, 1), but is {numbers[name]:g}.")
    if numbers["decay"] < 0:
        raise InputError(f"Argument `decay` must not be negative, but is {numbers['decay']:g}.")
    for name in ("lr", "clip", "decay"):
        if numbers[name] > (most := float(np.finfo(model.dtype).max)):
            raise InputError(
                f"Argument `{name}` must be at most {most:.3g}, as {model.dtype} goes, but is {numbers[name]:g}."
            )
    if minutes is not None:
        check.number("minutes", minutes, positive=True)
    if model.head is None:
        raise InputError(f"{model.name} has no head that predicts tokens, so that there is nothing to train it for.")
    if model.longest is not None and numbers["context"] > model.longest:
        raise InputError(
            f"Argument `context` is {numbers['context']}, but the model has {model.longest} positions. Ask for fewer tokens."
        )
    of = model.architecture
    room = numbers["batch"] * numbers["context"] * (of.layers * (8 * of.d + 2 * (of.hidden or 0)) + 3 * of.vocabulary)
    check.room(model.dtype.itemsize * (room + 5 * of.numbers), "The states of a batch and the optimizer's memory")
    check.room(32 * numbers["steps"], "The rates and losses of all steps")


class Run:
    """All that a training needs and that does not change on the way.

    **Arguments**

    - `model`: the model at the start.
    - `text`: what is learned from.
    - `numbers`: the arguments of `train` that decide its result.
    """

    def __init__(self, model: Transformer, text: Any, numbers: dict[str, Any]):
        self.model, self.numbers = model, numbers
        self.objective = objective_of(model, numbers["context"])
        self.split = split(_tokens(model, text_of(text)), self.objective.window)
        self.windows = Windows(self.split.learned, self.objective, numbers["batch"], numbers["seed"])
        self.checked, self.asked_for = self.objective.validation(self.split.kept)
        self.held = learning.held(model)
        exact = lambda name: np.asarray(numbers[name], model.dtype)
        self.recipe = learning.Recipe(exact("beta1"), exact("beta2"), exact("decay"), exact("clip"))
        self.rates = learning.rates(numbers["steps"], numbers["warmup"], numbers["lr"]).astype(model.dtype)

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the result, as plain data."""
        digest = hashlib.sha256()
        for leaf in jax.tree.leaves(self.held.trained):
            digest.update(np.asarray(leaf).tobytes())
        model = {**own.plain_architecture(self.model.architecture), "weights": digest.hexdigest()}
        return {"train": self.numbers, "model": model, "text": self.split.mark, "dtype": str(self.model.dtype)}

    def fresh(self) -> State:
        """The state before the first step."""
        memory = learning.optimizer(self.recipe, self.rates[0]).init(self.held.trained)
        return State(self.held.trained, memory, np.zeros(0), np.zeros((0, 2)))

    def found(self, folder: Path | None, force: bool) -> State:
        """The state in the folder, or a fresh one.

        **Raises** `InputError` where the folder belongs to another training, `StoreError` where it holds something else.
        """
        if folder is None:
            return self.fresh()
        if not checkpoints.standing(folder):
            _refuse_others(folder)
        elif not force:
            _refuse_other_settings(self.settings, checkpoints.settings_of(folder), folder)
            return checkpoints.resumed(self.fresh(), folder)
        state = self.fresh()
        checkpoints.begin(self.model, state, self.settings, folder)
        return state

    def ended(self, state: State, folder: Path | None, minutes: float | None, progress: bool | None) -> Training:
        """What came of a training that goes on from a state; one that has ended for good is only told of."""
        if state.status not in (Status.COMPLETED, Status.BLOW_UP):
            state = self.walked(state, folder, minutes, progress)
        return self.result(state, folder)

    def walked(self, state: State, folder: Path | None, minutes: float | None, progress: bool | None) -> State:
        """The state at the end, kept on the way."""
        make_room()
        walk = Walk(self, state, folder, None if minutes is None else 60 * minutes)
        with ctrl_c() as asked, Progress(progress, "training") as bar:
            while walk.status is Status.RUNNING:
                walk.advance(asked)
                bar.update(walk.steps / self.numbers["steps"], walk.note())
        return walk.good

    def with_weights(self, weights: Any) -> Transformer:
        return learning.joined(self.model, weights, self.held.rest)

    def result(self, state: State, folder: Path | None) -> Training:
        """What is told of the end."""
        trigram = Trigram.fitted(self.split.learned, self.model.architecture.vocabulary)
        nats = [trigram.nats(part) for part in self.split.kept]
        return Training(
            model=self.with_weights(state.weights),
            losses=state.losses,
            checks=state.checks,
            status=state.status,
            words=state.words,
            trigram=float(np.mean(np.concatenate([nats[k][places] for k, places in self.asked_for]))),
            asked=self.numbers["steps"],
            tokens=self.numbers["batch"] * self.numbers["context"],
            predicts=self.predicts,
            seconds=state.seconds,
            folder=folder,
        )

    @property
    def predicts(self) -> str:
        """What is predicted, and why."""
        of = self.model.architecture
        if of.causal:
            return self.objective.said
        why = of.attention.maskable
        reason = why.split(":")[0] if why else "Its tokens see later ones"
        return f"{self.objective.said}, 15% of a window and always its last token. {reason}"


class Walk:
    """A training on its way.

    **Arguments**

    - `run`: what does not change.
    - `state`: where it begins.
    - `folder`: where checkpoints are kept, if they are.
    - `patience`: how many seconds it may take, if there is a limit.
    """

    def __init__(self, run: Run, state: State, folder: Path | None, patience: float | None):
        self.run, self.folder, self.patience = run, folder, patience
        self.weights, self.memory = learning.on_device(state.weights), learning.on_device(state.memory)
        self.losses, self.checks = state.losses.tolist(), state.checks.tolist()
        self.began, self.before, self.since = time.monotonic(), state.seconds, len(self.losses)
        self.paced, self.status, self.words = self.began, Status.RUNNING, ""
        self.good = state
        if not self.checks:
            self.check()

    @property
    def steps(self) -> int:
        return len(self.losses)

    @property
    def far(self) -> float:
        """What no loss may pass: several times that of knowing nothing, or the first."""
        return FAR * max(1.0, math.log(self.run.model.architecture.vocabulary), *(loss for _, loss in self.checks[:1]))

    def advance(self, asked: Callable[[], bool]) -> None:
        """One step; then, where it is time, a validation and a checkpoint; then a look at why to stop."""
        numbers = self.run.numbers
        if self.steps < numbers["steps"]:
            self.step()
        if self.status is Status.RUNNING and (self.steps % numbers["every"] == 0 or self.steps == numbers["steps"]):
            self.check()
        if self.status is not Status.RUNNING:
            return
        if self.steps >= numbers["steps"]:
            self.end(Status.COMPLETED, f"took all of its {self.steps} steps")
        elif asked():
            self.end(Status.INTERRUPTED, f"was interrupted after {self.steps} steps; {self.going_on}")
        elif self.patience is not None and time.monotonic() - self.began > self.patience:
            self.end(Status.STOPPED, f"stopped after {self.steps} steps, when its minutes were over; {self.going_on}")

    @property
    def going_on(self) -> str:
        return "what it has is returned" if self.folder is None else "the same call goes on from there"

    def step(self) -> None:
        """One step; a loss or a gradient that is no number, or has left all bounds, ends the walk."""
        k = self.steps
        known = (self.run.held.rest, self.run.model.depth, self.run.windows(k), self.run.recipe, self.run.rates[k])
        self.weights, self.memory, loss, slope = learning.step(known, self.weights, self.memory)
        loss, slope = float(loss), float(slope)
        if not (math.isfinite(loss) and math.isfinite(slope)):
            self.diverge(f"the {'gradient' if math.isfinite(loss) else 'loss'} is not finite", k)
        elif loss > self.far:
            self.diverge(f"the loss is {loss:.4g}", k)
        self.losses.append(loss)
        if self.steps == self.since + 1:
            self.paced = time.monotonic()

    def check(self) -> None:
        """A validation; where it is good, a checkpoint."""
        loss = learning.validated(self.weights, self.run.held.rest, self.run.model.depth, self.run.checked)
        if not math.isfinite(loss):
            self.diverge("the validation loss is not finite", self.steps)
        elif loss > self.far:
            self.diverge(f"the validation loss is {loss:.4g}", self.steps)
        else:
            self.checks.append([self.steps, loss])
            if self.steps < self.run.numbers["steps"]:  # the last one is kept with its status
                self.keep()

    def diverge(self, why: str, k: int) -> None:
        """Go back to the last good checkpoint."""
        words = (
            f"diverged at step {k + 1}, where {why}; the model is that of the last good checkpoint, after {self.good.steps} steps. "
            "Lower lr, warm up for longer, or bound gradients more"
        )
        self.status = Status.BLOW_UP
        self.good = self.good._replace(status=Status.BLOW_UP, words=words, seconds=self.seconds)
        self.write()

    def end(self, status: Status, words: str) -> None:
        self.status, self.words = status, words
        self.keep()

    def keep(self) -> None:
        """Take the state as the last good one, and write it."""
        losses, checks = np.asarray(self.losses, float), np.asarray(self.checks, float).reshape(-1, 2)
        now = State(self.weights, self.memory, losses, checks, self.status, self.seconds, self.words)
        self.good = checkpoints.on_host(now)
        self.write()

    def write(self) -> None:
        if self.folder is not None:
            checkpoints.keep(self.run.with_weights(self.good.weights), self.good, self.run.settings, self.folder)

    @property
    def seconds(self) -> float:
        return self.before + time.monotonic() - self.began

    def note(self) -> str:
        """The loss, the pace, and where nobody draws a bar the time that is left."""
        if not self.losses:
            return ""
        pace = (time.monotonic() - self.paced) / max(1, self.steps - self.since - 1)  # the first step compiles
        left = pace * (self.run.numbers["steps"] - self.steps)
        told = "" if sys.stderr.isatty() else f", {left:.0f} s left"
        tokens = self.run.numbers["batch"] * self.run.numbers["context"] / max(pace, 1e-9)
        return (
            f"loss {np.mean(self.losses[-20:]):.3f}, validation {self.checks[-1][1]:.3f}, {tokens:,.0f} tokens/s{told}"
        )


def _tokens(model: Transformer, text: str) -> np.ndarray:
    ids, most = np.asarray(model.tokenizer.encode(text), np.int32), model.architecture.vocabulary
    if len(ids) and ids.max() >= most:
        raise InputError(
            f"The text has the token {ids.max()}, but the model knows those below {most}. Bytes need a vocabulary of {Bytes.size}, "
            "or 256 without hidden ones."
        )
    return ids


def _refuse_others(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StoreError(
            f"{folder} holds something that is no training; it is left as it is. Choose another folder for this one."
        )


def _refuse_other_settings(now: dict[str, Any], before: dict[str, Any], folder: Path) -> None:
    """Refuse to go on with a training that was asked for something else."""
    differ = [name for name, pair in _pairs(now, before) if pair[0] != pair[1]]
    if differ:
        raise InputError(
            f"{folder} holds a training with other settings ({', '.join(differ)}), which nothing was done to. Ask for the same, "
            "choose another folder, or begin anew: force=True, or --force."
        )


def _pairs(now: Any, before: Any, name: str = "") -> list[tuple[str, tuple[Any, Any]]]:
    if not isinstance(now, dict) or not isinstance(before, dict):
        return [(name, (now, before))]
    names = dict.fromkeys([*now, *before])
    return [pair for one in names for pair in _pairs(now.get(one), before.get(one), f"{name}.{one}" if name else one)]
