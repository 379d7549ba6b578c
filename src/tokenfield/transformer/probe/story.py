"""What print(probe) says."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tokenfield.transformer.probe.controls import UNTRAINED

if TYPE_CHECKING:
    from tokenfield.transformer.probe.result import Probe

ROWS = 13
"""How many layers a table shows at most."""
NAMES = {"text": "text", "shuffled": "shuffled tokens", "untrained": "untrained weights"}


def story(probe: "Probe") -> str:
    """The whole story: sentences and two tables."""
    return "\n".join([opening(probe), "", table(layer_rows(probe)), "", *sentences(probe)])


def opening(probe: "Probe") -> str:
    about, data = probe.about, probe.data
    n = data.tokens.values
    long = f"{n[0]} tokens" if len(set(n.tolist())) == 1 else f"{n.min()} to {n.max()} tokens"
    many = "one text" if len(n) == 1 else f"{len(n)} texts"
    control = UNTRAINED.get(about["control"], about["control"])
    return (
        f"Probe of {about['probe']}: {about['architecture']}; {about['parameters']:,} parameters.\n"
        f"{many[0].upper()}{many[1:]} of {long}; controls: the same tokens shuffled, and {control}."
    )


def some_layers(count: int) -> np.ndarray:
    """Numbers of layers for a table: all, or some that are evenly spaced."""
    return np.unique(np.linspace(0, count - 1, min(count, ROWS)).round().astype(int))


def mean(probe: "Probe", name: str, variant: str = "text", sinks: str = "with") -> np.ndarray:
    """The mean over texts (and heads) of what is measured, one number per layer or block; NaN where nothing is known."""
    array = probe.data[name].sel(variant=variant)
    array = array.sel(sinks=sinks) if "sinks" in array.dims else array
    return array.mean([dim for dim in ("text", "head") if dim in array.dims]).values


def layer_rows(probe: "Probe") -> list[list[str]]:
    """The table of layers: a head, then one row per layer."""
    head = [
        "layer",
        "cosine",
        "± texts",
        "no sinks",
        "shuffled",
        "untrained",
        "theory",
        "rank",
        "clusters",
        "|x|",
        "entropy/log n",
        "β",
    ]
    columns = [
        mean(probe, "cosine"),
        probe.data.cosine.sel(variant="text", sinks="with").std("text").values,
        mean(probe, "cosine", sinks="without"),
        mean(probe, "cosine", "shuffled"),
        mean(probe, "cosine", "untrained"),
        probe.data.theory.sel(variant="text", curve="concentration, measured step").values,
        mean(probe, "rank"),
        mean(probe, "clusters"),
        mean(probe, "radius"),
        np.append(mean(probe, "entropy_share"), np.nan),
        np.append(median(probe, "beta"), np.nan),
    ]
    forms = [".3f"] * 6 + [".1f", ".1f", ".3g", ".2f", ".3g"]
    rows = [
        [str(k), *(number(c[k], form) for c, form in zip(columns, forms, strict=True))]
        for k in some_layers(len(columns[0]))
    ]
    return [head, *rows]


def median(probe: "Probe", name: str, variant: str = "text", sinks: str = "with") -> np.ndarray:
    """The median over texts and heads, one number per block."""
    return probe.data[name].sel(variant=variant, sinks=sinks).median(["text", "head"]).values


def number(value: float, form: str) -> str:
    return format(float(value), form) if np.isfinite(value) else "–"


def table(rows: list[list[str]]) -> str:
    """Rows of words as aligned columns."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def sentences(probe: "Probe") -> list[str]:
    """What the numbers say, in words."""
    parts = [_clustering(probe), _theory(probe), _sinks(probe), _betas(probe)]
    parts += [_exponents(probe)] if "exponent" in probe.data else []
    parts += [_repeated(probe)] if "repeated_clusters" in probe.data else []
    return [*parts, f"Computed in {probe.about['seconds']:.3g} s."]


