"""Who takes part: every flow with every start, or flow i with start i, in groups that are alike in shape."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tokenfield import _checks as check
from tokenfield.attention.base import as_dtype
from tokenfield.errors import InputError
from tokenfield.evolution.outcome import Outcome
from tokenfield.flow import Flow, Flows
from tokenfield.measures import AbstractMeasure
from tokenfield.mergers import Mergers


class Ensemble:
    """Members: pairs of flows and starts that are alike up to their numbers. What varies among them has a leading axis in `flow`
    and in `start`; `flow_of` and `start_of` say who each member is. A whole ensemble has the shape `batch`; one that is a group
    of a larger ensemble says in `numbers` which members of that it has."""

    def __init__(self, flows: list[Any], starts: list[Any], flow_of: Any, start_of: Any):
        self.flows, self.flow_of, self.start_of = flows, np.asarray(flow_of), np.asarray(start_of)
        self.many_flows, self.many_starts = len(flows) > 1, len(starts) > 1
        self.start = stacked(starts) if self.many_starts else starts[0]
        cast = [as_dtype(one, self.start.dtype) for one in flows]
        self.flow = stacked(cast) if self.many_flows else cast[0]
        self.starts = starts
        self.numbers = np.arange(len(self.flow_of))
        self.total = len(self)
        self.batch: tuple[int, ...] = (len(self),)

    def __len__(self) -> int:
        return len(self.flow_of)

    def pairs(self, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The flow and the start of members, by number."""
        return self.flow_of[which], self.start_of[which]

    @property
    def every_pair(self) -> bool:
        """Whether every flow meets every start, in the order of an array."""
        shape = len(self.flows), len(self.starts)
        flow, start = np.divmod(np.arange(len(self)), shape[1])
        return (
            len(self) == shape[0] * shape[1]
            and np.array_equal(flow, self.flow_of)
            and np.array_equal(start, self.start_of)
        )

    def seeds(self, seed: np.ndarray) -> np.ndarray:
        """The seeds of the members' noise: given one by one, or following from one."""
        every = seed.ravel() if seed.ndim else seeds_of(int(seed), self.total)
        if len(every) != self.total:
            raise InputError(
                f"Argument `seed` has {len(every)} seeds for {self.total} members; give one for each, or one for all."
            )
        return every[self.numbers]

    def member(self, flow: Flow, start: Any, number: int) -> tuple[Flow, Any]:
        """The flow and the start of one member, of what has the members' flows and starts along a first axis."""
        (i,), (j,) = self.pairs(np.array([number]))
        return picked(flow, i) if self.many_flows else flow, picked(start, j) if self.many_starts else start

    def in_batch(self, tree: Any) -> Any:
        """Arrays with one leading axis of members, in the batch's shape."""
        return arrays_of(lambda leaf: check.on_device(np.asarray(leaf).reshape(*self.batch, *leaf.shape[1:])), tree)


