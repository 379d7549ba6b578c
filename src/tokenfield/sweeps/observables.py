"""What a sweep keeps of its members: functions of a measure, in compiled code or on the host."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tokenfield import _checks as check
from tokenfield import observe
from tokenfield.errors import InputError, short, suggest
from tokenfield.evolution.observables import Observables, along, observables
from tokenfield.measures import AbstractMeasure
from tokenfield.observe.clustering import how_many
from tokenfield.sweeps.grid import TAKEN
from tokenfield.trajectory import Trajectory

COUNTED: dict[str, Callable[[Any], Any]] = {"clusters": how_many}
"""Observables that look at values, and what a sweep keeps of them, of many states at once: how many."""


@dataclasses.dataclass(frozen=True)
class Kept:
    """The names of what is kept, and whether states are."""

    traced: tuple[tuple[str, Any], ...]
    counted: tuple[tuple[str, str], ...]
    states: bool

    @staticmethod
    def read(given: Any, states: bool, start: AbstractMeasure) -> "Kept":
        """What `observe=` means for such starts: names, functions, a list or a dict of these.

        **Raises** `InputError` where it is something else, or nothing is kept.
        """
        if given is None and not states:
            raise InputError("A sweep keeps observables, states, or both: say which, e.g. observe=['mean_overlap'].")
        if given is None:
            return Kept((), (), states)
        pairs = given.items() if isinstance(given, Mapping) else [(one, one) for one in _listed(given)]
        named = [(name if isinstance(given, Mapping) else _name(one, k), one) for k, (name, one) in enumerate(pairs)]
        _refuse_names([name for name, _ in named], start)
        counted = tuple((name, one) for name, one in named if isinstance(one, str) and one in COUNTED)
        rest = {name: _own(one, start) for name, one in named if not (isinstance(one, str) and one in COUNTED)}
        found = observables(rest) if rest else None
        traced = () if found is None else tuple(zip(found.names, found.functions, strict=True))
        return Kept(traced, counted, states)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in (*self.traced, *self.counted))

    @property
    def functions(self) -> Observables:
        return Observables(tuple(of for _, of in self.traced), tuple(name for name, _ in self.traced))

    @property
    def needs_states(self) -> bool:
        """Whether states are looked at on the host."""
        return self.states or bool(self.counted)

    def of_one(self, mu: AbstractMeasure) -> dict[str, np.ndarray]:
        """What is kept of one measure, for its shapes."""
        found = {name: np.asarray(value) for name, value in self.functions(mu).items()}
        one = jax.tree.map(lambda leaf: check.on_device(np.asarray(leaf)[None]), mu)
        return found | {name: np.asarray(COUNTED[what](one)[0]) for name, what in self.counted}

    def of_run(self, run: Trajectory) -> dict[str, np.ndarray]:
        """The observables of a run or a batch of runs that has kept its states, along time."""
        front = (*run.batch, len(run))
        rows = lambda leaf: check.on_device(np.asarray(leaf).reshape(-1, *leaf.shape[len(front) :]))
        flat = jax.tree.map(rows, run.states)
        found = (
            {name: np.asarray(values) for name, values in along(self.functions, flat).items()} if self.traced else {}
        )
        found |= {name: COUNTED[what](flat) for name, what in self.counted}
        return {name: values.reshape(*front, *values.shape[1:]) for name, values in found.items()}


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]


def _name(one: Any, k: int) -> str:
    name = one if isinstance(one, str) else getattr(one, "__name__", type(one).__name__)
    return name if isinstance(one, str) or name.isidentifier() else f"observable_{k}"


def _refuse_names(names: list[Any], start: AbstractMeasure) -> None:
    """Refuse names that are none, that two observables have, or that something else in a sweep has."""
    for name in names:
        if not isinstance(name, str) or not name.isidentifier():
            raise InputError(f"An observable cannot be called {short(name)}: a name is a word, such as 'overlap'.")
        if name in TAKEN or name in start.axes:
            raise InputError(
                f"An observable cannot be called {name!r}, which a sweep has already. Choose another name."
            )
        if names.count(name) > 1:
            raise InputError(f"Two observables are called {name!r}. Give a dict with names of their own.")


def _own(one: Any, start: AbstractMeasure) -> Any:
    """A quantity of the measure itself, by its name; whatever else is an observable of the library's, or the user's."""
    if isinstance(one, str) and one in start.quantities:
        return Quantity(one)
    if isinstance(one, str):
        known = [name for name in vars(observe) if getattr(getattr(observe, name), "sees_axes", None) is False]
        if one not in known:
            known = [*known, *COUNTED, *start.quantities]
            raise InputError(f"There is no observable {one!r} that a sweep can keep. {suggest(one, known)}")
    return one


class Quantity(eqx.Module):
    """A quantity that a measure has as an attribute, as a function of it."""

    name: str = eqx.field(static=True)

    def __call__(self, mu: Any) -> Any:
        return getattr(mu, self.name)
