"""What the equations conserve, climb and commute with."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import simpson

import tokenfield as tkf
from tests import naive

MU = tkf.Tokens.uniform_sphere(n=30, d=3, seed=4)
rng = np.random.default_rng(7)
W = rng.uniform(0.5, 2, 30)
WEIGHTED = tkf.Tokens(MU.x, W / W.sum())


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("beta", [0.0, 1.0, 9.0])
def test_usa_is_the_gradient_ascent_of_the_energy(beta, scaled):
    """dE/dt = Σ w|v|²: at an instant to round-off, by differentiating E along v."""
    v = tkf.velocity(tkf.usa(beta, scaled=scaled), WEIGHTED)
    E = lambda x: tkf.observe.energy(WEIGHTED.with_points(x), beta, scaled=scaled)
    _, rate = jax.jvp(E, (WEIGHTED.x,), (v,))
    dissipation = jnp.sum(WEIGHTED.w * jnp.sum(v**2, axis=1))
    assert rate == pytest.approx(float(dissipation), rel=1e-12)


@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_energy_balance_along_usa(beta):
    """E(t) - E(0) = ∫ Σ w|v|² dt along a run, to the solver's accuracy."""
    run = tkf.evolve(tkf.usa(beta), WEIGHTED, t=2.0, save=401, rtol=1e-10)
    v = jax.vmap(lambda mu: tkf.velocity(tkf.usa(beta), mu))(run.states)
    power = np.einsum("tn,tnd->t", run.states.w, v**2)
    gained = simpson(power, x=np.asarray(run.times))
    E = tkf.observe.energy(run, beta)
    assert float(E[-1] - E[0]) == pytest.approx(gained, rel=1e-8)
    assert gained > 0.01


@pytest.mark.parametrize("beta", [0.5, 9.0, 40.0])
def test_energy_never_falls_along_sa(beta):
    run = tkf.evolve(tkf.sa(beta), WEIGHTED, t=30.0, save=200, rtol=1e-9)
    E = np.asarray(tkf.observe.energy(run, beta, scaled=True))
    assert np.all(np.diff(E) > -1e-9 * E[:-1])
    assert E[-1] > 1.2 * E[0]


@pytest.mark.parametrize(
    "flow",
    [
        pytest.param(tkf.sa(9.0), id="sa", marks=pytest.mark.slow),
        pytest.param(tkf.usa(3.0), id="usa"),
        pytest.param(tkf.kuramoto(2.0), id="kuramoto"),
    ],
)
def test_the_sphere_is_kept(flow):
    run = tkf.evolve(flow, tkf.Tokens.gaussian(n=40, d=5, seed=1), t=5.0, save=50, rtol=1e-5)
    assert np.max(abs(np.linalg.norm(run.x, axis=-1) - 1)) < 1e-12
    assert np.max(abs(np.linalg.norm(run.at(3.3).x, axis=-1) - 1)) < 1e-12


@pytest.mark.parametrize("flow", [tkf.sa(9.0), tkf.usa(2.0)], ids=["sa", "usa"])
def test_rotations_commute_with_the_flow(flow):
    """The step control sees tokens, not coordinates, so that even the steps agree."""
    R = naive.orthogonal(3, rng)
    run, turned = (tkf.evolve(flow, mu, t=4.0, save=5) for mu in (WEIGHTED, WEIGHTED.with_points(WEIGHTED.x @ R.T)))
    assert int(run.steps) == int(turned.steps)
    assert np.max(abs(turned.x - run.x @ R.T)) < 1e-10


@pytest.mark.parametrize("flow", [tkf.sa(9.0), tkf.usa(2.0)], ids=["sa", "usa"])
def test_permutations_commute_with_the_flow(flow):
    order = rng.permutation(30)
    shuffled = tkf.Tokens(WEIGHTED.x[order], WEIGHTED.w[order])
    run, other = (tkf.evolve(flow, mu, t=4.0, save=5) for mu in (WEIGHTED, shuffled))
    assert np.max(abs(other.x - run.x[:, order])) < 1e-10


def test_a_heavy_token_is_several_tokens_in_one_place():
    x = naive.unit(6, 3, rng)
    copies = np.repeat(x, [3, 1, 1, 2, 1, 2], axis=0)
    one = tkf.evolve(tkf.sa(5.0), tkf.Tokens(x, np.array([3, 1, 1, 2, 1, 2]) / 10), t=3.0, save=2, rtol=1e-10)
    many = tkf.evolve(tkf.sa(5.0), tkf.Tokens(copies), t=3.0, save=2, rtol=1e-10)
    assert np.max(abs(np.repeat(one.final.x, [3, 1, 1, 2, 1, 2], axis=0) - many.final.x)) < 1e-8


def test_usa_in_both_clocks_draws_the_same_curves():
    beta, t = 4.0, 3.0
    fast = tkf.evolve(tkf.usa(beta), MU, t * np.exp(-beta), save=4, rtol=1e-10)
    slow = tkf.evolve(tkf.usa(beta, scaled=True), MU, t, save=4, rtol=1e-10)
    assert np.max(abs(fast.x - slow.x)) < 1e-8


def test_usa_on_the_circle_is_the_angle_form():
    """θ̇_i = -Σ_j w_j e^{β cos(θ_i-θ_j)} sin(θ_i-θ_j)  [rigollet2025, (4)]; and SA its quotient."""
    angle, beta = rng.uniform(0, 2 * np.pi, 20), 3.0
    gap = angle[:, None] - angle
    mu = tkf.Tokens(np.stack([np.cos(angle), np.sin(angle)], 1))
    tangent = np.stack([-np.sin(angle), np.cos(angle)], 1)
    kernel = np.exp(beta * np.cos(gap))
    usa = np.sum(tkf.velocity(tkf.usa(beta), mu) * tangent, axis=1)
    assert np.allclose(usa, -np.mean(kernel * np.sin(gap), axis=1), atol=1e-13)
    sa = np.sum(tkf.velocity(tkf.sa(beta), mu) * tangent, axis=1)
    assert np.allclose(sa, -np.mean(kernel * np.sin(gap), axis=1) / np.mean(kernel, axis=1), atol=1e-13)


def test_a_constant_radius_drifts_without_harm():
    """The radial direction is neutral: scaling a state scales the velocity, so that directions never notice."""
    flow, sums = tkf.sa(9.0), tkf.Dense()
    v = flow.velocity(jnp.asarray(0.0), MU, MU.x, sums)
    scaled = flow.velocity(jnp.asarray(0.0), MU.with_points(1.7 * MU.x), 1.7 * MU.x, sums)
    assert np.max(abs(scaled - 1.7 * v)) < 1e-14
