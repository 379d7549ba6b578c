"""The folder of a figure: what is written to it, how it is drawn again, and what is left alone."""

import dataclasses
import json
import math
import os
import platform
import shlex
import shutil
import time
from pathlib import Path
from typing import Any

from tokenfield._files import read, whole
from tokenfield.errors import InputError, StoreError, short
from tokenfield.figures.base import Figure, Plate, Shelf
from tokenfield.figures.base import told as duration
from tokenfield.figures.published import find
from tokenfield.figures.style import STYLE
from tokenfield.store import places, tables
from tokenfield.store.arrays import Refused, parsed
from tokenfield.theory.base import Finding

DATA, PARTS, CLAIMS, README, BEGUN = "data.zarr", "parts", "claims.json", "README.md", "begun.json"
BAR = r"\|"
LARGEST = 1 << 22
"""Bytes that a file of JSON may have."""


def files(name: str) -> tuple[str, ...]:
    """What the folder of a figure may hold."""
    return DATA, PARTS, CLAIMS, README, *(f"{name}{suffix}" for suffix in (".png", ".pdf", ".mp4", ".gif"))


def make(figure: Figure, out: str | os.PathLike[str], force: bool = False) -> Plate:
    """The figure in a folder: computed, or where the folder has its data already, drawn again. Parts that a run before has
    computed are not computed again.

    **Arguments**

    - `figure`: the figure with its parameters.
    - `out`: the folder.
    - `force`: whether a figure that is there with other parameters is replaced.

    **Returns** the plate, which is saved.

    **Raises** `InputError` where the folder holds something else; nothing is then overwritten.
    """
    out = Path(out)
    _refuse_others(out, figure, force)
    if places.standing(out.absolute() / DATA):
        plate = load(out, type(figure))
    else:
        _begin(out, figure)
        plate = figure.made(Shelf(out / PARTS))
    save(plate, out)
    shutil.rmtree(out / PARTS, ignore_errors=True)
    return plate


def save(plate: Plate, out: str | os.PathLike[str]) -> Path:
    """Write the data, the picture, what goes with it, the claims and a README, in this order."""
    out, one = Path(out), plate.made_by
    _refuse_others(out, one, force=False)
    if not plate.about:
        plate.about = _about(plate)
        tables.save(plate.data, out / DATA, plate.about)
    try:
        for suffix, metadata in ((".png", {}), (".pdf", {"CreationDate": None})):
            with whole(out / f"{one.name}{suffix}") as part:
                plate.figure.savefig(part, dpi=STYLE["savefig.dpi"], metadata=metadata)
        for name, write in one.extras(plate.data):
            _refuse_name(name, one)
            with whole(out / name) as part:
                write(part)
        for name, text in ((CLAIMS, claims_text(plate)), (README, readme(plate, out))):
            with whole(out / name) as part:
                part.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"The figure could not be written to {out}: {error.strerror or error}.") from None
    return out


def load(out: str | os.PathLike[str], kind: type[Figure] | None = None) -> Plate:
    """A plate from its folder. Nothing is computed: data and claims are read, and drawn when asked.

    **Arguments**

    - `out`: the folder.
    - `kind`: the class of the figure, where it is one of the user's own; those of the library are found by name.

    **Returns** the plate.

    **Raises** `StoreError` where there is none.
    """
    data, about = tables.load(Path(out) / DATA)
    try:
        figure = (kind or find(about["figure"])).of(**about["parameters"])
        plate = Plate(figure, data, claims_of(about), float(about["seconds"]))
        plate.about, plate.again = about, True
        return plate
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{out} holds data, but not those of a figure that is known here ({error}).") from None


