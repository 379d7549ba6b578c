"""The frame of every front door: arguments are read by the kinds that their annotations name, before the body runs.

A public function or constructor carries `@front_door`. Its annotations say what is expected: those of `_types` name a kind of
number, `bool` is a flag, `int` a whole number, `float` a number, `str` a name, a `Callable` a function, a class of the library
an object of it. An argument of another kind is refused in a sentence; one that is right comes in as Python or numpy has it, a
tensor of torch's too. What the decorator does not know (arrays of given shapes, say) is left to the body, and so are objects
and functions where a door has words of its own for them (`no_type_check`). Tracers pass. It costs microseconds.
"""

import functools
import inspect
import os
import pathlib
import types
from collections.abc import Callable as AbstractCallable
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin

import equinox as eqx
from jax.core import Tracer

from tokenfield import _checks as check
from tokenfield.errors import CallError, InputError, suggest

F = TypeVar("F")
Reader = AbstractCallable[[str, Any], Any]
"""From the name of an argument and its value to the value as the body wants it; it raises `InputError`."""


class Kind(NamedTuple):
    """A kind of argument: what it is, in words, and how it is read."""

    what: str
    read: Reader


def _numeric(what: str, changing: bool = False) -> Kind:
    """Numbers, and where parameters may change with depth, functions of t and objects that stand for them."""

    def read(name: str, value: Any) -> Any:
        if type(value) is float or (changing and (callable(value) or isinstance(value, eqx.Module))):
            return value
        return check.real_array(name, value, like=what)

    return Kind(what, read)


def _plain_number(name: str, value: Any) -> Any:
    return value if isinstance(value, Tracer) else check.number(name, value)


def _text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    raise InputError(f"Argument `{name}` must be a name, in quotation marks, but is {check.brief(value)}.")


def _path(name: str, value: Any) -> Any:
    if isinstance(value, str | os.PathLike):
        return value
    raise InputError(f"Argument `{name}` must be a path, such as 'run.png', but is {check.brief(value)}.")


def _function(name: str, value: Any) -> Any:
    if callable(value):
        return value
    raise InputError(f"Argument `{name}` must be a function, but is {check.brief(value)}. Write one, e.g. with lambda.")


def _nothing(name: str, value: Any) -> None:
    if value is not None:
        raise InputError(f"Argument `{name}` must be left out, but is {check.brief(value)}.")


PATH = Kind("a path", _path)
KINDS = {
    "number": _numeric("one real number"),
    "numbers": _numeric("an array of real numbers"),
    "points": _numeric("an array of points, shape (n, d)"),
    "scalar": _numeric("one real number", changing=True),
    "vector": _numeric("a vector of real numbers", changing=True),
    "matrix": _numeric("a matrix of real numbers", changing=True),
    "whole": Kind("a whole number", check.integer),
    bool: Kind("True or False", check.flag),
    int: Kind("a whole number", check.integer),
    float: Kind("one finite number", _plain_number),
    str: Kind("a name", _text),
    os.PathLike: PATH,
    pathlib.Path: PATH,
    AbstractCallable: Kind("a function", _function),
    type(None): Kind("None", _nothing),
}
"""Kinds by the names that annotations carry, or by the types that they are."""

EXAMPLES = {
    "Flow": "tkf.sa(beta=9.0)",
    "AbstractAttention": "tkf.Softmax(beta=9.0)",
    "AbstractMeasure": "tkf.Tokens(points)",
    "Tokens": "tkf.Tokens(points) of points of shape (n, d)",
    "Gaussian": "tkf.Gaussian(mean, cov)",
    "Equiangular": "tkf.Equiangular(rho=0.5, n=10)",
    "Trajectory": "what tkf.evolve returns",
}
"""What is written to have an object of a class."""


