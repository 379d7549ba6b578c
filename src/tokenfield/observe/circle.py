"""Transport on the line and on the circle, by distribution functions."""

import dataclasses
import functools

import numpy as np
from jaxtyping import Float

from tokenfield.harmonics.fourier import fast_even

TURN = 2 * np.pi
HALVINGS = 52
"""How often an interval of shifts is halved: as often as a double has digits."""
FINE = 512
"""Nodes per degree in the table of a density's distribution function: cubic interpolation is then exact to 1e-11."""
GAUSS = np.polynomial.legendre.leggauss(8)


def on_the_circle(x: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
    """Angles in [0, 2π)."""
    θ = np.mod(np.arctan2(x[:, 1], x[:, 0]), TURN)
    return np.where(θ >= TURN, 0.0, θ)


@dataclasses.dataclass(frozen=True)
class Atoms:
    """Points in order, and how much mass lies up to each, its own included."""

    places: Float[np.ndarray, " n"]
    levels: Float[np.ndarray, " n"]

    @staticmethod
    def of(x: np.ndarray, w: np.ndarray) -> "Atoms":
        order = np.argsort(x, kind="stable")
        levels = np.cumsum(w[order])
        return Atoms(x[order], levels / levels[-1])

    def quantile(self, u: np.ndarray) -> np.ndarray:
        """The least place with mass u up to it, from the left; on the circle, mass 1 more is a turn more."""
        turns = np.ceil(u) - 1
        return self.places[np.searchsorted(self.levels[:-1], u - turns)] + TURN * turns

    def moved(self, other: "Atoms", p: float, shift: float = 0.0) -> float:
        """(∫ |F⁻¹(u) - G⁻¹(u + shift)|^p du)^{1/p}: between two levels of either, both quantiles stand still.

        Pieces no longer than the round-off of the levels are none: they would be tokens that are split by it."""
        cuts = other.levels - shift
        cuts = np.sort(np.concatenate([self.levels, cuts - np.floor(cuts), [0.0, 1.0]]), kind="stable")
        length = np.diff(cuts)
        length = np.where(length > np.finfo(float).eps * (len(cuts) + 8), length, 0.0)
        some = length > 0
        middle = 0.5 * (cuts[1:] + cuts[:-1])[some]
        return power_mean(np.abs(self.quantile(middle) - other.quantile(middle + shift)), length[some], p)


@dataclasses.dataclass(frozen=True)
class Wave:
    """A density on the circle with respect to dθ/2π, as tables on a fine grid: f, f', and F, the mass from 0 to θ."""

    f: Float[np.ndarray, " m"]
    slope: Float[np.ndarray, " m"]
    F: Float[np.ndarray, " m+1"]

    @staticmethod
    def of(coefficients: Float[np.ndarray, " size"]) -> "Wave":
        degree = (len(coefficients) - 1) // 2
        m, k = fast_even(FINE * degree), np.arange(1, degree + 1)
        half = (coefficients[1::2] - 1j * coefficients[2::2]) / np.sqrt(2)
        series = lambda mean, rest: np.fft.irfft(np.concatenate([[mean], rest]), n=m, norm="forward")
        wave = series(0.0, half / (1j * k)) / TURN
        F = np.append(np.arange(m) / m + wave - wave[0], 1.0)
        F = np.maximum.accumulate(np.clip(F, 0.0, 1.0))
        return Wave(series(1.0, half), series(0.0, 1j * k * half), F)

    @property
    def step(self) -> float:
        return TURN / len(self.f)

    def _cell(self, θ: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The cell of each angle, how far along it, and after how many turns."""
        turns = np.floor(θ / TURN)
        along = (θ - TURN * turns) / self.step
        i = np.minimum(along.astype(int), len(self.f) - 1)
        return i, along - i, turns

    def density(self, θ: np.ndarray) -> np.ndarray:
        i, s, _ = self._cell(θ)
        j = (i + 1) % len(self.f)
        return np.maximum(_cubic(self.f[i], self.f[j], self.step * self.slope[i], self.step * self.slope[j], s), 0.0)

    def level(self, θ: np.ndarray) -> np.ndarray:
        """F(θ), with F(θ + 2π) = F(θ) + 1."""
        i, s, turns = self._cell(θ)
        return self._within(i, s) + turns

    def _within(self, i: np.ndarray, s: np.ndarray) -> np.ndarray:
        h = 1 / len(self.f)
        low, high = self.F[i], self.F[i + 1]
        return np.clip(_cubic(low, high, h * self.f[i], h * self.f[(i + 1) % len(self.f)], s), low, high)

    def quantile(self, u: np.ndarray) -> np.ndarray:
        """F⁻¹(u): the cell by search, the place in it by Newton's steps with the cell's mean slope: F is almost straight there."""
        turns = np.floor(u)
        rest = u - turns
        i = np.clip(np.searchsorted(self.F, rest, side="right") - 1, 0, len(self.f) - 1)
        rise = np.maximum(self.F[i + 1] - self.F[i], np.finfo(float).tiny)
        s = np.clip((rest - self.F[i]) / rise, 0.0, 1.0)
        for _ in range(4):
            s = np.clip(s - (self._within(i, s) - rest) / rise, 0.0, 1.0)
        return (i + s) * self.step + TURN * turns


def around(one: Atoms | Wave, other: Atoms | Wave, p: float) -> float:
    r"""The distance along the circle: $\min_α (\int |F^{-1}(u) - G^{-1}(u + α)|^p du)^{1/p}$, convex in α  [delon2010]."""
    if isinstance(one, Atoms) and isinstance(other, Wave):
        one, other = other, one
    if isinstance(one, Atoms):
        assert isinstance(other, Atoms)
        return one.moved(other, p, _balanced(one, other, p))
    if isinstance(other, Atoms):
        return _poured(one, other, p, _balanced(one, other, p))
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(
        functools.partial(_poured, one, other, p), bounds=(-1.0, 1.0), method="bounded", options={"xatol": 1e-10}
    )
    return min(float(found.fun), _poured(one, other, p, 0.0))


def _balanced(one: Atoms | Wave, other: Atoms, p: float) -> float:
    """The shift α at which the slope of the cost changes sign, by halving. When α grows, mass at the level of a token goes to the
    next one: the slope is Σ_j |y_{j+1} - x_j|^p - |y_j - x_j|^p with x_j = F⁻¹(level_j - α)."""
    y, after = other.places, np.append(other.places[1:], other.places[0] + TURN)
    low, high = -1.0, 1.0
    for _ in range(
        HALVINGS if isinstance(one, Atoms) else HALVINGS // 2 + 4
    ):  # beside a density the cost is smooth in α
        α = 0.5 * (low + high)
        x = one.quantile(other.levels - α)
        ahead, behind = (
            np.abs(after - x) / TURN,
            np.abs(y - x) / TURN,
        )  # at most 2, so that powers are told apart by the larger
        top = max(ahead.max(), behind.max())
        slope = np.sum((ahead / top) ** p - (behind / top) ** p) if top > 0 else 0.0
        low, high = (low, α) if slope >= 0 else (α, high)
    return 0.5 * (low + high)


def _poured(one: Wave, other: Atoms | Wave, p: float, shift: float) -> float:
    """(∫ |θ - G⁻¹(F(θ) + α)|^p f dθ/2π)^{1/p}, by Gauss' rule on pieces between all kinks."""
    cells = len(one.f) // (FINE // 8)
    kinks = [np.linspace(0.0, TURN, cells + 1)]
    if isinstance(other, Atoms):
        kinks += [one.quantile(other.levels - shift), other.places]
    else:
        kinks += [_crossings(one, other, shift)]
    edges = np.unique(np.mod(np.concatenate(kinks), TURN))
    edges = np.append(edges, edges[0] + TURN)
    nodes, weights = GAUSS
    half = 0.5 * np.diff(edges)
    θ = (0.5 * (edges[1:] + edges[:-1]) + half * nodes[:, None]).ravel()
    mass = (half * weights[:, None]).ravel() * one.density(θ) / TURN
    return power_mean(np.abs(θ - other.quantile(one.level(θ) + shift)), mass, p)


def _crossings(one: Wave, other: Wave, shift: float) -> np.ndarray:
    """Where nothing moves, F(θ) + α = G(θ) up to whole turns: by sign changes on the finer grid, and the line between."""
    θ = np.linspace(0.0, TURN, max(len(one.f), len(other.f)) + 1)
    gap = one.level(θ) - other.level(θ) + shift
    gap = gap - np.round(gap)
    i = np.flatnonzero((gap[:-1] * gap[1:] < 0) & (np.abs(gap[:-1] - gap[1:]) < 0.5))
    return θ[i] + (θ[i + 1] - θ[i]) * gap[i] / (gap[i] - gap[i + 1])


def power_mean(cost: np.ndarray, mass: np.ndarray, p: float) -> float:
    """(Σ mass · cost^p)^{1/p}, whatever the powers are."""
    top = float(cost.max(initial=0.0))
    return top * float(np.sum(mass * (cost / top) ** p)) ** (1 / p) if top > 0 else 0.0


def _cubic(a: np.ndarray, b: np.ndarray, da: np.ndarray, db: np.ndarray, s: np.ndarray) -> np.ndarray:
    """The cubic with these values and slopes at 0 and 1."""
    t = 1 - s
    return t * t * ((1 + 2 * s) * a + s * da) + s * s * ((1 + 2 * t) * b - t * db)
