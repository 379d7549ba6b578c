"""A training that takes a second: a small model, and a text of which every token but one in four is certain."""

import numpy as np

import tokenfield as tkf

TEXT = "to be or not to be, that is the question. " * 30
NUMBERS = {"steps": 24, "batch": 4, "lr": 0.01, "warmup": 4, "every": 3}


def small(**changes) -> tkf.Transformer:
    """A model of some thousand weights."""
    sizes = {"vocabulary": 257, "d": 8, "layers": 1, "heads": 2, "context": 8, "hidden": 16}
    return tkf.Transformer.random(tkf.Architecture(**{**sizes, **changes}), seed=1)


def coin(n: int, seed: int = 0) -> np.ndarray:
    """Bytes of a Markov chain on two letters: each letter is followed by the other with probability 0.9."""
    flips = np.random.default_rng(seed).random(n) < 0.9
    return np.where(np.cumsum(flips) % 2, ord("a"), ord("b"))


ENTROPY = -(0.9 * np.log(0.9) + 0.1 * np.log(0.1))
"""Of that chain, in nats a token."""
