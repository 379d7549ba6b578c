"""One description of a run, in TOML or as a dict: measure, flow, time, output. Bad fields are refused with their line."""

import copy
import dataclasses
import functools
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pydantic

from tokenfield import _files
from tokenfield.errors import InputError, short
from tokenfield.spec import toml
from tokenfield.spec.fields import Layers, Output, Time, mistake_text, spec_model
from tokenfield.spec.files import one_array, tokens_from_file
from tokenfield.spec.template import TEMPLATE as TEMPLATE

if TYPE_CHECKING:
    from tokenfield.flow import Flow
    from tokenfield.measures import AbstractMeasure
    from tokenfield.trajectory import Trajectory


MOST_REPORTS = 20
"""How many mistakes are reported."""


class SpecError(InputError):
    """A spec that cannot be read or used; one line a mistake."""


@dataclasses.dataclass(frozen=True)
class Spec:
    """A validated description of a run.

    >>> spec = Spec.from_dict({
    ...     "measure": {"kind": "orthonormal", "n": 8},
    ...     "flow": {"attention": {"kind": "softmax", "beta": 2.0}, "normalization": {"kind": "post_ln"}},
    ...     "time": {"end": 5.0, "save": 10},
    ... })
    >>> spec.flow()
    Flow: Softmax(beta=2) attention, PostLN normalization
    >>> spec.run().x.shape
    (10, 8, 8)
    """

    data: dict[str, Any]
    time: Time | None
    layers: Layers | None
    output: Output
    folder: Path
    blame: "Callable[[Iterable[str | int], str], str]" = dataclasses.field(repr=False, compare=False)
    lists: tuple[tuple[str, ...], ...] = ()
    """Fields that were overridden by lists."""

    @staticmethod
    def from_dict(data: dict[str, Any], folder: Path | None = None) -> "Spec":
        """A spec from plain data.

        **Arguments**

        - `data`: sections by name, as in a TOML file.
        - `folder`: what file names in it are relative to; the current folder when left out.

        **Returns** the spec, validated.

        **Raises** `SpecError` where a field is missing, unknown, or not what it should be.
        """
        blame = lambda where, what: f"{'.'.join(map(str, where))}: {what}"
        try:
            return _validated(copy.deepcopy(data), folder or Path(), blame)
        except RecursionError:
            raise SpecError("The spec is nested too deeply.") from None

    @staticmethod
    def load(path: str | Path, overrides: Iterable[str] = ()) -> "Spec":
        """A spec from a TOML file.

        **Arguments**

        - `path`: the file.
        - `overrides`: changes on top, such as "flow.attention.beta=4".

        **Returns** the spec, validated.

        **Raises** `SpecError` where the file cannot be read, is no TOML, or has a field that is not what it should be, with its
        line.
        """
        path = Path(path)
        try:
            text = _files.read(path, toml.LARGEST).decode("utf-8")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            reason = "it is not text" if isinstance(error, UnicodeDecodeError) else reason or str(error)
            raise SpecError(
                f"The spec {path} cannot be read: {reason}. `tokenfield new` prints one to start from."
            ) from None
        try:
            data = toml.parsed(text)
        except (ValueError, RecursionError) as error:
            line = re.search(r"line (\d+)", str(error))
            raise SpecError(f"{path}:{line[1] if line else 'end'}: not valid TOML: {str(error)[:200]}.") from None
        changes = dict(_override(data, change) for change in overrides)
        changed, lines = list(changes), toml.lines(text)

        def blame(where: Iterable[str | int], what: str) -> str:
            keys = tuple(str(key) for key in where)
            if any(keys[: len(change)] == change or change[: len(keys)] == keys for change in changed):
                return f"--set {'.'.join(keys)}: {what}"
            line = next((lines[keys[:k]] for k in range(len(keys), 0, -1) if keys[:k] in lines), None)
            return f"{path}{f':{line}' if line else ''}: {'.'.join(keys)}: {what}"

        lists = tuple(keys for keys, value in changes.items() if isinstance(value, list | dict))
        return dataclasses.replace(_validated(data, path.parent, blame), lists=lists)

    def measure(self) -> "AbstractMeasure":
        """The measure that the spec describes.

        **Returns** the start of the run.

        **Raises** `SpecError` where its constructor refuses what the spec says, with the line.
        """
        from tokenfield import measures

        with _blaming(self, "measure"):
            arguments = self._arguments("measure")
            make = {**measures.constructors(), "file": functools.partial(tokens_from_file, folder=self.folder)}
            return make[arguments.pop("kind")](**arguments)

    def flow(self) -> "Flow":
        """The flow that the spec describes.

        **Returns** the flow.

        **Raises** `SpecError` where a part refuses what the spec says, with the line.
        """
        from tokenfield import config
        from tokenfield.flow import Flow

        parts = {}
        for name in self.data["flow"]:
            with _blaming(self, "flow", name):
                parts[name] = config.build(self._arguments("flow", name))
        self._refuse_layers(parts)
        return Flow(**parts)

    def _refuse_layers(self, parts: dict[str, Any]) -> None:
        """A list on the command line looks like several runs, or like a vector. It must not become one value per layer."""
        from tokenfield.parameters import scheduled

        for keys in self.lists:
            part = parts if keys[0] == "flow" else None
            for key in keys[1:]:
                part = part.get(key) if isinstance(part, dict) else getattr(part, key, None)
            if scheduled(part):
                raise SpecError(
                    f"--set {'.'.join(keys)}: one value is expected, but a list came, which would mean one value per layer. "
                    "Write such lists into the spec itself; for several runs, run it once for each value."
                )

    def run(self, *, progress: bool | None = None, watch: Any = None) -> "Trajectory":
        """Make the measure and the flow, and evolve.

        **Arguments**

        - `progress`, `watch`: as `evolve` has them.

        **Returns** the run, which knows its spec.

        **Raises** `SpecError` where parts do not fit each other or the machine, with the line.
        """
        self._refuse_large()
        flow, measure = self.flow(), self.measure()
        self._check(flow, measure)
        with _blaming(self, "time" if self.time is not None else "layers"):
            run = self.moved(flow, measure, progress=progress, watch=watch)
        return dataclasses.replace(run, provenance=dataclasses.replace(run.provenance, spec=self.data))

    def moved(self, flow: Any, measure: Any, **more: Any) -> "Trajectory":
        """Evolve for the time, or through the layers, that the spec says.

        **Arguments**

        - `flow`, `measure`: one each, or lists, as `evolve` takes them.
        - `more`: what `evolve` is asked for besides; `layers` has none of it but `zipped`.

        **Returns** the run, or the batch of runs.
        """
        from tokenfield.evolution import evolve, layers

        if self.time is None:
            assert self.layers is not None
            depth, step, save = self.layers.depth, self.layers.step, self.layers.save
            return layers(flow, measure, depth, step, save=save, zipped=more.get("zipped", False))
        return evolve(flow, measure, (self.time.start, self.time.end), **{**self.options, **more})

    @property
    def options(self) -> dict[str, Any]:
        """What `evolve` is asked for, beside the end time."""
        from tokenfield.evolution import collapsed

        time = self.time
        assert time is not None
        return {
            "save": time.saved,
            "until": collapsed if time.until == "collapsed" else None,
            "solver": time.solver,
            "rtol": time.rtol,
            "atol": time.atol,
            "max_steps": time.max_steps,
            "summation": time.summation,
            "coalesce": time.coalesce,
            "clock": time.clock,
            "step": time.step,
            "seed": time.seed,
        }

    def _refuse_large(self) -> None:
        """Before anything is made: the states that are to be kept fit into memory."""
        part, asked = ("time", self.time) if self.time is not None else ("layers", self.layers)
        assert asked is not None
        saved = asked.save if asked.save is not None else self.data["layers"]["depth"] + 1
        states = len(saved) if isinstance(saved, list) else saved
        state = 8 * math.prod(self.data["measure"].get(name) or 1 for name in ("n", "d"))
        have = _files.memory()
        for size, where, what in (
            (state, ("measure", "n"), "one state"),
            (state * states, (part, "save"), f"{states} states"),
        ):
            if size > have:
                sizes = f"would take {size / 1e9:.3g} GB, but there are {have / 1e9:.3g} GB of memory"
                raise SpecError(self.blame(where, f"{what} {sizes}. Ask for fewer."))

    def _check(self, flow: "Flow", measure: "AbstractMeasure") -> None:
        """Let each part of the spec answer for itself."""
        from tokenfield.evolution.motions import motion_for

        if measure.ambient is not None:
            with _blaming(self, "flow", "attention"):
                flow.attention.check(measure.ambient)
            with _blaming(self, "flow"):
                flow.check(measure.ambient)
        with _blaming(self, "measure"):
            motion_for(flow, type(measure)).settle(flow, measure)

    def to_toml(self) -> str:
        """The spec with every default filled in.

        **Returns** its text, as TOML.
        """
        import tomli_w

        return tomli_w.dumps(self.data)

    def _arguments(self, *path: str) -> Any:
        return self._with_files(functools.reduce(lambda data, key: data[key], path, self.data))

    def _with_files(self, part: Any) -> Any:
        """Names of files replaced by the numbers in them, however deep."""
        if isinstance(part, dict):
            words = ("kind", "path", "activation")
            return {
                k: one_array(v, self.folder) if isinstance(v, str) and k not in words else self._with_files(v)
                for k, v in part.items()
            }
        return [self._with_files(one) for one in part] if isinstance(part, list) else part


