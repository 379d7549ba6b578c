"""Causal velocities by halves and densely, of all earlier tokens and of a window of a tenth: `python -m benchmarks.causal causal
CONTENDER`, each in its own process. SA at β = 9, uniformly random tokens, numbers float64."""

import itertools
import json
import sys

import numpy as np

from benchmarks.harness import SMALL, furthest, times_only, warm

BETA, TOLERANCE, CHECKED = 9.0, 1e-9, 200
SIZES = (2_000, 10_000) if SMALL else (10_000, 30_000, 100_000, 300_000)
CONTENDERS = ("tokenfield", "dense")
FURTHEST = {"tokenfield": 10**6, "dense": 10**5}
SPACES = {"circle": 2, "sphere": 3}
WINDOWS = {"": None, ", window": 0.1}
CASES = [space + window for space in SPACES for window in WINDOWS]


def main(contender: str) -> None:
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    import tokenfield as tkf

    velocity = eqx.filter_jit(lambda flow, mu, sums: flow.velocity(jnp.zeros(()), mu, None, sums))
    found = {}
    for (space, d), (name, window) in itertools.product(SPACES.items(), WINDOWS.items()):
        flow = tkf.Flow(tkf.Causal(tkf.Softmax(BETA), window=window), tkf.PostLN())
        for n in (n for n in SIZES if n <= FURTHEST[contender]):
            mu = tkf.Tokens.uniform_sphere(n, d, seed=0)
            sums = flow.summation(mu, None, "dense" if contender == "dense" else space, TOLERANCE)
            call = lambda flow=flow, mu=mu, sums=sums: np.asarray(jax.block_until_ready(velocity(flow, mu, sums)))
            error = None if times_only() else furthest(call()[-CHECKED:], direct(np.asarray(mu.x), window))
            found[f"{space}{name} {n}"] = {"seconds": warm(call), "error": error, "note": sums.name}
    print(json.dumps(found))


def direct(x: np.ndarray, window: float | None) -> np.ndarray:
    """The velocities of the last tokens, row by row."""
    rows, τ = [], np.linspace(0, 1, len(x))
    for i in range(len(x) - CHECKED, len(x)):
        seen = (τ <= τ[i]) & (window is None or τ >= τ[i] - window)
        kernel = np.exp(BETA * (x[seen] @ x[i] - 1))
        a = kernel @ x[seen] / kernel.sum()
        rows.append(a - (a @ x[i]) * x[i])
    return np.stack(rows)


if __name__ == "__main__":
    main(sys.argv[2])
