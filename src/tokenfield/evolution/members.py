"""Who takes part in an ensemble: every flow with every start, all alike in shape."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from tokenfield import _checks as check
from tokenfield.attention.base import as_dtype
from tokenfield.errors import InputError
from tokenfield.evolution.plan import Plan
from tokenfield.evolution.until import sees_no_axes
from tokenfield.flow import Flow
from tokenfield.measures import AbstractMeasure, Gaussian, Tokens


class Members(eqx.Module):
    """Some members, side by side: what varies among them has a leading axis, what they share has none (so that a matrix
    V of all is one matrix, and its product with all tokens one product)."""

    flow: Flow
    start: AbstractMeasure
    seed: Int[Array, " count"]
    flows_vary: bool = eqx.field(static=True)
    starts_vary: bool = eqx.field(static=True)

    def map(self, plan: Plan, function: Callable, *arguments: Any) -> Any:
        """function(problem, *arguments) of every member; the arguments have a leading axis."""
        along = lambda varies: eqx.if_array(0) if varies else None
        axes = (along(self.flows_vary), along(self.starts_vary), 0, *[eqx.if_array(0)] * len(arguments))
        one = lambda flow, start, seed, *rest: function(plan.of(flow, start, seed), *rest)
        return eqx.filter_vmap(one, in_axes=axes)(self.flow, self.start, self.seed, *arguments)


class Ensemble:
    """All pairs of flows and starts, in the order of an array of shape `batch`."""

    def __init__(self, flow: Any, mu0: Any):
        if check.traced((flow, mu0)) or check.traced(jnp.zeros(()) + 0.0):
            raise InputError(
                "Under jit, grad and vmap `evolve` takes one flow and one measure. For many, map it: "
                "jax.vmap(lambda beta: tkf.evolve(tkf.sa(beta), mu0, t))(betas)."
            )
        self.many_flows = isinstance(flow, list | tuple)
        self.many_starts = isinstance(mu0, list | tuple) or _leading(mu0) > 0
        flows, starts = _flows(flow), _starts(mu0)
        self.start = _stacked("start", starts) if self.many_starts else starts[0]
        self.flow = (
            _stacked("flow", [as_dtype(one, self.start.dtype) for one in flows]) if self.many_flows else flows[0]
        )
        self.first, self.counts = (flows[0], starts[0]), (len(flows), len(starts))
        self.batch = (len(flows),) * self.many_flows + (len(starts),) * self.many_starts
        known = [getattr(mu, "origin", None) for mu in starts]
        self.origin = {"starts": known} if self.many_starts else known[0]
        self.basis: np.ndarray | None = None
        self._refuse_bad_values(flows)

    def spans(self, until: Any) -> bool:
        """Whether members may be moved in coordinates of their tokens' span: fewer tokens than dimensions, flows that
        commute with rotations, and a stop condition that does not see any."""
        flow, mu = self.first
        return sees_no_axes(until) and isinstance(mu, Tokens) and mu.n < mu.d and flow.rotates

    def turned(self) -> "Ensemble":
        """The same members in these coordinates."""
        x = np.asarray(self.start.x)
        basis, triangle = np.linalg.qr(np.swapaxes(x, -1, -2))
        other = copy.copy(self)
        other.basis = np.swapaxes(basis, -1, -2)
        other.start = eqx.tree_at(lambda mu: mu.x, self.start, np.swapaxes(triangle, -1, -2))
        other.first = self.first[0], other.start if not self.many_starts else _pick(other.start, np.asarray(0))
        return other

    def turned_back(self, states: Any) -> Any:
        """States of all members in the coordinates that they came in."""
        if self.basis is None:
            return states
        which = np.arange(len(self)) % self.counts[1]
        basis = jnp.asarray(self.basis[which][:, None] if self.many_starts else self.basis)
        return eqx.tree_at(lambda mu: mu.x, states, states.x @ basis)

    @staticmethod
    def asked(flow: Any, mu0: Any) -> bool:
        """Whether there is more than one flow or start: a list, or a measure with a leading axis."""
        return isinstance(flow, list | tuple) or isinstance(mu0, list | tuple) or _leading(mu0) > 0

    def __len__(self) -> int:
        return self.counts[0] * self.counts[1]

    def take(self, which: np.ndarray, seeds: np.ndarray) -> Members:
        """These members, side by side."""
        i, j = np.divmod(which, self.counts[1])
        flow = _pick(self.flow, i) if self.many_flows else self.flow
        start = _pick(self.start, j) if self.many_starts else self.start
        return Members(flow, start, jnp.asarray(seeds[which]), self.many_flows, self.many_starts)

    def spread(self) -> Flow:
        """The flows with the batch's axes in front."""
        extra = (1,) * self.many_starts
        lead = lambda leaf: leaf.reshape(leaf.shape[0], *extra, *leaf.shape[1:]) if self.many_flows else leaf
        tail = lambda leaf: leaf.shape[1:] if self.many_flows else leaf.shape
        return _arrays(lambda leaf: jnp.broadcast_to(lead(leaf), self.batch + tail(leaf)), self.flow)

    def shaped(self, tree: Any) -> Any:
        """Arrays with one leading axis of members, in the batch's shape."""
        return _arrays(lambda leaf: leaf.reshape(*self.batch, *leaf.shape[1:]), tree)

    def _refuse_bad_values(self, flows: list[Flow]) -> None:
        """Inside a mapped program nobody looks at values, so they are looked at here."""
        if isinstance(self.start, Tokens | Gaussian):
            for flow in flows:
                flow.check(self.start.d)
            flows[0].normalization.settle(self.start)


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
            raise InputError(f"Argument `mu0` must be a list of single measures, but start {j} is {one!r:.80}.")
    return list(mu0)


