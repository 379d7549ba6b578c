"""Causal attention on the circle: tokens gather at Rényi centres."""

from __future__ import annotations

import dataclasses
import functools
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


@dataclasses.dataclass(frozen=True)
class CausalCentres(Figure):
    """Causal SA on the circle, ẋ_i = P Σ_{j ≤ i} e^{β<x_i, x_j>} x_j / Σ_{j ≤ i} e^{β<x_i, x_j>}, from uniform starts, and the
    share of tokens that are within a kernel's width β^{-1/2} of a Rényi centre. Token j is a centre if its angle to all centres
    before it exceeds δ = 4β^{-1/2} at the start, a strong one if its angle to all tokens before it does. One case a column:

    - `n`, `betas`, `T`: how many tokens, the inverse temperature, and the last time of each case.
    - `starts`, `seed`: over how many starts shares are averaged; the first one, of this seed, is drawn.
    - `times`: how many are saved, in equal ratios.
    """

    name = "causal-centres"
    source, number = "karagodin2024", "section 5"
    shows = "Under causal attention tokens gather at Rényi centres, which the start alone decides."
    remark = (
        "All tokens are within δ of a centre from the start on, by the definition of centres; what tells is the share within a "
        "kernel's width, δ/4. Strong centres stay for exponentially long times, but these are shorter than e^(β(1 - cos δ)), "
        "970 at β = 9: one of 4 starts of 40 tokens has a strong centre that has gone by more than δ, to another, at t = 400, "
        "and 9 of 20 starts of 32 tokens at t = 5000. Tokens are at centres all the same."
    )
    small = {"n": (40, 40), "betas": (64.0, 9.0), "T": (40.0, 400.0), "starts": 4, "times": 40}

    n: tuple[int, ...] = (200, 32)
    betas: tuple[float, ...] = (64.0, 9.0)
    T: tuple[float, ...] = (40.0, 5000.0)
    starts: int = 20
    seed: int = 0
    times: int = 120

    def check(self) -> None:
        if not len(self.n) == len(self.betas) == len(self.T):
            raise InputError("causal-centres: n, betas and T must be equally many, one of each a case.")
        if min(self.betas) <= (4 / np.pi) ** 2:
            raise InputError(
                f"causal-centres: betas must exceed (4/π)² = 1.63, else δ is no angle, but one is {min(self.betas):g}."
            )
        if min(self.n) < 2 or min(self.T) <= 1 or self.starts < 1 or self.times < 3:
            raise InputError("causal-centres: needs n ≥ 2, T > 1, starts ≥ 1 and times ≥ 3.")

    def compute(self, shelf: Shelf) -> xarray.Dataset:
        import xarray

        return xarray.merge([shelf(f"case {k}", functools.partial(self._case, k)) for k in range(len(self.n))])

    def _case(self, k: int) -> xarray.Dataset:
        import xarray

        n, β = self.n[k], self.betas[k]
        times = np.append(0.0, np.geomspace(1e-2, self.T[k], self.times))
        flow = tkf.Flow(tkf.Causal(tkf.Softmax(β)), tkf.PostLN())
        starts = [tkf.Tokens.uniform_sphere(n, 2, seed=self.seed + s) for s in range(self.starts)]
        runs = tkf.evolve([flow], starts, t=self.T[k], save=times)
        seen = [_seen(run, flow, β) for run in runs.members()]
        x = np.asarray(runs[0, 0].directions)
        return xarray.Dataset(
            {
                f"angle{k}": ((f"time{k}", f"token{k}"), np.unwrap(np.arctan2(x[..., 1], x[..., 0]), axis=0)),
                f"rank{k}": ((f"token{k}",), seen[0]["rank"]),
                f"share{k}": (("start", f"time{k}"), [one["share"] for one in seen]),
                f"late{k}": (("start",), [one["late"] for one in seen]),
                f"moved{k}": (("start",), [one["moved"] for one in seen]),
                f"ran{k}": (("start",), [one["ran"] for one in seen]),
            },
            coords={f"time{k}": times},
        )

    def claims(self, data: xarray.Dataset) -> Iterator[Finding]:
        for k, β in enumerate(self.betas):
            share, late = data[f"share{k}"].values, float(data[f"late{k}"].mean())
            case = f"n = {self.n[k]}, β = {β:g}, t = {self.T[k]:g}"
            yield Finding(
                f"share of tokens within β^(-1/2) of a centre, {case}",
                1.0,
                float(share[:, -1].mean()),
                late,
                f"A centre fetches tokens from an angle r in the time e^(β(1 - cos r)) r/sin r, which is that of the run at r = "
                f"{_reach(β, self.T[k]):.3g}: {late:.2g} of tokens were farther from all centres at the start.",
                rival=float(share[:, 0].mean()),
            )
            ran = float(data[f"ran{k}"].max())
            if ran < 0.5:  # else centres may have gone elsewhere by T
                yield Finding(
                    f"how far a strong centre went at most, in units of δ, {case}",
                    0.0,
                    float(data[f"moved{k}"].max()),
                    0.25,
                    f"Were those before it to stay, it would run away at T/{ran:.2g}; within a kernel's width, 1/4, it keeps what "
                    "gathers at it.",
                    rival=1.0,
                )

    def draw(self, data: xarray.Dataset) -> matplotlib.figure.Figure:
        from tokenfield.figures.style import BLUE, CYAN, FAINT, RED, sheet

        figure, axes = sheet(1, len(self.n) + 1, height=2.7)
        for k, (ax, β) in enumerate(zip(axes[0], self.betas, strict=False)):
            t, θ, rank = data[f"time{k}"][1:], _wrapped(data[f"angle{k}"].values[1:]), data[f"rank{k}"].values
            for which, colour, width in ((0, FAINT, 0.5), (1, CYAN, 1.4), (2, BLUE, 1.8)):
                ax.plot(t, θ[:, rank == which], color=colour, lw=width, zorder=which + 1)
            ax.set(xscale="log", xlim=(float(t[0]), self.T[k]), ylim=(-np.pi, np.pi), xlabel="t")
            ax.set_yticks([-np.pi, 0, np.pi], ["−π", "0", "π"])
            ax.set_title(f"n = {self.n[k]}, β = {β:g}")
        axes[0, 0].set_ylabel("angle")
        _key(figure, axes[0, 0], {"tokens": FAINT, "centres": CYAN, "strong centres": BLUE})
        ax = axes[0, -1]
        for k, (β, colour) in enumerate(zip(self.betas, (BLUE, RED, CYAN), strict=False)):
            share = data[f"share{k}"].mean("start")
            ax.plot(data[f"time{k}"][1:], share[1:], color=colour, label=f"n = {self.n[k]}, β = {β:g}")
        ax.set(xscale="log", ylim=(0, 1.03), xlabel="t")
        ax.set_title("share within β$^{-1/2}$ of a centre")
        ax.legend(loc="lower right", title=f"mean of {self.starts} starts", title_fontsize=7)
        return figure


