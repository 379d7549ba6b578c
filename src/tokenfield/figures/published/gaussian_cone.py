"""Covariances of trace one in the cone of all covariances, and where four kinds of attention take them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tokenfield as tkf
from tokenfield.errors import InputError
from tokenfield.figures.base import Figure, Shelf
from tokenfield.theory.base import Finding

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray

E11, E22, J, NONE = np.diag([1.0, 0.0]), np.diag([0.0, 1.0]), np.array([[0.0, 1.0], [-1.0, 0.0]]), np.zeros((2, 2))
FATES = {
    "zero": ("to zero", "V ≻ 0 random, A + Aᵀ ≺ 0"),
    "line": ("to a line", "V = I, A + Aᵀ ⪯ 0 of rank 1"),
    "plane": ("to a plane", "two heads that keep a − b and det Σ"),
    "two lines": ("to two lines", "a third head that makes det Σ fall"),
}


@dataclasses.dataclass(frozen=True)
class GaussianCone(Figure):
    """Σ = (a c; c b) as (x, y, z) = (a - b, 2c, a + b) in the cone z ≥ √(x² + y²), moved by Σ̇ = Σ_h V_hΣA_hΣ + ΣA_hᵀΣV_hᵀ.

    - To zero: a random V ≻ 0 and A with A + Aᵀ ≺ 0. Since d/dt tr(V⁻¹Σ) = tr(Σ(A + Aᵀ)Σ), tr(V⁻¹Σ) ≤ 2/(αv²t), with α the
      least eigenvalue of -(A + Aᵀ) and v that of V.
    - To a line: V = I and A = -uuᵀ. Then Σ⁻¹ = Σ₀⁻¹ + 2tuuᵀ, and wwᵀ/(wᵀΣ₀⁻¹w) remains, w orthogonal to u.
    - To a plane: two heads, V = -e₁e₁ᵀ, A = e₂e₂ᵀ, and 1 and 2 exchanged: ẋ = 0, ẏ = -yz, ż = -y², so to (x, 0, √(1 - y²)).
    - To two lines: a third head, A = J, V = J/2, which adds -(z² - x² - y²)/2 to ż. Then z² - x² - y² falls like y: to (x, 0, |x|).

    - `rings`: starts are rings of 6, 12, 18, ... covariances of trace 1 around I/2, the last of rank one.
    - `T`: the last time; `times`: how many are drawn, in equal ratios.
    - `angle`: the direction of u against e₁, in degrees.
    - `seed`: of the random V and A.
    """

    name = "gaussian-cone"
    source, number = "castin2025", "covariances in the cone; Figure 7 in stein2025"
    shows = "Covariances of trace one tend to zero, to a line, to a plane or to two lines, as attention has them."
    small = {"rings": 2, "times": 40, "T": 1e3}
    remark = (
        "To zero: the closed form of the source needs V to commute with Σ₀, but tr(V⁻¹Σ) falls like 1/t for every V ≻ 0 where A "
        "+ Aᵀ ≺ 0, by the line above. The slides give heads with V = I for the plane; these add up to one head, which has no "
        "plane of limits, so that V differ here. Limits on a plane have rank two: both heads keep det Σ, and only starts of rank "
        "one end on the edge. In the other three cases all limits have rank one or zero."
    )

    rings: int = 4
    T: float = 1e4
    times: int = 160
    angle: float = 150.0
    seed: int = 3

    def check(self) -> None:
        if self.rings < 1 or self.times < 2 or self.T < 1:
            raise InputError("gaussian-cone: `rings` must be positive, `times` at least 2, and `T` at least 1.")

    def heads(self) -> dict[str, list[tuple[np.ndarray, np.ndarray]]]:
        """V and A of every head."""
        rng = np.random.default_rng(self.seed)
        root, push, turn = rng.normal(size=(2, 2)), rng.normal(size=(2, 2)), rng.normal()
        V, A = 0.3 * np.eye(2) + root @ root.T / 2, -0.3 * np.eye(2) - push @ push.T / 2 + turn * J
        u = np.array([np.cos(np.radians(self.angle)), np.sin(np.radians(self.angle))])
        plane = [(-E11, E22), (-E22, E11)]
        return {
            "zero": [(V, A)],
            "line": [(np.eye(2), -np.outer(u, u))],
            "plane": plane,
            "two lines": [*plane, (J / 2, J)],
        }

    def starts(self) -> np.ndarray:
        """Points (x, y) of the disc z = 1."""
        rings = [np.arange(6 * k) * np.pi / (3 * k) + 0.1 * k for k in range(1, self.rings + 1)]
        points = [k / self.rings * np.stack([np.cos(φ), np.sin(φ)], axis=1) for k, φ in enumerate(rings, 1)]
        return np.concatenate([np.zeros((1, 2)), *points])

    def compute(self, shelf: Shelf) -> xarray.Dataset:
        import xarray

        heads = self.heads()
        flow = lambda parts: tkf.Flow(tkf.MultiHead([tkf.Softmax(A=A, V=V) for V, A in parts]))
        padded = [
            [*heads[fate], *[(NONE, NONE)] * 3][:3] for fate in FATES
        ]  # a head of zeros adds nothing: one program
        discs = self.starts()
        starts = [tkf.Gaussian(np.zeros(2), [[(1 + x) / 2, y / 2], [y / 2, (1 - x) / 2]]) for x, y in discs]
        times = np.append(0.0, np.geomspace(1e-2, self.T, self.times))
        run = tkf.evolve([flow(parts) for parts in padded], starts, t=self.T, save=times)
        return xarray.Dataset(
            {
                "point": (("fate", "start", "time", "coordinate"), np.asarray(run.states.cone, float)),
                "limit": (("fate", "start", "coordinate"), self.limits(discs)),
                "steps": (("fate", "start"), np.asarray(run.accepted)),
            },
            coords={"fate": list(FATES), "time": times, "coordinate": ["a - b", "2c", "a + b"]},
            attrs={"rtol": run.provenance.rtol},
        )

    def limits(self, discs: np.ndarray) -> np.ndarray:
        """Where the closed forms say that covariances end."""
        (x, y), φ = discs.T, np.radians(self.angle)
        off = 1 - x**2 - y**2  # 4 det Σ₀
        flat = np.where(off > 1e-12, off / 4 / self.share(discs), 0.0)  # det Σ₀ / uᵀΣ₀u = 1 / wᵀΣ₀⁻¹w
        return np.stack(
            [
                np.zeros((len(x), 3)),
                flat[:, None] * np.array([-np.cos(2 * φ), -np.sin(2 * φ), 1.0]),
                np.stack([x, 0 * x, np.sqrt(np.clip(1 - y**2, 0, None))], axis=1),
                np.stack([x, 0 * x, abs(x)], axis=1),
            ]
        )

    def share(self, discs: np.ndarray) -> np.ndarray:
        """uᵀΣ₀u of starts of trace one; not zero, lest one of rank one be orthogonal to u."""
        φ = np.radians(self.angle)
        return np.maximum((1 + discs @ np.array([np.cos(2 * φ), np.sin(2 * φ)])) / 2, 1e-12)

    def claims(self, data: xarray.Dataset) -> Iterator[Finding]:
        end, limit = data.point.values[:, :, -1], data.limit.values
        far = np.linalg.norm(end - limit, axis=-1).max(axis=1)
        solver = float(2 * data.steps.max() * data.attrs["rtol"])
        (V, A), t = self.heads()["zero"][0], self.T
        α, v = -np.linalg.eigvalsh(A + A.T).max(), np.linalg.eigvalsh(V)
        err = f"and steps err by rtol each in a root of Σ, {solver:.1g}."
        slow = float(self.share(data.point.values[0, :, 0, :2]).min())
        left = {
            "zero": (np.sqrt(8) * v[1] / (α * v[0] ** 2 * t), "tr Σ ≤ |V| tr(V⁻¹Σ) ≤ 2|V|/(αv²t)"),
            "line": (
                np.sqrt(2) / (1 + 2 * t * slow),
                "tr Σ is above its limit by at most 1/(1 + 2t uᵀΣ₀u) (Sherman, Morrison)",
            ),
            "plane": (np.sqrt(2) / t, "|y| ≤ 1/t, since |y|' = -|y|z ≤ -y², and z is as near to its limit"),
            "two lines": (np.sqrt(5) / t, "|y| ≤ 1/t as before, and z - |x| ≤ 2/t, since (z - |x|)' ≤ -(z - |x|)²/2"),
        }
        for k, fate in enumerate(FATES):
            far_yet, why = left[fate]
            yield Finding(
                f"farthest point from its limit, {FATES[fate][0]}",
                0.0,
                far[k],
                far_yet + solver,
                f"{why}, {err}",
                rival=0.5,
            )

    def draw(self, data: xarray.Dataset) -> matplotlib.figure.Figure:
        from tokenfield.figures.style import GREY, PAGE, sheet

        figure, axes = sheet(2, 2, width=PAGE, height=5.3)
        for ax, (fate, (title, given)) in zip(axes.flat, FATES.items(), strict=True):
            _cone(ax)
            _target(ax, fate, np.radians(self.angle))
            _paths(ax, data.point.sel(fate=fate).values)
            ax.set_title(title, fontsize=9, pad=2)
            ax.text(0, 1.36, given, ha="center", fontsize=7, color=GREY)
        _compass(axes[0, 0])
        return figure


def _cone(ax: Any) -> None:
    """The cone up to z = 1, its far wall shaded, and the disc of trace one."""
    from matplotlib.collections import PolyCollection

    from tokenfield.figures.style import BLUE, GREY, view

    ring = lambda z, φ: view(np.stack([z * np.cos(φ), z * np.sin(φ), z + 0 * φ], axis=-1))
    φ = np.linspace(0, 2 * np.pi, 181)
    right, up, near = ring(1.0, φ)
    sides = [[(0, 0), (right[k], up[k]), (right[k + 1], up[k + 1])] for k in range(180)]
    light = 0.05 + 0.11 * (1 + np.cos(φ[:-1] - 2.4)) / 2
    far = np.argsort(near[:-1])
    ax.add_collection(PolyCollection([sides[k] for k in far], facecolor=[(*_rgb(BLUE), light[k]) for k in far], lw=0))
    for z in (0.25, 0.5, 0.75):
        ax.plot(*ring(z, φ)[:2], color=GREY, lw=0.3, alpha=0.5)
    ax.plot(right, up, color=GREY, lw=0.7)
    for k in (np.argmin(right / up), np.argmax(right / up)):
        ax.plot([0, right[k]], [0, up[k]], color=GREY, lw=0.7)
    ax.set(aspect="equal", xlim=(-1.03, 1.03), ylim=(-0.04, 1.42))
    ax.axis("off")


def _rgb(colour: str) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    return to_rgb(colour)


def _target(ax: Any, fate: str, φ: float) -> None:
    """The line, the plane or the two lines, as far as z = 1."""
    from matplotlib.patches import Polygon

    from tokenfield.figures.style import RED, view

    rays = {"zero": [], "line": [(-np.cos(2 * φ), -np.sin(2 * φ), 1.0)]}.get(fate, [(-1.0, 0.0, 1.0), (1.0, 0.0, 1.0)])
    ends = [tuple(map(float, view(ray)[:2])) for ray in rays]
    if fate == "plane":
        ax.add_patch(Polygon([(0.0, 0.0), *ends], closed=True, facecolor=(*_rgb(RED), 0.13), lw=0))
    for right, up in ends:
        ax.plot([0, right], [0, up], color=RED, lw=1.0, alpha=0.6)


def _compass(ax: Any) -> None:
    """Which way a - b, 2c and a + b grow."""
    from tokenfield.figures.style import GREY, view

    corner = np.array([-0.96, 0.06])
    for name, way in {"a − b": (0.34, 0.0, 0.0), "2c": (0.0, 0.34, 0.0), "a + b": (0.0, 0.0, 0.3)}.items():
        tip = corner + np.array(view(way)[:2])
        ax.annotate("", tip, corner, arrowprops={"arrowstyle": "-|>", "lw": 0.6, "color": GREY, "mutation_scale": 5})
        aside = (3.0, 0.0) if tip[0] > corner[0] + 0.02 else (-8.0, 5.0)
        ax.annotate(name, tip, xytext=aside, textcoords="offset points", fontsize=6.5, color=GREY, va="center")


def _paths(ax: Any, points: np.ndarray) -> None:
    """Paths from their starts on the disc, light, to their limits, dark."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import LinearSegmentedColormap

    from tokenfield.figures.style import INK, RED, view

    right, up, near = view(points)
    shades = LinearSegmentedColormap.from_list("time", ["#a9c4e2", "#4477aa", "#12284a"])
    for k in np.argsort(near[:, 0]):
        path = np.stack([right[k], up[k]], axis=1)
        far = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(points[k], axis=0), axis=1)))
        pieces = LineCollection(list(np.stack([path[:-1], path[1:]], axis=1)), cmap=shades, lw=0.7, capstyle="round")
        pieces.set_array(far[1:] / max(far[-1], 1e-9))
        ax.add_collection(pieces)
    ax.plot(right[:, 0], up[:, 0], "o", ms=1.6, mew=0, color=INK)
    ax.plot(right[:, -1], up[:, -1], "o", ms=2.6, mew=0.3, mec="white", color=RED, zorder=5)


FIGURE = GaussianCone
