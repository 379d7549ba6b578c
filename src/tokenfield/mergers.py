"""Mergers: when tokens that had met became one, and who is in whom."""

from collections.abc import Iterator
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

    >>> import tokenfield as tkf
    >>> run = tkf.evolve(tkf.sa(9.0), tkf.Tokens.uniform_sphere(20, 2, seed=3), t=1e10, coalesce=1e-5, save="log")
    >>> len(run.mergers), int(run.mergers.left[-1])
    (19, 1)
    >>> run.mergers.labels(1e10).tolist() == [0] * 20
    True
    """

    t: Float[np.ndarray, " k"]
    into: Int[np.ndarray, " k"]
    gone: Int[np.ndarray, " k"]
    left: Int[np.ndarray, " k"]
    n: int = eqx.field(static=True)

    def __len__(self) -> int:
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
        t, label = check.number("t", t), np.arange(self.n)
        for k in range(int(np.searchsorted(self.t, t, side="right"))):
            label[label == self.gone[k]] = self.into[k]
        return label

    def groups(self, t: Any) -> Int[np.ndarray, ""]:
        """How many groups there are at time t."""
        before = int(np.searchsorted(self.t, check.number("t", t), side="right"))
        return np.asarray(self.n - before)

    def followed_by(self, more: "Mergers", t: float) -> "Mergers":
        """These mergers, and those of a run that went on from time t, where it found again who had met before."""
        new = more.t > t
        join = lambda name: np.concatenate([getattr(self, name), getattr(more, name)[new]])
        return Mergers(t=join("t"), into=join("into"), gone=join("gone"), left=join("left"), n=self.n)

    def __repr__(self) -> str:
        if len(self) == 0:
            return f"no mergers of {self.n} tokens"
        last = ", ".join(f"t = {one.t:.4g} ({one.left} left)" for one in list(self)[-3:])
        plural = "merger" if len(self) == 1 else "mergers"
        return f"{len(self)} {plural} of {self.n} tokens, the last at {last}"
