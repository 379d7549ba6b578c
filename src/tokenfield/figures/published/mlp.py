"""Rescaled tokens with an MLP around attention: with tanh they gather at vertices, with ReLU or a random W they do not."""

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

CASES = ("no MLP", "tanh, W = I", "ReLU, W = I", "tanh, W random", "ReLU, W random")
NEAR = 0.01
"""Tokens nearer than that share a place: a thousandth of the box."""


@dataclasses.dataclass(frozen=True)
class MLPs(Figure):
    """ż_i = W σ(Σ_j P_ij (z_j - z_i)) with P_ij ∝ e^<e^t z_i, e^t z_j>: paths of tokens from a box in the plane, and how many
    different places they take over time (joined where nearer than 0.01).

    With ReLU and W = I no coordinate of a token ever falls. Near a leader z* tanh is the identity, and those who follow obey u̇ =
    -Wu for u = z - z*: they stay only where W has eigenvalues of positive real part.

    - `n`: how many tokens, uniform in [-5, 5]².
    - `T`: the last time where W = I; `short`: where W is random, and tokens do not come to rest.
    - `draws`: how many W are drawn, with entries N(0, 1/2); the first is shown.
    - `times`: how many are drawn.
    - `seed`: of the start; `weights_seed`: of W.
    """

    name = "mlp"
    source, number = "stein2025", "Figure 6"
    shows = "Around attention, tanh keeps the clusters at vertices; ReLU does not, and under a random W tokens stay apart longer."
    small = {"draws": 1, "times": 61, "short": 3.0}
    remark = (
        "The slides say that an MLP leaves the same clustering, with σ tanh or ReLU, and W = I or random. Seen: with tanh and W = "
        "I, yes. With ReLU and W = I tokens come to rest at dozens of places, since they can only move up and to the right. With "
        "three random W 35 to 40 tokens of 40 are at places of their own when those with W = I have met. Where W has a negative "
        "eigenvalue, as the one that is shown, followers are pushed off their leader along it, and slide between two leaders, "
        "where attention, sharper by e^(2t), switches without end. Such runs take ever more steps, also with an implicit solver, "
        "so that they end at t = 9; what they come to later is not known."
    )

    n: int = 40
    T: float = 16.0
    short: float = 9.0
    draws: int = 3
    times: int = 161
    seed: int = 0
    weights_seed: int = 1

    def check(self) -> None:
        if self.n < 10 or self.times < 20 or self.draws < 1:
            raise InputError("mlp: `n` must be at least 10, `times` at least 20, and `draws` positive.")
        if not 4 <= self.T <= 16 or not 0 < self.short <= 10:
            raise InputError("mlp: `T` must lie in [4, 16], and `short`, where steps become very many, in (0, 10].")

    def compute(self, shelf: Shelf) -> xarray.Dataset:
        import xarray

        parts = [shelf("no MLP", lambda: self._run(None, [np.eye(2)], self.T))]
        W = np.random.default_rng(self.weights_seed).normal(size=(self.draws, 2, 2)) / np.sqrt(2)
        for σ in ("tanh", "relu"):
            parts.append(shelf(f"{σ} I", lambda σ=σ: self._run(σ, [np.eye(2)], self.T)))
        for σ in ("tanh", "relu"):
            parts.append(shelf(f"{σ} W", lambda σ=σ: self._run(σ, list(W), self.short)))
        return xarray.concat(parts, dim="case").assign_coords(case=list(CASES))

    def _run(self, σ: str | None, many: list[np.ndarray], T: float) -> xarray.Dataset:
        """Runs with these W, one after another by one program; the paths of the first, and of all how many places there are."""
        import xarray

        start = tkf.Tokens.uniform_box(n=self.n, d=2, low=-5.0, high=5.0, seed=self.seed)
        found, ends = [], []
        for W in many:
            mlp = None if σ is None else tkf.MLP(W1=np.eye(2), W2=W, activation=σ, around=True)
            flow = tkf.Flow(tkf.Softmax(1.0, V=np.eye(2)), tkf.Rescaled(), mlp=mlp)
            run = _quiet(flow, start, t=T, save=np.linspace(0.0, T, self.times), max_steps=5000, **_by(W, T))
            found.append(run)
            ends.append(_places(np.asarray(run.x[-1], float)))
        run, geometry = found[0], tkf.observe.limit_geometry(found[0])
        x = np.asarray(run.x, float)
        saved = len(run.times)
        fill = lambda values: np.concatenate([values, np.full((self.times - saved, *values.shape[1:]), np.nan)])
        return xarray.Dataset(
            {
                "x": (("time", "token", "coordinate"), fill(x)),
                "t": (("time",), fill(np.asarray(run.times, float))),
                "places": (("time",), fill(np.array([_places(state) for state in x], float))),
                "end": (("draw",), np.pad(np.array(ends, float), (0, self.draws - len(ends)), constant_values=np.nan)),
                "vertices": 0 if geometry.vertices is None else len(geometry.vertices),
                "residual": geometry.residuals["polytope"],
                "allowed": geometry.candidates["polytope"].tolerance,
                "steps": int(run.accepted),
                "rtol": run.provenance.rtol,
            }
        )

    def claims(self, data: xarray.Dataset) -> Iterator[Finding]:
        for name in CASES[:2]:
            one = data.sel(case=name)
            yield Finding(
                f"{name}: how far tokens are from the vertices that were found",
                float(one.allowed),
                float(one.residual),
                0.0,
                "They may be 2.5 times as far as they went since half of the time: what falls like t^(-1/2) or faster is nearer.",
                relation="≤",
                rival=1.0,
            )
        relu = data.sel(case="ReLU, W = I")
        slack = float(relu.steps * relu.rtol) * 5 * np.sqrt(2)
        yield Finding(
            "ReLU, W = I: least change of a coordinate between drawn times",
            0.0,
            float(np.diff(relu.x.values, axis=0).min()),
            slack,
            "Velocities are not negative; steps err by rtol of a token each.",
            relation="≥",
            rival=float(np.diff(data.x.sel(case="no MLP").values, axis=0).min()),
        )
        yield from self._scattered(data)

    def _scattered(self, data: xarray.Dataset) -> Iterator[Finding]:
        """That tokens do not gather: how many places they take when those with tanh and W = I have met."""
        like = data.sel(case="tanh, W = I")
        for name in CASES[2:]:
            one = data.sel(case=name)
            rival = float(like.places[np.searchsorted(like.t, float(one.t.max()) - 1e-9)])
            if rival < self.n / 2:
                yield Finding(
                    f"{name}: fewest places at the end, of {self.n} tokens",
                    self.n / 2,
                    float(np.nanmin(one.end)),
                    0.0,
                    "A count. Clustering leaves no more than half as many places as tokens; the rival is tanh, W = I by then.",
                    relation="≥",
                    rival=rival,
                )

    def draw(self, data: xarray.Dataset) -> matplotlib.figure.Figure:
        from tokenfield.figures.style import BLUE, GREY, PAGE, PURPLE, RED, YELLOW, sheet

        colours: dict[str, str] = dict(zip(CASES, (GREY, BLUE, RED, PURPLE, YELLOW), strict=True))
        figure, axes = sheet(2, 3, width=PAGE, height=4.8)
        for ax, name in zip(axes.flat, CASES, strict=False):
            _panel(ax, data.sel(case=name), colours[name])
            one = data.sel(case=name)
            count, t = int(one.places.dropna("time")[-1]), float(one.t.max())
            ax.set_title(f"{name}: {count} places at t = {t:.3g}", fontsize=7.6)
        _counts(axes[1, 2], data, colours)
        return figure


