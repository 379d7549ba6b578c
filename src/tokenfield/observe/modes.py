"""Modes of a kernel density estimate on the line and on the circle, counted by certified roots of its derivative.

How it is done. Where every kernel is convex, so is their sum, and there is no mode: only the stretches within one width of a
token are looked at. They are cut into cells of at most one width. In a cell f' is a Taylor polynomial about the middle, and what
that leaves out (the rest of the series, tokens far away, rounding) is bounded. Its Bernstein coefficients enclose it: they show
that f' has one sign in the cell, or that it is monotone there; else the cell is halved. What is left undecided when coefficients
sink below the bound, floating point cannot decide, and it is told as doubtful.
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._types import Number, no_type_check
from tokenfield.errors import InputError
from tokenfield.measures import Tokens
from tokenfield.observe.base import Measured, one_by_one

DEGREE = 30
"""The degree of Taylor polynomials of f: of half a width, terms of degree k fall like 2^-k/√k!."""
RADIUS = 8.0
"""Where Cauchy's estimate of the rest of a series is taken, in units of half a cell."""
PAIRS = 1 << 17
"""How many pairs of a cell and a token are held at once."""
EPS, TINY = float(np.finfo(np.float64).eps), 1e-310
RISING, FALLING, UNKNOWN = 2, 3, 4
"""What is known of f' on a stretch where its sign is not: monotone, or nothing. Signs themselves are +1 and -1."""


