"""Lengths and directions over the whole range of numbers: what is not a number stays that."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield._norms import sizes, unit
from tokenfield.errors import InputError

ROWS = np.array(
    [[3.0, 4.0], [3e300, 4e300], [3e-320, 4e-320], [0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0], [1.0, -np.inf]]
)


@pytest.mark.parametrize("how", [lambda f, x: f(x), lambda f, x: jax.jit(f)(jnp.asarray(x))], ids=["known", "traced"])
def test_what_is_not_a_number_is_not_made_one(how):
    length, direction = np.asarray(how(sizes, ROWS)), np.asarray(how(unit, ROWS))
    assert np.allclose(length[:2], [5.0, 5e300]) and length[3] == 0
    assert np.isnan(length[4]) and np.all(np.isinf(length[5:]))
    assert np.allclose(direction[:2], [0.6, 0.8]) and np.all(direction[3] == 0)
    assert np.all(np.isnan(direction[4:]))


def test_numbers_below_the_normal_range_on_the_host():
    assert np.isclose(float(sizes(ROWS[2])), 5e-320, rtol=1e-3) and np.allclose(unit(ROWS[2]), [0.6, 0.8], rtol=1e-3)


def test_derivatives_at_zero_are_finite():
    assert np.all(np.isfinite(jax.jacfwd(unit)(jnp.zeros(3)))) and np.all(np.isfinite(jax.grad(sizes)(jnp.zeros(3))))


MU = tkf.Tokens.uniform_sphere(10, 3, seed=1)


def test_fields_that_overflow_say_so():
    """e^{720} is a number, e^{720} times e^{720} is not: before, such tokens stood still, or were moved to 0."""
    run = tkf.evolve(tkf.Flow(tkf.Unnormalized(720.0), tkf.PeriLN()), MU, t=1.0, save=3)
    deep = tkf.layers(tkf.Flow(tkf.Unnormalized(800.0), tkf.PostLN()), MU, 5)
    assert run.status is deep.status is tkf.Status.BLOW_UP
    assert np.all(np.isfinite(run.x)) and np.all(np.isfinite(deep.x)) and np.min(np.linalg.norm(deep.x, axis=-1)) > 0.99
    with pytest.raises(InputError, match="range of floating-point numbers"):
        tkf.velocity(tkf.Flow(tkf.Unnormalized(800.0), tkf.NGPT()), MU)


def test_starts_that_are_not_numbers_are_refused_or_told():
    x = np.stack([np.asarray(MU.x)] * 2)
    x[1, 2, 0] = np.nan
    batch = jax.vmap(tkf.Tokens)(jnp.asarray(x))  # where a constructor cannot look at values
    for start in (batch, jax.tree.map(lambda leaf: leaf[1], batch)):
        with pytest.raises(InputError, match="must be finite"):
            tkf.evolve(tkf.sa(1.0), start, t=1.0)
    with pytest.raises(InputError, match="must be finite"):
        tkf.observe.mean_overlap(jax.tree.map(lambda leaf: leaf[1], batch))
    traced = jax.jit(lambda x: tkf.evolve(tkf.sa(1.0), tkf.Tokens(x), t=1.0, save=2))(x[1])
    assert traced.status is tkf.Status.BLOW_UP and int(traced.steps) < 1000
    huge = tkf.evolve(tkf.sa(1.0), tkf.Tokens([[1e308, 1e308], [0.0, 1.0]]), t=1.0, save=2)
    assert huge.status is tkf.Status.COMPLETED and np.allclose(huge.x[0, 0], np.sqrt(0.5))
