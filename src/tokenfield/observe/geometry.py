"""Where tokens are: how far out, in which hemisphere, in how many dimensions."""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._norms import sizes
from tokenfield._types import Number, Numbers, no_type_check
from tokenfield.errors import InputError
from tokenfield.measures import AbstractMeasure, Gaussian, Tokens
from tokenfield.observe.base import Measured, blind, each, one_by_one, states
from tokenfield.trajectory import Trajectory


@blind
@front_door
@no_type_check
def support_radius(thing: Measured) -> Float[Array, "*time"]:
    r"""The radius of the support: $\max_i |x_i|$ over the tokens that have weight.

    Along softmax, L2, Sinkhorn and masked attention it grows by at most $\exp \int \|V\|_2\,dt$ [castin2025].

    **Arguments**

    - `thing`: tokens, or a run of them.

    **Returns** the radius, of a run one number per saved time.

    **Raises** `InputError` where `thing` is not made of tokens: the support of a Gaussian has no radius.

    >>> float(support_radius(Tokens([[3.0, 4.0], [0.0, 1.0]])))
    5.0
    """
    if isinstance(thing.states if isinstance(thing, Trajectory) else thing, Gaussian):
        raise InputError(
            "The support of a Gaussian is a whole subspace and has no radius. Its spread is √(tr Σ): mu.spread, or run.spread."
        )
    mu = states(thing)
    xp, radii, w = check.known(sizes(mu.x), mu.w)
    return check.on_device(xp.max(xp.where(w > 0, radii, 0.0), axis=-1))


@blind
@front_door
@no_type_check
def numerical_rank(thing: Measured | Numbers, tolerance: Number = 1e-9) -> Int[Array, "*time"]:
    r"""The numerical rank: how many singular values exceed `tolerance` times the largest, $\#\{k : σ_k > τ σ_1\}$.

    Of tokens it is that of their matrix, its rows times $\sqrt{w_i}$, so the dimension of their span; of a Gaussian that of its
    covariance; of a matrix, an attention matrix say, its own. `effective_rank` counts the same singular values by how large they
    are and is at most the rank at tolerance 0; this one counts all that are not round-off alike, and is a whole number.

    **Arguments**

    - `thing`: tokens, a Gaussian, or a run of either; or a matrix, where more axes make a batch of matrices.
    - `tolerance`: τ, at least 0 and below 1.

    **Returns** the rank, of a run one number per saved time; 0 where everything is 0.

    **Raises** `InputError` where `thing` is none of these, an entry is not finite, or the tolerance is out of range.

    >>> int(numerical_rank(Tokens([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 1.0, 0.0]])))
    2
    """
    tolerance = check.scalar("tolerance", tolerance)
    if not check.traced(tolerance) and not 0 <= float(tolerance) < 1:
        raise InputError(f"Argument `tolerance` must lie in [0, 1), but is {float(tolerance):g}.")
    if not isinstance(thing, AbstractMeasure | Trajectory):
        matrix = check.finite("thing", check.real_array("thing", thing, like="a measure, a run or a matrix"))
        if matrix.ndim < 2 or 0 in matrix.shape:
            raise InputError(f"numerical_rank takes a measure, a run or a matrix, but got shape {matrix.shape}.")
        return _rank(matrix, tolerance)
    mu = states(thing, Tokens | Gaussian)
    return _rank(mu.cov, tolerance) if isinstance(mu, Gaussian) else each(_rank_of_tokens, thing, tolerance)


def _rank_of_tokens(mu: Tokens, tolerance: Float[Array, ""]) -> Int[Array, ""]:
    return _rank(jnp.sqrt(mu.w)[:, None] * mu.x, tolerance)


def _rank(matrix: Float[Array, "*batch n d"], tolerance: Float[Array, ""]) -> Int[Array, "*batch"]:
    size = jnp.max(jnp.abs(matrix), axis=(-2, -1), keepdims=True)  # in units of the largest entry nothing overflows
    σ = jnp.linalg.svd(matrix / jnp.where(size > 0, size, 1.0), compute_uv=False)
    return jnp.sum(σ > tolerance.astype(σ.dtype) * σ[..., :1], axis=-1)


