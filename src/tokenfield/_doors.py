"""The one door upward.

Rooms below never import rooms above. What a run or a measure needs from above (its picture, its story, its place on disk) is
asked for here by name, and the room that answers is loaded then. A test builds the graph of all imports, those inside
functions included, and allows this one exception.
"""

import importlib
from collections.abc import Callable
from typing import Any

ROOMS: dict[str, str] = {
    "story": "tokenfield.story",
    "picture": "tokenfield.draw",
    "picture_of": "tokenfield.draw",
    "animation": "tokenfield.draw",
    "to_xarray": "tokenfield.data",
    "save": "tokenfield.store.runs",
    "load": "tokenfield.store.runs",
    "state_at": "tokenfield.evolution",
    "extended": "tokenfield.evolution",
    "observable": "tokenfield.observe",
    "view": "tokenfield.lab",
    "filmed": "tokenfield.lab",
}
"""What may be asked for, and the room that answers."""


def door(name: str) -> Callable[..., Any]:
    """The function of a room above that goes by this name."""
    return getattr(importlib.import_module(ROOMS[name]), name)
