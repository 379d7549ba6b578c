"""What is swept: how the flow, the start and the options of a member follow from its parameters."""

import abc
import copy
import dataclasses
import functools
import hashlib
import inspect
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tokenfield import config
from tokenfield.errors import CallError, InputError, short, suggest
from tokenfield.evolution.front import evolve
from tokenfield.evolution.task import Options, Task, read
from tokenfield.flow import Flow
from tokenfield.measures import AbstractMeasure
from tokenfield.spec import Spec
from tokenfield.trajectory import Trajectory

Values = Mapping[str, Any]
"""The parameters of a member, by their paths."""


class Study(abc.ABC):
    """A sweep without its grid. A parameter has a part in the "flow", in the "start", in both, in how a member is run ("how"), or
    is the seed of its noise ("noise")."""

    @abc.abstractmethod
    def parts(self, path: str) -> set[str]:
        """What a parameter has a part in. **Raises** `InputError` where there is no such parameter."""

    @abc.abstractmethod
    def flow(self, values: Values) -> Flow:
        """The flow of a member."""

    @abc.abstractmethod
    def start(self, values: Values) -> AbstractMeasure:
        """The start of a member."""

    @abc.abstractmethod
    def run(self, flow: Any, start: Any, values: Values, **more: Any) -> Trajectory:
        """Run members: one, or lists as `evolve` has them."""

    @abc.abstractmethod
    def task(self, flow: Flow, start: AbstractMeasure, values: Values) -> "Task | None":
        """What `evolve` would do with one member, read and checked but not done; None for layers."""

    @abc.abstractmethod
    def times(self, flow: Flow, start: AbstractMeasure, values: Values) -> np.ndarray:
        """The times at which states of a member are looked at."""

    @abc.abstractmethod
    def seed(self, values: Values) -> int | None:
        """The seed of the noise of all members; None where it is none of the options."""

    @abc.abstractmethod
    def describe(self, values: list[Values], over: Any) -> dict[str, Any]:
        """All that results depend on beside the grid, as plain data; `values` are those of a few members, `over` of all."""

    def only(self, part: str, values: Values) -> Values:
        """Those of the parameters that have a part in something."""
        return {path: value for path, value in values.items() if part in self.parts(path)}


@dataclasses.dataclass(frozen=True)
class SpecStudy(Study):
    """A spec with some of its fields varied."""

    data: dict[str, Any]
    folder: str

    @staticmethod
    def of(spec: Any) -> "SpecStudy":
        """From a spec, plain data, or the path of a TOML file."""
        loaded = spec if isinstance(spec, Spec) else Spec.from_dict(spec) if isinstance(spec, dict) else Spec.load(spec)
        data = {name: part for name, part in loaded.data.items() if name != "output"}
        return SpecStudy(data, str(loaded.folder))

    def parts(self, path: str) -> set[str]:
        known = {"flow": {"flow"}, "measure": {"start"}, "time": {"how"}, "layers": {"how"}}
        section = path.split(".")[0]
        if section not in known or "." not in path:
            raise InputError(
                f"--over {path}: there is no such field. A path begins with {', '.join(known)}, as a spec does."
            )
        if section in ("time", "layers") and section not in self.data:
            raise InputError(f"--over {path}: the spec has no section [{section}].")
        return {"noise"} if path == "time.seed" else known[section]

    def spec(self, values: Values) -> Spec:
        """The spec of a member."""
        data = copy.deepcopy(self.data)
        for path, value in values.items():
            *sections, field = path.split(".")
            here = data
            for key in sections:
                here = here.setdefault(key, {})
                if not isinstance(here, dict):
                    raise InputError(f"--over {path}: {key!r} is a value, not a section.")
            here[field] = value
        return Spec.from_dict(data, Path(self.folder))

    def flow(self, values: Values) -> Flow:
        return self.spec(self.only("flow", values)).flow()

    def start(self, values: Values) -> AbstractMeasure:
        return self.spec(self.only("start", values)).measure()

    def run(self, flow: Any, start: Any, values: Values, **more: Any) -> Trajectory:
        return self.spec(self.only("how", values)).moved(flow, start, **more)

    def task(self, flow: Flow, start: AbstractMeasure, values: Values) -> Task | None:
        spec = self.spec(self.only("how", values))
        if spec.time is None:
            return None
        return read(flow, start, (spec.time.start, spec.time.end), _options(**spec.options))

    def times(self, flow: Flow, start: AbstractMeasure, values: Values) -> np.ndarray:
        task = self.task(flow, start, values)
        if task is not None:
            return np.asarray(task.saves)
        layers = self.spec(self.only("how", values)).layers
        assert layers is not None
        count = min(layers.save or layers.depth + 1, layers.depth + 1)
        return (
            layers.step * np.unique(np.linspace(0, layers.depth, count).round())
            if count > 1
            else np.array([layers.depth])
        )

    def seed(self, values: Values) -> int | None:
        return self.data.get("time", {}).get("seed", 0) if "time" in self.data else None

    def describe(self, values: list[Values], over: Any) -> dict[str, Any]:
        named = _files([self.data, [self.spec({path: one}).data for path, one in _words(over)]])
        files = {path: _digest(Path(path).read_bytes()) for path in named}
        return {"spec": self.data, **({"files": files} if files else {})}


