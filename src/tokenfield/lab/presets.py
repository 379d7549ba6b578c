"""Published examples by name: the parameters of the figures, as settings of the page."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from tokenfield.figures.published.kinetic import START, Kinetic
from tokenfield.figures.published.staircase import UNIT, Staircase
from tokenfield.lab.controls import OWN
from tokenfield.lab.setting import Setting
from tokenfield.measures import Tokens

PANELS = ("energy", "clusters", "overlaps", "attention")


@dataclasses.dataclass(frozen=True)
class Preset:
    """An example: what it shows and who published it, the values of controls, parts that no control can say, the angles of tokens
    on the circle where these are the start, and the panels to look at."""

    shows: str
    values: Mapping[str, Any]
    own: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    points: np.ndarray | None = None
    panels: tuple[str, ...] = PANELS


_BOX = {"kind": "uniform_box", "n": 40, "d": 2, "low": -5.0, "high": 5.0, "seed": 0}
_LINE = {"kind": "softmax", "A": [[-1.0, 0.0], [0.0, 0.0]]}

PRESETS: dict[str, Preset] = {
    "sphere": Preset(
        "64 tokens on the sphere at β = 9: several clusters that live long [geshkovski2025].",
        {"n": 64, "beta": 9.0},
    ),
    "sphere at β = 1": Preset("The same tokens at β = 1 meet at once [geshkovski2025].", {"n": 64, "beta": 1.0}),
    "metastable clusters": Preset(
        "1,000 tokens at β = 9, in equal ratios of time: mergers come ever later [geshkovski2024].",
        {"n": 1000, "beta": 9.0, "clock": "log"},
    ),
    "kinetic": Preset(
        "Five tokens on the circle: three meetings come soon, the last much later [geshkovski2024].",
        {"beta": Kinetic().beta, "clock": "log", "measure": OWN},
        points=np.asarray(START),
    ),
    "staircase": Preset(
        "Five tokens at β = 1000: the energy climbs a staircase, one step a merger [rigollet2025].",
        {"attention": OWN, "measure": OWN, "clock": "log", "coalesce": True, "speed": 5.0},
        {"attention": {"kind": "unnormalized", "beta": 1000.0, "scaled": True}},
        np.stack([f(UNIT * np.asarray(Staircase().angles)) for f in (np.cos, np.sin)], axis=1),
    ),
    "early clusters": Preset(
        "On the circle the first clusters are as many as the fastest harmonic has crests, √(2β) [bruno2025].",
        {"n": 5000, "d": 2, "beta": 50.0},
    ),
    "early clusters of a density": Preset(
        "The same from a density with ten small crests [bruno2025].",
        {"measure": "circle_wave", "k": 10, "amplitude": 0.01, "beta": 50.0},
        panels=("entropy", "energy"),
    ),
    "synchronization": Preset(
        "Noisy Kuramoto oscillators, above their threshold: they gather, and stay a cloud [rigollet2025].",
        {"n": 1000, "d": 2, "attention": "unnormalized", "beta": 0.0, "kappa": 6.0},
        panels=("order", "overlaps", "energy"),
    ),
    "causal centres": Preset(
        "Under causal attention tokens gather at Rényi centres, which the start alone decides [karagodin2024].",
        {"n": 200, "d": 2, "beta": 64.0, "causal": True, "clock": "log"},
        panels=("clusters", "overlaps", "attention"),
    ),
    "equiangular": Preset(
        "Tokens at one common angle, from orthogonal: 1 - ρ falls like e^(-2t) under Post-LN [rigollet2025].",
        {"measure": "equiangular_measure", "n": 128, "rho": 0.0, "beta": 1.0},
        panels=("rho",),
    ),
    "Gaussian in its cone": Preset(
        "A covariance tends to the edge of the cone: the Gaussian becomes a line [castin2025].",
        {"measure": "gaussian_measure", "d": 2, "attention": OWN, "normalization": "free", "view": "cone"},
        {"attention": _LINE},
        panels=("spectrum", "rank"),
    ),
    "vertices": Preset(
        "In space, rescaled by e^(-t): tokens tend to the vertices of a polytope [geshkovski2023].",
        {"measure": OWN, "beta": 1.0, "normalization": "rescaled"},
        {"measure": _BOX},
        panels=("clusters", "attention", "rank"),
    ),
    "MLP around attention": Preset(
        "The same with an MLP around attention, σ = tanh [stein2025].",
        {"measure": OWN, "beta": 1.0, "normalization": "rescaled", "mlp": OWN},
        {"measure": _BOX, "mlp": {"kind": "mlp", "activation": "tanh", "around": True}},
        panels=("clusters", "attention", "rank"),
    ),
    "high dimension": Preset(
        "32 tokens in 16 dimensions become one cluster; Pre-LN is slower than Post-LN [rigollet2025].",
        {"n": 32, "d": 16, "beta": 4.0, "normalization": "pre_ln", "clock": "log"},
        panels=("overlaps", "rank", "attention"),
    ),
}
"""The examples, by name."""

NAMES = tuple(PRESETS)


def preset(name: str) -> Setting:
    """The setting of an example.

    **Arguments**

    - `name`: one of `NAMES`.

    **Returns** a new setting.
    """
    one = PRESETS[name]
    start = None if one.points is None else Tokens(one.points)
    return Setting(NAMES, dict(one.own), start, {**one.values, "preset": name})
