"""How far apart two measures are: the cost of the best way to move one onto the other."""

import math
import os
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._types import Number, no_type_check
from tokenfield.errors import InputError, suggest
from tokenfield.measures import AbstractDensity, AbstractMeasure, Gaussian, Tokens
from tokenfield.observe.base import Measured, states
from tokenfield.observe.circle import Atoms, Wave, around, on_the_circle

GROUNDS = ("euclidean", "geodesic")
ITERATIONS = 10_000_000
"""Steps of the network simplex before it is given up; a thousand tokens take some ten thousand."""
UNIT = 1e-6
"""How far from 1 the length of a token on the sphere may be."""
SAME = 1e-9
"""How far apart positions, and the mass at a position, may be and still be the same."""


@front_door
@no_type_check
def wasserstein(mu: Measured, nu: Measured, p: Number = 2.0, *, ground: str | None = None) -> Float[Array, "*time"]:
    r"""The Wasserstein distance $W_p(μ, ν) = \left(\min_π \int c(x, y)^p\, dπ(x, y)\right)^{1/p}$, π with marginals μ and ν.

    The distance c is the Euclidean one in R^d, or that along great circles of the sphere. The minimum is exact:

    - tokens on the line: quantiles against quantiles, in O(n log n);
    - tokens and densities on the circle, along it: quantiles against quantiles turned by the best angle, in O(n log n)
      [delon2010]; a density's distribution function comes from its Fourier series, and the integral is exact to about 10⁻⁹;
    - Gaussians, p = 2: $W_2^2 = |m - m'|^2 + \mathrm{tr}(Σ + Σ' - 2(Σ^{1/2} Σ' Σ^{1/2})^{1/2})$  [bures1969];
    - other tokens: the network simplex of POT [flamary2021], in O(nm) memory;
    - a density on S² is replaced by the nodes of its own grid: the error is up to the distance of neighbouring ones.

    Tokens with positions s, those of causal attention, are moved within their position only:
    $\left(\int W_p^p(μ_s, ν_s)\, ds\right)^{1/p}$, ds the law of positions, which both measures share  [castin2025].

    **Arguments**

    - `mu`, `nu`: two measures: tokens, densities on one sphere, a density and tokens, or two Gaussians; one or both may be runs or
      batches of runs, with as many saved times.
    - `p`: the exponent, 1 or more.
    - `ground`: "euclidean", or "geodesic" for measures on the unit sphere. Left out, it is geodesic where a density takes part,
      whose home the sphere is, and Euclidean otherwise.

    **Returns** the distance, of runs one per saved time.

    **Raises** `InputError` where measures do not match in kind, dimension, number of times or positions, p is below 1 (for
    Gaussians, not 2), tokens are not on the sphere that the distance is along, or the simplex runs out of steps.

    >>> float(wasserstein(Tokens([[0.0], [1.0]]), Tokens([[5.0], [6.0]])))
    5.0
    >>> float(wasserstein(Gaussian([0.0], [[1.0]]), Gaussian([0.0], [[9.0]])))
    2.0
    """
    power = check.number("p", p)
    if power < 1:
        raise InputError(f"Argument `p` must be 1 or more, but is {power:g}: below 1 there is another distance.")
    if ground is not None and ground not in GROUNDS:
        raise InputError(f"Unknown ground distance {check.brief(ground)}. {suggest(ground, GROUNDS)}")
    one, other = (states(thing, AbstractMeasure) for thing in (mu, nu))
    front = _times(one, other)
    if _has(one, "cov") and _has(other, "cov"):
        return _bures(one, other, power, ground)
    _refuse_strangers(one, other)
    if check.traced((one, other)):
        raise InputError(
            "Wasserstein distances of tokens and densities need values. Call it outside of jit, grad and vmap."
        )
    measure = _Cost(power, ground or ("geodesic" if _has_density(one, other) else "euclidean"))
    if front == ():
        return check.on_device(np.asarray(measure(one, other)))
    found = [measure(_state(one, index), _state(other, index)) for index in np.ndindex(*front)]
    return check.on_device(np.reshape(found, front))