@dataclasses.dataclass(frozen=True, eq=False)
class Modes:
    """The modes of a density estimate; `len` of them is their number.

    - `places`: where they are, increasing: on the line coordinates, on the circle angles in (-π, π].
    - `doubtful`: how many places there are at which two more modes may hide (or may not), too close to a degenerate one for
      floating-point numbers to tell.
    """

    places: Float[np.ndarray, " k"]
    doubtful: int

    @property
    def count(self) -> int:
        """How many modes there are."""
        return len(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def __repr__(self) -> str:
        plural = "mode" if self.count == 1 else "modes"
        doubt = f", {self.doubtful} doubtful {'place' if self.doubtful == 1 else 'places'}" if self.doubtful else ""
        return f"{self.count} {plural}{doubt}"


@front_door
@no_type_check
def modes(thing: Measured, beta: Number) -> Any:
    r"""The modes of the kernel density estimate of tokens: the local maxima of $\sum_i w_i e^{-β(x-x_i)^2/2}$ on the line, of
    $\sum_i w_i e^{β\cos(θ-θ_i)}$ on the circle.

    The count is exact, by certified roots of the derivative and not by a grid. Of n normal samples on the line there are of order
    $\sqrt{β \log β}$ modes, for β between $n^c$ and $n^{2-c}$ [geshkovski2024modes]. Tokens in the plane are read as points of the
    circle, by their directions.

    **Arguments**

    - `thing`: tokens in one or two dimensions, or a run of them.
    - `beta`: the precision β of the kernel, positive; its width is $β^{-1/2}$. On the circle, where angles are known to $10^{-15}$,
      it is at most $10^{22}$.

    **Returns** `Modes`: their places and how many places are doubtful; of a run a list with one per saved time, of a batch of
    runs such lists in an array of its shape.

    **Raises** `InputError` where `thing` is not made of tokens in one or two dimensions, one in the plane is the zero vector, β is
    not positive, or too large, or the values are traced.

    >>> modes(Tokens([[-1.0], [1.0]]), beta=0.9), modes(Tokens([[-1.0], [1.0]]), beta=1.1)    # two from β = 1 on
    (1 mode, 2 modes)
    >>> modes(Tokens([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]), beta=20.0).places.round(6).tolist()
    [0.0, 1.570796, 3.141593]
    """
    beta = check.number("beta", beta, positive=True)
    return one_by_one(lambda mu: _modes(mu, beta), thing, "modes")


def _modes(mu: Tokens, beta: float) -> Modes:
    if mu.d > 2:
        raise InputError(
            f"Modes are counted on the line (d = 1) and on the circle (d = 2), but these tokens have d = {mu.d}. "
            "Project them, e.g. Tokens(mu.x[:, :1])."
        )
    if mu.d == 1:
        return _found(*_distinct(np.asarray(mu.x, np.float64)[:, 0], mu), _Line(math.sqrt(beta)))
    if beta > 1e22:
        raise InputError(
            f"Argument `beta` must be at most 1e22 on the circle, where angles are known to 1e-15, but is {beta:g}."
        )
    θ = np.asarray(mu.directions, np.float64)
    return _found(*_distinct(np.arctan2(θ[:, 1], θ[:, 0]), mu), _Circle(beta))


def _distinct(points: np.ndarray, mu: Tokens) -> tuple[np.ndarray, np.ndarray]:
    """Places in order, and the weight at each."""
    places, index = np.unique(points, return_inverse=True)
    w = np.bincount(index, np.asarray(mu.w, np.float64), minlength=len(places))
    return places[w > 0], w[w > 0] / w.sum()


# Kernels. With u the way from a token to the middle of a cell of half-width η, the kernel there is e^v at s = 0 and along the cell
# e^{v + g(s)}, with g'(s) = Σ_j γ_j s^j, γ_2j = ∓A η^2j/(2j)!, γ_2j+1 = ∓B η^2j/(2j+1)!, the first two with a minus. Cells and
# ways have units in which the kernel has width one.


@dataclasses.dataclass(frozen=True)
class _Line:
    """e^{-u²/2}: A = ηu, B = η², and no other terms."""

    scale: float
    terms = 2
    blur = 0.0
    circle = False
    convex = 1.0
    curve = 0.0

    def parts(self, u: np.ndarray, η: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return -0.5 * u * u, η * u, np.broadcast_to(η * η, u.shape)

    def reach(self, smallness: float) -> float:
        """Beyond which distance v < -smallness."""
        return math.sqrt(2 * smallness)


class _Circle:
    """e^{β(cos u - 1)}, in units of ℓ = min(β^-1/2, 1/2) radians: A = βη sin u, B = βη² cos u."""

    circle = True

    def __init__(self, beta: float):
        self.beta, self.ℓ = beta, min(1 / math.sqrt(beta), 0.5)
        self.scale, self.curve = 1 / self.ℓ, self.ℓ
        self.blur = 4 * EPS * math.pi / self.ℓ  # to what a token's angle is known
        root = math.hypot(1, 2 * beta)  # cos u = 2β/(1 + root) where the kernel bends
        inflection = 2 * math.atan(math.sqrt((1 + 1 / (root + 2 * beta)) / (1 + root + 2 * beta)))
        self.convex = inflection / self.ℓ * (1 + 1e-12)
        self.terms = next(j for j in range(2, 40, 2) if (0.5 * self.ℓ) ** j / math.factorial(j) < EPS / 16)

    def parts(self, u: np.ndarray, η: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        angle, η = self.ℓ * u, self.ℓ * η
        return -2 * self.beta * np.sin(angle / 2) ** 2, self.beta * η * np.sin(angle), self.beta * η**2 * np.cos(angle)

    def reach(self, smallness: float) -> float:
        share = smallness / (2 * self.beta)
        return math.inf if share >= 1 else 2 * math.asin(math.sqrt(share)) / self.ℓ


Kernel = _Line | _Circle


class _Cells(NamedTuple):
    """Stretches of the line: from a token `anchor`, a way `offset` to the middle, and half the width. Those of width 0 stand for
    stretches on which all kernels are convex."""

    anchor: np.ndarray
    offset: np.ndarray
    half: np.ndarray


def _found(places: np.ndarray, w: np.ndarray, kernel: Kernel) -> Modes:
    """The modes of weighted places."""
    with np.errstate(over="ignore"):
        span = kernel.scale * (places[-1] - places[0])
    if len(places) == 1 or (not kernel.circle and span < 1e-8):  # one hump, at the mean up to a share span² of the span
        return Modes(np.array([places[0] + w @ (places - places[0])]), 0)
    cells = _cells(places, kernel)
    known = [_facts(places, w, kernel, part) for part in _parts(places, w, kernel, cells)]
    facts = _Facts(*(np.concatenate(column) for column in zip(*(facts for facts, _ in known), strict=True)))
    start, stop, doubtful = _turns(facts, kernel.circle)
    s, cell = _roots(facts, np.concatenate([series for _, series in known]), start, stop)
    x = places[cells.anchor[cell]] + (cells.offset[cell] + cells.half[cell] * s) / kernel.scale
    return Modes(np.sort(np.where(x > np.pi, x - 2 * np.pi, x) if kernel.circle else x), doubtful)


def _cells(places: np.ndarray, kernel: Kernel) -> _Cells:
    """Cells from anchor to anchor, tokens of which neighbours are about one width apart, but for lonely ones: about these only as
    far as their kernels bend down, and the rest of the gap is convex."""
    anchors = _anchors(places, kernel.scale)
    with np.errstate(over="ignore"):
        gaps = kernel.scale * np.diff(places[anchors])
    if kernel.circle:
        gaps = np.append(gaps, kernel.scale * (2 * np.pi - (places[anchors[-1]] - places[0])))
    before, after = anchors[: len(gaps)], np.roll(anchors, -1)[: len(gaps)]
    apart = gaps > 2 * kernel.convex
    width = np.where(apart, kernel.convex, gaps)
    count = np.ceil(width).astype(int).clip(1)
    half, most, nothing = width / count / 2, int(count.max()), np.zeros_like(width)
    rows = [(before, (2 * k + 1) * half, half, count > k) for k in range(most)]
    rows += [(before, nothing, nothing, apart)]
    rows += [(after, (2 * k + 1) * half - width, half, apart & (count > k)) for k in range(most)]
    columns = [np.stack(column, axis=1) for column in zip(*rows, strict=True)]
    anchor, offset, half = (column[columns[3]] for column in columns[:3])
    return _Cells(anchor, offset, half * (1 + 1e-14) + kernel.blur * (half > 0))  # overlapping: nothing is between them


def _anchors(places: np.ndarray, scale: float) -> np.ndarray:
    """Again and again the farthest place within a width, or the next one where there is none."""
    farthest = np.searchsorted(places, places + 1 / scale, side="right") - 1
    farthest = np.maximum(farthest, np.arange(1, len(places) + 1)).tolist()
    chosen, last = [0], len(places) - 1
    while chosen[-1] < last:
        chosen.append(farthest[chosen[-1]])
    return np.array(chosen)


class _Part(NamedTuple):
    """Some cells, the first of them number `first`, and the tokens about them, one row of indices per cell; a bound on what all
    other tokens add."""

    first: int
    cells: _Cells
    seen: np.ndarray
    present: np.ndarray
    far: float


def _parts(places: np.ndarray, w: np.ndarray, kernel: Kernel, cells: _Cells) -> Iterator[_Part]:
    """Cells in blocks; tokens beyond the reach add less than rounding does."""
    least = math.log(1 / EPS) - math.log(w.min())
    reach = kernel.reach(least + 8 + math.sqrt(2 * least))
    low, high = _about(places, kernel, cells, reach + 2 * kernel.convex + 1)
    far, start = _far(kernel, reach), 0
    while start < len(low):
        counts = np.maximum.accumulate((high - low)[start : start + 4096])
        stop = start + max(1, int(np.searchsorted(counts * np.arange(1, len(counts) + 1), PAIRS)))
        seen = low[start:stop, None] + np.arange(counts[stop - start - 1])
        some = _Cells(*(column[start:stop] for column in cells))
        yield _Part(start, some, seen % len(places), seen < high[start:stop, None], far)
        start = stop


def _about(places: np.ndarray, kernel: Kernel, cells: _Cells, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """The range of tokens within the reach of each cell; on the circle it may begin before 0 or end after n."""
    n, here = len(places), places[cells.anchor]
    if kernel.circle and reach >= math.pi * kernel.scale:
        return np.zeros(len(here), int), np.full(len(here), n)
    low, high = here - reach / kernel.scale, here + reach / kernel.scale
    if not kernel.circle:
        return np.searchsorted(places, low), np.searchsorted(places, high, side="right")
    thrice = np.concatenate([places - 2 * np.pi, places, places + 2 * np.pi])
    return np.searchsorted(thrice, low) - n, np.searchsorted(thrice, high, side="right") - n


def _far(kernel: Kernel, reach: float) -> float:
    """What a token beyond the reach adds to f', f'' along a cell, at most (see `_bounds`)."""
    if math.isinf(reach):
        return 0.0
    quarter = 0.5 * math.pi * kernel.scale if kernel.circle else math.inf
    v, A, B = kernel.parts(np.array([reach, min(reach, quarter)]), np.array([0.5, 0.5]))
    return float(np.exp(v[0] + 1.02 * (A[1] + abs(B[0]))) * 2 * (A[1] + abs(B[0]) + 1) ** 3)


class _Facts(NamedTuple):
    """What is known of f' on stretches of cells, in order: from `low` to `high` in units of half a cell; the signs at both ends (0:
    not known), and in between the kind, a sign or RISING, FALLING, UNKNOWN."""

    cell: np.ndarray
    low: np.ndarray
    high: np.ndarray
    left: np.ndarray
    kind: np.ndarray
    right: np.ndarray


def _facts(places: np.ndarray, w: np.ndarray, kernel: Kernel, part: _Part) -> tuple[_Facts, np.ndarray]:
    """What is known along some cells, and the polynomials of f' there."""
    series, slack, steep = _series(places, w, kernel, part)
    rounding = 4 * DEGREE * EPS * np.abs(series).sum(axis=1)
    b, slack, steep = series @ TO_BERNSTEIN.T, slack + rounding, 2 * steep / (DEGREE - 1) + 2 * rounding
    convex = part.cells.half == 0
    pieces, cell = [_whole(np.flatnonzero(convex), RISING)], np.flatnonzero(~convex)
    ones = np.ones(len(cell))
    work = (cell, -ones, ones, b[cell], slack[cell], steep[cell])
    while len(work[0]):
        work, done = _halved(*work)
        pieces.append(done)
    facts = _Facts(*(np.concatenate(column) for column in zip(*pieces, strict=True)))
    order = np.lexsort((facts.low, facts.cell))
    facts = _Facts(*(column[order] for column in facts))
    return facts._replace(cell=facts.cell + part.first), series


def _whole(cell: np.ndarray, kind: int) -> _Facts:
    ones, unknown = np.ones(len(cell)), np.zeros(len(cell), int)
    return _Facts(cell, -ones, ones, unknown, unknown + kind, unknown)


def _series(
    places: np.ndarray, w: np.ndarray, kernel: Kernel, part: _Part
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The Taylor coefficients of f' along each cell, s from -1 to 1, and bounds on what they miss of f' and of f''."""
    anchor, offset, η = (column[:, None] for column in part.cells)
    way = places[anchor] - places[part.seen]
    if kernel.circle:
        way = way - 2 * np.pi * np.round(way / (2 * np.pi))
    near = kernel.scale * np.where(part.present, way, 0.0)
    v, A, B = kernel.parts(near + offset, η)
    weight = np.where(part.present, w[part.seen], 0.0) * np.exp(v)
    square = (kernel.curve * η) ** 2
    γ = [
        -((-1) ** (j // 2)) / math.factorial(j) * square ** (j // 2) * (B if j % 2 else A) for j in range(kernel.terms)
    ]
    slack, steep = _bounds(kernel, part, weight, (v, np.abs(A), np.abs(B)), near)
    return _exponential(weight, γ), slack, steep


def _exponential(weight: np.ndarray, γ: list[np.ndarray]) -> np.ndarray:
    """The coefficients of the derivative of e = Σ_tokens weight e^{g(s)}: (k + 1) e_{k+1} = Σ_j γ_j e_{k-j}."""
    latest, sums = [weight], []
    for k in range(DEGREE):
        top = sum((one * e for one, e in zip(γ[1:], latest[1:], strict=False)), γ[0] * latest[0])
        sums.append(top.sum(axis=1))
        latest = [top / (k + 1), *latest[: len(γ) - 1]]
    return np.stack(sums, axis=1)


def _bounds(
    kernel: Kernel, part: _Part, weight: np.ndarray, parts: tuple[np.ndarray, np.ndarray, np.ndarray], near: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Bounds on what the series of f' misses, and on what that of f'' does.

    With all signs positive the coefficients T_k of a token sum to T ≤ e^{v + G}, G = 1.02 (A + B/2), and Σ kT_k ≤ mT, Σ k²T_k ≤
    (m² + 2m)T, Σ k³T_k ≤ (m³ + 6m² + 4m)T with m = 1.04 (A + B). Rounding is a share of at most (6k + 2|v| + L) ε of a term, L for
    sums; a token that is `moved` from where it is taken to be changes a derivative by the next one; and Cauchy's estimate on
    |s| = RADIUS bounds the rest of the series."""
    v, A, B = parts
    η = part.cells.half[:, None]
    size, m = weight * np.exp(1.02 * (A + B / 2)), 1.04 * (A + B)
    q, c = m * m + 2 * m, m * (m * m + 6 * m + 4)
    L = 30 + math.log2(weight.shape[1]) + 2 * kernel.terms - 2 * v
    moved = (EPS * (np.abs(near) + 8) + kernel.blur) / np.where(η > 0, η, 1.0)
    bent = RADIUS * kernel.curve * 0.5
    growth = RADIUS * A * (math.sinh(bent) / bent if bent else 1.0) + RADIUS**2 * B * math.cosh(bent) / 2
    rest = weight * np.expm1(growth) * RADIUS ** -(DEGREE + 1.0)
    slack = size * (EPS * (L * m + 6 * q) + moved * q) + 2 * DEGREE * rest
    steep = size * (EPS * (L * q + 6 * c) + moved * c) + 2 * DEGREE**2 * rest
    return slack.sum(axis=1) + part.far + TINY, steep.sum(axis=1) + part.far + TINY


def _to_bernstein(p: int) -> np.ndarray:
    """From coefficients of s^k to those of Bernstein's polynomials of degree p on [-1, 1]: b_j is the mean of products of k out
    of j ones and p - j minus ones. No entry exceeds 1."""
    signs = lambda j, k: sum((-1) ** (k - i) * math.comb(j, i) * math.comb(p - j, k - i) for i in range(k + 1))
    return np.array([[signs(j, k) / math.comb(p, k) for k in range(p + 1)] for j in range(p + 1)])


def _to_half(p: int) -> np.ndarray:
    """Bernstein coefficients on the left half of an interval, by de Casteljau."""
    return np.array([[math.comb(j, i) / 2**j for i in range(p + 1)] for j in range(p + 1)])


TO_BERNSTEIN, TO_HALF = _to_bernstein(DEGREE - 1), _to_half(DEGREE - 1)


def _halved(
    cell: np.ndarray, low: np.ndarray, high: np.ndarray, b: np.ndarray, slack: np.ndarray, steep: np.ndarray
) -> tuple[tuple[np.ndarray, ...], _Facts]:
    """Stretches of which enough is known are done; the others are cut in two."""
    rise, size = np.diff(b, axis=1), np.abs(b).max(axis=1)
    kind = np.full(len(cell), UNKNOWN)
    kind[rise.min(axis=1) > steep] = RISING
    kind[rise.max(axis=1) < -steep] = FALLING
    kind[b.min(axis=1) > slack] = 1
    kind[b.max(axis=1) < -slack] = -1
    ends = np.where(np.abs(b[:, [0, -1]]) > slack[:, None], np.sign(b[:, [0, -1]]), 0).astype(int)
    same = ((kind == RISING) | (kind == FALLING)) & (ends[:, 0] * ends[:, 1] > 0)
    kind[same] = ends[same, 0]
    done = (kind != UNKNOWN) | (size <= slack) | (high - low < 2.0**-44)
    facts = _Facts(cell[done], low[done], high[done], ends[done, 0], kind[done], ends[done, 1])
    cell, low, high, b, slack, steep, size = (part[~done] for part in (cell, low, high, b, slack, steep, size))
    rounding, middle = 2 * DEGREE * EPS * size, (low + high) / 2
    left, right = b @ TO_HALF.T, (b[:, ::-1] @ TO_HALF.T)[:, ::-1]
    both = lambda one, other: np.concatenate([one, other])
    slack, steep = slack + rounding, steep / 2 + 2 * rounding
    rest = (both(cell, cell), both(low, middle), both(middle, high), both(left, right))
    return (*rest, both(slack, slack), both(steep, steep)), facts


def _turns(facts: _Facts, circle: bool) -> tuple[np.ndarray, np.ndarray, int]:
    """Where signs turn from + to -: the stretches of the two signs, of which the second may lie beyond the end on a circle. What is
    between two signs is sure where f' is monotone all along; how often it is not."""
    known = np.stack([facts.left, facts.kind, facts.right], axis=1).ravel()
    stretch = np.repeat(np.arange(len(facts.kind)), 3)
    if not circle:  # to the left of all tokens f rises, to their right it falls
        known, stretch = np.concatenate([[1], known, [-1]]), np.concatenate([[0], stretch, [stretch[-1]]])
    known, stretch = known[known != 0], stretch[known != 0]
    signed = np.flatnonzero(np.abs(known) == 1)
    if len(signed) == 0:
        return np.zeros(0, int), np.zeros(0, int), 1
    if circle:  # once around, from the first sign to itself
        known = np.concatenate([known[signed[0] :], known[: signed[0] + 1]])
        stretch = np.concatenate([stretch[signed[0] :], stretch[: signed[0] + 1] + len(facts.kind)])
        signed = np.flatnonzero(np.abs(known) == 1)
    before = lambda kind: np.concatenate([[0], np.cumsum(known == kind)])
    between = np.stack([before(kind)[signed[1:]] - before(kind)[signed[:-1]] for kind in (RISING, FALLING, UNKNOWN)])
    unsure = (between[2] > 0) | (np.minimum(between[0], between[1]) > 0)
    turn = (known[signed[:-1]] > 0) & (known[signed[1:]] < 0)
    return stretch[signed[:-1]][turn], stretch[signed[1:]][turn], int(unsure.sum())


def _roots(facts: _Facts, series: np.ndarray, start: np.ndarray, stop: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where f' vanishes between two stretches, as a place in a cell and the cell: in the first stretch that ends below zero."""
    here, count = start.copy(), len(facts.cell)
    for _ in range(int((stop - start).max(initial=0))):
        at = here % count
        on = (here < stop) & (_horner(series[facts.cell[at]], facts.high[at]) > 0)
        here = here + on
    at = here % count
    return _bisected(series[facts.cell[at]], facts.low[at], facts.high[at]), facts.cell[at]


def _horner(series: np.ndarray, s: np.ndarray) -> np.ndarray:
    value = np.zeros_like(s)
    for column in series.T[::-1]:
        value = value * s + column
    return value


def _bisected(series: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Where polynomials that fall through zero do so."""
    for _ in range(54):
        middle = (low + high) / 2
        above = _horner(series, middle) > 0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return (low + high) / 2
