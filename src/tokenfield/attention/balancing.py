"""Potentials that make a kernel doubly stochastic: f(x) e^{s(x, y)} g(y) with ∫ dμ(y) = 1 and ∫ dμ(x) = 1.

Rounds normalize rows and columns while that halves the error. Where it does not, Newton steps on the dual problem, which is
concave, take over [brauer2017]; far from the solution they first solve for scores t s with a small t, which doubles until it is 1.
"""

import enum
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from tokenfield._norms import sizes
from tokenfield.attention.kernels import Kept, Kernel, Summed

LOOSE = 0.5
"""The error of a marginal below which Newton steps converge, so that t may double."""
FIRST = 2.0
"""The largest score with which annealing begins."""
LONGEST = 20.0
"""How far a Newton step may move a potential."""
SETTLED = 30
"""Rounds in which the error did not fall, after which it is at its rounding."""
PRODUCTS = 500
"""Products with the kernel in one Newton step, where it is not kept; where it is, n / 16, and then a direct solve, as costly."""

Plan = Kept | Summed


class Outcome(enum.IntEnum):
    """How the solve ended."""

    RUNNING = 0
    SOLVED = 1
    ROUNDS = 2
    ROUNDING = 3
    BROKEN = 4


class Look(NamedTuple):
    """What a round sees at potentials g: the row's f, what the equation is short of, the round's own step, the largest error of a
    marginal, and a number that good steps increase."""

    log_f: Float[Array, " n"]
    residual: Float[Array, " n"]
    step: Float[Array, " n"]
    error: Float[Array, ""]
    merit: Float[Array, ""]


class Alternating(eqx.Module):
    """The columns of the kernel with exact rows: 1 - m(g) = 0. The residual is the gradient of the dual
    D(g) = ∫ log g dμ + ∫ log f dμ, and J = m - P*P is self-adjoint in L²(μ), with the constants in its kernel."""

    anneals: bool = eqx.field(static=True, default=True)

    def look(self, plan: Plan, log_g: Float[Array, " n"]) -> Look:
        log_f = plan.rows(log_g)
        step = plan.columns(log_f) - log_g
        residual = -jnp.expm1(-step)
        return Look(log_f, residual, step, _largest(residual, plan.w), _mean(log_g + log_f, plan.w))

    def slope(self, look: Look, step: Float[Array, " n"], w: Float[Array, " n"]) -> Float[Array, ""]:
        """How fast merit grows along a step."""
        return _mean(look.residual * step, w)

    def weights(self, look: Look, w: Float[Array, " n"]) -> Float[Array, " n"]:
        """Those of the inner product in which the Jacobian is self-adjoint."""
        return w

    def product(self, plan: Plan, log_g: Any, look: Look, v: Float[Array, " n"]) -> Float[Array, " n"]:
        return (1 - look.residual) * v - plan.backward(plan.forward(v, log_g, look.log_f), log_g, look.log_f)

    def equation(self, plan: Plan, log_g: Float[Array, " n"]) -> Float[Array, " n"]:
        """What is zero at the solution, the mean of log g included."""
        return self.look(plan, log_g).residual - _mean(log_g, plan.w)


class Symmetric(eqx.Module):
    """Where the kernel is symmetric, f = g, and log f(g) - log g = 0 alone is solved, one half round at a time. J = 1 + P has its
    spectrum in [1, 2] for positive definite kernels, however far apart clusters are [feydy2019]."""

    anneals: bool = eqx.field(static=True, default=False)

    def look(self, plan: Plan, log_g: Float[Array, " n"]) -> Look:
        """Far away, the mean of both sides halves the residual, whatever the kernel. Nearby it is right for constants, and what
        varies is divided by P, or, in Newton steps, by 1 + P."""
        log_f = plan.rows(log_g)
        residual = log_f - log_g
        error = 2 * _largest(residual, plan.w)
        step = jnp.where(error > LOOSE, 0.5 * residual, residual - 0.5 * _mean(residual, plan.w))
        return Look(log_f, residual, step, error, -error)

    def slope(self, look: Look, step: Float[Array, " n"], w: Float[Array, " n"]) -> Float[Array, ""]:
        return look.error

    def weights(self, look: Look, w: Float[Array, " n"]) -> Float[Array, " n"]:
        return w * jnp.exp(jnp.clip(-look.residual, -LONGEST, LONGEST))

    def product(self, plan: Plan, log_g: Any, look: Look, v: Float[Array, " n"]) -> Float[Array, " n"]:
        return v + plan.forward(v, log_g, look.log_f)

    def equation(self, plan: Plan, log_g: Float[Array, " n"]) -> Float[Array, " n"]:
        return plan.rows(log_g) - log_g


