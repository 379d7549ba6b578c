"""The phase diagram of self-attention: which β and which t it takes for random tokens to become one cluster."""

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

KNOWN = {6.0: 2.1873, 8.0: 5.2027, 10.0: 5.9124, 20.0: 7.2198, 30.0: 7.7849}
"""By quadrature of dt = dρ/ρ̇ from ρ = 0 to 1 - 10⁻³, n = 128, SA: the β for which the end is reached at these times."""
FEW = 4096
"""So many members are computed in this process; more by workers."""


@dataclasses.dataclass(frozen=True)
class PhaseDiagram(Figure):
    """The share of pairs i ≠ j with <x_i, x_j> > `cosine`, averaged over random starts, against β and t, for each dimension; and
    the curve along which equiangular tokens, ρ(0) = 0, reach ρ = `cosine`: that of orthogonal tokens, which random ones are
    almost in high dimensions.

    - `d`, `n`: dimensions, one panel each, and the number of tokens.
    - `betas`, `first`, `last`: β are so many, equally spaced from `first` to `last`.
    - `starts`: random starts per β, with seeds `seed`, `seed` + 1, ...
    - `times`, `T`: times are so many, equally spaced from 0 to `T`.
    - `model`: "sa", or "usa", which is faster: take `T` = 1.
    - `rtol`: tolerance of every step.
    """

    name = "phase-diagram"
    source, number = "rigollet2025", "Figure 3"
    shows = "Random tokens become one cluster below a curve β(t), more sharply as d grows; the curve is that of orthogonal tokens."
    small = {"d": (32, 128), "n": 16, "betas": 16, "starts": 8, "times": 31}
    remark = (
        "The curve of the source's notebook lies elsewhere, since it comes from a coarse grid; the values here agree with "
        "quadrature. In d = 2 tokens on a circle keep more than one cluster for a long time, also at small β."
    )

    d: tuple[int, ...] = (2, 8, 128, 1024)
    n: int = 32
    betas: int = 90
    first: float = 0.1
    last: float = 9.0
    starts: int = 2048
    times: int = 200
    T: float = 30.0
    cosine: float = 0.999
    model: str = "sa"
    rtol: float = 1e-4
    seed: int = 0

    def check(self) -> None:
        if self.model not in ("sa", "usa"):
            raise InputError(f"phase-diagram: model must be 'sa' or 'usa', but is {self.model!r}.")
        if min(self.d) < 2 or self.n < 2 or self.betas < 2 or self.starts < 1 or self.times < 2:
            raise InputError("phase-diagram: it takes d ≥ 2, n ≥ 2, betas ≥ 2, starts ≥ 1 and times ≥ 2.")
        if not 0 <= self.first < self.last or not self.T > 0 or not 0 < self.cosine < 1:
            raise InputError("phase-diagram: it takes 0 ≤ first < last, T > 0 and 0 < cosine < 1.")

    @property
    def flow(self) -> Any:
        return tkf.sa if self.model == "sa" else tkf.usa

    def compute(self, shelf: Shelf) -> xarray.Dataset:
        import xarray

        beta, times = np.linspace(self.first, self.last, self.betas), np.linspace(0, self.T, self.times)
        share = xarray.concat(
            [shelf(f"share {d}", lambda d=d: self._share(d, beta, times, shelf)).share for d in self.d], "d"
        )
        curve = shelf("curves", lambda: self._curves(beta))
        return xarray.Dataset({"share": share}, coords={"d": list(self.d)}).merge(curve)

    def _share(self, d: int, beta: np.ndarray, times: np.ndarray, shelf: Shelf) -> xarray.Dataset:
        """The share of close pairs in one dimension, averaged over starts."""
        close = Close(self.cosine)
        seeds = range(self.seed, self.seed + self.starts)
        place = shelf.place(f"sweep {d}")
        found = tkf.sweep(
            self.flow,
            lambda seed: tkf.Tokens.uniform_sphere(n=self.n, d=d, seed=seed),
            self.T,
            over={"beta": beta, "seed": seeds},
            observe={"share": close},
            save=times,
            rtol=self.rtol,
            out=place,
            workers=0 if self.betas * self.starts <= FEW else None,
        )
        return found[["share"]].mean("seed")

    def _curves(self, beta: np.ndarray) -> xarray.Dataset:
        """When equiangular tokens meet: orthogonal ones, and those with ρ(0) = 1/√d, for all β; and the β for which 128 orthogonal
        ones meet at the known times."""
        import xarray

        rho = (0.0, max(self.d) ** -0.5)
        found: dict[str, Any] = {"meeting": (("beta", "rho"), self._meeting(beta, self.n, rho))}
        if self.model == "sa" and self.cosine == 0.999:
            found["crossing"] = (("known",), self._inverted(np.asarray(list(KNOWN))))
        return xarray.Dataset(found, coords={"beta": beta, "rho": list(rho)})

    def _meeting(self, beta: np.ndarray, n: int, rho: tuple[float, ...] = (0.0,)) -> np.ndarray:
        """The time at which equiangular tokens have ρ = cosine, for each β and each ρ(0)."""
        flows, starts = [self.flow(b) for b in beta.tolist()], [tkf.Equiangular(rho=r, n=n) for r in rho]
        runs = tkf.evolve(flows, starts, t=1e3 * self.T, save=2, until=Met(self.cosine), rtol=1e-10)
        return np.asarray(runs.reached)

    def _inverted(self, times: np.ndarray) -> np.ndarray:
        """The β for which 128 orthogonal tokens meet at given times: by interpolation, then by Newton's method on log t."""
        grid, h = np.linspace(2.0, 8.0, 2 * self.betas), 1e-4  # as many as above: one program
        found = np.interp(times, self._meeting(grid, 128)[:, 0], grid)
        for _ in range(3):
            near = np.resize([found, found + h], (2 * len(times),))
            at = self._meeting(np.resize(near, max(len(near), 2 * self.betas)), 128)[:, 0]
            here, beside = at[: 2 * len(times)].reshape(2, -1)
            found = found - np.log(here / times) * h / np.log(beside / here)
        return found

    def claims(self, data: xarray.Dataset) -> Iterator[Finding]:
        if "crossing" in data:
            for t, known, found in zip(KNOWN, KNOWN.values(), data.crossing.values, strict=True):
                yield Finding(
                    f"β of the equiangular curve at t = {t:g}, n = 128",
                    known,
                    found,
                    1e-4,
                    "The value by quadrature is known to half a unit of its fourth decimal, 5e-5; the run's tolerance is 1e-10.",
                    rival=known + 0.05,
                )
        yield from self._follows(data)
        yield from self._sharpens(data)

    def _follows(self, data: xarray.Dataset) -> Iterator[Finding]:
        """In the highest dimension half of the pairs are close where orthogonal tokens meet."""
        d = max(self.d)
        if d <= self.n:
            return
        spacing = (self.last - self.first) / (self.betas - 1)
        for t in [t for t in (8.0, 10.0, 20.0, 30.0) if t <= self.T and self.model == "sa"]:
            expected, other = (np.interp(t, data.meeting[:, k], data.beta) for k in (0, 1))
            band = abs(other - expected)
            share = np.asarray(data.share.sel(d=d).interp(time=t).values)
            yield Finding(
                f"β at which half of the pairs are close, d = {d}, t = {t:g}",
                expected,
                _crossing(data.beta.values, share),
                band + spacing,
                f"Inner products of random tokens differ from 0 by 1/√d; equiangular tokens that begin there meet at a β that "
                f"differs by {band:.2g}. β has a spacing of {spacing:.2g}.",
            )

    def _sharpens(self, data: xarray.Dataset) -> Iterator[Finding]:
        """The range of β in which the share falls from 3/4 to 1/4 becomes narrower as d grows."""
        if len(self.d) < 2 or self.model != "sa":
            return
        t = float(min(10.0, self.T))
        widths = []
        for d in sorted(self.d)[-2:]:
            share = np.asarray(data.share.sel(d=d).interp(time=t).values)
            widths.append(_crossing(data.beta.values, share, 0.25) - _crossing(data.beta.values, share, 0.75))
        low, high = sorted(self.d)[-2:]
        yield Finding(
            f"width of the transition at t = {t:g}, d = {high} over d = {low}",
            1.0,
            widths[1] / widths[0],
            0.0,
            "The source says that the transition is sharper in higher dimensions, without a rate.",
            relation="≤",
        )

    def draw(self, data: xarray.Dataset) -> matplotlib.figure.Figure:
        from tokenfield.figures.style import PAGE, sheet

        columns = len(self.d)
        figure, axes = sheet(1, columns, width=PAGE, height=2.3 if columns > 2 else 2.9, sharey=True)
        mesh = None
        for ax, d in zip(axes[0], self.d, strict=True):
            mesh = ax.pcolormesh(
                data.time, data.beta, data.share.sel(d=d), vmin=0, vmax=1, shading="nearest", rasterized=True
            )
            ax.plot(data.meeting[:, 0], data.beta, color="white", lw=1.2, ls="--")
            ax.set_xlim(0, self.T)
            ax.set_ylim(self.first, self.last)
            ax.set_title(f"d = {d}")
            ax.set_xlabel("t")
        axes[0, 0].set_ylabel("β")
        bar = figure.colorbar(mesh, ax=axes.ravel().tolist(), pad=0.01, aspect=28)
        bar.set_label(f"share of pairs with cosine > {self.cosine:g}")
        return figure


@dataclasses.dataclass(frozen=True)
class Close:
    """The share of pairs with a cosine above a threshold, as a function of a measure."""

    cosine: float
    sees_axes = False

    def __call__(self, mu: Any) -> Any:
        return tkf.observe.fraction_close(mu, self.cosine)


@dataclasses.dataclass(frozen=True)
class Met:
    """Whether equiangular tokens have a cosine above a threshold."""

    cosine: float

    def __call__(self, t: Any, mu: Any) -> Any:
        return mu.rho > self.cosine


def _crossing(beta: np.ndarray, share: np.ndarray, level: float = 0.5) -> float:
    """The largest β at which a share that falls with β has a level."""
    above = np.flatnonzero(share >= level)
    if len(above) == 0 or above[-1] == len(beta) - 1:
        return float("nan")
    k = above[-1]
    return float(np.interp(level, [share[k + 1], share[k]], [beta[k + 1], beta[k]]))


FIGURE = PhaseDiagram
