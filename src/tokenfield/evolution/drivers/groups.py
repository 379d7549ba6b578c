"""Who becomes one with whom, when, and where: on the host, between two phases of a run."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tokenfield.evolution.step import NODES, Trail
from tokenfield.mergers import Mergers


class Met(NamedTuple):
    """Pairs of living tokens whose groups become one, and when."""

    pairs: np.ndarray
    dates: np.ndarray
    n: int
    """How many living tokens there are."""

    @staticmethod
    def at(t: float, leader: np.ndarray) -> "Met":
        """All tokens meet their leaders at one time."""
        follow = np.flatnonzero(leader != np.arange(len(leader)))
        return Met(np.stack([leader[follow], follow], axis=1), np.full(len(follow), t), len(leader))

    def groups(self, t: float = np.inf) -> np.ndarray:
        """For every living token the number of its group at time t."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        i, j = self.pairs[self.dates <= t].T
        return connected_components(coo_array((np.ones(len(i)), (i, j)), shape=(self.n, self.n)), directed=False)[1]


class Ledger:
    """Who is in whom: for every original token the living one that it is part of, and all mergers so far."""

    def __init__(self, n: int):
        self.place = np.arange(n)
        self.first = np.arange(n)
        self.events: list[tuple[float, int, int, int]] = []

    def merge(self, met: Met) -> None:
        """Living tokens become one with whom they met, in the order of time. A group is named by its first token."""
        groups, whole = met.groups(), {i: (int(self.first[i]), [i]) for i in np.unique(met.pairs).tolist()}
        for k in np.lexsort((self.first[met.pairs].max(axis=1), met.dates)):
            (into, ours), (gone, theirs) = sorted(whole[i] for i in met.pairs[k].tolist())
            self.events.append((float(met.dates[k]), into, gone, len(self.place) - len(self.events) - 1))
            whole |= dict.fromkeys(ours + theirs, (into, ours + theirs))
        first = np.full(int(groups.max()) + 1, len(self.place))
        np.minimum.at(first, groups, self.first)
        self.place, self.first = groups[self.place], first

    def mergers(self) -> Mergers:
        t, into, gone, left = (
            (np.array(column) for column in zip(*self.events, strict=True)) if self.events else [[]] * 4
        )
        whole = lambda values: np.asarray(values, np.int64)
        return Mergers(np.asarray(t, float), whole(into), whole(gone), whole(left), len(self.place))


def leaders_of(x: np.ndarray, v: np.ndarray, w: np.ndarray, radius: float) -> np.ndarray:
    """Whom tokens become one with: heavy ones lead, each those closer than the radius that come no farther. A group stays within
    the radius of its leader, so that chains of neighbours do not collapse."""
    from scipy.spatial import KDTree

    leader = np.arange(len(x))
    if len(x) < 2:
        return leader
    tree = KDTree(x)
    free = tree.query(x, k=2)[0][:, 1] <= radius
    for i in np.argsort(-w, kind="stable"):
        if free[i]:
            near = np.array(tree.query_ball_point(x[i], radius))
            near = near[free[near] & (np.sum((x[near] - x[i]) * (v[near] - v[i]), axis=1) <= 0)]
            leader[near], free[near] = i, False
    return leader


def first_neighbours(x: np.ndarray, v: np.ndarray, s: np.ndarray, radius: float) -> np.ndarray:
    """The same where only neighbours in position may become one: the first leads those right after it that are closer than the
    radius and come no farther, up to the first that is not."""
    leader, order = np.arange(len(x)), np.argsort(s, kind="stable")
    i = order[0]
    for j in order[1:]:
        Δ = x[j] - x[i]
        if np.linalg.norm(Δ) <= radius and Δ @ (v[j] - v[i]) <= 0:
            leader[j] = i
        else:
            i = j
    return leader


