"""Strang splitting for tokens with noise: Brownian motion, drift, Brownian motion."""

import abc
from typing import Any, ClassVar, NamedTuple

import diffrax as dfx
import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from tokenfield._norms import sizes, unit
from tokenfield._types import Memory, Rows, Time
from tokenfield.flow import Flow

State = Float[Array, "rows k"]

INSIDE = 1e-6
"""At which share of a step, from either end, the flow is asked for: not at the ends themselves, where it may jump."""


class AbstractNoise(eqx.Module):
    """Brownian increments as steps ask for them, one step after the other."""

    @abc.abstractmethod
    def begin(self, t0: Time) -> Any:
        """What the first step needs."""

    @abc.abstractmethod
    def halves(self, t0: Time, t1: Time, state: Any) -> tuple[Array, Array, Any]:
        """The increments over both halves of a step, and what the next step needs."""


class Increments(AbstractNoise):
    """Increments of steps of a given length: two normal variables a step, made from the seed and its number. Where a run goes on,
    numbers go on from those of the steps that were `taken`."""

    key: Any
    shape: tuple[int, ...] = eqx.field(static=True)
    taken: Int[Array, ""] | None = None

    def begin(self, t0: Time) -> Any:
        return jnp.asarray(0) if self.taken is None else self.taken

    def halves(self, t0: Time, t1: Time, state: Any) -> tuple[Array, Array, Any]:
        ξ = jax.random.normal(jax.random.fold_in(self.key, state), (2, *self.shape), jnp.result_type(t0))
        first, second = jnp.sqrt(0.5 * (t1 - t0)) * ξ
        return first, second, state + 1


class Place(NamedTuple):
    """Where a Brownian path is at a time: the side of 0 and the octave of the time, and how far the path has come in it."""

    side: Int[Array, ""]
    octave: Int[Array, ""]
    come: Float[Array, "n d"]


class Brownian(AbstractNoise):
    """Brownian paths W(t), one per coordinate of every token: functions of the seed and the time alone, so that whoever asks,
    in whatever steps, sees the same paths.

    In an octave $[2^m, 2^{m+1})$ of times the path is drawn by Lévy's construction: a straight line, and on every scale below a hat
    over each half, quarter, ... with an independent normal height, which depends on nothing but the seed and the cell under the
    hat. The last is not a hat but a half circle, so that W(t) has its exact law at every t; its width is at most
    4e-6, and at most 1e-6 of the time. Whole octaves are independent increments, and so are both sides of 0.
    """

    key: Any
    shape: tuple[int, ...] = eqx.field(static=True)

    LOWEST: ClassVar[int] = -60
    """All times below 2 to this power are one cell."""
    SHARE: ClassVar[int] = 20
    """The last cell is at most 2 to minus this power of an octave wide,"""
    WIDTH: ClassVar[int] = 18
    """and at most 2 to minus this power."""

    def at(self, t: Time) -> Place:
        t = lax.stop_gradient(jnp.asarray(t))
        octave = jnp.where(jnp.abs(t) < 2.0**self.LOWEST, self.LOWEST - 1, jnp.frexp(t)[1] - 1)
        side = (t < 0).astype(octave.dtype)
        length = self._length(octave, t.dtype)
        share = jnp.where(octave < self.LOWEST, jnp.abs(t) / length, jnp.abs(t) / length - 1)
        key, levels = self._key(side, octave), jnp.maximum(self.SHARE, octave + self.WIDTH)

        def add(walk: tuple[Array, Array]) -> tuple[Array, Array]:
            level, come = walk
            cells = jnp.ldexp(share, level)
            cell = jnp.floor(cells)
            high = jnp.floor(jnp.ldexp(cell, -32))
            words = level, high, cell - jnp.ldexp(high, 32)
            inside = cells - cell
            hat, circle = 0.5 - jnp.abs(inside - 0.5), jnp.sqrt(inside * (1 - inside))
            height = jnp.where(level == levels - 1, circle, hat) * jnp.sqrt(jnp.ldexp(length, -level))
            return level + 1, come + height * self._normal(
                _folded(key, *words), jnp.float32
            )  # at half the cost of float64

        def more(walk: tuple[Array, Array]) -> Array:  # hats vanish at their ends, and so do all below them
            cells = jnp.ldexp(share, walk[0])
            return (walk[0] < levels) & (cells > jnp.floor(cells))

        line = share * jnp.sqrt(length) * self._normal(key, t.dtype)
        return Place(side, octave, lax.while_loop(more, add, (jnp.zeros_like(levels), line))[1])

    def between(self, a: Place, b: Place) -> Array:
        """The increment from one place to another."""
        least = jnp.where(a.side == b.side, jnp.minimum(a.octave, b.octave), self.LOWEST - 1)
        return self._since(least, b) - self._since(least, a)

    def _since(self, first: Array, place: Place) -> Array:
        """The path from the beginning of an octave on."""
        dtype = place.come.dtype
        whole = lambda m: jnp.sqrt(self._length(m, dtype)) * self._normal(self._key(place.side, m), dtype)
        return lax.fori_loop(first, place.octave, lambda m, come: come + whole(m), place.come)

    def _length(self, octave: Array, dtype: Any) -> Array:
        return jnp.ldexp(jnp.ones((), dtype), jnp.maximum(octave, self.LOWEST))

    def _key(self, side: Array, octave: Array) -> Any:
        return _folded(self.key, side, octave - self.LOWEST + 1)

    def _normal(self, key: Any, dtype: Any) -> Array:
        return jax.random.normal(key, self.shape, dtype)

    def begin(self, t0: Time) -> Any:
        return jnp.asarray(0), self.at(t0)

    def halves(self, t0: Time, t1: Time, state: Any) -> tuple[Array, Array, Any]:
        """The sum of the increments is the path's. Where the path is half-way is drawn anew for every step, from its number: it has
        the right law, and the scheme, which does not know where else the path was, has an error of this size anyway."""
        count, here = state
        there = self.at(t1)
        whole, key = self.between(here, there), jax.random.fold_in(jax.random.fold_in(self.key, 2), count)
        apart = 0.5 * jnp.sqrt(t1 - t0) * self._normal(key, whole.dtype)
        return 0.5 * whole + apart, 0.5 * whole - apart, (count + 1, there)