def _clustering(probe: "Probe") -> str:
    ends = {name: mean(probe, "cosine", name)[[0, -1]] for name in NAMES}
    said = "; ".join(f"{words} {ends[name][0]:.3f} → {ends[name][1]:.3f}" for name, words in NAMES.items())
    most = mean(probe, "cosine")
    top = int(np.nanargmax(most))
    peak = f" On text it is largest after {top} blocks, {most[top]:.3f}." if 0 < top < len(most) - 1 else ""
    verdict = "Tokens gather" if ends["text"][1] > ends["text"][0] + 0.05 else "Tokens do not gather"
    return f"{verdict} from the first layer to the last. Mean cosine: {said}.{peak}"


def _theory(probe: "Probe") -> str:
    ends = probe.data.theory.sel(variant="text").isel(layer=-1)
    said = "; ".join(f"β by {c.values!s}: {number(float(ends.sel(curve=c)), '.3f')}" for c in ends.curve)
    scheme = probe.about["normalization"]
    return f"The theory's equiangular tokens (V = I, no feed-forward part, no mask, {scheme}) would end at: {said}."


def _sinks(probe: "Probe") -> str:
    counts = {name: float(probe.data.sink_tokens.sel(variant=name).mean()) for name in NAMES}
    if not any(counts.values()):
        return "No token is a sink of attention."
    first, most = mean(probe, "first"), mean(probe, "most")
    k = int(np.nanargmax(most))
    return (
        f"Sinks: {counts['text']:.1f} tokens of a text ({counts['shuffled']:.1f} shuffled, {counts['untrained']:.1f} untrained). "
        f"In block {k} a head gives {most[k]:.0%} of its attention to its most attended token, {first[k]:.0%} to the first one."
    )


def _betas(probe: "Probe") -> str:
    values = {name: probe.data.beta.sel(variant=name, sinks="with").values for name in NAMES}
    known = {name: v[np.isfinite(v)] for name, v in values.items()}
    if not known["text"].size:
        return "No effective β: the tokens have one direction."
    low, middle, high = np.quantile(known["text"], [0.05, 0.5, 0.95])
    fine = probe.data.alignment.sel(variant="text", sinks="with").values
    aligned = number(np.nanmean(fine), ".2f") if np.isfinite(fine).any() else "–"
    start = f"{np.median(known['untrained']):.3g}" if known["untrained"].size else "–"
    return (
        f"Effective β, the spread of scores in units of that of overlaps: median {middle:.3g}, 5% to 95% of heads {low:.3g} to "
        f"{high:.3g}; untrained {start}. Scores and overlaps have the correlation {aligned}; the theory's have 1."
    )


def _exponents(probe: "Probe") -> str:
    return "\n".join(
        [
            "Lipschitz constants grow like n^p; p with its standard error:",
            table(exponent_rows(probe)),
        ]
    )


def exponent_rows(probe: "Probe") -> list[list[str]]:
    """The table of exponents: a head, then one row per block."""
    data = probe.data
    columns = [("attention", name) for name in NAMES] + [("block", name) for name in NAMES]
    at = lambda name, k, m, v: float(data[name].sel(map=m, variant=v).isel(stretched=k))
    cell = lambda k, m, v: f"{number(at('exponent', k, m, v), '.2f')} ± {number(at('exponent_error', k, m, v), '.2f')}"
    head = ["block", *(f"{m}, {v}" for m, v in columns)]
    return [head, *([str(int(b)), *(cell(k, m, v) for m, v in columns)] for k, b in enumerate(data.stretched.values))]


def _repeated(probe: "Probe") -> str:
    found: Any = probe.data.repeated_clusters
    last = {name: found.sel(variant=name).isel(repetition=-1).mean("text").item() for name in NAMES}
    said = ", ".join(f"{NAMES[name]} {value:.1f}" for name, value in last.items())
    n = float(probe.data.tokens.mean())
    return (
        f"The first block repeated {int(found.repetition[-1])} times leaves clusters (within {probe.about['angle']:g} rad, of "
        f"{n:.0f} tokens on average): {said}."
    )
