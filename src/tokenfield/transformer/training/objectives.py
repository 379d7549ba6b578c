"""What is predicted: the next token where tokens see earlier ones only, hidden ones where they see all."""

import abc
from typing import NamedTuple

import numpy as np

from tokenfield.errors import InputError
from tokenfield.transformer.model import Transformer

HIDDEN = 0.15
"""The share of tokens that are hidden  [devlin2019]."""
WINDOWS = 1024
"""How many windows at most tell the validation loss of hidden tokens."""


class Batch(NamedTuple):
    """Windows of a text: what the model sees, what it is to predict, and how much each place counts; all of shape (windows, n)."""

    seen: np.ndarray
    asked: np.ndarray
    counts: np.ndarray


Asked = list[tuple[int, np.ndarray]]
"""Which tokens of some stretches are asked for: the number of each stretch, and places in it."""


class Objective(abc.ABC):
    """What a model learns to predict.

    **Arguments**

    - `context`: how many tokens it sees at a time, n.
    """

    said: str
    """What is predicted, in words."""

    def __init__(self, context: int):
        self.context = context

    @property
    @abc.abstractmethod
    def window(self) -> int:
        """How many tokens of the text a window has."""

    @abc.abstractmethod
    def posed(self, windows: np.ndarray, rng: np.random.Generator) -> Batch:
        """Windows of a text as a task of training."""

    @abc.abstractmethod
    def alone(self, windows: np.ndarray) -> Batch:
        """Windows of n tokens of which only the last is asked for."""

    @abc.abstractmethod
    def validation(self, kept: list[np.ndarray]) -> tuple[Batch, Asked]:
        """All windows that tell the validation loss, and which tokens they ask for."""

    def last(self, kept: list[np.ndarray], most: int) -> tuple[Batch, Asked]:
        """Windows of n tokens that end at places evenly spread, of which only the last token is asked for: its loss after
        n - 1 others is the same question to every model.

        **Arguments**

        - `kept`: stretches of a text.
        - `most`: about how many windows.

        **Returns** the windows, and which tokens they ask for.
        """
        ends = [np.arange(self.context - 1, len(part)) for part in kept]
        every = max(1, sum(map(len, ends)) // most)
        asked = [(k, some[::every]) for k, some in enumerate(ends)]
        windows = [kept[k][end - self.context + 1 : end + 1] for k, some in asked for end in some]
        return self.alone(np.stack(windows)), asked


class Next(Objective):
    """The next token, at every place of a window: a window is n + 1 tokens, of which each but the first is predicted."""

    said = "the next token"

    @property
    def window(self) -> int:
        return self.context + 1

    def posed(self, windows: np.ndarray, rng: np.random.Generator) -> Batch:
        return Batch(windows[:, :-1], windows[:, 1:], np.ones(windows[:, 1:].shape, np.float32))

    def alone(self, windows: np.ndarray) -> Batch:
        counts = np.zeros(windows.shape, np.float32)
        counts[:, -2] = 1.0
        return Batch(windows, np.roll(windows, -1, axis=1), counts)

    def validation(self, kept: list[np.ndarray]) -> tuple[Batch, Asked]:
        """Windows one after another, without gaps but at the ends of stretches."""
        windows, asked = [], []
        for k, part in enumerate(kept):
            count = (len(part) - 1) // self.context
            windows += [part[j * self.context : (j + 1) * self.context + 1] for j in range(count)]
            asked.append((k, 1 + np.arange(count * self.context)))
        return self.posed(np.stack(windows), np.random.default_rng(0)), asked


class Hidden(Objective):
    """Hidden tokens: 15% of a window, the last one always among them, are replaced by a token that stands for them.

    For the validation loss only the last token of a window is hidden. So it is the loss of the next token after n - 1 others, the
    same that a causal model has at the last place of a window.

    **Arguments**

    - `context`: n.
    - `token`: what stands for hidden tokens.
    """

    said = "hidden tokens"

    def __init__(self, context: int, token: int):
        super().__init__(context)
        self.token = token

    @property
    def window(self) -> int:
        return self.context

    def posed(self, windows: np.ndarray, rng: np.random.Generator) -> Batch:
        hidden = rng.random(windows.shape) < HIDDEN
        hidden[:, -1] = True
        return self._without(windows, hidden)

    def _without(self, windows: np.ndarray, hidden: np.ndarray) -> Batch:
        return Batch(np.where(hidden, self.token, windows).astype(np.int32), windows, hidden.astype(np.float32))

    def alone(self, windows: np.ndarray) -> Batch:
        return self._without(windows, np.arange(self.context) == np.full((len(windows), 1), self.context - 1))

    def validation(self, kept: list[np.ndarray]) -> tuple[Batch, Asked]:
        return self.last(kept, WINDOWS)


def objective_of(model: Transformer, context: int) -> Objective:
    """What a model can learn: the next token if it is causal, else hidden ones.

    **Arguments**

    - `model`: the model.
    - `context`: how many tokens it sees at a time.

    **Returns** the objective.

    **Raises** `InputError` where tokens see later ones and the tokenizer has no token for what is hidden.
    """
    if model.architecture.causal:
        return Next(context)
    token = getattr(model.tokenizer, "hidden", None)
    if token is None or token >= len(model.embedding.words):
        raise InputError(
            "Attention that is not causal learns to predict hidden tokens, but this model has no token that stands for them. "
            "Use bytes, with a vocabulary of 257; or causal attention."
        )
    return Hidden(context, token)


class Windows:
    """Random windows of the stretches that are learned from: those of a step depend on the seed and its number alone.

    **Arguments**

    - `parts`: the stretches.
    - `objective`: what is asked of windows.
    - `batch`: how many windows a step has.
    - `seed`: the seed of the random numbers.
    """

    def __init__(self, parts: list[np.ndarray], objective: Objective, batch: int, seed: int):
        self.text, self.objective, self.batch, self.seed = np.concatenate(parts), objective, batch, seed
        begins = np.cumsum([0, *(len(part) for part in parts[:-1])])
        fit = [begin + np.arange(len(part) - objective.window + 1) for begin, part in zip(begins, parts, strict=True)]
        self.starts = np.concatenate(fit)

    def __call__(self, step: int) -> Batch:
        rng = np.random.default_rng((self.seed, step))
        starts = self.starts[rng.integers(len(self.starts), size=self.batch)]
        return self.objective.posed(self.text[starts[:, None] + np.arange(self.objective.window)], rng)
