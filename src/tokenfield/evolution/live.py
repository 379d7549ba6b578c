"""A run that goes on frame by frame, for those who watch and interfere: flow and tokens may change between two frames.

`evolve` reads its task, begins and ends at every call. A live run begins once. It takes the steps that its tolerance asks for,
however frames are spaced, and reads frames off the last step's interpolant, so that a frame inside a step costs nothing but
that. Solver, step length and attention's memory stand from frame to frame, and so does the compiled program: parameters, points
and times are its arguments. Tokens are filled up to a capacity with weightless copies, so that a few more or fewer are the same
program, and fast sums are made for the largest parameters that may come.
"""

import math
import time
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from tokenfield import _checks as check
from tokenfield._compile import compiled, make_room
from tokenfield._types import AnyArray
from tokenfield.attention.base import as_dtype
from tokenfield.evolution.front import evolve
from tokenfield.evolution.motions import AbstractMotion, Sums, motion_for
from tokenfield.evolution.problem import Plan, Problem, explodes
from tokenfield.evolution.solvers import Pace
from tokenfield.evolution.step import Walker, arrive, attempt, start
from tokenfield.flow import Flow
from tokenfield.measures import AbstractMeasure
from tokenfield.status import Status

FOREVER = 1e30
"""The end of a run that has none."""
AHEAD = 64.0
"""No step is longer than so many frames: what is not looked at for long may change under it."""
SMALLEST = 16
"""The least capacity."""


def capacity(n: int) -> int:
    """How many places there are for n tokens: four sizes an octave.

    >>> [capacity(n) for n in (3, 100, 500, 2000, 10_000)]
    [16, 112, 512, 2048, 10240]
    """
    unit = 2 ** max(0, math.ceil(math.log2(max(n, SMALLEST))) - 3)
    return max(SMALLEST, unit * math.ceil(n / unit))


