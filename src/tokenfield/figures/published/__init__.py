"""The figures of the literature, one file each. They use the public names alone; none loads JAX before it computes."""

import functools
import json
from pathlib import Path

import lazy_loader

from tokenfield.errors import InputError, suggest
from tokenfield.figures.base import Figure

NAMES: tuple[str, ...] = (
    "phase-diagram",
    "equiangular-rates",
    "normalization",
    "staircase",
    "kinetic",
    "sphere",
    "low-rank-attention",
    "taxonomy",
    "mlp",
    "gaussian-cone",
    "gaussian-variants",
    "gaussian-rank",
    "lipschitz",
    "long-context",
    "early-clusters",
    "kde-modes",
    "causal-centres",
    "bifurcation",
    "chaos",
    "discrete-vs-continuous",
)
"""All of them, in the order of the gallery. The file of each has its name, with underscores, and its class as `FIGURE`."""

_load, __dir__, _ = lazy_loader.attach(__name__, submodules={name.replace("-", "_") for name in NAMES})

MEASURED = Path(__file__).with_name("durations.json")
"""How many seconds each took, small and published, on two cores; the command that makes the gallery writes it."""


def find(name: str) -> type[Figure]:
    """The figure of this name.

    **Arguments**

    - `name`: one of `NAMES`.

    **Returns** its class.

    **Raises** `InputError` where there is none, with the nearest.
    """
    if name not in NAMES:
        raise InputError(f"There is no figure {name!r}. {suggest(name, NAMES)}")
    return _load(name.replace("-", "_")).FIGURE


@functools.cache
def durations() -> dict[str, dict[str, float]]:
    """How long each took when it was last measured: {"sphere": {"small": 2.1, "published": 8.0}, ...}."""
    return json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}
