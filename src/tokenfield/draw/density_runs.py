"""Runs of densities: snapshots, where the mass is over time, and how ordered it is."""

import math
from typing import Any

import numpy as np

from tokenfield._compile import compiled
from tokenfield.draw.densities import (
    MAP,
    Densities,
    Globes,
    Profiles,
    Ribbons,
    along,
    angle_axis,
    pooled,
)
from tokenfield.draw.page import blank, halves, headline, moments, plain, stack
from tokenfield.draw.panel import figure_of, panel_of
from tokenfield.draw.view import COLOURS, INK
from tokenfield.errors import InputError
from tokenfield.measures import AbstractDensity
from tokenfield.parameters import scheduled
from tokenfield.status import Status
from tokenfield.trajectory import Trajectory


@figure_of.register
def draw_density(states: AbstractDensity, run: Trajectory) -> Any:
    """Snapshots above; below where the mass is over time, and order parameter, entropy and free energy."""
    panel = panel_of(states, np.asarray(run.times))
    assert isinstance(panel, Densities)
    figure = blank()
    top, bottom = halves(figure, run)
    if isinstance(panel, Profiles):
        _profiles(top, run, panel)
    else:
        _row(top, run, panel)
    if bottom is not None:
        left, right = np.ravel(bottom.subfigures(1, 2, width_ratios=[1.35, 1]))
        (_powers if isinstance(panel, Globes) else _heat)(left, run, panel)
        stack(right, np.asarray(run.times), curves(run))
    headline(figure, run, _what(run))
    return figure


def _what(run: Trajectory) -> str:
    mu = run.states
    lost = f", not resolved beyond t = {float(run.reached):.4g}" if run.status is Status.UNRESOLVED else ""
    return f"{mu.kind}, degree {mu.degree}{lost}"


def _row(figure: Any, run: Trajectory, panel: Densities) -> None:
    shown = moments(panel.steps)
    axes = np.atleast_1d(figure.subplots(1, len(shown)))
    for ax, i in zip(axes, shown, strict=True):
        panel.draw(ax, i)
        ax.set_title(f"t = {float(run.times[i]):.4g}", fontsize=11, color=INK)
    panel.key(figure, axes)
    if isinstance(panel, Ribbons) and panel.power < 1:
        figure.text(0.005, 0.02, "height of the ribbon ∝ √f", fontsize=8, color=INK, alpha=0.7)


def _profiles(figure: Any, run: Trajectory, panel: Profiles) -> None:
    """f, and the law of the angle, which is f times the size of the parallel: in high dimensions they differ much."""
    left, right = figure.subplots(1, 2)
    weight, highest = parallel(panel.angle, run.states.d), 0.0
    for i, colour in zip(moments(panel.steps), COLOURS, strict=False):
        f = panel.profile(i)
        left.plot(panel.angle, f, color=colour, lw=1.6, label=f"t = {float(run.times[i]):.4g}")
        right.plot(panel.angle, weight * f, color=colour, lw=1.6)
        highest = max(highest, float(np.max(weight * f)))
    for ax in (left, right):
        panel.dress(ax)
    right.set(ylabel="law of α", yscale="linear", ylim=(0, 1.05 * highest))
    left.legend(frameon=False, fontsize=9)


def _heat(figure: Any, run: Trajectory, panel: Densities) -> None:
    """f over time and angle."""
    ax, times = figure.subplots(), np.asarray(run.times)
    if isinstance(panel, Profiles):
        f, angle = np.stack([panel.profile(i) for i in range(len(times))]), panel.angle
    else:
        f = pooled(panel.values)
        f = np.roll(f, f.shape[1] // 2, axis=1)
        f, angle = np.hstack([f, f[:, :1]]), np.linspace(-np.pi, np.pi, f.shape[1] + 1)
    mesh = ax.pcolormesh(times, angle, f.T, cmap=MAP, norm=panel.norm, shading="gouraud", rasterized=True)
    figure.colorbar(mesh, ax=ax, pad=0.01).set_label("f", fontsize=9)
    plain(ax, times)
    angle_axis(ax.yaxis)
    ax.set(ylabel="α" if isinstance(panel, Profiles) else "θ", ylim=(angle[0], angle[-1]))


def _powers(figure: Any, run: Trajectory, panel: Densities) -> None:
    """How much of f is of degree l: which patterns grow, which die."""
    ax, times = figure.subplots(), np.asarray(run.times)
    square, degrees = np.asarray(run.coefficients, float) ** 2, run.states.basis.degrees
    shown = range(1, min(8, run.states.degree) + 1)
    for l, colour in zip(shown, COLOURS, strict=False):
        power = square[:, degrees == l].sum(1)
        ax.plot(times, np.where(power > 1e-14, power, np.nan), color=colour, lw=1.6, label=f"$l = {l}$")
    ax.set(yscale="log", ylabel="power of degree $l$")
    if square[:, 1:].sum(1).max() < 1e-14:
        ax.set_ylim(1e-14, 1)
    ax.legend(frameon=False, fontsize=8, ncols=1, loc="center left", bbox_to_anchor=(1.0, 0.5))
    plain(ax, times)


def curves(run: Trajectory) -> list[tuple[str, np.ndarray]]:
    """Order parameter and entropy; and the free energy where noisy attention lets one fall."""
    found = [("R", along(run.states, "order")), ("entropy", along(run.states, "entropy"))]
    if run.own_flow is None or run.own_flow.kappa is None or scheduled(run.own_flow):
        return found
    try:
        return [*found, ("free energy", np.asarray(_free_energy(run.states, run.own_flow)))]
    except InputError:  # attention that is not a gradient has none
        return found


@compiled
def _free_energy(states: Any, flow: Any) -> Any:
    return states.free_energy(flow)


def parallel(angle: np.ndarray, d: int) -> np.ndarray:
    """The density of the angle to an axis on S^{d-1}: sin^{d-2} α times Γ(d/2)/(√π Γ((d-1)/2))."""
    constant = math.exp(math.lgamma(d / 2) - math.lgamma((d - 1) / 2)) / math.sqrt(math.pi)
    return constant * np.sin(angle) ** (d - 2)
