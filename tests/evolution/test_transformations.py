"""evolve under grad, vmap and jit: one differentiable solve, the same numbers."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tests import fast_first

D = 3
rng = np.random.default_rng(2)
X = np.asarray(tkf.Tokens.uniform_sphere(n=6, d=D, seed=1).x)
PARAMETERS = {
    "beta": np.asarray(2.0),
    "Q": np.eye(D) + 0.2 * rng.normal(size=(D, D)),
    "K": np.eye(D) + 0.2 * rng.normal(size=(D, D)),
    "V": np.eye(D) + 0.2 * rng.normal(size=(D, D)),
    "x": X,
}
PROBE = rng.normal(size=X.shape)


def loss(parameters, model):
    p = dict(parameters)
    mu0 = tkf.Tokens(p.pop("x"))
    flow = tkf.sa(**p) if model == "sa" else tkf.usa(**p, scaled=True)
    return jnp.sum(tkf.evolve(flow, mu0, t=1.5, save=3, rtol=1e-10).final.x * PROBE)


slopes = jax.jit(jax.grad(loss), static_argnums=1)
"""All derivatives; compiled once."""


@pytest.mark.parametrize("model", fast_first(["sa", "usa"], "sa"))
def test_gradients_against_finite_differences(model):
    gradient = slopes(PARAMETERS, model)
    assert set(gradient) == set(PARAMETERS)
    for name, value in PARAMETERS.items():
        direction = rng.normal(size=value.shape)
        h = 1e-4
        shifted = [loss({**PARAMETERS, name: value + s * h * direction}, model) for s in (-2, -1, 1, 2)]
        difference = (shifted[0] - 8 * shifted[1] + 8 * shifted[2] - shifted[3]) / (12 * h)
        assert float(jnp.sum(gradient[name] * direction)) == pytest.approx(float(difference), rel=2e-6), name


@pytest.mark.slow
def test_forward_mode_agrees_with_reverse_mode():
    mu0 = tkf.Tokens(X)
    final = lambda beta, adjoint: tkf.evolve(tkf.sa(beta), mu0, t=1.0, save=2, rtol=1e-9, adjoint=adjoint).final.x[0, 0]
    forward = jax.jvp(lambda b: final(b, "forward"), (2.0,), (1.0,))[1]
    assert float(forward) == pytest.approx(float(jax.grad(lambda b: final(b, "reverse"))(2.0)), rel=1e-8)


def test_slopes_of_other_measures_in_forward_mode():
    """The gap 1 - ρ of equiangular tokens against β, beside a difference of fourth order."""
    mu0 = tkf.Equiangular(rho=0.0, n=10)
    final = lambda beta: tkf.evolve(tkf.sa(beta), mu0, t=1.0, save=1, rtol=1e-10, adjoint="forward").log_gap[-1]
    slope, h = jax.jvp(final, (2.0,), (1.0,))[1], 1e-2
    shifted = [float(final(2.0 + s * h)) for s in (-2, -1, 1, 2)]
    assert float(slope) == pytest.approx(
        (shifted[0] - 8 * shifted[1] + 8 * shifted[2] - shifted[3]) / (12 * h), rel=1e-6
    )


def test_vmap_over_parameters_and_starts():
    betas = jnp.array([0.5, 2.0, 8.0])
    starts = jnp.stack([tkf.Tokens.uniform_sphere(n=6, d=D, seed=s).x for s in range(3)])
    runs = jax.vmap(lambda b, x: tkf.evolve(tkf.sa(b), tkf.Tokens(x), t=2.0, save=4, rtol=1e-8))(betas, starts)
    assert runs.x.shape == (3, 4, 6, D) and runs.status is tkf.Status.COMPLETED
    for i in range(3):
        alone = tkf.evolve(tkf.sa(betas[i]), tkf.Tokens(starts[i]), t=2.0, save=4, rtol=1e-8)
        assert np.max(abs(runs.x[i] - alone.x)) < 1e-7


def test_the_traced_solve_takes_the_same_steps_as_the_walk():
    mu0 = tkf.Tokens.uniform_sphere(n=20, d=3, seed=3)
    walked = tkf.evolve(tkf.sa(9.0), mu0, t=5.0, save=11)
    traced = jax.jit(lambda b: tkf.evolve(tkf.sa(b), mu0, t=5.0, save=11))(9.0)
    assert int(walked.steps) == int(traced.steps)
    assert np.max(abs(walked.x - traced.x)) < 1e-12
    assert np.allclose(walked.times, traced.times, atol=1e-14)


def test_traced_runs_that_end_early_hold_their_last_state():
    mu0 = tkf.Tokens.orthonormal(5)
    few = eqx.filter_jit(lambda b: tkf.evolve(tkf.sa(b), mu0, t=5.0, save=6, max_steps=4))(2.0)
    assert few.status is tkf.Status.MAX_STEPS
    assert np.all(np.isfinite(few.x)) and np.array_equal(few.x[-1], few.x[-2]) and float(few.times[-1]) < 5
    stopped = jax.vmap(lambda b: tkf.evolve(tkf.sa(b), mu0, t=50.0, save=6, until=tkf.collapsed))(jnp.array([1.0, 2.0]))
    assert stopped.code.tolist() == [tkf.Status.STOPPED] * 2
    assert np.all(np.isfinite(stopped.x))


def test_no_nan_leaves_a_traced_run():
    mu0 = tkf.Tokens.uniform_sphere(n=6, d=3, seed=1)
    runs = jax.vmap(lambda b: tkf.evolve(tkf.usa(b), mu0, t=1e-3, save=3))(jnp.array([1.0, 800.0]))
    assert np.all(np.isfinite(runs.x)) and runs.code.tolist() == [tkf.Status.COMPLETED, tkf.Status.BLOW_UP]
    run = eqx.filter_jit(lambda b: tkf.evolve(tkf.Flow(tkf.Unnormalized(b)), mu0, t=10.0, save=3))(1.0)
    assert run.status is tkf.Status.BLOW_UP and np.all(np.isfinite(run.x))


def test_gradients_where_nothing_moves_are_finite():
    """All tokens in one place, and in two that are opposite."""
    one = np.tile([0.6, 0.8, 0.0], (6, 1))
    for x in (one, one * np.array([1, -1, 1, -1, 1, 1])[:, None]):
        found = slopes({**PARAMETERS, **{name: np.eye(D) for name in "QKV"}, "x": x}, "sa")
        assert all(np.all(np.isfinite(part)) for part in found.values())


@pytest.mark.slow
@pytest.mark.parametrize("x", [[[0.6, 0.8], [0.6, 0.8]], [[1.0, 0.0]], [[1.0], [-1.0]]])
def test_gradients_of_one_or_two_tokens_that_stay_are_finite(x):
    final = lambda x: jnp.sum(jnp.sin(tkf.evolve(tkf.sa(2.0), tkf.Tokens(x), 2.0, save=2).final.x))
    assert np.all(np.isfinite(jax.grad(final)(jnp.asarray(x))))


def test_tokens_jit_vmap_and_differentiate():
    mu = tkf.Tokens(X)
    assert jax.jit(lambda m: m.mean)(mu).shape == (D,)
    batch = jax.vmap(tkf.Tokens)(jnp.stack([X, 2 * X]))
    assert batch.x.shape == (2, 6, D) and batch.radii.shape == (2, 6)
    assert jax.grad(lambda m: jnp.sum(m.gram**2))(mu).x.shape == X.shape
