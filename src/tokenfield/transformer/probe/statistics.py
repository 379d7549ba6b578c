"""Numbers of one state, or of one look at a block. They are plain formulas, computed on the host in double precision."""

from collections.abc import Callable

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float, Int

from tokenfield import _checks as check
from tokenfield.measures import Tokens
from tokenfield.observe.clustering import how_many
from tokenfield.transformer.probe.looks import Look, directions, overlap_matrix

BINS = 50
"""Bins of the overlap histogram, over [-1, 1]."""
EXCESS = 0.2
"""A sink has so much more of a layer's attention than uniform attention would give it."""
FLAT = 1e-6
"""Overlaps whose spread is below this are all alike, in single precision: nothing can be measured by them."""
LARGEST = 60.0
"""The largest advantage e^g of a token's own score that is told apart from infinity."""

Matrix = Float[np.ndarray, "n d"]
Heads = Float[np.ndarray, "heads n n"]
Pairs = Bool[np.ndarray, "n n"]


# States


def cosine(x: Matrix) -> float:
    r"""The mean overlap of two tokens, the diagonal left out: $\frac{1}{n(n-1)} \sum_{i \neq j} \langle θ_i, θ_j\rangle$;
    `observe.mean_overlap`."""
    n, mean = len(x), directions(x).mean(axis=0)
    return float((n * mean @ mean - 1) / (n - 1))


def histogram(x: Matrix) -> Float[np.ndarray, " bins"]:
    """Shares of pairs by overlap, as in `observe.overlap_histogram`  [rigollet2025, Figure 1]."""
    pairs = overlap_matrix(x)[np.triu_indices(len(x), 1)]
    return np.histogram(pairs, BINS, (-1.0, 1.0))[0] / len(pairs)


def rank(x: Matrix) -> float:
    r"""The effective rank $\exp(-\sum_k p_k \log p_k)$, $p_k = σ_k/\sum σ$: `observe.effective_rank`."""
    σ = np.linalg.svd(x, compute_uv=False)
    return float(np.exp(_entropy(σ / max(σ.sum(), np.finfo(float).tiny))))


def clusters(states: Float[np.ndarray, "L n d"], angle: float) -> Int[np.ndarray, " L"]:
    """How many clusters of this radius, in radians, every state has: `observe.clusters`."""
    return how_many(batch(states), angle)


def batch(states: Float[np.ndarray, "L n d"]) -> Tokens:
    """Many states as tokens with a leading axis."""
    one = Tokens(states[0])
    w = np.full(states.shape[:2], 1 / states.shape[1])
    return eqx.tree_at(lambda mu: (mu.x, mu.w), one, (check.on_device(states), check.on_device(w)))


def radius(x: Matrix) -> float:
    """The mean length |x|."""
    return float(np.mean(np.linalg.norm(x, axis=1)))


def energy(x: Matrix, beta: float) -> float:
    r"""The energy of the directions θ over that of one cluster: $E_β/E_β(δ) = n^{-2} \sum_{ij} e^{β(\langle θ_i, θ_j\rangle -
    1)}$, which is 2βe^{-β} times `observe.energy`."""
    return float(np.mean(np.exp(beta * (overlap_matrix(x) - 1))))


# Attention


def held(P: Heads, seen: Pairs) -> Float[np.ndarray, "heads n"]:
    """How much of all attention each token holds: the mean of P_ij over the queries i that see two tokens or more."""
    return np.mean(shares(P, seen)[:, seen.sum(axis=1) > 1], axis=1)


def uniform(seen: Pairs) -> Float[np.ndarray, " n"]:
    """What each token would hold were attention uniform among the tokens that are seen."""
    return held(np.ones((1, *seen.shape)), seen)[0]


def sinks(P: Heads, seen: Pairs) -> Bool[np.ndarray, " n"]:
    """Tokens that hold so much more of the attention of the mean head than uniform attention would give them (`EXCESS`)."""
    return held(P, seen).mean(axis=0) > uniform(seen) + EXCESS


def shares(P: Heads, seen: Pairs) -> Heads:
    """Rows of attention over what is seen, with sums 1; NaN where a row has negative entries or none."""
    P = np.where(seen, P, 0.0)
    total = P.sum(axis=-1, keepdims=True)
    good = (total > 0) & (P.min(axis=-1, keepdims=True) >= 0)
    return np.where(good, P / np.where(total > 0, total, 1.0), np.nan)


def entropy(P: Heads, seen: Pairs) -> tuple[np.ndarray, np.ndarray]:
    r"""The mean over queries of the Shannon entropy $-\sum_j P_{ij}\log P_{ij}$ of every head; and of the same over log n_i,
    with n_i the number of keys that query i sees. Queries that see one key only are left out."""
    many = seen.sum(axis=1) > 1
    H = _entropy(shares(P, seen)[:, many])
    return H.mean(axis=1), np.mean(H / np.log(seen[many].sum(axis=1)), axis=1)