# Which measures go together.


def _times(one: AbstractMeasure, other: AbstractMeasure) -> tuple[int, ...]:
    """The shape of the saved times of two measures, of which one may have none."""
    fronts = [_front(mu) for mu in (one, other)]
    if fronts[0] and fronts[1] and fronts[0] != fronts[1]:
        raise InputError(
            f"Two runs must have the same number of saved times, but these have {fronts[0]} and {fronts[1]}. Evolve both with one "
            "`save`, or compare with a single state, run.final or run[i]."
        )
    return fronts[0] or fronts[1]


def _front(mu: AbstractMeasure) -> tuple[int, ...]:
    shapes = [array.shape[: array.ndim - len(mu.axes[name])] for name, array in mu.arrays.items()]
    return max(shapes, key=len)


def _state(mu: AbstractMeasure, index: tuple[int, ...]) -> AbstractMeasure:
    """One state of a run, without tokens of no weight; a measure that is no run is the same at all times."""
    if mu.leading == 0:
        return mu
    names = list(mu.arrays)
    at = lambda name, array: np.asarray(array)[index] if array.ndim > len(mu.axes[name]) else np.asarray(array)
    taken = [check.on_device(at(name, array)) for name, array in mu.arrays.items()]
    return eqx.tree_at(lambda mu: [getattr(mu, name) for name in names], mu, taken).present


def _has(mu: AbstractMeasure, array: str) -> bool:
    """Whether a measure is made of this: points x, or a covariance."""
    return array in mu.axes


def _has_density(*measures: AbstractMeasure) -> bool:
    return any(isinstance(mu, AbstractDensity) for mu in measures)


def _refuse_strangers(one: AbstractMeasure, other: AbstractMeasure) -> None:
    """Refuse measures between which no distance is known here."""
    for mu in (one, other):
        if _has(mu, "cov"):
            raise InputError(
                f"A Gaussian is compared with a Gaussian, but got {type(one).__name__} and {type(other).__name__}. Take tokens of "
                "it, gaussian.sample(n), or the Gaussian of the tokens, Gaussian.of(tokens)."
            )
        if not (_has(mu, "x") or _has_density(mu)):
            raise InputError(
                f"Wasserstein distances are those of tokens, densities and Gaussians, but got {type(mu).__name__}. Take tokens "
                "of it: mu.tokens()."
            )
    if one.d != other.d:  # pyright: ignore[reportAttributeAccessIssue]
        raise _other_dimension(one, other)


def _other_dimension(one: Any, other: Any) -> InputError:
    return InputError(
        f"Two measures must lie in one space R^d, but the first has d = {one.d} and the second d = {other.d}. Compare those of one "
        "dimension, or project: Tokens(x[:, :d])."
    )


# Gaussians.


def _bures(one: Gaussian, other: Gaussian, power: float, ground: str | None) -> Float[Array, "*time"]:
    """|m - m'|² + |L - L'U|² with the rotation U that brings two roots of the covariances nearest: large traces do not cancel."""
    if one.d != other.d:
        raise _other_dimension(one, other)
    if power != 2 or ground == "geodesic":
        raise InputError(
            "Between Gaussians the distance is known for p = 2 and the Euclidean ground distance. For others take tokens of them, "
            "gaussian.sample(n)."
        )
    scale = jnp.maximum(_size(one), _size(other))
    scale = jnp.where(scale > 0, scale, 1.0)
    roots = [mu.factor / scale[..., None, None] for mu in (one, other)]
    left, _, right = jnp.linalg.svd(jnp.swapaxes(roots[1], -1, -2) @ roots[0])
    turn = jax.lax.stop_gradient(left @ right)  # the best one: to first order its changes cost nothing
    apart = (one.mean - other.mean) / scale[..., None]
    spread = roots[0] - roots[1] @ turn
    square = jnp.sum(apart**2, axis=-1) + jnp.sum(spread**2, axis=(-2, -1))
    return scale * jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)