Equation = Alternating | Symmetric


class Balanced(NamedTuple):
    """How a solve went: the largest error of a column's marginal, rounds, and an `Outcome`."""

    error: Float[Array, ""]
    rounds: Int[Array, ""]
    outcome: Int[Array, ""]


class State(NamedTuple):
    """Between two rounds: potentials for scores t s, reached by `step`; the merit that this step must reach."""

    t: Float[Array, ""]
    log_g: Float[Array, " n"]
    step: Float[Array, " n"]
    needed: Float[Array, ""]
    error: Float[Array, ""]
    least: Float[Array, ""]
    since: Int[Array, ""]
    newton: Bool[Array, ""]
    rounds: Int[Array, ""]
    outcome: Int[Array, ""]


def balance(
    equation: Equation, kernel: Kernel, guess: Float[Array, " n"], tolerance: float, iterations: int
) -> tuple[Float[Array, " n"], Balanced]:
    """log g, whose derivatives are those of the solution (implicit function theorem), and how the solve went."""
    one = jnp.ones((), guess.dtype)

    log_g, (error, *counts) = lax.custom_root(
        lambda log_g: equation.equation(kernel.at(one, log_g), log_g),
        lax.stop_gradient(guess),
        lambda _, guess: _solve(equation, lax.stop_gradient(kernel), guess, tolerance, iterations),
        lambda matvec, b: _linear(kernel, matvec, b),
        has_aux=True,
    )
    return log_g, Balanced(lax.stop_gradient(error), *(lax.stop_gradient(count).astype(jnp.int32) for count in counts))


def _solve(equation: Equation, kernel: Kernel, guess: Any, tolerance: float, iterations: int) -> tuple[Any, tuple]:
    """Rounds against one plan of the kernel after another, until it is balanced or does not get closer."""
    running = lambda s: (s.outcome == Outcome.RUNNING) & (s.rounds < iterations)

    def with_a_plan(state: State) -> State:
        plan = kernel.at(state.t, state.log_g)
        return lax.while_loop(
            lambda s: running(s) & plan.covers(s.t, s.log_g),
            lambda s: _round(equation, kernel, plan, tolerance, s),
            state,
        )

    number, whole = jnp.array(jnp.inf, guess.dtype), jnp.zeros((), jnp.int32)
    still = jnp.zeros_like(guess)
    one, no = jnp.ones((), guess.dtype), jnp.array(False)
    first = State(one, guess, still, -number, number, number, whole, no, whole, whole)
    last = lax.while_loop(running, with_a_plan, first)
    outcome = jnp.where(last.outcome == Outcome.RUNNING, Outcome.ROUNDS, last.outcome)
    error = jnp.where(last.t == 1, last.error, jnp.inf)
    # as numbers that have tangents, of which whole ones have none
    return last.log_g, (error, last.rounds.astype(error.dtype), outcome.astype(error.dtype))