class Everyone:
    """All who are to run: a list of flows, a list of starts, all their pairs or flow i with start i, in groups of members that
    are alike, each an `Ensemble` and a program of its own."""

    def __init__(self, flow: Any, mu0: Any, zipped: bool):
        self.many_flows = isinstance(flow, list | tuple)
        self.many_starts = isinstance(mu0, list | tuple) or _leading(mu0) > 0
        self.flows, self.starts = _flows(flow), _starts(mu0)
        shape = len(self.flows), len(self.starts)
        if zipped:
            if not (self.many_flows and self.many_starts) or shape[0] != shape[1]:
                raise InputError(
                    f"With zipped=True flow i runs from start i, so that there must be as many flows as starts, two lists, but "
                    f"there are {shape[0]} and {shape[1]}."
                )
            self.axes, self.batch = ("run",), shape[:1]
            self.flow_of = self.start_of = np.arange(shape[0])
        else:
            self.axes = ("flow",) * self.many_flows + ("start",) * self.many_starts
            self.batch = shape[:1] * self.many_flows + shape[1:] * self.many_starts
            self.flow_of, self.start_of = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
        self.groups = self._groups()

    @staticmethod
    def read(flow: Any, mu0: Any, zipped: bool) -> "Everyone | None":
        """Who is meant, where there is more than one flow or start: a list, or a measure with a leading axis."""
        check.flag("zipped", zipped)
        if not (isinstance(flow, list | tuple) or isinstance(mu0, list | tuple) or _leading(mu0) > 0):
            if zipped:
                raise InputError(
                    "With zipped=True flow i runs from start i: give a list of flows and a list of starts."
                )
            return None
        if check.traced((flow, mu0)) or check.under_jit():
            raise InputError(
                "Under jit, grad and vmap `evolve` takes one flow and one measure. For many, map it: "
                "jax.vmap(lambda beta: tkf.evolve(tkf.sa(beta), mu0, t))(betas)."
            )
        return Everyone(flow, mu0, zipped)

    def _groups(self) -> list[Ensemble]:
        flow_kinds, start_kinds = _kinds(self.flows), _kinds(self.starts)
        kinds = np.stack([flow_kinds[self.flow_of], start_kinds[self.start_of]])
        groups = []
        for kind in np.unique(kinds, axis=1).T:
            numbers = np.flatnonzero(np.all(kinds == kind[:, None], axis=0))
            (flows, flow_of), (starts, start_of) = (
                np.unique(of[numbers], return_inverse=True) for of in (self.flow_of, self.start_of)
            )
            group = Ensemble(
                [self.flows[i] for i in flows], [self.starts[j] for j in starts], flow_of.ravel(), start_of.ravel()
            )
            group.numbers, group.total = numbers, len(self.flow_of)
            groups.append(group)
        if len(groups) == 1:
            groups[0].batch = self.batch
        return groups

    @property
    def origin(self) -> dict[str, Any] | None:
        """How the starts were made."""
        known = [mu.distinction for mu in self.starts]
        return {"starts": known} if self.many_starts else known[0]

    def flow(self) -> Flow | Flows:
        """The flows of all members."""
        return flows_in_batch(self.flows, self.batch, self.groups[0].start.dtype)

    def together(self, outcomes: list[Outcome], numbers: list[np.ndarray] | None = None) -> Outcome:
        """What came of all groups, or of groups with other `numbers` of members, in the shape of the batch."""
        if len(outcomes) == 1 and numbers is None:
            return outcomes[0]
        join = functools.partial(self._joined, numbers or [group.numbers for group in self.groups])
        sums = sorted({outcome.summation for outcome in outcomes})
        seeds = [outcome.seeds for outcome in outcomes]
        rescaled = [outcome.rescaled for outcome in outcomes]
        observed = outcomes[0].observed is not None
        return Outcome(
            times=join([outcome.times for outcome in outcomes]),
            states=join(outcomes[0].states.of_one_size([outcome.states for outcome in outcomes])),
            reached=join([outcome.reached for outcome in outcomes]),
            code=join([outcome.code for outcome in outcomes]),
            steps=join([outcome.steps for outcome in outcomes]),
            accepted=join([outcome.accepted for outcome in outcomes]),
            observed=join([outcome.observed for outcome in outcomes]) if observed else None,
            summation=" and ".join(name for name in sums if name),
            mergers=self._mergers(outcomes),
            rescaled=None if any(part is None for part in rescaled) else join(rescaled),
            seeds=None if None in seeds else np.ravel(join([np.asarray(some) for some in seeds])).tolist(),
        )

    def _mergers(self, outcomes: list[Outcome]) -> Mergers | None:
        """Those of all members of all groups, in the shape of the batch."""
        found = {
            int(number): outcome.mergers.member((k,), outcome.mergers.n)
            for group, outcome in zip(self.groups, outcomes, strict=False)
            if outcome.mergers is not None
            for k, number in enumerate(group.numbers)
        }
        return Mergers.stacked([found[number] for number in sorted(found)], self.batch) if found else None

    def _joined(self, numbers: list[np.ndarray], parts: list[Any]) -> Any:
        order = np.argsort(np.concatenate(numbers))

        def join(*leaves: Any) -> Any:
            shapes = {np.shape(leaf)[1:] for leaf in leaves}
            if len(shapes) > 1:
                raise InputError(
                    f"Members whose results have different shapes, here {sorted(shapes)[:2]}, cannot stand in one array. "
                    "Run them apart. (Tokens may differ in number, but not in dimension.)"
                )
            whole = np.concatenate([np.asarray(leaf) for leaf in leaves])[order]
            return check.on_device(whole.reshape(*self.batch, *whole.shape[1:]))

        return jax.tree.map(join, *parts)


