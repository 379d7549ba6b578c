"""docs/gallery.md from figures that were made: `python docs/make_gallery.py PUBLISHED SMALL`, two folders of figures, each made by
`tokenfield figure all`. Pictures go to docs/images/figures, measured durations to the list of figures."""

import json
import shutil
import sys
from pathlib import Path

from PIL import Image

from tokenfield.figures import folders, load
from tokenfield.figures.base import Plate, told
from tokenfield.figures.published import MEASURED, NAMES

DOCS = Path(__file__).resolve().parent
PICTURES = DOCS / "images" / "figures"
WIDTH = 1400
"""Pixels that a picture on the page has at most."""

HEAD = """\
# Gallery

Every published figure, each made by the command above it and compared with what its source says. Sources are keys of
[references.bib](references.bib); [figures.md](figures.md) says how to make one, change it, or write one of your own. This page was
written by `make gallery`, on two cores.

| figure | source | small | published | claims |
|---|---|---|---|---|
"""


def main(published: Path, small: Path) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    rows, sections, durations = [], [], {}
    for name in NAMES:
        plate, quick = load(published / name), load(small / name)
        durations[name] = {"small": round(quick.seconds, 1), "published": round(plate.seconds, 1)}
        rows.append(row(plate, quick))
        sections.append(section(plate))
        picture(published / name / f"{name}.png")
        for movie in (published / name).glob("*.mp4"):
            shutil.copy(movie, PICTURES / movie.name)
    (DOCS / "gallery.md").write_text(HEAD + "\n".join(rows) + "\n\n" + "\n".join(sections), encoding="utf-8")
    MEASURED.write_text(json.dumps(durations, indent=1) + "\n", encoding="utf-8")


def row(plate: Plate, quick: Plate) -> str:
    one = plate.made_by
    met = f"{len(plate.claims) - len(plate.failed)} of {len(plate.claims)} hold"
    return f"| [{one.name}](#{one.name}) | {one.cited} | {told(quick.seconds)} | {told(plate.seconds)} | {met} |"


def section(plate: Plate) -> str:
    """One figure: the command, the picture, what it shows, what it claims, and what making it has taught."""
    one = plate.made_by
    claims = "".join(f"\n- {claim.outcome.value}: {claim}" for claim in plate.claims)
    remark = f"\n{one.remark}\n" if one.remark else ""
    return (
        f"## {one.name}\n\n{one.shows} [{one.cited}]\n\n```\n{folders.command(one)}\n```\n\n"
        f"![{one.shows}](images/figures/{one.name}.png)\n{remark}\n<details><summary>{len(plate.claims)} claims</summary>\n"
        f"{claims}\n\n</details>\n"
    )


def picture(path: Path) -> None:
    """The picture, no wider than the page, in few colours where that is not seen."""
    image = Image.open(path).convert("RGB")
    if image.width > WIDTH:
        image = image.resize((WIDTH, round(image.height * WIDTH / image.width)), Image.Resampling.LANCZOS)
    image.quantize(256, dither=Image.Dither.NONE).save(PICTURES / path.name, optimize=True)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
