"""What is set: values of the controls and what was given beside them, as the parts of a spec; and back."""

import dataclasses
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenfield import config, measures
from tokenfield.errors import InputError
from tokenfield.flow import Flow
from tokenfield.lab.controls import (
    DENSITIES,
    EYES,
    HOTTEST,
    NO_NOISE,
    OWN,
    TOKENS,
    Control,
    attention_fields,
    controls,
    real,
)
from tokenfield.measures import Tokens
from tokenfield.spec import Spec

if TYPE_CHECKING:
    from tokenfield.measures import AbstractMeasure

LARGEST_LINK = 60_000
"""Bytes of what an address may hold."""
MOST_NUMBERS = 1500
"""Coordinates of tokens that an address may hold."""
MOST_LINKS = 500
"""Tokens that Krause's matrix of links may join on a page."""
START = ("preset", "measure", "n", "d", "seed", "rho", "k", "amplitude")
"""Controls that begin anew."""
FLOW = ("attention", "beta", "V", "heads", "causal", "normalization", "tau", "alpha", "mlp", "kappa")
"""Controls that change the flow, from where things stand."""


@dataclasses.dataclass
class Setting:
    """Values of the controls, and what was given beside them.

    - `values`: by the control's name.
    - `own`: parts of a spec that no control can say: a measure, an attention, a normalization, an mlp, a reweighting.
    - `start`: a measure that no spec can say, in place of the spec's.
    """

    presets: tuple[str, ...] = ()
    own: dict[str, Any] = dataclasses.field(default_factory=dict)
    start: "AbstractMeasure | None" = None
    values: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values = {name: control.value for name, control in self.controls.items()} | self.values

    @property
    def controls(self) -> dict[str, Control]:
        given = self.own if self.start is None else {**self.own, "measure": None}
        return controls(self.presets, given)

    def set(self, values: Mapping[str, Any]) -> set[str]:
        """Take over what the controls can take; which of them have changed."""
        known, changed = self.controls, set()
        for name, value in values.items():
            if name in known:
                new = known[name].read(value, self.values[name])
                if new != self.values[name]:
                    self.values[name] = new
                    changed.add(name)
        return changed

    # To a spec.

    def data(self, end: float = 1.0) -> dict[str, Any]:
        """The spec that is set, with this end of time.

        **Raises** `InputError` where the start is no spec's.
        """
        if self._given and "measure" not in self.own:
            raise InputError(
                "The start was given as numbers, which no spec can say. Download the data, and let the spec name that file: "
                'kind = "file".'
            )
        return {"measure": self.measure_data(), "flow": self.flow_data(), "time": self.time_data(end)}

    @property
    def _given(self) -> bool:
        return self.values["measure"] == OWN

    def measure(self) -> "AbstractMeasure":
        """The start."""
        if self._given and self.start is not None:
            return self.start
        data = self.measure_data()
        return measures.constructors()[data.pop("kind")](**data)

    def measure_data(self) -> dict[str, Any]:
        p, kind = self.values, self.values["measure"]
        if kind == OWN:
            return dict(self.own["measure"])
        if kind in TOKENS:
            return {"kind": kind, "n": p["n"], "d": p["d"], "seed": p["seed"]}
        if kind in DENSITIES:
            return {"kind": kind, "amplitude": p["amplitude"], "k" if kind == "circle_wave" else "l": p["k"]}
        if kind == "equiangular_measure":
            return {"kind": kind, "rho": p["rho"], "n": p["n"]}
        return {"kind": kind, "mean": [0.0] * p["d"], "cov": _covariance(p["d"], p["seed"]).tolist()}

    def flow(self) -> Flow:
        """The flow that is set. V is a number always, so that another one is no other program."""
        return self._flow(self.values)

    def widest(self) -> Flow:
        """The same flow at the largest β that the slider has."""
        return self._flow({**self.values, "beta": HOTTEST})

    def _flow(self, values: Mapping[str, Any]) -> Flow:
        data = self.flow_data(values, plain=False)
        return Flow(**{name: config.build(part) for name, part in data.items()})

    def flow_data(self, values: Mapping[str, Any] | None = None, plain: bool = True) -> dict[str, Any]:
        """The flow as plain data; `plain`: without what says nothing."""
        p = self.values if values is None else values
        data: dict[str, Any] = {"attention": self._attention(p, plain), "normalization": self._normalization(p)}
        if p["mlp"] != "none":
            data["mlp"] = self.own["mlp"] if p["mlp"] == OWN else {"kind": "mlp", "activation": p["mlp"]}
        if "reweighting" in self.own:
            data["reweighting"] = self.own["reweighting"]
        if p["kappa"] < NO_NOISE:
            data["kappa"] = p["kappa"]
        return data

    def _attention(self, p: Mapping[str, Any], plain: bool) -> dict[str, Any]:
        kind = p["attention"]
        fields = () if kind == OWN else attention_fields()[kind]
        if kind == OWN:
            one = dict(self.own["attention"])
        else:
            one = {"kind": kind} | ({"beta": p["beta"]} if "beta" in fields else {})
            v = p["V"] / p["heads"] if "Q" in fields else p["V"]
            one |= {"V": v} if "V" in fields and (v != 1 or not plain) else {}
            one |= {"P": _links(p["n"]).tolist()} if kind == "krause" else {}
        if p["heads"] > 1 and "Q" in fields:
            turned = lambda h: {} if h == 0 else {"Q": _turn(self._dimension(p), h).tolist()}
            one = {"kind": "multi_head", "heads": [{**one, **turned(h)} for h in range(p["heads"])]}
        return {"kind": "causal", "attention": one} if p["causal"] else one

    def _dimension(self, p: Mapping[str, Any]) -> int:
        if self._given:
            return int(getattr(self.measure(), "d", p["d"]))
        return {"circle_wave": 2, "sphere_wave": 3}.get(p["measure"]) or int(p["d"])

    def _normalization(self, p: Mapping[str, Any]) -> dict[str, Any]:
        kind = p["normalization"]
        if kind == OWN:
            return self.own["normalization"]
        return {"kind": kind} | {"mix_ln": {"tau": p["tau"]}, "ngpt": {"alpha": p["alpha"]}}.get(kind, {})

    def time_data(self, end: float) -> dict[str, Any]:
        p = self.values
        data: dict[str, Any] = {"end": end, "save": 200}
        if p["clock"] == "log":
            data["spacing"] = "log"
        if self.rtol is not None:
            data["rtol"] = self.rtol
        if p["coalesce"]:
            data["coalesce"] = 1e-5
        return data

    @property
    def rtol(self) -> float | None:
        """The tolerance that is asked for; None for the usual one, which with noise is no smaller than what eyes can see."""
        asked = self.values["rtol"]
        noisy = asked == EYES and self.values["kappa"] < NO_NOISE
        return None if asked == "usual" or noisy else float(asked)

    # Links: what an address holds.

    def link(self) -> dict[str, Any]:
        """What an address holds: values that differ from the usual ones, and parts that no control can say."""
        usual = self.controls
        p = {name: value for name, value in self.values.items() if value != usual[name].value}
        return {"p": p} | ({"own": self.own} if self.own else {}) | self._points()

    def _points(self) -> dict[str, Any]:
        """A start that is a few tokens of equal weight, as numbers."""
        mu: Any = self.start
        if not self._given or not hasattr(mu, "with_points") or mu.x.size > MOST_NUMBERS or mu.s is not None:
            return {}
        return {"points": np.asarray(mu.x).tolist()} if np.ptp(np.asarray(mu.w)) < 1e-12 else {}

    def follow(self, link: Any) -> None:
        """Take over what a link says. It is a stranger: parts are validated as a spec that names no files.

        **Raises** `InputError` where a part is none.
        """
        if not isinstance(link, dict):
            return
        own = link.get("own")
        if isinstance(own, dict) and own:
            self.own = checked_parts(own)
        if isinstance(link.get("points"), list):
            self.start = checked_points(link["points"])
        if isinstance(link.get("p"), dict):
            self.set(link["p"])


