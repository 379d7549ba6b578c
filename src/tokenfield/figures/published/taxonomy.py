"""What tokens in R^d tend to, by their values V: vertices of a polytope, hyperplanes, a polytope times a subspace, the origin."""

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

SIMPLE = np.array([[0.647, 0.819], [0.612, 0.633]])
CASES = {
    "V = I, d = 2": (np.eye(2), "polytope-limit", "polytope"),
    "V = I, d = 3": (np.eye(3), "polytope-limit", "polytope"),
    "simple λ₁(V) > 0": (SIMPLE, "three-hyperplanes", "hyperplanes"),
    "V = diag(1, 1, -½)": (np.diag([1.0, 1.0, -0.5]), "polytope-times-subspace", "product"),
    "V = -I": (-np.eye(2), "one-cluster-at-the-origin", "origin"),
}
"""V, the statement about it, and the name of the limit."""
FAR = ("farthest token from the boundary of their hull or 0", "farthest token from a vertex")
FOUND = {
    "polytope": FAR,
    "hyperplanes": ("farthest token from the outer two lines or 0",),
    "product": FAR,
    "origin": ("slope of log max|x| in log t", "largest eigenvalue of 2tΣ, Σ the tokens' covariance"),
}
"""What the statements measure, by the limit; the first three in units of how far apart tokens began."""
LEFT = (
    "Tokens that attend to one leader approach it like e^(-λt), λ the largest eigenvalue of V: of how far they went in the last "
    "quarter of the time a known share is left; and steps err by rtol of the largest token each."
)
SEEN = (-44.0, 22.0)
"""From where."""
LATE = "Corrections to the law fall: what is left is less than twice what changed in the second half of the window."


