"""Densities: ribbons around the circle, globes, and profiles of zonal ones."""

from typing import Any

import numpy as np

from tokenfield._compile import compiled
from tokenfield.draw.page import BLUE, bare
from tokenfield.draw.panel import Panel, panel_of
from tokenfield.draw.view import INK, best_eye, globe
from tokenfield.measures import CircleDensity, SphereDensity

MAP, FINE = "magma_r", 720
"""Colours of f; and angles around a circle, beyond which a page shows nothing."""


class Densities(Panel):
    """What the panels of densities share: values on the grid, and one scale of colours for the run."""

    def __init__(self, states: Any):
        self.states, self.coefficients = states, np.asarray(states.coefficients, float)
        self.values = np.maximum(along(states, "values"), 0.0)
        self.top = float(self.values.max())
        self.norm = scale_of(float(self.values.min()), self.top)

    @property
    def steps(self) -> np.ndarray:
        """Hellinger's distance: mass that moves, however sharp the density."""
        return np.sqrt(np.diff(np.sqrt(self.values), axis=0) ** 2 @ np.asarray(self.states.basis.weights))

    @property
    def course(self) -> tuple[str, np.ndarray]:
        return "entropy", along(self.states, "entropy")


class Ribbons(Densities):
    """f as a ribbon around the circle, as high as f is large."""

    def __init__(self, states: Any):
        super().__init__(states.refined(max(states.degree, FINE // 3)))  # smooth to the eye
        self.power = 1.0 if self.top < 8 else 0.5

    def draw(self, ax: Any, i: int, turn: float = 0.0) -> None:
        f = pooled(self.values[i : i + 1])[0]
        angle = 2 * np.pi * np.arange(len(f) + 1) / len(f)
        radius = 1 + 0.65 * (np.append(f, f[0]) / max(self.top, 2.0)) ** self.power
        x, y = (np.stack([wave, radius * wave]) for wave in (np.cos(angle), np.sin(angle)))
        ax.pcolormesh(x, y, f[None], cmap=MAP, norm=self.norm, shading="flat", rasterized=True)
        ax.plot(x[1], y[1], color=INK, lw=0.6)
        ax.plot(x[0], y[0], color=INK, lw=1)
        ax.set(xlim=(-1.68, 1.68), ylim=(-1.68, 1.68), aspect="equal")
        ax.set_axis_off()
        ax.text(0, 0, f"max f\n{f.max():.3g}", ha="center", va="center", fontsize=9, color=INK)


class Globes(Densities):
    """f on the half of the sphere that faces the reader."""

    turns = True

    def key(self, figure: Any, axes: Any) -> None:
        from matplotlib.cm import ScalarMappable

        figure.colorbar(ScalarMappable(self.norm, MAP), ax=axes, pad=0.01, shrink=0.9).set_label("f", fontsize=9)

    def __init__(self, states: Any, pixels: int = 150):
        super().__init__(states)
        self.view = globe(self._eye(self.values[self.values.max(1).argmax()]))
        side = (2 * np.arange(pixels) + 1) / pixels - 1
        self.page = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)

    def _eye(self, f: np.ndarray) -> np.ndarray | None:
        """Where peaks are in front."""
        mass = f**2 * self.states.basis.weights
        return best_eye(self.states.basis.points, mass, steepest=45, enough=0.95) if f.max() > 1.01 else None

    def draw(self, ax: Any, i: int, turn: float = 0.0) -> None:
        from matplotlib.patches import Circle

        side = round(len(self.page) ** 0.5)
        f = coarse(self.states.basis, self.coefficients[i], self.view.points(self.page, turn)).reshape(side, side)
        image = ax.imshow(
            f,
            cmap=MAP,
            norm=self.norm,
            extent=(-1, 1, -1, 1),
            origin="lower",
            interpolation="bilinear",
            zorder=-1,
        )
        image.set_clip_path(Circle((0, 0), 1, transform=ax.transData))
        self.view.backdrop(ax, turn)


class Profiles(Densities):
    """f of a zonal density against the angle α to its axis."""

    framed = True
    angle = np.linspace(0, np.pi, 361)

    def draw(self, ax: Any, i: int, turn: float = 0.0) -> None:
        ax.fill_between(self.angle, self.profile(i), 1e-9, color=BLUE, alpha=0.15, lw=0)
        ax.plot(self.angle, self.profile(i), color=BLUE, lw=1.8)
        self.dress(ax)

    def profile(self, i: int) -> np.ndarray:
        x = np.zeros((len(self.angle), self.states.d))
        x[:, 0], x[:, 1] = np.cos(self.angle), np.sin(self.angle)
        return np.maximum(self.states.basis.evaluate(self.coefficients[i], x), 0.0)

    def dress(self, ax: Any) -> None:
        ax.set_ylabel("f")
        ax.set_ylim(0, 1.05 * self.top)
        if self.top > 30:
            ax.set_yscale("log")
            ax.set_ylim(1e-3, 3 * self.top)
        angle_axis(ax.xaxis)
        ax.set(xlim=(0, np.pi), xlabel="angle α to the axis")
        bare(ax)


def along(states: Any, name: str) -> np.ndarray:
    """A quantity of every state, compiled whole: bit by bit it takes several times as long."""
    return np.asarray(_quantity(states, name), float)


@compiled
def _quantity(states: Any, name: str) -> Any:
    return getattr(states, name)


@panel_of.register
def ribbons(states: CircleDensity, times: np.ndarray) -> Densities:
    return Ribbons(states)


@panel_of.register
def globes(states: SphereDensity, times: np.ndarray) -> Densities:
    """Globes, or of zonal densities profiles."""
    return Profiles(states) if states.zonal else Globes(states)


def scale_of(least: float, top: float) -> Any:
    """Colours of values: in proportion, or by square roots or logarithms where the largest would hide the rest."""
    from matplotlib.colors import LogNorm, Normalize, PowerNorm

    if top > 100:
        return LogNorm(1e-2, top, clip=True)
    if top > 8:
        return PowerNorm(0.5, 0, top)
    if top < 1 + 1e-9:  # uniform
        return Normalize(0, 4)
    return Normalize(least if top < 2 else 0, top)


def pooled(values: np.ndarray) -> np.ndarray:
    """Values on a circle by the largest of every few neighbours, so that no peak falls between the pixels."""
    few = -(-values.shape[1] // FINE)
    if few == 1:
        return values
    blocks = -(-values.shape[1] // few)
    padded = np.pad(values, [(0, 0), (0, blocks * few - values.shape[1])], mode="wrap")
    return padded.reshape(len(values), blocks, few).max(2)


def coarse(basis: Any, coefficients: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A density at points, without the degrees that no eye could see."""
    size = np.abs(coefficients)
    seen = max(1, int(basis.degrees[size > 1e-4 * size.max()].max()))
    return basis.refined(seen).evaluate(coefficients[basis.degrees <= seen], x)


def angle_axis(axis: Any) -> None:
    """Ticks at fractions of π."""
    axis.set_ticks(np.pi * np.array([-1, -0.5, 0, 0.5, 1]), labels=["-π", "-π/2", "0", "π/2", "π"])