def _round(equation: Equation, kernel: Kernel, plan: Plan, tolerance: float, s: State) -> State:
    """Look at the marginals, and take the step that follows: back, on to a larger t, a round's own, or Newton's."""
    eps, w = jnp.finfo(s.log_g.dtype).eps, plan.w
    look = equation.look(plan, s.log_g)
    good = look.merit >= s.needed
    solved = good & (look.error <= jnp.where(s.t < 1, LOOSE, max(tolerance, 50 * eps)))
    done, grow = solved & (s.t == 1), solved & (s.t < 1)

    slow = good & ~solved & (s.newton | ~(look.error <= 0.5 * s.error))
    begin = slow & ~s.newton & (look.error > LOOSE) & equation.anneals & (s.t == 1)
    newton = slow & ~begin
    step = _newton(equation, plan, s.log_g, look, newton)
    own = jnp.where(jnp.isfinite(look.step), look.step, 0.0)
    step = jnp.where(good, jnp.where(newton, step, own), 0.5 * s.step)

    small = jnp.minimum(1.0, FIRST / _reach(kernel)).astype(s.t.dtype)
    t = jnp.where(begin, small, jnp.where(grow, jnp.minimum(1.0, 2 * s.t), s.t))
    stays = done | grow | begin  # the potentials of scores t s grow with t
    here = jnp.where(good, s.log_g, s.log_g - s.step)
    slack = 100 * eps * (1 + _mean(jnp.abs(s.log_g) + jnp.abs(look.log_f), w))
    needed = look.merit + 1e-4 * equation.slope(look, step, w) - slack
    closer = good & (look.error < s.least)
    since = jnp.where(closer | (s.t < 1), 0, s.since + 1)
    stuck = (since > SETTLED) | (~good & ~(jnp.max(jnp.abs(step)) > eps * jnp.max(jnp.abs(s.log_g))))
    outcome = jnp.where(done, Outcome.SOLVED, jnp.where(stuck, Outcome.ROUNDING, Outcome.RUNNING))
    outcome = jnp.where(jnp.all(jnp.isfinite(look.log_f)), outcome, Outcome.BROKEN)
    return State(
        t=t,
        log_g=jnp.where(done, _everywhere(s.log_g, look, w), jnp.where(stays, t / s.t * here, here + step)),
        step=step,
        needed=jnp.where(stays | (good & ~newton), -jnp.inf, jnp.where(good, needed, s.needed)),
        error=look.error,
        least=jnp.where(s.t < 1, jnp.inf, jnp.where(closer, look.error, s.least)),
        since=since,
        newton=s.newton | slow,
        rounds=s.rounds + 1,
        outcome=outcome.astype(s.outcome.dtype),
    )


