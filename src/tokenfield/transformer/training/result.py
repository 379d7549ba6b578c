"""What came of a training: the model, its losses, how it ended, and the story of it."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np

from tokenfield.draw.page import BLUE, RED, bare, blank, title, written
from tokenfield.draw.view import FAINT, INK
from tokenfield.status import Status
from tokenfield.transformer.model import Transformer


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Training:
    """What `train` returns. `print` tells its story.

    **Arguments**

    - `model`: the trained model; of a run that diverged, that of the last good checkpoint.
    - `losses`: the loss of every step, in nats a token, shape (steps,).
    - `checks`: validation losses, one row (step, loss) each.
    - `status`: COMPLETED; STOPPED, where its minutes were over; INTERRUPTED; or BLOW_UP, where it diverged.
    - `words`: how it ended, in words.
    - `trigram`: the validation loss of a trigram model on the same text.
    - `asked`: how many steps it was asked for.
    - `tokens`: how many tokens a step sees.
    - `predicts`: what it learned to predict.
    - `seconds`: how long it took, that of earlier processes included.
    - `folder`: where it is kept, if it is.
    """

    model: Transformer
    losses: np.ndarray
    checks: np.ndarray
    status: Status
    words: str
    trigram: float
    asked: int
    tokens: int
    predicts: str
    seconds: float
    folder: Path | None = None

    @property
    def ok(self) -> bool:
        """Whether it did not diverge."""
        return self.status is not Status.BLOW_UP

    @property
    def validation(self) -> float:
        """The last validation loss, in nats a token."""
        return float(self.checks[-1, 1])

    @property
    def data(self) -> Any:
        """Both losses as an xarray data set, over the steps of each."""
        import xarray as xr

        return xr.Dataset(
            {"loss": ("step", self.losses), "validation": ("check", self.checks[:, 1])},
            {"step": np.arange(len(self.losses)), "check": self.checks[:, 0].astype(int)},
            {"trigram": self.trigram, "status": self.status.name, "units": "nats a token"},
        )

    def __str__(self) -> str:
        took = f"{len(self.losses)} of {self.asked} steps of {self.tokens:,} tokens in {self.seconds:.0f} s"
        lines = [
            f"A training of {self.model}.",
            f"  predicts    {self.predicts}",
            f"  took        {took}, {len(self.losses) * self.tokens:,} tokens in all",
            f"  validation  loss {self.validation:.3f} nats a token; it was {self.checks[0, 1]:.3f} at first",
            f"  trigrams    a trigram model of the same text has {self.trigram:.3f}",
            f"  ended       as {self.status}: it {self.words}",
        ]
        return "\n".join(lines)

    __repr__ = __str__

    def plot(self, path: str | os.PathLike | None = None) -> Any:
        """The loss curve: every step, validation, and the trigram model.

        **Arguments**

        - `path`: a file for the picture; left out, the figure itself is returned.

        **Returns** the path, or the figure.

        **Raises** `StoreError` where the picture cannot be written.
        """
        figure = blank((12, 5))
        ax = figure.subplots()
        steps = 1 + np.arange(len(self.losses))
        ax.plot(steps, self.losses, color=FAINT, lw=0.8, label="every step", zorder=1)
        ax.plot(*self.checks.T, color=BLUE, lw=1.8, marker="o", ms=3, label="validation")
        ax.axhline(self.trigram, color=RED, lw=1.2, ls="--", label=f"a trigram model: {self.trigram:.2f}")
        ax.set_xlim(0, max(self.asked, 1))
        ax.set_xlabel("step")
        ax.set_ylabel("loss, nats a token", color=INK)
        ax.legend(frameon=False)
        bare(ax)
        title(figure, f"{self.model.architecture}")
        return written(figure, path)
