"""From near the uniform measure on the circle: as many clusters come first as the fastest harmonic has crests."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

import tokenfield as tkf
from tokenfield.errors import InputError
from tokenfield.figures.base import Figure, Shelf
from tokenfield.theory.base import Finding

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray

GRID = 721
"""Angles at which densities are drawn."""


@dataclasses.dataclass(frozen=True)
class EarlyClusters(Figure):
    """SA on the circle from near the uniform measure. The harmonic l grows like e^{γ_l t}, γ_l = l² I_l(β)/(β I_0(β)), which is
    largest at l* ≈ √(2β). Clusters are counted when by that law the first harmonic has a given amplitude: the maxima of
    a density whose harmonics begin with one small amplitude, and those of Σ_i e^{β cos(θ - θ_i)} of n tokens that begin
    independent and uniform, whose harmonics begin with amplitudes of order n^{-1/2}.

    - `betas`: inverse temperatures.
    - `n`, `seed`: how many tokens, and the seed of their start and of the density's phases.
    - `perturbation`: the amplitude of all of the density's harmonics at the start.
    - `grown`: that of the largest when clusters are counted.
    - `degree`: up to which the density is computed.
    """

    name = "early-clusters"
    source, number = "bruno2025", "section 5 in rigollet2025"
    shows = "On the circle the first clusters are as many as the fastest harmonic has crests, about √(2β)."
    remark = (
        "The growth rate is flat at its maximum: γ_l/γ_max = 1 - (l - l*)²/β near l*. So tokens, whose noise n^(-1/2) has to grow "
        "some 40-fold for n = 20,000, have l* clusters up to several, and which number it is the noise decides; a "
        "density with a perturbation of 1e-8 has l* up to one."
    )
    small = {"betas": (5.0, 20.0), "n": 1000, "degree": 64}

    betas: tuple[float, ...] = (5.0, 7.0, 20.0, 50.0, 100.0, 200.0)
    n: int = 20_000
    seed: int = 0
    perturbation: float = 1e-8
    grown: float = 0.5
    degree: int = 256

    def check(self) -> None:
        if min(self.betas) < 2:
            raise InputError(f"early-clusters: betas must be 2 or more, but one is {min(self.betas):g}.")
        if not self.perturbation < 1e-3 or not 0.01 <= self.grown <= 1 or self.perturbation <= 0:
            raise InputError("early-clusters: needs 0 < perturbation < 1e-3 and 0.01 ≤ grown ≤ 1.")
        if self.n * self.grown**2 < 10:
            raise InputError(
                f"early-clusters: n = {self.n} tokens have noise above the amplitude grown = {self.grown:g}."
            )
        if self.degree < 6 * np.sqrt(2 * max(self.betas)):
            raise InputError(f"early-clusters: degree must be at least 6√(2β), but is {self.degree}.")

    def compute(self, shelf: Shelf) -> xarray.Dataset:
        import xarray

        parts = [shelf(f"beta {β:g}", functools.partial(self._one, β)) for β in self.betas]
        return xarray.concat(parts, xarray.DataArray(list(self.betas), dims="beta", name="beta"))

    def _one(self, β: float) -> xarray.Dataset:
        """Both kinds at one β: maxima, profiles less 1, and amplitudes at the start with what becomes of them by the law."""
        import xarray

        flow, θ = tkf.sa(β), np.linspace(-np.pi, np.pi, GRID)
        γ = np.asarray(tkf.theory.growth_rates(flow, 2, self.degree))[1:]
        tokens = tkf.Tokens.uniform_sphere(self.n, 2, seed=self.seed)
        noise, small = _amplitudes(np.asarray(tokens.x), self.degree), np.full(self.degree, self.perturbation)
        last = tkf.evolve(flow, tokens, t=self._time(γ, noise), save=2).final
        begun = self._density(int(tkf.theory.most_unstable(flow, 2)))
        wave = tkf.evolve(flow, begun, t=self._time(γ, small), save=2, rtol=1e-9).final
        profiles = [_estimate(np.asarray(last.x), β, θ), np.asarray(wave(θ))]
        fine = np.asarray(wave(np.linspace(0, 2 * np.pi, 64 * self.degree, endpoint=False)))
        counts = [
            len(tkf.observe.modes(last, beta=β)),
            int(np.sum((fine > np.roll(fine, 1)) & (fine >= np.roll(fine, -1)))),
        ]
        law = [np.log(first) + γ * self._time(γ, first) for first in (noise, small)]
        return xarray.Dataset(
            {
                "clusters": ("kind", counts),
                "profile": (("kind", "angle"), np.array(profiles) - 1),
                "law": (("kind", "harmonic"), [np.exp(one - one.max()) for one in law]),
                "fastest": ((), int(tkf.theory.most_unstable(flow, 2))),
            },
            coords={"kind": ["tokens", "density"], "angle": θ, "harmonic": np.arange(1, self.degree + 1)},
        )

    def _time(self, γ: np.ndarray, first: np.ndarray) -> float:
        """When the first harmonic has grown from its amplitude at the start to that at which clusters are counted."""
        return float(np.min(np.log(self.grown / first[γ > 0]) / γ[γ > 0]))

    def _density(self, fastest: int) -> tkf.CircleDensity:
        """1 + Σ_l ε cos(lθ + phase), l up to three times the fastest."""
        phases = np.random.default_rng(self.seed).uniform(0, 2 * np.pi, 3 * fastest)
        c = np.eye(1, 2 * self.degree + 1)[0]
        c[1 : 6 * fastest + 1 : 2] = self.perturbation / 2**0.5 * np.cos(phases)
        c[2 : 6 * fastest + 2 : 2] = self.perturbation / 2**0.5 * np.sin(phases)
        return tkf.CircleDensity(c)

    def claims(self, data: xarray.Dataset) -> Iterator[Finding]:
        for β in self.betas:
            for kind in ("tokens", "density"):
                one = data.sel(beta=β, kind=kind)
                left, fastest, count = _left(one), int(one.fastest), int(one.clusters)
                yield Finding(
                    f"first clusters of {kind}, β = {β:g}",
                    fastest,
                    count,
                    float(np.abs(left - fastest).max()),
                    f"Harmonics {left.min()} to {left.max()} are then half as large as the largest or more, and any may prevail.",
                    rival=1.0,
                )
                if kind == "density":
                    yield Finding(
                        f"first clusters of the density less √(2β), β = {β:g}",
                        0.0,
                        count - np.sqrt(2 * β),
                        float(np.abs(left - fastest).max()) + 0.5 + 1 / np.sqrt(2 * β),
                        "The same, a half for rounding, and 1/√(2β) for the next term of l*.",
                        rival=1 - np.sqrt(2 * β),
                    )

    def draw(self, data: xarray.Dataset) -> matplotlib.figure.Figure:
        from tokenfield.figures.style import BLUE, FAINT, GREY, RED, sheet

        figure, axes = sheet(1, 2, height=3.1, gridspec_kw={"width_ratios": [1.0, 1.25]})
        left, right = axes[0]
        β = np.geomspace(0.8 * min(self.betas), 1.25 * max(self.betas), 200)
        left.plot(β, np.sqrt(2 * β), color=GREY, lw=1, ls="--", label="√(2β)", zorder=1)
        for b in self.betas:
            some = _left(data.sel(beta=b, kind="tokens"))
            label = "harmonics left of noise" if b == self.betas[0] else None
            left.plot([b, b], [some.min(), some.max()], color=FAINT, lw=5, solid_capstyle="butt", label=label, zorder=0)
        left.plot(self.betas, data.fastest, "_", color="black", ms=13, mew=1.2, label="fastest harmonic $l^*$")
        tokens, density = (data.clusters.sel(kind=kind) for kind in ("tokens", "density"))
        left.plot(self.betas, density, "s", color=RED, ms=5, mfc="none", mew=1.2, label="density")
        left.plot(self.betas, tokens, "o", color=BLUE, ms=4, label=f"{self.n:,} tokens")
        left.set(xscale="log", yscale="log", xlabel="β", ylabel="first clusters")
        left.set_xticks(self.betas, [f"{b:g}" for b in self.betas])
        left.set_yticks([2, 4, 8, 16, 32], ["2", "4", "8", "16", "32"])
        left.minorticks_off()
        left.legend(loc="upper left")
        for row, b in enumerate(self.betas):
            for kind, colour in (("density", RED), ("tokens", BLUE)):
                f = data.profile.sel(beta=b, kind=kind).values
                right.plot(data.angle, row + 0.4 * f / np.abs(f).max(), color=colour, lw=0.9)
        right.set_yticks(range(len(self.betas)), [f"β = {b:g}" for b in self.betas])
        right.set_xticks([-np.pi, 0, np.pi], ["−π", "0", "π"])
        right.set(xlabel="θ", xlim=(-np.pi, np.pi))
        right.tick_params(left=False)
        right.spines["left"].set_visible(False)
        right.set_title("densities less 1, each to its own scale")
        return figure


def _left(one: xarray.Dataset) -> np.ndarray:
    """The harmonics that are half as large as the largest, or more, by linear theory."""
    return one.harmonic.values[one.law.values >= 0.5]


def _amplitudes(x: np.ndarray, degree: int) -> np.ndarray:
    """2|Σ_j e^{ilθ_j}|/n for l = 1, ..., degree: Σ_j δ_{θ_j}/n is 1 + Σ_l of waves of these amplitudes."""
    z, power, found = x[:, 0] + 1j * x[:, 1], 1.0 + 0j, []
    for _ in range(degree):
        power = power * z
        found.append(2 * abs(np.mean(power)))
    return np.array(found)


def _estimate(x: np.ndarray, β: float, θ: np.ndarray) -> np.ndarray:
    """Σ_i e^{β cos(θ - θ_i)} in units of its mean over the circle."""
    grid = np.stack([np.cos(θ), np.sin(θ)], axis=1)
    f = np.array([np.exp(β * (x @ point - 1)).mean() for point in grid])
    return f / f[:-1].mean()


FIGURE = EarlyClusters
