"""What a run tends to: a point, a polytope, parallel hyperplanes, or a product of these with a subspace."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._types import no_type_check
from tokenfield.errors import InputError
from tokenfield.measures import Gaussian, Tokens
from tokenfield.observe.base import Measured, over_members, states
from tokenfield.observe.geometry import shortest
from tokenfield.trajectory import Trajectory

STILL = 2.5
"""How much farther than it came since half of its time a run may still go: whatever falls like t^{-1/2} or faster has less than
2.42 times that before it."""
FINEST, COARSEST, UNKNOWN = 1e-6, 0.05, 1e-3
"""The least tolerance; the largest; and the one where a run moves more than that, or nothing is known of its motion."""
TRIES, LOOKED_AT = 600, 64
"""How many subspaces are tried, and on how many tokens."""


class Candidate(NamedTuple):
    """One geometry, fitted to a state.

    - `residual`: how far tokens are from it at most, in units of the size of what is seen (of the start for a point).
    - `tolerance`: how far they may be, from how far they still move.
    - `places`: of a polytope all places where tokens meet, of hyperplanes their offsets (three or fewer), of a product the
      places of the projected tokens.
    - `directions`: the directions, as rows, along which places are measured: of hyperplanes their normal, of a product those
      orthogonal to its subspace, of a line or a plane those along it.
    """

    residual: float
    tolerance: float
    places: Float[np.ndarray, "k m"] | None = None
    directions: Float[np.ndarray, "m d"] | None = None

    @property
    def fits(self) -> bool:
        return self.residual <= self.tolerance


@dataclasses.dataclass(frozen=True, eq=False)
class LimitGeometry:
    """Which geometry the limit has, and how well each one fits.

    - `name`: the simplest geometry that fits: "origin", "point", "polytope", "line", "plane", "hyperplanes", "product"; "none"
      where none does, or the run still moves too much.
    - `candidates`: every geometry that was tried, in order of simplicity, by name; `residuals` has the residuals alone.
    - `vertices`: of a polytope its vertices, of a product those of its polytope; else None. `inside`: places in it that are none.
    - `normal`, `offsets`: of hyperplanes $\\langle n, x\\rangle = c$ their normal and offsets; else None.
    - `codimension`: of hyperplanes and a product, how many directions are decided; else None.
    """

    name: str
    candidates: dict[str, Candidate]
    vertices: Float[np.ndarray, "k m"] | None = None
    inside: Float[np.ndarray, "j m"] | None = None
    normal: Float[np.ndarray, " d"] | None = None
    offsets: Float[np.ndarray, " planes"] | None = None
    codimension: int | None = None

    @property
    def residuals(self) -> dict[str, float]:
        return {name: one.residual for name, one in self.candidates.items()}

    def __repr__(self) -> str:
        extra = "" if self.vertices is None else f" with {len(self.vertices)} vertices"
        extra += "" if self.offsets is None else f" at {', '.join(f'{c:.4g}' for c in self.offsets)}"
        extra += f", codimension {self.codimension}" if self.name == "product" else ""
        told = ", ".join(f"{name} {one.residual:.1e} (≤ {one.tolerance:.1e})" for name, one in self.candidates.items())
        return f"{self.name}{extra}; residuals: {told}"


@front_door
@no_type_check
def limit_geometry(thing: Measured) -> Any:
    r"""The geometry of the limit of a run: the last state, held against what the theory knows.

    Rescaled tokens tend to a polytope (V = I), to three parallel hyperplanes (a simple largest eigenvalue of V), or to a
    polytope times a subspace (V paranormal); with V = -I tokens that are not rescaled meet at the origin [geshkovski2023, Theorems
    3.1, 4.1, 5.1]. The covariance of a Gaussian tends to rank 0, a point, or 1, a line, or 2, a plane [castin2025, section 4].

    Each candidate is fitted to the last state and has a residual: of tokens the largest distance to it. The simplest one whose
    residual is below its tolerance is named. Simple means small: the origin, a point, a polytope (finitely many places, at most
    half as many as tokens), and then by dimension a line or a plane, and the product of a polytope with a subspace, in
    codimension one with three hyperplanes. The tolerance is 2.5 times how far tokens went, in the directions that the candidate
    decides, since half of the time of the run, and at least 1e-6: what converges like $t^{-1/2}$ or faster is nearer. Where
    this is more than 0.05 of what is measured, and of a state alone, motion says nothing, and the tolerance is 1e-3. The
    subspaces of products and hyperplanes are found among those that some tokens span, and improved by the ratio of scatter
    within places to all scatter; the flow is not asked.

    **Arguments**

    - `thing`: a run of tokens or of a Gaussian; or one state.

    **Returns** `LimitGeometry`: the name, every candidate with its residual and tolerance, vertices, normal, offsets. Of a
    batch of runs one such in an array of its shape.

    **Raises** `InputError` where `thing` is of another kind, or the values are traced.

    >>> limit_geometry(Tokens([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [-1.0, -1.0], [-1.0, -1.0]])).vertices.tolist()
    [[-1.0, -1.0], [0.0, 1.0], [1.0, 0.0]]
    >>> limit_geometry(Gaussian([0.0, 0.0], [[1.0, 1.0], [1.0, 1.0]])).name
    'line'
    """
    mu = states(thing, Tokens | Gaussian)
    if check.traced(mu):
        raise InputError(
            "limit_geometry looks at values, so it cannot be traced by jit, grad or vmap. Call it outside."
        )
    if isinstance(thing, Trajectory) and thing.batch:
        return over_members(limit_geometry, thing)
    first, half, last = (thing[i] for i in _when(thing)) if isinstance(thing, Trajectory) else (mu, None, mu)
    if isinstance(last, Gaussian):
        return _named(_of_gaussian(first, half, last))
    unit = max(float(np.abs(np.asarray(state.x)).max()) for state in (first, half or last, last)) or 1.0
    x = lambda state: np.asarray(state.x, np.float64)[np.asarray(last.w) > 0] / unit  # squares stay within floats
    start = float(np.linalg.norm(x(first), axis=1).max())
    found = _of_tokens(_State(x(last), None if half is None else x(half), start))
    places = {name: None if one.places is None else unit * one.places for name, one in found.items()}
    return _named({name: one._replace(places=places[name]) for name, one in found.items()})


def _when(run: Trajectory[Any]) -> tuple[int, int, int]:
    """The first saved time, the last one before half of the time (not the end itself), and the end."""
    times = np.asarray(run.times, np.float64)
    half = int(np.searchsorted(times, times[0] + 0.5 * (times[-1] - times[0]), side="right")) - 1
    return 0, min(half, len(times) - 1), len(times) - 1


def _named(candidates: dict[str, Candidate]) -> LimitGeometry:
    """The first candidate that fits, with what it found."""
    name = next((name for name, one in candidates.items() if one.fits), "none")
    found, name = candidates.get(name), name.split()[0]
    if found is None or found.places is None or found.directions is None:
        return LimitGeometry(name, candidates)
    if name == "hyperplanes":
        return LimitGeometry(
            name, candidates, normal=found.directions[0], offsets=np.sort(found.places[:, 0]), codimension=1
        )
    outer = np.array([_is_vertex(found.places, i) for i in range(len(found.places))])
    order = np.lexsort(found.places.T[::-1])
    vertices, inside = found.places[order][outer[order]], found.places[order][~outer[order]]
    codimension = None if name == "polytope" else len(found.directions)
    return LimitGeometry(name, candidates, vertices=vertices, inside=inside, codimension=codimension)


def _is_vertex(places: np.ndarray, i: int) -> bool:
    """Whether a place is outside of the convex hull of the others."""
    ways = np.delete(places, i, axis=0) - places[i]
    size = np.abs(ways).max(initial=0.0)
    return size == 0 or float(np.linalg.norm(shortest(ways / size) @ (ways / size))) > 1e-7


# Gaussians


def _of_gaussian(first: Gaussian, half: Gaussian | None, last: Gaussian) -> dict[str, Candidate]:
    now, before = _flatness(last, first), None if half is None else _flatness(half, first)
    still = {name: np.inf if before is None else STILL * abs(before[name] - now[name]) for name in now}
    return {name: Candidate(now[name], _tolerance(still[name])) for name in now}


def _flatness(mu: Gaussian, first: Gaussian) -> dict[str, float]:
    """How far a Gaussian is from the origin and a point, in units of how large it was, and from a line and a plane, in units of its
    longest axis."""
    size = lambda one, power: float(np.sqrt(max(np.trace(one.cov), 0.0) + power * np.sum(np.asarray(one.mean) ** 2)))
    axes = np.sqrt(np.asarray(mu.spectrum, np.float64))
    unit = axes[0] if axes[0] > 0 else 1.0
    thin = {name: float(axes[k] / unit) for k, name in ((1, "line"), (2, "plane")) if k < len(axes)}
    return {
        "origin": size(mu, 1) / (size(first, 1) or 1.0),
        "point": size(mu, 0) / (size(first, 0) or 1.0),
        **thin,
    }


def _tolerance(still: float) -> float:
    """From how far a run may still go."""
    return UNKNOWN if still > COARSEST else max(float(still), FINEST)


# Tokens


class _State(NamedTuple):
    """The last points, those at half of the time (None where there are none), and the size of the start."""

    x: np.ndarray
    half: np.ndarray | None
    start: float

    def tolerance(self, directions: np.ndarray, size: float) -> float:
        """How far tokens may still go along some directions, in units of a size."""
        if self.half is None:
            return UNKNOWN
        way = np.linalg.norm((self.x - self.half) @ directions.T, axis=1).max()
        return _tolerance(STILL * way / size)


def _of_tokens(state: _State) -> dict[str, Candidate]:
    n, d = state.x.shape
    everything, start = np.eye(d), state.start or 1.0
    middle = state.x.mean(axis=0)
    far = lambda ways: float(np.linalg.norm(ways, axis=1).max())
    found = {
        "origin": Candidate(far(state.x) / start, state.tolerance(everything, start)),
        "point": Candidate(far(state.x - middle) / start, state.tolerance(everything, start)),
        "polytope": _places(state, everything),
    }
    for m in range(1, d):
        if m <= 2:
            found["line" if m == 1 else "plane"] = _flat(state, m)
        if n > 2 * (m + 2):  # fewer tokens fit by chance
            name = "hyperplanes" if m == d - 1 else f"product of codimension {d - m}"
            found[name] = _product(state, m)
    return found


def _flat(state: _State, m: int) -> Candidate:
    """A line or a plane: the principal axes, and how far tokens are from them."""
    ways = state.x - state.x.mean(axis=0)
    size = np.abs(ways).max()
    if size == 0:
        return Candidate(0.0, FINEST)
    axes = np.linalg.svd(ways / size, full_matrices=True)[2]
    size = min(np.linalg.norm(ways, axis=1).max(), state.start)  # tokens that flee along a line are not on it
    off = np.linalg.norm(ways @ axes[m:].T, axis=1).max()
    return Candidate(float(off / size), state.tolerance(axes[m:], size), directions=axes[:m])


def _places(state: _State, directions: np.ndarray) -> Candidate:
    """Finitely many places: tokens joined with those nearer than the tolerance, and how far they are from their mean."""
    seen = state.x @ directions.T
    size = float(np.linalg.norm(seen - seen.mean(axis=0), axis=1).max())
    if size == 0:
        return Candidate(0.0, FINEST, seen[:1], directions)
    tolerance = state.tolerance(directions, size)
    label = _joined(seen, tolerance * size)
    means = _means(seen, label)
    residual = float(np.linalg.norm(seen - means[label], axis=1).max()) / size
    return Candidate(residual if 2 * len(means) <= len(seen) else 1.0, tolerance, means, directions)


def _joined(points: np.ndarray, near: float) -> np.ndarray:
    """Groups of points that chains of neighbours make."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import KDTree

    places, index = np.unique(np.round(points / near * 8), axis=0, return_inverse=True)  # most tokens have met
    pairs = KDTree(places).query_pairs(8.0, output_type="ndarray")
    links = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(places), len(places)))
    return connected_components(links, directed=False)[1][index]


