"""One description of a run, in TOML or as a dict: measure, flow, time, output. Bad fields are refused with their line.

The fields of every measure, attention and normalization come from the signatures of their constructors, so that a new
kind is in the spec as soon as it is in its room's `KINDS`.
"""

import copy
import dataclasses
import functools
import inspect
import re
import tomllib
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import numpy as np
import pydantic

from tokenfield.errors import InputError, suggest

if TYPE_CHECKING:
    from tokenfield.flow import Flow
    from tokenfield.measures import Tokens
    from tokenfield.trajectory import Trajectory

TEMPLATE = """\
# A run of tokenfield: what moves, along which flow, for how long, and what to keep.
# Run it:  tokenfield run spec.toml --out out/mine

[measure]
kind = "uniform_sphere"     # or gaussian, uniform_box, orthonormal, equiangular, file
n = 500                     # number of tokens
d = 3                       # dimension: tokens live in R^d, here on the sphere S²
seed = 0
# kind = "file"             # tokens of your own: an .npy of shape (n, d), or an .npz with x and, if you like, w and s
# path = "tokens.npy"

[flow.attention]
kind = "softmax"            # or unnormalized, l2, sinkhorn, sigmoid, linear, relu, hardmax, additive, krause, mean_shift
beta = 9.0                  # inverse temperature; a list has one value a layer
# Q = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]    # matrices: rows, a number c for c times the identity, or "Q.npy"
# V = -1.0
# Several heads:   kind = "multi_head"   heads = [{kind = "softmax", beta = 1.0}, {kind = "l2", beta = 4.0}]
# A causal mask:   kind = "causal"       attention = {kind = "softmax", beta = 9.0}

[flow.normalization]
kind = "post_ln"            # the sphere; or free, rescaled, pre_ln, peri_ln, mix_ln (tau), ngpt (alpha), sqrt_scaling

# [flow.mlp]                # beside attention, or around it
# activation = "relu"
# around = true
# [flow.reweighting]        # Fisher-Rao: weights evolve
# rate = 1.0

[time]
end = 20.0
save = 200                  # how many states to keep, or a list of times
spacing = "linear"          # or log: equal ratios, for stories that slow down
# until = "collapsed"       # stop when there is one cluster
# solver = "tsit5"          # or dopri5, dopri8, kvaerno5 (implicit)
# rtol = 1e-6
# max_steps = 100000

# [layers]                  # instead of [time]: the discrete Transformer
# depth = 24
# step = 1.0

[output]
picture = true
animation = false
"""


class SpecError(InputError):
    """A spec that cannot be read or used; one line a mistake."""


Real = Annotated[float, pydantic.Field(strict=True, allow_inf_nan=False)]
Whole = Annotated[int, pydantic.Field(strict=True)]
_READ_AS: dict[str, Any] = {
    "scalar": Real | list[Real],
    "whole": Whole,
    "vector": Real | list[Real] | list[list[Real]] | str,
    "matrix": Real | list[Real] | list[list[Real]] | list[list[list[Real]]] | str,
}


def _nested(value: dict[str, Any]) -> dict[str, Any]:
    """An attention inside another, checked like one that stands alone."""
    union = _attention_union()
    try:
        return pydantic.TypeAdapter(union).validate_python(value).model_dump(exclude_none=True)
    except pydantic.ValidationError as error:
        tell = lambda where, what: f"{'.'.join(map(str, where))}: {what}"
        told = " ".join(_mistake(value, mistake, tell, union) for mistake in error.errors())
        raise ValueError(told.removesuffix(".")) from None


_READ_AS["attention"] = Annotated[dict[str, Any], pydantic.AfterValidator(_nested)]
_READ_AS["attentions"] = Annotated[
    list[Annotated[dict[str, Any], pydantic.AfterValidator(_nested)]], pydantic.Field(min_length=1)
]


