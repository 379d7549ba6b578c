"""Tokens that meet, as the compiled walk sees them: who has come within the radius of whom.

Where attention tells tokens apart by nothing but their place, any two may become one. Up to PAIRWISE tokens every pair is looked
at, beyond that those in one cell of a grid. Under a causal mask only neighbours may, tokens with nobody between their positions.
"""

import dataclasses
from typing import Any

import diffrax as dfx
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from tokenfield._norms import sizes, unit
from tokenfield._types import Memory, Rows, Time
from tokenfield.evolution.motions.base import AbstractModified, Method, Pacing, State
from tokenfield.evolution.motions.particles import Particles
from tokenfield.evolution.step import NODES
from tokenfield.evolution.task import PAIRWISE
from tokenfield.measures import Tokens
from tokenfield.status import Status

TRAIL = 48e6
"""Bytes that the last steps of a walk may take: of so many of them, but not fewer than 4 or more than 16."""


class Merging(AbstractModified):
    """The particle equation of weighted tokens, some of which are only padding, watched for tokens that meet."""

    inner: Particles  # pyright: ignore[reportIncompatibleVariableOverride]
    live: Bool[Array, " n"]
    radius: Float[Array, ""]
    patience: Int[Array, ""]
    """How many tokens must have met before it is worth to merge them: of few tokens, the first two."""
    order: Int[Array, " n"] | None
    """The tokens by position, padding last, where only neighbours may become one; None where any two may."""

    def rate(self, t: Time, y: Rows, memory: Memory) -> Any:
        return jnp.where(self.live[:, None], self.inner.rate(t, y, memory), 0.0)

    def measure(self, y: State) -> Tokens:
        return self.inner.measure(jnp.where(self.live[:, None], y, y[0]))

    @property
    def may_stop(self) -> str | None:
        return "inside" if len(self.live) <= PAIRWISE else "after"

    @property
    def trail(self) -> int:
        """Many tokens are merged some steps after they have met: who met when is then read off the steps since."""
        if len(self.live) <= PAIRWISE:
            return 0
        start = self.inner.start
        return int(np.clip(TRAIL / (len(NODES) * start.x.size * start.x.dtype.itemsize), 4, 16))

    def method(self, solver: str | dfx.AbstractSolver, rtol: Array, atol: Array, pacing: Pacing) -> Method:
        """Errors small against distances, down to the radius: below it there is nothing to tell apart."""
        named, control = self.inner.method(solver, rtol, atol, pacing)
        if len(self.live) > PAIRWISE:
            return named, control
        least = jnp.maximum(jnp.minimum(atol, 0.01 * rtol * self.radius), 50 * jnp.finfo(atol.dtype).eps)
        inside = lambda c: c.controller if isinstance(c, dfx.ClipStepSizeController) else c
        finer = dataclasses.replace(inside(control), atol=least, size=Apart(self.live, self.order))
        return named, eqx.tree_at(inside, control, finer) if inside(control) is not control else finer

    def stop(self, t: Array, y: State, steps: Array) -> Int[Array, ""]:
        """MEETING where tokens have met that are to become one. Before the steps are forgotten in which they met, one will do."""
        x = self._places(y)
        if self.order is None and len(x) > PAIRWISE:
            met = jnp.sum(_in_one_cell(x, self.live, self.radius) < self.radius)
        else:
            near = jnp.any(closest(x, self.live, self.order) < self.radius)
            approached = lambda: jnp.sum(self._approached(x, self.rate(t, y, None)) < self.radius)
            met = lax.cond(near, approached, lambda: jnp.asarray(0))
        patience = jnp.where(steps < self.trail - 1, self.patience, 1)
        return jnp.where(met >= patience, Status.MEETING, Status.RUNNING)

    def _places(self, y: State) -> Float[Array, "n d"]:
        return unit(y) if self.flow.normalization.confines else y

    def _approached(self, x: Float[Array, "n d"], v: Float[Array, "n d"]) -> Float[Array, " n"]:
        """The distance of every live token to the nearest other that comes no farther and that it may become one with."""
        if self.order is not None:
            return _beside(x, self.live, self.order, v)
        index = jnp.arange(len(x))

        def row(i):
            Δ, approaches = x[i] - x, jnp.sum((x[i] - x) * (v[i] - v), axis=1) <= 0
            gap = jnp.where(self.live & (index != i) & approaches, jnp.linalg.norm(Δ, axis=1), jnp.inf)
            return jnp.where(self.live[i], jnp.min(gap), jnp.inf)

        return lax.map(row, index)


class Apart(eqx.Module):
    """The size against which the error of a token is small: its length, or its distance to the nearest token that it may become
    one with."""

    live: Bool[Array, " n"]
    order: Int[Array, " n"] | None

    def __call__(self, y: Rows) -> Any:
        return jnp.minimum(sizes(y), closest(y, self.live, self.order))


def closest(x: Rows, live: Bool[Array, " n"], order: Int[Array, " n"] | None) -> Float[Array, " n"]:
    """The distance of every live token to the nearest other, or to the nearer of its two neighbours."""
    if order is not None:
        return _beside(x, live, order)
    x = x - x[0]  # distances do not notice, round-off does: groups that are about to merge are where it matters
    squares, index = jnp.sum(x**2, axis=1), jnp.arange(len(x))

    def row(i):
        gap = jnp.where(live & (index != i), squares[i] + squares - 2 * (x @ x[i]), jnp.inf)
        j = jnp.argmin(gap)
        return jnp.where(live[i] & jnp.isfinite(gap[j]), jnp.linalg.norm(x[i] - x[j]), jnp.inf)

    return jax.lax.map(row, index, batch_size=256)


def _beside(x: Rows, live: Bool[Array, " n"], order: Int[Array, " n"], v: Rows | None = None) -> Float[Array, " n"]:
    """The distance of every live token to the nearer of its two neighbours; given velocities, of those that come no farther."""
    here, there = order[1:], order[:-1]
    Δ, counts = x[here] - x[there], live[here] & live[there]
    if v is not None:
        counts = counts & (jnp.sum(Δ * (v[here] - v[there]), axis=1) <= 0)
    gap, none = jnp.where(counts, jnp.linalg.norm(Δ, axis=1), jnp.inf), jnp.full(1, jnp.inf, x.dtype)
    nearer = jnp.minimum(jnp.concatenate([none, gap]), jnp.concatenate([gap, none]))
    return jnp.zeros_like(nearer).at[order].set(nearer)


def _in_one_cell(x: Float[Array, "n d"], live: Bool[Array, " n"], radius: Array) -> Float[Array, " n"]:
    """The distance of live tokens to one other in the same cell, of side 2ε; infinite where a token is alone in its cell."""
    cell = jnp.floor(x / (2 * radius)).astype(jnp.int32)
    mixed = jnp.sum(cell.astype(jnp.uint32) * jnp.asarray(_ODD[: x.shape[1]]), axis=1, dtype=jnp.uint32)
    order = jnp.argsort(mixed)
    here, there = order[1:], order[:-1]
    same = (mixed[here] == mixed[there]) & live[here] & live[there]
    gap = jnp.where(same, jnp.linalg.norm(x[here] - x[there], axis=1), jnp.inf)
    return jnp.append(gap, jnp.inf)


_ODD = np.random.default_rng(7).integers(2**31, size=4096).astype(np.uint32) * 2 + 1
"""Multipliers that mix the coordinates of a cell into one number."""
