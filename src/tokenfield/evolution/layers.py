"""Discrete depth: the Transformer layer by layer, as one compiled scan."""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from tokenfield import _checks as check
from tokenfield._compile import compiled
from tokenfield._front import front_door
from tokenfield._types import Number, no_type_check
from tokenfield.attention.base import TOLERANCE, as_dtype
from tokenfield.errors import InputError
from tokenfield.evolution.ensemble import Everyone
from tokenfield.evolution.motions import MotionKind, motion_for
from tokenfield.evolution.outcome import Outcome
from tokenfield.flow import Flow, no_measure
from tokenfield.measures import AbstractMeasure
from tokenfield.parameters import scheduled
from tokenfield.status import Status
from tokenfield.summation import AbstractSummation
from tokenfield.trajectory import Provenance, Trajectory

M = TypeVar("M", bound=AbstractMeasure)


@front_door
@no_type_check
def layers(
    flow: Flow | Sequence[Flow],
    mu0: M | Sequence[M],
    depth: int,
    step: Number = 1.0,
    *,
    save: int | None = None,
    summation: str | AbstractSummation | None = None,
    zipped: bool = False,
) -> Trajectory[M]:
    r"""The discrete Transformer: $X_{k+1} = N(X_k + τ F_k(X_k))$ for k = 0, ..., depth-1, in the flow's own normalization.

    The flow is its limit τ → 0: at times t = kτ the two differ by O(τ). Parameters with one value per layer (`PerLayer`) give
    layer k its own. Equiangular tokens stay equiangular where they do under the flow, and Gaussians, on which a layer is affine,
    Gaussian: their layers are exactly those of the tokens.

    **Arguments**

    - `flow`, `mu0`: what acts, and on what: `Tokens`, `Equiangular` or a `Gaussian`. Lists of flows and of starts are run in
      all pairs, as `evolve` runs them.
    - `depth`: the number of layers.
    - `step`: τ.
    - `save`: how many states to keep, first and last included; all of them when left out.
    - `summation`: how sums over tokens are computed; chosen by cost when left out.
    - `zipped`: whether flow i acts on start i only, instead of all pairs.

    **Returns** a `Trajectory` over depth.

    **Raises** `InputError` where the parts do not fit, the flow has noise, or parameters are missing for a layer.

    >>> import tokenfield as tkf
    >>> mu0 = tkf.Tokens.uniform_sphere(n=16, d=8, seed=0)
    >>> run = tkf.layers(tkf.Flow(tkf.Softmax(beta=4.0), tkf.PreLN()), mu0, depth=12)
    >>> run.x.shape, float(run.times[-1])
    ((13, 16, 8), 12.0)
    >>> Q, K = (tkf.PerLayer.gaussian(12, 8, 8, seed=s) for s in (1, 2))           # random weights, new in every layer
    >>> tkf.layers(tkf.sa(beta=3.0, Q=Q, K=K), mu0, depth=12, save=2).x.shape
    (2, 16, 8)
    """
    everyone = Everyone.read(flow, mu0, zipped)
    if everyone is not None:
        pairs = zip(everyone.flow_of, everyone.start_of, strict=True)
        how = {"depth": depth, "step": step, "save": save, "summation": summation}
        return _batch(everyone, [layers(everyone.flows[i], everyone.starts[j], **how) for i, j in pairs])
    if not isinstance(flow, Flow):
        raise InputError(
            f"layers(flow, mu0, depth) needs a Flow first, e.g. tkf.sa(beta=9.0), but got {type(flow).__name__}."
        )
    began = time.perf_counter()
    depth = check.whole("depth", depth, 1, "the number of layers")
    for part in scheduled(flow):
        if part.depth is not None and part.depth < depth:
            raise InputError(f"The flow has parameters for {part.depth} layers, but depth = {depth}.")
    if not isinstance(mu0, AbstractMeasure):
        raise no_measure(mu0)
    mu0.refuse_nonfinite()
    kind, start = _started(flow, mu0)
    τ = check.as_floats(check.scalar("step", step), start.dtype)
    count = depth + 1 if save is None else check.whole("save", save, 1, "how many states to keep")
    held = sum(array.nbytes for array in start.arrays.values()) * (min(count, depth + 1) + 1)
    check.room(
        2 * held + 16 * depth + 64 * min(count, depth + 1), f"{depth} layers with {min(count, depth + 1)} saved states"
    )
    kept = (
        np.unique(np.linspace(0, depth, min(count, depth + 1)).round().astype(int)) if count > 1 else np.array([depth])
    )
    sums = _sums(kind, flow, start, summation)
    layer = Layer(kind, as_dtype(flow, start.dtype), sums)
    states, finite = _scan(layer, start, τ, depth, tuple(kept.tolist()))
    provenance = Provenance("layers", 0.0, 0.0, "" if sums is None else sums.name, origin=mu0.origin)
    times = τ * jnp.asarray(kept, τ.dtype) if check.traced(τ) else check.on_device(np.asarray(τ) * kept)
    if check.traced((states, finite)):
        code = jnp.where(jnp.all(finite), Status.COMPLETED, Status.BLOW_UP)
        return Trajectory(times, states, flow, times[-1], code, jnp.asarray(depth), jnp.asarray(depth), provenance)
    reached = int(np.argmin(np.append(np.asarray(finite), False)))  # layers before the first that overflowed
    status = Status.COMPLETED if reached == depth else Status.BLOW_UP
    whole = max(1, int(np.sum(kept <= reached)))
    run = Trajectory(
        times[:whole],
        jax.tree.map(lambda leaf: check.on_device(np.asarray(leaf)[:whole]), states),
        flow,
        τ * reached,
        check.on_device(int(status)),
        check.on_device(reached),
        check.on_device(reached),
        provenance.after(time.perf_counter() - began),
    )
    run.warn_unfinished()
    return run


