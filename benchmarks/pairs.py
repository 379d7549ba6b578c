"""The dense sum beside its peers, in its own process: `python -m benchmarks.pairs dense CONTENDER`.

`python -m benchmarks.pairs memory N`: how far the resident set grows while N tokens are summed densely.
"""

import json
import resource
import sys
from pathlib import Path

import numpy as np

from benchmarks import sums
from benchmarks.harness import furthest, times_only, warm

BETA = 9.0
SHAPES = {"d = 3, n = 10,000": (10_000, 3), "d = 128, n = 2,048": (2_048, 128), "d = 1024, n = 2,048": (2_048, 1024)}
CONTENDERS = ("tokenfield", "torch_sdpa", "keops", "numpy_in_place", "numpy")
CHECKED = 200


def tokens(n: int, d: int) -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def numpy_in_place(s: sums.Sum, x: np.ndarray, rows: np.ndarray):
    """One n × n buffer, exponents shifted by the largest score, which is known beforehand."""
    scores = np.empty((len(x), len(x)))

    def velocity():
        k = np.matmul(s.beta * x, x.T, out=scores)
        k -= s.beta
        np.exp(k, out=k)
        a = k @ x
        a /= k.sum(axis=1, keepdims=True)
        return sums.tangent(a, x)

    return velocity, "one n × n array, exponents shifted"


def dense(contender: str) -> dict:
    build = {"tokenfield": sums.dense, "numpy_in_place": numpy_in_place}.get(contender) or getattr(sums, contender)
    results = {}
    for name, (n, d) in SHAPES.items():
        if d > 3 and contender not in ("tokenfield", "torch_sdpa", "numpy_in_place"):
            continue  # KeOps is made for small d
        x, s = tokens(n, d), sums.Sum("sphere", "sa", BETA, n)
        call, note = build(s, x, x)
        value = call()
        error = None if times_only() else furthest(value[:CHECKED], sums.direct(s, x))
        results[name] = {"seconds": warm(call, least=5, budget=1.5), "error": error, "note": note}
    return results


def memory(n: int) -> dict:
    """The peak of the resident set over what was resident before, its own arrays and compiling included."""
    small = sums.Sum("sphere", "sa", BETA, 1_000)
    sums.dense(small, small.tokens, small.tokens)[0]()
    large = small._replace(n=n)
    x = large.tokens
    page = resource.getpagesize()
    before = int(Path("/proc/self/statm").read_text().split()[1]) * page
    sums.dense(large, x, x)[0]()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"megabytes": max(0, peak - before) / 1e6, "n": n}


if __name__ == "__main__":
    case, argument = sys.argv[1:]
    print(json.dumps(memory(int(argument)) if case == "memory" else dense(argument)))