def _means(points: np.ndarray, label: np.ndarray) -> np.ndarray:
    count = np.bincount(label)
    return np.stack([np.bincount(label, column) / count for column in points.T], axis=1)


def _product(state: _State, m: int) -> Candidate:
    """Places times a subspace of dimension m: the directions along which tokens have met. In codimension one places are three."""
    k = state.x.shape[1] - m
    ways = state.x - state.x.mean(axis=0)
    unit = np.abs(ways).max()
    if unit == 0:
        return Candidate(0.0, FINEST)
    groups = _thirds if k == 1 else _near_groups
    directions = _improved(ways / unit, _guessed(ways / unit, m), groups)
    return _hyperplanes(state, directions) if k == 1 else _places(state, directions)


def _hyperplanes(state: _State, directions: np.ndarray) -> Candidate:
    """Three offsets along a normal."""
    seen = state.x @ directions.T
    size = float(np.ptp(seen)) / 2
    if size == 0:
        return Candidate(0.0, FINEST, seen[:1], directions)
    label = _thirds(seen)
    means = _means(seen, label)
    residual, tolerance = float(np.abs(seen - means[label]).max()) / size, state.tolerance(directions, size)
    return Candidate(residual, tolerance, _means(means, _joined(means, tolerance * size)), directions)


