"""Clusters: groups of tokens that have met."""

import dataclasses
from collections.abc import Callable
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
"""Tokens from which on neighbours are found by a tree, in up to three dimensions and where all weigh the same."""


@dataclasses.dataclass(frozen=True, eq=False)
class Clusters:
    """Groups of tokens, in order of falling weight; `len` of them is their number, and they print as one line.

    - `labels`: one per token, the number of its cluster.
    - `sizes`: how many tokens each cluster has.
    - `weights`: how much of the measure's weight each cluster has.
    - `centres`: the mean of each cluster, shape (k, d); its direction where distances are angles.
    - `within`: how near to the centre of their cluster tokens are, in words.

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
        return f"{len(self)} {plural} (within {self.within}) of {largest} tokens"


@overload
def clusters(thing: AbstractMeasure, angle: Number = 0.1, *, distance: Number | None = None) -> Clusters: ...
@overload
def clusters(thing: Trajectory[Any], angle: Number = 0.1, *, distance: Number | None = None) -> list[Clusters]: ...
@front_door
@no_type_check
def clusters(thing: Measured, angle: Number = 0.1, *, distance: Number | None = None) -> Any:
    """Groups of tokens that have met: balls of radius `angle` around the tokens with most of the measure about them.

    The token with most weight within the angle is the first leader. Tokens within the angle of it cannot lead; of the others again
    the one with most weight about it does, and so on. Every token belongs to the nearest leader. So clusters that are smaller
    than the angle and farther apart are reported as they are, and no chain of neighbours makes one cluster of a cloud.

    **Arguments**

    - `thing`: tokens, or a run of them.
    - `angle`: the radius of a cluster, in radians between directions, below π.
    - `distance`: the radius as a Euclidean distance, for tokens in R^d; given, it takes the place of the angle.

    **Returns** `Clusters`, of a run a list with one per saved time, of a batch of runs such lists in an array of its shape.

    **Raises** `InputError` where `thing` is not made of tokens, a radius is not a positive number, the angle is π or more, or a
    token has no direction.

    >>> clusters(Tokens([[1.0, 0.0], [0.0, 1.0], [0.99, 0.01]]))
    2 clusters (within 0.1 rad) of 2, 1 tokens
    """
    mu = states(thing)
    if distance is None:
        reach = check.number("angle", angle, positive=True)
        if reach >= np.pi:
            raise InputError(f"Argument `angle` must be below π, in radians, but is {reach:g}.")
    else:
        reach = check.number("distance", distance, positive=True)
    if isinstance(thing, Trajectory) and thing.batch:
        found = np.empty(thing.batch, object)
        for index in np.ndindex(*thing.batch):
            found[index] = clusters(thing.member(*index), angle, distance=distance)
        return found
    if isinstance(thing, Trajectory):
        return [_clusters(thing[i], reach, distance is None) for i in range(len(thing))]
    return _clusters(mu, reach, distance is None)


def _clusters(mu: Tokens, reach: float, angular: bool) -> Clusters:
    w = np.asarray(mu.w)
    points = np.asarray(mu.directions if angular else mu.x, np.float64)
    near, radius = _scaled(points, 2 * np.sin(reach / 2) if angular else reach)
    labels = _nearest(near, near[_leaders(near, w, radius)])
    weights = np.bincount(labels, w)
    order = np.argsort(-weights, kind="stable")
    labels = np.argsort(order)[labels]
    sizes, weights = np.bincount(labels), weights[order]
    centres = np.stack([np.bincount(labels, w * column) for column in points.T], axis=1) / weights[:, None]
    if angular:
        length = np.linalg.norm(centres, axis=1, keepdims=True)
        centres = centres / np.where(length > 0, length, 1.0)
    return Clusters(labels, sizes, weights, centres, f"{reach:g} rad" if angular else f"distance {reach:g}")


def how_many(many: Tokens, angle: float = 0.1) -> Int[np.ndarray, " count"]:
    """The numbers of clusters of many states at once, for those who want nothing else.

    **Arguments**

    - `many`: tokens with one leading axis.
    - `angle`: the radius of a cluster, in radians.

    **Returns** one number for each.

    **Raises** `InputError` where they are not made of tokens, or a token has no direction.
    """
    points = np.asarray(states(many).directions, np.float64)
    weights = np.broadcast_to(np.asarray(many.w), points.shape[:-1])
    chord = 2 * np.sin(angle / 2)
    near = (_scaled(one, chord) for one in points)
    return np.asarray([len(_leaders(x, w, radius)) for w, (x, radius) in zip(weights, near, strict=True)], np.int64)


def _scaled(points: np.ndarray, chord: float) -> tuple[np.ndarray, float]:
    """Points about their mean and a radius, in units of the largest coordinate: squares of lengths stay within floats."""
    centred = points - points.mean(axis=0)
    scale = np.abs(centred).max() or 1.0
    return centred / scale, min(chord / scale, 1e3)


def _leaders(points: np.ndarray, w: np.ndarray, radius: float) -> np.ndarray:
    """Tokens of which no two are within the radius: again and again that with most weight about it of those that are left."""
    tree = bool(np.all(w == w[0])) and len(w) > MANY and points.shape[1] <= 3
    about, near = _by_tree(points, radius) if tree else _by_pairs(points, w, radius)
    free, leaders = np.ones(len(w), bool), []
    for i in np.argsort(-about, kind="stable"):
        if free[i]:
            leaders.append(i)
            free[near(i)] = False
    return np.asarray(leaders)


def _by_tree(points: np.ndarray, radius: float) -> tuple[np.ndarray, Callable[[int], Any]]:
    """How many points are within the radius of each, and a function that tells which."""
    from scipy.spatial import KDTree

    tree = KDTree(points)
    return tree.query_ball_point(points, radius, return_length=True), lambda i: tree.query_ball_point(points[i], radius)


def _by_pairs(
    points: np.ndarray, w: np.ndarray, radius: float, block: int = 1024
) -> tuple[np.ndarray, Callable[[int], Any]]:
    """The weight within the radius of each point, in O(n²) time and O(n · block) memory, and a function that tells which."""
    points = points - points.mean(axis=0)  # distances do not notice, round-off does
    squares = np.sum(points**2, axis=1)
    about = np.empty(len(w))
    for start in range(0, len(w), block):
        some = slice(start, start + block)
        about[some] = (squares[some, None] + squares - 2 * points[some] @ points.T <= radius**2) @ w
    about = np.round(about, 12)  # who has the same weight about it in another order of summation
    return about, lambda i: np.sum((points - points[i]) ** 2, axis=1) <= radius**2


def _nearest(points: np.ndarray, leaders: np.ndarray, block: int = 4096) -> np.ndarray:
    """For each point the number of the nearest leader."""
    from scipy.spatial import KDTree
    from scipy.spatial.distance import cdist

    if points.shape[1] <= 3:
        return np.asarray(KDTree(leaders).query(points)[1])
    parts = range(0, len(points), block)
    return np.concatenate([np.argmin(cdist(points[i : i + block], leaders), axis=1) for i in parts])