class Live:
    """A run that goes on frame by frame.

    **Arguments**

    - `flow`, `mu0`: what moves, from where, as `evolve` takes them.
    - `t`: the time at which it begins.
    - `rtol`: the relative tolerance of steps; the usual one of this kind of measure when left out.
    - `widest`: the same flow with the largest parameters that may come, for which fast sums are made; the flow itself when
      left out.
    - `seed`: the seed of the noise.

    **Raises** `InputError` where flow and measure cannot go together.

    >>> import tokenfield as tkf
    >>> live = Live(tkf.sa(4.0), tkf.Tokens.uniform_sphere(n=16, d=3, seed=0))
    >>> live.onward(0.5).x.shape, live.t
    ((16, 3), 0.5)
    >>> live.change(tkf.sa(9.0))                   # the same program goes on at another β
    >>> live.onward(1.0).n, live.status.name
    (16, 'RUNNING')
    """

    def __init__(
        self,
        flow: Flow,
        mu0: AbstractMeasure,
        *,
        t: float = 0.0,
        rtol: float | None = None,
        widest: Flow | None = None,
        seed: int = 0,
    ):
        self.t, self.seed, self.asked = float(t), int(seed), rtol
        self.steps = self.accepted = 0
        self._per_step, self._length = 0.0, 0.0
        self.measure: Any = mu0
        self._footing: Footing | None
        self.change(flow, mu0, widest=flow if widest is None else widest)

    @property
    def rejected(self) -> int:
        """How many steps were not accurate enough, and taken again."""
        return self.steps - self.accepted

    @property
    def clock(self) -> float:
        """The time from which it goes on: what is seen is of this time."""
        return self.t

    @property
    def message(self) -> str:
        """How the run goes, as a sentence."""
        return f"The run {self.status.sentence(self.t)}."

    @property
    def sums(self) -> str:
        """How sums over tokens are computed; "" where nothing is summed."""
        return self._motion.description

    def change(
        self, flow: Flow | None = None, mu: AbstractMeasure | None = None, *, widest: Flow | None = None
    ) -> None:
        """Go on from here with another flow, another measure, or both.

        **Arguments**

        - `flow`, `mu`: what changes; what is left out stays as it is now.
        - `widest`: the flow for whose parameters fast sums are made, if that changes.

        **Raises** `InputError` where they cannot go together. Then nothing has changed.
        """
        flow, now = self.flow if flow is None else flow, cast(AbstractMeasure, self.measure if mu is None else mu)
        widest = self.widest if widest is None else widest
        kind = motion_for(flow, type(now))
        now.refuse_nonfinite()
        settled = kind.settle(flow, now)
        rtol = max(kind.rtol if self.asked is None else self.asked, 100 * float(jnp.finfo(settled.dtype).eps))
        number = lambda value: check.on_device(np.asarray(value, settled.dtype))
        exact = as_dtype(flow, settled.dtype)
        begun = _filled(exact, kind.begin(exact, settled, number(self.t)))
        wide = widest if flow.normalization.reads_directions else flow
        asked = wide.summation(begun, None, None, 0.1 * rtol) if "summation" in kind.options else None
        motion = kind.pose(exact, begun, Sums(asked, 0.1 * rtol), np.asarray(self.seed))
        plan = Plan(
            t0=number(self.t),
            t1=number(FOREVER),
            rtol=number(rtol),
            atol=number(rtol / 1000),
            step=None,
            solver=kind.solver(None, settled),
            until=None,
            strict=True,
            dt0=number(0.3 * self._length),
        )
        self._blank = _nowhere((plan, motion, _moment(settled.dtype)))  # some refuse each other here alone
        self._plan, self._motion, self._footing = plan, motion, None
        self.flow, self.widest, self.measure, self.rtol = flow, widest, settled, rtol
        self._before = self.steps, self.accepted
        self.status = Status.RUNNING

    def onward(self, t: float, budget: float = math.inf) -> AbstractMeasure:
        """Go on to a later time.

        **Arguments**

        - `t`: the time.
        - `budget`: seconds after which no further steps are begun; the run then stands at an earlier time, `live.t`.

        **Returns** the measure there. A run that blows up or cannot go on says so in `live.status` and stays where it was.
        """
        began, reached = time.perf_counter(), False
        while not reached and self.status is Status.RUNNING:
            left = budget - (time.perf_counter() - began)
            if left <= 0:
                break
            reached = self._piece(float(t), left)
        return self.measure

    def _piece(self, goal: float, seconds: float) -> bool:
        """As many steps as will take about so many seconds; whether that led to the goal."""
        motion, footing = self._motion, self._footing
        fresh = footing is None
        if fresh:
            make_room()
        many = max(1, int(min(10_000.0, seconds / self._per_step))) if self._per_step > 0 else 2
        taken = 0 if footing is None else int(footing.walker.steps)
        longest = AHEAD * max(goal - self.t, 1e-12)
        now = _moment(self._plan.t0.dtype, fresh, goal, longest, taken + many)
        footing = self._blank if footing is None else footing
        began = time.perf_counter()
        seen = jax.block_until_ready(_onward((self._plan, motion, now), footing))
        self._learn(time.perf_counter() - began, int(seen.footing.walker.steps) - taken)
        self._footing = seen.footing
        self._arrive(seen)
        return bool(seen.t >= goal)

    def _learn(self, seconds: float, steps: int) -> None:
        """How long a step takes; a first one, which may have been compiled, says nothing."""
        if steps and seconds < 2.0:
            each = seconds / steps
            self._per_step = each if self._per_step == 0 else 0.7 * self._per_step + 0.3 * each

    def _arrive(self, seen: "Seen") -> None:
        walker = seen.footing.walker
        self.steps, self.accepted = (
            before + int(more) for before, more in zip(self._before, (walker.steps, walker.accepted), strict=True)
        )
        self.status = Status(int(walker.status))
        self._length = float(walker.tnext) - float(walker.t)
        if float(seen.t) > self.t:
            self.t, self.measure = float(seen.t), _trimmed(seen.measure, self.measure)
        if self.status is Status.STALLED:
            elapsed = np.asarray(walker.t) - np.asarray(self._plan.t0)
            if bool(explodes(self._motion, elapsed, walker.t, walker.y, walker.memory)):
                self.status = Status.BLOW_UP
        if self.status is Status.UNRESOLVED:
            self._refine(walker)

    def _refine(self, walker: Walker) -> None:
        """A density that its modes no longer resolve goes on with more of them, if there are."""
        finer = self._motion.finer(walker.y)
        if finer is not None:
            self.t = float(walker.t)
            self.change(mu=finer.measure(finer.first))