def _guessed(x: np.ndarray, m: int) -> np.ndarray:
    """Of the subspaces of dimension m that m + 1 tokens span, the one along which the others look most like few places."""
    rng = np.random.default_rng(0)
    n, k = len(x), x.shape[1] - m
    chosen = (
        np.argsort(rng.random((TRIES, n)), axis=1)[:, : m + 1] if n < 2000 else rng.integers(n, size=(TRIES, m + 1))
    )
    spans = x[chosen[:, 1:]] - x[chosen[:, :1]]
    across = np.linalg.svd(spans, full_matrices=True)[2][:, m:]
    some = x[np.linspace(0, n - 1, min(n, LOOKED_AT)).astype(int)]
    score = _spread_in_thirds if k == 1 else _loneliness
    return across[np.argmin([score(some @ directions.T) for directions in across])]


def _improved(x: np.ndarray, directions: np.ndarray, groups: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Directions of least scatter within groups by all scatter, again and again, as long as that helps."""
    from scipy.linalg import eigh

    total = np.cov(x.T, bias=True) + 1e-14 * np.eye(x.shape[1])
    for _ in range(5):
        label = groups(x @ directions.T)
        within = x - _means(x, label)[label]
        _, vectors = eigh(within.T @ within / len(x), total, driver="gvd")
        directions = np.linalg.qr(vectors[:, : len(directions)])[0].T
    return directions * np.sign(directions[np.arange(len(directions)), np.abs(directions).argmax(axis=1)])[:, None]


def _thirds(seen: np.ndarray) -> np.ndarray:
    """Numbers in three groups, cut at the two widest gaps."""
    order = np.argsort(seen[:, 0], kind="stable")
    cuts = np.argsort(np.diff(seen[order, 0]))[-2:]
    label = np.empty(len(seen), int)
    label[order] = np.searchsorted(np.sort(cuts), np.arange(len(seen)), side="left")
    return np.unique(label, return_inverse=True)[1]


def _spread_in_thirds(seen: np.ndarray) -> float:
    label = _thirds(seen)
    return float(np.abs(seen - _means(seen, label)[label]).max() / (np.ptp(seen) or 1.0))


def _loneliness(seen: np.ndarray) -> float:
    """The distance of four in five points to their nearest neighbour at most, in units of the size of all."""
    squares = np.sum((seen[:, None] - seen[None]) ** 2, axis=-1)
    np.fill_diagonal(squares, np.inf)
    return float(np.quantile(np.sqrt(squares.min(axis=1)), 0.8) / (np.abs(seen - seen.mean(axis=0)).max() or 1.0))


def _near_groups(seen: np.ndarray) -> np.ndarray:
    size = np.abs(seen - seen.mean(axis=0)).max() or 1.0
    return _joined(seen, size * max(4 * _loneliness(seen[:: max(1, len(seen) // LOOKED_AT)]), 1e-9))
