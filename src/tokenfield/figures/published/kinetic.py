"""Five tokens on the circle: three meetings come soon, and the last after a time that is two orders longer."""

from __future__ import annotations

import dataclasses
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

START = (
    (0.99806638, 0.06215705),
    (0.97712061, 0.21268594),
    (-0.24578194, 0.96932515),
    (-0.97354734, 0.2284854),
    (-0.99892629, -0.04632772),
)
TIGHT = 1e-3
"""Groups whose tokens are within this angle move like two tokens."""
REFINED = 40
"""How many more states are saved around a meeting."""


@dataclasses.dataclass(frozen=True)
class Kinetic(Figure):
    """Angles θ_i(t) of five tokens of SA on the circle, from the start of the source. Neighbours have met when they are within an
    angle that the eye can still see.

    Two groups of weights α and α' at an angle φ meet by φ̇ = -sin φ (α' e/(α + α' e) + α e/(α' + α e)), e = e^{β(cos φ - 1)}, which
    gives the time of the last meeting by quadrature.

    - `beta`: the inverse temperature.
    - `T`: the last time.
    - `near`: the angle within which neighbours have met.
    - `times`: how many are saved, in equal ratios; around meetings there are more.
    """

    name = "kinetic"
    source, number = "geshkovski2024", "the kinetic picture"
    shows = "Five tokens on the circle: three meetings come soon, the last two orders of magnitude later."
    remark = (
        "When tokens meet depends on what is called so. They approach like e^(-t), so that it takes them log(1/r) to be within a "
        "radius r; for r = 1e-5 the four times are 9.7, 11.0, 13.7 and 337, and the ratio of the last two 25. For the eye, within "
        "0.1 rad, they are 0.44, 1.3, 4.4 and 328, a ratio of 75: two orders of magnitude, but not a factor of 100."
    )
    small = {"times": 60}

    beta: float = 4.0
    T: float = 400.0
    near: float = 0.1
    times: int = 400

    def check(self) -> None:
        if not 10 * TIGHT <= self.near <= 0.15:
            raise InputError(
                f"kinetic: near must lie between {10 * TIGHT:g} and 0.15, below all angles at the start, but is {self.near:g}."
            )
        if self.T <= 1 or self.times < 10 or self.beta < 0:
            raise InputError("kinetic: T must exceed 1, times must be 10 or more, and beta must not be negative.")

    def compute(self, shelf: Shelf) -> xarray.Dataset:
        import xarray

        times = np.append(0.0, np.geomspace(1e-2, self.T, self.times))
        gaps = np.diff(self._angles(times), axis=1)
        first = [int(np.argmax(gap < self.near)) for gap in gaps.T if (gap < self.near).any()]
        more = [np.linspace(times[k - 1], times[k], REFINED) for k in first]
        times = np.unique(np.concatenate([times, *more]))
        angles = self._angles(times)
        met = [_falls(times, gap, self.near) for gap in np.diff(angles, axis=1).T]
        return xarray.Dataset(
            {"angle": (("time", "token"), angles), "meeting": (("neighbours",), met)}, coords={"time": times}
        )

    def _angles(self, times: np.ndarray) -> np.ndarray:
        run = tkf.evolve(tkf.sa(self.beta), tkf.Tokens(START), t=self.T, save=times, rtol=1e-8)
        x = np.asarray(run.x)
        θ = np.unwrap(np.arctan2(x[..., 1], x[..., 0]), axis=0)
        return θ + np.where(θ[0] < 0, 2 * np.pi, 0.0)  # the circle is cut where nobody is

    def claims(self, data: xarray.Dataset) -> Iterator[Finding]:
        met = np.sort(data.meeting.values[np.isfinite(data.meeting.values)])
        yield Finding("meetings", 4, len(met), 0, "Five tokens become one by four meetings; a count is exact.")
        if len(met) < 4:
            return
        yield Finding(
            "orders of magnitude in time from the third meeting to the last",
            2.0,
            np.log10(met[3] / met[2]),
            0.5,
            "Orders of magnitude are whole numbers, to which they are rounded.",
            rival=0.0,
        )
        law, error = self._law(data)
        yield Finding(
            "time of the last meeting",
            law,
            met[3],
            error,
            f"The equation of two groups, from where they are {TIGHT:g} wide, has a rate that errs by β times that, and "
            "so has its time; and the distance of saved states.",
            rival=met[2],
        )

    def _law(self, data: xarray.Dataset) -> tuple[float, float]:
        """When two groups meet by their own equation, and how far that may be off."""
        angle, met = data.angle.values, data.meeting.values
        cut = int(np.argmax(met)) + 1  # tokens before it are one group, the others the other
        wide = np.maximum(np.ptp(angle[:, :cut], axis=1), np.ptp(angle[:, cut:], axis=1))
        begun = int(np.argmax(wide < TIGHT))
        apart = angle[begun, cut:].mean() - angle[begun, :cut].mean()
        α, φ = cut / angle.shape[1], np.linspace(self.near, apart, 20_001)
        e = np.exp(self.beta * (np.cos(φ) - 1))
        slow = 1 / (np.sin(φ) * e * ((1 - α) / (α + (1 - α) * e) + α / (1 - α + α * e)))
        waited = float(np.trapezoid(slow, φ))
        saved = np.diff(data.time.values)[np.searchsorted(data.time.values, met.max()) - 1]
        return float(data.time[begun]) + waited, self.beta * TIGHT * waited + float(saved)

    def draw(self, data: xarray.Dataset) -> matplotlib.figure.Figure:
        from tokenfield.figures.style import COLOURS, COLUMN, GREY, INK, sheet

        figure, axes = sheet(width=COLUMN, height=2.6)
        ax = axes[0, 0]
        for k in range(data.sizes["token"]):
            ax.plot(data.time[1:], data.angle[1:, k], color=COLOURS[k], lw=1.5, solid_capstyle="butt")
        met = data.meeting.values
        for k in np.flatnonzero(np.isfinite(met)):
            pair = data.angle.isel(token=slice(k, k + 2)).interp(time=met[k])
            ax.plot(met[k], pair.mean(), "o", mfc="white", mec=INK, mew=0.9, ms=5.5, zorder=3)
            place = 1 if k > np.nanargmax(met) else 0 if k == np.nanargmax(met) else -1  # above, beside or below
            ax.annotate(
                f"{met[k]:.2g}" if met[k] < 10 else f"{met[k]:.0f}",
                (met[k], pair.mean()),
                (0 if place else -6, 6 * place),
                textcoords="offset points",
                ha="center" if place else "right",
                va=("center", "bottom", "top")[place],
                fontsize=7,
            )
        last = np.sort(met[np.isfinite(met)])[-2:]
        if len(last) == 2:
            y = float(data.angle.mean("token")[-1]) - 0.7
            ax.annotate("", (last[1], y), (last[0], y), arrowprops={"arrowstyle": "<->", "color": GREY, "lw": 0.8})
            ax.text(
                np.sqrt(last[0] * last[1]), y + 0.06, f"× {last[1] / last[0]:.0f}", ha="center", color=GREY, fontsize=7
            )
        ax.set_xscale("log")
        ax.set_xlim(float(data.time[1]), self.T)
        ax.set_yticks([0, np.pi / 2, np.pi], ["0", "π/2", "π"])
        ax.set_ylim(-0.35, np.pi + 0.55)
        ax.set_xlabel("t")
        ax.set_ylabel("angle of each token")
        ax.set_title(f"SA, β = {self.beta:g}; circles: neighbours within {self.near:g} rad")
        return figure


def _falls(times: np.ndarray, values: np.ndarray, level: float) -> float:
    """When values, which are saved often, first fall below a level; NaN where they never do."""
    k = int(np.argmax(values < level))
    return float(np.interp(-level, -values[k - 1 : k + 1], times[k - 1 : k + 1])) if values[k] < level else np.nan


FIGURE = Kinetic
