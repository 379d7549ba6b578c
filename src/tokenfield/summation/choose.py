"""Which summation serves a request. Named ones are honoured or refused; what is left open is decided by cost."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from tokenfield._checks import brief
from tokenfield.errors import InputError, suggest
from tokenfield.summation.base import AbstractSummation
from tokenfield.summation.circle import Circle, direct_cost, reach, transforms_cost
from tokenfield.summation.dense import Dense
from tokenfield.summation.euclidean import Euclidean, frequencies
from tokenfield.summation.halving import BLOCK, LEAF, rounds_for
from tokenfield.summation.spectral import AbstractSpectral
from tokenfield.summation.sphere import Sphere

KINDS: dict[str, type[AbstractSummation]] = {
    "dense": Dense,
    "circle": Circle,
    "sphere": Sphere,
    "euclidean": Euclidean,
}

ROOM = 1.25
"""How much farther apart tokens may come than at first, before Euclidean sums become dense ones."""
MOST_MODES = {1: 2**17, 2: 2**10, 3: 2**6}
"""Frequencies per dimension that Euclidean sums may have; in three dimensions 128³ coefficients."""
MOST_DEGREES = 512
"""The degree up to which the Legendre table of the sphere is made: half a gigabyte."""


@dataclasses.dataclass(frozen=True)
class Request:
    """What sums are asked for: scores <Qx, Ky> (β in Q) between query points and the tokens x, in R^d.

    **Arguments**

    - `n`, `d`: how many tokens, and the dimension of their space.
    - `queries`: how many query points.
    - `tolerance`: how large a row's error may be, relative to its own total.
    - `dtype`: the precision of the tokens.
    - `scores`: one pair (Q, K) per head as float64 matrices; None if a kernel is no exponential of an inner product or its
      parameters are not known yet.
    - `unit`: whether x are unit vectors and stay so.
    - `points`: tokens and query points as they are now; None if not known yet.
    - `halved`: whether sums are over earlier tokens, made of sums of halves.
    - `seen`: how many tokens a token sees on average, where those have windows; None for all earlier ones.
    - `batch`: whether such sums are computed for many measures side by side, by vmap.
    """

    n: int
    d: int
    queries: int
    tolerance: Any
    dtype: Any
    scores: list[tuple[np.ndarray, np.ndarray]] | None = None
    unit: bool = False
    points: np.ndarray | None = None
    halved: bool = False
    seen: float | None = None
    batch: bool = False


def choose(summation: Any = None, request: Request | None = None) -> AbstractSummation:
    """The summation that serves a request: the one asked for, or the cheapest to its tolerance.

    **Arguments**

    - `summation`: a summation, which is taken as it is; or a name, "dense", "circle", "sphere" or "euclidean"; left out, the
      cheapest.
    - `request`: what is to be summed; left out, dense sums serve.

    **Returns** a summation.

    **Raises** `InputError` where the name is unknown, or that summation does not serve here, saying why.

    >>> choose("dense").exact
    True
    """
    if isinstance(summation, AbstractSummation):
        return summation
    if summation is not None and (not isinstance(summation, str) or summation not in KINDS):
        raise InputError(f"Unknown summation {brief(summation)}. {suggest(summation, KINDS)}")
    if request is None or summation == "dense":
        return Dense()
    if summation is not None:
        return _named(summation, request)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is served by dense sums
        costs = {name: _cost(name, request) for name in KINDS if _why_not(name, request) is None}
    return _make(min(costs, key=costs.__getitem__), request)


def _named(name: str, request: Request) -> AbstractSummation:
    reason = _why_not(name, request)
    if reason is not None:
        raise InputError(f"Summation {name!r} does not serve here: {reason}. Leave `summation` out to have one chosen.")
    return _make(name, request)


def _make(name: str, r: Request) -> AbstractSummation:
    if name == "circle":
        return Circle(max(_couplings(r)), r.tolerance, direct=True if r.batch else None)
    if name == "sphere":
        return Sphere(max(_couplings(r)), r.tolerance)
    if name == "euclidean":
        root = _root(r)
        assert root is not None
        return Euclidean(root, _extent(root, r), r.d, r.tolerance)
    return KINDS[name]()


def _why_not(name: str, r: Request) -> str | None:
    """Why a summation cannot serve, None if it can."""
    if name == "dense":
        return None
    if r.d > 3:
        return "it needs d ≤ 3"
    if r.batch and r.halved:
        return "sums over earlier tokens are dense where many runs are computed side by side"
    if r.scores is None:
        return "it sums exponentials of inner products, with parameters that are known when the run begins and do not change"
    if name == "euclidean":
        return _why_not_euclidean(r)
    d = {"circle": 2, "sphere": 3}[name]
    if r.d != d or not r.unit:
        return f"tokens must be read as unit vectors in R^{d} (Post-LN and its relatives, no gain)"
    couplings = _couplings(r)
    if not couplings:
        return "Q and K must be multiples of rotations"
    if name == "sphere" and _degree(r) > MOST_DEGREES:
        return f"β = {max(couplings):g} needs more than {MOST_DEGREES} degrees"
    if _noise(_degree(r), r) > 0.1 * _uniform(max(couplings), d):
        return f"a tolerance of {r.tolerance:.0e} is below what its transforms reach"
    return None


def _why_not_euclidean(r: Request) -> str | None:
    root = None if r.d > 3 or r.unit else _root(r)
    if root is None:
        return "it needs d ≤ 3 and one symmetric positive definite KᵀQ"
    if r.points is None:
        return "it needs to know where tokens are"
    M = frequencies(_extent(root, r))
    if MOST_MODES[r.d] < M:
        return f"tokens spread so far that it would need {M} frequencies per dimension"
    spread = 0.5 * float(np.max(np.sum(_placed(root, r) ** 2, axis=1)))
    if spread > 600 or _noise(M, r) * math.exp(spread) > 0.1:
        return "tokens lie so far out that the farthest would drown the others"
    return None


def _couplings(r: Request) -> list[float]:
    """β = |Qx||Ky| of every head for unit x and y; empty where Q or K is no multiple of a rotation."""
    found = [(_stretch(Q), _stretch(K)) for Q, K in r.scores or []]
    return [] if any(None in pair for pair in found) else [q * k for q, k in found if q is not None and k is not None]


def _degree(r: Request) -> int:
    """The degree of the series on the circle or the sphere."""
    return reach(max(_couplings(r)), r.d, AbstractSpectral.errors(0, float, r.tolerance)[0])


def _stretch(matrix: np.ndarray) -> float | None:
    """c with MᵀM = c² I, M square."""
    square = matrix.T @ matrix
    c2 = square[0, 0]
    rotates = matrix.shape == square.shape and np.allclose(square, c2 * np.eye(len(square)), rtol=0, atol=1e-12 * c2)
    return math.sqrt(c2) if rotates else None


def _root(r: Request) -> np.ndarray | None:
    """R = (KᵀQ)^{1/2} where Q and K are square with K = I or K ∝ Q, so that queries are R² and keys 1 in one system of
    coordinates; the same for all heads."""
    if r.scores is None or len(r.scores) != 1:
        return None
    Q, K = r.scores[0]
    if Q.shape != K.shape or Q.shape[0] != Q.shape[1] or not np.any(K):
        return None
    A = Q @ np.linalg.pinv(K)  # queries of a key's own place: <Qx, Ky> = <A(Kx), Ky>
    if not np.allclose(A @ K, Q) or not np.allclose(A, A.T, rtol=0, atol=1e-12 * np.abs(A).max()):
        return None
    values, vectors = np.linalg.eigh(A)
    return (vectors * np.sqrt(values)) @ vectors.T if values.min() > 1e-12 * values.max() else None


def _extent(root: np.ndarray, r: Request) -> float:
    return ROOM * float(np.max(np.ptp(_placed(root, r), axis=0)))


def _placed(root: np.ndarray, r: Request) -> np.ndarray:
    """Tokens in units of the kernel's width: R K x."""
    assert r.points is not None
    assert r.scores is not None
    return r.points @ r.scores[0][1].T @ root


