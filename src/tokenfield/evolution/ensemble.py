"""Who takes part in an ensemble: every flow with every start, all alike in shape."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tokenfield import _checks as check
from tokenfield.attention.base import as_dtype
from tokenfield.errors import InputError
from tokenfield.flow import Flow
from tokenfield.measures import AbstractMeasure


class Ensemble:
    """All pairs of flows and starts, in the order of an array of shape `batch`. What varies among members has a leading axis in
    `flow` and in `start`."""

    def __init__(self, flow: Any, mu0: Any):
        self.many_flows = isinstance(flow, list | tuple)
        self.many_starts = isinstance(mu0, list | tuple) or _leading(mu0) > 0
        self.flows, starts = _flows(flow), _starts(mu0)
        self.start = stacked("start", starts) if self.many_starts else starts[0]
        cast = [as_dtype(one, self.start.dtype) for one in self.flows]
        self.flow = stacked("flow", cast) if self.many_flows else cast[0]
        self.counts = len(self.flows), len(starts)
        self.batch = (len(self.flows),) * self.many_flows + (len(starts),) * self.many_starts
        known = [mu.origin for mu in starts]
        self.origin = {"starts": known} if self.many_starts else known[0]

    @staticmethod
    def read(flow: Any, mu0: Any, traced: bool) -> "Ensemble | None":
        """The ensemble that is meant, where there is more than one flow or start: a list, or a measure with a leading axis."""
        if not (isinstance(flow, list | tuple) or isinstance(mu0, list | tuple) or _leading(mu0) > 0):
            return None
        if traced:
            raise InputError(
                "Under jit, grad and vmap `evolve` takes one flow and one measure. For many, map it: "
                "jax.vmap(lambda beta: tkf.evolve(tkf.sa(beta), mu0, t))(betas)."
            )
        return Ensemble(flow, mu0)

    def __len__(self) -> int:
        return self.counts[0] * self.counts[1]

    def pairs(self, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The flow and the start of members, by number."""
        flow, start = np.divmod(which, self.counts[1])
        return flow, start

    def flows_in_batch(self) -> Flow:
        """The flows with the batch's axes in front."""
        extra = (1,) * self.many_starts
        lead = lambda leaf: leaf.reshape(leaf.shape[0], *extra, *leaf.shape[1:]) if self.many_flows else leaf
        tail = lambda leaf: leaf.shape[1:] if self.many_flows else leaf.shape
        whole = lambda leaf: check.on_device(np.broadcast_to(lead(np.asarray(leaf)), self.batch + tail(leaf)))
        return arrays_of(whole, self.flow)

    def in_batch(self, tree: Any) -> Any:
        """Arrays with one leading axis of members, in the batch's shape."""
        return arrays_of(lambda leaf: check.on_device(np.asarray(leaf).reshape(*self.batch, *leaf.shape[1:])), tree)


def seeds_of(seed: int, count: int) -> np.ndarray:
    """A seed of noise for every member, all different: steps of a random odd length from a random place, modulo 2³¹.
    (Seeds seed, seed + 1, ... would give ensembles with neighbouring seeds nearly the same noise.)"""
    place, length = (int(word) for word in np.random.SeedSequence(seed).generate_state(2))
    return np.asarray([(place + member * (length | 1)) % 2**31 for member in range(count)])


def _flows(flow: Any) -> list[Flow]:
    flows = list(flow) if isinstance(flow, list | tuple) else [flow]
    _refuse_empty("flow", flows)
    for i, one in enumerate(flows):
        if not isinstance(one, Flow):
            raise InputError(
                f"evolve(flow, mu0, t) needs Flows first, e.g. [tkf.sa(1.0), tkf.sa(4.0)], but flow {i} is a {type(one).__name__}."
            )
    return flows


def _starts(mu0: Any) -> list[Any]:
    """The measures of a list, or of one measure with a leading axis."""
    if not isinstance(mu0, list | tuple):
        return [mu0] if _leading(mu0) == 0 else _unstacked(mu0)
    _refuse_empty("mu0", mu0)
    for j, one in enumerate(mu0):
        if not isinstance(one, AbstractMeasure) or _leading(one):
            raise InputError(f"Argument `mu0` must be a list of single measures, but start {j} is {check.brief(one)}.")
    return list(mu0)


def _refuse_empty(name: str, things: Sequence[Any]) -> None:
    if len(things) == 0:
        raise InputError(f"Argument `{name}` is an empty list: there is nothing to move.")


def _leading(mu: Any) -> int:
    """How many axes a measure's arrays have in front of their own."""
    return mu.leading if isinstance(mu, AbstractMeasure) else 0


def _unstacked(mu: AbstractMeasure) -> list[AbstractMeasure]:
    """Members of a measure with one leading axis; arrays without it (weights, say) are shared."""
    if _leading(mu) > 1:
        raise InputError(
            f"A batch of starts has one leading axis, but {mu!r} has {_leading(mu)}. Flatten them first: x.reshape(-1, n, d)."
        )
    batched = {name: array for name, array in mu.arrays.items() if array.ndim > len(mu.axes[name])}
    counts = {len(array) for array in batched.values()}
    if len(counts) != 1 or 0 in counts:
        raise InputError(
            f"The arrays of a batch of starts must have equal, positive lengths, but have {sorted(counts)}."
        )
    where = lambda mu: [getattr(mu, name) for name in batched]
    values = [np.asarray(array) for array in batched.values()]
    return [eqx.tree_at(where, mu, [check.on_device(array[j]) for array in values]) for j in range(counts.pop())]


def stacked(kind: str, things: list[Any]) -> Any:
    """Things of one shape along a new axis."""
    for i, other in enumerate(things[1:], 1):
        _refuse_unlike(kind, things[0], i, other)
    arrays, rest = zip(*(eqx.partition(thing, eqx.is_array) for thing in things), strict=True)
    numbers = jax.tree.map(lambda *leaves: check.on_device(np.stack([np.asarray(leaf) for leaf in leaves])), *arrays)
    return eqx.combine(numbers, rest[0])


def _refuse_unlike(kind: str, first: Any, i: int, other: Any) -> None:
    """Members of an ensemble run in one program, so that only their numbers may differ."""
    (ours, tree), (theirs, other_tree) = (jax.tree_util.tree_flatten_with_path(thing) for thing in (first, other))
    pair = f"{kind} 0 is {first!r:.90} and {kind} {i} is {other!r:.90}"
    refusal = f"Members of an ensemble must be alike up to their numbers, but {pair}"
    advice = "Run unlike ones apart."
    if tree != other_tree:
        raise InputError(f"{refusal}: they have different parts. {advice}")
    for (path, a), (_, b) in zip(ours, theirs, strict=True):
        name = jax.tree_util.keystr(path).lstrip(".")
        if eqx.is_array(a) and eqx.is_array(b) and (a.shape, a.dtype) == (b.shape, b.dtype):
            continue
        if eqx.is_array(a) and eqx.is_array(b):
            raise InputError(f"{refusal}: `{name}` has {a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}. {advice}")
        if a is not b and a != b:
            raise InputError(f"{refusal}: `{name}` is {a!r:.60} and {b!r:.60}. {advice}")


def picked(tree: Any, index: np.ndarray) -> Any:
    return arrays_of(lambda leaf: check.on_device(np.asarray(leaf)[index]), tree)


def arrays_of(function: Callable, tree: Any) -> Any:
    """`function` of the arrays of a tree; what is not an array stays."""
    return jax.tree.map(lambda leaf: function(leaf) if eqx.is_array(leaf) else leaf, tree)
