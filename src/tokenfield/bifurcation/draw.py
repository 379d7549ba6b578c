"""A diagram of stationary states in words and as a picture."""

import os
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from tokenfield.bifurcation.diagram import Branch, Diagram
from tokenfield.draw.page import written
from tokenfield.draw.view import COLOURS, FAINT, INK, PAPER

GREY = "#7a828e"
DASHES = (0, (4, 2.2))


def story(diagram: Diagram) -> str:
    """A few lines: where the uniform state gives way, to what and how, and what other branches there are."""
    attention = str(diagram.flow).removeprefix("Flow: ").split(", PostLN")[0]
    low, high = diagram.kappa
    lines = [f"Stationary states of {attention} on {sphere(diagram.d)}, κ from {low:.3g} to {high:.3g}"]
    parts = [("uniform", _uniform(diagram)), ("transition", _transition(diagram))]
    parts += [(branch.name, _branch(branch)) for branch in diagram.branches[1:]]
    width = max(len(name) for name, _ in parts)
    return "\n".join(lines + [f"  {name:<{width}} {what}" for name, what in parts if what])


def sphere(d: int) -> str:
    """The name of S^{d-1}."""
    return "the circle" if d == 2 else "S" + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(d - 1))


def _uniform(diagram: Diagram) -> str:
    if not np.isfinite(diagram.kappa_c):
        return "stable at every κ; no other branch"
    first = min((branch for branch in diagram.branches[1:]), key=lambda branch: abs(branch.kappa[0] - diagram.kappa_c))
    return f"stable up to κ_c = {diagram.kappa_c:.6g} ({first.origin})"


def _transition(diagram: Diagram) -> str:
    if diagram.transition == "none":
        return ""
    if diagram.transition == "second-order":
        return f"second-order at κ = {diagram.kappa_c:.6g}"
    rival = next((s for s in diagram.at(diagram.kappa_transition) if s.name != "uniform" and s.stable), None)
    jump = "" if rival is None else f", R = {rival.order:.3f}"
    return f"first-order at κ = {diagram.kappa_transition:.6g}{jump}"


def _branch(branch: Branch) -> str:
    begin = f"from κ = {branch.kappa[0]:.6g}" if branch.origin != "isolated" else f"κ ≥ {branch.kappa.min():.6g}"
    folds = (
        ""
        if not len(branch.folds)
        else f", fold{'s' * (len(branch.folds) > 1)} at " + ", ".join(f"{κ:.6g}" for κ in branch.folds)
    )
    stable = branch.kappa[1:][branch.stable[1:]]  # the first state may be neutral
    begins = min([branch.kappa[0], *branch.folds], key=lambda κ: abs(κ - stable.min())) if len(stable) else 0.0
    how = f"stable from {begins:.6g}" if len(stable) else "unstable"
    lost = "" if branch.trace is None or branch.trace.ending not in ("", "lost") else "; not followed to its end"
    return f"{begin}{folds}; {how}{lost}"


def picture(diagram: Diagram, path: str | os.PathLike | None = None) -> Any:
    """Draw a diagram. Written to `path` and its path returned, or returned as a matplotlib figure."""
    return written(_draw(diagram), path)


def _draw(diagram: Diagram) -> Any:
    from matplotlib.figure import Figure

    jump = diagram.transition == "first-order"
    figure = Figure(figsize=(10.5 if jump else 7.5, 7.2), layout="constrained", facecolor=PAPER)
    panels = figure.subplots(2, 2 if jump else 1, squeeze=False, sharex="col", width_ratios=[1.7, 1][: 1 + jump])
    for column in panels.T:
        _curves(diagram, *column)
        for ax in column:
            _plain(diagram, ax)
    _whole(diagram, *panels[:, 0])
    if jump:
        _close_up(diagram, *panels[:, 1])
    figure.legend(
        handles=_legend(diagram), loc="outside lower center", ncols=4 if jump else 3, frameon=False, fontsize=9
    )
    return figure


def _curves(diagram: Diagram, top: Any, bottom: Any) -> None:
    for colour, branch in zip(_paint(diagram), diagram.branches, strict=True):
        if _shown(branch):
            _curve(top, branch, branch.order, colour)
        _curve(bottom, branch, _depth(diagram, branch), colour)


def _paint(diagram: Diagram) -> list[str]:
    return [INK, *(COLOURS[i % len(COLOURS)] for i in range(len(diagram.branches) - 1))]


def _shown(branch: Branch) -> bool:
    """Whether a branch is drawn in the panel of R: the uniform one is its line R = 0, others there would hide it."""
    return branch.trace is None or bool(branch.order.max() > 1e-6)


def _depth(diagram: Diagram, branch: Branch) -> np.ndarray:
    """What tells branches apart also where R = 0: free energy against the uniform state's, or for SA the entropy."""
    return (
        branch.distance if branch.free_energy is None else branch.free_energy - diagram.model.uniform_energy(diagram.d)
    )