def _newton(equation: Equation, plan: Plan, log_g: Any, look: Look, wanted: Any) -> Float[Array, " n"]:
    """J δ = residual by conjugate gradients, as closely as pays; directly where they take too long and the kernel is kept."""
    eps, w = jnp.finfo(log_g.dtype).eps, plan.w
    # what rounding leaves of the residual, eps |log g|, must not be divided by less
    damping = 1e-3 * jnp.minimum(1.0, _mean(jnp.abs(look.residual), w)) + eps * (1000 + jnp.max(jnp.abs(log_g)))
    matvec = lambda v: equation.product(plan, log_g, look, v) + damping * v
    diagonal = jnp.maximum(1 - look.residual, 1e-3) if equation.anneals else jnp.ones_like(w)
    most = max(16, len(w) // 16) if isinstance(plan, Kept) else PRODUCTS
    closely = jnp.minimum(0.1, look.error)
    b = jnp.where(wanted, look.residual, 0.0)
    step, reached = _conjugate_gradients(matvec, b, equation.weights(look, w), diagonal, closely, most)
    if isinstance(plan, Kept) and equation.anneals:
        directly = lambda _: (_direct(plan.matrix(log_g, look.log_f), w, damping, b), jnp.array(True))
        # a loop of one round or none: in a batch, a branch would be taken by all
        step, _ = lax.while_loop(lambda found: ~found[1], directly, (step, reached))
    return step * jnp.minimum(1.0, LONGEST / jnp.maximum(jnp.max(jnp.abs(step)), 1e-30))


def _direct(P: Float[Array, "n n"], w: Float[Array, " n"], damping: Any, b: Float[Array, " n"]) -> Float[Array, " n"]:
    """(m - P*P + damping) δ = b with mean zero, as a symmetric matrix for √w δ. Its rows sum to 0 against √w, so that the diagonal
    is made of the other entries, without cancellation: some may be as small as rounding, and all count."""
    root = jnp.sqrt(w)
    inverse = jnp.where(w > 0, 1 / jnp.where(w > 0, root, 1.0), 0.0)
    scaled = root[:, None] * P * inverse
    own = jnp.eye(len(w), dtype=bool)
    others = jnp.where(own, 0.0, scaled.T @ scaled)
    J = jnp.where(own, inverse * (others @ root) + damping, -others) + root[:, None] * root / jnp.sum(w)
    return inverse * jax.scipy.linalg.cho_solve((lax.linalg.cholesky(J, symmetrize_input=False), True), root * b)


def _conjugate_gradients(
    matvec: Any, b: Array, weights: Array, diagonal: Any, closely: Any, most: int
) -> tuple[Float[Array, " n"], Bool[Array, ""]]:
    """x with |b - Jx| ≤ closely |b|, and whether it was reached in so many products. J is self-adjoint in the inner product of the
    weights; the diagonal preconditions."""
    dot = lambda a, b: jnp.sum(weights * a * b)
    goal = closely**2 * dot(b, b)

    def one(state: Any) -> Any:
        x, r, p, rz, k = state
        Jp = matvec(p)
        bend = dot(p, Jp)
        a = jnp.where(bend > 0, rz / bend, 0.0)
        x, r = x + a * p, r - a * Jp
        z = r / diagonal
        new = dot(r, z)
        return x, r, z + jnp.where(rz > 0, new / rz, 0.0) * p, new, jnp.where(bend > 0, k + 1, most)

    z = b / diagonal
    start = jnp.zeros_like(b), b, z, dot(b, z), jnp.zeros((), jnp.int32)
    x, r, *_ = lax.while_loop(lambda s: (dot(s[1], s[1]) > goal) & (s[-1] < most), one, start)
    return x, dot(r, r) <= goal


def _linear(kernel: Kernel, matvec: Any, b: Float[Array, " n"]) -> Float[Array, " n"]:
    """J x = b at the solution, for derivatives: densely where the kernel is kept, else by conjugate gradients. There J is
    self-adjoint in L²(μ): Jᵀ y = b is J (y/w) = b/w. Tokens of no weight are heard by nobody."""
    w, eps = lax.stop_gradient(kernel.w), jnp.finfo(b.dtype).eps
    if kernel.kept:
        matrix = lambda product: jax.vmap(product, out_axes=1)(jnp.eye(len(b), dtype=b.dtype))
        direct = lambda product, b: jnp.linalg.solve(matrix(product), b)
        return lax.custom_linear_solve(matvec, b, direct, direct)
    sign = lambda product: lambda v: -product(v)
    search = lambda product, b: _conjugate_gradients(sign(product), -b, w, jnp.ones_like(b), 10 * eps, PRODUCTS)[0]
    share = lambda b: jnp.where(w > 0, b / jnp.where(w > 0, w, 1.0), 0.0)
    backward = lambda product, b: w * search(lambda v: share(product(w * v)), share(b))
    return lax.custom_linear_solve(matvec, b, search, backward)


def _everywhere(log_g: Float[Array, " n"], look: Look, w: Float[Array, " n"]) -> Float[Array, " n"]:
    """Tokens of no weight take no part in the equations; theirs is the solution's value at their place."""
    return jnp.where(w > 0, log_g, log_g + look.step)


def _reach(kernel: Kernel) -> Float[Array, ""]:
    """A bound of all scores."""
    return jnp.max(sizes(kernel.q)) * jnp.max(sizes(kernel.k)) + jnp.finfo(kernel.q.dtype).tiny


def _mean(v: Float[Array, " n"], w: Float[Array, " n"]) -> Float[Array, ""]:
    return jnp.sum(w * v) / jnp.sum(w)


def _largest(v: Float[Array, " n"], w: Float[Array, " n"]) -> Float[Array, ""]:
    """The largest entry among tokens that have a weight."""
    return jnp.max(jnp.where(w > 0, jnp.abs(v), 0.0))
