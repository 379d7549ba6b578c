"""Attention over a long context: three regimes of β = γ log n, in one layer and in many."""

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


@dataclasses.dataclass(frozen=True)
class LongContext(Figure):
    """The cosine of two outputs ATT(x_i) = Σ_j A_ij x_j, A the softmax of γ log(n) <x_i, x_j>, of n tokens at the common cosine
    ρ, against γ(1-ρ); and the same when the directions of outputs enter the next layer, and so on. With η = n^(1-γ(1-ρ)), the
    attention that all others have in units of a token's own, 1 - cosine = (1-ρ)/(1 + 2ρη + ρη²) up to O(1/n).

    - `rho`: cosines of the tokens.
    - `n`: lengths of the context, in increasing order; the last is that of iterated layers.
    - `gammas`: how many γ, equally spaced up to 2/(1-ρ); an even number, so that the critical 1/(1-ρ) is one of them.
    - `depths`: numbers of layers, in increasing order; the first is 1.
    """

    name = "long-context"
    source, number = "rigollet2025", "Theorem 7"
    shows = "At β = γ log n one layer collapses tokens below γ = 1/(1-ρ) and keeps them above; many layers move this border up."
    remark = (
        "The source says that one layer determines what many do. At fixed n they do more. The critical value 4ρ/(1+3ρ) is that of "
        "one layer only: its outputs are closer than ρ, so that the same γ is below critical for them, and the second layer "
        "collapses them. And above 1/(1-ρ) a layer is the identity but for a step 2ρ(1-ρ)η, by which k layers collapse "
        "tokens for all γ with γ(1-ρ) < 1 + log(k·2ργ(1-ρ) log n)/log n: the border moves with log k/log n, and only k "
        "beyond a power of n reach a γ that is larger by a constant."
    )
    small = {"gammas": 40, "depths": (1, 2, 64)}

    rho: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7)
    n: tuple[float, ...] = (1e2, 1e3, 1e4, 1e5, 1e6)
    gammas: int = 200
    depths: tuple[int, ...] = (1, 2, 4, 16, 64, 256)

    def check(self) -> None:
        if not all(0 < rho < 1 for rho in self.rho):
            raise InputError(f"{self.name} needs cosines between 0 and 1, but got {self.rho}.")
        if self.gammas < 8 or self.gammas % 4:
            raise InputError(f"{self.name} needs a number of γ that is a multiple of four, but got {self.gammas}.")
        if any(count != int(count) for count in self.n) or min(self.n) < 2 or list(self.n) != sorted(set(self.n)):
            raise InputError(f"{self.name} needs whole numbers n ≥ 2 in increasing order, but got {self.n}.")
        if self.depths[0] != 1 or list(self.depths) != sorted(set(self.depths)):
            raise InputError(f"{self.name} needs depths in increasing order from 1, but got {self.depths}.")

    def compute(self, shelf: Shelf) -> xarray.Dataset:
        import jax
        import xarray

        share = 2 * np.arange(1, self.gammas + 1) / self.gammas
        grid = np.meshgrid(self.rho, self.n, share, indexing="ij")
        rho, n, s = (part.ravel() for part in grid)
        log_gap = jax.jit(jax.vmap(self._outputs))(n, rho, s / (1 - rho))
        shape = (len(self.rho), len(self.n), len(share), len(self.depths))
        return xarray.Dataset(
            {"cosine": (("rho", "n", "share", "depth"), -np.expm1(np.asarray(log_gap).reshape(shape)))},
            coords={"rho": list(self.rho), "n": list(self.n), "share": share, "depth": list(self.depths)},
        )

    def _outputs(self, n: Any, rho: Any, gamma: Any) -> Any:
        """log(1 - cosine) after each of the depths."""
        import jax
        import jax.numpy as jnp

        attention = tkf.Softmax(gamma * jnp.log(n))

        def layer(log_gap: Any, _: None) -> tuple[Any, Any]:
            outputs = tkf.theory.output(attention, tkf.Equiangular(log_gap=log_gap, n=n)).log_gap
            return outputs, outputs

        kept = np.array(self.depths) - 1
        return jax.lax.scan(layer, jnp.log1p(-rho), None, length=self.depths[-1])[1][kept]

    def claims(self, data: xarray.Dataset) -> Iterator[Finding]:
        n = self.n[-1]
        for rho in self.rho:
            one = data.cosine.sel(rho=rho, n=n)
            yield from self._one_layer(one, rho, n)
            if 2 in self.depths:
                yield self._second_layer(one, rho, n)
            if max(self.depths) >= 64:
                yield self._border(one, rho, n)

    def _one_layer(self, cosine: xarray.DataArray, rho: float, n: float) -> Iterator[Finding]:
        critical = 4 * rho / (1 + 3 * rho)
        η = n**0.5  # at γ(1-ρ) = 1/2, and 1/η at 3/2
        below, above = (1 - rho) / (rho * η**2), 2 * rho * (1 - rho) / η
        for share, limit, next_term, because, rival in (
            (0.5, 1.0, 2 * below, f"Twice the next term, (1-ρ)/(ρη²) = {below:.1g}, η = n^(1/2).", rho),
            (
                1.0,
                critical,
                0.0,
                "1 - cosine is off by factors (1-1/n)² and, in its denominator, (1+3ρ)(1 ± 2/n): 5/n at most.",
                rho,
            ),
            (1.5, rho, 2 * above, f"Twice the next term, 2ρ(1-ρ)η = {above:.1g}, η = n^(-1/2).", critical),
        ):
            yield Finding(
                f"cosine after one layer, ρ = {rho:g}, γ(1-ρ) = {share:g}, n = {n:g}",
                predicted=limit,
                measured=float(cosine.sel(share=share, depth=1)),
                tolerance=next_term + 5 / n,
                because=because,
                rival=rival,
            )

    def _second_layer(self, cosine: xarray.DataArray, rho: float, n: float) -> Finding:
        first = 4 * rho / (1 + 3 * rho)
        η = n ** (1 - (1 - first) / (1 - rho))
        left = (1 - first) / (first * η**2)
        return Finding(
            f"cosine after the second layer at the critical γ, ρ = {rho:g}",
            predicted=1.0,
            measured=float(cosine.sel(share=1.0, depth=2)),
            tolerance=2 * left + 5 / n,
            because=f"Outputs of the first, ρ' = 4ρ/(1+3ρ), are subcritical, η = {η:.1f}: twice the next term (1-ρ')/(ρ'η²).",
            rival=first,
        )

    def _border(self, cosine: xarray.DataArray, rho: float, n: float) -> Finding:
        depth = self.depths[-1]
        half = cosine.share.values[cosine.sel(depth=depth).values > (1 + rho) / 2].max()
        border, c = self.border(rho, n, depth), self.border(rho, n, depth) / (1 - rho) * np.log(n)
        g = rho * (1 - rho)
        first, second = abs(1 - 2 * rho) / g / c, (2 * ((1 - 2 * rho) / g) ** 2 + 2 / g) / c**2
        relative = 2 * (first + second + np.log(depth) / depth)
        return Finding(
            f"border γ(1-ρ) of collapse after {depth} layers, ρ = {rho:g}",
            predicted=border,
            measured=float(half),
            tolerance=float(relative / np.log(n) + 2 / self.gammas),
            because=(
                "k = ∫dρ/(2ρ(1-ρ)η), which is taken at its lower end: twice the next two terms of that expansion, and log k "
                "layers for a sum that is an integral, over log n; then the spacing of the grid of γ."
            ),
            rival=1.0,
        )

    @staticmethod
    def border(rho: float, n: float, depth: int) -> float:
        """s = γ(1-ρ) below which so many layers collapse tokens: s = 1 + log(k·2ρ s log n)/log n."""
        s = 1.0
        for _ in range(100):
            s = 1 + np.log(depth * 2 * rho * s * np.log(n)) / np.log(n)
        return float(s)

    def draw(self, data: xarray.Dataset) -> matplotlib.figure.Figure:
        from tokenfield.figures.style import INK, RED, shades, sheet

        columns = len(self.rho)
        figure, axes = sheet(2, columns, height=3.9, sharey=True, sharex=True)
        for j, rho in enumerate(self.rho):
            one = data.cosine.sel(rho=rho)
            for colour, n in zip(shades(len(self.n)), self.n, strict=True):
                axes[0, j].plot(data.share, one.sel(n=n, depth=1), color=colour, label=_power(n))
            for colour, depth in zip(shades(len(self.depths)), self.depths, strict=True):
                axes[1, j].plot(data.share, one.sel(n=self.n[-1], depth=depth), color=colour, label=f"{depth}")
            axes[0, j].plot([0, 1], [1, 1], color=INK, ls=":", lw=1)
            axes[0, j].plot([1, 2], [rho, rho], color=INK, ls=":", lw=1)
            axes[0, j].plot(1, 4 * rho / (1 + 3 * rho), "o", color=RED, ms=4.5, zorder=5)
            axes[0, j].set_title(f"ρ = {rho:g}")
            axes[1, j].axvline(self.border(rho, self.n[-1], self.depths[-1]), color=RED, ls=":", lw=1)
            axes[1, j].set_xlabel("γ (1 - ρ)")
        axes[0, 0].set_ylabel("cosine after one layer")
        axes[1, 0].set_ylabel(f"after k layers, n = {_power(self.n[-1])}")
        axes[0, 0].set_ylim(0, 1.03)
        axes[0, 0].text(1.1, 4 * self.rho[0] / (1 + 3 * self.rho[0]), "4ρ/(1+3ρ)", color=RED, va="bottom", fontsize=7)
        note = f"red: predicted\nfor k = {self.depths[-1]}"
        there = axes[1, max(0, columns - 2)]
        there.text(0.06, 0.05, note, color=RED, fontsize=7, transform=there.transAxes)
        axes[0, 0].set_xticks([0, 1, 2])
        axes[0, -1].legend(title="n", loc="lower left")
        axes[1, -1].legend(title="k", loc="lower left")
        return figure


def _power(n: float) -> str:
    """10⁶ for a million."""
    power = np.log10(n)
    return f"$10^{{{power:.0f}}}$" if abs(power - round(power)) < 1e-9 else f"{n:g}"


FIGURE = LongContext
