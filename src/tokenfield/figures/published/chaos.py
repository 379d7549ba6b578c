"""Propagation of chaos: moments of n tokens approach those of the mean-field density like n^(-1/2), with noise and without."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tokenfield as tkf
from tokenfield.errors import InputError
from tokenfield.figures.base import Figure, Shelf
from tokenfield.theory.base import Finding

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure
    import xarray

SPACES = {2: "circle", 3: "S²"}
NOISE = ("noisy", "noiseless")
TOGETHER = 1000
"""Runs of up to so many tokens are one ensemble, filled up to the largest with tokens of no weight."""


@dataclasses.dataclass(frozen=True)
class Chaos(Figure):
    """n tokens of USA that start as samples of f ∝ e^{<x, e_1>}, against the density that starts as f, at times up to T: the root
    mean square over runs of the distance of their harmonic moments of degrees 1 and 2, on the circle those of e^{iθ} and e^{2iθ},

        δ² = |√d(m - m̄)|² + d(d+2)/2 ‖M - M̄‖²,    m = ∫x dμ, M = ∫xxᵀ dμ.

    At t = 0 n E δ² is known: the number of harmonics, 4 on the circle and 8 on S², less their squared moments.

    - `d`: spheres S^(d-1), 2 or 3; `noise`: "noisy", "noiseless", or both.
    - `beta`: the inverse temperature; `kappa`: κ of the noise √(2/κ)dW.
    - `n`: numbers of tokens; `runs`: how many runs of each.
    - `T`: the last time; `step`: of tokens with noise; `rtol`: of tokens without; `degree`: of harmonics of the density.
    - `seed`: of samples and noise.
    """

    name = "chaos"
    source, number = "sznitman1991", "section 7 in rigollet2025"
    shows = (
        "Moments of n tokens differ from those of the mean-field density by n^(-1/2), with and without noise, on the circle and "
        "on S²; attention lets the factor grow in time, and noise damps it."
    )
    remark = (
        "√n δ starts at √3.58 on the circle and √7.69 on S², as it must for samples. Over 148 runs of each kind it comes by t = 1 "
        "to 3.4 and 5.7 without noise, and to 3.1 and 4.1 with κ = 4."
    )
    small = {"d": (2,), "noise": ("noisy",), "n": (16, 64, 256), "runs": (24, 24, 24), "step": 0.05}

    d: tuple[int, ...] = (2, 3)
    noise: tuple[str, ...] = NOISE
    beta: float = 1.0
    kappa: float = 4.0
    n: tuple[int, ...] = (100, 1_000, 10_000, 100_000)
    runs: tuple[int, ...] = (64, 64, 16, 4)
    T: float = 1.0
    step: float = 0.02
    rtol: float = 1e-5
    degree: int = 128
    seed: int = 0

    def check(self) -> None:
        if not set(self.d) <= {2, 3} or not set(self.noise) <= set(NOISE):
            raise InputError(
                f"chaos: d must be 2 or 3, and noise among {', '.join(NOISE)}, but they are {self.d}, {self.noise}."
            )
        if len(self.n) < 3 or min(self.n) < 2 or sorted(set(self.n)) != list(self.n):
            raise InputError(f"chaos: n must be three numbers or more, increasing from at least 2, but is {self.n}.")
        if len(self.runs) != len(self.n) or min(self.runs) < 2:
            raise InputError(
                f"chaos: runs must have a number, 2 or more, for each of {len(self.n)} n, but is {self.runs}."
            )
        if min(self.kappa, self.T, self.step, self.rtol) <= 0 or self.degree < 8 or self.seed < 0:
            raise InputError("chaos: kappa, T, step and rtol must be positive, degree 8 or more, seed not negative.")

    @property
    def times(self) -> np.ndarray:
        return np.linspace(0.0, self.T, 6)

    @property
    def cases(self) -> list[tuple[int, str]]:
        """All spheres, with and without noise."""
        return list(itertools.product(self.d, self.noise))

    def compute(self, shelf: Shelf) -> xarray.Dataset:
        import xarray

        parts = [shelf(f"{noise} {d}", lambda d=d, noise=noise: self._compared(d, noise)) for d, noise in self.cases]
        return xarray.combine_by_coords(parts, combine_attrs="drop")  # pyright: ignore[reportReturnType]

    def _compared(self, d: int, noise: str) -> xarray.Dataset:
        """δ² of every run at every time, and the moments of the density."""
        import xarray

        flow = tkf.usa(self.beta, kappa=self.kappa if noise == "noisy" else None)
        law = _von_mises(d, self.degree)
        density = tkf.evolve(flow, law, self.T, save=self.times, rtol=1e-9)
        c = np.asarray(density.coefficients)[:, [1, 3] if d == 2 else [1, 2]]
        square = np.full((len(self.n), max(self.runs), len(self.times)), np.nan)
        few = [n for n in self.n if n <= TOGETHER]
        for some in [*([few] if few else []), *([n] for n in self.n if n > TOGETHER)]:
            for n, run, found in self._tokens(flow, law, some):
                square[self.n.index(n), run] = distance(found, c)
        dims = ("d", "noise", "n", "run", "time")
        return xarray.Dataset(
            {"square": (dims, square[None, None]), "moment": (("d", "noise", "time", "l"), c[None, None])},
            coords={"d": [d], "noise": [noise], "n": list(self.n), "run": np.arange(max(self.runs)),
                    "time": self.times, "l": [1, 2]},
        )  # fmt: skip

    def _tokens(self, flow: tkf.Flow, law: Any, sizes: list[int]) -> Iterator[tuple[int, int, np.ndarray]]:
        """Every run of these numbers of tokens: n, which run of this n, and tokens at all times."""
        members = [(n, run) for n in sizes for run in range(self.runs[self.n.index(n)])]
        starts = [law.sample(n, seed=self.seed + 1000 * run + n).filled(max(sizes)) for n, run in members]
        how: dict[str, Any] = {"rtol": self.rtol} if flow.kappa is None else {"step": self.step, "seed": self.seed}
        if max(sizes) <= TOGETHER:
            points = np.asarray(tkf.evolve([flow], starts, self.T, save=self.times, **how).x)[0]
        else:  # one by one, since a run of its own has sums in O(n)
            alone = lambda k: how if flow.kappa is None else {**how, "seed": self.seed + k}
            points = (tkf.evolve(flow, mu, self.T, save=self.times, **alone(k)).x for k, mu in enumerate(starts))
        for (n, run), x in zip(members, points, strict=True):
            yield n, run, np.asarray(x)[:, :n]

    def claims(self, data: xarray.Dataset) -> Iterator[Finding]:
        for d, noise in self.cases:
            one = data.sel(d=d, noise=noise)
            yield self._slope(one, f"{SPACES[d]}, {noise}")
            scaled, runs = (one.square * one.n).isel(time=0), sum(self.runs)
            known = known_at_start(d, one.moment.values[0])
            yield Finding(
                f"n E δ² at t = 0, {SPACES[d]}, samples of {noise} runs",
                predicted=known,
                measured=float(scaled.mean(skipna=True)),
                tolerance=3 * known / np.sqrt(runs),
                because=f"Three standard errors over {runs} runs, squares of two normal variables at least.",
                rival=0.0,
            )

    def _slope(self, one: xarray.Dataset, where: str) -> Finding:
        x, y = np.log(self.n), np.log(one.square.isel(time=-1).mean("run", skipna=True).values) / 2
        away = (x - x.mean()) / np.sum((x - x.mean()) ** 2)
        loose = 1 / np.sqrt(4 * np.asarray(self.runs))
        error = float(np.sqrt(np.sum((away * loose) ** 2)))
        return Finding(
            f"power of n in δ at t = {self.T:g}, {where}",
            predicted=-0.5,
            measured=float(away @ y),
            tolerance=3 * error,
            because=(
                f"Three standard errors: over {self.runs[0]} to {self.runs[-1]} runs the logarithm of a root mean square of at "
                f"least twice as many normal variables is known to {loose[0]:.2g} to {loose[-1]:.2g}, and the slope to {error:.2g}."
            ),
            rival=0.0,
        )

    def draw(self, data: xarray.Dataset) -> matplotlib.figure.Figure:
        from tokenfield.figures.style import PAGE, sheet

        figure, axes = sheet(1, len(self.d) + 1, width=PAGE if len(self.d) > 1 else 5.0, height=2.4)
        for ax, d in zip(axes[0], self.d, strict=False):
            self._errors(ax, data.sel(d=d), d)
        axes[0, 0].set_ylabel("error δ of moments")
        self._factors(axes[0, -1], data)
        return figure

    def _errors(self, ax: matplotlib.axes.Axes, data: xarray.Dataset, d: int) -> None:
        """δ of every run and its root mean square, at the last time, against n."""
        from tokenfield.figures.style import BLUE, GREY, RED

        n = np.asarray(self.n, float)
        for noise, colour, marker, shift in (("noiseless", RED, "s", 1.1), ("noisy", BLUE, "o", 1 / 1.1)):
            if noise not in self.noise:
                continue
            square = data.square.sel(noise=noise).isel(time=-1)
            ax.plot(
                shift * n, np.sqrt(square.transpose("n", "run")), ".", color=colour, ms=2.5, alpha=0.4, mew=0, zorder=1
            )
            ax.plot(shift * n, np.sqrt(square.mean("run", skipna=True)), marker, color=colour, ms=4, label=noise)
        law = np.sqrt(known_at_start(d, data.moment.values[0, 0]) / n)
        ax.plot(n, law, "--", color=GREY, lw=0.9, label="at t = 0, exactly")
        ax.set(xscale="log", yscale="log", xlabel="number of tokens n", title=f"{SPACES[d]}, t = {self.T:g}")
        ax.set_xticks(n, [_power(one) for one in self.n])
        ax.set_xticks([], minor=True)
        ax.legend(loc="lower left")

    def _factors(self, ax: matplotlib.axes.Axes, data: xarray.Dataset) -> None:
        """√n δ over all n and runs, along time."""
        from tokenfield.figures.style import BLUE, RED

        factor = np.sqrt((data.square * data.n).mean(("n", "run"), skipna=True))
        for d, line in zip(self.d, ("-", "--"), strict=False):
            for noise in self.noise:
                colour = BLUE if noise == "noisy" else RED
                ax.plot(data.time, factor.sel(d=d, noise=noise), line, color=colour, label=f"{SPACES[d]}, {noise}")
        ax.set(xlabel="t", ylabel="√n δ", ylim=(0, None), title="the factor along time")
        ax.legend(loc="best")


def _power(n: int) -> str:
    """n, as a power of ten where it is one from 1000 on."""
    exponent = round(np.log10(n))
    return f"10$^{{{exponent}}}$" if n >= 1000 and n == 10**exponent else f"{n}"


def _von_mises(d: int, degree: int) -> Any:
    if d == 2:
        return tkf.CircleDensity.von_mises(1.0, degree=degree)
    return tkf.SphereDensity.von_mises(1.0, degree=degree, d=d, zonal=True)


def distance(x: np.ndarray, c: np.ndarray) -> np.ndarray:
    """δ² of tokens x, shape (times, n, d), from a density that is symmetric about e_1 and has moments c, shape (times, 2)."""
    d = x.shape[-1]
    pole, eye = np.eye(d)[0], np.eye(d) / d
    axis = np.outer(pole, pole) - eye
    first = np.sqrt(d) * x.mean(axis=1) - c[:, :1] * pole
    second = np.sqrt(d * (d + 2) / 2) * (np.einsum("tna,tnb->tab", x, x) / x.shape[1] - eye)
    second -= c[:, 1, None, None] * axis / np.linalg.norm(axis)
    return np.sum(first**2, axis=1) + np.sum(second**2, axis=(1, 2))


def known_at_start(d: int, c: np.ndarray) -> float:
    """n E δ² of n independent samples: harmonics of degrees 1 and 2 at a point have squares d and (d+2)(d-1)/2 in sum."""
    return float(d + (d + 2) * (d - 1) / 2 - np.sum(c**2))


FIGURE = Chaos
