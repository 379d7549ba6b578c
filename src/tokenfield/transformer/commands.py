"""What `tokenfield probe` and `tokenfield predict` do, and what they say."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tokenfield.transformer.model import Transformer
from tokenfield.transformer.outputs import prepare
from tokenfield.transformer.prediction import FILES as FORETOLD
from tokenfield.transformer.prediction import architecture_of, predict
from tokenfield.transformer.probe import probe
from tokenfield.transformer.probe.result import FILES, PAGE, PICTURE
from tokenfield.transformer.probe.texts import read


def probed(
    model: str, text: Path | None, out: Path | None, force: bool, watch: Callable[[str], Any], **options: Any
) -> Iterator[str]:
    """A probe in a folder.

    **Arguments**

    - `model`: a folder, a file, or the name of an installed model.
    - `text`: a file of texts; those that are embedded when None.
    - `out`: the folder; out/probe/NAME when None.
    - `force`: whether a probe that is there is replaced.
    - `watch`: called with a line of words before each part.
    - `options`: for `probe`.

    **Returns** the story, and then where things are.

    **Raises** `InputError` in sentences.
    """
    texts = None if text is None else read(text)
    loaded = Transformer.load(model)
    folder = Path("out/probe") / (re.sub(r"[^\w.-]+", "-", loaded.name).strip(".-") or "model") if out is None else out
    prepare(folder, force, FILES, "probe")
    found = probe(loaded, texts, watch=watch, **options)
    found.save(folder, force=True)
    yield str(found)
    yield f"report:  {folder / PAGE}"
    yield f"picture: {folder / PICTURE}"


def predicted(config: Path, asked: dict[str, Any], out: Path | None, force: bool) -> Iterator[str]:
    """A prediction, and its picture where there is a folder for it.

    **Arguments**

    - `config`: the config.json.
    - `asked`: for `predict`.
    - `out`: the folder, or None.
    - `force`: whether a prediction that is there is replaced.

    **Returns** the story, and then where the picture is.

    **Raises** `InputError` in sentences.
    """
    architecture = architecture_of(config)
    if out is not None:
        prepare(out, force, FORETOLD, "prediction")
    told = predict(architecture, **asked)
    yield str(told)
    if out is not None:
        told.save(out, force=True)
        yield f"picture: {out / FORETOLD[1]}"