class Hemisphere(NamedTuple):
    """Whether all tokens lie in one open hemisphere, and the proof.

    - `exists`: whether there is one.
    - `margin`: the largest number m such that $\\langle θ_i, p\\rangle ≥ m$ for all tokens and some unit vector p; where there is
      no hemisphere, the smallest such loss: 0, to rounding.
    - `pole`: that p, where it exists; else None.
    - `certificate`: numbers $c_i ≥ 0$ with sum 1. Where there is no hemisphere, $\\sum_i c_i θ_i = 0$, so that no p has positive
      inner products with all; where there is one, $|\\sum_i c_i θ_i|$ is the margin, so that no p has a larger one.
    - `gap`: how far margin and certificate are from proving each other: $|\\sum_i c_i θ_i|$ minus the margin.
    """

    exists: bool
    margin: float
    pole: Float[np.ndarray, " d"] | None
    certificate: Float[np.ndarray, " n"]
    gap: float

    def __repr__(self) -> str:
        if not self.exists:
            return "no open hemisphere holds all tokens"
        return f"an open hemisphere holds all tokens, with margin {self.margin:.6g}"


@front_door
@no_type_check
def hemisphere(thing: Measured) -> Any:
    r"""Whether all tokens lie in one open hemisphere: its pole and margin, or a certificate that there is none.

    The hypothesis of exponential clustering [rigollet2025, Theorem 3]. The best pole maximizes $\min_i \langle θ_i, p\rangle$ over
    $|p| = 1$. By duality this is the length of the shortest vector $\sum_i c_i θ_i$ of the convex hull [wolfe1976], which points
    at the pole; if it is 0, its c prove that there is no hemisphere (Gordan). The shortest vector comes from
    non-negative least squares for $\sum_i c_i θ_i = 0$, $\sum_i c_i = 1$: the direction of c is that of the shortest vector. This
    decides margins down to some 1e-10. Where pole and c do not prove each other, a linear programme looks for a better pole.

    **Arguments**

    - `thing`: tokens, or a run of them; their directions count.

    **Returns** `Hemisphere`, of a run a list with one per saved time, of a batch of runs such lists in an array of its shape.

    **Raises** `InputError` where `thing` is not made of tokens, one is the zero vector, or the values are traced.

    >>> hemisphere(Tokens([[1.0, 0.0], [0.0, 1.0]]))
    an open hemisphere holds all tokens, with margin 0.707107
    >>> found = hemisphere(mu := Tokens([[1.0, 0.0], [-1.0, 1.0], [-1.0, -1.0]]))
    >>> found, bool(np.allclose(found.certificate @ mu.directions, 0.0, atol=1e-15))
    (no open hemisphere holds all tokens, True)
    """
    return one_by_one(_hemisphere, thing, "hemisphere")


def _hemisphere(mu: Tokens) -> Hemisphere:
    θ = np.asarray(mu.directions, np.float64)
    c = shortest(θ)
    length = float(np.linalg.norm(c @ θ))
    round_off = 8 * math.sqrt(mu.d) * np.finfo(np.float64).eps
    best = -np.inf, None
    if length > round_off:
        best = _margin(θ, c @ θ)
        if length - best[0] > 1e-9:
            best = max(best, _margin(θ, _by_programme(θ)), key=lambda pair: pair[0])
    margin, pole = best
    if pole is None or margin <= round_off:
        return Hemisphere(False, 0.0, None, c, length)
    return Hemisphere(True, float(margin), pole, c, length - float(margin))


def _margin(θ: np.ndarray, pole: np.ndarray) -> tuple[float, np.ndarray]:
    pole = pole / np.linalg.norm(pole)
    return float(np.min(θ @ pole)), pole


def shortest(θ: np.ndarray) -> np.ndarray:
    """The c ≥ 0 of sum 1 for which |Σ c_i θ_i| is least: min |Σ c_i θ_i|² + (Σ c_i - 1)² has them, up to a factor."""
    from scipy.optimize import nnls

    places, first = np.unique(θ, axis=0, return_index=True)
    try:
        c, _ = nnls(np.vstack([places.T, np.ones(len(places))]), np.append(np.zeros(θ.shape[1]), 1.0))
    except RuntimeError:  # too many iterations: an answer, if not the best
        c = np.ones(len(places))
    whole = np.zeros(len(θ))
    whole[first] = c / c.sum()
    return whole


def _by_programme(θ: np.ndarray) -> np.ndarray:
    """The pole of largest margin among those with |p|_∞ ≤ 1: a linear programme in p and the margin."""
    from scipy.optimize import linprog

    n, d = θ.shape
    found = linprog(
        np.append(np.zeros(d), -1.0),
        A_ub=np.hstack([-θ, np.ones((n, 1))]),
        b_ub=np.zeros(n),
        bounds=[(-1.0, 1.0)] * d + [(None, 1.0)],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    return found.x[:d] if found.x is not None and np.any(found.x[:d]) else np.eye(d)[0]