def _refuse_empty(name: str, things: Sequence[Any]) -> None:
    if len(things) == 0:
        raise InputError(f"Argument `{name}` is an empty list: there is nothing to move.")


def _leading(mu: Any) -> int:
    """How many axes a measure's arrays have in front of their own."""
    if not isinstance(mu, AbstractMeasure):
        return 0
    return max(array.ndim - len(mu.axes[name]) for name, array in mu.arrays.items())


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
    return [eqx.tree_at(where, mu, [jnp.asarray(array[j]) for array in values]) for j in range(counts.pop())]


def _stacked(kind: str, things: list[Any]) -> Any:
    """Things of one shape along a new axis."""
    for i, other in enumerate(things[1:], 1):
        _refuse_unlike(kind, things[0], i, other)
    arrays, rest = zip(*(eqx.partition(thing, eqx.is_array) for thing in things), strict=True)
    return eqx.combine(jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *arrays), rest[0])


def _refuse_unlike(kind: str, first: Any, i: int, other: Any) -> None:
    """Members of an ensemble run in one program, so that only their numbers may differ."""
    (ours, tree), (theirs, other_tree) = (jax.tree_util.tree_flatten_with_path(thing) for thing in (first, other))
    pair = f"{kind} 0 is {first!r:.90} and {kind} {i} is {other!r:.90}"
    told = f"Members of an ensemble must be alike up to their numbers, but {pair}"
    advice = "Run unlike ones apart."
    if tree != other_tree:
        raise InputError(f"{told}: they have different parts. {advice}")
    for (path, a), (_, b) in zip(ours, theirs, strict=True):
        name = jax.tree_util.keystr(path).lstrip(".")
        if eqx.is_array(a) and eqx.is_array(b) and (a.shape, a.dtype) == (b.shape, b.dtype):
            continue
        if eqx.is_array(a) and eqx.is_array(b):
            raise InputError(f"{told}: `{name}` has {a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}. {advice}")
        if a is not b and a != b:
            raise InputError(f"{told}: `{name}` is {a!r:.60} and {b!r:.60}. {advice}")


def _pick(tree: Any, index: np.ndarray) -> Any:
    return _arrays(lambda leaf: jnp.asarray(np.asarray(leaf)[index]), tree)


def _arrays(function: Callable, tree: Any) -> Any:
    """`function` of the arrays of a tree; what is not an array stays."""
    return jax.tree.map(lambda leaf: function(leaf) if eqx.is_array(leaf) else leaf, tree)
