"""Every attention and every normalization trained at one budget: the table of docs/training.md.

`python docs/make_training.py` trains what is missing in out/training.json, run by run, and then writes the table. It may be
ended and started again at any time. `python docs/make_training.py table` only writes the table.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield._files import whole
from tokenfield.transformer.training import learning
from tokenfield.transformer.training.objectives import objective_of
from tokenfield.transformer.training.texts import language_reference, split

HERE = Path(__file__).parent
KEPT, PAGE = Path("out/training.json"), HERE / "training.md"
SEEDS = 3
SIZES = {"vocabulary": 257, "d": 64, "layers": 4, "heads": 4, "context": 64, "positions": "rotary"}
BUDGET = {"steps": 400, "batch": 16, "lr": 3e-3, "warmup": 40, "every": 400}
ANGLE, TEXTS, WINDOWS = 0.5, 16, 4096
"""The radius of a cluster in radians; texts of 64 tokens that are looked into; windows whose last token is asked for."""

CAUSAL = ("softmax", "unnormalized", "l2", "sigmoid", "linear", "relu", "additive")
FULL = {"softmax, not causal": {"attention": "softmax", "causal": False}, "sinkhorn": {"attention": "sinkhorn"}}
FULL["hardmax"] = {"attention": "hardmax"}
SCHEMES = ("free", "post_ln", "pre_ln", "peri_ln", "mix_ln", "ngpt", "sqrt_scaling")
ATTENTIONS: dict[str, dict[str, Any]] = {name: {"attention": name} for name in CAUSAL} | FULL
NORMALIZATIONS: dict[str, dict[str, Any]] = {
    name: {"normalization": tkf.MixLN(tau=2) if name == "mix_ln" else name} for name in SCHEMES
}
RUNS = {f"attention {name}": kinds for name, kinds in ATTENTIONS.items()}
RUNS |= {f"normalization {name}": kinds for name, kinds in NORMALIZATIONS.items() if name != "pre_ln"}
"""pre_ln is the scheme of all attentions, and softmax the attention of all schemes: that run is in both tables."""


def computed(kinds: dict[str, Any], seed: int) -> dict[str, Any]:
    """One training, and what is seen of it."""
    began, used = time.monotonic(), time.process_time()
    model = tkf.Transformer.random(tkf.Architecture(**SIZES, **kinds), seed=seed)
    result = tkf.train(model, seed=seed, progress=False, **BUDGET)
    ids = np.frombuffer(language_reference().encode(), np.uint8).astype(np.int32)
    objective = objective_of(model, SIZES["context"])
    kept = split(ids, SIZES["context"] + 1).kept
    asked, _ = objective.last(kept, WINDOWS)
    held = learning.held(result.model)
    return {
        "loss": learning.validated(held.trained, held.rest, model.depth, asked),
        "untrained": learning.validated(*learning.held(model), model.depth, asked),
        "status": result.status.name,
        "steps": len(result.losses),
        "trained": collapse(result.model, kept),
        "before": collapse(model, kept),
        "seconds": time.monotonic() - began,
        "cpu": time.process_time() - used,
    }


def collapse(model: tkf.Transformer, kept: list[np.ndarray]) -> dict[str, list[float]]:
    """Mean cosine, effective rank and clusters of every layer, the mean over some texts."""
    n = SIZES["context"]
    texts = [part[at : at + n] for part in kept for at in (0, len(part) // 2)][:TEXTS]
    runs = [model.run(ids) for ids in texts]
    means = lambda seen: np.mean([np.asarray(seen(run), float) for run in runs], axis=0).round(5).tolist()
    return {
        "cosine": means(tkf.observe.mean_overlap),
        "rank": means(tkf.observe.effective_rank),
        "clusters": means(lambda run: [len(found) for found in tkf.observe.clusters(run, angle=ANGLE)]),
    }


def main() -> None:
    """Train what is missing, one seed after another."""
    KEPT.parent.mkdir(exist_ok=True)
    found = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for seed in range(SEEDS) if "table" not in sys.argv else ():
        for name, kinds in RUNS.items():
            if f"{name} {seed}" in found:
                continue
            one = computed(kinds, seed)
            found[f"{name} {seed}"] = one
            with whole(KEPT) as part:
                part.write_text(json.dumps(found, indent=0))
            print(f"{name} {seed}: {one['status']}, loss {one['loss']:.3f}, {one['cpu']:.0f} s of CPU", flush=True)
    write_tables(found)


def write_tables(found: dict[str, Any]) -> None:
    """Put both tables into the page."""
    page = PAGE.read_text()
    for title, names in (("attention", ATTENTIONS), ("normalization", NORMALIZATIONS)):
        begin, end = f"<!-- {title} -->\n", f"<!-- end of {title} -->"
        before, rest = page.split(begin)
        page = before + begin + table(title, names, found) + end + rest.split(end)[1]
    with whole(PAGE) as part:
        part.write_text(page)


def table(title: str, names: dict[str, Any], found: dict[str, Any]) -> str:
    rows = [
        f"| {title} | validation loss | mean cosine | effective rank | clusters |\n|---|---|---|---|---|\n",
    ]
    for name in names:
        key = "attention softmax" if name == "pre_ln" else f"{title} {name}"
        seeds = [found[f"{key} {seed}"] for seed in range(SEEDS) if f"{key} {seed}" in found]
        if seeds:
            rows.append(f"| {name} | " + " | ".join(cells(seeds)) + " |\n")
    return "".join(rows)


def cells(seeds: list[dict[str, Any]]) -> list[str]:
    """The loss with its spread, then what is seen of the last layer, before training in brackets."""
    spread = lambda values, digits: (
        f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=min(1, len(values) - 1)):.{digits}f}"
    )
    diverged = sum(one["status"] != "COMPLETED" for one in seeds)
    told = [spread([one["loss"] for one in seeds], 3) + (f" ({diverged} of {len(seeds)} diverged)" if diverged else "")]
    for what, digits in (("cosine", 2), ("rank", 1), ("clusters", 1)):
        of = lambda when, what=what: [one[when][what][-1] for one in seeds]
        told.append(f"{spread(of('trained'), digits)} ({np.mean(of('before')):.{digits}f})")
    return told


if __name__ == "__main__":
    main()
