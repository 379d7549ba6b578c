"""Equiangular tokens under every normalization: how fast they collapse, on the scale on which each law is a straight line."""

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

LAWS = {
    "Post-LN": ("t", 2.0),
    "nGPT": ("t", 2.0),
    "Pre-LN": ("log t", 2.0),
    "Peri-LN": ("log t", 2.0),
    "Mix-LN": ("log t", 2.0),
    "sqrt": ("√t", 4.0),
}
"""1 - ρ ~ exp(-slope·clock), by scheme; nGPT with its step α = 1."""
CLOCKS = {"t": lambda t: t, "log t": np.log, "√t": np.sqrt}
RTOL = 1e-9


@dataclasses.dataclass(frozen=True)
class EquiangularRates(Figure):
    """The cosine ρ(t) of n tokens, every two at one angle, that start orthogonal, under softmax attention and every scheme:
    ρ̇ = 2(b - ρc)/s with the speed s of the scheme; and the slope of -log(1 - ρ) against t, log t or √t at late times.

    - `n`, `beta`: how many tokens, and the inverse temperature.
    - `tau`: when Mix-LN changes from Post-LN to Pre-LN.
    - `exponential`, `root`, `power`: the last time of schemes whose law is one of t, √t and log t.
    - `late`: slopes are fitted from this share of the last time on.
    - `times`: how many are drawn of each scheme.
    """

    name = "equiangular-rates"
    source, number = "rigollet2025", "sections 6.1 and 6.2"
    shows = (
        "Equiangular tokens collapse like e^(-2t) under Post-LN, 1/t² where lengths grow, e^(-4√t) under sqrt-scaling."
    )
    remark = (
        "The laws of the source are those of late times, and how late differs: next to 1/t² stands t/r, with r = t - D the length "
        "of a token and D what it failed to grow by before the collapse, so that the slope is off by 2D/t; next to e^(-4√t) stands "
        "4√(t+1), off by 2/t. Both are in the tolerances, and nothing else is needed. That Mix-LN follows Pre-LN in its rate, "
        "not in its constant, is seen here: it has collapsed before it changes over."
    )
    small = {"times": 80}

    n: int = 256
    beta: float = 5.0
    tau: float = 10.0
    exponential: float = 60.0
    root: float = 1000.0
    power: float = 1e5
    late: float = 0.25
    times: int = 400

    def check(self) -> None:
        if self.n < 2 or self.times < 20:
            raise InputError(f"{self.name} needs n ≥ 2 and times ≥ 20, but got {self.n} and {self.times}.")
        if min(self.exponential, self.root, self.power) <= 1 or not 0 < self.late < 1:
            raise InputError(f"{self.name} needs last times beyond 1, and `late` between 0 and 1.")
        if not 0 <= self.tau < self.late * self.power:
            raise InputError(f"{self.name} needs Mix-LN to change before slopes are fitted: tau < late·power.")

    def compute(self, shelf: Shelf) -> xarray.Dataset:
        import xarray

        start, attention = tkf.Equiangular(rho=0.0, n=self.n), tkf.Softmax(self.beta)
        schemes = (tkf.PostLN(), tkf.NGPT(1.0), tkf.PreLN(), tkf.PeriLN(), tkf.MixLN(self.tau), tkf.SqrtScaling())
        ends = {"t": self.exponential, "√t": self.root, "log t": self.power}
        found: dict[str, list[Any]] = {"t": [], "log_gap": [], "r": [], "steps": []}
        for scheme, (clock, _) in zip(schemes, LAWS.values(), strict=True):
            t = np.geomspace(1e-2, ends[clock], self.times)
            run = tkf.evolve(tkf.Flow(attention, scheme), start, t=t[-1], save=np.append(0.0, t), rtol=RTOL)
            found["t"].append(np.asarray(run.times))
            found["log_gap"].append(np.asarray(run.log_gap))
            found["r"].append(np.asarray(run.r))
            found["steps"].append(int(run.accepted))
        curve = ("scheme", "time")
        return xarray.Dataset(
            {name: (curve if name != "steps" else ("scheme",), np.array(value)) for name, value in found.items()},
            coords={"scheme": list(LAWS)},
        )

    def claims(self, data: xarray.Dataset) -> Iterator[Finding]:
        for scheme, (clock, slope) in LAWS.items():
            one = data.sel(scheme=scheme)
            t, x, y = self._late(one, clock)
            ε, steps = float(np.exp(-y[0])), int(one.steps)
            # Near the collapse d log(1-ρ)/dt is -2/r, or -2/√(t+1); what that is in the clock of the law, less the law's slope:
            gone = {"t": 0.0, "log t": 2 * abs(t / one.r.values[-len(t) :] - 1).max(), "√t": 4 / (2 * t[0])}[clock]
            solver = 3 * steps * RTOL * y[-1] / np.ptp(x)
            yield Finding(
                f"slope of -log(1-ρ) against {clock}, {scheme}",
                predicted=slope,
                measured=float(np.polyfit(x, y, 1)[0]),
                tolerance=float(gone + slope * (2 + self.beta) * ε + solver),
                because=(
                    f"A least-squares slope is an average of slopes in the window, of which each is off by the law's next term, "
                    f"{gone:.1g}, and by (2+β)(1-ρ) ≤ {(2 + self.beta) * ε:.1g} of itself; rtol for each of {steps} steps adds "
                    f"{solver:.1g}."
                ),
                rival=slope / 2,
            )

    def _late(self, one: xarray.Dataset, clock: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Late times, in the clock of the law, and -log(1-ρ) there."""
        t = one.t.values
        late = t >= self.late * t[-1]
        return t[late], CLOCKS[clock](t[late]), -one.log_gap.values[late]

    def draw(self, data: xarray.Dataset) -> matplotlib.figure.Figure:
        from tokenfield.figures.style import COLOURS, sheet

        figure, axes = sheet(2, 2, height=4.6)
        colours = dict(zip(LAWS, COLOURS, strict=True))
        for scheme, (clock, slope) in LAWS.items():
            one = data.sel(scheme=scheme)
            style = {"color": colours[scheme], "ls": (0, (4, 1.5)) if scheme in ("Peri-LN", "Mix-LN") else "-"}
            axes[0, 0].plot(one.t[1:], 1 - np.exp(one.log_gap[1:]), label=scheme, **style)
            ax = axes[0, 1] if clock == "t" else axes[1, 0] if clock == "log t" else axes[1, 1]
            _, x, y = self._late(one, clock)
            fitted = np.polyfit(x, y, 1)[0]
            ax.plot(
                _across(one.t.values[1:], clock),
                one.log_gap[1:] / np.log(10),
                label=_told(scheme, clock, fitted),
                **style,
            )
            law = -(y[-1] + slope * (x - x[-1])) / np.log(10)
            ax.plot(_across(one.t.values[-len(x) :], clock), law, color="k", ls=":", lw=1)
        self._finish(axes)
        return figure

    def _finish(self, axes: np.ndarray) -> None:
        axes[0, 0].set_xscale("log")
        axes[0, 0].set_xlim(0.1, 100.0)
        axes[1, 0].set_xscale("log")
        axes[1, 0].set_xlim(0.1, self.power)
        for ax, label, title in zip(
            axes.flat,
            ("t", "t", "t", "√t"),
            (
                f"n = {self.n}, β = {self.beta:g}, from ρ = 0",
                "exponential (dotted: the law)",
                "lengths grow: a power of t",
                "in between",
            ),
            strict=True,
        ):
            ax.set_xlabel(label)
            ax.set_ylabel("log₁₀(1 - ρ)")
            ax.set_title(title)
            ax.legend(loc="lower left")
        axes[0, 0].set_ylabel("cosine ρ")
        axes[0, 0].legend(loc="lower right", bbox_to_anchor=(1.0, 0.02))


def _across(t: np.ndarray, clock: str) -> np.ndarray:
    """Where a time is drawn."""
    return np.sqrt(t) if clock == "√t" else t


def _told(scheme: str, clock: str, slope: float) -> str:
    """The law with the slope that was fitted."""
    law = {
        "t": f"$e^{{-{slope:.3f}\\,t}}$",
        "log t": f"$t^{{-{slope:.3f}}}$",
        "√t": f"$e^{{-{slope:.3f}\\sqrt{{t}}}}$",
    }[clock]
    return f"{scheme}: {law}"


FIGURE = EquiangularRates
