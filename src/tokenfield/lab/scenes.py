"""What is seen of a measure: points and curves on the stage, numbers and pictures in the panels. One class per kind of measure."""

import abc
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from tokenfield.errors import InputError
from tokenfield.flow import Flow
from tokenfield.measures import AbstractDensity, AbstractMeasure, CircleDensity, Equiangular, Gaussian, Tokens
from tokenfield.observe import attention_matrix

ANGLE = 0.1
"""The radius of a cluster on the sphere, in radians, as `observe.clusters` has it."""
SHARE = 0.05
"""The radius of a cluster in space, as a share of what is seen."""
MOST_CLUSTERS = 64
"""Clusters are counted, and have colours, up to here."""
SAMPLE, FEW, BINS = 256, 64, 40
"""Tokens whose pairs are looked at, tokens of the attention matrix, and bars of the histogram."""
NONE = 255
"""The label of a token without a cluster."""

PANELS: dict[str, dict[str, Any]] = {
    "energy": {"kind": "line", "title": "Energy, as a share of its largest value"},
    "clusters": {"kind": "line", "title": "Number of clusters", "step": True},
    "overlaps": {"kind": "bars", "title": "Overlaps ⟨xᵢ, xⱼ⟩ of pairs", "range": [-1, 1]},
    "attention": {"kind": "heat", "title": "Attention matrix of some tokens"},
    "rank": {"kind": "line", "title": "Effective rank"},
    "order": {"kind": "line", "title": "Order parameter |∫ x dμ|"},
    "spectrum": {"kind": "line", "title": "Eigenvalues of the covariance"},
    "rho": {"kind": "line", "title": "Cosine ρ of two tokens"},
    "entropy": {"kind": "line", "title": "Entropy -∫ f log f"},
}
"""All panels by name, as the page is told of them."""


@dataclasses.dataclass
class Picture:
    """What a frame shows: plain data of its header, and arrays."""

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]


class Scene(abc.ABC):
    """How a kind of measure is seen. `stage` is asked for every frame; `panel` some times a second, by the name of a panel."""

    panels: ClassVar[tuple[str, ...]] = ()
    clustered: ClassVar[bool] = False
    """Whether there are clusters to be counted."""

    def __init__(self, view: str = "ellipse"):
        self.view = view
        self.count: int | None = None

    def label(self, mu: Any) -> None:  # noqa: B027, a scene may have nobody to tell apart
        """Look who belongs together; some times a second."""

    @abc.abstractmethod
    def stage(self, mu: Any) -> Picture:
        """The points and curves of a state."""

    def look(self, mu: Any, flow: Flow | None, wanted: tuple[str, ...]) -> Picture:
        """What the wanted panels show: numbers, or arrays."""
        seen = Picture({}, {})
        for name in wanted:
            if name in self.panels:
                value = getattr(self, f"_{name}")(mu, flow)
                (seen.arrays if isinstance(value, np.ndarray) else seen.header)[name] = value
        return seen

    def lifted(self, mu: Any, x: list[float], token: int | None = None) -> np.ndarray | None:
        """The point of space that is seen at these coordinates, for tokens; None where nothing can be put there."""
        return None


SCENES: dict[type[AbstractMeasure], type[Scene]] = {}


def scene_of(mu: AbstractMeasure, view: str = "ellipse") -> Scene:
    """How this measure is seen."""
    found = next((SCENES[kind] for kind in type(mu).__mro__ if kind in SCENES), None)
    if found is None:
        raise InputError(f"The page knows no picture of a {type(mu).__name__}.")
    return found(view)


def shows(*kinds: type[AbstractMeasure]) -> Callable[[type[Scene]], type[Scene]]:
    """`@shows(MyMeasure)` above a scene: measures of this kind are seen by it."""

    def registered(scene: type[Scene]) -> type[Scene]:
        SCENES.update(dict.fromkeys(kinds, scene))
        return scene

    return registered