class Late:
    """A run whose tokens become one where they meet, so that it reaches late times. It is computed by `evolve`, some frames
    at once, and has the same methods as `Live`.

    >>> import tokenfield as tkf
    >>> late = Late(tkf.usa(1.0), tkf.Tokens.uniform_sphere(n=8, d=3, seed=0), t=1.0)
    >>> late.onward(1.3).n, late.t
    (8, 1.3)
    """

    RADIUS = 1e-5
    FRAMES = 12
    """How many frames are computed at once."""
    _ahead: list[tuple[float, Any]]

    def __init__(
        self,
        flow: Flow,
        mu0: AbstractMeasure,
        *,
        t: float = 0.0,
        rtol: float | None = None,
        widest: Flow | None = None,
        seed: int = 0,
    ):
        self.t, self.asked, self.steps, self.rejected = float(t), rtol, 0, 0
        self.rtol, self.sums, self.message = math.nan, "", ""
        self.measure: Any = mu0
        self.clock = self.t
        """The time from which it goes on; what is seen is of the last frame before."""
        self.change(flow, mu0)

    def change(
        self, flow: Flow | None = None, mu: AbstractMeasure | None = None, *, widest: Flow | None = None
    ) -> None:
        """Go on from here with another flow, another measure, or both; refused ones change nothing."""
        flow, now = self.flow if flow is None else flow, cast(AbstractMeasure, self.measure if mu is None else mu)
        settled = motion_for(flow, type(now)).settle(flow, now)
        evolve(flow, settled, (self.t, self.t * (1 + 1e-9) + 1e-9), save=1, coalesce=self.RADIUS, progress=False)
        self.flow, self.measure, self.status = flow, settled, Status.RUNNING
        self.clock, self._ahead = self.t, []

    def onward(self, t: float, budget: float = math.inf) -> AbstractMeasure:
        """Go on to a later time; that and frames after it, equally far apart in log t, are computed when they are needed."""
        while self._ahead and self._ahead[0][0] < t * (1 - 1e-12):
            self.t, self.measure = self._ahead.pop(0)
        if not self._ahead and self.status is Status.RUNNING:
            self._compute(t)
        if self._ahead and self._ahead[0][0] <= t * (1 + 1e-12):
            self.t, self.measure = self._ahead.pop(0)
        self.clock = max(t, self.t) if self._ahead else self.t
        return self.measure

    def _compute(self, t: float) -> None:
        ratio = t / self.t if self.t > 0 else 0.0
        times = t * np.geomspace(1.0, ratio ** (self.FRAMES - 1), self.FRAMES) if 1 < ratio < 10 else np.array([t])
        run = evolve(
            self.flow,
            self.measure,
            (self.t, float(times[-1])),
            save=times,
            rtol=self.asked,
            coalesce=self.RADIUS,
            progress=False,
        )
        self.steps, self.rejected = self.steps + int(run.steps), self.rejected + int(run.rejected)
        self.rtol, self.sums = run.provenance.rtol, run.provenance.summation
        if not run.status.ok:
            self.status, self.message = run.status, run.message
        self._ahead = [(float(when), run[k]) for k, when in enumerate(np.asarray(run.times))]


def _filled(flow: Flow, mu: Any) -> Any:
    """The measure with weightless tokens up to a capacity, where attention sees nothing of tokens but their measure."""
    if not hasattr(mu, "filled") or not flow.attention.mean_field:
        return mu
    return mu.filled(capacity(mu.n))


