"""Observables by name."""

from collections.abc import Callable
from typing import Any

from tokenfield._front import front_door
from tokenfield.errors import InputError, suggest


@front_door
def observable(name: str) -> Callable[..., Any]:
    """The observable of a name, as `evolve(..., observe="mean_overlap")` finds it.

    **Arguments**

    - `name`: the name of a function in `tkf.observe`.

    **Returns** the function.

    **Raises** `InputError` where there is none of this name.

    >>> observable("mean_overlap").__name__
    'mean_overlap'
    """
    from tokenfield import observe

    known = {key: value for key, value in vars(observe).items() if getattr(value, "sees_axes", None) is False}
    if name not in known:
        raise InputError(f"There is no observable {name!r} that a run can keep. {suggest(name, known)}")
    return known[name]