@shows(Tokens)
class TokenScene(Scene):
    """Tokens as points; in more than three dimensions by a fixed projection. Colours are clusters."""

    panels = ("energy", "clusters", "overlaps", "attention", "rank", "order")
    clustered = True

    def __init__(self, view: str = "ellipse"):
        super().__init__(view)
        self.labels = np.zeros(0, np.uint8)

    def stage(self, mu: Any) -> Picture:
        x, w = np.asarray(mu.x), np.asarray(mu.w)
        seen, unit = projected(x).astype(np.float32), self.unit(x)
        if len(self.labels) != len(x):
            self.label(mu)
        header = {"unit": int(unit), "reach": 1.0 if unit else _reach(seen), "drag": True}
        arrays = {"x": seen, "label": self.labels}
        if np.ptp(w) > 1e-9 * w.max():
            arrays["size"] = (w * len(w)).astype(np.float32)
        return Picture(header, arrays)

    @staticmethod
    def unit(x: np.ndarray) -> bool:
        """Whether all tokens are on the circle or the sphere."""
        return x.shape[1] in (2, 3) and bool(np.all(np.abs(np.einsum("nd,nd->n", x, x) - 1) < 1e-6))

    def label(self, mu: Any) -> None:
        """Colour tokens by cluster, and count these."""
        x = np.asarray(mu.x)
        lengths = np.linalg.norm(x, axis=1)
        on_sphere = bool(np.all(np.abs(lengths - 1) < 1e-6))
        radius = 2 * math.sin(ANGLE / 2) if on_sphere else SHARE * _reach(x)
        self.labels, self.count = leaders(x, radius)

    def _clusters(self, mu: Any, flow: Flow | None) -> int | None:
        return self.count

    def _energy(self, mu: Any, flow: Flow | None) -> float | None:
        """Σ w_i w_j e^{β(<x_i, x_j> - 1)} of tokens on the sphere, of a sample where they are many."""
        coupling, some = None if flow is None else flow.coupling_if_any(), _sample(mu, SAMPLE)
        x, w = np.asarray(mu.x)[some], np.asarray(mu.w)[some]
        if coupling is None or np.abs(np.einsum("nd,nd->n", x, x) - 1).max() > 1e-6:
            return None
        w = w / w.sum()
        return float(w @ np.exp(float(coupling.beta) * (x @ x.T - 1)) @ w)

    def _overlaps(self, mu: Any, flow: Flow | None) -> np.ndarray:
        x = np.asarray(mu.x)[_sample(mu, SAMPLE)]
        θ = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-300)
        bars = np.clip(((θ @ θ.T + 1) * (BINS / 2)).astype(np.int32), 0, BINS - 1)
        counts = np.bincount(bars.ravel(), minlength=BINS) - np.bincount(np.diag(bars), minlength=BINS)
        return (counts / max(counts.sum(), 1)).astype(np.float32)

    def _attention(self, mu: Any, flow: Flow | None) -> np.ndarray | None:
        """Whom some tokens attend to, in the order of their clusters; under a mask, in that of their positions."""
        some = _sample(mu, FEW)
        if flow is None:
            return None
        if flow.attention.mean_field:
            some = some[np.argsort(self.labels[some], kind="stable")]
        try:
            matrix = np.asarray(attention_matrix(_some(mu, some), flow))
        except InputError:  # links join all tokens, or none
            return None
        matrix = np.abs(matrix if matrix.ndim == 2 else matrix.mean(axis=0))
        return np.round(255 * matrix / max(float(np.nanmax(matrix)), 1e-300)).astype(np.uint8)

    def _rank(self, mu: Any, flow: Flow | None) -> float:
        x, w = np.asarray(mu.x, float), np.asarray(mu.w, float)
        return effective_rank(np.sqrt(np.maximum(np.linalg.eigvalsh((w[:, None] * x).T @ x), 0)))

    def _order(self, mu: Any, flow: Flow | None) -> float:
        return float(np.linalg.norm(np.asarray(mu.w) @ np.asarray(mu.x)))

    def lifted(self, mu: Any, x: list[float], token: int | None = None) -> np.ndarray | None:
        """In more than three dimensions a token keeps what is not seen of it."""
        shown = min(max(mu.d, 2), 3)
        if len(x) != shown or not np.all(np.isfinite(x)) or np.abs(x).max() > 1e6:
            return None
        if mu.d <= 3:
            return np.asarray(x)[: mu.d]
        B = projection(mu.d)
        before = np.zeros(mu.d) if token is None else np.asarray(mu.x)[token]
        return before + B @ (np.asarray(x) - before @ B)


