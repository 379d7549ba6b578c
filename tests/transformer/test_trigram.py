"""The trigram model that trained ones are compared with."""

import numpy as np
import pytest

from tests.transformer.tiny_training import ENTROPY, coin
from tokenfield.transformer.training.trigram import Trigram


def test_probabilities_sum_to_one():
    """Whatever the context: often seen, seldom, never, or none."""
    text = np.random.default_rng(0).integers(0, 5, 3000)
    model = Trigram.fitted([text], 7)
    for before in ([0, 1], [4, 4], [5, 6], [6, 0], [3], []):
        p = [np.exp(-model.nats(np.array([*before, c]))[-1]) for c in range(7)]
        assert sum(p) == pytest.approx(1.0, abs=1e-12) and min(p) > 0


def test_a_chain_has_its_entropy():
    text = coin(60_000)
    found = Trigram.fitted([text[:50_000]], 257).nats(text[50_000:]).mean()
    own = ENTROPY + (np.mean(text[50_001:] == text[50_000:-1]) - 0.1) * np.log(9)
    assert found == pytest.approx(own, rel=0.01)


def test_counts_do_not_cross_stretches():
    """Of two stretches, neither pair nor triple goes from one to the next."""
    model = Trigram.fitted([np.array([0, 0, 0, 0]), np.array([1, 1, 1, 1])], 2)
    pairs = dict(zip(*(part.tolist() for part in model.counts[1]), strict=True))
    assert pairs == {0: 3, 1 * 3 + 1: 3}


def test_it_is_the_written_formula():
    """On a text of two letters, against the recursion written out."""
    text = np.random.default_rng(1).integers(0, 2, 400)
    model = Trigram.fitted([text], 2)
    a, b, c = text[10:13]
    count = lambda *word: sum(tuple(text[i : i + len(word)]) == word for i in range(len(text) - len(word) + 1))
    λ1 = model.weights[0][int(np.log2(len(text)))]
    p = λ1 * count(c) / len(text) + (1 - λ1) / 2
    for context in ((b,), (a, b)):
        before = count(*context, 0) + count(*context, 1)
        λ = model.weights[len(context)][int(np.log2(before))]
        p = λ * count(*context, c) / before + (1 - λ) * p
    assert model.nats(text)[12] == pytest.approx(-np.log(p), rel=1e-12)