def _noise(modes: float, r: Request) -> float:
    """The least share of all mass that a row's total must have to be summed fast."""
    wide = jnp.result_type(float)
    _, δ = AbstractSpectral.errors(modes, wide, r.tolerance)
    return 2 * δ / r.tolerance


def _uniform(β: float, d: int) -> float:
    """The total of e^{β(<x,y>-1)} over the uniform measure, roughly."""
    return 1 / (1 + math.sqrt(2 * math.pi * β)) if d == 2 else 1 / (1 + 2 * β)


# Milliseconds on two cores, rounded from what `python -m benchmarks costs` measured; only their ratios matter. The fixed
# parts of dense sums and the coefficients of Euclidean ones in d ≤ 2 are too small to be fitted, and are estimates.


def _cost(name: str, r: Request) -> float:
    if r.halved:
        return _halved_cost(name, r)
    pairs, both = r.n * r.queries, r.n + r.queries
    if name == "dense":
        return (0 if r.batch else 0.05) + pairs * (1.8e-6 + 7.4e-8 * r.d)
    if name == "circle":  # a batch shares what is fixed
        direct = direct_cost(_degree(r), both)
        return direct - direct_cost(0, 0) if r.batch else min(direct, transforms_cost(both))
    if name == "sphere":
        return 3.9 + 3.3e-4 * both + 9.1e-6 * _degree(r) ** 3
    root = _root(r)
    assert root is not None
    coefficients = (2 * frequencies(_extent(root, r)) + 1) ** r.d
    return 2 + {1: 8.1e-5, 2: 2.6e-4, 3: 2.3e-3}[r.d] * both + {1: 1e-4, 2: 1e-4, 3: 6.3e-4}[r.d] * coefficients


def _halved_cost(name: str, r: Request) -> float:
    """Sums over earlier tokens: half of all pairs, or blocks of them and the sums between halves."""
    of = lambda name, n: _cost(name, dataclasses.replace(r, n=n, queries=n, halved=False))
    if r.seen is not None:
        return _windowed_cost(name, r.n, r.seen, of)
    if name == "dense":
        return of("dense", r.n) / 2
    rounds = rounds_for(r.n)
    between = sum(2**level * of(name, r.n >> (level + 1)) for level in range(rounds))
    return between + 2**rounds * of("dense", r.n >> rounds) / 2


def _windowed_cost(name: str, n: int, seen: float, of: Callable[[str, int], float]) -> float:
    """Sums over windows: all pairs that are seen and a block more; or the blocks that are seen in part, two and the own one,
    and, of every size below the window, one and a half that are seen whole."""
    if name == "dense":
        return of("dense", n) * min(1.0, (seen + 512) / n)
    rounds = rounds_for(n, LEAF)
    sizes = [n >> level for level in range(1, rounds + 1) if n >> level < seen]
    whole = sum(1.5 * n / size * of("dense" if size < BLOCK else name, size) for size in sizes)
    return whole + 3 * 2**rounds * of("dense", n >> rounds)
