"""Rényi centres: where tokens gather under causal attention."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._types import Number, no_type_check
from tokenfield.errors import InputError
from tokenfield.measures import Tokens
from tokenfield.observe.base import Measured, over_members, states
from tokenfield.trajectory import Trajectory

WIDTHS = 4.0
"""δ in units of β^-1/2."""


class Centres(NamedTuple):
    """Centres by sequential parking, and what they explain.

    - `indices`: the tokens that are centres, in their order in the sequence.
    - `delta`: the angle δ that keeps them apart.
    - `share`: the share of the measure's weight within δ of a centre's place at that time; of a run one number per saved time.
    """

    indices: Int[np.ndarray, " k"]
    delta: float
    share: Any

    def __repr__(self) -> str:
        plural = "centre" if len(self.indices) == 1 else "centres"
        last = float(np.ravel(self.share)[-1])
        return f"{len(self.indices)} {plural} (δ = {self.delta:.4g}) with {last:.1%} of the weight within δ"


@front_door
@no_type_check
def renyi_centres(
    thing: Measured, delta: Number | None = None, *, beta: Number | None = None, strong: bool = False
) -> Any:
    r"""Rényi centres, by sequential parking: token j is one if its angle to every earlier centre exceeds δ.

    Under causal attention with V = I and $δ = c β^{-1/2}$, c = 4, later tokens gather at centres, and stay there for times
    exponential in β. Strong centres, whose angle to every earlier *token* exceeds δ, hardly move meanwhile; others may move and
    merge [karagodin2024, section 5].

    **Arguments**

    - `thing`: tokens, or a run of them, whose centres are those of its first state; tokens come in the order of their positions s,
      or of their indices where they have none.
    - `delta`: δ, an angle in radians below π; or
    - `beta`: β, for $δ = 4 β^{-1/2}$. One of the two is given.
    - `strong`: whether to look for strong centres.

    **Returns** `Centres`: their indices, δ, and the share of the weight that is within δ of where centres are, of a run at
    every saved time; of a batch of runs one such in an array of its shape.

    **Raises** `InputError` where `thing` is not made of tokens, one is the zero vector, not exactly one of δ and β is given, or
    δ does not lie between 0 and π.

    >>> found = renyi_centres(Tokens([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]]), delta=0.5)
    >>> found.indices.tolist(), float(found.share)
    ([0, 2], 1.0)
    """
    δ = _angle(delta, beta)
    mu = states(thing)
    if check.traced(mu):
        raise InputError("renyi_centres looks at values, so it cannot be traced by jit, grad or vmap. Call it outside.")
    if isinstance(thing, Trajectory) and thing.batch:
        return over_members(lambda run: renyi_centres(run, δ, strong=strong), thing)
    first = thing[0] if isinstance(thing, Trajectory) else mu
    centres = _parked(first, δ)
    centres = _strong(first, δ, centres) if strong else centres
    θ, w = (np.asarray(part, np.float64) for part in (mu.directions, mu.w))
    times = [_explained(*pair, centres, δ) for pair in zip(θ.reshape(-1, mu.n, mu.d), w.reshape(-1, mu.n), strict=True)]
    return Centres(centres, δ, np.reshape(times, θ.shape[:-2]))


def _angle(delta: Any, beta: Any) -> float:
    if (delta is None) == (beta is None):
        raise InputError(
            "renyi_centres takes either an angle, delta=0.5, or an inverse temperature, beta=64.0, but not both."
        )
    δ = check.number("delta", delta, positive=True) if beta is None else None
    δ = WIDTHS / np.sqrt(check.number("beta", beta, positive=True)) if δ is None else δ
    if not δ < np.pi:
        raise InputError(
            f"Centres are an angle δ below π apart, but δ = {δ:g}. On the sphere β must exceed (4/π)² ≈ 1.63."
        )
    return float(δ)


def _parked(mu: Tokens, δ: float) -> Int[np.ndarray, " k"]:
    """Tokens that are farther than δ from all centres before them, in order."""
    θ = np.asarray(mu.directions, np.float64)
    order = _order(mu)
    centres: list[int] = []
    for j in order[np.asarray(mu.w)[order] > 0]:
        if np.all(_chords(θ[centres], θ[j]) > 2 * np.sin(δ / 2)):
            centres.append(int(j))
    return np.array(centres)


def _strong(mu: Tokens, δ: float, centres: np.ndarray) -> Int[np.ndarray, " k"]:
    """Those farther than δ from all tokens before them: centres all, since all centres before them are among those."""
    θ, weighs, place = np.asarray(mu.directions, np.float64), np.asarray(mu.w) > 0, np.argsort(_order(mu))
    before = lambda j: θ[(place < place[j]) & weighs]
    return np.array([j for j in centres if np.all(_chords(before(j), θ[j]) > 2 * np.sin(δ / 2))])


def _order(mu: Tokens) -> Int[np.ndarray, " n"]:
    return np.arange(mu.n) if mu.s is None else np.argsort(np.asarray(mu.s), kind="stable")


def _chords(places: np.ndarray, point: np.ndarray) -> np.ndarray:
    return np.linalg.norm(places - point, axis=1)


def _explained(θ: np.ndarray, w: np.ndarray, centres: np.ndarray, δ: float) -> Float[np.ndarray, ""]:
    from scipy.spatial import KDTree

    nearest, _ = KDTree(θ[centres]).query(θ)
    return np.asarray(w[nearest <= 2 * np.sin(δ / 2)].sum() / w.sum())