def _size(mu: Gaussian) -> Float[Array, "*time"]:
    return jnp.maximum(jnp.max(jnp.abs(mu.mean), axis=-1), jnp.sqrt(jnp.max(jnp.abs(mu.cov), axis=(-2, -1))))


# Tokens and densities, at one time.


class _Cost(NamedTuple):
    """The distance of two measures at one time."""

    p: float
    ground: str

    def __call__(self, one: Any, other: Any) -> float:
        one, other = _gridded(one), _gridded(other)
        if self.ground == "geodesic":
            return self._along_the_sphere(one, other)
        for mu in (one, other):
            if isinstance(mu, AbstractDensity):
                raise InputError(
                    "A density on the circle is compared along the circle: leave `ground` out, or take tokens of it, "
                    "density.sample(n) or Tokens.quadrature(density)."
                )
        return self._by_positions(one, other, self._of_tokens)

    def _along_the_sphere(self, one: Any, other: Any) -> float:
        for mu in (one, other):
            _refuse_off_sphere(mu)
        if one.d > 2:
            return self._by_positions(one, other, self._of_tokens)
        if _has(one, "x") and _has(other, "x"):
            return self._by_positions(one, other, lambda a, b: around(_law(a), _law(b), self.p))
        return around(_law(one), _law(other), self.p)

    def _of_tokens(self, one: Tokens, other: Tokens) -> float:
        (x, w), (y, v) = (_points(mu) for mu in (one, other))
        return on_the_line(x[:, 0], w, y[:, 0], v, self.p) if x.shape[1] == 1 else self._simplex(x, w, y, v)

    def _simplex(self, x: np.ndarray, w: np.ndarray, y: np.ndarray, v: np.ndarray) -> float:
        """The transport problem as a linear programme, in units of its largest cost."""
        from scipy.spatial.distance import cdist

        check.room(4 * 8 * len(x) * len(y), f"The costs between {len(x)} and {len(y)} points")
        unit = max(np.abs(x).max(), np.abs(y).max()) or 1.0
        costs = cdist(x / unit, y / unit)
        if self.ground == "geodesic":
            unit, costs = 1.0, 2 * np.arcsin(np.minimum(costs * unit / 2, 1.0))
        top = costs.max() or 1.0
        return float(unit * top * _simplex(w, v, (costs / top) ** self.p) ** (1 / self.p))

    def _by_positions(self, one: Tokens, other: Tokens, distance: Callable[[Tokens, Tokens], float]) -> float:
        """The distance itself, or, of tokens with positions, that of all positions together."""
        if one.s is None and other.s is None:
            return distance(one, other)
        parts = _paired(one, other)
        shares = [float(np.sum(np.asarray(one.w)[rows])) for rows, _ in parts]
        found = [distance(_some(one, rows), _some(other, columns)) for rows, columns in parts]
        top = max(found) or 1.0
        return top * math.fsum(m * (c / top) ** self.p for m, c in zip(shares, found, strict=True)) ** (1 / self.p)


def _pot() -> Any:
    """POT, without the libraries whose arrays it would also take: with PyTorch, loading it would last seconds."""
    others = {f"POT_BACKEND_DISABLE_{name}": "1" for name in ("PYTORCH", "TENSORFLOW", "CUPY", "JAX")}
    before = {name: os.environ.get(name) for name in others}
    os.environ.update({name: value for name, value in others.items() if before[name] is None})
    try:
        import ot
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
    return ot


def _simplex(w: np.ndarray, v: np.ndarray, costs: np.ndarray) -> float:
    """The least total cost, by POT; refused where it did not get there."""
    ot = _pot()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of is in its log, and refused here
        total, log = ot.emd2(w / w.sum(), v / v.sum(), costs, numItermax=ITERATIONS, log=True)
    if log["warning"] is not None:
        raise InputError(
            f"The network simplex did not reach the optimum in {ITERATIONS} steps between {len(w)} and {len(v)} points. Take fewer "
            "tokens, or compare on the line or the circle, where sorting solves it."
        )
    return max(float(total), 0.0)