def _about(plate: Plate) -> dict[str, Any]:
    """What is known of a plate beside its numbers."""
    one = plate.made_by
    return {
        "figure": one.name,
        "shows": one.shows,
        "source": one.cited,
        "remark": one.remark,
        "command": command(one),
        "parameters": one.values,
        "claims": [_claim(claim) for claim in plate.claims],
        "seconds": plate.seconds,
        "made": time.strftime("%Y-%m-%d"),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """What a figure was made with."""
    from importlib.metadata import version

    packages = ("tokenfield", "jax", "diffrax", "numpy", "matplotlib")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def _claim(claim: Finding) -> dict[str, Any]:
    plain = lambda value: str(value) if isinstance(value, float) and not math.isfinite(value) else value
    return {name: plain(value) for name, value in dataclasses.asdict(claim).items()}


def claims_of(about: dict[str, Any]) -> tuple[Finding, ...]:
    """The claims of a figure, from what is known about it on disk."""
    return tuple(Finding(**{name: _number(value) for name, value in claim.items()}) for claim in about["claims"])


def _number(value: Any) -> Any:
    return float(value) if value in ("inf", "-inf", "nan") else value


def claims_text(plate: Plate) -> str:
    """claims.json: every claim with what was expected, what was measured, and the verdict."""
    found = [{**_claim(claim), "verdict": claim.outcome.value} for claim in plate.claims]
    one = plate.made_by
    about = {
        "figure": one.name,
        "source": one.cited,
        "parameters": one.values,
        "verdict": "fails" if plate.failed else "holds",
        "claims": found,
    }
    return json.dumps(about, indent=1, ensure_ascii=False) + "\n"


def command(figure: Figure, out: str | os.PathLike[str] | None = None) -> str:
    """What is typed to make the figure again."""
    words = ["tokenfield", "figure", figure.name, *(["--small"] if figure.near_small else [])]
    for name, value in figure.settings().items():
        words += ["--set", f"{name}={json.dumps(value)}"]
    return shlex.join([*words, *(["--out", str(out)] if out is not None else [])])


def readme(plate: Plate, out: Path) -> str:
    """README.md: what this is, how it was made, how to make it again, and what it claims."""
    one, about = plate.made_by, plate.about
    size = "the small size" if one.is_small else "parameters of its own" if one.settings() else "the published size"
    told = lambda claim: (claim.what, f"{claim.measured:.6g}", claim.expected, claim.outcome.value, claim.because)
    rows = [f"| {' | '.join(cell.replace('|', BAR) for cell in told(claim))} |" for claim in plate.claims]
    seeds = {name: value for name, value in one.values.items() if "seed" in name}
    return "\n".join(
        [
            f"# {one.name}\n",
            f"{one.shows} {f'Source: {one.cited}.' if one.cited else ''}\n",
            f"![{one.name}]({one.name}.png)\n",
            *(f"Movie: [{name}]({name})\n" for name, _ in one.extras(plate.data)),
            f"Made on {about.get('made', '')} at {size}, computed in {duration(plate.seconds)}:\n",
            f"    {command(one, out.name)}\n",
            "The same command draws again from data.zarr and computes nothing. In Python:\n",
            f'    import tokenfield as tkf\n    data, figure = tkf.figures.load("{out.name}")\n',
            *([f"{one.remark}\n"] if one.remark else []),
            "## Claims\n",
            "| what | measured | expected | verdict | tolerance |\n|---|---|---|---|---|",
            *rows,
            "\n## Parameters\n",
            *(f"- {name}: {json.dumps(value)}" for name, value in one.values.items()),
            "\n## Made with\n",
            f"- seeds: {', '.join(f'{name} = {value}' for name, value in seeds.items()) or 'none'}",
            *(f"- {name} {version}" for name, version in about.get("versions", {}).items()),
            "",
        ]
    )


# Folders that hold something already


def _refuse_name(name: str, figure: Figure) -> None:
    if name not in files(figure.name):
        raise InputError(
            f"A movie of the figure {figure.name} is called {figure.name}.mp4 or {figure.name}.gif, not {short(name)}."
        )


def _begin(out: Path, figure: Figure) -> None:
    """Say what is being computed here, before it is."""
    try:
        with whole(out / PARTS / BEGUN) as part:
            part.write_text(json.dumps({"figure": figure.name, "parameters": figure.values}), encoding="utf-8")
    except OSError as error:
        raise InputError(f"The folder {out} cannot be written to: {error.strerror}. Choose another --out.") from None


def _refuse_others(out: Path, figure: Figure, force: bool) -> None:
    """Refuse a folder with anything else than this figure. One with other parameters is replaced where that is asked for."""
    there = standing(out)
    if there is None:
        return
    name, parameters = there
    if name != figure.name:
        raise InputError(
            f"{out} holds the figure {name}; nothing was overwritten. Choose another --out for {figure.name}."
        )
    changed = [
        f"{key}: {parameters.get(key)!r} there, {value!r} asked for"
        for key, value in figure.values.items()
        if parameters.get(key) != value
    ]
    if changed and not force:
        raise InputError(
            f"{out} holds this figure with other parameters ({'; '.join(changed)}); nothing was overwritten. Choose another "
            "--out, or add --force to replace what is there."
        )
    if changed or (force and places.standing(out.absolute() / DATA)):
        for old in files(name):
            shutil.rmtree(out / old) if (out / old).is_dir() else (out / old).unlink(missing_ok=True)


def standing(out: Path) -> tuple[str, dict[str, Any]] | None:
    """The figure that a folder holds, finished or begun, with its parameters; None where the folder is empty or not there.

    **Raises** `InputError` where it holds something else.
    """
    if not os.path.lexists(out):
        return None
    try:
        inside = sorted(entry for entry in os.listdir(out) if not entry.startswith("."))
        if not inside:
            return None
        done = places.standing(out.absolute() / DATA)
        about = tables.load(out / DATA)[1] if done else parsed(read(out / PARTS / BEGUN, LARGEST))
        name, parameters = about["figure"], dict(about["parameters"])
        foreign = [entry for entry in inside if entry not in files(name)]
        if not foreign:
            return name, parameters
    except (OSError, Refused, StoreError, KeyError, TypeError, ValueError):
        pass
    raise InputError(
        f"{out} holds something else than a figure of tokenfield's; nothing was overwritten. Choose another --out."
    )