class Layer(eqx.Module):
    """One layer of the discrete Transformer on a kind of measure."""

    kind: type[MotionKind] = eqx.field(static=True)
    flow: Flow
    summation: AbstractSummation | None

    def __call__(self, k: Int[Array, ""], step: Float[Array, ""], mu: Any) -> Any:
        return self.kind.layer(self.flow, k, k * step, step, mu, self.summation)


def _started(flow: Flow, mu0: AbstractMeasure) -> tuple[type[MotionKind], Any]:
    """The kind of motion, and the start as the flow can move it, where its first layer would lead at once."""
    if flow.kappa is not None:
        raise InputError("Layers have no noise: `kappa` belongs to the flow's limit. Leave it out, or use evolve.")
    kind = motion_for(flow, type(mu0))
    if not kind.layered:
        raise InputError(
            f"Layers act on Tokens, Equiangular or a Gaussian, but got a {type(mu0).__name__}. `evolve` moves every kind."
        )
    return kind, kind.begin(flow, kind.settle(flow, mu0), 0.0)


def _sums(kind: type[MotionKind], flow: Flow, start: Any, asked: Any) -> AbstractSummation | None:
    """How sums over tokens are computed; None where there are none."""
    if "summation" in kind.options:
        return flow.summation(start, None, asked, TOLERANCE)
    if asked is not None:
        raise InputError(f"Argument `summation` is for Tokens: a {type(start).__name__} has no sums. Leave it out.")
    return None


def _batch(everyone: Everyone, runs: list[Trajectory]) -> Trajectory:
    """Runs as one; those that ended early hold their last state."""
    longest = max(len(run) for run in runs)
    hold = lambda leaf: np.concatenate([leaf, np.repeat(leaf[-1:], longest - len(leaf), axis=0)])[None]
    held = lambda tree: jax.tree.map(lambda leaf: hold(np.asarray(leaf)), tree)
    one = lambda value: np.asarray(value)[None]
    outcomes = [
        Outcome(
            held(r.times),
            held(r.states),
            one(r.reached),
            one(r.code),
            one(r.steps),
            one(r.accepted),
            r.provenance.summation,
        )
        for r in runs
    ]
    whole = everyone.together(outcomes, [np.asarray([number]) for number in range(len(runs))])
    first = runs[0].provenance
    seconds = sum(run.provenance.seconds for run in runs)
    return Trajectory(
        times=whole.times,
        states=whole.states,
        flow=everyone.flow(),
        reached=whole.reached,
        code=whole.code,
        steps=whole.steps,
        accepted=whole.accepted,
        provenance=dataclasses.replace(first, origin=everyone.origin, axes=everyone.axes, seconds=seconds),
    )


@compiled
def _scan(
    layer: Layer, start: Any, step: Float[Array, ""], depth: int, kept: tuple[int, ...]
) -> tuple[Any, Bool[Array, " depth"]]:
    """All layers; the kept states, and which layers were finite. States are written to their slots, others to a spare."""
    slots = np.full(depth + 1, len(kept))
    slots[list(kept)] = np.arange(len(kept))
    spare = jax.tree.map(lambda leaf: jnp.zeros((len(kept) + 1, *leaf.shape), leaf.dtype), start)
    write = lambda states, slot, mu: jax.tree.map(lambda all_, one: all_.at[slot].set(one), states, mu)

    def one_layer(carry: Any, k: Int[Array, ""]) -> Any:
        mu, states = carry
        mu = layer(k, step, mu)
        return (mu, write(states, jnp.asarray(slots)[k + 1], mu)), _finite(mu)

    (_, states), finite = lax.scan(one_layer, (start, write(spare, int(slots[0]), start)), jnp.arange(depth))
    return jax.tree.map(lambda leaf: leaf[: len(kept)], states), finite


def _finite(mu: AbstractMeasure) -> Bool[Array, ""]:
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(array)) for array in mu.arrays.values()]))