@shows(Gaussian)
class GaussianScene(Scene):
    """A Gaussian as its mean and ellipses, or as a point of the cone of covariances with the path that led there."""

    panels = ("spectrum", "rank", "order")

    def __init__(self, view: str = "ellipse"):
        super().__init__(view)
        self.path: list[np.ndarray] = []

    def stage(self, mu: Any) -> Picture:
        if self.view == "cone" and mu.d == 2:
            return self._cone(mu)
        mean, L = np.asarray(mu.mean), _root(np.asarray(mu.cov))
        turn = _circle(128)
        if mu.d == 2:
            rings = [mean + r * turn @ L.T for r in (0.5, 1.0, 2.0)]
        else:  # three great circles of the ellipsoid, along its longest axes
            axes = L[:, -3:]
            pairs = [(0, 1), (0, 2), (1, 2)]
            rings = [projected(mean + turn @ axes[:, list(pair)].T) for pair in pairs]
        points = projected(mean[None])
        reach = max(_reach(np.concatenate([*rings, points])), 1e-9)
        arrays = {"x": points.astype(np.float32), "label": np.zeros(1, np.uint8)}
        return Picture({"unit": 0, "reach": reach}, arrays | _curves(rings))

    def _cone(self, mu: Any) -> Picture:
        """Σ = (a c; c b) as (a - b, 2c, a + b), with the cone z² = x² + y² up to this height."""
        cov = np.asarray(mu.cov)
        here = np.array([cov[0, 0] - cov[1, 1], 2 * cov[0, 1], cov[0, 0] + cov[1, 1]])
        self.path = [*self.path[-2000:], here]
        top = max(point[2] for point in self.path[:: max(1, len(self.path) // 200)]) or 1.0
        rim, up = _circle(96), np.array([0.0, 0.0, 1.0])
        rings = [h * top * np.column_stack([rim, np.ones(len(rim))]) for h in (0.33, 0.67, 1.0)]
        edges = [np.stack([np.zeros(3), top * np.append(rim[k], 1.0)]) for k in range(0, 96, 8)]
        place = lambda points: points - 0.5 * top * up
        curves = [place(curve) for curve in (*rings, *edges, np.array([*self.path, here]))]
        styles = ["dim"] * (len(rings) + len(edges)) + ["accent"]
        arrays = {"x": place(here)[None].astype(np.float32), "label": np.zeros(1, np.uint8)} | _curves(curves)
        return Picture({"unit": 0, "reach": 1.2 * top, "curves": styles, "scaffold": False}, arrays)

    def _spectrum(self, mu: Any, flow: Flow | None) -> list[float]:
        return np.maximum(np.linalg.eigvalsh(np.asarray(mu.cov))[::-1], 0).tolist()

    def _rank(self, mu: Any, flow: Flow | None) -> float:
        return effective_rank(np.sqrt(np.maximum(np.linalg.eigvalsh(np.asarray(mu.cov)), 0)))

    def _order(self, mu: Any, flow: Flow | None) -> float:
        return float(np.linalg.norm(np.asarray(mu.mean)))


@shows(Equiangular)
class EquiangularScene(Scene):
    """Two of the tokens, at their angle and length."""

    panels = ("rho",)

    def stage(self, mu: Any) -> Picture:
        r, φ = float(mu.r), math.acos(min(1.0, max(-1.0, float(mu.rho))))
        at = lambda angle: r * np.stack([np.sin(angle), np.cos(angle)], axis=-1)
        ends = at(np.array([-φ / 2, φ / 2]))
        curves = [r * _circle(128), *(np.stack([np.zeros(2), end]) for end in ends)]
        curves.append(0.4 * at(np.linspace(-φ / 2, φ / 2, 48)))
        arrays = {"x": ends.astype(np.float32), "label": np.array([0, 1], np.uint8)} | _curves(curves)
        header = {"unit": 0, "reach": 1.1 * r, "curves": ["dim", "ink", "ink", "accent"], "scaffold": False}
        return Picture(header, arrays)

    def _rho(self, mu: Any, flow: Flow | None) -> float:
        return float(mu.rho)


class DensityScene(Scene):
    panels = ("entropy", "order", "energy")

    def _entropy(self, mu: Any, flow: Flow | None) -> float:
        return float(mu.entropy)

    def _order(self, mu: Any, flow: Flow | None) -> float:
        return float(mu.order)

    def _energy(self, mu: Any, flow: Flow | None) -> float | None:
        coupling = None if flow is None else flow.coupling_if_any()
        if coupling is None or not float(coupling.beta) > 0:
            return None
        return float(2 * coupling.beta * mu.energy(coupling.beta, scaled=True))


@shows(CircleDensity)
class CircleScene(DensityScene):
    """A density on the circle as a curve around it."""

    def stage(self, mu: Any) -> Picture:
        θ = np.linspace(0, 2 * np.pi, 513)
        f = np.maximum(np.asarray(mu(θ)), 0.0)
        circle = np.stack([np.cos(θ), np.sin(θ)], axis=1)
        around = circle * (1 + 0.25 * f / max(1.0, float(f.max()) / 3))[:, None]
        header = {"unit": 0, "reach": 1.9, "curves": ["dim", "accent"], "scaffold": False}
        return Picture(header, {**_nothing(2), **_curves([circle, around])})


@shows(AbstractDensity)
class SphereScene(DensityScene):
    """A density on the sphere as colours; a zonal one in more dimensions as it is seen from its axis."""

    ROWS, COLUMNS = 48, 96

    def stage(self, mu: Any) -> Picture:
        f = self._field(mu)
        low, high = float(f.min()), float(f.max())
        shades = np.round(255 * (f - low) / max(high - low, 1e-12)).astype(np.uint8)
        header = {"unit": 1, "reach": 1.0, "field_range": [low, high]}
        return Picture(header, {**_nothing(3), "field": shades})

    def _field(self, mu: Any) -> np.ndarray:
        θ = (np.arange(self.ROWS) + 0.5) * np.pi / self.ROWS
        if getattr(mu, "zonal", False):
            points = np.zeros((self.ROWS, mu.d))
            points[:, 0], points[:, 1] = np.cos(θ), np.sin(θ)
            return np.repeat(np.asarray(mu(points))[:, None], self.COLUMNS, axis=1)
        grid = mu.basis.shape
        f, z = np.asarray(mu.values).reshape(grid)[::-1], mu.basis.points.reshape(*grid, 3)[::-1, 0, 2]
        poles = [
            np.full((1, grid[1]), f[end].mean()) for end in (0, -1)
        ]  # of a smooth function, up to the second order
        f, z = np.concatenate([poles[0], f, poles[1]]), np.concatenate([[1.0], z, [-1.0]])
        rows = np.interp(θ, np.arccos(z), np.arange(len(z)))
        columns = np.arange(self.COLUMNS) * grid[1] / self.COLUMNS
        return _between(_between(f, rows).T, columns).T


def _between(f: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Rows of f between its rows, linearly; after the last comes the first."""
    low = np.floor(places).astype(int)
    share = (places - low)[:, None]
    return (1 - share) * f[low] + share * f[(low + 1) % len(f)]


# What scenes are made of.


def leaders(x: np.ndarray, radius: float) -> tuple[np.ndarray, int | None]:
    """Clusters around the first token of each, so that colours stay as tokens move: labels, and how many there are; None beyond
    the most that are counted."""
    labels, free, count = np.full(len(x), NONE, np.uint8), np.ones(len(x), bool), 0
    x = np.asarray(x - x.mean(axis=0), np.float32)  # distances do not notice, round-off does
    squares = np.einsum("nd,nd->n", x, x)
    while count < MOST_CLUSTERS and free.any():
        i = int(np.argmax(free))
        near = free & (squares - 2 * (x @ x[i]) + squares[i] <= radius**2)
        near[i] = True
        labels[near] = count
        free &= ~near
        count += 1
    return labels, None if free.any() else count


def effective_rank(σ: np.ndarray) -> float:
    """exp of the entropy of p_k = σ_k / Σσ  [roy2007]."""
    total = float(σ.sum())
    p = σ[σ > 0] / total if total > 0 else np.ones(1)
    return float(np.exp(-np.sum(p * np.log(p))))


@functools.cache
def projection(d: int) -> np.ndarray:
    """An orthonormal basis of the three dimensions of R^d that are seen: one for ever."""
    return np.linalg.qr(np.random.default_rng(d).normal(size=(d, 3)))[0]


def projected(x: np.ndarray) -> np.ndarray:
    """Points as they are seen, in two or three dimensions."""
    d = x.shape[1]
    if d > 3:
        return x @ projection(d)
    return x if d > 1 else np.column_stack([x, np.zeros(len(x))])


def _reach(x: np.ndarray) -> float:
    """The size of the picture: nearly all points are in it."""
    lengths = np.linalg.norm(x, axis=1)
    finite = lengths[np.isfinite(lengths)]
    return 1.1 * float(np.quantile(finite, 0.98)) + 1e-9 if len(finite) else 1.0


def _sample(mu: Any, most: int) -> np.ndarray:
    return np.unique(np.linspace(0, mu.n - 1, most).astype(int))


def _some(mu: Any, rows: np.ndarray) -> Any:
    w = np.asarray(mu.w)[rows]
    return type(mu)(np.asarray(mu.x)[rows], w / w.sum(), None if mu.s is None else np.asarray(mu.s)[rows])


def _root(cov: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(cov)
    return vectors * np.sqrt(np.maximum(values, 0))


def _circle(points: int) -> np.ndarray:
    θ = np.linspace(0, 2 * np.pi, points + 1)
    return np.stack([np.cos(θ), np.sin(θ)], axis=1)


def _curves(curves: Any) -> dict[str, np.ndarray]:
    return {f"curve{k}": np.asarray(curve, np.float32) for k, curve in enumerate(curves)}


def _nothing(d: int) -> dict[str, np.ndarray]:
    return {"x": np.zeros((0, d), np.float32), "label": np.zeros(0, np.uint8)}