def front_door(function: F) -> F:
    """`@front_door` above a public function or constructor: arguments are read by their annotations before the body runs.

    **Arguments**

    - `function`: what is called from outside.

    **Returns** the same function, signature and documentation included. It raises `InputError` for arguments of another kind,
    and `CallError` for those that are unknown or missing.
    """
    body: Any = function
    door = Door(body)

    @functools.wraps(body)
    def entered(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = door.read(args, kwargs)
        return body(*args, **kwargs)

    entered.__front_door__ = True  # pyright: ignore[reportAttributeAccessIssue]
    return entered  # pyright: ignore[reportReturnType]


class Door:
    """The parameters of a function, and how each is read."""

    def __init__(self, function: AbstractCallable[..., Any], name: str | None = None, eval_str: bool = False):
        self.function = function
        self.name = (
            name
            or (function.__qualname__.removesuffix(".__init__").removesuffix(".__call__").rpartition(".<locals>.")[2])
        )
        parameters = list(inspect.signature(function, eval_str=eval_str).parameters.values())
        if parameters and parameters[0].name in ("self", "cls"):
            parameters[0] = parameters[0].replace(kind=inspect.Parameter.POSITIONAL_ONLY)
        kinds = {kind: [p for p in parameters if p.kind is kind] for kind in inspect._ParameterKind}
        self.positional = kinds[inspect.Parameter.POSITIONAL_ONLY] + kinds[inspect.Parameter.POSITIONAL_OR_KEYWORD]
        self.rest = next(iter(kinds[inspect.Parameter.VAR_POSITIONAL]), None)
        self.others = next(iter(kinds[inspect.Parameter.VAR_KEYWORD]), None)
        named = kinds[inspect.Parameter.POSITIONAL_OR_KEYWORD] + kinds[inspect.Parameter.KEYWORD_ONLY]
        self.named = {parameter.name: parameter for parameter in named}
        self.required = [
            p.name for p in self.positional + named if p.default is p.empty and p.name not in ("self", "cls")
        ]

    @functools.cached_property
    def readers(self) -> dict[str, Reader]:
        """How each parameter is read; those without a reader are left to the body. (Made late, when all names are known.)"""
        own_words = getattr(self.function, "__no_type_check__", False)
        parameters = [*self.positional, *self.named.values(), *filter(None, (self.rest, self.others))]
        found = {parameter.name: _reader(parameter, own_words) for parameter in parameters}
        return {name: reader for name, reader in found.items() if reader is not None}

    def read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call, as the body wants them."""
        names = [parameter.name for parameter in self.positional[: len(args)]]
        if self.rest is not None:
            names += [self.rest.name] * (len(args) - len(names))
        self._refuse_strangers(names, args, kwargs)
        readers = self.readers
        given = [
            reader(name, value) if (reader := readers.get(name)) else value
            for name, value in zip(names, args, strict=True)
        ]
        other = None if self.others is None else readers.get(self.others.name)
        named = {
            name: reader(name, value) if (reader := readers.get(name) if name in self.named else other) else value
            for name, value in kwargs.items()
        }
        return tuple(given), named

    def _refuse_strangers(self, names: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Refuse too many arguments, unknown ones, those that come twice, and calls without one that is needed."""
        if len(args) > len(names):
            most = len(names) - (bool(names) and names[0] in ("self", "cls"))
            raise CallError(
                f"{self.name} takes at most {most} arguments by their place, but got {most + len(args) - len(names)}. "
                f"Known: {', '.join(self.named) or 'none'}."
            )
        for name in kwargs:
            if name not in self.named and self.others is None:
                raise CallError(f"{self.name} has no argument `{name}`. {suggest(name, self.named)}")
            if name in names:
                raise CallError(f"{self.name} got its argument `{name}` twice: once by its place, once by its name.")
        for name in self.required:
            if name not in kwargs and name not in names:
                raise CallError(f"{self.name} needs its argument `{name}`, which is missing.")


def _reader(parameter: inspect.Parameter, own_words: bool) -> Reader | None:
    """How an argument is read by its annotation; None where that says nothing that is known here."""
    kinds = _kinds(parameter.annotation, own_words)
    if not kinds:
        return None
    optional = parameter.default is None or KINDS[type(None)] in kinds
    kinds = [kind for kind in kinds if kind is not KINDS[type(None)]]
    if PATH in kinds:  # text may be a path, and says so
        kinds = [kind for kind in kinds if kind is not KINDS[str]]

    def read(name: str, value: Any) -> Any:
        if value is None and optional:
            return None
        for kind in kinds[:-1]:
            try:
                return kind.read(name, value)
            except InputError:
                continue
        try:
            return kinds[-1].read(name, value)
        except InputError:
            if value is None or len(kinds) > 1:
                expected = " or ".join(kind.what for kind in kinds)
                raise InputError(f"Argument `{name}` must be {expected}, but is {check.brief(value)}.") from None
            raise

    return read


def _kinds(annotation: Any, own_words: bool) -> list[Kind]:
    """The kinds that an annotation allows; none where a part of it is not known here."""
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        parts = [_kinds(part, own_words) for part in get_args(annotation)]
        return [kind for part in parts for kind in part] if all(parts) else []
    name = get_args(annotation)[1] if origin is Annotated else annotation if origin is None else origin
    if isinstance(name, str | type) and name in KINDS and not (own_words and name is AbstractCallable):
        return [KINDS[name]]
    if isinstance(name, type) and name.__module__.startswith("tokenfield.") and not own_words:
        return [_object(name)]
    return []


def _object(cls: type) -> Kind:
    """Objects of a class of the library."""
    word = cls.__name__.removeprefix("Abstract")
    what = f"{'an' if word[0] in 'AEIOU' else 'a'} {word}"
    example = f", such as {EXAMPLES[cls.__name__]}" if cls.__name__ in EXAMPLES else ""

    def read(name: str, value: Any) -> Any:
        if isinstance(value, cls):
            return value
        brackets = f" Write {value.__name__}()." if isinstance(value, type) and issubclass(value, cls) else ""
        raise InputError(f"Argument `{name}` must be {what}{example}, but is {check.brief(value)}.{brackets}")

    return Kind(what, read)