@dataclasses.dataclass(frozen=True)
class PythonStudy(Study):
    """A flow and a start, each given or a function of some of the parameters, and the arguments of `evolve`."""

    made_flow: Any
    made_start: Any
    t: Any
    options: dict[str, Any]

    @functools.cached_property
    def names(self) -> dict[str, list[str]]:
        """The parameters of the two functions."""
        return {
            "flow": _parameters("flow", self.made_flow, Flow),
            "start": _parameters("mu0", self.made_start, AbstractMeasure),
        }

    def parts(self, path: str) -> set[str]:
        found = {part for part, names in self.names.items() if path in names}
        if found:
            return found
        if path in HOW:
            return {"noise"} if path == "seed" else {"how"}
        known = [*self.names["flow"], *self.names["start"], *HOW]
        raise InputError(
            f"Neither the flow, nor the start, nor `evolve` has a parameter {path!r}. {suggest(path, known)}"
        )

    def flow(self, values: Values) -> Flow:
        return self._made("flow", self.made_flow, values, Flow)

    def start(self, values: Values) -> AbstractMeasure:
        return self._made("start", self.made_start, values, AbstractMeasure)

    def _made(self, part: str, make: Any, values: Values, kind: type) -> Any:
        if isinstance(make, kind):
            return make
        made = make(**{name: values[name] for name in self.names[part] if name in values})
        if not isinstance(made, kind):
            raise InputError(f"The function for the {part} must give a {kind.__name__}, but gave {short(made)}.")
        return made

    def run(self, flow: Any, start: Any, values: Values, **more: Any) -> Trajectory:
        how = {**self.options, **self.only("how", values)}
        return evolve(flow, start, how.pop("t", self.t), **{**how, **more})

    def task(self, flow: Flow, start: AbstractMeasure, values: Values) -> Task | None:
        how = {**self.options, **self.only("how", values)}
        return read(flow, start, how.pop("t", self.t), _options(**how))

    def times(self, flow: Flow, start: AbstractMeasure, values: Values) -> np.ndarray:
        task = self.task(flow, start, values)
        assert task is not None
        return np.asarray(task.saves)

    def seed(self, values: Values) -> int | None:
        return self.options.get("seed") or 0

    def describe(self, values: list[Values], over: Any) -> dict[str, Any]:
        members = [{"flow": _flow(self.flow(one)), "start": _start(self.start(one))} for one in values]
        return {
            "t": _plain(self.t),
            "options": {name: _plain(value) for name, value in self.options.items()},
            "members": members,
        }


HOW = ("t", "rtol", "atol", "max_steps", "step", "solver", "summation", "coalesce", "save", "seed")
"""Arguments of `evolve` that may vary in a sweep."""


def _options(**given: Any) -> Options:
    """The options of `evolve` with those that were given."""
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(evolve).parameters.items()
        if name in {field.name for field in dataclasses.fields(Options)}
    }
    return Options(**{**defaults, **given})


def _parameters(name: str, made: Any, kind: type) -> list[str]:
    if isinstance(made, kind):
        return []
    if not callable(made):
        raise InputError(
            f"Argument `{name}` must be a {kind.__name__.removeprefix('Abstract')}, or a function of parameters that gives one, "
            f"but is {short(made)}."
        )
    try:
        return list(inspect.signature(made).parameters)
    except (TypeError, ValueError):
        raise InputError(
            f"The parameters of `{name}` cannot be seen: write it as a function, e.g. with lambda."
        ) from None


# What results depend on, as plain data


def _flow(flow: Flow) -> Any:
    known = config.encode(flow)
    return repr(flow) if known is None else known


def _start(start: AbstractMeasure) -> dict[str, Any]:
    digest = _digest(b"".join(np.ascontiguousarray(array).tobytes() for array in start.arrays.values()))
    return {"kind": type(start).__name__, "numbers": digest}


def _plain(value: Any) -> Any:
    """An argument as plain data: functions and solvers by name."""
    if isinstance(value, bool | int | float | str | type(None)):
        return value
    if isinstance(value, Iterable):
        return np.asarray(value).tolist()
    return getattr(value, "__qualname__", type(value).__qualname__)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _words(over: Any) -> list[tuple[str, str]]:
    """Values that are names of files of numbers, with their parameters."""
    pairs = [(path, one) for path, values in over.items() for one in values]
    return [(path, one) for path, one in pairs if isinstance(one, str) and one.endswith((".npy", ".npz"))]


def _files(data: Any) -> list[str]:
    """Names of files of numbers in a spec."""
    text = json.dumps(data)
    found: list[str] = []

    def look(part: Any) -> None:
        if isinstance(part, dict | list):
            for one in part.values() if isinstance(part, dict) else part:
                look(one)
        elif isinstance(part, str) and part.endswith((".npy", ".npz")) and Path(part).is_file():
            found.append(part)

    if ".np" in text:
        look(data)
    return sorted(set(found))


def study_of(what: Any, mu0: Any, t: Any, options: dict[str, Any]) -> Study:
    """The study that the arguments of `sweep` mean.

    **Arguments**

    - `what`: a spec, or a flow, or a function that gives flows.
    - `mu0`, `t`, `options`: for flows alone.

    **Returns** the study.

    **Raises** `InputError` where they are something else.
    """
    if isinstance(what, Spec | dict | str | Path):
        given = [name for name, value in {"mu0": mu0, "t": t, **options}.items() if value is not None]
        if given:
            raise InputError(
                f"A spec says everything itself; {', '.join(given)} cannot be given besides. Write it into the spec."
            )
        return SpecStudy.of(what)
    if mu0 is None or t is None:
        raise InputError("A sweep of flows needs a start and an end time: sweep(flow, mu0, t, over=...).")
    unknown = [name for name in options if name not in (*HOW, "until", "clock", "refine")]
    if unknown:
        raise CallError(
            f"A sweep has no option {unknown[0]!r}. {suggest(unknown[0], (*HOW, 'until', 'clock', 'refine'))}"
        )
    study = PythonStudy(what, mu0, t, options)
    _ = study.names
    return study
