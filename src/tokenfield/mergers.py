"""Mergers: when tokens that had met became one, and who is in whom."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from tokenfield import _checks as check
from tokenfield.errors import InputError


class Merger(NamedTuple):
    """At time t the group of token `gone` joined that of token `into`, and `left` groups remain."""

    t: float
    into: int
    gone: int
    left: int


class Mergers(eqx.Module):
    """The mergers of a run in the order of time. A group is named by its first token.

    `mergers.t`, `.into`, `.gone`, `.left` are arrays, `mergers[k]` is one `Merger`, `mergers.labels(t)` says for every
    original token to which group it belongs.

    Those of an ensemble have its axes in front of all arrays. Members with fewer mergers than others are filled up with some that
    never come: t is infinite, and who joins whom is -1. `runs.member(i).mergers` are the mergers of one of its runs.

    >>> import tokenfield as tkf
    >>> run = tkf.evolve(tkf.sa(9.0), tkf.Tokens.uniform_sphere(20, 2, seed=3), t=1e10, coalesce=1e-5, save="log")
    >>> len(run.mergers), int(run.mergers.left[-1])
    (19, 1)
    >>> run.mergers.labels(1e10).tolist() == [0] * 20
    True
    """

    t: Float[np.ndarray, "*batch k"]
    into: Int[np.ndarray, "*batch k"]
    gone: Int[np.ndarray, "*batch k"]
    left: Int[np.ndarray, "*batch k"]
    n: int = eqx.field(static=True)
    """How many tokens there were; of an ensemble, the most that a member had."""

    @staticmethod
    def stacked(members: "Sequence[Mergers]", batch: tuple[int, ...]) -> "Mergers":
        """The mergers of an ensemble.

        **Arguments**

        - `members`: those of its runs, in the order of an array.
        - `batch`: the shape of the ensemble.

        **Returns** all of them, filled up to the largest number.
        """
        most = max(len(one) for one in members)

        def column(name: str, never: float) -> np.ndarray:
            rows = [np.pad(getattr(one, name), (0, most - len(one)), constant_values=never) for one in members]
            return np.stack(rows).reshape(*batch, most)

        times, who = column("t", np.inf), {name: column(name, -1) for name in ("into", "gone", "left")}
        return Mergers(t=times, **who, n=max(one.n for one in members))

    def member(self, index: tuple[int, ...], n: int) -> "Mergers":
        """Those of one member of an ensemble, which has n tokens."""
        came = np.isfinite(self.t[index])
        cut = {name: getattr(self, name)[index][came] for name in ("t", "into", "gone", "left")}
        return Mergers(**cut, n=n)

    @property
    def counts(self) -> Int[np.ndarray, "*batch"]:
        """How many mergers there were; of an ensemble, in each of its runs."""
        return np.sum(np.isfinite(self.t), axis=-1)

    def _of_one_run(self) -> None:
        if self.t.ndim > 1:
            raise InputError(
                "These are the mergers of an ensemble. Ask those of one of its runs: runs.member(i).mergers, with one index for "
                f"each axis of {self.t.shape[:-1]}."
            )

    def __len__(self) -> int:
        self._of_one_run()
        return len(self.t)

    def __getitem__(self, k: int) -> Merger:
        if isinstance(k, bool) or not isinstance(k, int | np.integer):
            raise InputError(f"Mergers are asked for by whole numbers, mergers[0], not by {k!r:.60}.")
        if not -len(self) <= k < len(self):
            raise IndexError(f"There are {len(self)} mergers, but number {k} was asked for.")
        return Merger(float(self.t[k]), int(self.into[k]), int(self.gone[k]), int(self.left[k]))

    def __iter__(self) -> Iterator[Merger]:
        return (self[k] for k in range(len(self)))

    def labels(self, t: Any) -> Int[np.ndarray, " n"]:
        """For every original token, the first token of its group at time t."""
        self._of_one_run()
        t, label = check.number("t", t), np.arange(self.n)
        for k in range(int(np.searchsorted(self.t, t, side="right"))):
            label[label == self.gone[k]] = self.into[k]
        return label

    def groups(self, t: Any) -> Int[np.ndarray, ""]:
        """How many groups there are at time t."""
        self._of_one_run()
        before = int(np.searchsorted(self.t, check.number("t", t), side="right"))
        return np.asarray(self.n - before)

    def followed_by(self, more: "Mergers", t: float) -> "Mergers":
        """These mergers, and those of a run that went on from time t, where it found again who had met before."""
        new = more.t > t
        join = lambda name: np.concatenate([getattr(self, name), getattr(more, name)[new]])
        return Mergers(t=join("t"), into=join("into"), gone=join("gone"), left=join("left"), n=self.n)

    def __repr__(self) -> str:
        if self.t.ndim > 1:
            least, most = self.counts.min(), self.counts.max()
            return f"{least} to {most} mergers a run" if least < most else f"{least} mergers a run"
        if len(self) == 0:
            return f"no mergers of {self.n} tokens"
        last = ", ".join(f"t = {one.t:.4g} ({one.left} left)" for one in list(self)[-3:])
        plural = "merger" if len(self) == 1 else "mergers"
        return f"{len(self)} {plural} of {self.n} tokens, the last at {last}"
