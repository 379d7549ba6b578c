"""The report of a probe: one page that needs nothing but itself, like those of `tokenfield report`."""

import html
from typing import TYPE_CHECKING

import numpy as np

from tokenfield import _page
from tokenfield.transformer.probe import story
from tokenfield.transformer.probe.controls import UNTRAINED
from tokenfield.transformer.probe.draw import picture

if TYPE_CHECKING:
    from tokenfield.transformer.probe.result import Probe

DEFINITIONS = (
    ("mean cosine", "of the directions of two tokens, over all pairs of different ones."),
    ("rank", "the effective rank of the tokens' matrix, exp of the entropy of its singular values over their sum."),
    ("clusters", "balls around tokens, of the radius that is told above; every token is in one."),
    (
        "energy",
        "of the directions, at the median effective β, over that of one cluster: the mean of e^(β(<θ_i, θ_j> - 1)).",
    ),
    (
        "effective β",
        "the standard deviation over keys of scores, averaged over queries, over that of the overlaps of what attention reads; β "
        "itself for tokens on the sphere with Q = K = I.",
    ),
    ("β by concentration", "at which equiangular tokens have the same Σ_j P_ij², averaged over queries."),
    (
        "sink",
        "a token to which the mean head of some layer gives 0.2 more of the attention than uniform attention would.",
    ),
    (
        "theory",
        "equiangular tokens through as many layers, with V = I, in the model's normalization, from the same cosine.",
    ),
    (
        "Lipschitz constant",
        "the largest singular value of the Jacobian, of attention in what it reads and of the block in its tokens, at the first n "
        "tokens of a text; the exponent by least squares in logarithms, with a constant for every text.",
    ),
)


def page(probe: "Probe") -> str:
    """The whole page.

    **Arguments**

    - `probe`: what was found.

    **Returns** its HTML.
    """
    about = probe.about
    parts = [
        f"<h1>Probe of {html.escape(about['probe'])}</h1>",
        *(_page.paragraph(line) for line in story.opening(probe).splitlines()),
        _page.embedded(_page.png(picture(probe)), f"All that was measured of {about['probe']}"),
        *(_page.paragraph(words) for words in story.sentences(probe) if "\n" not in words),
        "<h2>Layers</h2>",
        _table(story.layer_rows(probe)),
        *_exponents(probe),
        "<h2>Heads</h2>",
        _table(head_rows(probe)),
        "<h2>What the words mean</h2>",
        "".join(f"<p><b>{html.escape(word)}</b>: {html.escape(text)}</p>" for word, text in DEFINITIONS),
        _page.details("Texts", "".join(_page.paragraph(text) for text in about["texts"])),
        _page.details("Settings", _page.pairs({**about, "control": UNTRAINED.get(about["control"], about["control"])})),
    ]
    return _page.framed(f"Probe of {about['probe']}", parts)


def _exponents(probe: "Probe") -> list[str]:
    if "exponent" not in probe.data:
        return []
    return ["<h2>Exponents of Lipschitz constants</h2>", _table(story.exponent_rows(probe))]


def head_rows(probe: "Probe") -> list[list[str]]:
    """Of every block the median head, with the least and the largest."""
    head = [
        "block",
        "entropy/log n",
        "no sinks",
        "most attended",
        "first",
        "β",
        "β, no sinks",
        "β by concentration",
        "alignment",
        "step",
    ]
    data = probe.data.sel(variant="text").mean("text")
    rows = []
    for k in story.some_layers(data.sizes["block"]):
        one = data.isel(block=int(k))
        with_, without = one.sel(sinks="with"), one.sel(sinks="without")
        rows.append(
            [
                str(int(k)),
                _range(with_.entropy_share.values),
                _range(without.entropy_share.values),
                _range(one.most.values),
                _range(one["first"].values),
                _range(with_.beta.values),
                _range(without.beta.values),
                _range(with_.beta_concentrated.values),
                _range(with_.alignment.values),
                story.number(float(one.step), ".2g"),
            ]
        )
    return [head, *rows]


def _range(values: np.ndarray) -> str:
    known = values[np.isfinite(values)]
    return f"{np.median(known):.2g} ({known.min():.2g} to {known.max():.2g})" if known.size else "–"


def _table(rows: list[list[str]]) -> str:
    head, *body = [[html.escape(cell) for cell in row] for row in rows]
    return _page.table(head, body)
