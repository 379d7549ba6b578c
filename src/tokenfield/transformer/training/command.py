"""What `tokenfield train` and `tokenfield generate` do."""

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tokenfield import _interrupt, config
from tokenfield.errors import InputError, short, suggest
from tokenfield.flow import Flow
from tokenfield.normalization import Free
from tokenfield.spec import toml
from tokenfield.transformer.architecture import Architecture, kernel_of, scheme_of
from tokenfield.transformer.model import Transformer
from tokenfield.transformer.training import front
from tokenfield.transformer.training.checkpoints import PICTURE
from tokenfield.transformer.training.result import Training

EXAMPLE = "--set model.attention.kind=l2, or --set train.steps=3000"
_ELSEWHERE = ("model", "text", "out", "progress", "force")
"""Arguments of `train` that the command has options of its own for."""


def trained(text: Path | None, out: Path, settings: Sequence[str], force: bool, say: Callable[[str], Any]) -> Training:
    """Train a model as the command line asks for, or go on with it.

    **Arguments**

    - `text`: a file; None for the embedded default.
    - `out`: the folder.
    - `settings`: what --set says.
    - `force`: whether to begin anew.
    - `say`: called with what is told before training.

    **Returns** what came of it. Its picture is in the folder.

    **Raises** `InputError` where a setting is unknown or makes no sense, or the folder belongs to another training.
    """
    model, numbers = asked(settings)
    minutes = numbers.pop("minutes", None)
    whole = Transformer.random(_architecture(model), seed=numbers.get("seed", 0))
    run = front.prepared(whole, text, minutes, **numbers)
    state = run.found(out, force)
    say(f"{whole}. It learns to predict {run.predicts.rstrip('.')}.")
    if state.steps:
        say(f"{out} holds {state.steps} of {run.numbers['steps']} steps; it goes on from there.")
    result = run.ended(state, out, minutes, None)
    result.plot(out / PICTURE)
    return result


def asked(settings: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of the model and of the training that `SECTION.FIELD=VALUE` name.

    **Arguments**

    - `settings`: such texts.

    **Returns** both, as plain data.

    **Raises** `InputError` where a field is unknown.
    """
    numbers = [name for name in inspect.signature(front.train).parameters if name not in _ELSEWHERE]
    known = {"model": [field.name for field in dataclasses.fields(Architecture)], "train": numbers}
    found: dict[str, dict[str, Any]] = {"model": {}, "train": {}}
    for text in settings:
        path, equals, value = text.partition("=")
        section, *fields = path.strip().split(".")
        if not equals or not fields or not all(fields) or len(fields) > 2:
            raise InputError(f"--set needs FIELD=VALUE, as {EXAMPLE}, but got {short(text)}.")
        if section not in known:
            raise InputError(f"--set {path.strip()}: there is no section {short(section)}. {suggest(section, known)}")
        if fields[0] not in known[section]:
            raise InputError(f"--set {path.strip()}: there is no such field. {suggest(fields[0], known[section])}")
        _put(found[section], fields, _value(value), path.strip())
    return found["model"], found["train"]


def _put(section: dict[str, Any], fields: list[str], value: Any, path: str) -> None:
    if len(fields) == 1:
        section[fields[0]] = value
        return
    if fields[0] not in ("attention", "normalization"):
        raise InputError(f"--set {path}: {fields[0]!r} is a value, not a section.")
    inner = section.setdefault(fields[0], {})
    if not isinstance(inner, dict):
        inner = section[fields[0]] = {"kind": inner}
    inner[fields[1]] = value


def _value(text: str) -> Any:
    try:
        return toml.parsed(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text.strip()


def _architecture(fields: dict[str, Any]) -> Architecture:
    """The embedded default with some fields changed."""
    try:
        sizes = front.usual(**{name: fields[name] for name in fields if name not in ("attention", "normalization")})
        usual = lambda name: Flow(kernel_of(name, sizes.head_size or 1), Free())
        scheme = lambda name: Flow(sizes.attention, scheme_of(name))
        parts = {"attention": usual, "normalization": scheme}
        kinds = {name: _kind(name, fields[name], parts[name]) for name in parts if name in fields}
        return front.usual(**{**fields, **kinds})
    except InputError as error:
        raise InputError(f"--set model: {error}") from None


def _kind(name: str, told: Any, usual: Callable[[str], Flow]) -> Any:
    """A kind of attention or normalization: its name, or a table whose other fields replace the usual ones."""
    if not isinstance(told, dict):
        return told
    if "kind" not in told:
        raise InputError(f"model.{name}.kind is missing; it names which one.")
    others = {field: value for field, value in told.items() if field != "kind"}
    if told["kind"] == "mix_ln" or told["kind"] not in config.kinds():
        return config.build(told) if others else told["kind"]
    plain = config.encode(usual(told["kind"]))
    known = list(inspect.signature(config.kinds()[told["kind"]]).parameters)
    for field in others:
        if field not in known:
            raise InputError(f"model.{name}.{field}: there is no such field. {suggest(field, known)}")
    return config.build({**(plain or {})[name], **others})


def generated(folder: Path, text: str, n: int, temperature: float, seed: int, write: Callable[[str], Any]) -> None:
    """Go on with a text, and write what is added as it comes.

    **Arguments**

    - `folder`: a model.
    - `text`: how it begins.
    - `n`, `temperature`, `seed`: as `Transformer.generate` has them.
    - `write`: called with pieces of text.

    **Raises** `InputError` where the model cannot generate; `Interrupted` where somebody has asked to stop.
    """
    model = Transformer.load(folder)
    ids: list[int] = []
    done = ""

    def watch(token: int) -> None:
        nonlocal done
        ids.append(token)
        whole = model.tokenizer.decode(ids)
        if not whole.endswith("\ufffd"):  # a character may have several tokens
            write(whole[len(done) :])
            done = whole
        _interrupt.pause()

    whole = model.generate(text, n, temperature=temperature, seed=seed, watch=watch)
    write(whole[len(done) :])
