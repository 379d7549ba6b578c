"""One observable, two kinds of argument."""

from collections.abc import Callable
from types import UnionType
from typing import Any, TypeAlias, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenfield import _checks as check
from tokenfield._compile import compiled
from tokenfield._types import no_type_check
from tokenfield.errors import InputError
from tokenfield.measures import AbstractMeasure, Tokens
from tokenfield.trajectory import Trajectory

F = TypeVar("F", bound=Callable[..., Any])

Measured: TypeAlias = AbstractMeasure | Trajectory[Any]
"""What observables are functions of: one state, or a run."""


@no_type_check
def states(thing: Measured, kind: type | UnionType = Tokens) -> Any:
    """The measure itself, or the batched measures of a trajectory; refused where they are not of this kind."""
    if isinstance(thing, Trajectory) and thing.observed is not None:
        raise InputError(
            f"This run kept {', '.join(thing.observed)} instead of its states: observe run.final, or evolve again and keep states."
        )
    mu = thing.states if isinstance(thing, Trajectory) else thing
    if isinstance(mu, kind):
        if mu is thing:
            mu.refuse_nonfinite()
        return mu
    if isinstance(mu, AbstractMeasure):
        raise InputError(
            f"This observable is not one of a {type(mu).__name__}. A measure's own "
            "quantities are its attributes, at one time or along a run: run.rho, run.cov, run.order, run.entropy."
        )
    raise InputError(
        f"Observables take a measure (Tokens) or a run (Trajectory), but got {type(thing).__name__}. "
        "For points of shape (n, d), write Tokens(points)."
    )


def blind(observable: F) -> F:
    """Marks an observable that cannot tell rotated measures apart, so that a run may keep it in coordinates of its own."""
    observable.sees_axes = False  # pyright: ignore[reportFunctionMemberAccess]
    return observable


def by_members(observable: Callable[[Trajectory[Any]], Any], runs: Trajectory[Any]) -> Any:
    """An observable that needs each member's own flow, of a batch of runs; those that ended early hold their last value, and
    arrays of fewer tokens are filled up with zeros."""
    found = [np.asarray(observable(runs.member(*index))) for index in np.ndindex(*runs.batch)]
    hold = lambda rows: np.concatenate([rows, np.repeat(rows[-1:], len(runs) - len(rows), axis=0)])
    largest = np.max([rows.shape[1:] for rows in found], axis=0).astype(int)
    fill = lambda rows: np.pad(rows, [(0, 0), *((0, n - k) for n, k in zip(largest, rows.shape[1:], strict=True))])
    return runs.stacked([fill(hold(rows)) for rows in found])


PAGE = 16
"""How many states of a run one call of a program takes: the number of states is no part of what is compiled."""


def each(function: Callable[..., Any], thing: Measured, *arguments: Any, t: Any = None) -> Any:
    """`function(mu, *arguments)` of a measure; of a trajectory, one result per saved time, computed one after another to
    save memory. Compiled once for a shape: `function` is a plain function of its module, what varies is an argument. Where
    times `t` are given, one or one per state, it is `function(mu, t, *arguments)`."""
    mu = states(thing)
    own = [] if t is None else [t]
    if check.traced((mu, own, arguments)) or mu.leading == 0:
        return _each(function, (mu, *(jnp.broadcast_to(one, mu.x.shape[: mu.x.ndim - 2]) for one in own)), arguments)
    front = mu.x.shape[: mu.leading]
    flat = [_flat(np.asarray(array), front, len(mu.axes[name])) for name, array in mu.arrays.items()]
    names = list(mu.arrays)
    rows = (
        eqx.tree_at(lambda mu: [getattr(mu, name) for name in names], mu, flat),
        *(_flat(np.asarray(one), front, 0) for one in own),
    )
    count = int(np.prod(front))
    pages = [_page(function, rows, start, arguments) for start in range(0, count, PAGE)]
    join = lambda *leaves: check.on_device(np.concatenate(leaves)[:count].reshape(*front, *leaves[0].shape[1:]))
    return jax.tree.map(join, *pages)


def _flat(array: np.ndarray, front: tuple[int, ...], own: int) -> np.ndarray:
    """All leading axes as one; an array that all states share is repeated."""
    shape = array.shape[array.ndim - own :]
    return np.broadcast_to(array, (*front, *shape)).reshape(-1, *shape)


def _page(function: Callable[..., Any], rows: Any, start: int, arguments: tuple) -> Any:
    """The results of one page of states; the last page is filled up with its last state."""
    some = jax.tree.map(lambda leaf: leaf[np.minimum(np.arange(start, start + PAGE), len(leaf) - 1)], rows)
    return jax.tree.map(np.asarray, _each(function, jax.tree.map(check.on_device, some), arguments))


@compiled
def _each(function: Callable[..., Any], rows: tuple, arguments: tuple) -> Any:
    of = lambda row: function(*row, *arguments)
    for _ in range(rows[0].x.ndim - 2):  # times, and before them any batch of runs
        of = lambda rows, inner=of: jax.lax.map(inner, rows)
    return of(rows)


@no_type_check
def one_by_one(observable: Callable[[Tokens], Any], thing: Measured, name: str) -> Any:
    """An observable that is computed on the host and is no array: of tokens one, of a run a list with one per saved time, of a
    batch of runs such lists in an array of its shape."""
    mu = states(thing)
    if check.traced(mu):
        raise InputError(f"{name} looks at values, so it cannot be traced by jit, grad or vmap. Call it outside.")
    if isinstance(thing, Trajectory) and thing.batch:
        return over_members(lambda run: one_by_one(observable, run, name), thing)
    return (
        [observable(thing[i].present) for i in range(len(thing))] if isinstance(thing, Trajectory) else observable(mu)
    )


def over_members(observable: Callable[[Trajectory[Any]], Any], runs: Trajectory[Any]) -> np.ndarray:
    """Whatever an observable says of each member of a batch, in an array of objects of its shape."""
    found = np.empty(runs.batch, object)
    for index in np.ndindex(*runs.batch):
        found[index] = observable(runs.member(*index))
    return found
