"""The same covariances under softmax, two heads, L2 and Sinkhorn attention: two of these become infinite in finite time."""

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

E11, E22, I, NONE = np.diag([1.0, 0.0]), np.diag([0.0, 1.0]), np.eye(2), np.zeros((2, 2))
VARIANTS = ("softmax", "two heads", "L2", "Sinkhorn", "L2, thin keys")


@dataclasses.dataclass(frozen=True)
class GaussianVariants(Figure):
    """Σ/tr Σ as a point (a - b, 2c)/(a + b) of the disc, whose rim is rank one, and tr Σ over time, from covariances of trace 1.

    - Softmax, V = I and A = KᵀQ with Q = I: infinite at t* = 1/λ_max(Σ₀^½(A + Aᵀ)Σ₀^½).
    - Two heads, V = e₁e₁ᵀ, A = e₂e₂ᵀ, and 1 and 2 exchanged. With y = 2c and z = tr Σ, ẏ = yz and ż = y²: infinite at t* =
      artanh(k)/k, k² = 1 - y₀².
    - L2 with the same Q, K and V: tr Σ ≤ e^(2bt), b = ‖(KᵀK)⁻¹‖‖KᵀQ‖.
    - Sinkhorn with the same Q, K and V: tr Σ ≤ e^(2t), since Σ̇ = C + Cᵀ with a covariance C of two vectors that both have Σ.
    - L2 with one key y₁ and one query x₂ that move x₂ alone: infinite at t* = (1/2 + a₀)/c₀ where c₀ > 0.

    - `rings`: starts are rings of 6, 12, ... covariances around I/2; `radius`: that of the last in the disc.
    - `K`: the keys, row by row.
    - `T`: the last time; `times`: how many are drawn, in equal steps.
    """

    name = "gaussian-variants"
    source, number = "castin2025", "comparing attention variants"
    shows = "Softmax attention and two heads make a Gaussian infinite in finite time, L2 and Sinkhorn attention do not."
    small = {"rings": 1, "times": 100}
    remark = (
        "The source says that L2 attention does not blow up. It needs K to have no kernel: with one key of two (dashed) it does. "
        "Two heads can become infinite where neither would alone: each of these keeps a variance and lets the other grow "
        "exponentially. From c₀ = 0 they rest. Covariances that blow up end with rank one. L2 attention turns Σ towards one line "
        "as it grows; Sinkhorn attention, once Σ is large, stretches all directions alike, and keeps a shape of rank two."
    )

    rings: int = 3
    radius: float = 0.9
    K: tuple[float, ...] = (1.0, 0.3, 0.1, 0.6)
    T: float = 4.0
    times: int = 600

    def check(self) -> None:
        if len(self.K) != 4 or abs(np.linalg.det(self.keys)) < 1e-9:
            raise InputError("gaussian-variants: K must have four entries and an inverse.")
        if np.linalg.eigvalsh(self.keys + self.keys.T).min() <= 0:
            raise InputError("gaussian-variants: K + Kᵀ must be positive definite, so that softmax attention blows up.")
        if self.rings < 1 or not 0 < self.radius < 1 or self.T <= 0 or self.times < 2:
            raise InputError(
                "gaussian-variants: `rings` and `T` must be positive, 0 < radius < 1 and `times` at least 2."
            )

    @property
    def keys(self) -> np.ndarray:
        return np.reshape(self.K, (2, 2))

    def starts(self) -> np.ndarray:
        """Points (a - b, 2c) of covariances of trace one; none with c = 0."""
        rings = [np.arange(6 * k) * np.pi / (3 * k) + 0.2 / k for k in range(1, self.rings + 1)]
        size = self.radius / self.rings
        return np.concatenate([size * k * np.stack([np.cos(φ), np.sin(φ)], axis=1) for k, φ in enumerate(rings, 1)])

    def compute(self, shelf: Shelf) -> xarray.Dataset:
        import xarray

        softmax = lambda *heads: tkf.Flow(tkf.MultiHead([tkf.Softmax(A=A, V=V) for V, A in heads]))
        sharp = {"Q": I, "K": self.keys, "V": I}
        kinds = {
            "heads": [softmax((I, self.keys.T), (NONE, NONE)), softmax((E11, E22), (E22, E11))],  # zeros add nothing
            "sinkhorn": [tkf.Flow(tkf.Sinkhorn(**sharp))],
            "l2": [tkf.Flow(tkf.L2(**sharp)), tkf.Flow(tkf.L2(Q=[[0.0, 1.0], [0.0, 0.0]], K=E11, V=E22))],
        }
        parts = [shelf(name, lambda flows=flows: self._runs(flows)) for name, flows in kinds.items()]
        order = ["softmax", "two heads", "Sinkhorn", "L2", "L2, thin keys"]
        data = xarray.concat(parts, dim="variant").assign_coords(variant=order).sel(variant=list(VARIANTS))
        return data.assign(expected=(("variant", "start"), self.expected()))

    def _runs(self, flows: list[tkf.Flow]) -> xarray.Dataset:
        import warnings

        import xarray

        starts = [tkf.Gaussian(np.zeros(2), [[(1 + x) / 2, y / 2], [y / 2, (1 - x) / 2]]) for x, y in self.starts()]
        times = np.linspace(0.0, self.T, self.times)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tkf.errors.UnfinishedWarning)  # blow-up is what is looked for
            run = tkf.evolve(flows, starts, t=self.T, save=times)
        ended = np.asarray(run.reached, float)
        blown = np.asarray(run.code) == int(tkf.Status.BLOW_UP)
        cone = np.asarray(run.states.cone, float)
        cone = np.where((times < ended[..., None])[..., None] | ~blown[..., None, None], cone, np.nan)
        return xarray.Dataset(
            {
                "point": (("variant", "start", "time", "coordinate"), cone),
                "last": (("variant", "start", "coordinate"), np.asarray(run.final.cone, float)),
                "blow_up": (("variant", "start"), np.where(blown, ended, np.inf)),
                "steps": (("variant", "start"), np.asarray(run.accepted)),
            },
            coords={"time": times, "coordinate": ["a - b", "2c", "a + b"]},
            attrs={"rtol": run.provenance.rtol},
        )

    def expected(self) -> np.ndarray:
        """When covariances become infinite, of every variant and start."""
        x, y = self.starts().T
        softmax = tkf.Flow(tkf.Softmax(A=self.keys.T))
        start = lambda x, y: tkf.Gaussian([0.0, 0.0], [[(1 + x) / 2, y / 2], [y / 2, (1 - x) / 2]])
        one = np.array([tkf.theory.closed_form(softmax, start(*xy)).blow_up_time for xy in zip(x, y, strict=True)])
        k = np.sqrt(1 - y**2)
        thin = np.where(y > 0, (2 + x) / np.where(y > 0, y, 1.0), np.inf)
        found = np.stack([one, np.arctanh(k) / k, np.inf + 0 * x, np.inf + 0 * x, thin])
        return np.where(found < self.T, found, np.inf)

    def claims(self, data: xarray.Dataset) -> Iterator[Finding]:
        x, y = self.starts().T
        step = 2 * float(data.steps.max()) * data.attrs["rtol"]
        for name in VARIANTS:
            one = data.sel(variant=name)
            t, star = one.blow_up.values, one.expected.values
            live = np.isfinite(star)
            yield Finding(
                f"starts of {len(t)} that become infinite by t = {self.T:g}, {name}",
                int(live.sum()),
                int(np.isfinite(t).sum()),
                0.0,
                "A count; whether a run came to its end is known.",
            )
            if live.any() and np.isfinite(t[live]).all():
                stretch = float(np.max(1 / np.minimum(1 - np.hypot(x, y), abs(y))[live]))
                yield Finding(
                    f"largest difference of t* from its closed form, {name}",
                    0.0,
                    float(np.max(abs(t[live] - star[live]))),
                    step * stretch * float(star[live].max()),
                    "Steps err by rtol each in a root of Σ, which moves t* by twice that, times the condition of Σ₀ and the share "
                    f"of c₀ in it, at most {stretch:.3g}.",
                    rival=float(star[live].max()),
                )
        yield from self._bounds(data)

    def _bounds(self, data: xarray.Dataset) -> Iterator[Finding]:
        """That what never blows up grows no faster than its exponential."""
        KK, size = self.keys.T @ self.keys, lambda matrix: float(np.linalg.norm(matrix, 2))
        for name, b in {"L2": size(np.linalg.inv(KK)) * size(self.keys), "Sinkhorn": 1.0}.items():
            one, t = data.sel(variant=name), data.time.values[1:]
            used = np.log(one.point.values[:, 1:, 2]) / (2 * b * t)
            err = float(2 * one.steps.max() * data.attrs["rtol"] / (2 * b * t[0]))
            because = "Steps err by rtol each in a root of Σ, and so does log tr Σ by twice that, over 2bt."
            yield Finding(f"log tr Σ / 2bt, b = {b:.3g}, {name}", 1.0, float(used.max()), err, because, relation="≤")

    def draw(self, data: xarray.Dataset) -> matplotlib.figure.Figure:
        from tokenfield.figures.style import BLUE, GREEN, PAGE, RED, YELLOW, sheet

        figure, axes = sheet(2, 4, width=PAGE, height=4.3, gridspec_kw={"height_ratios": [1.15, 1]})
        colours: dict[str, str] = dict(zip(VARIANTS, (BLUE, RED, GREEN, YELLOW, GREEN), strict=True))
        for ax, name in zip(axes[0], VARIANTS, strict=False):
            _disc(ax, data.sel(variant=name), colours[name])
            ax.set_title(name)
        grid = axes[1, 0].get_gridspec()
        for ax in axes[1]:
            ax.remove()
        _growth(figure.add_subplot(grid[1, :]), data, colours)
        return figure


