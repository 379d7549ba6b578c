"""Pages that need nothing but themselves: the front end's modules put together as one script.

The front end is plain modules, without a build step. Where one file must do (films, explorables, notebooks) those that an
entry imports, however deep, are written one after the other, without their import lines and exports.
"""

import html
import re
import sys
from pathlib import Path
from typing import Any

from tokenfield._files import whole
from tokenfield.lab.wire import dumped

WEB = Path(__file__).with_name("web")
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
    "form-action 'none'"
)
"""Of pages that stand alone: they load nothing from anywhere."""
_IMPORT = re.compile(r"^import\s[^\n]*?['\"](?P<path>\.[^'\"]+)['\"];?[ \t]*$", re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default\b)", re.MULTILINE)


def bundle(entry: str) -> str:
    """A module and all that it imports as one script.

    **Arguments**

    - `entry`: its name below the folder of the front end, such as "player.js".

    **Returns** the script; an `export default` stays.
    """
    return "\n".join(
        _EXPORT.sub("", _IMPORT.sub("", path.read_text(encoding="utf-8"))) for path in _needed(WEB / entry)
    )


def _needed(path: Path, seen: dict[Path, None] | None = None) -> list[Path]:
    """The modules that one needs, and itself last, each once."""
    seen = {} if seen is None else seen
    path = path.resolve()
    for found in _IMPORT.finditer(path.read_text(encoding="utf-8")):
        other = (path.parent / found["path"]).resolve()
        if other not in seen and other != path:
            _needed(other, seen)
    seen.setdefault(path)
    return list(seen)


def inside(script: str) -> str:
    """A script as it may stand inside a <script> element."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def quoted(data: Any) -> str:
    """Plain data as a script may hold it: whatever it says, it is no markup."""
    return dumped(data).replace("<", "\\u003c")


def alone(title: str, entry: str, start: str, body: str, kind: str = "film") -> str:
    """A page that needs nothing but itself.

    **Arguments**

    - `title`: its title, as text.
    - `entry`: the module of the front end that it runs.
    - `start`: what is run after that.
    - `body`: its body, as HTML.
    - `kind`: the class of the body.

    **Returns** its HTML.
    """
    style = (WEB / "lab.css").read_text(encoding="utf-8")
    head = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{html.escape(title)}</title>'
        f'<link rel="icon" href="data:,"><style>{style}</style></head>'
    )
    script = inside(bundle(entry)) + "\n" + start
    return f'{head}\n<body class="{kind}">{body}\n<script type="module">\n{script}\n</script></body></html>\n'


def explorables() -> list[str]:
    """The names of the small laboratories that run in a browser alone."""
    return sorted(path.stem for path in (WEB / "explorables").glob("*.html"))


def explorable(name: str) -> str:
    """A small laboratory as one page: its words, and a simulation in the browser.

    **Arguments**

    - `name`: one of `explorables()`.

    **Returns** its HTML.
    """
    title, words = _words(name)
    body = f'<section class="words">{words}</section><main></main>'
    return alone(title, f"explorables/{name}.js", "", body, "explorable")


def _words(name: str) -> tuple[str, str]:
    """Title and text, which the first line has as a comment."""
    first, _, rest = (WEB / "explorables" / f"{name}.html").read_text(encoding="utf-8").partition("\n")
    found = re.fullmatch(r"<!--\s*title:\s*(.*?)\s*-->", first.strip())
    assert found, f"explorables/{name}.html begins with <!-- title: ... -->"
    return found[1], rest


def write(folder: Path) -> list[Path]:
    """Write all small laboratories to a folder, and a page that lists them.

    **Returns** the files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = explorables()
    texts = {name: explorable(name) for name in names}
    links = "".join(f'<li><a href="{name}.html">{html.escape(_words(name)[0])}</a></li>' for name in names)
    texts["index"] = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        "<title>Small laboratories</title></head><body><h1>Small laboratories</h1>"
        f"<p>They run in this browser alone.</p><ul>{links}</ul></body></html>\n"
    )
    for name, text in texts.items():
        with whole(folder / f"{name}.html") as part:
            part.write_text(text, encoding="utf-8")
    return [folder / f"{name}.html" for name in texts]


if __name__ == "__main__":
    for path in write(Path(sys.argv[1])):
        print(path)