def of(flow: Flow, mu0: "AbstractMeasure", presets: tuple[str, ...] = ()) -> Setting:
    """The setting of a flow and a start: by controls where they can say it, else beside them.

    **Raises** `InputError` where a part of the flow is not one of the library's kinds.
    """
    data = config.encode(flow)
    if data is None:
        raise InputError(
            "The page shows flows made of the library's own kinds, with parameters that do not change with depth, but a part "
            f"of this one is not: {flow}."
        )
    setting = Setting(presets)
    setting.values["kappa"] = float(data.get("kappa", setting.values["kappa"]))
    _take_attention(setting, data["attention"])
    _take_part(setting, "normalization", data["normalization"], ("tau", "alpha"))
    for name in ("mlp", "reweighting"):
        if name in data:
            setting.own[name] = data[name]
    setting.values["mlp"] = OWN if "mlp" in data else "none"
    _take_measure(setting, mu0)
    return setting


def _take_attention(setting: Setting, data: dict[str, Any]) -> None:
    """Read the mask and the numbers of plain attention into controls; keep what else there is."""
    p = setting.values
    if data["kind"] == "causal" and set(data) == {"kind", "attention"}:
        p["causal"], data = True, data["attention"]
    if data["kind"] in attention_fields() and data["kind"] != "krause":
        _take_part(setting, "attention", data, ("beta", "V"))
    else:
        setting.own["attention"], p["attention"] = data, OWN