def _trimmed(mu: Any, before: Any) -> Any:
    """Without the weightless tokens that were added."""
    if not hasattr(mu, "filled") or mu.n == before.n:
        return mu
    parts = lambda nu: [part for part in (nu.x, nu.w, nu.s) if part is not None]
    return eqx.tree_at(parts, mu, [check.on_device(np.asarray(part)[: before.n]) for part in parts(mu)])


# The compiled program.


class Footing(NamedTuple):
    """Where a live run stands: at the end of its last step, and the inside of that step."""

    walker: Walker
    since: Array
    until: Array
    inside: Any


class Seen(NamedTuple):
    """What is seen at a time: the measure, and where the run stands now, at that time or later."""

    t: Array
    measure: Any
    footing: Footing


Fixed = tuple[Plan, AbstractMotion, dict[str, AnyArray]]


@compiled
def _begin(fixed: Fixed) -> Footing:
    p = _problem(fixed)
    walker = start(p)
    shapes = eqx.filter_eval_shape(lambda walker: attempt(p, walker).dense, walker)
    return Footing(walker, walker.t, walker.t, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes))


def _nowhere(fixed: Fixed) -> Footing:
    """What has the shapes of a beginning: a run that has not begun is one with other numbers, not another program."""
    shapes = eqx.filter_eval_shape(_begin, fixed)
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)


def _moment(dtype: Any, fresh: bool = True, goal: float = 0.0, longest: float = 1.0, limit: int = 1) -> dict[str, Any]:
    """What differs from piece to piece: whether the run begins, the time to go to, the longest step, and after how many to stop."""
    return {
        "fresh": np.asarray(fresh),
        "goal": np.asarray(goal, dtype),
        "longest": np.asarray(longest, dtype),
        "limit": np.asarray(limit),
    }


def _problem(fixed: Fixed) -> Problem:
    plan, motion, now = fixed
    return plan.problem(motion, jnp.reshape(now["goal"], 1))


@compiled(donate="all-except-first")
def _onward(fixed: Fixed, footing: Footing) -> Seen:
    """Steps until the goal is passed, the step limit, or failure; and what is seen there."""
    p, now = _problem(fixed), fixed[2]
    footing = lax.cond(now["fresh"], lambda: _begin(fixed), lambda: footing)
    if isinstance(p.control, Pace):  # noise has no inside: its steps end on frames
        footing = _no_later(footing, now["goal"])
    footing = _no_later(footing, footing.walker.t + now["longest"])

    def goes_on(footing: Footing) -> Array:
        walker = footing.walker
        return (walker.status == Status.RUNNING) & (walker.t < now["goal"]) & (walker.steps < now["limit"])

    footing = lax.while_loop(goes_on, lambda footing: _step(p, footing, now["longest"]), footing)
    walker = footing.walker
    t = jnp.minimum(now["goal"], walker.t)
    between = lambda: p.solver.interpolation_cls(t0=footing.since, t1=footing.until, **footing.inside).evaluate(t)
    y = lax.cond(t < walker.t, between, lambda: walker.y)
    return Seen(t, p.motion.measure(y), footing)


def _step(p: Problem, footing: Footing, longest: Array) -> Footing:
    now = footing.walker
    step = attempt(p, now)
    walker = arrive(p, now, step, now.saved)
    new = Footing(walker, now.t, now.tnext, step.dense)
    kept = jax.tree.map(lambda a, b: jnp.where(step.keep, a, b), new[1:], footing[1:])
    return _no_later(Footing(walker, *kept), walker.t + longest)


def _no_later(footing: Footing, t: Array) -> Footing:
    """The next step ends at t at the latest."""
    tnext = footing.walker.tnext
    return footing._replace(walker=eqx.tree_at(lambda w: w.tnext, footing.walker, jnp.minimum(tnext, t)))