@dataclasses.dataclass(frozen=True)
class Taxonomy(Figure):
    """Paths of tokens from a box, ẋ_i = Σ_j P_ij V x_j with P_ij ∝ e^<x_i, x_j>, rescaled to z = e^(-tV)x but for V = -I.

    V is I in the plane and in R³; (.647 .819; .612 .633), whose largest eigenvalue λ₁ is simple; diag(1, 1, -½); and -I.

    Each run is held against the statement of the theory about its V (`tkf.theory.statement`), and its limit is named by
    `tkf.observe.limit_geometry`, which does not know V. Leaders are those whom others attend to at the end.

    - `n`: how many tokens, uniform in [-5, 5]^d.
    - `T`: the last time of the rescaled runs; `late`: that of V = -I.
    - `times`: how many are drawn.
    - `seed`: of the start.
    """

    name = "taxonomy"
    source, number = "geshkovski2023", "Table 1 and Figure 5 in stein2025"
    shows = "V decides where tokens end: at vertices of a polytope, on hyperplanes, on a polytope times a line, or at the origin."
    small = {"times": 49}
    remark = (
        "Leaders, marked by rings, are exactly the vertices where V = I; where V has a simple largest eigenvalue two tokens lead. "
        "Of the three hyperplanes the one through the origin is empty, as in every start that was tried. With V = diag(1, 1, -½) "
        "the third coordinate is drawn as it is, not rescaled: rescaled it grows like e^(t/2). At the origin tokens arrive like "
        "t^(-1/2) and round: their covariance is I/(2t), whatever the start."
    )

    n: int = 40
    T: float = 12.0
    late: float = 1024.0
    times: int = 97
    seed: int = 0

    def check(self) -> None:
        if self.n < 10 or self.times < 20:
            raise InputError(
                "taxonomy: `n` must be at least 10, so that limits can be told apart, and `times` at least 20."
            )
        if not 4 <= self.T <= 16 or self.late < 100:
            raise InputError(
                "taxonomy: `T` must lie in [4, 16], beyond which e^(tV) leaves no digits, and `late` be 100 at least."
            )

    def compute(self, shelf: Shelf) -> xarray.Dataset:
        import xarray

        parts = [part for d in (2, 3) for part in self._rescaled(d)]
        parts += self._free()
        data = xarray.concat(parts, dim="case", join="outer").sel(case=list(CASES))
        return data.assign_coords(case=list(CASES))

    def _start(self, d: int) -> tkf.Tokens:
        return tkf.Tokens.uniform_box(n=self.n, d=d, low=-5.0, high=5.0, seed=self.seed)

    def _rescaled(self, d: int) -> Iterator[xarray.Dataset]:
        """Both rescaled runs in this dimension, as one program."""
        names = [name for name, (V, _, limit) in CASES.items() if len(V) == d and limit != "origin"]
        flows = [tkf.Flow(tkf.Softmax(1.0, V=CASES[name][0]), tkf.Rescaled()) for name in names]
        runs = tkf.evolve(flows, self._start(d), t=self.T, save=np.linspace(0.0, self.T, self.times), rtol=1e-9)
        for name, run in zip(names, runs.members(), strict=True):
            yield _measured(name, run)

    def _free(self) -> Iterator[xarray.Dataset]:
        name = "V = -I"
        save = np.append(0.0, np.geomspace(1e-2, self.late, self.times - 1))
        flow = tkf.Flow(tkf.Softmax(1.0, V=-1.0), tkf.Free())
        yield _measured(name, tkf.evolve(flow, self._start(2), t=self.late, save=save))

    def claims(self, data: xarray.Dataset) -> Iterator[Finding]:
        for name, (_, _, limit) in CASES.items():
            one = data.sel(case=name)
            for k, what in enumerate(FOUND[limit]):
                predicted, measured, tolerance, rival = map(float, one.found.values[k])
                because = LATE if limit == "origin" else LEFT
                yield Finding(f"{name}: {what}", predicted, measured, tolerance, because, rival=rival)
            yield Finding(
                f"{name}: how far tokens are from the limit found, {limit}",
                float(one.allowed),
                float(one.residual),
                0.0,
                "They may be 2.5 times as far as they went since half of the time: what falls like t^(-1/2) or faster is nearer.",
                relation="≤",
            )
            if limit == "polytope":
                because = "Counts. Each vertex has one leader, to which those who follow it come like e^(-t)."
                yield Finding(f"{name}: leaders", int(one.places), int(one.leader.sum()), 0.0, because)

    def draw(self, data: xarray.Dataset) -> matplotlib.figure.Figure:
        from tokenfield.figures.style import PAGE, sheet

        figure, axes = sheet(2, 3, width=PAGE, height=4.7)
        places = [int(data.places.sel(case=name)) for name in CASES]
        found = [
            f"{places[0]} vertices of a polygon",
            f"{places[1]} vertices of a polytope",
            "lines, one empty",
            f"{places[3]} vertices × a line",
            "the origin",
        ]
        for ax, name, told in zip(axes.flat, CASES, found, strict=False):
            _panel(ax, name, data.sel(case=name))
            ax.set_title(f"{name}: {told}".replace("-", "−"), fontsize=7.6)
        _arrival(axes[1, 2], data.sel(case="V = -I"))
        return figure


def _measured(name: str, run: tkf.Trajectory) -> xarray.Dataset:
    """One run: paths, leaders, what its statement finds, and the limit that is seen; shapes are those of R³, NaN where unused."""
    import xarray
    from scipy.linalg import expm

    V, statement, limit = CASES[name]
    verdict = tkf.theory.statement(statement).check(run)
    geometry = tkf.observe.limit_geometry(run)
    x, t = np.asarray(run.x, float), np.asarray(run.times, float)
    true = x[-1] @ expm(t[-1] * V).T if limit != "origin" else x[-1]
    leaders = np.asarray(tkf.observe.leaders(tkf.Softmax(1.0, V=V), tkf.Tokens(true)).indices)
    seen = geometry.candidates.get({"product": "product of codimension 2"}.get(limit, limit))
    assert seen is not None and verdict.findings
    part = lambda one: [float(one.predicted), one.measured, one.tolerance, float(one.rival or 0.0)]
    found = np.array([part(one) for one in (*verdict.findings, *verdict.findings)[:2]])
    grown = np.concatenate([x, np.full((*x.shape[:2], 3 - x.shape[2]), np.nan)], axis=2)
    return xarray.Dataset(
        {
            "x": (("time", "token", "coordinate"), grown),
            "t": (("time",), t),
            "leader": (("token",), np.isin(np.arange(run.n), leaders) & (limit != "origin")),
            "found": (("finding", "number"), found),
            "residual": seen.residual,
            "allowed": seen.tolerance if geometry.name == limit else 0.0,
            "places": 0 if geometry.vertices is None else len(geometry.vertices),
        }
    ).assign_coords(case=name)


