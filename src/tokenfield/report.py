"""`tokenfield report`: figures, sweeps and runs of any number of folders as one HTML page that opens offline.

The page needs nothing but itself, and whatever is read from folders is text to it (`_page.py`).
"""

import dataclasses
import html
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tokenfield import _files
from tokenfield._page import details, embedded, framed, listing, pairs, paragraph, png, table
from tokenfield.errors import InputError, StoreError
from tokenfield.figures import folders
from tokenfield.figures.base import told
from tokenfield.store import places, tables
from tokenfield.sweeps import show
from tokenfield.sweeps.folder import Folder
from tokenfield.theory.base import Finding, Outcome

DEEPEST = 4
"""Folders are looked for this deep."""
LARGEST = 32 << 20
"""Bytes that a picture may have."""
MARK = "<!-- a report of tokenfield's -->"

SIGNS = {Outcome.HOLDS: "✓", Outcome.FAILS: "✗", Outcome.INCONCLUSIVE: "?"}


@dataclasses.dataclass(frozen=True)
class Entry:
    """One thing on the page: its name, what it says in the table at the top, and its section."""

    name: str
    kind: str
    outcome: Outcome | None
    summary: str
    body: str


def report(
    sources: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str], force: bool = False
) -> tuple[Path, bool]:
    """Write the page.

    **Arguments**

    - `sources`: folders of figures, sweeps and runs, or folders of such folders.
    - `out`: the page, report.html say.
    - `force`: whether a file that is no report is replaced.

    **Returns** the path of the page, and whether all claims on it are met.

    **Raises** `InputError` where a folder holds nothing that is known, or the page would replace something else; `StoreError`
    where it cannot be written.
    """
    out = Path(out)
    _refuse_other(out, force)
    entries = [entry for source in sources for entry in _found(Path(source))]
    try:
        with _files.whole(out) as part:
            part.write_text(page(entries), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"The report could not be written to {out}: {error.strerror or error}.") from None
    return out, not any(entry.outcome is Outcome.FAILS for entry in entries)


def _refuse_other(out: Path, force: bool) -> None:
    if not os.path.lexists(out) or (force and out.is_file()):
        return
    try:
        if MARK.encode() in _files.read(out, LARGEST * 64)[:400]:
            return
    except (OSError, ValueError):
        pass
    raise InputError(f"{out} is no report of tokenfield's; it is left as it is. Choose another --out, or add --force.")


# What folders hold


def _found(source: Path) -> Iterator[Entry]:
    if not source.is_dir():
        raise InputError(f"There is no folder {source}.")
    entries = list(_entries(source, DEEPEST))
    if not entries:
        raise InputError(
            f"{source} holds no figure, sweep or run of tokenfield's. `tokenfield figure sphere --small` makes one."
        )
    yield from entries


def _entries(folder: Path, depth: int) -> Iterator[Entry]:
    """Whatever is known in a folder, and in those inside it."""
    if show.is_sweep(folder):
        yield _sweep(folder)
    elif folder.suffix == ".zarr":
        yield _run(folder, folder.with_suffix(".png"))
    elif places.standing(folder.absolute() / folders.DATA):
        yield _figure(folder)
    elif places.standing(folder.absolute() / "run.zarr"):
        yield _run(folder / "run.zarr", folder / "run.png")
    elif depth:
        inside = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
        for path in inside:
            yield from _entries(path, depth - 1)


