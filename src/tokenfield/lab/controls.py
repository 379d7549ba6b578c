"""Controls: what may be set on the page. Whatever somebody sends, a value is one of the menu's, or within the slider's ends."""

import abc
import dataclasses
import functools
import inspect
from collections.abc import Mapping
from typing import Any

TOKENS = ("uniform_sphere", "gaussian", "uniform_box")
DENSITIES = ("circle_wave", "sphere_wave")
MOST = 20_000
"""The most tokens of a page."""
HOTTEST = 64.0
"""The largest β of the slider; fast sums are made for it."""
NO_NOISE = 9999.0
"""The κ from which on there is no noise: the right end of the slider."""
EYES = "1e-4"
"""The tolerance of steps, if nobody asks for another: what eyes can see."""
OWN = "own"
"""The option of what was given and has no control of its own."""


def real(value: Any) -> bool:
    """Whether something that somebody sent is a number of the machine's."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


@dataclasses.dataclass(frozen=True)
class Control(abc.ABC):
    """A control, as the page is told of it. `when` says for which values of others it is shown."""

    id: str
    label: str
    group: str
    value: Any
    help: str = ""
    when: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    options: tuple[str, ...] = ()

    @abc.abstractmethod
    def read(self, value: Any, before: Any) -> Any:
        """The value that somebody has sent as this control can take it; else the one before."""

    def told(self) -> dict[str, Any]:
        """What the page is told: no field that says nothing."""
        data = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        empty = lambda value: value is None or value is False or value in ("", {}, ())
        return {name: value for name, value in data.items() if name == "value" or not empty(value)}


@dataclasses.dataclass(frozen=True)
class Menu(Control):
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def read(self, value: Any, before: Any) -> Any:
        return value if isinstance(value, str) and value in self.options else before


@dataclasses.dataclass(frozen=True)
class Range(Control):
    min: float = 0.0
    max: float = 1.0
    step: float | None = None
    log: bool = False
    whole: bool = False
    off: float | None = None

    def read(self, value: Any, before: Any) -> Any:
        if not real(value):
            return before
        value = min(max(float(value), self.min), self.max)
        return round(value) if self.whole else value


@dataclasses.dataclass(frozen=True)
class Switch(Control):
    switch: bool = True

    def read(self, value: Any, before: Any) -> Any:
        return value if isinstance(value, bool) else before


def controls(presets: tuple[str, ...], own: Mapping[str, Any]) -> dict[str, Control]:
    """All controls of a page, by name.

    **Arguments**

    - `presets`: the names of the examples.
    - `own`: what was given beside the controls, by part: a measure, an attention, ...

    **Returns** them in the order in which they are shown.
    """
    listed = [*_start(presets, own), *_flow(own), *_time()]
    return {control.id: control for control in listed}


def _start(presets: tuple[str, ...], own: Mapping[str, Any]) -> list[Control]:
    measures = {
        "uniform_sphere": "tokens, uniform on the sphere",
        "gaussian": "tokens, normal in space",
        "uniform_box": "tokens, uniform in a box",
        "gaussian_measure": "a Gaussian",
        "equiangular_measure": "equiangular tokens",
        "circle_wave": "a density on the circle",
        "sphere_wave": "a density on the sphere",
    } | ({OWN: "as given"} if "measure" in own else {})
    counted, placed = (*TOKENS, "equiangular_measure"), (*TOKENS, "gaussian_measure")
    waves = {"measure": DENSITIES}
    return [
        Menu(
            "preset", "example", "start", OWN, "A published example.", options=(OWN, *presets), names={OWN: "of my own"}
        ),
        _menu("measure", "what moves", "start", "uniform_sphere", measures),
        Range("n", "tokens n", "start", 500, when={"measure": counted}, min=1, max=MOST, log=True, whole=True),
        Range("d", "dimension d", "start", 3, when={"measure": placed}, min=2, max=16, step=1, whole=True),
        Range(
            "seed", "seed", "start", 0, "Which random start.", {"measure": placed}, min=0, max=99, step=1, whole=True
        ),
        Range(
            "rho", "cosine ρ", "start", 0.0, when={"measure": ("equiangular_measure",)}, min=-0.2, max=0.95, step=0.01
        ),
        Range("k", "waves k", "start", 3, when=waves, min=1, max=12, step=1, whole=True),
        Range("amplitude", "amplitude", "start", 0.1, when=waves, min=0.01, max=0.9, step=0.01),
    ]


def _flow(own: Mapping[str, Any]) -> list[Control]:
    attentions = {name: name.replace("_", " ") for name in attention_fields()}
    attentions |= {OWN: "as given"} if "attention" in own else {}
    schemes = {
        "post_ln": "Post-LN: the sphere",
        "pre_ln": "Pre-LN",
        "peri_ln": "Peri-LN",
        "mix_ln": "Mix-LN",
        "ngpt": "nGPT",
        "sqrt_scaling": "sqrt scaling",
        "free": "none: free space",
        "rescaled": "rescaled",
        "trace_norm": "trace",
    } | ({OWN: "as given"} if "normalization" in own else {})
    blocks = {"none": "none", "tanh": "tanh", "relu": "ReLU", "gelu": "GELU"} | (
        {OWN: "as given"} if "mlp" in own else {}
    )
    takes = lambda field: {"attention": tuple(name for name, fields in attention_fields().items() if field in fields)}
    return [
        _menu("attention", "attention", "flow", "softmax", attentions),
        Range("beta", "inverse temperature β", "flow", 9.0, when=takes("beta"), min=0, max=HOTTEST, step=0.25),
        Range("V", "values V = v I", "flow", 1.0, "Negative values repel.", takes("V"), min=-2, max=2, step=0.25),
        Range(
            "heads",
            "heads",
            "flow",
            1,
            "The first head asks as tokens are, the others in frames that are turned at random.",
            takes("Q"),
            min=1,
            max=8,
            step=1,
            whole=True,
        ),
        Switch("causal", "causal", "flow", False, "A token sees those before it alone."),
        _menu("normalization", "normalization", "flow", "post_ln", schemes),
        Range("tau", "changes at τ", "flow", 2.0, when={"normalization": ("mix_ln",)}, min=0.1, max=20, log=True),
        Range("alpha", "step α", "flow", 1.0, when={"normalization": ("ngpt",)}, min=0.1, max=4, step=0.1),
        _menu("mlp", "MLP", "flow", "none", blocks),
        Range(
            "kappa",
            "noise √(2/κ): κ",
            "flow",
            10_000.0,
            "At the right end there is no noise.",
            min=0.5,
            max=10_000.0,
            log=True,
            off=NO_NOISE,
        ),
    ]


def _time() -> list[Control]:
    return [
        _menu("clock", "clock", "time", "linear", {"linear": "equal times", "log": "equal ratios of time"}),
        Range(
            "speed",
            "speed",
            "time",
            1.0,
            "Units of time a second; in equal ratios, e-folds of time a second.",
            min=0.02,
            max=20,
            log=True,
        ),
        Menu(
            "rtol",
            "tolerance",
            "time",
            EYES,
            "Of every step. The usual one is what evolve takes.",
            options=("1e-3", EYES, "1e-6", "1e-9", "usual"),
        ),
        Switch(
            "coalesce",
            "merge tokens that have met",
            "time",
            False,
            "For late times, with equal ratios of time.",
            {"measure": (*TOKENS, OWN)},
        ),
        _menu(
            "view",
            "seen as",
            "time",
            "ellipse",
            {"ellipse": "ellipse", "cone": "point of the cone of covariances"},
            {"measure": ("gaussian_measure", OWN)},
        ),
    ]


def _menu(
    name: str,
    label: str,
    group: str,
    value: str,
    names: Mapping[str, str],
    when: Mapping[str, tuple[str, ...]] | None = None,
) -> Menu:
    return Menu(name, label, group, value, when=when or {}, options=tuple(names), names=names)


@functools.cache
def attention_fields() -> dict[str, tuple[str, ...]]:
    """The kernels by name, and which parameters each has. Heads and masks are controls of their own."""
    from tokenfield import attention

    wraps = ("multi_head", "causal")
    signature = lambda make: tuple(inspect.signature(make.__init__).parameters)[1:]
    return {name: signature(make) for name, make in attention.KINDS.items() if name not in wraps}