def _panel(ax: Any, name: str, data: xarray.Dataset) -> None:
    """Paths, ends and leaders, in the plane or as seen from afar."""
    from tokenfield.figures.style import BLUE, FAINT, INK, RED, view

    V, _, limit = CASES[name]
    x = data.x.values[..., : len(V)].copy()
    if limit == "product":
        x[..., 2] *= np.exp(-data.t.values / 2)[:, None]
    if limit == "hyperplanes":
        x = x[data.t.values <= 3.0]
    right, up = view(x, *SEEN)[:2] if len(V) == 3 else (x[..., 0], x[..., 1])
    for line in _edges(x[-1], limit):
        ax.plot(*(view(line, *SEEN)[:2] if len(V) == 3 else line.T), color=RED, lw=0.8, alpha=0.6)
    ax.plot(right, up, color=BLUE, lw=0.5, alpha=0.55)
    ax.plot(right[0], up[0], "o", ms=1.5, mew=0, color=INK)
    ax.plot(right[-1], up[-1], "o", ms=3, mew=0, color=RED, zorder=4)
    who = data.leader.values.astype(bool)
    ax.plot(right[-1, who], up[-1, who], "o", ms=7, mew=0.9, mfc="none", mec=INK, zorder=5)
    ax.set_aspect("equal", adjustable="datalim")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(True)
    ax.spines[:].set_color(FAINT)


def _edges(ends: np.ndarray, limit: str) -> Iterator[np.ndarray]:
    """Edges of the limit: those of the hull of the ends, of a prism over their first two coordinates, or three parallel lines."""
    from scipy.spatial import ConvexHull

    if limit == "hyperplanes":
        values, vectors = np.linalg.eig(SIMPLE.T)
        normal = np.real(vectors[:, np.real(values).argmax()])
        along, at = np.array([-normal[1], normal[0]]), ends @ normal
        low, high = (ends @ along).min() - 2, (ends @ along).max() + 2
        for c in (at.min(), 0.0, at.max()):
            yield np.stack([c * normal + low * along, c * normal + high * along])
    elif limit == "product":
        base = ends[:, :2][ConvexHull(ends[:, :2], qhull_options="QJ").vertices]
        low, high = (
            np.column_stack([base, np.full(len(base), z)]) for z in (ends[:, 2].min() - 1, ends[:, 2].max() + 1)
        )
        yield from (np.concatenate([ring, ring[:1]]) for ring in (low, high))
        yield from np.stack([low, high], axis=1)
    elif limit == "polytope":
        places = np.unique(np.round(ends, 2), axis=0)
        for face in ConvexHull(places).simplices:
            yield places[np.append(face, face[:1])]


def _arrival(ax: Any, data: xarray.Dataset) -> None:
    """How far from the origin tokens are where V = -I, and the law."""
    from tokenfield.figures.style import BLUE, INK

    t = data.t.values[1:]
    size = np.linalg.norm(data.x.values[1:, :, :2], axis=-1)
    ax.loglog(t, size, color=BLUE, lw=0.4, alpha=0.5)
    ax.loglog(t, size[-1].max() * np.sqrt(t[-1] / t), ":", color=INK, lw=1)
    ax.text(t[-1] * 0.02, size[-1].max() * 9, "$t^{-1/2}$", fontsize=8)
    ax.set(xlabel="t", ylim=(size[-1].max() * 1e-2, 20))
    ax.set_title("V = −I: distances to the origin", fontsize=7.6)


FIGURE = Taxonomy
