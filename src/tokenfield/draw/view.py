"""From R^d to the page: a camera, a backdrop, and a colour for every token."""

import colorsys
import dataclasses
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from tokenfield import observe
from tokenfield.observe.energies import energy_beta
from tokenfield.trajectory import Trajectory

INK, FAINT, PAPER = "#22262e", "#c9ced6", "#ffffff"
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#44bb99", "#8c7ae6", "#99ddff")
LARGEST_LABELLED = 20_000
MOST_DRAWN = 5000
"""Of more tokens, so many stand for all: a page has no room for more dots."""


@dataclasses.dataclass(frozen=True)
class View:
    """How a run is looked at: `basis` takes tokens to (right, up, towards the eye)."""

    basis: Float[np.ndarray, "d 3"]
    centre: Float[np.ndarray, " d"]
    reach: float
    sphere: bool
    name: str

    def project(self, x: Float[np.ndarray, "n d"], turn: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """Page coordinates (n, 2) and depth (n,) in [-1, 1], seen after the scene has turned by an angle."""
        y = (x - self.centre) @ self.basis
        if turn:
            y = y @ self.basis.T @ _turn(turn) @ self.basis
        return y[:, :2], y[:, 2] / self.reach

    def points(self, page: Float[np.ndarray, "n 2"], turn: float = 0.0) -> Float[np.ndarray, "n 3"]:
        """The points of the sphere in front that are seen at places of the page; beside the globe, those on its rim."""
        page = page / np.maximum(1, np.linalg.norm(page, axis=1, keepdims=True))
        depth = np.sqrt(np.maximum(0, 1 - np.sum(page**2, axis=1)))
        return np.column_stack([page, depth]) @ self.basis.T @ _turn(turn).T

    def backdrop(self, ax: Any, turn: float = 0.0) -> list[Any]:
        """The circle or globe behind the tokens; returns what turns with it."""
        ax.set_aspect("equal")
        ax.set_axis_off()
        reach = 1.08 * self.reach
        ax.set_xlim(-reach, reach)
        ax.set_ylim(-reach, reach)
        if not self.sphere:
            return []
        angle = np.linspace(0, 2 * np.pi, 361)
        outline = ax.plot(
            np.cos(angle), np.sin(angle), color=INK if self.basis.shape[0] == 2 else FAINT, lw=1, zorder=1
        )
        return outline if self.basis.shape[0] != 3 else outline + self._graticule(ax, turn)

    def _graticule(self, ax: Any, turn: float) -> list[Any]:
        lines = []
        for curve in _meridians_and_parallels():
            page, depth = self.project(curve, turn)
            page[depth < 0] = np.nan
            lines += ax.plot(*page.T, color=FAINT, lw=0.5, alpha=0.8, zorder=0)
        return lines


def thinned(run: Trajectory) -> Trajectory:
    """The run of some of its tokens, every k-th, where there are too many to draw."""
    mu, n = run.states, run.states.n
    if n <= MOST_DRAWN:
        return run
    some = np.linspace(0, n - 1, MOST_DRAWN).astype(int)
    w = mu.w[:, some]
    parts = mu.x[:, some], w / w.sum(axis=1, keepdims=True), None if mu.s is None else mu.s[:, some]
    few = eqx.tree_at(lambda nu: (nu.x, nu.w, nu.s), mu, parts, is_leaf=lambda leaf: leaf is None)
    return eqx.tree_at(lambda r: r.states, run, few)


def view_of(run: Trajectory, eye: np.ndarray | None = None) -> View:
    """The natural camera: the plane itself for d ≤ 2, from `eye` for d = 3, principal axes of the whole run beyond."""
    x = np.asarray(run.x, float)
    d = x.shape[-1]
    sphere = bool(np.all(abs(np.linalg.norm(x, axis=-1) - 1) < 1e-6))
    points = x.reshape(-1, d)
    centre = np.zeros(d) if sphere else 0.5 * (points.min(0) + points.max(0))
    if d <= 2:
        basis, name = np.eye(d, 3), "plane"
    elif d == 3:
        basis, name = _camera(eye).T, "space"
    else:
        _, vectors = np.linalg.eigh((points - points.mean(0)).T @ (points - points.mean(0)))
        basis, name = vectors[:, ::-1][:, :3], "principal axes"
    reach = 1.0 if sphere else max(float(abs((points - centre) @ basis).max()), 1e-300)
    return View(basis, centre, reach, sphere, name)


def globe(eye: np.ndarray | None = None) -> View:
    """The unit sphere of R³, seen from `eye`."""
    return View(_camera(eye).T, np.zeros(3), 1.0, True, "space")


@dataclasses.dataclass(frozen=True)
class Census:
    """Clusters along a run, at some of its saved states: how many, and the groups of the longest-lived state."""

    index: np.ndarray
    counts: list[int]
    labels: np.ndarray | None
    within: str


def census(run: Trajectory, samples: int = 60) -> Census | None:
    """Count clusters along a run: by angle on the sphere, by distance in space. None where that makes no sense."""
    n = run.states.n
    if n < 2 or n > LARGEST_LABELLED // 4 or float(np.asarray(run.states.radii).min()) == 0:
        return None
    index = np.unique(np.linspace(0, len(run) - 1, samples).round().astype(int))
    view = view_of(run)
    reach = {} if view.sphere else {"distance": float(f"{0.05 * view.reach:.2g}")}
    found = [observe.clusters(run[int(i)], **reach) for i in index]
    counts = [len(state) for state in found]
    lives = {count: counts.count(count) for count in counts if count <= max(1, n // 4)}
    longest = max(lives, key=lambda count: (lives[count], count), default=None)
    return Census(index, counts, None if longest is None else found[counts.index(longest)].labels, found[0].within)


def colours_of(run: Trajectory, groups: np.ndarray | None) -> np.ndarray:
    """RGB a token: the cluster it will belong to, so that basins show; with one cluster, where it began."""
    if groups is not None and groups.max() > 0:
        palette = [_rgb(COLOURS[k % len(COLOURS)], shade=k // len(COLOURS)) for k in range(groups.max() + 1)]
        return np.array(palette)[groups]
    first = np.asarray(run.x[0], float)
    first = first - first.mean(0)
    axes = np.linalg.svd(first, full_matrices=False)[2][:2]
    page = np.pad(first @ axes.T, ((0, 0), (0, 2 - len(axes))))
    hue = np.arctan2(page[:, 1], page[:, 0]) / (2 * np.pi) % 1
    return np.array([colorsys.hls_to_rgb(h, 0.5, 0.6) for h in hue])


@dataclasses.dataclass(frozen=True)
class Cloud:
    """What is drawn of one state: a dot a token, and under every group that has drawn together a disc of its mass."""

    places: Float[np.ndarray, "m 2"]
    areas: Float[np.ndarray, " m"]
    paint: Float[np.ndarray, "m 4"]


class Painter:
    """Turns saved states into clouds of dots, in one view and one set of colours."""

    def __init__(self, run: Trajectory, size: float):
        self.run, self.size, self.census = run, size, census(run)
        self.groups = None if self.census is None else self.census.labels
        self.colours = colours_of(run, self.groups)
        self.view = view_of(run)
        if self.globe and self.groups is not None:
            last = np.asarray(run.final.x, float)
            centres = np.stack([last[self.groups == k].mean(0) for k in range(self.groups.max() + 1)])
            self.view = view_of(run, best_eye(centres, np.bincount(self.groups)))

    @property
    def globe(self) -> bool:
        return self.view.sphere and self.view.name == "space"

    def cloud(self, i: int, turn: float = 0.0) -> Cloud:
        x, w = np.asarray(self.run.x[i], float), np.asarray(self.run.states.w[i], float)
        areas = np.clip(self.size / np.sqrt(len(w)), 3, 90) * np.clip(w * len(w), 0.2, 25)
        paint = np.column_stack([self.colours, np.full(len(w), 0.85)])
        if self.groups is not None:
            x, areas, paint = self._with_discs(self.groups, x, w, areas, paint)
        places, depth = self.view.project(x, turn)
        if self.globe:  # the far side is seen through paper
            paint[depth < 0, :3] = 0.25 * paint[depth < 0, :3] + 0.75
            paint[depth < 0, 3] *= 0.6
        order = np.argsort(depth, kind="stable")
        return Cloud(places[order], areas[order], paint[order])

    def _with_discs(
        self, groups: np.ndarray, x: np.ndarray, w: np.ndarray, areas: np.ndarray, paint: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        mass = np.bincount(groups, w)
        mean = lambda values: np.bincount(groups, w * values) / mass
        centres = np.stack([mean(column) for column in x.T], axis=1)
        spread = np.sqrt(mean(np.sum((x - centres[groups]) ** 2, axis=1))) / self.view.reach
        colour = np.stack([mean(column) for column in self.colours.T], axis=1)
        alpha = 0.55 * np.clip(1 - spread / 0.15, 0, 1)
        discs = np.column_stack([colour, alpha])
        return np.vstack([centres, x]), np.append(2.2 * self.size * mass, areas), np.vstack([discs, paint])


def course(run: Trajectory) -> tuple[str, np.ndarray] | None:
    """The one curve that tells how far a run has come: the energy as a share of one cluster's, or the next best."""
    if run.states.n < 2:
        return None
    beta = energy_beta(run)
    if beta and run.states.n <= LARGEST_LABELLED // 4 and view_of(run).sphere:
        return "energy / max", 2 * beta * np.asarray(observe.energy(run, beta, scaled=True))
    if not view_of(run).sphere:
        spread = np.asarray(run.x) - np.asarray(run.states.mean)[:, None]
        return "distance to the mean", np.sqrt(np.einsum("tn,tnd->t", np.asarray(run.states.w), spread**2))
    return "mean overlap", np.asarray(observe.mean_overlap(run))


def clock_times(run: Trajectory) -> np.ndarray:
    """Times as a run's own clock shows them."""
    shown = run.rescaled if run.provenance.clock == "rescaled" and run.rescaled is not None else run.times
    return np.asarray(shown)


def clock_name(run: Trajectory) -> str:
    rescaled = run.provenance.clock == "rescaled" and run.rescaled is not None
    return r"rescaled time s,  $dt = e^{\beta(1-c)}\,ds$" if rescaled else "t"


def time_axis(ax: Any, times: np.ndarray) -> None:
    """Times that were saved in equal ratios are shown so."""
    positive = times[times > 0]
    if len(positive) > 4 and positive[-1] > 1e4 * positive[0] and np.ptp(np.diff(np.log(positive))) < 0.1:
        ax.set_xscale("symlog", linthresh=positive[0], linscale=0.3)
        low, high = np.log10(positive[0]), np.log10(positive[-1])
        ax.set_xticks(10.0 ** np.arange(np.ceil(low), high + 1e-9, max(1, round((high - low) / 6))))
        ax.minorticks_off()
        return
    if len(times) > 4 and np.median(times - times[0]) < 0.1 * (times[-1] - times[0]):
        ax.set_xscale("symlog", linthresh=max(times[1] - times[0], 1e-3 * times[-1]), linscale=0.3)
        ax.minorticks_off()


def _rgb(code: str, shade: int) -> tuple[float, ...]:
    channels = (int(code[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return tuple(c * 0.7**shade for c in channels)


def _camera(eye: np.ndarray | None) -> np.ndarray:
    """Rows: right, up, towards the eye; an eye at longitude 35° and latitude 22° when none is given."""
    if eye is None:
        azimuth, height = np.deg2rad(35), np.deg2rad(22)
        eye = np.array([np.cos(height) * np.cos(azimuth), np.cos(height) * np.sin(azimuth), np.sin(height)])
    right = np.cross([0.0, 0.0, 1.0], eye)
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(eye, right), eye])


def best_eye(centres: np.ndarray, mass: np.ndarray, steepest: float = 25, enough: float = 0.4) -> np.ndarray:
    """The direction from which most of the mass is well in front, `enough` of the way, not too close to a pole."""
    heights = np.deg2rad(np.array([-1, -0.5, 0.5, 1]) * steepest)
    azimuth, height = np.meshgrid(np.deg2rad(np.arange(0, 360, 10)), heights)
    eyes = np.stack(
        [np.cos(height) * np.cos(azimuth), np.cos(height) * np.sin(azimuth), np.sin(height)], axis=-1
    ).reshape(-1, 3)
    return eyes[np.argmax(np.clip(eyes @ centres.T, -1, enough) @ mass)]


def _turn(angle: float) -> np.ndarray:
    """The third axis stays."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])


def _meridians_and_parallels() -> list[np.ndarray]:
    a = np.linspace(0, 2 * np.pi, 181)
    circles = [np.stack([np.sin(a) * np.cos(b), np.sin(a) * np.sin(b), np.cos(a)], 1) for b in np.arange(6) * np.pi / 6]
    for latitude in np.deg2rad([-60, -30, 0, 30, 60]):
        ring = np.cos(latitude)
        circles.append(np.stack([ring * np.cos(a), ring * np.sin(a), np.full_like(a, np.sin(latitude))], 1))
    return circles
