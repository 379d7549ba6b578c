"""HTML pages that need nothing but themselves: pictures are inside, there is no script, and their policy forbids to load anything.

Whatever is put on a page is text to it: nothing that was read from a file becomes markup.
"""

import base64
import html
import io
import json
from collections.abc import Iterable
from typing import Any

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


def framed(title: str, parts: Iterable[str], mark: str = "") -> str:
    """A whole page.

    **Arguments**

    - `title`: its title, as text.
    - `parts`: its body, as HTML.
    - `mark`: a comment by which the page is known again.

    **Returns** its HTML.
    """
    head = (
        f'<!doctype html>\n{mark}\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">"
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{html.escape(title)}</title>'
        f"<style>{STYLE}</style></head>\n<body>"
    )
    return "\n".join([head, *parts, "</body></html>\n"])


def paragraph(text: str) -> str:
    """A paragraph, or nothing where there are no words."""
    return f"<p>{html.escape(text)}</p>" if text.strip() else ""


def listing(text: str) -> str:
    """Text as it stands, line by line."""
    return f"<pre>{html.escape(text)}</pre>"


def details(title: str, inside: str) -> str:
    """HTML that unfolds below its title."""
    return f"<details><summary>{html.escape(title)}</summary>{inside}</details>"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of cells that are HTML; a wide one scrolls."""
    line = lambda tag, cells: "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"
    lines = "".join(line("td", cells) for cells in rows)
    return f'<div class="wide"><table>{line("th", head)}\n{lines}</table></div>'


def pairs(values: dict[str, Any]) -> str:
    """Names and values, as JSON has them."""
    cells = (f"<tr><td>{html.escape(str(k))}</td><td>{html.escape(json.dumps(v))}</td></tr>" for k, v in values.items())
    return f"<table>{''.join(cells)}</table>"


def embedded(data: bytes, words: str) -> str:
    """A picture, the bytes of a PNG, inside the page; `words` say what it shows."""
    return f'<p><img alt="{html.escape(words)}" src="data:image/png;base64,{base64.b64encode(data).decode()}"></p>'


def png(figure: Any) -> bytes:
    """A matplotlib figure as PNG."""
    page = io.BytesIO()
    figure.savefig(page, dpi=130, format="png")
    return page.getvalue()