def _figure(folder: Path) -> Entry:
    """A figure, of the library's or of somebody's own: all that is told of it is on disk."""
    about = tables.load(folder / folders.DATA)[1]
    try:
        name, shows, claims = str(about["figure"]), str(about.get("shows", "")), folders.claims_of(about)
        parts, seconds = {**about["parameters"], **about["versions"]}, float(about["seconds"])
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{folder} holds data, but not those of a figure ({error}).") from None
    outcomes = {claim.outcome for claim in claims}
    outcome = next((one for one in (Outcome.FAILS, Outcome.INCONCLUSIVE, Outcome.HOLDS) if one in outcomes), None)
    met = sum(claim.outcome is Outcome.HOLDS for claim in claims)
    source = about.get("source")
    body = [
        paragraph(f"{shows} {f'Source: {source}.' if source else ''}"),
        _image(folder / f"{name}.png", shows),
        paragraph(str(about.get("remark", ""))),
        _claims(claims),
        _repeat(str(about.get("command", f"tokenfield figure {name}"))),
        details("Parameters, seeds and versions", pairs(parts)),
        paragraph(f"Made on {about.get('made', 'an unknown day')}, computed in {told(seconds)}."),
    ]
    return Entry(name, "figure", outcome, f"{met} of {len(claims)} claims hold", "\n".join(body))


def _sweep(folder: Path) -> Entry:
    sweep = Folder.opened(folder)
    done, total = len(sweep.done()), len(sweep.layout.grid)
    try:
        picture = embedded(png(show.picture(sweep)), "The sweep")
    except InputError as error:
        picture = paragraph(str(error))
    about = sweep.layout.about
    body = [
        picture,
        listing(show.story(sweep)),
        details("What was swept", listing(json.dumps(about, indent=1))),
    ]
    return Entry(folder.name, "sweep", None, f"{done} of {total} groups computed", "\n".join(body))


def _run(saved: Path, picture: Path) -> Entry:
    from tokenfield.trajectory import Trajectory

    run = Trajectory.load(saved)
    spec = run.provenance.spec
    drawn = _image(picture, "The run") if picture.is_file() else embedded(png(run.plot()), "The run")
    body = [
        drawn,
        listing(str(run)),
        details("Spec", listing(json.dumps(spec, indent=1))) if spec else "",
        _repeat(f"tokenfield run {saved.parent / 'run.toml'} --out again")
        if (saved.parent / "run.toml").is_file()
        else "",
    ]
    return Entry(
        saved.parent.name if saved.name == "run.zarr" else saved.name, "run", None, str(run.status), "\n".join(body)
    )


# The page


def page(entries: Sequence[Entry]) -> str:
    """The whole page.

    **Arguments**

    - `entries`: what is on it.

    **Returns** its HTML.
    """
    names = [
        (
            f'<a href="#e{k}">{html.escape(one.name)}</a>',
            one.kind,
            f"{_verdict(one.outcome)} {html.escape(one.summary)}",
        )
        for k, one in enumerate(entries)
    ]
    sections = [f'<h2 id="e{k}">{html.escape(one.name)}</h2>\n{one.body}' for k, one in enumerate(entries)]
    made = paragraph(f"Written by tokenfield on {time.strftime('%Y-%m-%d')}. This page needs nothing but itself.")
    body = ["<h1>tokenfield report</h1>", made, table(("name", "kind", "verdict"), names), *sections]
    return framed("tokenfield report", body, MARK)


def _claims(claims: Sequence[Finding]) -> str:
    if not claims:
        return ""
    rows = [
        (
            _verdict(one.outcome),
            html.escape(one.what),
            f"{one.measured:.6g}",
            html.escape(one.expected),
            html.escape(one.because),
        )
        for one in claims
    ]
    return table(("verdict", "what", "measured", "expected", "tolerance"), rows)


def _verdict(outcome: Outcome | None) -> str:
    """A verdict by sign, word and colour."""
    if outcome is None:
        return ""
    word = outcome.value.split()[-1]
    return f'<span class="{word}">{SIGNS.get(outcome, "?")} {outcome.value}</span>'


def _repeat(command: str) -> str:
    return f"<p>To repeat it:</p>{listing(command)}"


def _image(path: Path, words: str) -> str:
    """A picture from a file, if it is one."""
    try:
        data = _files.read(path, LARGEST)
    except (OSError, ValueError):
        return paragraph(f"(The picture {path.name} is missing.)")
    return embedded(data, words) if data.startswith(b"\x89PNG") else paragraph(f"({path.name} is no picture.)")