def joined(x: np.ndarray, w: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places and weights of the groups: mean and sum."""
    mass = np.bincount(groups, w)
    mean = np.stack([np.bincount(groups, w * column) for column in x.T], axis=1) / mass[:, None]
    return mean.astype(x.dtype), mass.astype(w.dtype)


Places = Callable[[np.ndarray], np.ndarray]
"""From rows of a state to the places of tokens."""


MOST = 16
"""So many tokens that have met each other, and fewer, are put together pair by pair; of more, all are dated by their leader."""


def companies(x: np.ndarray, v: np.ndarray, radius: float) -> np.ndarray:
    """For every token the number of its company: those connected by pairs closer than the radius that come no farther. Where there
    are too many such pairs to look at, all are in one."""
    from scipy.spatial import KDTree

    tree = KDTree(x)
    if tree.count_neighbors(tree, radius) > MOST * len(x):
        return np.zeros(len(x), int)
    pairs = tree.query_pairs(radius, output_type="ndarray")
    i, j = pairs.T
    nearer = np.sum((x[i] - x[j]) * (v[i] - v[j]), axis=1) <= 0
    return Met(pairs[nearer], np.zeros(nearer.sum()), len(x)).groups()


def dated(trail: Trail, company: np.ndarray, leader: np.ndarray, w: np.ndarray, where: tuple[float, Places]) -> Met:
    """Who met whom when, in the time of the walk, by its last steps. Where tokens have leaders each meets its own. Of every other
    company the two that first come down to the radius become one at their mean, then the next two, as long as there are any."""
    (radius, places), t = where, np.asarray(trail.t)
    steps = np.argsort(t[:, 0])[: np.isfinite(t[:, 0]).sum()]
    follows, led = leader != np.arange(len(leader)), np.bincount(leader, minlength=len(leader))[leader] > 1
    small = (np.bincount(company)[company] <= MOST) & ~led
    who = np.flatnonzero(led | (small & (np.bincount(company)[company] > 1)))
    rows = np.asarray(trail.y)[steps[:, None, None], np.arange(len(NODES))[:, None], who]
    past = Past(t[steps], places(rows), radius)
    star = np.flatnonzero(follows[who])
    stars = np.stack([np.searchsorted(who, leader[who[star]]), star], axis=1)
    found = [(stars, past.dates(stars)), *past.put_together(_within(company[who], small[who]), company[who], w[who])]
    pairs, dates = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Met(who[pairs], dates, len(leader))


def _within(company: np.ndarray, small: np.ndarray) -> np.ndarray:
    """All pairs of tokens of one company, of small ones alone."""
    order = np.argsort(company, kind="stable")
    ahead = [np.stack([order[:-k], order[k:]], axis=1) for k in range(1, min(MOST, len(order)))]
    pairs = np.concatenate([np.zeros((0, 2), int), *ahead])
    return pairs[(company[pairs[:, 0]] == company[pairs[:, 1]]) & small[pairs[:, 0]]]


class Past:
    """Where some tokens were during the last steps: times (steps, nodes), places (steps, nodes, tokens, d)."""

    def __init__(self, t: np.ndarray, x: np.ndarray, radius: float):
        self.t, self.x, self.radius = t, x, radius

    def put_together(
        self, pairs: np.ndarray, company: np.ndarray, w: np.ndarray
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Of every company the two tokens that meet first become one, the first of them in the place of both; and so on."""
        w, found, dates = w.astype(float), [], self._dates_if_met(pairs)
        while np.isfinite(dates).any():
            by_company = np.lexsort((dates, company[pairs[:, 0]]))
            first = by_company[np.unique(company[pairs[by_company, 0]], return_index=True)[1]]
            first = first[np.isfinite(dates[first])]
            (i, j), now = pairs[first].T, np.zeros(int(company.max()) + 1)
            found.append((pairs[first], dates[first]))
            now[company[i]] = dates[first]
            share = (w[i] / (w[i] + w[j]))[:, None]
            self.x[:, :, i], w[i] = share * self.x[:, :, i] + (1 - share) * self.x[:, :, j], w[i] + w[j]
            left = ~np.isin(pairs, j).any(axis=1)
            pairs, dates = pairs[left], dates[left]
            moved = np.isin(pairs, i).any(axis=1)
            dates[moved] = np.maximum(self._dates_if_met(pairs[moved]), now[company[pairs[moved, 0]]])
        return found

    def _dates_if_met(self, pairs: np.ndarray) -> np.ndarray:
        """The dates of pairs that are within the radius in the end and come no farther; infinite for others."""
        i, j = pairs.T
        *_, before, end = np.linalg.norm(self.x[-1][:, i] - self.x[-1][:, j], axis=-1)
        met = (end <= self.radius) & (end <= before)
        dates = np.full(len(pairs), np.inf)
        dates[met] = self.dates(pairs[met])
        return dates

    def dates(self, pairs: np.ndarray) -> np.ndarray:
        """When pairs came down to the radius for the last time. Two that were never farther apart, but did not come closer, have
        met when they were farthest."""
        if len(pairs) == 0:
            return np.zeros(0)
        i, j = pairs.T
        gap = np.linalg.norm(self.x[:, :, i] - self.x[:, :, j], axis=-1)
        beyond = gap[:, 0] > self.radius  # at the beginning of a step
        last = len(gap) - 1 - np.argmax(beyond[::-1], axis=0)
        begin, end = self.t[last, 0], self.t[last, -1]
        inside = begin + self._crossing(self.x[last, :, i] - self.x[last, :, j]) * (end - begin)
        farthest = self.t.reshape(-1)[np.argmax(gap.reshape(-1, len(i)), axis=0)]
        return np.where(beyond.any(axis=0), inside, farthest)

    def _crossing(self, Δ: np.ndarray) -> np.ndarray:
        """Where in a step differences (pairs, nodes, d) come down to the radius, by bisection on the polynomial through them."""
        low, high = np.zeros(len(Δ)), np.ones(len(Δ))
        for _ in range(50):
            middle = 0.5 * (low + high)
            far = np.linalg.norm(np.einsum("pk,pkd->pd", _lagrange(middle), Δ), axis=1) > self.radius
            low, high = np.where(far, middle, low), np.where(far, high, middle)
        return high


def _lagrange(θ: np.ndarray) -> np.ndarray:
    """The polynomials that are 1 at one node of a step and 0 at the others, at θ: one row for each θ."""
    parts = [[(θ - b) / (a - b) for b in NODES if b != a] for a in NODES]
    return np.stack([np.prod(factors, axis=0) for factors in parts], axis=1)
