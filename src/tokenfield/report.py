"""`tokenfield report`: figures, sweeps and runs of any number of folders as one HTML page that opens offline.

The page needs nothing but itself: pictures are inside it, there is no script, and its policy forbids to load anything. Whatever is
read from folders is text to it.
"""

import base64
import dataclasses
import html
import io
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tokenfield import _files
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

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #22262e; --faint: #d5d9e0; --soft: #f5f6f8; --good: #176b2c; --bad: #b3261e;
  --open: #7a5c00; }
@media (prefers-color-scheme: dark) { :root { --paper: #15181d; --ink: #e6e8ec; --faint: #3a404a; --soft: #1e2229; --good: #6fce86;
  --bad: #ff8a80; --open: #e6c35c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; font: 16px/1.5 system-ui, sans-serif; }
body { color: var(--ink); background: var(--paper); }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 3rem; border-top: 1px solid var(--faint); padding-top: 1rem; }
img { max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 0.85rem; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.6rem; border-bottom: 1px solid var(--faint); }
pre { background: var(--soft); padding: 0.6rem 0.8rem; overflow-x: auto; font-size: 0.85rem; border-radius: 4px; }
a { color: inherit; } .holds { color: var(--good); } .fails { color: var(--bad); font-weight: 600; }
.inconclusive { color: var(--open); }
details { margin: 0.6rem 0; } summary { cursor: pointer; }
@media print { details > * { display: block; } h2 { break-before: page; } }
"""

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
        _paragraph(f"{shows} {f'Source: {source}.' if source else ''}"),
        _image(folder / f"{name}.png", shows),
        _paragraph(str(about.get("remark", ""))),
        _claims(claims),
        _repeat(str(about.get("command", f"tokenfield figure {name}"))),
        _details("Parameters, seeds and versions", _pairs(parts)),
        _paragraph(f"Made on {about.get('made', 'an unknown day')}, computed in {told(seconds)}."),
    ]
    return Entry(name, "figure", outcome, f"{met} of {len(claims)} claims hold", "\n".join(body))


def _sweep(folder: Path) -> Entry:
    sweep = Folder.opened(folder)
    done, total = len(sweep.done()), len(sweep.layout.grid)
    try:
        picture = _embedded(_drawn(show.picture(sweep)), "The sweep")
    except InputError as error:
        picture = _paragraph(str(error))
    about = sweep.layout.about
    body = [
        picture,
        f"<pre>{html.escape(show.story(sweep))}</pre>",
        _details("What was swept", f"<pre>{html.escape(json.dumps(about, indent=1))}</pre>"),
    ]
    return Entry(folder.name, "sweep", None, f"{done} of {total} groups computed", "\n".join(body))


def _run(saved: Path, picture: Path) -> Entry:
    from tokenfield.trajectory import Trajectory

    run = Trajectory.load(saved)
    spec = run.provenance.spec
    drawn = _image(picture, "The run") if picture.is_file() else _embedded(_drawn(run.plot()), "The run")
    body = [
        drawn,
        f"<pre>{html.escape(str(run))}</pre>",
        _details("Spec", f"<pre>{html.escape(json.dumps(spec, indent=1))}</pre>") if spec else "",
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
    rows = [
        f'<tr><td><a href="#e{k}">{html.escape(entry.name)}</a></td><td>{entry.kind}</td><td>{_verdict(entry.outcome)} '
        f"{html.escape(entry.summary)}</td></tr>"
        for k, entry in enumerate(entries)
    ]
    sections = [f'<h2 id="e{k}">{html.escape(entry.name)}</h2>\n{entry.body}' for k, entry in enumerate(entries)]
    head = (
        f'<!doctype html>\n{MARK}\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>tokenfield report</title>'
        f"<style>{STYLE}</style></head>\n<body>"
    )
    table = (
        f'<div class="wide"><table><tr><th>name</th><th>kind</th><th>verdict</th></tr>\n{"".join(rows)}</table></div>'
    )
    made = _paragraph(f"Written by tokenfield on {time.strftime('%Y-%m-%d')}. This page needs nothing but itself.")
    return "\n".join([head, "<h1>tokenfield report</h1>", made, table, *sections, "</body></html>\n"])


def _claims(claims: Sequence[Finding]) -> str:
    if not claims:
        return ""
    rows = [
        f"<tr><td>{_verdict(claim.outcome)}</td><td>{html.escape(claim.what)}</td><td>{claim.measured:.6g}</td>"
        f"<td>{html.escape(claim.expected)}</td><td>{html.escape(claim.because)}</td></tr>"
        for claim in claims
    ]
    head = "<tr><th>verdict</th><th>what</th><th>measured</th><th>expected</th><th>tolerance</th></tr>"
    return f'<div class="wide"><table>{head}\n{"".join(rows)}</table></div>'


def _verdict(outcome: Outcome | None) -> str:
    """A verdict by sign, word and colour."""
    if outcome is None:
        return ""
    word = outcome.value.split()[-1]
    return f'<span class="{word}">{SIGNS.get(outcome, "?")} {outcome.value}</span>'


def _paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>" if text.strip() else ""


def _repeat(command: str) -> str:
    return f"<p>To repeat it:</p><pre>{html.escape(command)}</pre>"


def _details(title: str, inside: str) -> str:
    return f"<details><summary>{html.escape(title)}</summary>{inside}</details>"


def _pairs(values: dict[str, Any]) -> str:
    cells: Iterable[str] = (
        f"<tr><td>{html.escape(str(k))}</td><td>{html.escape(json.dumps(v))}</td></tr>" for k, v in values.items()
    )
    return f"<table>{''.join(cells)}</table>"


def _image(path: Path, words: str) -> str:
    """A picture from a file, if it is one."""
    try:
        data = _files.read(path, LARGEST)
    except (OSError, ValueError):
        return _paragraph(f"(The picture {path.name} is missing.)")
    return _embedded(data, words) if data.startswith(b"\x89PNG") else _paragraph(f"({path.name} is no picture.)")


def _embedded(data: bytes, words: str) -> str:
    return f'<p><img alt="{html.escape(words)}" src="data:image/png;base64,{base64.b64encode(data).decode()}"></p>'


def _drawn(figure: Any) -> bytes:
    """A matplotlib figure as PNG."""
    page = io.BytesIO()
    figure.savefig(page, dpi=130, format="png")
    return page.getvalue()