def flows_in_batch(flows: Sequence[Flow], batch: tuple[int, ...], dtype: Any) -> Flow | Flows:
    """The flows of a batch: alike, one flow whose arrays have the batch's axes in front; unlike, each by itself. One flow serves
    all members, others go along the first axis, or along all."""
    if len(np.unique(_kinds(list(flows)))) > 1:
        return Flows(tuple(flows))
    lead = {1: (1,) * len(batch), int(np.prod(batch)): batch}.get(len(flows), (len(flows), *(1,) * (len(batch) - 1)))
    across = lambda leaf: np.broadcast_to(np.asarray(leaf).reshape(*lead, *leaf.shape[1:]), (*batch, *leaf.shape[1:]))
    return arrays_of(lambda leaf: check.on_device(across(leaf)), stacked([as_dtype(flow, dtype) for flow in flows]))


def _kinds(things: list[Any]) -> np.ndarray:
    """For each thing the number of its kind: things of one kind are alike up to their numbers."""
    keys: list[Any] = []
    found = []
    for thing in things:
        key = _kind(thing)
        if key not in keys:
            keys.append(key)
        found.append(keys.index(key))
    return np.asarray(found)


def alike(things: list[Any]) -> bool:
    """Whether flows, or starts, differ by their numbers alone, so that one program serves all of them."""
    return len(np.unique(_kinds(things))) == 1


def _kind(thing: Any) -> tuple[Any, ...]:
    leaves, tree = jax.tree.flatten(thing)
    return tree, *((leaf.shape, str(leaf.dtype)) if eqx.is_array(leaf) else leaf for leaf in leaves)


def seeds_of(seed: int, count: int) -> np.ndarray:
    """A seed of noise for every member, all different: steps of a random odd length from a random place, modulo 2³¹.
    (Seeds seed, seed + 1, ... would give ensembles with neighbouring seeds nearly the same noise.)"""
    place, length = (int(word) for word in np.random.SeedSequence(seed).generate_state(2))
    return (place + np.arange(count, dtype=np.int64) * (length | 1)) % 2**31


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
    _refuse_unlike(mu0)
    return list(mu0)


def _refuse_unlike(starts: Sequence[AbstractMeasure]) -> None:
    """What comes of all members is to stand in one array."""
    kinds = sorted({type(mu).__name__ for mu in starts})
    if len(kinds) > 1:
        raise InputError(
            f"Starts of an ensemble must be of one kind, but these are {' and '.join(kinds)}. Run them apart."
        )
    shape = lambda mu: (jax.tree.structure(mu), *map(np.shape, jax.tree.leaves(mu)))
    filled = starts[0].of_one_size(starts)
    other = next((mu for mu, full in zip(starts, filled, strict=True) if shape(full) != shape(filled[0])), None)
    if other is not None:
        raise InputError(
            f"{starts[0]!r} and {other!r} cannot stand in one array. Run them apart. (Tokens may differ in number, but not in "
            "dimension.)"
        )


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
    count, own = counts.pop(), {id(array) for array in batched.values()}
    leaves, tree = jax.tree.flatten(mu)
    columns = [jax.device_put(list(np.asarray(leaf))) if id(leaf) in own else [leaf] * count for leaf in leaves]
    return [jax.tree.unflatten(tree, row) for row in zip(*columns, strict=True)]


def stacked(things: list[Any]) -> Any:
    """Things of one kind along a new axis."""
    stack = lambda leaves: check.on_device(np.stack([np.asarray(leaf) for leaf in leaves]))
    columns = zip(*(jax.tree.leaves(thing) for thing in things), strict=True)
    leaves = [stack(column) if eqx.is_array(column[0]) else column[0] for column in columns]
    return jax.tree.unflatten(jax.tree.structure(things[0]), leaves)


def picked(tree: Any, index: np.ndarray | np.integer) -> Any:
    return arrays_of(lambda leaf: check.on_device(np.asarray(leaf)[index]), tree)


def arrays_of(function: Callable, tree: Any) -> Any:
    """`function` of the arrays of a tree; what is not an array stays."""
    return jax.tree.map(lambda leaf: function(leaf) if eqx.is_array(leaf) else leaf, tree)