class Section(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")


class Time(Section):
    end: Real
    start: Real = 0.0
    save: Annotated[Whole, pydantic.Field(ge=1)] | list[Real] = 200
    spacing: Literal["linear", "log"] = "linear"
    until: Literal["collapsed"] | None = None
    solver: str = "tsit5"
    rtol: Annotated[Real, pydantic.Field(gt=0)] | None = None
    atol: Annotated[Real, pydantic.Field(gt=0)] | None = None
    max_steps: Annotated[Whole, pydantic.Field(ge=1)] = 100_000

    @pydantic.field_validator("solver")
    @classmethod
    def _known_solver(cls, name: str) -> str:
        from tokenfield.evolution import SOLVERS

        if name.lower() not in SOLVERS:
            raise ValueError(f"unknown solver {name!r}. {suggest(name, SOLVERS)}")
        return name

    @pydantic.model_validator(mode="after")
    def _forward(self) -> "Time":
        if not self.start < self.end:
            raise ValueError(f"start = {self.start:g} must come before end = {self.end:g}")
        if self.spacing == "log" and isinstance(self.save, list):
            raise ValueError("spacing = 'log' goes with a count in save, not with a list of times")
        return self

    @property
    def saved(self) -> Any:
        """Save times: a count, a list, or the start and then equal ratios over four decades."""
        if self.spacing == "linear" or not isinstance(self.save, int) or self.save < 3:
            return self.save
        times = self.start + np.append(0.0, (self.end - self.start) * np.geomspace(1e-4, 1.0, self.save - 1))
        return np.append(times[:-1], self.end)


class Layers(Section):
    depth: Annotated[Whole, pydantic.Field(ge=1)]
    step: Annotated[Real, pydantic.Field(gt=0)] = 1.0
    save: Annotated[Whole, pydantic.Field(ge=1)] | None = None


class Output(Section):
    picture: bool = True
    animation: bool = False


@functools.cache
def _model() -> type[Section]:
    """The model of a whole spec, from what the rooms hold now."""
    from tokenfield import measures, normalization
    from tokenfield.blocks import MLP, FisherRao

    flow: Any = pydantic.create_model(  # pyright: ignore[reportCallIssue]
        "flow",
        __base__=Section,
        attention=(_attention_union(), ...),
        normalization=(_union(normalization.KINDS), ...),
        mlp=(_kind_model("mlp", MLP, named=False) | None, None),  # pyright: ignore
        reweighting=(_kind_model("fisher_rao", FisherRao, named=False) | None, None),  # pyright: ignore
    )
    return pydantic.create_model(
        "spec",
        __base__=Section,
        measure=(_union({**measures.KINDS, "file": _tokens_from_file}), ...),
        flow=(flow, ...),
        time=(Time | None, None),
        layers=(Layers | None, None),
        output=(Output, Output()),
    )


@functools.cache
def _attention_union() -> Any:
    from tokenfield import attention

    return _union(attention.KINDS)


def _union(room: dict[str, Callable]) -> Any:
    """One model a kind, told apart by `kind`."""
    models = tuple(_kind_model(kind, make) for kind, make in room.items())
    return Annotated[Union[models], pydantic.Field(discriminator="kind")]  # noqa: UP007


def _kind_model(kind: str, make: Callable, named: bool = True) -> type[Section]:
    """The fields of a constructor; `kind` must be given where several are possible."""
    fields: dict[str, Any] = {"kind": (Literal[kind], ...) if named else (Literal[kind], kind)}
    for name, parameter in inspect.signature(make).parameters.items():
        if name == "folder":  # where the spec lies, not a field of it
            continue
        required = parameter.default is inspect.Parameter.empty
        read_as = _read_as(parameter.annotation)
        fields[name] = (read_as, ...) if required else (read_as | None, parameter.default)
    return pydantic.create_model(kind, __base__=Section, **fields)


def _read_as(annotation: Any) -> Any:
    if get_origin(annotation) is Annotated and get_args(annotation)[1] in _READ_AS:
        return _READ_AS[get_args(annotation)[1]]
    return Any if annotation is inspect.Parameter.empty else annotation


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

    @staticmethod
    def from_dict(data: dict[str, Any], folder: Path | None = None) -> "Spec":
        """From plain data; file names in it are relative to `folder`."""
        return _validated(
            copy.deepcopy(data), folder or Path(), lambda where, what: f"{'.'.join(map(str, where))}: {what}"
        )

    @staticmethod
    def load(path: str | Path, overrides: Iterable[str] = ()) -> "Spec":
        """From a TOML file, with overrides such as "flow.attention.beta=4" on top."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = "it is not text" if isinstance(error, UnicodeDecodeError) else error.strerror or str(error)
            raise SpecError(
                f"The spec {path} cannot be read: {reason}. `tokenfield new` prints one to start from."
            ) from None
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            line = re.search(r"line (\d+)", str(error))
            raise SpecError(f"{path}:{line[1] if line else 'end'}: not valid TOML: {error}.") from None
        changed = [_override(data, change) for change in overrides]
        lines = _lines(text)

        def blame(where: Iterable[str | int], what: str) -> str:
            keys = tuple(str(key) for key in where)
            if any(keys[: len(change)] == change or change[: len(keys)] == keys for change in changed):
                return f"--set {'.'.join(keys)}: {what}"
            line = next((lines[keys[:k]] for k in range(len(keys), 0, -1) if keys[:k] in lines), None)
            return f"{path}{f':{line}' if line else ''}: {'.'.join(keys)}: {what}"

        return _validated(data, path.parent, blame)

    def measure(self) -> "Tokens":
        from tokenfield import measures

        with _blaming(self, "measure"):
            arguments = self._arguments("measure")
            make = {**measures.KINDS, "file": functools.partial(_tokens_from_file, folder=self.folder)}
            return make[arguments.pop("kind")](**arguments)

    def flow(self) -> "Flow":
        from tokenfield import config
        from tokenfield.flow import Flow

        parts = {}
        for name in self.data["flow"]:
            with _blaming(self, "flow", name):
                parts[name] = config.build(self._arguments("flow", name))
        return Flow(**parts)

    def run(self, *, progress: bool | None = None, watch: Any = None) -> "Trajectory":
        """Make the measure and the flow, and evolve."""
        from tokenfield.evolution import collapsed, evolve, layers

        flow, measure, time = self.flow(), self.measure(), self.time
        with _blaming(self, "flow", "attention"):
            flow.attention.check(measure.d)
        with _blaming(self, "flow"):
            flow.check(measure.d)
        with _blaming(self, "measure"):
            flow.settle(measure)
        with _blaming(self, "time" if time is not None else "layers"):
            if time is None:
                assert self.layers is not None
                run = layers(flow, measure, self.layers.depth, self.layers.step, save=self.layers.save)
            else:
                run = evolve(
                    flow,
                    measure,
                    (time.start, time.end),
                    save=time.saved,
                    until=collapsed if time.until == "collapsed" else None,
                    solver=time.solver,
                    rtol=time.rtol,
                    atol=time.atol,
                    max_steps=time.max_steps,
                    progress=progress,
                    watch=watch,
                )
        return dataclasses.replace(run, provenance=dataclasses.replace(run.provenance, spec=self.data))

    def to_toml(self) -> str:
        """The spec with every default filled in, as TOML."""
        import tomli_w

        return tomli_w.dumps(self.data)

    def _arguments(self, *path: str) -> Any:
        return self._with_files(functools.reduce(lambda data, key: data[key], path, self.data))

    def _with_files(self, part: Any) -> Any:
        """Names of files replaced by the numbers in them, however deep."""
        if isinstance(part, dict):
            words = ("kind", "path", "activation")
            return {
                k: _numbers(v, self.folder) if isinstance(v, str) and k not in words else self._with_files(v)
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
        model: Any = _model().model_validate(data)
    except pydantic.ValidationError as error:
        raise SpecError("\n".join(_mistake(data, mistake, blame) for mistake in error.errors())) from None
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
    return str((folder / part).resolve()) if isinstance(part, str) and part.endswith((".npy", ".npz")) else part


def _mistake(data: dict[str, Any], mistake: Any, blame: Any, root: Any = None) -> str:
    """One of pydantic's errors in our words: where, what was expected, what came."""
    where, section = _where(data, mistake["loc"])
    match mistake["type"]:
        case "extra_forbidden":
            known = _known_fields(where[:-1], section, root)
            return blame(where, f"there is no such field. {suggest(where[-1], known)}")
        case "missing":
            return blame(where, "this field is missing.")
        case "union_tag_invalid" | "literal_error":
            tag = mistake["ctx"].get("expected_tags") or mistake["ctx"]["expected"]
            came = mistake["ctx"].get("tag", mistake["input"])
            where = where if "tag" not in mistake["ctx"] else (*where, "kind")
            known = re.findall(r"'(\w+)'", tag)
            return blame(where, f"unknown value {came!r}. {suggest(came, known)}")
        case "union_tag_not_found":
            return blame((*where, "kind"), "this field is missing; it names what this section describes.")
        case "value_error":
            return blame(where, str(mistake["ctx"]["error"]).removesuffix(".") + ".")
        case _:
            expected = mistake["msg"][0].lower() + mistake["msg"][1:]
            return blame(where, f"{expected}, but got {mistake['input']!r}.")


def _where(data: Any, loc: tuple[str | int, ...]) -> tuple[tuple[str | int, ...], Any]:
    """Pydantic's path without the names of union members, and the section that holds its last key."""
    where: list[str | int] = []
    here: Any = data
    section: Any = data
    for position, key in enumerate(loc):
        if _holds(here, key):
            section, here = here, here[key]
            where.append(key)
        elif position == len(loc) - 1 and isinstance(here, dict):
            section = here
            where.append(key)
    return tuple(where), section


def _holds(place: Any, key: str | int) -> bool:
    return (isinstance(place, dict) and key in place) or (isinstance(place, list) and isinstance(key, int))


def _known_fields(where: tuple[str | int, ...], section: Any, root: Any = None) -> list[str]:
    """The fields that a section could have."""
    kind = section.get("kind") if isinstance(section, dict) else None
    model = _member(_model() if root is None else root, kind)
    for key in where:
        model = _member(model.model_fields[str(key)].annotation, kind)
    return list(model.model_fields)


def _member(model: Any, kind: str | None) -> Any:
    """The model of this kind, where there are several."""
    if get_origin(model) is Annotated:
        model = get_args(model)[0]
    members = [part for part in get_args(model) if isinstance(part, type) and part is not type(None)] or [model]
    return next((part for part in members if part.__name__ == kind), members[0])


def _override(data: dict[str, Any], change: str) -> tuple[str, ...]:
    """Apply "flow.attention.beta=4" and return its path."""
    path, equals, text = change.partition("=")
    keys = tuple(path.strip().split("."))
    if not equals or not all(keys):
        raise SpecError(f"--set needs field=value, e.g. --set flow.attention.beta=4, but got {change!r}.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    here = data
    for key in keys[:-1]:
        here = here.setdefault(key, {})
        if not isinstance(here, dict):
            raise SpecError(f"--set {path}: {key!r} is a value, not a section.")
    here[keys[-1]] = value
    return keys


def _lines(text: str) -> dict[tuple[str, ...], int]:
    """The line of every section and field of a TOML text."""
    found, section = {}, ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[+\s*([^\]]+?)\s*\]+", line):
            section = _keys(header[1])
            found.setdefault(section, number)
        elif field := re.match(r"\s*([\w\-.\"' ]+?)\s*=", line):
            found.setdefault((*section, *_keys(field[1])), number)
    return found


def _keys(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def _tokens_from_file(path: str, folder: Any = None) -> "Tokens":
    """Tokens from an .npy of shape (n, d) or an .npz with x and perhaps w and s."""
    from tokenfield.measures import Tokens

    loaded = _numbers(path, folder or Path())
    if isinstance(loaded, np.ndarray):
        return Tokens(loaded)
    if unknown := set(loaded) - {"x", "w", "s"} or "x" not in loaded:
        raise InputError(
            f"Argument `path`: {path} must hold x and may hold w and s, but holds {sorted(loaded)}; {unknown}."
        )
    return Tokens(**loaded)


def _numbers(path: str, folder: Path) -> Any:
    """The array of an .npy, or the named arrays of an .npz."""
    try:
        loaded = np.load(folder / path, allow_pickle=False)
        return loaded if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(
            f"The file {path} cannot be read as numbers: {error}. Expected an .npy or .npz written by numpy."
        ) from None
