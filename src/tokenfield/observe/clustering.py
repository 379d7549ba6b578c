"""Clusters: groups of tokens that have met."""

import dataclasses
import functools
from typing import Any, overload

import numpy as np
from jaxtyping import Float, Int

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._types import Number, no_type_check
from tokenfield.errors import InputError
from tokenfield.measures import AbstractMeasure, Tokens
from tokenfield.observe.base import Measured, states
from tokenfield.trajectory import Trajectory

MANY = 4000
"""Tokens from which on links are found through cells of space, in up to three dimensions."""


@dataclasses.dataclass(frozen=True, eq=False)
class Clusters:
    """Groups of tokens, in order of falling weight; `len` of them is their number, and they print as one line.

    - `labels`: one per token, the number of its cluster.
    - `sizes`: how many tokens each cluster has.
    - `weights`: how much of the measure's weight each cluster has.
    - `centres`: the mean of each cluster, shape (k, d); its direction where clusters were linked by angle.
    - `within`: the length of a link, in words.

    >>> found = clusters(Tokens([[1.0, 0.0], [0.0, 1.0], [0.99, 0.01]]))
    >>> len(found), found.labels.tolist(), found.sizes.tolist()
    (2, [0, 1, 0], [2, 1])
    """

    labels: Int[np.ndarray, " n"]
    sizes: Int[np.ndarray, " k"]
    weights: Float[np.ndarray, " k"]
    centres: Float[np.ndarray, "k d"]
    within: str

    def __len__(self) -> int:
        return len(self.sizes)

    def __repr__(self) -> str:
        largest = ", ".join(str(size) for size in self.sizes[:8]) + (", ..." if len(self) > 8 else "")
        plural = "cluster" if len(self) == 1 else "clusters"
        return f"{len(self)} {plural} (linked within {self.within}) of {largest} tokens"


@overload
def clusters(thing: AbstractMeasure, angle: Number = 0.1, *, distance: Number | None = None) -> Clusters: ...
@overload
def clusters(thing: Trajectory[Any], angle: Number = 0.1, *, distance: Number | None = None) -> list[Clusters]: ...
@front_door
@no_type_check
def clusters(thing: Measured, angle: Number = 0.1, *, distance: Number | None = None) -> Clusters | list[Clusters]:
    """Groups of tokens that are linked by steps of at most `angle` radians between their directions (single linkage).

    Two tokens belong to one cluster where a chain of tokens leads from one to the other, each step of at most that angle.

    **Arguments**

    - `thing`: tokens, or a run of them.
    - `angle`: the longest link, in radians, below π.
    - `distance`: the longest link as a Euclidean distance, for tokens in R^d; given, it takes the place of the angle.

    **Returns** `Clusters`, of a run a list with one per saved time.

    **Raises** `InputError` where `thing` is not made of tokens or is a batch of runs, a link is not a positive number, the angle
    is π or more, or a token has no direction.

    >>> clusters(Tokens([[1.0, 0.0], [0.0, 1.0], [0.99, 0.01]]))
    2 clusters (linked within 0.1 rad) of 2, 1 tokens
    """
    mu = states(thing)
    if distance is None:
        reach = check.number("angle", angle, positive=True)
        if reach >= np.pi:
            raise InputError(f"Argument `angle` must be below π, in radians, but is {reach:g}.")
    else:
        reach = check.number("distance", distance, positive=True)
    if isinstance(thing, Trajectory):
        thing.refuse_batches("clustered")
        return [_clusters(thing[i], reach, distance is None) for i in range(len(thing))]
    return _clusters(mu, reach, distance is None)


def _clusters(mu: Tokens, reach: float, angular: bool) -> Clusters:
    w = np.asarray(mu.w)
    points = np.asarray(mu.directions if angular else mu.x, np.float64)
    chord = 2 * np.sin(reach / 2) if angular else reach
    centred = points - points.mean(axis=0)
    unit = np.abs(centred).max() or 1.0  # squares of lengths in units of the largest stay within floats
    link = _linked_by_cells if mu.n > MANY and mu.d <= 3 else _linked
    labels = link(centred / unit, min(chord / unit, 1e3))
    weights = np.bincount(labels, w)
    order = np.argsort(-weights, kind="stable")
    labels = np.argsort(order)[labels]
    sizes, weights = np.bincount(labels), weights[order]
    centres = np.stack([np.bincount(labels, w * column) for column in points.T], axis=1) / weights[:, None]
    if angular:
        length = np.linalg.norm(centres, axis=1, keepdims=True)
        centres = centres / np.where(length > 0, length, 1.0)
    return Clusters(labels, sizes, weights, centres, f"{reach:g} rad" if angular else f"distance {reach:g}")


def _linked_by_cells(points: np.ndarray, chord: float) -> np.ndarray:
    """The same components in about O(n log n): cells so small that all within one are linked are joined where their
    nearest points are. Pairs of cells that already belong together need no look."""
    from scipy.cluster.hierarchy import DisjointSet
    from scipy.spatial import KDTree

    cell = np.floor(points / (chord / np.sqrt(points.shape[1]) * (1 - 1e-12))).astype(np.int64)
    cells, member = np.unique(cell - cell.min(axis=0), axis=0, return_inverse=True)
    order = np.argsort(member.ravel(), kind="stable")
    groups = np.split(points[order], np.cumsum(np.bincount(member.ravel()))[:-1])
    tree = functools.cache(lambda i: KDTree(groups[i]))
    joined = DisjointSet(range(len(cells)))
    apart = np.sqrt(points.shape[1]) + 1  # in units of cells, between the corners of cells that may hold linked points
    neighbours = KDTree(cells).query_pairs(apart * np.sqrt(points.shape[1]), output_type="ndarray")
    near = np.linalg.norm(np.maximum(np.abs(np.diff(cells[neighbours], axis=1)[:, 0]) - 1, 0), axis=1)
    for i, j in neighbours[np.argsort(near, kind="stable")]:
        if not joined.connected(i, j):
            small, large = sorted((i, j), key=lambda k: len(groups[k]))
            if np.min(tree(large).query(groups[small], distance_upper_bound=chord * (1 + 1e-15))[0]) <= chord:
                joined.merge(i, j)
    roots = np.array([joined[i] for i in range(len(cells))])
    return np.unique(roots, return_inverse=True)[1][member.ravel()]


def _linked(points: np.ndarray, chord: float, block: int = 1024) -> np.ndarray:
    """Connected components of "closer than chord". Each token meets the still unlabelled ones once, in blocks: O(n²)
    time at worst, O(n · block) memory. A tight cluster is taken in one sweep, so settled states are quick."""
    n = len(points)
    points = points - points.mean(axis=0)  # distances do not notice, round-off does
    squares = np.sum(points**2, axis=1)
    doubt = 1e-14 * squares.max()
    labels = np.full(n, -1)
    free = np.arange(n)
    count = 0
    while len(free):
        frontier, free = free[:1], free[1:]
        labels[frontier] = count
        while len(frontier) and len(free):
            near = np.zeros(len(free), bool)
            for start in range(0, len(frontier), block):
                some = frontier[start : start + block]
                gap = squares[some, None] + squares[free] - 2 * points[some] @ points[free].T
                for i, j in np.argwhere(abs(gap - chord**2) <= doubt):  # too close to call from inner products
                    gap[i, j] = np.sum((points[some[i]] - points[free[j]]) ** 2)
                near |= np.any(gap <= chord**2, axis=0)
            frontier, free = free[near], free[~near]
            labels[frontier] = count
        count += 1
    return labels
