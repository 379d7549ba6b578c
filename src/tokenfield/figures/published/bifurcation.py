"""Stationary states of noisy Transformers: a pitchfork at small β, and folds, with two stable states at one κ, at larger β."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import tokenfield as tkf
from tokenfield.errors import InputError
from tokenfield.figures.base import Figure, Shelf
from tokenfield.figures.published._turning import alignment, closed_form, turning
from tokenfield.theory.base import Finding

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure
    import xarray

STARTS = ("nearly uniform", "concentrated")
HIGHEST = 1.15
"""Branches are followed to this many times the largest κ of a run."""


@dataclasses.dataclass(frozen=True)
class Bifurcation(Figure):
    """Stationary states of ∂_t μ = -div(μ v_μ) + κ⁻¹Δμ, v of USA, on the circle and on S²: R = |∫x dμ| of branches against
    κ/κ_c, and where runs of densities and of tokens come to rest.

    Runs have their time in units of κ_c, so that degree 1 grows around the uniform state at the rate (d-1)(1 - κ_c/κ), whatever
    β: V = κ_c and noise κ/κ_c.

    - `d`: spheres S^(d-1), 2 or 3; `beta`: inverse temperatures.
    - `ratio`: κ/κ_c of runs of densities, from two starts; `T`: how long; `degree`: of harmonics.
    - `token_ratio`: κ/κ_c of runs of tokens, from a concentrated start; `n`: how many, or 0; `token_T`, `step`: how long, and
      by which steps; the second half is averaged; `seed`: of samples and noise.
    """

    name = "bifurcation"
    source, number = "shalova2024", "section 7 in rigollet2025"
    shows = (
        "At small β the uniform state of a noisy Transformer loses its stability in a pitchfork (κ_c = 2 on the circle for β = "
        "0), at larger β in a first-order transition: the branch bends back, and below κ_c two states are stable."
    )
    small = {"d": (2,), "beta": (0.0, 3.0), "ratio": (0.6, 2.0), "T": 20.0, "degree": 80, "n": 0}
    remark = (
        "R of states that begin at degrees 2 and 3 is 0: their branches, all unstable, lie on the line of the uniform one and are "
        "not drawn. κ_c on S² is β³/(β cosh β - sinh β), which is e at β = 1. On S² the window in which two states are stable is "
        "much wider than on the circle: from 0.903 κ_c at β = 3 and from 0.696 κ_c at β = 5, against 0.989 and 0.897."
    )

    d: tuple[int, ...] = (2, 3)
    beta: tuple[float, ...] = (0.0, 1.0, 3.0, 5.0)
    ratio: tuple[float, ...] = (0.6, 0.8, 0.93, 1.07, 1.2, 1.5, 2.0)
    T: float = 150.0
    degree: int = 128
    token_ratio: tuple[float, ...] = (0.5, 1.4, 1.9)
    n: int = 400
    token_T: float = 16.0
    step: float = 0.01
    seed: int = 0

    def check(self) -> None:
        if not set(self.d) <= {2, 3} or min(self.beta) < 0 or min(*self.ratio, *self.token_ratio) <= 0:
            raise InputError("bifurcation: d must be 2 or 3, beta must not be negative, and ratios must be positive.")
        slowest = min(abs(1 - 1 / r) for r in self.ratio)
        if slowest * self.T < 10 * np.log(2):
            raise InputError(
                f"bifurcation: at κ/κ_c = {min(self.ratio, key=lambda r: abs(1 - 1 / r)):g} states change at the rate "
                f"{slowest:.3g}, so slowly that they do not come to rest by T = {self.T:g}. Give a larger T."
            )
        if self.n < 0 or self.token_T <= 0 or self.step <= 0 or self.seed < 0 or self.degree < 16:
            raise InputError(
                "bifurcation: n must not be negative, degree 16 or more, token_T and step positive, seed not negative."
            )

    @property
    def models(self) -> list[tuple[int, float]]:
        """All (d, β)."""
        return list(itertools.product(self.d, self.beta))

    def compute(self, shelf: Shelf) -> xarray.Dataset:
        import xarray

        parts = [shelf("branches", self._branches)]
        parts += [shelf(f"densities {d}", lambda d=d: self._densities(d)) for d in self.d]
        parts += [shelf(f"tokens {d}", lambda d=d: self._tokens(d)) for d in self.d if self.n]
        return xarray.combine_by_coords([*parts], combine_attrs="drop")  # pyright: ignore[reportReturnType]

    def _branches(self) -> xarray.Dataset:
        """All branches that are not at R = 0, as one long list of states; folds; and what runs should come to rest at."""
        import xarray

        rows, named = [], {name: [] for name in ("kappa_c", "again", "fold", "fold_again")}
        rest, token_rest = [], []
        for model, (d, β) in enumerate(self.models):
            κ_c = tkf.theory.critical_kappa(tkf.usa(β), d)
            found = tkf.stationary(
                tkf.usa(β), d=d, kappa=(0.4 * κ_c, HIGHEST * max(*self.ratio, *self.token_ratio) * κ_c)
            )
            for branch in found.branches[:2]:  # the uniform one and that of degree 1
                rows += [(model, branch.name != "uniform", s.kappa / κ_c, s.order, s.stable) for s in branch]
            folds = found.branches[1].folds
            known = (
                κ_c,
                closed_form(β, d),
                folds[0] if len(folds) else np.nan,
                turning(β, d) if len(folds) else np.nan,
            )
            for name, value in zip(named, known, strict=True):
                named[name].append(value)
            stable = lambda r: [s.order for s in found.at(r * κ_c) if s.stable]  # noqa: B023
            rest.append([[min(stable(r)), max(stable(r))] for r in self.ratio])
            token_rest.append([max(stable(r)) for r in self.token_ratio])
        shape = (len(self.d), len(self.beta))
        columns = dict(zip(("model", "ordered", "kappa", "order", "stable"), zip(*rows, strict=True), strict=True))
        return xarray.Dataset(
            {
                **{f"state_{name}": (("state",), np.asarray(values, float)) for name, values in columns.items()},
                **{name: (("d", "beta"), np.reshape(values, shape)) for name, values in named.items()},
                "rest": (("d", "beta", "ratio", "start"), np.reshape(rest, (*shape, -1, 2))),
                "token_rest": (("d", "beta", "token_ratio"), np.reshape(token_rest, (*shape, -1))),
            },
            coords=self._coords(self.d),
        )

    def _coords(self, d: tuple[int, ...]) -> dict[str, Any]:
        return {"d": list(d), "beta": list(self.beta), "ratio": list(self.ratio), "start": list(STARTS),
                "token_ratio": list(self.token_ratio)}  # fmt: skip

    def _flows(self, d: int, ratios: tuple[float, ...]) -> list[tkf.Flow]:
        """USA in units of time in which κ_c = 1, at all β and ratios."""
        strength = {β: tkf.theory.critical_kappa(tkf.usa(β), d) for β in self.beta}
        return [tkf.usa(β, V=strength[β], kappa=r) for β in self.beta for r in ratios]

    def _starts(self, d: int) -> list[Any]:
        if d == 2:
            kind = tkf.CircleDensity
            return [kind.wave(0.02, degree=self.degree), kind.von_mises(8.0, degree=self.degree)]
        how: dict[str, Any] = {"degree": self.degree, "d": d, "zonal": True}
        return [tkf.SphereDensity.wave(0.02, **how), tkf.SphereDensity.von_mises(8.0, **how)]

    def _densities(self, d: int) -> xarray.Dataset:
        """R of densities at 0.9 T and at T."""
        import xarray

        run = tkf.evolve(self._flows(d, self.ratio), self._starts(d), self.T, save=np.array([0.0, 0.9, 1.0]) * self.T)
        order = np.asarray(run.order)[..., 1:].reshape(1, len(self.beta), len(self.ratio), 2, 2)
        dims = ("d", "beta", "ratio", "start", "when")
        return xarray.Dataset({"density": (dims, order)}, {**self._coords((d,)), "when": [0.9, 1.0]})

    def _tokens(self, d: int) -> xarray.Dataset:
        """R of tokens over the second half of a run, its mean and its standard deviation."""
        import xarray

        start = self._starts(d)[1].sample(self.n, seed=self.seed)
        flows = self._flows(d, self.token_ratio)
        run = tkf.evolve(flows, [start], self.token_T, save=81, step=self.step, seed=self.seed)
        order = np.linalg.norm(np.asarray(run.mean), axis=-1)[:, 0, 41:].reshape(1, len(self.beta), -1, 40)
        dims = ("d", "beta", "token_ratio")
        moments = {"tokens": (dims, order.mean(-1)), "tokens_spread": (dims, order.std(-1))}
        return xarray.Dataset(moments, self._coords((d,)))

    def claims(self, data: xarray.Dataset) -> Iterator[Finding]:
        for d, β in self.models:
            one, where = data.sel(d=d, beta=β), f"{SPACES[d]}, β = {β:g}"
            exact = 1e-12 * float(one.again)
            yield Finding(
                f"κ_c on {where}", float(one.again), float(one.kappa_c), exact, "Round-off of Bessel functions."
            )
            if np.isfinite(one.fold):
                because = (
                    "Both are found to 1e-9: by continuation, and as the least κ over states of given R, on a grid."
                )
                fold, again = float(one.fold), float(one.fold_again)
                yield Finding(f"fold on {where}", again, fold, 2e-9 * again, because, rival=float(one.kappa_c))
        for d, r in itertools.product(self.d if 0.0 in self.beta else (), [r for r in self.ratio if r > 1]):
            R = float(data.rest.sel(d=d, beta=0.0, ratio=r)[1])
            because = "States are solved to 1e-10; the map R → ∫t e^{κRt} contracts towards its fixed point."
            yield Finding(
                f"fixed point R of β = 0 on {SPACES[d]}, κ = {r:g} κ_c", alignment(r * d * R, d), R, 1e-9, because
            )
        last = np.abs(data.density - data.rest).isel(when=1)
        settled = 1e-5 + np.abs(data.density.diff("when")).isel(when=0)
        yield Finding(
            "largest distance of densities from the stable state that they should rest at, in units of its tolerance",
            predicted=1.0,
            measured=float((last / settled).max()),
            tolerance=0.0,
            because=(
                "Densities are solved to 1e-6 a step, errors of which relaxation forgets but for a factor of at most 1/rate, 10; "
                "and in the last tenth of a run relaxation changes R by no less than after it."
            ),
            relation="≤",
        )
        ordered = data.sel(token_ratio=data.token_ratio > 1)
        if self.n and ordered.sizes["token_ratio"]:
            yield Finding(
                "largest distance of tokens from the ordered state, in standard deviations of R in time",
                predicted=3.0,
                measured=float((np.abs(ordered.tokens - ordered.token_rest) / ordered.tokens_spread).max()),
                tolerance=0.0,
                because="A mean over a time is nearer than three standard deviations at one time; the bias of R is of order 1/n.",
                relation="≤",
            )

    def draw(self, data: xarray.Dataset) -> matplotlib.figure.Figure:
        from tokenfield.figures.style import PAGE, sheet

        rows, columns = len(self.d), len(self.beta)
        figure, axes = sheet(rows, columns, width=PAGE, height=0.7 + 1.5 * rows, sharex=True, sharey=True)
        for model, (ax, (d, β)) in enumerate(zip(axes.flat, self.models, strict=True)):
            self._panel(ax, data, model, data.sel(d=d, beta=β))
            ax.set_title(f"{SPACES[d]}, β = {β:g}")
        for ax in axes[-1]:
            ax.set_xlabel("κ / κ$_c$")
        for ax in axes[:, 0]:
            ax.set_ylabel("R = |∫x dμ|")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
        return figure

    def _panel(self, ax: matplotlib.axes.Axes, data: xarray.Dataset, model: int, one: xarray.Dataset) -> None:
        from tokenfield.figures.style import BLUE, GREY, INK, RED

        for ordered in (False, True):
            mine = data.sel(state=(data.state_model == model) & (data.state_ordered == ordered))
            κ, R, stable = mine.state_kappa.values, mine.state_order.values, mine.state_stable.values > 0
            near = (
                ~stable | np.append(False, ~stable[:-1]) | np.append(~stable[1:], False)
            )  # dashes reach the solid line
            for part, style, words in ((stable, "-", "stable"), (near, "--", "unstable")):
                ax.plot(np.where(part, κ, np.nan), R, style, color=GREY, lw=1.2, label=None if ordered else words)
        for k, (marker, size, face) in enumerate((("v", 3.0, BLUE), ("o", 5.0, "none"))):
            ax.plot(one.ratio, one.density.isel(start=k, when=1), marker, ms=size, mfc=face, color=BLUE, mew=0.8,
                    label=f"density, {STARTS[k]} start")  # fmt: skip
        if self.n:
            ax.plot(one.token_ratio, one.tokens, "x", color=RED, ms=4.5, mew=1.1, label=f"{self.n} tokens", zorder=4)
        words, κ_c = f"κ$_c$ = {float(one.kappa_c):.4g}", float(one.kappa_c)
        if np.isfinite(one.fold):
            ax.axvline(float(one.fold) / κ_c, color=INK, lw=0.6, ls=":")
            words += f"\nfold at {float(one.fold) / κ_c:.4f} κ$_c$"
        ax.text(0.98, 0.1, words, transform=ax.transAxes, ha="right", va="bottom", fontsize=7)
        ax.axvline(1.0, color=INK, lw=0.4, alpha=0.4, zorder=0)
        ax.set(xlim=(0.4, HIGHEST * max(*self.ratio, *self.token_ratio)), ylim=(-0.05, 1.05))


SPACES = {2: "circle", 3: "S²"}


FIGURE = Bifurcation
