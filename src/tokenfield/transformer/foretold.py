"""What print(prediction) says, and its picture."""

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

import tokenfield as tkf
from tokenfield.figures.style import COLOURS, GREY, INK, PAGE, RED, sheet, styled
from tokenfield.transformer.probe.story import table

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

    from tokenfield.transformer.prediction import Prediction

MEANS = {
    "collapse": "attention averages over nearly all tokens, whose outputs become one",
    "critical": "a token's own weight is of the size of all others' together",
    "identity": "a token attends to itself, and attention mixes little",
}


def story(told: "Prediction") -> str:
    """Sentences, a table, what would move it, and what was assumed."""
    parts = [opening(told), "", table(rows(told)), "", "What would move it:", *(f"- {one}" for one in moves(told))]
    return "\n".join([*parts, "", "Assumed:", *(f"- {one}" for one in assumptions(told))])


def opening(told: "Prediction") -> str:
    ρ = told.rho
    scores = (
        f"Scores before training have the standard deviation {told.spread:.3g} over keys, and concentrate attention as much as\n"
        f"equiangular tokens at β = {told.beta:.3g} do"
        if told.spread is not None
        else f"The effective β is {told.beta:.3g}, as given"
    )
    return (
        f"Prediction for {told.architecture}.\n"
        f"{told.context:,} tokens that start with the mean cosine {ρ:g}. {scores}; γ = β/log n = {told.gamma:.3g}.\n"
        f"γ(1-ρ) = {told.share:.3g}: {told.regime}; {MEANS[told.regime]}.\n"
        f"One layer of attention alone turns the cosine {ρ:g} into {told.output:.3f} "
        f"(as n → ∞: 1 below γ(1-ρ) = 1, 4ρ/(1+3ρ) = {4 * ρ / (1 + 3 * ρ):.3f} at it, ρ = {ρ:g} above)."
    )


def rows(told: "Prediction") -> list[list[str]]:
    """The table of normalizations."""
    depths = sorted({1, max(1, told.depth // 4), max(1, told.depth // 2), told.depth})
    head = ["normalization", *(f"after {k}" for k in depths), *(f"passes {level:g} at" for level in told.passes())]
    farthest = told.data.sizes["layer"] - 1
    at = lambda k: f"never in {farthest}" if k is None else f"layer {k}"
    body = []
    for name in told.data.normalization.values:
        ρ = told.cosine(name)
        body.append(
            [
                f"{name}{' (its own)' if name == told.own else ''}",
                *(f"{ρ[k]:.4f}" for k in depths),
                *map(at, told.passes(name).values()),
            ]
        )
    return [head, *body]


def moves(told: "Prediction") -> list[str]:
    """What context, β or normalization would cross to the other side."""
    return [_context(told), _beta(told), _scheme(told)]


def _context(told: "Prediction") -> str:
    n = told.critical_context
    if n is None:
        side = "collapse" if told.share < 1 else "identity"
        return f"Context: none from 2 to 10¹⁵ tokens; at this spread of scores it is {side} throughout."
    way = "shorter than" if told.share < 1 else "longer than"
    return f"Context: {way} {n:,.0f} tokens would cross; longer contexts collapse."


def _beta(told: "Prediction") -> str:
    factor = told.critical_factor
    by = f", which scores {factor:.3g} times as wide would give" if factor is not None and factor < 1e3 else ""
    side = "above" if told.share < 1 else "below"
    return f"β: {side} log n/(1-ρ) = {told.critical_beta:.3g}{by}; a scale that grows like log n keeps its side at every length."


def _scheme(told: "Prediction") -> str:
    ends = {str(name): told.cosine(name)[told.depth] for name in told.data.normalization.values}
    least, most = min(ends, key=ends.__getitem__), max(ends, key=ends.__getitem__)
    own = ends[told.own]
    best = "Its own normalization gathers tokens least" if least == told.own else f"{least} gathers tokens least"
    return (
        f"Normalization: {best} by block {told.depth} (cosine {ends[least]:.3f}; its own {own:.3f}; {most} most, "
        f"{ends[most]:.3f}). "
        "Late rates of 1 - ρ: e^(-2t) for Post-LN and nGPT, e^(-4√t) for sqrt-scaling, 1/t² for Pre-, Peri- and Mix-LN."
    )


def assumptions(told: "Prediction") -> list[str]:
    """What was assumed, in plain words."""
    weights = (
        "Weights are those before training, N(0, 0.02²), and what attention reads has |y|² = d; so scores have nothing to do with "
        "overlaps, and β stands for how concentrated attention is. Trained models: measure β with `tokenfield probe` and give it."
        if told.spread is not None
        else "β is the same in every layer and head."
    )
    return [
        f"Every two tokens have the same cosine, {told.rho:g} at the start, and |x| = 1.",
        "V is the identity: values neither turn nor shrink.",
        f"A block adds {told.step:g} times the field of one head of softmax attention; there is no feed-forward part.",
        f"Every token sees all {told.context:,}"
        + (", though the architecture is causal." if told.architecture.causal else "."),
        weights,
    ]


def picture(told: "Prediction") -> "matplotlib.figure.Figure":
    """The cosine through depth under every normalization, and where the context stands."""
    with styled():
        figure, axes = sheet(1, 2, width=PAGE, height=2.7)
        _depth(axes[0, 0], told)
        _contexts(axes[0, 1], told)
        figure.canvas.draw()
    return figure


def _depth(ax: "matplotlib.axes.Axes", told: "Prediction") -> None:
    for k, name in enumerate(told.data.normalization.values):
        own = name == told.own
        colour = INK if k >= len(COLOURS) else COLOURS[k]
        ax.plot(
            told.data.layer[1:],
            told.cosine(name)[1:],
            color=colour,
            lw=2.2 if own else 1.1,
            label=f"{name}{' (own)' if own else ''}",
        )
    ax.axvline(told.depth, color=GREY, lw=0.8, ls=":")
    for level in told.passes():
        ax.axhline(level, color=GREY, lw=0.5, ls="--", zorder=0)
    ax.set_xscale("log")
    ax.set_ylim(min(0.0, told.rho) - 0.02, 1.02)
    ax.set_xlabel(f"layers (dotted: its {told.depth})")
    ax.set_ylabel("cosine of two tokens")
    ax.set_title(f"n = {told.context:,}, β = {told.beta:.3g}, step {told.step:g}")
    ax.legend(loc="lower right", fontsize=6)


def _contexts(ax: "matplotlib.axes.Axes", told: "Prediction") -> None:
    """One layer of attention against γ(1-ρ)."""
    shares = np.linspace(0.01, 2, 61)
    ρ: Any = told.rho
    gamma = shares / (1 - ρ)
    after = jax.jit(jax.vmap(lambda γ: tkf.long_context(told.context, ρ, γ)))(gamma)
    ax.plot(shares, after, color=COLOURS[0], label=f"n = {told.context:,}")
    ax.plot([0, 1], [1, 1], color=INK, ls=":", lw=1)
    ax.plot([1, 2], [ρ, ρ], color=INK, ls=":", lw=1, label="n → ∞")
    ax.plot(1, 4 * ρ / (1 + 3 * ρ), "o", color=INK, ms=3.5)
    where = min(max(told.share, 0.0), 2.0)
    ax.plot(where, told.output, "o", color=RED, ms=5.5, zorder=5, label=f"this: {told.regime}")
    ax.set_ylim(-0.02, 1.05)
    ax.set_xlabel("γ(1 − ρ), β = γ log n")
    ax.set_ylabel("cosine after attention alone")
    ax.set_title("where the context stands")
    ax.legend(loc="best")