class _blaming:
    """Turn what a constructor refuses into a mistake of the spec, with its line."""

    def __init__(self, spec: Spec, *where: str):
        self.spec, self.where = spec, where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, InputError) and not isinstance(error, SpecError):
            named = re.search(r"`(\w+)`", str(error))
            where = (*self.where, named[1]) if named else self.where
            raise SpecError(self.spec.blame(where, str(error))) from None


def _validated(data: dict[str, Any], folder: Path, blame: Any) -> Spec:
    try:
        model: Any = spec_model().model_validate(data)
    except pydantic.ValidationError as error:
        mistakes = error.errors()
        reports = [mistake_text(data, mistake, blame) for mistake in mistakes[:MOST_REPORTS]]
        more = [f"and {len(mistakes) - MOST_REPORTS} more."] if len(mistakes) > MOST_REPORTS else []
        raise SpecError("\n".join([*reports, *more])) from None
    if (model.time is None) == (model.layers is None):
        raise SpecError(
            blame(
                ("time",),
                "this field is missing: a spec has either [time], for a flow, or [layers], for discrete depth.",
            )
        )
    return Spec(
        _absolute(model.model_dump(exclude_none=True), folder), model.time, model.layers, model.output, folder, blame
    )


def _absolute(part: Any, folder: Path) -> Any:
    """Names of files from anywhere: a spec that is written elsewhere still finds them."""
    if isinstance(part, dict):
        return {key: _absolute(value, folder) for key, value in part.items()}
    if isinstance(part, list):
        return [_absolute(one, folder) for one in part]
    if not isinstance(part, str) or not part.endswith((".npy", ".npz")):
        return part
    try:
        return str((folder / part).resolve())
    except (OSError, RuntimeError, ValueError):  # no name of a file, as reading it will tell
        return part


def _override(data: dict[str, Any], change: str) -> tuple[tuple[str, ...], Any]:
    """Apply "flow.attention.beta=4" and return its path and the value."""
    path, equals, text = change.partition("=")
    keys = tuple(path.strip().split("."))
    if not equals or not all(keys) or len(keys) > toml.DEEPEST:
        raise SpecError(f"--set needs field=value, e.g. --set flow.attention.beta=4, but got {short(change)}.")
    try:
        value = toml.parsed(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = text.strip()
    here = data
    for key in keys[:-1]:
        here = here.setdefault(key, {})
        if not isinstance(here, dict):
            raise SpecError(f"--set {short(path)[1:-1]}: {key!r} is a value, not a section.")
    here[keys[-1]] = value
    return keys, value
