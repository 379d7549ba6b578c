"""What a model has to beat: a trigram model of the same text.

p₃(c|ab) = λ₃ n(abc)/n(ab) + (1 - λ₃) p₂(c|b),  p₂(c|b) = λ₂ n(bc)/n(b) + (1 - λ₂) p₁(c),  p₁(c) = λ₁ n(c)/n + (1 - λ₁)/V

with a λ₃ for every power of two of n(ab), and a λ₂ for every power of two of n(b)  [jelinek1980]. They are fitted by
expectation–maximization: on every tenth stretch of 4096 tokens of the text that is learned from, with the counts of the other nine;
then everything is counted. Each λ is fitted as if one token more had been explained by halves, so that none is 0 or 1; a context
that was never seen has λ = 0.
"""

import dataclasses

import numpy as np

HELD, STRETCH, ROUNDS = 10, 4096, 40
MOST = 48
"""Powers of two that have a λ of their own."""


@dataclasses.dataclass(frozen=True)
class Trigram:
    """An interpolated trigram model.

    **Arguments**

    - `vocabulary`: V.
    - `counts`: for k = 1, 2, 3 the sequences of k tokens, as sorted numbers in base V + 1, and how often each was seen.
    - `weights`: λ₁, λ₂ and λ₃, by the power of two of their context's count.

    >>> text = np.tile([0, 1, 2], 5000)
    >>> bool(Trigram.fitted([text], 3).nats(text)[2:].max() < 0.01)
    True
    """

    vocabulary: int
    counts: tuple[tuple[np.ndarray, np.ndarray], ...]
    weights: tuple[np.ndarray, ...]

    @classmethod
    def fitted(cls, parts: list[np.ndarray], vocabulary: int) -> "Trigram":
        """The model of some stretches of a text.

        **Arguments**

        - `parts`: numbers of tokens, one array per stretch.
        - `vocabulary`: V.

        **Returns** the model.
        """
        pieces = [part[at : at + STRETCH] for part in parts for at in range(0, len(part), STRETCH)]
        if len(pieces) < HELD:
            pieces = [piece for part in pieces for piece in np.array_split(part, HELD)]
        held = pieces[HELD - 1 :: HELD]
        others = [piece for k, piece in enumerate(pieces) if k % HELD != HELD - 1]
        fresh = tuple(np.full(MOST, 0.5) for _ in range(3))
        first = cls(vocabulary, _counts(others, vocabulary), fresh)
        for order in range(3):
            first = first._with_weights(order, held)
        return cls(vocabulary, _counts(parts, vocabulary), first.weights)

    def nats(self, ids: np.ndarray) -> np.ndarray:
        """-log p of every token, given the two before it; where there are fewer, given those.

        **Arguments**

        - `ids`: numbers of tokens.

        **Returns** one number per token.
        """
        p = np.full(len(ids), 1 / self.vocabulary)
        for order in range(3):
            share, bucket = self._share(ids, order)
            λ = np.where(bucket >= 0, self.weights[order][bucket], 0.0)
            p = λ * share + (1 - λ) * p
        return -np.log(p)

    def _with_weights(self, order: int, held: list[np.ndarray]) -> "Trigram":
        """λ of an order, those below being known: how often a held token is better explained by the longer context."""
        below = dataclasses.replace(self, weights=tuple(w if k < order else 0 * w for k, w in enumerate(self.weights)))
        q = np.concatenate([np.exp(-below.nats(ids)) for ids in held])
        share, bucket = (
            np.concatenate(parts) for parts in zip(*(self._share(ids, order) for ids in held), strict=True)
        )
        q, share, bucket = (part[bucket >= 0] for part in (q, share, bucket))
        λ, seen = np.full(MOST, 0.5), np.bincount(bucket, minlength=MOST)
        for _ in range(ROUNDS):
            explained = λ[bucket] * share / (λ[bucket] * share + (1 - λ[bucket]) * q)
            λ = (np.bincount(bucket, explained, MOST) + 0.5) / (seen + 1)  # as if one token more were half explained
        return dataclasses.replace(self, weights=tuple(λ if k == order else w for k, w in enumerate(self.weights)))

    def _share(self, ids: np.ndarray, order: int) -> tuple[np.ndarray, np.ndarray]:
        """n(context and token)/n(context) for every token, and the power of two of n(context); -1 where it was not seen."""
        whole = _found(_numbers(ids, order + 1, self.vocabulary), self.counts[order])
        context = (
            np.full(len(ids), self.counts[0][1].sum())
            if order == 0
            else _found(_numbers(ids, order + 1, self.vocabulary) // (self.vocabulary + 1), self.contexts(order))
        )
        bucket = np.where(context > 0, np.minimum(np.log2(np.maximum(context, 1)), MOST - 1).astype(int), -1)
        return whole / np.maximum(context, 1), bucket

    def contexts(self, order: int) -> tuple[np.ndarray, np.ndarray]:
        """How often contexts of so many tokens were seen before another token."""
        keys, counts = self.counts[order]
        contexts, where = np.unique(keys // (self.vocabulary + 1), return_inverse=True)
        return contexts, np.bincount(where, counts).astype(np.int64)


def _counts(parts: list[np.ndarray], vocabulary: int) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    found = []
    for k in (1, 2, 3):
        numbers = np.concatenate([_numbers(part, k, vocabulary)[k - 1 :] for part in parts])
        found.append(np.unique(numbers, return_counts=True))
    return tuple(found)


def _numbers(ids: np.ndarray, k: int, vocabulary: int) -> np.ndarray:
    """For every token the k tokens that end with it as one number; V stands before the first token."""
    ids = np.concatenate([np.full(k - 1, vocabulary, np.int64), ids.astype(np.int64)])
    count = len(ids) - k + 1
    number = np.zeros(count, np.int64)
    for j in range(k):
        number = number * (vocabulary + 1) + ids[j : j + count]
    return number


def _found(numbers: np.ndarray, counts: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    keys, seen = counts
    at = np.minimum(np.searchsorted(keys, numbers), len(keys) - 1)
    return np.where(keys[at] == numbers, seen[at], 0)
