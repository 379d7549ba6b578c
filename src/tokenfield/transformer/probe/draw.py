"""The picture of a probe."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tokenfield.figures.style import BLUE, GREEN, GREY, INK, PAGE, RED, shades, sheet, styled

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

    from tokenfield.transformer.probe.result import Probe

LINES = {"text": (BLUE, "-", "text"), "shuffled": (GREEN, "--", "shuffled"), "untrained": (RED, ":", "untrained")}
"""Colour, dash and name of every variant."""


def picture(probe: "Probe") -> "matplotlib.figure.Figure":
    """All panels: states, attention, and where they were measured Lipschitz constants and repetitions."""
    panels = [_cosine, _histogram, _of("rank", "effective rank"), _of("clusters", "clusters"), _of("radius", "radius |x|"),
              _of("energy", "energy / one cluster"), _heads("entropy_share", "entropy / log n"), _betas, _sinks]  # fmt: skip
    panels += [_constants, _exponents] if "lipschitz" in probe.data else []
    panels += [_repeated] if "repeated_clusters" in probe.data else []
    with styled():
        rows = -(-len(panels) // 3)
        figure, axes = sheet(rows, 3, width=PAGE, height=1.95 * rows + 0.3)
        for ax, panel in zip(axes.flat, panels, strict=False):
            panel(ax, probe)
        for ax in axes.flat[len(panels) :]:
            ax.set_axis_off()
        figure.suptitle(f"{probe.about['probe']}: {_short(probe.about['architecture'])}", fontsize=8)
        figure.canvas.draw()
    return figure


def _short(text: str) -> str:
    """Of a long list as much as fits."""
    return text if len(text) < 110 else text[:110].rpartition(", ")[0]


def _band(ax: "matplotlib.axes.Axes", x: Any, rows: np.ndarray, variant: str, label: str | None = None) -> None:
    """The mean over texts, with one standard deviation on either side."""
    colour, dash, name = LINES[variant]
    middle, wide = rows.mean(axis=0), rows.std(axis=0)
    ax.plot(x, middle, dash, color=colour, label=label or name)
    if len(rows) > 1:
        ax.fill_between(x, middle - wide, middle + wide, color=colour, alpha=0.15, lw=0)


def _cosine(ax: "matplotlib.axes.Axes", probe: "Probe") -> None:
    data = probe.data
    for variant in LINES:
        _band(ax, data.layer, data.cosine.sel(variant=variant, sinks="with").values, variant)
    if float(data.sink_tokens.sel(variant="text").sum()) > 0:
        ax.plot(
            data.layer,
            data.cosine.sel(variant="text", sinks="without").mean("text"),
            "-",
            color=BLUE,
            lw=0.7,
            label="text, no sinks",
        )
    theory = data.theory.sel(variant="text")
    ax.plot(data.layer, theory.sel(curve="spread, step 1"), color=GREY, lw=0.9, label="theory")
    ax.plot(
        data.layer,
        theory.sel(curve="concentration, measured step"),
        "--",
        color=INK,
        lw=0.9,
        label="theory, as measured",
    )
    ax.set_ylim(min(0.0, float(data.cosine.min())) - 0.03, 1.03)
    _named(ax, "layer", "mean cosine")
    ax.legend(loc="best", fontsize=5.5)


def _histogram(ax: "matplotlib.axes.Axes", probe: "Probe") -> None:
    """Overlaps at four layers  [rigollet2025, Figure 1]."""
    data = probe.data.histogram.sel(variant="text", sinks="with").mean("text")
    layers = np.unique(np.linspace(0, data.sizes["layer"] - 1, 4).round().astype(int))
    for colour, k in zip(shades(len(layers)), layers, strict=True):
        ax.step(data.overlap, data.isel(layer=int(k)), where="mid", color=colour, lw=1, label=f"layer {k}")
    ax.set_yscale("symlog", linthresh=0.02)
    ax.set_yticks([0, 0.01, 0.1, 1], ["0", "0.01", "0.1", "1"])
    ax.set_ylim(0, 1)
    _named(ax, "overlap of two tokens", "share of pairs")
    ax.legend(loc="upper left", fontsize=5.5)


def _of(name: str, words: str) -> Any:
    """A panel of something that is measured of states."""

    def panel(ax: "matplotlib.axes.Axes", probe: "Probe") -> None:
        data = probe.data[name]
        for variant, (colour, _, _) in LINES.items():
            _band(ax, data.layer, data.sel(variant=variant, sinks="with").values.astype(float), variant)
            if variant == "text" and float(probe.data.sink_tokens.sel(variant="text").sum()) > 0:
                ax.plot(data.layer, data.sel(variant="text", sinks="without").mean("text"), "-", color=colour, lw=0.7)
        if name == "radius":
            _log(ax)
        else:
            ax.set_ylim(0, 1.05 * ax.get_ylim()[1])
        _named(ax, "layer", words)

    return panel


def _heads(name: str, words: str) -> Any:
    """A panel of something that is measured of heads: a dot for each, and the median of every variant."""

    def panel(ax: "matplotlib.axes.Axes", probe: "Probe") -> None:
        data = probe.data[name].sel(sinks="with")
        one = data.sel(variant="text").mean("text")
        for head in range(one.sizes["head"]):
            ax.plot(data.block, one.isel(head=head), ".", color=BLUE, ms=2, alpha=0.5)
        for variant, (colour, dash, _) in LINES.items():
            ax.plot(data.block, data.sel(variant=variant).median(["text", "head"]), dash, color=colour)
        if name == "entropy_share":
            ax.set_ylim(0, 1.03)
        _named(ax, "block", words)

    return panel


def _betas(ax: "matplotlib.axes.Axes", probe: "Probe") -> None:
    _heads("beta", "effective β")(ax, probe)
    other = probe.data.beta_concentrated.sel(variant="text", sinks="with").median(["text", "head"])
    ax.plot(other.block, other, "--", color=INK, lw=0.9, label="by concentration")
    values = probe.data.beta.values[np.isfinite(probe.data.beta.values)]
    if values.size and values.min() > 0:
        _log(ax)
    ax.legend(loc="best", fontsize=5.5)


def _sinks(ax: "matplotlib.axes.Axes", probe: "Probe") -> None:
    data = probe.data
    for variant, (colour, dash, _) in LINES.items():
        ax.plot(data.block, data.most.sel(variant=variant).mean(["text", "head"]), dash, color=colour)
    ax.plot(
        data.block,
        data["first"].sel(variant="text").mean(["text", "head"]),
        "-",
        color=BLUE,
        lw=0.7,
        label="text, the first token",
    )
    ax.set_ylim(0, 1)
    _named(ax, "block", "share of the most\nattended token")
    ax.legend(loc="best", fontsize=5.5)


def _constants(ax: "matplotlib.axes.Axes", probe: "Probe") -> None:
    data = probe.data.lipschitz.sel(variant="text", map="attention")
    for colour, k in zip(shades(data.sizes["stretched"]), range(data.sizes["stretched"]), strict=True):
        rows = data.isel(stretched=k)
        ax.plot(
            data.n,
            np.exp(np.log(rows).mean("text")),
            "o-",
            ms=2.5,
            lw=0.9,
            color=colour,
            label=f"block {int(data.stretched[k])}",
        )
    base = float(np.exp(np.log(data).mean()))
    n = data.n.values.astype(float)
    ax.plot(n, base * (n / np.sqrt(n[0] * n[-1])) ** 0.25, "--", color=GREY, lw=0.9, label="$n^{1/4}$")
    ax.set_xscale("log", base=2)
    _log(ax)
    ax.set_xticks(n, [f"{k:.0f}" for k in n])
    _named(ax, "tokens n", "Lipschitz constant\nof attention")
    ax.set_ylim(top=2.2 * ax.get_ylim()[1])
    ax.legend(loc="upper left", fontsize=5, ncol=2)


def _exponents(ax: "matplotlib.axes.Axes", probe: "Probe") -> None:
    data = probe.data.sel(map="attention")
    for k, (variant, (colour, dash, name)) in enumerate(LINES.items()):
        one = data.sel(variant=variant)
        ax.errorbar(
            one.stretched + 0.06 * (k - 1),
            one.exponent,
            one.exponent_error,
            fmt="o",
            ls=dash,
            ms=2.5,
            lw=0.9,
            color=colour,
            label=name,
        )
    ax.axhline(0.25, color=GREY, lw=0.7, ls="--")
    ax.axhline(0.5, color=GREY, lw=0.7, ls=":")
    _named(ax, "block", "exponent p of $n^p$")


def _repeated(ax: "matplotlib.axes.Axes", probe: "Probe") -> None:
    data = probe.data.repeated_clusters
    for variant in LINES:
        _band(ax, data.repetition + 1, data.sel(variant=variant).values, variant)
    ax.set_xscale("log")
    ax.set_ylim(bottom=0)
    _named(ax, "repetitions of the block + 1", "clusters")


def _log(ax: "matplotlib.axes.Axes") -> None:
    """A logarithmic axis with plain numbers at 1, 2 and 5 times powers of ten; of wide ranges at powers alone."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set_yscale("log")
    low, high = ax.get_ylim()
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 60 * low else (1.0,)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def _named(ax: "matplotlib.axes.Axes", x: str, y: str) -> None:
    from matplotlib.ticker import MaxNLocator

    if x in ("layer", "block"):
        ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    ax.set_xlabel(x)
    ax.set_ylabel(y)
