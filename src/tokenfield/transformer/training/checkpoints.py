"""A training on disk. The folder is a model of ours, which `Transformer.load` reads, with one more file: all that going on needs.

That file, training.safetensors, is renamed into its place, so that at every moment a whole one is there; the weights
follow. Whoever is killed in between has weights that are one checkpoint older than what training goes on from, and loses nothing.
"""

import contextlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from tokenfield._files import whole
from tokenfield.errors import StoreError
from tokenfield.status import Status
from tokenfield.store import places
from tokenfield.transformer.files import own
from tokenfield.transformer.model import Transformer

STATE, PICTURE = "training.safetensors", "loss.png"


class State(NamedTuple):
    """How far a training has come.

    **Arguments**

    - `weights`, `memory`: the weights, and what the optimizer remembers.
    - `losses`: the loss of every step so far; their number is the number of steps.
    - `checks`: validation losses, one row (step, loss) each.
    - `status`: RUNNING, or how it ended.
    - `seconds`: how long it has taken.
    - `words`: what is to be told of its end.
    """

    weights: Any
    memory: Any
    losses: np.ndarray
    checks: np.ndarray
    status: Status = Status.RUNNING
    seconds: float = 0.0
    words: str = ""

    @property
    def steps(self) -> int:
        return len(self.losses)


def on_host(state: State) -> State:
    """The same, with copies of all arrays, which no program takes the memory of."""
    copy = lambda tree: jax.tree.map(lambda leaf: np.array(leaf, copy=True), tree)
    return state._replace(weights=copy(state.weights), memory=copy(state.memory))


def begin(model: Transformer, state: State, settings: dict[str, Any], folder: Path) -> None:
    """Make the folder of a training.

    **Raises** `StoreError` where that cannot be done.
    """
    try:
        with places.replacing(folder.absolute()) as new:
            for name, data in {**own.contents(model), STATE: _packed(state, settings)}.items():
                (new / name).write_bytes(data)
    except OSError as error:
        raise StoreError(f"The folder {folder} cannot be made: {error.strerror or error}. Choose another.") from None


def keep(model: Transformer, state: State, settings: dict[str, Any], folder: Path) -> None:
    """Put a state in place of the one before.

    **Arguments**

    - `model`: the model with the state's weights.
    - `state`, `settings`: what is kept, and what it belongs to.
    - `folder`: the folder.
    """
    try:
        for name, data in ((STATE, _packed(state, settings)), (own.WEIGHTS, own.contents(model)[own.WEIGHTS])):
            with whole(folder / name) as part:
                part.write_bytes(data)
    except OSError as error:
        raise StoreError(f"The checkpoint could not be written to {folder}: {error.strerror or error}.") from None


def _packed(state: State, settings: dict[str, Any]) -> bytes:
    tensors = {f"weights.{k:05}": leaf for k, leaf in enumerate(jax.tree.leaves(state.weights))}
    tensors |= {f"memory.{k:05}": leaf for k, leaf in enumerate(jax.tree.leaves(state.memory))}
    tensors |= {"losses": state.losses, "checks": state.checks}
    told = {"settings": settings, "status": state.status.name, "seconds": state.seconds, "words": state.words}
    return own.packed(tensors, {"training": json.dumps(told)})


def standing(folder: Path) -> bool:
    """Whether a folder holds a training; that of one who was killed while its folder was made anew is brought back."""
    with contextlib.suppress(OSError):
        found = places.standing(folder.absolute())
        if found and found[0] != folder.absolute():
            os.rename(found[0], folder)
    return (folder / STATE).is_file()


def settings_of(folder: Path) -> dict[str, Any]:
    """What a training was asked to do."""
    return _told(folder)["settings"]


def _told(folder: Path) -> dict[str, Any]:
    import safetensors

    try:
        with safetensors.safe_open(folder / STATE, "numpy") as file:
            told = json.loads(file.metadata()["training"])
        return {**told, "status": Status[told["status"]], "seconds": float(told["seconds"])}
    except (OSError, safetensors.SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise _damaged(folder, error) from None


def resumed(like: State, folder: Path) -> State:
    """The state in a folder.

    **Arguments**

    - `like`: a state of the same model at its beginning.
    - `folder`: the folder.

    **Returns** the state, on the host.

    **Raises** `StoreError` where it is damaged or belongs to another model.
    """
    told, tensors = _told(folder), own.unpacked(folder / STATE)
    try:
        weights, memory = (_filled(getattr(like, name), name, tensors) for name in ("weights", "memory"))
        return State(
            weights, memory, tensors["losses"], tensors["checks"], told["status"], told["seconds"], str(told["words"])
        )
    except (KeyError, ValueError) as error:
        raise _damaged(folder, error) from None


def _filled(like: Any, name: str, tensors: dict[str, np.ndarray]) -> Any:
    leaves, tree = jax.tree.flatten(like)
    found = [tensors[f"{name}.{k:05}"] for k in range(len(leaves))]
    for one, other in zip(found, leaves, strict=True):
        if one.shape != other.shape or one.dtype != other.dtype:
            raise ValueError(
                f"{name} have shape {one.shape} and {one.dtype} instead of {other.shape} and {other.dtype}"
            )
    return jax.tree.unflatten(tree, found)


def _damaged(folder: Path, error: Exception) -> StoreError:
    return StoreError(f"{folder / STATE} is damaged ({error}). Choose another folder, or begin anew with force=True.")
