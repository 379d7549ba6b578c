"""Layers with a step τ against the flow that is their limit: how far they are from it, and where they end elsewhere."""

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
    import matplotlib.axes
    import matplotlib.figure
    import xarray

RTOL, EVEN, DEEP, BUMP = 1e-9, 1e-3, 400, 1e-5
"""The flow's tolerance; the excess energy below which tokens are spread evenly, and after how many layers; a small bump."""


@dataclasses.dataclass(frozen=True)
class DiscreteVsContinuous(Figure):
    """Post-LN layers x ↦ LN(x + τ V Γ(x)) with softmax attention against the flow, at times t = kτ. On the circle: the distance
    (root mean square over tokens) after a fixed time, V = 1; and the energy E of tokens that repel each other, V = -1, which the
    flow spreads evenly. Of equiangular tokens: how fast they collapse.

    A ring of tokens with a bump cos(lθ) has it multiplied in one layer by g_l = 1 - (τ/(1 - τ r_1)) l² r_l/β, r_l = I_l(β)/I_0(β):
    the step τ counts as τ/(1 - τ r_1), since x - τa is shorter than x. So layers spread tokens only where τ is less than
    τ_c = min_l 2/(2 r_1 + l² r_l/β).

    - `taus`: steps, in decreasing order, whole fractions of 1.
    - `n`, `seed`: how many tokens, and the seed of the start, which is uniform on the circle.
    - `beta`: the inverse temperature of tokens that attract each other; `repelled` that of tokens that do not.
    - `T`: the last time; `at` that at which distances to the flow are taken.
    - `betas`, `steps`: the grid of β and τ on which tokens repel each other, for 400 layers.
    """

    name = "discrete-vs-continuous"
    source, number = "castin2025", "open question"
    shows = "Layers are O(τ) from the flow and slower to collapse; where tokens repel each other, large steps change their fate."
    remark = (
        "The source asks what changes from discrete to continuous time. Seen here: first, the error is O(τ). "
        "Second, where tokens attract each other no step is too large, since x + τa points between x and a; but the clock is "
        "another: near the collapse a layer divides 1 - ρ by (1+τ)², so that τ = 1 has the rate 2 log 2 = 1.386 in "
        "the place of 2. Third, where they repel each other, V = -1, the flow spreads them evenly at every β, and layers do so "
        "only below τ_c, which falls from 4 at β = 0 through 1 at β = 2, exactly, to 2/(2 + 2/e) = 0.73 at β = ∞: with the step "
        "of a Transformer, τ = 1, and β > 2, the energy of tokens keeps jumping, and they are never spread."
    )
    small = {"taus": (1.0, 0.5, 0.1), "betas": (1.0, 4.0, 16.0), "steps": (0.5, 0.7, 0.9, 1.0, 1.2)}

    taus: tuple[float, ...] = (1.0, 0.5, 0.1, 0.01)
    n: int = 64
    seed: int = 0
    beta: float = 4.0
    repelled: float = 8.0
    T: int = 40
    at: int = 3
    betas: tuple[float, ...] = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 11.0, 16.0)
    steps: tuple[float, ...] = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6)

    def check(self) -> None:
        falling = list(self.taus) == sorted(set(self.taus), reverse=True) and self.taus[-1] > 0
        if len(self.taus) < 3 or not falling or any(abs(1 / tau - round(1 / tau)) > 1e-9 for tau in self.taus):
            raise InputError(f"{self.name} needs three taus or more, decreasing, each 1 over a whole number.")
        if not 0 < self.at < self.T or self.T < 24:
            raise InputError(f"{self.name} needs 0 < at < T and T ≥ 24, but got {self.at} and {self.T}.")
        if min(self.beta, self.repelled, *self.betas, *self.steps) <= 0 or self.n**2 < 16 * max(self.betas):
            raise InputError(f"{self.name} needs positive β and τ, and n ≥ 4√β tokens for a ring.")

    def compute(self, shelf: Shelf) -> xarray.Dataset:
        import xarray

        start = tkf.Tokens.uniform_sphere(n=self.n, d=2, seed=self.seed)
        far, excess, gap = [], [], []
        flow = self._run(tkf.sa(self.beta, V=1.0), start)
        for tau in self.taus:
            near = self._run(tkf.sa(self.beta, V=1.0), start, tau)
            far.append(np.sqrt(np.mean(np.sum((np.asarray(near.x) - np.asarray(flow.x)) ** 2, axis=2), axis=1)))
        for tau in (*self.taus, 0.0):  # 0 for the flow
            excess.append(self._excess(self._run(tkf.sa(self.repelled, V=-1.0), start, tau), self.repelled))
            gap.append(np.asarray(self._run(tkf.sa(self.beta), tkf.Equiangular(rho=0.0, n=self.n), tau).log_gap))
        fate = [[self._fate(beta, tau, start) for tau in self.steps] for beta in self.betas]
        growth = [self._growth(beta) for beta in self.betas]
        return xarray.Dataset(
            {
                "distance": (("tau", "time"), np.array(far)),
                "excess": (("step", "time"), np.array(excess)),
                "log_gap": (("step", "time"), np.array(gap)),
                "fate": (("beta", "repelling"), np.array(fate)),
                "growth": (("beta",), np.array(growth)),
            },
            coords={"tau": list(self.taus), "step": [*self.taus, 0.0], "time": np.arange(self.T + 1.0)}
            | {"beta": list(self.betas), "repelling": list(self.steps)},
        )

    def _run(self, flow: tkf.Flow, start: Any, tau: float = 0.0) -> tkf.Trajectory[Any]:
        """States at whole times, by layers of length τ, or by the flow where τ is 0."""
        if tau == 0:
            return tkf.evolve(flow, start, t=float(self.T), save=self.T + 1, rtol=RTOL)
        return tkf.layers(flow, start, round(self.T / tau), step=tau, save=self.T + 1)

    def _excess(self, run: tkf.Trajectory[Any], beta: float) -> np.ndarray:
        """The energy of tokens over that of the uniform measure, I_0(β)/2β, less 1."""
        from scipy.special import ive

        return np.asarray(tkf.observe.energy(run, beta=beta, scaled=True)) / (ive(0, beta) / (2 * beta)) - 1

    def _fate(self, beta: float, tau: float, start: Any) -> float:
        """The largest excess energy among the last tenth of the states that many layers leave."""
        run = tkf.layers(tkf.sa(beta, V=-1.0), start, DEEP, step=tau, save=self.T + 1)
        return float(self._excess(run, beta)[-self.T // 10 :].max())

    def _growth(self, beta: float) -> float:
        """By what one layer of length 1 multiplies a small bump on a ring of tokens, of the degree that is the first to grow."""
        degree = _first(beta)
        ring = 2 * np.pi * np.arange(self.n) / self.n
        θ = ring + BUMP * np.sin(degree * ring)
        mu = tkf.Tokens(np.stack([np.cos(θ), np.sin(θ)], axis=1))
        x = np.asarray(tkf.layers(tkf.sa(beta, V=-1.0), mu, self.T, step=1.0, save=self.T + 1).x)[1]
        turned = np.angle((x[:, 0] + 1j * x[:, 1]) * np.exp(-1j * ring))
        return float(2 * np.mean(turned * np.sin(degree * ring)) / BUMP)

    def claims(self, data: xarray.Dataset) -> Iterator[Finding]:
        yield self._order(data.distance.sel(time=self.at).values)
        for tau in (*self.taus, 0.0):
            yield self._rate(data.log_gap.sel(step=tau).values, tau)
        share = np.array([[tau / critical_step(beta) for tau in self.steps] for beta in self.betas])
        clear = np.abs(share - 1) > 0.05
        wrong = ((data.fate.values < EVEN) != (share < 1)) & clear
        yield Finding(
            f"pairs (β, τ) whose fate is not that of τ < τ_c, of {int(clear.sum())}",
            predicted=0.0,
            measured=float(wrong.sum()),
            tolerance=0.0,
            because=f"A count is exact. Within 5% of τ_c, which is left out, {DEEP} layers change a bump by too little to be seen.",
        )
        for beta, growth in zip(self.betas, data.growth.values, strict=True):
            degree, short = _first(beta), 1 - _r(beta, 1)
            yield Finding(
                f"growth of a bump of degree {degree} in a layer of length 1, β = {beta:g}",
                predicted=_factor(beta, 1.0, degree),
                measured=float(growth),
                tolerance=float((1 + abs(growth)) * (degree * BUMP / short) ** 2 + 1e-10 / BUMP / short),
                because="The next term is of third order in l·1e-5/(1 - r_1); sums err by 1e-10, over the bump and 1 - r_1.",
                rival=1.0,
            )

    def _order(self, far: np.ndarray) -> Finding:
        slope = np.diff(np.log(far)) / np.diff(np.log(self.taus))
        turn = -np.diff(self.taus) / -np.diff(np.log(self.taus))  # of a term linear in τ, in each slope
        left = abs(slope[-2] - 1) * turn[-1] / turn[-2]
        return Finding(
            f"slope of the distance to the flow in τ, from τ = {self.taus[-2]:g} to {self.taus[-1]:g}",
            predicted=1.0,
            measured=float(slope[-1]),
            tolerance=float(2 * left + 1e3 * RTOL / far[-1]),
            because=f"The distance is Cτ(1 + cτ): of what the slope before this one is off, {left:.2g} is left; twice that.",
            rival=2.0,
        )

    def _rate(self, log_gap: np.ndarray, tau: float) -> Finding:
        t, y = np.arange(self.T + 1.0)[self.T // 2 :], -log_gap[self.T // 2 :]
        ε = float(np.exp(-y[0]))
        return Finding(
            f"rate at which 1 - ρ falls, {f'τ = {tau:g}' if tau else 'the flow'}",
            predicted=2 * np.log1p(tau) / tau if tau else 2.0,
            measured=float(np.polyfit(t, y, 1)[0]),
            tolerance=2 * (2 + self.beta) * ε + 1e3 * RTOL,
            because=f"(2+β)(1-ρ) of the rate, with 1 - ρ = {ε:.1g} where the fit begins; then the error of the flow.",
            rival=2.0 if tau else 1.0,
        )

    def draw(self, data: xarray.Dataset) -> matplotlib.figure.Figure:
        from tokenfield.figures.style import COLOURS, GREY, INK, sheet

        figure, axes = sheet(2, 2, height=4.7)
        far = data.distance.sel(time=self.at).values
        axes[0, 0].loglog(self.taus, far, "o-", color=INK)
        axes[0, 0].loglog(
            self.taus, 0.5 * far[-1] / self.taus[-1] * np.array(self.taus), ":", color=GREY, label="slope 1"
        )
        axes[0, 0].text(
            self.taus[-2], far[-2], f"last slope {self._order(far).measured:.2f}  ", ha="right", va="bottom"
        )
        axes[0, 0].set_title(f"distance to the flow at t = {self.at}, V = 1, β = {self.beta:g}")
        axes[0, 0].set_xlabel("step τ")
        axes[0, 0].legend(loc="lower right")
        for k, name in enumerate([*(f"τ = {tau:g}" for tau in self.taus), "flow"]):
            style: dict[str, Any] = {"color": COLOURS[k % 6]} if k < len(self.taus) else {"color": "k", "ls": ":"}
            axes[0, 1].plot(data.time, data.log_gap[k] / np.log(10), label=name, **style)
            axes[1, 0].semilogy(data.time, np.maximum(data.excess[k], 1e-16), label=name, **style)
        axes[0, 1].set_title(f"collapse of equiangular tokens, log₁₀(1 - ρ), β = {self.beta:g}")
        axes[0, 1].legend()
        axes[1, 0].set_title(f"tokens that repel, V = -1, β = {self.repelled:g}: E/E(uniform) - 1")
        axes[0, 1].set_xlabel("t")
        axes[1, 0].set_xlabel("t")
        self._plane(axes[1, 1], data)
        return figure

    def _plane(self, ax: matplotlib.axes.Axes, data: xarray.Dataset) -> None:
        from tokenfield.figures.style import BLUE, INK, RED

        β, τ = np.meshgrid(self.betas, self.steps, indexing="ij")
        even = data.fate.values < EVEN
        ax.plot(β[even], τ[even], "o", color=BLUE, ms=4, label="even")
        ax.plot(β[~even], τ[~even], "x", color=RED, ms=4, label="not even")
        fine = np.geomspace(min(self.betas), max(self.betas), 100)
        ax.plot(fine, [critical_step(beta) for beta in fine], color=INK, lw=1, label="$τ_c$")
        ax.set_xscale("log")
        ax.set_ylim(0.9 * min(self.steps), 1.25 * max(self.steps))
        ax.set_xticks(list(self.betas), [f"{beta:g}" for beta in self.betas])
        ax.minorticks_off()
        ax.set_xlabel("β")
        ax.set_ylabel("step τ")
        ax.set_title(f"V = -1: where {DEEP} layers spread tokens")
        ax.legend(loc="upper center", ncols=3)


def critical_step(beta: float) -> float:
    """τ_c, below which layers with V = -1 spread tokens on the circle."""
    return min(2 / (2 * _r(beta, 1) + degree**2 * _r(beta, degree) / beta) for degree in _degrees(beta))


def _first(beta: float) -> int:
    """The degree of the bump that is the first to grow with τ."""
    return max(_degrees(beta), key=lambda degree: degree**2 * _r(beta, degree))


def _degrees(beta: float) -> range:
    """Those among which the first to grow is; it is about √(2β)."""
    return range(1, 10 + int(3 * beta**0.5))


def _factor(beta: float, tau: float, degree: int) -> float:
    """g_l, by which a layer multiplies a bump of degree l."""
    return 1 - tau / (1 - tau * _r(beta, 1)) * degree**2 * _r(beta, degree) / beta


def _r(beta: float, degree: int) -> float:
    """r_l = I_l(β)/I_0(β)."""
    from scipy.special import ive

    return float(ive(degree, beta) / ive(0, beta))


FIGURE = DiscreteVsContinuous