def _seen(run: tkf.Trajectory, flow: tkf.Flow, β: float) -> dict[str, Any]:
    """What is kept of one run: who is no centre (0), a centre (1), a strong one (2); shares within a kernel's width; the share that
    is out of reach at the start; how far strong centres went at most, in units of δ, and T over the time at which they run away:
    v̇ = β sin δ v², as their speed is e^{-β(1 - cos φ)} at an angle φ ≥ δ."""
    x, T = np.asarray(run.directions), float(run.times[-1])
    centres, strong = (tkf.observe.renyi_centres(run, beta=β, strong=which) for which in (False, True))
    rank = np.zeros(x.shape[1])
    rank[centres.indices], rank[strong.indices] = 1, 2
    nearest = (x @ np.swapaxes(x[:, centres.indices], 1, 2)).max(axis=2)
    speeds = np.linalg.norm(np.asarray(tkf.velocity(flow, run[0])), axis=1)[strong.indices]
    angles = np.arccos(np.clip(np.sum(x[0] * x[-1], axis=-1), -1.0, 1.0))[strong.indices]
    return {
        "rank": rank,
        "share": np.mean(nearest >= np.cos(β**-0.5), axis=1),
        "late": float(np.mean(nearest[0] < np.cos(_reach(β, T)))),
        "moved": float(angles.max() / centres.delta),
        "ran": float(T * speeds.max() * β * np.sin(centres.delta)),
    }


def _reach(β: float, t: float) -> float:
    """From how far a centre fetches a token within some time: where e^{β(1 - cos r)} r/sin r = t."""
    r = np.linspace(1e-6, np.pi - 1e-6, 10_001)
    return float(r[np.searchsorted(β * (1 - np.cos(r)) + np.log(r / np.sin(r)), np.log(max(t, 1.0)))])


def _wrapped(θ: np.ndarray) -> np.ndarray:
    """Angles in [-π, π), with a gap where a line leaves the page."""
    θ = (θ + np.pi) % (2 * np.pi) - np.pi
    θ[1:][np.abs(np.diff(θ, axis=0)) > np.pi] = np.nan
    return θ


def _key(figure: Any, ax: Any, colours: dict[str, str]) -> None:
    lines = [ax.plot([], [], color=colour, label=name)[0] for name, colour in colours.items()]
    figure.legend(handles=lines, loc="outside lower left", ncols=len(lines))


FIGURE = CausalCentres