def _curve(ax: Any, branch: Branch, values: np.ndarray, colour: str) -> None:
    """Solid where stable, dashed where not; folds as rings. A fold, and the state where a branch begins, are neutral: what
    lies between two states is as stable as the other one."""
    neutral = np.isin(branch.kappa, branch.folds)
    stable = np.append(branch.stable[min(1, len(branch) - 1)], branch.stable[1:])
    pieces = np.where(neutral[1:], stable[:-1], stable[1:])
    way, course = _way(branch), np.column_stack([branch.kappa, values])
    smooth = course.__getitem__ if branch.trace is None else CubicSpline(way, course)
    for begin, end in _runs(pieces):
        fine = slice(begin, end + 1) if branch.trace is None else _refined(way[begin : end + 1])
        style = {"lw": 2.2, "ls": "-", "zorder": 4} if pieces[begin] else {"lw": 1.3, "ls": DASHES, "zorder": 3}
        ax.plot(*smooth(fine).T, color=colour, solid_capstyle="round", **style)
    ax.plot(branch.kappa[neutral], values[neutral], "o", ms=5.5, mfc=PAPER, mec=colour, mew=1.5, zorder=5)


def _way(branch: Branch) -> np.ndarray:
    """The length of the branch up to each of its states, in which κ and all values are smooth, folds or not."""
    if branch.trace is None:
        return branch.kappa
    x = np.array([place.x for place in branch.trace.places])
    return np.append(0.0, np.cumsum(np.linalg.norm(np.diff(x, axis=0), axis=1)))


def _refined(way: np.ndarray) -> np.ndarray:
    return np.interp(np.linspace(0, len(way) - 1, 8 * len(way) - 7), np.arange(len(way)), way)


def _runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """Index pairs of the stretches in which flags are equal."""
    cuts = [0, *(np.flatnonzero(np.diff(flags)) + 1).tolist(), len(flags)]
    return list(pairwise(cuts))


def _whole(diagram: Diagram, top: Any, bottom: Any) -> None:
    attention = str(diagram.flow).removeprefix("Flow: ").split(", PostLN")[0]
    top.set_title(f"Stationary states: {attention} on {sphere(diagram.d)}", fontsize=12, color=INK, loc="left", pad=10)
    top.set(ylim=(-0.03, 1.03), xlim=diagram.kappa)
    top.set_ylabel(r"order  $R = |\int x\,d\mu|$", color=INK)
    name = "free energy  $F - F_{uniform}$" if diagram.model.kind == "usa" else r"entropy  $\int f\,\log f\,d\sigma$"
    bottom.set_ylabel(name, color=INK)
    if diagram.kappa[1] > 12 * diagram.kappa[0]:
        top.set_xscale("log")


def _plain(diagram: Diagram, ax: Any) -> None:
    if np.isfinite(diagram.kappa_c):
        ax.axvline(diagram.kappa_c, color=GREY, lw=0.8, zorder=1)
    if diagram.transition == "first-order":
        ax.axvline(diagram.kappa_transition, color=GREY, lw=0.9, ls=":", zorder=1)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(FAINT)
    ax.tick_params(colors=INK, labelsize=9)
    ax.set_xlabel(r"$\kappa$" if ax.get_subplotspec().is_last_row() else "", color=INK)


def _close_up(diagram: Diagram, top: Any, bottom: Any) -> None:
    """Both panels between the first fold and κ_c, where the transition is decided."""
    first = min((branch for branch in diagram.branches[1:] if len(branch.folds)), key=lambda branch: branch.folds.min())
    low, high = float(first.folds.min()), diagram.kappa_c
    height = _depth(diagram, first)[first.kappa <= high].max()
    top.set_title("the transition", fontsize=10, color=INK, loc="left", pad=10)
    top.set(xlim=(low - 0.12 * (high - low), high + 0.12 * (high - low)), ylim=(-0.03, 1.03))
    bottom.set_ylim(-1.3 * height if diagram.model.kind == "usa" else -0.05 * height, 1.3 * height)


def _legend(diagram: Diagram) -> list[Any]:
    from matplotlib.lines import Line2D

    lines = [
        Line2D([], [], color=colour, lw=2.2, label=branch.name + ("" if _shown(branch) else ", R = 0"))
        for colour, branch in zip(_paint(diagram), diagram.branches, strict=True)
    ]
    lines += [Line2D([], [], color=GREY, lw=2.2, label="stable")]
    lines += [Line2D([], [], color=GREY, lw=1.3, ls=DASHES, label="unstable")]
    if len(diagram.folds):
        lines += [Line2D([], [], color=GREY, ls="", marker="o", mfc=PAPER, mew=1.5, ms=5.5, label="fold")]
    if np.isfinite(diagram.kappa_c):
        lines += [Line2D([], [], color=GREY, lw=0.8, label=rf"$\kappa_c$ = {diagram.kappa_c:.5g}")]
    if diagram.transition == "first-order":
        label = rf"transition, $\kappa$ = {diagram.kappa_transition:.5g}"
        lines += [Line2D([], [], color=GREY, lw=0.9, ls=":", label=label)]
    return lines
