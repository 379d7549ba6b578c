"""The fields of a spec, as pydantic models, and what is said of mistakes in them.

The fields of every measure, attention and normalization come from the signatures of their constructors, so that a new
kind is in the spec as soon as it is in its room's `KINDS`.
"""

import functools
import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import numpy as np
import pydantic

from tokenfield.errors import short, suggest
from tokenfield.spec.files import tokens_from_file

Real = Annotated[float, pydantic.Field(strict=True, allow_inf_nan=False)]
Whole = Annotated[int, pydantic.Field(strict=True, ge=-(2**62), le=2**62)]
_READ_AS: dict[str, Any] = {
    "scalar": Real | list[Real],
    "whole": Whole,
    "vector": Real | list[Real] | list[list[Real]] | str,
    "matrix": Real | list[Real] | list[list[Real]] | list[list[list[Real]]] | str,
}


def _nested(value: dict[str, Any]) -> dict[str, Any]:
    """An attention inside another, checked like one that stands alone."""
    union = attention_union()
    try:
        return pydantic.TypeAdapter(union).validate_python(value).model_dump(exclude_none=True)
    except pydantic.ValidationError as error:
        tell = lambda where, what: f"{'.'.join(map(str, where))}: {what}"
        text = " ".join(mistake_text(value, mistake, tell, union) for mistake in error.errors())
        raise ValueError(text.removesuffix(".")) from None


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
    spacing: Literal["linear", "log", "rescaled"] = "linear"
    until: Literal["collapsed"] | None = None
    solver: str | None = None
    rtol: Annotated[Real, pydantic.Field(gt=0)] | None = None
    atol: Annotated[Real, pydantic.Field(gt=0)] | None = None
    max_steps: Annotated[Whole, pydantic.Field(ge=1)] = 100_000
    step: Annotated[Real, pydantic.Field(gt=0)] | None = None
    seed: Annotated[Whole, pydantic.Field(ge=0)] | None = None
    coalesce: Annotated[Real, pydantic.Field(gt=0)] | None = None
    summation: str | None = None

    @pydantic.field_validator("summation")
    @classmethod
    def _known_summation(cls, name: str | None) -> str | None:
        from tokenfield.summation.choose import KINDS

        known = (*KINDS, "span")
        if name is not None and name not in known:
            raise ValueError(f"unknown summation {short(name)}. {suggest(name, known)}")
        return name

    @pydantic.field_validator("solver")
    @classmethod
    def _known_solver(cls, name: str | None) -> str | None:
        from tokenfield.evolution import SOLVERS

        known = (*SOLVERS, "etd4", "splitting")
        if name is not None and name.lower() not in known:
            raise ValueError(f"unknown solver {short(name)}. {suggest(name, known)}")
        return name

    @pydantic.model_validator(mode="after")
    def _forward(self) -> "Time":
        if not self.start < self.end:
            raise ValueError(f"start = {self.start:g} must come before end = {self.end:g}")
        if self.spacing != "linear" and isinstance(self.save, list):
            raise ValueError(f"spacing = {self.spacing!r} goes with a count in save, not with a list of times")
        return self

    @property
    def clock(self) -> str:
        """Runs that coalesce may go on for thirty decades, in equal ratios of all of them."""
        return "linear" if self.spacing == "log" and self.coalesce is None else self.spacing

    @property
    def saved(self) -> Any:
        """Save times: a count, a list, or the start and then equal ratios over four decades."""
        if self.clock == self.spacing or not isinstance(self.save, int) or self.save < 3:
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
def spec_model() -> type[Section]:
    """The model of a whole spec, from what the rooms hold now."""
    from tokenfield import measures, normalization
    from tokenfield.blocks import MLP, FisherRao

    flow: Any = pydantic.create_model(  # pyright: ignore[reportCallIssue]
        "flow",
        __base__=Section,
        attention=(attention_union(), ...),
        normalization=(_union(normalization.KINDS), ...),
        mlp=(_kind_model("mlp", MLP, named=False) | None, None),  # pyright: ignore
        reweighting=(_kind_model("fisher_rao", FisherRao, named=False) | None, None),  # pyright: ignore
        kappa=(Annotated[Real, pydantic.Field(gt=0)] | None, None),  # pyright: ignore
    )
    return pydantic.create_model(
        "spec",
        __base__=Section,
        measure=(_union({**measures.constructors(), "file": tokens_from_file}), ...),
        flow=(flow, ...),
        time=(Time | None, None),
        layers=(Layers | None, None),
        output=(Output, Output()),
    )


@functools.cache
def attention_union() -> Any:
    from tokenfield import attention

    return _union(attention.KINDS)


def _union(room: dict[str, Callable]) -> Any:
    """One model per kind, told apart by `kind`."""
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


def mistake_text(data: dict[str, Any], mistake: Any, blame: Any, root: Any = None) -> str:
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
            return blame(where, f"unknown value {short(came)}. {suggest(came, known)}")
        case "union_tag_not_found":
            return blame((*where, "kind"), "this field is missing; it names what this section describes.")
        case "value_error":
            return blame(where, str(mistake["ctx"]["error"]).removesuffix(".") + ".")
        case _:
            expected = mistake["msg"][0].lower() + mistake["msg"][1:]
            return blame(where, f"{expected}, but got {short(mistake['input'])}.")


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
    model = _member(spec_model() if root is None else root, kind)
    for key in where:
        model = _member(model.model_fields[str(key)].annotation, kind)
    return list(model.model_fields)


def _member(model: Any, kind: str | None) -> Any:
    """The model of this kind, where there are several."""
    if get_origin(model) is Annotated:
        model = get_args(model)[0]
    members = [part for part in get_args(model) if isinstance(part, type) and part is not type(None)] or [model]
    return next((part for part in members if part.__name__ == kind), members[0])
