"""Time against n, doubly logarithmic, with fitted slopes."""

import os
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from benchmarks import sums as case_sums
from benchmarks.harness import Found, slope
from tokenfield.draw.view import COLOURS, FAINT, INK, PAPER

FOLDER = Path(os.environ.get("BENCHMARK_IMAGES") or Path(__file__).with_name("images"))
NAMES = {
    "tokenfield": "tokenfield",
    "jax_finufft": "jax-finufft, transforms alone",
    "dense": "tokenfield, dense",
    "ducc0": "ducc0",
    "torch_sdpa": "torch SDPA",
    "keops": "KeOps",
    "numpy": "numpy, textbook",
}
STYLE = dict(zip(NAMES, zip((COLOURS[i] for i in (0, 4, 5, 2, 1, 6, 3)), "oXsD^vP", strict=True), strict=True))
TITLES = {"circle": "circle S¹", "sphere": "sphere S²"}
TICKS = {1e-4: "0.1 ms", 1e-3: "1 ms", 1e-2: "10 ms", 0.1: "100 ms", 1.0: "1 s", 10.0: "10 s", 100.0: "100 s"}
Curve = tuple[list[int], list[float]]


def curve(settings: dict[str, Found], space: str, model: str, β: float) -> Curve:
    """The sizes at which a contender was measured, and its seconds."""
    keys = {s.n: s.key for s in (case_sums.Sum(space, model, β, n) for n in case_sums.CURVE)}
    known = {n: settings[key].seconds for n, key in keys.items() if key in settings}
    return list(known), list(known.values())


def tail(n: list[int], seconds: list[float]) -> Curve:
    """The part from 10,000 tokens on, where calls cost nothing any more; all of it, if that is a single point."""
    late = [(size, t) for size, t in zip(n, seconds, strict=True) if size >= 10_000]
    return (n, seconds) if len(late) < 2 else tuple(map(list, zip(*late, strict=True)))


def sums(case: str, found: dict) -> None:
    """SA and USA side by side: the fast sum at every β, its rivals at one."""
    fig, axes = _page(len(case_sums.MODELS))
    for ax, model in zip(axes, case_sums.MODELS, strict=True):
        for name, settings in found.items():
            for β, line in zip(case_sums.BETAS, (":", "-", "--"), strict=True):
                label = f"{NAMES[name]}, β = {β:g}" if name == "tokenfield" else NAMES[name]
                if name == "tokenfield" or β == case_sums.TYPICAL:
                    _draw(ax, name, curve(settings, case, model, β), label, line)
        _finish(ax, f"{model.upper()} on the {TITLES[case]}")
    _save(fig, axes, case)


def scaling(found: dict) -> None:
    """One SA velocity on the circle and on the sphere by everyone."""
    fig, axes = _page(2)
    for ax, space in zip(axes, TITLES, strict=True):
        for name, settings in found.items():
            label = f"tokenfield, {space} sum" if name == "tokenfield" else NAMES[name]
            _draw(ax, name, curve(settings, space, "sa", case_sums.TYPICAL), label, "-")
        _finish(ax, f"one SA velocity on the {TITLES[space]}, β = {case_sums.TYPICAL:g}")
    _save(fig, axes, "scaling")


def _page(count: int) -> tuple[Any, Any]:
    plt.rcParams.update(
        {
            "font.size": 10,
            "text.color": INK,
            "axes.labelcolor": INK,
            "axes.edgecolor": FAINT,
            "xtick.color": INK,
            "ytick.color": INK,
            "xtick.minor.bottom": False,
            "ytick.minor.left": False,
        }
    )
    return plt.subplots(1, count, figsize=(6.2 * count, 5.6), sharey=True, facecolor=PAPER, layout="constrained")


def _draw(ax: Any, name: str, points: Curve, label: str, line: str) -> None:
    if not points[0]:
        return
    colour, marker = STYLE[name]
    told = f"{label}:  $n^{{{slope(*tail(*points)):.2f}}}$" if len(points[0]) > 1 else label
    ours = name == "tokenfield"
    ax.plot(
        *points,
        color=colour,
        marker=marker,
        ls=line,
        lw=2.4 if ours else 1.5,
        ms=6 if ours else 5,
        mec=PAPER,
        mew=0.8,
        label=told,
        zorder=5 if ours else 3,
    )


def _finish(ax: Any, title: str) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_title(title, loc="left", fontsize=11.5)
    ax.set_xlabel("tokens n")
    ax.grid(color=FAINT, lw=0.5, alpha=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    low, high = ax.get_ylim()
    shown = {t: name for t, name in TICKS.items() if low < t < high}
    ax.set_yticks(list(shown), list(shown.values()))
    ax.minorticks_off()


def _save(fig: Any, axes: Any, name: str) -> None:
    axes[0].set_ylabel("time of one evaluation")
    for ax in axes:  # below the axes, where no line runs
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, frameon=False, fontsize=9, handlelength=2.6)
    FOLDER.mkdir(parents=True, exist_ok=True)
    fig.savefig(FOLDER / f"{name}.png", dpi=150, facecolor=PAPER)
    plt.close(fig)