def _by(W: np.ndarray, T: float) -> dict[str, Any]:
    """The solver: an implicit one where attention switches for long."""
    return {} if T < 5 or np.array_equal(W, np.eye(2)) else {"solver": "kvaerno5", "rtol": 1e-5}


def _quiet(flow: tkf.Flow, start: tkf.Tokens, **options: Any) -> tkf.Trajectory:
    """A run, which may use up its steps."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tkf.errors.UnfinishedWarning)
        return tkf.evolve(flow, start, **options)


def _places(x: np.ndarray) -> int:
    """How many groups chains of near tokens make."""
    from scipy.cluster.hierarchy import fcluster, linkage

    return int(fcluster(linkage(x, "single"), NEAR, "distance").max())


def _panel(ax: Any, data: xarray.Dataset, colour: str) -> None:
    from tokenfield.figures.style import FAINT, INK

    x = data.x.values[np.isfinite(data.t.values)]
    ax.plot(x[..., 0], x[..., 1], color=colour, lw=0.5, alpha=0.6)
    ax.plot(*x[0].T, "o", ms=1.5, mew=0, color=INK)
    ax.plot(*x[-1].T, "o", ms=3.4, mew=0.3, mec="white", color=colour, zorder=4)
    ax.set_aspect("equal", adjustable="datalim")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(True)
    ax.spines[:].set_color(FAINT)


def _counts(ax: Any, data: xarray.Dataset, colours: dict[str, str]) -> None:
    """Places over time, of every case."""
    for name, colour in colours.items():
        one = data.sel(case=name)
        ax.plot(one.t, one.places, color=colour, lw=1.2, label=name)
    ax.set(xlabel="t", ylim=(0, data.sizes["token"] * 1.05))
    ax.set_title("different places over time", fontsize=7.6)
    ax.legend(loc="center right", fontsize=6.3, bbox_to_anchor=(1.0, 0.48))


FIGURE = MLPs
