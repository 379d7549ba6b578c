"""`python -m benchmarks costs`: the constants of the cost model in summation/choose.py, measured here beside those in the code.

Times of single sums are fitted by least squares of relative errors. The same fit of what `_cost` says at the same places
gives back the constants in the code, so that both columns mean the same.
"""

import dataclasses
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import nnls

from benchmarks.harness import markdown, warm
from tokenfield.summation import Dense, Request
from tokenfield.summation.base import Related
from tokenfield.summation.choose import _cost, _degree, _make, _why_not
from tokenfield.summation.circle import Circle, direct_cost, transforms_cost
from tokenfield.summation.euclidean import Euclidean

TOLERANCE = 1e-9


class Point(NamedTuple):
    """One sum: its features, its milliseconds, and those of the model."""

    features: list[float]
    measured: float
    model: float


def milliseconds(summation, q, k, v) -> float:
    w = jnp.full(len(k), 1 / len(k))
    beta = jnp.linalg.norm(q[0]) / jnp.linalg.norm(k[0])
    related = Related(beta, jnp.ones(())) if q.shape == k.shape else None  # as attention at the tokens themselves asks
    sums = summation.tangential()
    call = jax.jit(lambda q, k, v, w: sums.exponential(q, k, v, w, related=related).average)
    jax.block_until_ready(call(q, k, v, w))
    return 1e3 * warm(lambda: jax.block_until_ready(call(q, k, v, w)), least=5, budget=0.4)


def points(n: int, d: int, spread: float | None = None) -> np.ndarray:
    """On the sphere, or within a cube of a width."""
    rng = np.random.default_rng(0)
    if spread is not None:
        return rng.uniform(-spread / 2, spread / 2, (n, d))
    x = rng.normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def request(x: np.ndarray, β: float, unit: bool) -> Request:
    n, d = x.shape
    root = np.sqrt(β) * np.eye(d)
    return Request(n, d, n, TOLERANCE, float, [(root, root)], unit=unit, points=x)


def dense() -> list[Point]:
    found = []
    for n in (1_000, 4_000):
        for d in (2, 3, 16, 64, 256):
            x = jnp.asarray(points(n, d))
            asked = request(np.asarray(x), 4.0, True)
            found.append(Point([1, n**2, n**2 * d], milliseconds(Dense(), 4 * x, x, x), _cost("dense", asked)))
    return found


def circle(direct: bool) -> list[Point]:
    """Fixed, and per token (queries and keys): by transforms, or point by point, there also per degree."""
    found = []
    for n in (1_000, 3_000, 10_000, 30_000) if direct else (10_000, 30_000, 100_000):
        for β in (1.0, 9.0, 100.0) if direct else (9.0,):
            x = points(n, 2)
            asked, u = request(x, β, True), jnp.asarray(x)
            took = milliseconds(Circle(β, TOLERANCE, direct=direct), β * u, u, u)
            model = direct_cost(_degree(asked), 2 * n) if direct else transforms_cost(2 * n)
            found.append(Point([1, 2 * n * (_degree(asked) if direct else 1)], took, model))
    return found


def sphere() -> list[Point]:
    """Fixed, per token (queries and keys), per cubed degree."""
    found = []
    for n in (1_000, 10_000, 100_000):
        for β in (1.0, 9.0, 100.0, 400.0):
            x = points(n, 3)
            asked, u = request(x, β, True), jnp.asarray(x)
            took = milliseconds(_make("sphere", asked), β * u, u, u)
            found.append(Point([1, 2 * n, _degree(asked) ** 3], took, _cost("sphere", asked)))
    return found


def euclidean(d: int) -> list[Point]:
    """Fixed, per token, per Fourier coefficient."""
    found = []
    for n in (1_000, 10_000, 100_000):
        for spread in {1: (2, 5, 8), 2: (2, 4, 5.5), 3: (1.5, 3, 4.5)}[d]:
            x = points(n, d, spread)
            asked = request(x, 1.0, False)
            assert _why_not("euclidean", asked) is None, spread  # else the model is never asked
            # Rows far out would be summed again, densely: a looser guard leaves the transforms alone.
            summation, y = _make("euclidean", dataclasses.replace(asked, tolerance=1e300)), jnp.asarray(x)
            assert isinstance(summation, Euclidean)
            features = [1, 2 * n, (2 * summation.modes + 1) ** d]
            found.append(Point(features, milliseconds(summation, y, y, y), _cost("euclidean", asked)))
    return found


def fitted(found: list[Point], which: str) -> np.ndarray:
    """Constants ≥ 0 that fit with the least relative errors."""
    features, times = np.array([p.features for p in found], float), np.array([getattr(p, which) for p in found])
    scale = np.max(features, axis=0)
    return nnls(features / scale / times[:, None], np.ones(len(times)))[0] / scale


def main() -> None:
    sums: dict[str, tuple[Callable[[], list[Point]], list[str]]] = {
        "dense": (dense, ["fixed", "per pair", "per pair and dimension"]),
        "circle, by transforms": (lambda: circle(direct=False), ["fixed", "per token"]),
        "circle, point by point": (lambda: circle(direct=True), ["fixed", "per token and degree"]),
        "sphere": (sphere, ["fixed", "per token", "per degree³"]),
    }
    for d in (1, 2, 3):
        sums[f"euclidean, d = {d}"] = (lambda d=d: euclidean(d), ["fixed", "per token", "per coefficient"])
    rows, began = [], time.perf_counter()
    for name, (measure, constants) in sums.items():
        found = measure()
        here, code = fitted(found, "measured"), fitted(found, "model")
        ratios = [p.measured / p.model for p in found]
        apart = f"{min(ratios):.2f} to {max(ratios):.2f}"
        for i, constant in enumerate(constants):
            rows.append([name, constant, f"{here[i]:.2g}", f"{code[i]:.2g}", apart if i == 0 else ""])
        print(f"  {name}: {time.perf_counter() - began:.0f} s", flush=True)
    head = ["sum", "constant", "measured here, ms", "in choose.py, ms", "measured / model, over all sizes"]
    print("\n" + markdown("", head, rows))


if __name__ == "__main__":
    main()