def spread(S: Float[np.ndarray, "*heads n n"], seen: Pairs) -> np.ndarray:
    """The standard deviation over the keys that a query sees, averaged over the queries that see two or more."""
    many = seen.sum(axis=1) > 1
    return np.asarray(np.mean(_deviations(S, seen)[..., many], axis=-1))


def beta(look: Look, seen: Pairs) -> Float[np.ndarray, " heads"]:
    r"""The effective β of every head: the spread of its scores in units of the spread of overlaps,

    $$β_{\mathrm{eff}} = \frac{\mathrm{mean}_i\,\mathrm{std}_j(s_{ij})}{\mathrm{mean}_i\,\mathrm{std}_j(\langle θ_i, θ_j\rangle)},$$

    over the keys j that query i sees, itself included, and the queries that see two keys or more; s are the scores β<q, k> and
    θ the directions of what attention reads. Where scores are β<θ_i, θ_j>, for tokens on the sphere with Q = K = I, it is β
    itself, whatever the tokens. It is NaN where all tokens are one, and overlaps have no spread.
    """
    unit = float(spread(look.O, seen))
    return spread(look.S, seen) / unit if unit > FLAT else np.full(len(look.S), np.nan)


def alignment(look: Look, seen: Pairs) -> Float[np.ndarray, " heads"]:
    """The correlation over keys of scores and overlaps, averaged over queries: 1 where scores are β<θ_i, θ_j> with β > 0, as
    the theory has them, 0 where they have nothing to do with each other. NaN where nothing varies."""
    many, count = seen.sum(axis=1) > 1, seen.sum(axis=1)
    both = _centred(look.S, seen), _centred(look.O, seen)
    widths = _deviations(look.S, seen) * _deviations(look.O, seen)
    useful = many & np.all(widths > FLAT**2, axis=0)
    if not useful.any():
        return np.full(len(look.S), np.nan)
    together = np.sum(both[0] * both[1], axis=-1)[:, useful] / count[useful]
    return np.mean(together / widths[:, useful], axis=1)


def concentrated(look: Look, seen: Pairs) -> Float[np.ndarray, " heads"]:
    r"""The β at which equiangular tokens concentrate their attention as much as every head does: that with which

    $$\mathrm{mean}_i \frac{e^{2g} + n_i - 1}{(e^g + n_i - 1)^2} = \mathrm{mean}_i \sum_j P_{ij}^2, \qquad g = β(1 - ρ),$$

    with n_i the number of keys that query i sees and ρ the mean overlap of what attention reads. Of equiangular tokens with
    scores β<θ_i, θ_j>, β ≥ 0, it is β itself. NaN where rows are no shares, or all tokens are one.
    """
    many = seen.sum(axis=1) > 1
    goal = np.mean(np.sum(shares(look.P, seen)[:, many] ** 2, axis=-1), axis=1)
    n = len(look.O)
    gap = 1 - (look.O.sum() - n) / (n * (n - 1))
    return advantage(goal, seen[many].sum(axis=1)) / gap if gap > FLAT else np.full(len(look.P), np.nan)


def advantage(goal: Float[np.ndarray, " heads"], n: np.ndarray) -> Float[np.ndarray, " heads"]:
    """The g of `concentrated`, by bisection."""
    low, high = np.zeros(len(goal)), np.full(len(goal), LARGEST)
    for _ in range(60):
        g = (low + high) / 2
        less = participation(g[:, None], n).mean(axis=1) < goal
        low, high = np.where(less, g, low), np.where(less, high, g)
    return np.where(np.isfinite(goal), (low + high) / 2, np.nan)


def participation(g: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Σ_j P_ij² of n equiangular tokens, whose own score exceeds the others by g."""
    return (1 + (n - 1) * np.exp(-2 * g)) / (1 + (n - 1) * np.exp(-g)) ** 2


def step(look: Look, x: Matrix) -> float:
    """The length of what attention adds over that of the tokens: the step of the residual stream."""
    return radius(look.added) / max(radius(x), np.finfo(float).tiny)


ATTENTION: dict[str, Callable[[Look, Pairs], np.ndarray]] = {
    "entropy": lambda look, seen: entropy(look.P, seen)[0],
    "entropy_share": lambda look, seen: entropy(look.P, seen)[1],
    "beta": beta,
    "beta_concentrated": concentrated,
    "alignment": alignment,
}
"""What is measured of every head, by name."""


def _centred(S: np.ndarray, seen: Pairs) -> np.ndarray:
    """S minus its mean over the keys that are seen, and 0 where they are not."""
    mean = np.sum(np.where(seen, S, 0.0), axis=-1) / np.maximum(seen.sum(axis=1), 1)
    return np.where(seen, S - mean[..., None], 0.0)


def _deviations(S: np.ndarray, seen: Pairs) -> np.ndarray:
    return np.sqrt(np.sum(_centred(S, seen) ** 2, axis=-1) / np.maximum(seen.sum(axis=1), 1))


def _entropy(p: np.ndarray) -> np.ndarray:
    """-Σ p log p along the last axis."""
    parts = np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), np.where(np.isnan(p), np.nan, 0.0))
    return np.asarray(-np.sum(parts, axis=-1))
