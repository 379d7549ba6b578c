"""Five tokens on the circle at large β: the energy climbs a staircase, one step a merger."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import tokenfield as tkf
from tokenfield.errors import InputError
from tokenfield.figures.base import Figure, Shelf
from tokenfield.theory.base import Finding

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray

UNIT = 0.5 * np.log(2000) / np.sqrt(2000)


@dataclasses.dataclass(frozen=True)
class Staircase(Figure):
    """The energy 2β e^{-β} E_β(μ) = Σ_{ij} w_i w_j e^{-β(1 - <x_i, x_j>)}, which is 1 when all tokens have met, along USA from the
    start of the source, θ_i = ½ a_i ln 2000/√2000.

    The flow is solved in the time of the pair that is closest at present, dt = e^{β(1 - c(s))} ds with c(s) = max_{i≠j} <x_i, x_j>
    [rigollet2025, theorem 6]: ẋ_i = Σ_j w_j e^{β(<x_i, x_j> - c(s))} P x_j. Tokens that come within a radius become one.

    - `betas`: inverse temperatures.
    - `angles`: a_1, ..., a_n.
    - `radius`: within which tokens are one.
    - `span`: the last s.
    - `times`: how many are saved, equally spaced in s.
    """

    name = "staircase"
    source, number = "rigollet2025", "Figure 2"
    shows = "At large β the energy climbs a staircase: it rests, and jumps when the two closest clusters merge."
    remark = (
        "Theorem 6 rescales time by the inner product that the closest pair has at the start. In that time a pair meets within the "
        "order of 1/β, and later pairs never do; it takes the present inner product for every step to be seen at every β. How long "
        "a step then is in s depends on the radius at which tokens are taken to have met, by log(1/radius); when it comes in t "
        "does not: at log t = βg, g = 1 - c of the pair. At β = 500 pairs overlap in time, and no level but the last is claimed."
    )
    small = {"betas": (1000.0, 4000.0), "times": 300}

    betas: tuple[float, ...] = (500.0, 1000.0, 1500.0, 2000.0, 3000.0, 4000.0)
    angles: tuple[float, ...] = (0.0, 0.5, 2.0, 4.0, 7.0)
    radius: float = 1e-4
    span: float = 64.0
    times: int = 1600

    def check(self) -> None:
        if min(self.betas) <= 0:
            raise InputError(f"staircase: betas must be positive, but one is {min(self.betas):g}.")
        if len(set(self.angles)) < max(3, len(self.angles)) or np.ptp(self.angles) * UNIT >= np.pi:
            raise InputError("staircase: angles must be three or more, all different, on less than half of the circle.")
        if not 0 < self.radius < 0.1 * UNIT * min(np.diff(np.sort(self.angles))):
            raise InputError(f"staircase: radius must be less than a tenth of all distances, but is {self.radius:g}.")

    def compute(self, shelf: Shelf) -> xarray.Dataset:
        import xarray

        parts = [shelf(f"beta {β:g}", functools.partial(self._climb, β)) for β in self.betas]
        return xarray.concat(parts, xarray.DataArray(list(self.betas), dims="beta", name="beta"))

    def _climb(self, β: float) -> xarray.Dataset:
        import xarray

        θ = UNIT * np.array(self.angles)
        start, s = tkf.Tokens(np.stack([np.cos(θ), np.sin(θ)], axis=1)), np.linspace(0, self.span, self.times)
        flow = tkf.Flow(_paced()(β), tkf.PostLN())
        run = tkf.evolve(flow, start, t=self.span, save=s, coalesce=self.radius)
        assert run.mergers is not None
        energy = 2 * β * np.asarray(tkf.observe.energy(run, beta=β, scaled=True))
        met = np.full(len(θ) - 1, np.nan)
        met[: len(run.mergers)] = run.mergers.t
        return xarray.Dataset(
            {"energy": ("s", energy), "log_t": ("s", _log_time(run, β)), "merger": ("step", met)}, coords={"s": s}
        )

    def claims(self, data: xarray.Dataset) -> Iterator[Finding]:
        yield Finding("energies that are not finite", 0, np.sum(~np.isfinite(data.energy)), 0, "A count is exact.")
        stages = list(_closest_first(UNIT * np.array(self.angles)))
        for β in self.betas:
            one = data.sel(beta=β)
            met = one.merger.values[np.isfinite(one.merger.values)]
            yield Finding(f"mergers, β = {β:g}", len(stages), len(met), 0, "n tokens become one by n - 1 mergers.")
            for k, (stage, s) in enumerate(zip(stages, met, strict=False)):
                above = stages[k + 1].plateau if k + 1 < len(stages) else stages[k - 1].plateau
                slack, because = self._slack(β, stage, s - (met[k - 1] if k else 0.0))
                if slack < 0.5 * abs(above - stage.plateau):  # else steps are not apart at this β
                    level = float(one.energy.sel(s=s, method="pad"))
                    yield Finding(
                        f"energy on step {k + 1}, β = {β:g}", stage.plateau, level, slack, because, rival=above
                    )
        yield from self._jumps(data.sel(beta=max(self.betas)), stages)

    def _slack(self, β: float, stage: _Stage, lasted: float) -> tuple[float, str]:
        """How far the energy may be from a step at the last state before the merger that leads to it."""
        moved = min(1.0, lasted * np.exp(-β * stage.lead))
        others = (1 - stage.plateau) * np.exp(-β * stage.gap * (1 - moved) ** 2)
        pair = 0.25 * β * (self.radius * np.exp(self.span / (self.times - 1))) ** 2
        return others + pair, (
            f"Other pairs, which came nearer by {moved:.1g} of their angle at most, add {others:.1g}; the pair, one saved state "
            f"before it is within the radius, lacks {pair:.1g}."
        )

    def _jumps(self, one: xarray.Dataset, stages: list[_Stage]) -> Iterator[Finding]:
        """When the energy passes half-way from step to step: at e^{βg}/(β sin²φ A) · (1 + 2cos φ/(β sin²φ) + ...), by Laplace's
        method, for a pair at an angle φ, 1 - cos φ = g, whose weights sum to A."""
        β, energy, log_t = float(one.beta), one.energy.values, one.log_t.values
        step = self.span / (self.times - 1)
        for below, above in itertools.pairwise(stages):
            half = 0.5 * (below.plateau + above.plateau)
            at = np.interp(half, energy, log_t)
            small = 1 / (β * np.sin(below.angle) ** 2)
            yield Finding(
                f"log t / β of the jump to {above.plateau:.2f}, β = {β:g}",
                predicted=below.gap + np.log(small / below.weight) / β,
                measured=at / β,
                tolerance=(4 * small + step) / β,
                because=f"The expansion's next term, {2 * small:.1g}, twice, and the distance of saved states, {step:.1g}; over β.",
                rival=0.0,
            )

    def draw(self, data: xarray.Dataset) -> matplotlib.figure.Figure:
        from tokenfield.figures.style import FAINT, GREY, shades, sheet

        figure, axes = sheet(1, 2, height=2.6, sharey=True)
        stages = list(_closest_first(UNIT * np.array(self.angles)))
        left, right = axes[0]
        for colour, β in zip(shades(len(self.betas)), self.betas, strict=True):
            one = data.sel(beta=β)
            left.plot(one.s, one.energy, color=colour, label=f"{β:g}")
            right.plot(np.append(one.log_t[1:] / β, 1.1 * stages[-2].gap), np.append(one.energy[1:], 1.0), color=colour)
        for ax in (left, right):
            for stage in stages:
                ax.axhline(stage.plateau, color=FAINT, lw=0.7, zorder=0)
            if ax is right:
                ax.vlines([stage.gap for stage in stages[:-1]], 0.2, 1.0, color=GREY, lw=0.8, ls=":", zorder=0)
        left.set_yticks([stage.plateau for stage in stages], [f"{stage.plateau:.2f}" for stage in stages])
        left.set_xlabel("rescaled time s,  $dt = e^{\\beta(1-c(s))}\\,ds$")
        left.set_ylabel("$E_\\beta$, in units of its last value")
        left.set_title("In the closest pair's time")
        left.legend(title="β", loc="upper left", bbox_to_anchor=(0.0, 0.98), title_fontsize=7)
        right.set_xlabel("log t / β")
        right.set_title("In time itself; dotted: 1 − c of each pair")
        right.set_xlim(0, 1.06 * stages[-2].gap)
        return figure


@functools.cache
def _paced() -> Any:
    """The kind of attention, whose base needs JAX."""
    import jax.numpy as jnp

    from tokenfield.attention import AbstractAttention
    from tokenfield.parameters import number_parameter

    class Paced(AbstractAttention):
        """Σ_j w_j e^{β(<x_i, x_j> - c)} (x_j - x_i), c the largest inner product of two tokens. A token's own term, which is 0
        however large e^{β(1 - c)} is, is left out."""

        beta: Any

        def __init__(self, beta: float):
            self.beta = number_parameter("beta", beta)

        def _weights(self, mu: tkf.Tokens) -> Any:
            apart = jnp.sum((mu.x[:, None] - mu.x) ** 2, axis=-1)  # 2(1 - cos)
            others = ~jnp.eye(mu.n, dtype=bool) & (mu.w > 0) & (mu.w[:, None] > 0)
            nearest = jnp.min(jnp.where(others, apart, jnp.inf))
            scores = jnp.where(others, -0.5 * self.beta * (apart - nearest), -jnp.inf)
            return jnp.where(others, mu.w * jnp.exp(jnp.where(others, scores, 0.0)), 0.0)

        def field(self, mu: tkf.Tokens, x: Any, summation: Any) -> Any:
            return jnp.einsum("ij,ijd->id", self._weights(mu), mu.x - mu.x[:, None])

        def matrix(self, mu: tkf.Tokens, x: Any, summation: Any = None) -> Any:
            return self._weights(mu)

        def check(self, d: int) -> int:
            return d

        @property
        def mean_field(self) -> bool:
            return True

        @property
        def isotropic(self) -> bool:
            return True

    return Paced


def _log_time(run: tkf.Trajectory, β: float) -> np.ndarray:
    """log t(s) = log ∫ e^{β(1 - c)} ds, with an exponent that is linear in s between saved states. What is closest after a merger
    has not moved since the state before it."""
    assert run.mergers is not None
    s, x, met = np.asarray(run.times), np.asarray(run.x), run.mergers.t
    total = [-np.inf]
    for k in range(len(s) - 1):
        after, mergers = run.mergers.labels(s[k + 1]), met[(met > s[k]) & (met <= s[k + 1])]
        began = mergers[-1] if len(mergers) else s[k]
        a, b = β * _gap(x[k], after), β * _gap(x[k + 1], after)
        lean = max(abs(b - a), 1e-9)
        mean = np.log(-np.expm1(-lean) / lean)
        total.append(np.logaddexp(total[-1], max(a, b) + mean + np.log(max(s[k + 1] - began, 1e-300))))
    return np.array(total)


def _gap(x: np.ndarray, labels: np.ndarray) -> float:
    """1 - c for the closest two groups, from their means; of one group alone, 0."""
    x = np.stack([x[labels == k].mean(axis=0) for k in np.unique(labels)])
    apart = np.sum((x[:, None] - x) ** 2, axis=-1)[np.triu_indices(len(x), 1)]
    return 0.5 * float(min(apart, default=0.0))


class _Stage(NamedTuple):
    """What is left after a merger in the limit β → ∞: the sum of squared weights; and of the pair that is then closest 1 - cos, the
    angle and the weight. `lead`: by how much 1 - cos was less for the pair that merged than for the next."""

    plateau: float
    gap: float
    angle: float
    weight: float
    lead: float


def _closest_first(θ: np.ndarray) -> Iterator[_Stage]:
    """On an arc always the closest two clusters merge, at their centre of mass."""
    θ, w = np.sort(θ), np.full(len(θ), 1 / len(θ))
    while len(θ) > 1:
        gaps = np.append(1 - np.cos(np.diff(θ)), np.inf)
        k, lead = int(np.argmin(gaps)), float(np.ptp(np.sort(gaps)[:2]))
        pair = w[k] + w[k + 1]
        θ[k], w[k] = (w[k] * θ[k] + w[k + 1] * θ[k + 1]) / pair, pair
        θ, w = np.delete(θ, k + 1), np.delete(w, k + 1)
        angles = np.append(np.diff(θ), np.pi)
        k = int(np.argmin(angles))
        gap = 1 - np.cos(angles[k]) if len(θ) > 1 else np.inf
        yield _Stage(float(w @ w), gap, float(angles[k]), float(w[k : k + 2].sum()), lead)


FIGURE = Staircase