def _disc(ax: Any, data: xarray.Dataset, colour: str) -> None:
    """Paths of Σ/tr Σ, from dots on; strokes around the rim are the lines that its covariances live on."""
    from tokenfield.figures.style import FAINT, GREY, INK

    φ = np.linspace(0, 2 * np.pi, 200)
    ax.fill(np.cos(φ), np.sin(φ), facecolor="#f4f6f9", edgecolor=GREY, lw=0.7)
    for angle in np.arange(8) * np.pi / 4:
        middle, way = (
            1.17 * np.array([np.cos(angle), np.sin(angle)]),
            0.09 * np.array([np.cos(angle / 2), np.sin(angle / 2)]),
        )
        ax.plot(*np.stack([middle - way, middle + way], axis=1), color=FAINT, lw=1.6, solid_capstyle="round")
    for path, last in zip(data.point.values, data.last.values, strict=True):
        path = np.concatenate([path[np.isfinite(path[:, 2])], last[None]])
        ax.plot(*(path[:, :2] / path[:, 2:]).T, color=colour, lw=0.9)
        ax.plot(*(last[:2] / last[2]), "o", ms=3, mew=0.3, mec="white", color=colour)
    start = data.point.values[:, 0]
    ax.plot(start[:, 0], start[:, 1], "o", ms=1.8, mew=0, color=INK)
    star = data.blow_up.values
    some = star[np.isfinite(star)]
    words = f"t* = {some.min():.2f} to {some.max():.2f}" if some.size else "never infinite"
    words += f", {some.size} of {star.size}" if 0 < some.size < star.size else ""
    ax.text(0, -1.36, words, ha="center", va="top", fontsize=7.5, color=INK)
    ax.set(aspect="equal", xlim=(-1.3, 1.3), ylim=(-1.62, 1.3))
    ax.axis("off")


def _growth(ax: Any, data: xarray.Dataset, colours: dict[str, str]) -> None:
    """tr Σ over time of the start with the largest c, with the times at which it is infinite."""
    from tokenfield.figures.style import FAINT

    bold, times = int(data.point.values[0, :, 0, 1].argmax()), data.time.values
    for name in VARIANTS:
        one = data.sel(variant=name).isel(start=bold)
        star, z = float(one.blow_up), one.point.values[:, 2]
        t, z = (
            np.append(line[np.isfinite(z)], end)
            for line, end in ((times, min(star, times[-1])), (z, one.last.values[2]))
        )
        ax.semilogy(t, z, "--" if "thin" in name else "-", color=colours[name], lw=1.5)
        if np.isfinite(star):
            ax.axvline(star, color=FAINT, lw=0.7, zorder=0)
            ax.text(star, 6e4, f" {name}\n t* = {star:.3f}", color=colours[name], fontsize=7, va="top")
        else:
            low = "top" if name == "L2" else "bottom"
            ax.text(times[-1], z[-1], f" {name}", color=colours[name], fontsize=7, va=low)
    ax.set(ylim=(0.6, 1e5), xlim=(0, times[-1]), xlabel="t", ylabel="tr Σ")


FIGURE = GaussianVariants
