"""The front end's modules: they may be put together as one script, fetch nothing, and are seen by everyone."""

import itertools
import re

import numpy as np
import pytest

from tokenfield.lab.pages import WEB

MODULES = sorted(WEB.rglob("*.js"))
DECLARED = re.compile(
    r"^(?:export )?(?:async )?(?:function|const|let|class) (?:\[([^\]]*)\]|\{([^}]*)\}|([\w$Ͱ-Ͽ]+))(.*)$", re.MULTILINE
)


def names(path):
    found = []
    for match in DECLARED.finditer(path.read_text()):
        found += re.findall(r"[\w$Ͱ-Ͽ]+", match[1] or match[2] or match[3])
    return found


def test_top_level_names_are_unique():
    """Modules are put together by text, so that a name stands for one thing; explorables never meet one another."""
    shared = [path for path in MODULES if path.parent == WEB]
    for extra in [[], *([path] for path in MODULES if path.parent != WEB)]:
        kept = [path for path in shared if path.name != "page.js"] + extra
        for a, b in itertools.combinations(kept, 2):
            assert not set(names(a)) & set(names(b)), f"{a.name} and {b.name}"


@pytest.mark.parametrize("path", [*MODULES, WEB / "lab.css", WEB / "index.html"], ids=lambda path: path.name)
def test_nothing_is_fetched_from_elsewhere(path):
    assert not re.findall(r"https?://|@import|\burl\(|innerHTML|eval\(", path.read_text())


def palette():
    text = (WEB / "colours.js").read_text()
    line = re.search(r"PALETTE = \[(.*?)\]", text)
    assert line
    return [np.array([int(hexa[i : i + 2], 16) / 255 for i in (0, 2, 4)]) for hexa in re.findall(r"#(\w{6})", line[1])]


linear = lambda c: np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
# How the three kinds of colour blindness see linear light (Viénot, Brettel and Mollon 1999; for blue by the same way).
LMS = np.array(
    [[0.31399022, 0.63951294, 0.04649755], [0.15537241, 0.75789446, 0.08670142], [0.01775239, 0.10944209, 0.87256922]]
)
BLIND = {
    "none": np.eye(3),
    "protan": np.array([[0, 1.05118294, -0.05116099], [0, 1, 0], [0, 0, 1]]),
    "deutan": np.array([[1, 0, 0], [0.9513092, 0, 0.04866992], [0, 0, 1]]),
    "tritan": np.array([[1, 0, 0], [0, 1, 0], [-0.86744736, 1.86727089, 0]]),
}


def lab(colour, blind):
    """CIELAB of a colour as it is seen."""
    rgb = np.clip(np.linalg.inv(LMS) @ BLIND[blind] @ LMS @ linear(colour), 0, 1)
    xyz = (
        np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
        @ rgb
        / [0.9505, 1.0, 1.089]
    )
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("blind", BLIND)
def test_clusters_are_told_apart_without_all_colours(blind):
    """Neighbouring numbers of clusters, up to three apart, differ by 15 units of CIELAB; any two colours by 10."""
    seen = [lab(colour, blind) for colour in palette()]
    for (i, a), (j, b) in itertools.combinations(enumerate(seen), 2):
        distance = np.linalg.norm(a - b)
        assert distance > (15 if min(j - i, len(seen) + i - j) <= 3 else 10), (i, j, distance)


def variables(dark):
    blocks = re.findall(
        r"--paper: (#\w+);.*?--ink: (#\w+); --dim: (#\w+);.*?--accent: (#\w+); --on: (#\w+);\s*--warn: (#\w+); --dark: (\d)",
        (WEB / "lab.css").read_text(),
        re.DOTALL,
    )
    return [
        dict(zip(("paper", "ink", "dim", "accent", "on", "warn"), block[:6], strict=True))
        for block in blocks
        if block[6] == str(int(dark))
    ]


def contrast(a, b):
    luminance = [
        0.05 + linear(np.array([int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)])) @ [0.2126, 0.7152, 0.0722]
        for c in (a, b)
    ]
    return max(luminance) / min(luminance)


@pytest.mark.parametrize("dark", [False, True])
def test_words_stand_out_from_the_paper(dark):
    sets = variables(dark)
    assert len(sets) == 2  # the system's theme and the notebook's
    for colours in sets:
        for name in ("ink", "dim", "accent", "warn"):
            assert contrast(colours[name], colours["paper"]) >= 4.5, name
        assert contrast(colours["on"], colours["accent"]) >= 4.5