def _points(mu: Tokens) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights in float64, those without weight left out."""
    x, w = np.asarray(mu.x, np.float64), np.asarray(mu.w, np.float64)
    return x[w > 0], w[w > 0]


def _gridded(mu: Any) -> Any:
    """A density on S² as the nodes of its grid; everything else as it is."""
    if isinstance(mu, AbstractDensity) and getattr(mu, "zonal", False):
        raise InputError("A zonal density has no grid on its whole sphere. Take tokens of it: density.sample(n).")
    if not isinstance(mu, AbstractDensity) or mu.d == 2:
        return mu
    w = np.maximum(np.asarray(mu.values, np.float64), 0.0) * mu.basis.weights
    return Tokens(mu.basis.points[w > 0], w[w > 0] / w.sum())


def _law(mu: Any) -> "Atoms | Wave":
    """A measure on the circle by its distribution function."""
    if isinstance(mu, AbstractDensity):
        return Wave.of(np.asarray(mu.coefficients, np.float64))
    x, w = _points(mu)
    return Atoms.of(on_the_circle(x), w)


def _refuse_off_sphere(mu: Any) -> None:
    if not _has(mu, "x"):
        return
    if mu.d < 2:
        raise InputError(
            "A distance along the sphere needs d ≥ 2, but these tokens lie on the line. Use ground='euclidean'."
        )
    radii = np.linalg.norm(_points(mu)[0], axis=1)
    worst = int(np.argmax(np.abs(radii - 1)))
    if abs(radii[worst] - 1) > UNIT:
        raise InputError(
            f"A distance along the sphere needs tokens on it, but token {worst} has length {radii[worst]:.6g}. Use their "
            "directions, Tokens(mu.directions, mu.w), or ground='euclidean'."
        )


# Positions.


def _paired(one: Tokens, other: Tokens) -> list[tuple[np.ndarray, np.ndarray]]:
    """The tokens of both measures at each position; refused where these have not the same mass."""
    if one.s is None or other.s is None:
        raise InputError(
            "One measure has positions s and the other has none. Give them to both, so that tokens move within "
            "their position, or to none."
        )
    (s, w), (τ, v) = ((np.asarray(mu.s, np.float64), np.asarray(mu.w, np.float64)) for mu in (one, other))
    places = _places(np.concatenate([s[w > 0], τ[v > 0]]))
    rows, columns = (np.where(m > 0, np.searchsorted(places, at + SAME) - 1, -1) for at, m in ((s, w), (τ, v)))
    masses = [np.bincount(which[m > 0], m[m > 0], len(places)) for which, m in ((rows, w), (columns, v))]
    worst = int(np.argmax(np.abs(masses[0] - masses[1])))
    if abs(masses[0][worst] - masses[1][worst]) > SAME:
        raise InputError(
            f"Tokens move within their position, so both measures must have the same mass at each, but at s = {places[worst]:g} "
            f"they have {masses[0][worst]:.6g} and {masses[1][worst]:.6g}. Give both the same positions, or leave s out."
        )
    split = lambda which: np.split(
        np.argsort(which, kind="stable"), np.searchsorted(np.sort(which), range(len(places)))
    )[1:]
    return list(zip(split(rows), split(columns), strict=True))


def _places(s: np.ndarray) -> np.ndarray:
    """The positions that there are, those that differ by round-off as one."""
    s = np.unique(s)
    return s[np.append(True, np.diff(s) > SAME)]


def _some(mu: Tokens, rows: np.ndarray) -> Tokens:
    w = np.asarray(mu.w, np.float64)[rows]
    return Tokens(np.asarray(mu.x, np.float64)[rows], w / w.sum())


# The line.


def on_the_line(x: np.ndarray, w: np.ndarray, y: np.ndarray, v: np.ndarray, p: float) -> float:
    """Quantiles against quantiles: (∫ |F⁻¹(u) - G⁻¹(u)|^p du)^{1/p}."""
    one, other = Atoms.of(x, w), Atoms.of(y, v)
    return one.moved(other, p)
