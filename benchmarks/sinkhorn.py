"""Sinkhorn attention: `python -m benchmarks.sinkhorn sinkhorn CONTENDER`, each in its own process; numbers float64.

Everybody solves until the marginals of columns are 1 to one tolerance, rows exact, and then sums the field. Q and K are random,
or the identity; rounds of ours that are Newton steps are costlier than others, so that their times stand beside them."""

import json
import sys

import numpy as np

from benchmarks.harness import SMALL, warm

N, D = (256, 16) if SMALL else (2048, 64)
FEW = 500
TOLERANCE, MOST = 1e-9, 20_000
EASY = {"A = I, β = 4": (4.0, False), "random Q, K, β = 1": (1.0, True)}
HARD = {f"random Q, K, β = {β:g}": (β, True) for β in (10.0, 100.0, 1000.0)}
MANY = 10_000 if SMALL else 100_000
CONTENDERS = ("tokenfield", "numpy", "torch")


def tokens(n: int) -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(n, D))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def matrices(given: bool) -> tuple[np.ndarray, np.ndarray]:
    Q, K = np.random.default_rng(1).normal(size=(2, D, D)) if given else (np.eye(D), np.eye(D))
    return Q, K


def cases() -> dict[str, tuple[int, float, bool]]:
    return {name: (N, *case) for name, case in EASY.items()} | {name: (FEW, *case) for name, case in HARD.items()}


def with_tokenfield() -> dict:
    import equinox as eqx
    import jax

    import tokenfield as tkf

    field = eqx.filter_jit(lambda attention, mu: attention.field(mu, None, tkf.Dense()))
    solve = eqx.filter_jit(lambda attention, mu: attention.potentials(mu))
    found = {}
    for name, (n, β, given) in cases().items():
        Q, K = matrices(given) if given else (None, None)
        attention, mu = tkf.Sinkhorn(β, Q=Q, K=K, tolerance=TOLERANCE), tkf.Tokens(tokens(n))
        call = lambda attention=attention, mu=mu: np.asarray(jax.block_until_ready(field(attention, mu)))
        how = solve(attention, mu)
        value, note = call(), f"{int(how.rounds)} rounds"
        found[name] = {"seconds": warm(call), "error": float(how.error), "note": note, "check": checked(value)}
    return found | on_the_circle()


def on_the_circle() -> dict:
    """A field by sums in O(n), beside a softmax field by the same sums."""
    import tokenfield as tkf

    mu, found = tkf.Tokens.uniform_sphere(MANY, 2, seed=0), {}
    for name, attention in (("circle", tkf.Sinkhorn(9.0)), ("circle, softmax", tkf.Softmax(9.0))):
        call = lambda attention=attention: np.asarray(attention(mu))
        call()
        found[name] = {"seconds": warm(call), "error": None, "note": f"n = {MANY:,}", "check": None}
    return found


def plain(scores, x, exp, ones, largest) -> tuple:
    """Alternating normalization with the kernel in memory, while it can be held and rounds are left."""
    k = exp(scores - scores.max())
    g, error, rounds = ones, 1.0, 0
    while error > TOLERANCE and rounds < MOST:
        f = 1 / (k @ g)
        column = k.T @ f
        error, rounds = float(largest(abs(g * column - 1))), rounds + 1
        if not error < float("inf"):  # a row or a column has left the range of numbers
            return None, error, rounds
        g = 1 / column if error > TOLERANCE else g
    k = k * g
    return k @ x / k.sum(1)[:, None], error, rounds


def by(library: str) -> dict:
    if library == "torch":
        import torch

        array, exp, largest = torch.from_numpy, torch.exp, torch.max
        ones = lambda n: torch.ones(n, dtype=torch.float64)
    else:
        array, exp, largest, ones = np.asarray, np.exp, np.max, np.ones
    found = {}
    with np.errstate(all="ignore"):
        for name, (n, β, given) in cases().items():
            x, (Q, K) = array(tokens(n)), (array(part) for part in matrices(given))
            call = lambda x=x, Q=Q, K=K, β=β, n=n: plain(β * (x @ Q.T) @ (x @ K.T).T, x, exp, ones(n), largest)
            field, error, rounds = call()
            fails = field is None or error > TOLERANCE
            seconds = 0.0 if fails else warm(call)
            note = f"{rounds} rounds" + (", overflow" if field is None else ", not reached" if fails else "")
            found[name] = {"seconds": seconds, "error": error, "note": note, "check": None if fails else checked(field)}
    return found


def checked(field) -> float:
    return float((np.asarray(field) ** 2).sum())


def main(contender: str) -> None:
    print(json.dumps(with_tokenfield() if contender == "tokenfield" else by(contender)))


if __name__ == "__main__":
    main(sys.argv[2])