def _folded(key: Any, *words: Array) -> Any:
    for word in words:
        key = jax.random.fold_in(key, word.astype(jnp.uint32))
    return key


class Splitting(dfx.AbstractAdaptiveSolver):
    r"""Strang splitting: half a step of Brownian motion, a step of the drift by Heun's method, half a step of Brownian
    motion. Weak order 2; strong order 1 in R^d, 1/2 on the sphere, where the noise does not commute.

    Brownian motion in R^d is exact. On the sphere a token goes along the geodesic of the tangential increment ξ; with
    $|ξ|^2$ divided by $1 + (d-2)h/3κ$ the mean of every harmonic of degree l after a step is $e^{-l(l+d-2)h/κ} + O(h^3)$,
    and on the circle it is exact. Tokens stay on the sphere to round-off.
    """

    flow: Flow
    noise: AbstractNoise

    term_structure: ClassVar = dfx.ODETerm
    interpolation_cls: ClassVar = dfx.LocalLinearInterpolation

    def order(self, terms: Any) -> int:
        return 2

    def init(self, terms: Any, t0: Time, t1: Time, y0: Rows, args: Memory) -> Any:
        return self.noise.begin(t0)

    def func(self, terms: Any, t0: Time, y0: Rows, args: Memory) -> Any:
        return terms.vf(t0, y0, args)

    def step(
        self, terms: Any, t0: Time, t1: Time, y0: Rows, args: Memory, solver_state: Any, made_jump: Any
    ) -> tuple[Any, Any, Any, Any, Any]:
        h = t1 - t0
        begin, end = t0 + INSIDE * h, t1 - INSIDE * h
        first, second, state = self.noise.halves(t0, t1, solver_state)
        y = self._wander(begin, y0, first, 0.5 * h)
        k1 = terms.vf(begin, y, args)
        k2 = terms.vf(end, y + h * k1, args)
        y = self._settled(begin, y + 0.5 * h * (k1 + k2))
        y1 = self._wander(end, y, second, 0.5 * h)
        return y1, 0.5 * h * (k2 - k1), {"y0": y0, "y1": y1}, state, dfx.RESULTS.successful

    def _on_sphere(self, t: Time) -> Any:
        return self.flow.normalization.on_sphere(t)

    def _settled(self, t: Time, y: State) -> State:
        d = self._width(y)
        return jnp.where(self._on_sphere(t), y.at[:, :d].set(unit(y[:, :d])), y)

    def _width(self, y: State) -> int:
        """Coordinates of a token; a last one is the logarithm of its weight, where weights evolve."""
        return y.shape[1] - (self.flow.reweighting is not None)

    def _wander(self, t: Time, y: State, increment: Float[Array, "n d"], h: Time) -> State:
        κ, d = self.flow.kappa, self._width(y)
        assert κ is not None
        x, jump = y[:, :d], jnp.sqrt(2 / κ) * increment
        moved = jnp.where(self._on_sphere(t), _along_geodesic(x, jump / jnp.sqrt(1 + (d - 2) * h / (3 * κ))), x + jump)
        return y.at[:, :d].set(moved)


def _along_geodesic(x: Float[Array, "n d"], jump: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """From x/|x| along the great circle in the direction of the tangential part of the jump, by its length."""
    θ = unit(x)
    ξ = jump - jnp.sum(θ * jump, axis=1, keepdims=True) * θ
    angle = sizes(ξ)[:, None]
    return unit(jnp.cos(angle) * θ + jnp.sinc(angle / jnp.pi) * ξ)