def _take_part(setting: Setting, part: str, data: dict[str, Any], numbers: tuple[str, ...]) -> None:
    """A part whose fields are numbers of controls, within their ends; else it is kept beside them."""
    known = setting.controls
    fits = lambda name: (
        name in numbers and isinstance(data[name], int | float) and known[name].read(data[name], None) == data[name]
    )
    if data["kind"] in known[part].options and all(
        name == "kind" or fits(name) or data[name] is False for name in data
    ):
        setting.values |= {name: data[name] for name in data if name in numbers} | {part: data["kind"]}
    else:
        setting.own[part], setting.values[part] = data, OWN


def _take_measure(setting: Setting, mu: "AbstractMeasure") -> None:
    origin, p, known = mu.origin, setting.values, setting.controls
    if origin is not None:
        origin = {name: value for name, value in origin.items() if not (name == "r" and value == 1.0)}
        numbers = {name: int(value) if name == "n" else value for name, value in origin.items() if name != "kind"}
        plain = all(name in known and known[name].read(value, None) == value for name, value in numbers.items())
        if plain and origin["kind"] in known["measure"].options:
            p |= numbers | {"measure": origin["kind"]}
            return
        setting.own["measure"] = origin
    setting.start, p["measure"] = mu, OWN


def checked_parts(own: Mapping[str, Any]) -> dict[str, Any]:
    """Parts of a spec that somebody sent, validated; files are not read for strangers.

    **Raises** `InputError` where a part is none, or names a file.
    """
    if len(json.dumps(own)) > LARGEST_LINK:
        raise InputError(f"The link holds more than {LARGEST_LINK} bytes. Use `tokenfield play SPEC` for large ones.")
    _refuse_files(own)
    parts = {name: own[name] for name in ("attention", "normalization", "mlp", "reweighting") if name in own}
    flow = {"attention": {"kind": "softmax"}, "normalization": {"kind": "free"}} | parts
    measure = own.get("measure") or {"kind": "uniform_sphere", "n": 2, "d": 2}
    whole = Spec.from_dict({"measure": measure, "flow": flow, "time": {"end": 1.0}})
    checked = {name: whole.data["flow"][name] for name in parts}
    if "measure" in own:
        whole._refuse_large()
        checked["measure"] = whole.data["measure"]
    return checked


def checked_points(points: list[Any]) -> Tokens:
    """Tokens at points that somebody sent.

    **Raises** `InputError` where they are none, or too many.
    """
    rows = all(isinstance(row, list) and 0 < len(row) <= 16 and all(real(v) for v in row) for row in points)
    if not rows or not 0 < len(points) <= MOST_NUMBERS:
        raise InputError(
            f"The points of a link are lists of at most 16 numbers each, {MOST_NUMBERS} of them in all at most."
        )
    return Tokens(points)


def _refuse_files(part: Any, key: str = "") -> None:
    """Refuse whatever might name a file: any text but that of kinds and activations."""
    if isinstance(part, Mapping):
        for name, value in part.items():
            _refuse_files(value, str(name))
    elif isinstance(part, list):
        for value in part:
            _refuse_files(value, key)
    elif isinstance(part, str) and (key not in ("kind", "activation") or part == "file"):
        raise InputError(
            f"A spec on the page may not name files, but {key} = {part[:60]!r} does. Start with it: tokenfield play SPEC."
        )


def _covariance(d: int, seed: int) -> np.ndarray:
    """That of 2d normal samples, to six digits."""
    samples = np.random.default_rng(seed).normal(size=(2 * d, d))
    return np.round(samples.T @ samples / (2 * d), 6)


def _links(n: int) -> np.ndarray:
    """Tokens on a ring, each of which sees a tenth of the others, those next to it."""
    if n > MOST_LINKS:
        raise InputError(
            f"Krause attention has a matrix of links between all tokens: on this page at most {MOST_LINKS} of them, not {n}."
        )
    width = max(1, n // 20)
    apart = np.abs(np.arange(n)[:, None] - np.arange(n))
    near = np.minimum(apart, n - apart) <= width
    return near / near.sum(axis=1, keepdims=True)


def _turn(d: int, head: int) -> np.ndarray:
    """A rotation for each head but the first."""
    q, r = np.linalg.qr(np.random.default_rng(head).normal(size=(d, d)))
    return np.round(q * np.sign(np.diag(r)), 15)
