"""How runs end: where they were asked to, early, or not at all; and what they keep."""

import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield import progress as progress_module
from tokenfield.evolution.drivers import pieces

MU = tkf.Tokens.uniform_sphere(n=12, d=3, seed=0)


def test_save_counts_and_times():
    assert tkf.evolve(tkf.sa(1.0), MU, t=2.0, save=5).times.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert tkf.evolve(tkf.sa(1.0), MU, t=2.0, save=1).times.tolist() == [2.0]
    assert tkf.evolve(tkf.sa(1.0), MU, t=(1.0, 2.0), save=[1.25, 1.5]).times.tolist() == [1.25, 1.5]
    assert np.max(abs(tkf.evolve(tkf.sa(1.0), MU, t=2.0, save=[0.0, 1.0]).x[0] - MU.x)) < 1e-15


def test_until_collapsed_locates_the_time():
    run = tkf.evolve(tkf.sa(1.0), MU, t=1000.0, until=tkf.collapsed, rtol=1e-9)
    assert run.status is tkf.Status.STOPPED and run.status.ok and "stop condition" in run.message
    spread = lambda mu: float(jnp.max(jnp.linalg.norm(mu.x - mu.mean, axis=1)))
    assert spread(run.final) == pytest.approx(1e-3, rel=1e-6)
    finer = tkf.evolve(tkf.sa(1.0), MU, 1000.0, until=tkf.collapsed, rtol=1e-11)
    # an error of 1e-9 in a token is 1e-6 of the spread 1e-3, hence some 1e-6 in time: the spread falls at rate 1
    assert float(run.times[-1]) == pytest.approx(float(finer.times[-1]), abs=5e-6)
    tighter = tkf.evolve(tkf.sa(1.0), MU, t=1000.0, until=tkf.Collapsed(1e-5))
    assert spread(tighter.final) == pytest.approx(1e-5, rel=1e-4)


def test_until_a_function_of_mine():
    run = tkf.evolve(
        tkf.kuramoto(),
        tkf.Tokens([[1.0, 0.0], [0.0, 1.0]]),
        t=50.0,
        until=lambda t, mu: mu.x[0] @ mu.x[1] > 0.5,
        rtol=1e-9,
    )
    # tan(φ/2) falls as e^{-t}: from φ = π/2 to π/3 in t = log √3
    assert float(run.times[-1]) == pytest.approx(np.log(np.sqrt(3)), rel=1e-8)


def test_until_true_at_the_start_moves_nothing():
    run = tkf.evolve(tkf.sa(1.0), MU, t=5.0, until=lambda t, mu: t >= 0)
    assert run.status is tkf.Status.STOPPED and run.times.tolist() == [0.0] and int(run.steps) == 0


def test_max_steps_keeps_the_part_that_was_computed():
    run = tkf.evolve(tkf.sa(9.0), MU, t=50.0, save=101, max_steps=20)
    assert run.status is tkf.Status.MAX_STEPS and not run.status.ok and int(run.steps) == 20
    assert 2 < len(run) < 101 and float(run.times[-1]) < 50
    whole = tkf.evolve(tkf.sa(9.0), MU, t=50.0, save=101)
    assert np.max(abs(run.x[:-1] - whole.x[: len(run) - 1])) < 1e-12
    assert "max_steps" in run.message and run.message in str(run)


def test_blow_up_is_a_result_with_its_time():
    """One token under unnormalized attention in R: ẋ = e^{βx²} x blows up at ½∫_{x₀²}^∞ e^{-βu}/u du = ½E₁(βx₀²)."""
    from scipy.special import exp1

    run = tkf.evolve(tkf.Flow(tkf.Unnormalized(1.0), tkf.Free()), tkf.Tokens([[0.5]]), t=9.0, save=500, rtol=1e-9)
    assert run.status is tkf.Status.BLOW_UP and "blows up" in run.message
    assert float(run.times[-1]) == pytest.approx(0.5 * exp1(0.25), rel=1e-8)
    assert np.all(np.isfinite(run.x)) and len(run) > 20


LINE = tkf.Gaussian([0.0], [[1.0]])  # under softmax Σ̇ = 2Σ²: Σ = 1/(1 - 2t)
BLOWN = {
    "Gaussian": (tkf.Flow(tkf.Softmax()), LINE, 0.5),
    "Gaussian, linear": (tkf.Flow(tkf.Linear()), LINE, 0.5),
    "token": (tkf.Flow(tkf.Linear()), tkf.Tokens([[1.0]]), 0.5),  # ẋ = x³
    "two tokens": (tkf.Flow(tkf.Linear()), tkf.Tokens([[1.0, 0.0], [-1.0, 0.0]]), 0.5),
}


@pytest.mark.parametrize("name", BLOWN)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_run_that_ends_at_its_blow_up_says_so(name, dtype):
    """Ended there exactly, or later: blown up. Ended a little before: completed, with the right state."""
    flow, mu, when = BLOWN[name]
    mu = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), mu)
    for t in (when, 1.5 * when):
        run = tkf.evolve(flow, mu, t=t, save=4)
        assert run.status is tkf.Status.BLOW_UP and run.states.dtype == dtype
        assert all(np.all(np.isfinite(array)) for array in run.states.arrays.values())
        assert abs(float(run.reached) / when - 1) < (1e-5 if dtype == np.float64 else 1e-3)
    early = tkf.evolve(flow, mu, t=0.99 * when, save=4)
    assert early.status is tkf.Status.COMPLETED
    size = early.cov[-1, 0, 0] if "Gaussian" in name else early.x[-1, 0, 0] ** 2
    assert abs(float(size) / 100 - 1) < (1e-3 if dtype == np.float64 else 2e-2)


def test_a_traced_run_that_ends_at_its_blow_up_says_so():
    flow, mu, when = BLOWN["Gaussian"]
    code = jax.jit(lambda t: tkf.evolve(flow, mu, t=t, save=1).code)
    assert [int(code(t)) for t in (0.99 * when, when)] == [tkf.Status.COMPLETED, tkf.Status.BLOW_UP]


@pytest.mark.parametrize("traced", [False, True])
def test_a_covariance_beyond_the_range_of_numbers_is_not_returned(traced):
    """Under ẋ = x the covariance grows like e^{2t} and passes 10³⁰⁸ at t = 354, where its square root is 10¹⁵⁴."""

    class Growing(tkf.Free):
        """ẋ = x, whatever attention says."""

        def gaussian(self, t, mean, L, attention):
            return mean, L

    evolve = lambda t: tkf.evolve(tkf.Flow(tkf.Softmax(), Growing()), LINE, t=t, save=3, rtol=1e-3)
    run = jax.jit(evolve)(500.0) if traced else evolve(500.0)
    assert run.status is tkf.Status.BLOW_UP and np.all(np.isfinite(run.cov))
    assert abs(float(run.reached) / (0.5 * np.log(np.finfo(float).max)) - 1) < 1e-2
    assert evolve(340.0).status is tkf.Status.COMPLETED


def test_passing_the_origin_at_the_end_is_no_blow_up():
    """x(t) = t - 1 + 1e-13: next to nothing at t = 1, and ẋ/x out of all proportion."""

    class Passing(tkf.Free):
        """ẋ = 1."""

        def velocity(self, t, mu, x, gamma):
            return jnp.ones_like(mu.x)

    run = tkf.evolve(tkf.Flow(tkf.Softmax(), Passing()), tkf.Tokens([[-1.0 + 1e-13]]), t=1.0, save=2)
    assert run.status is tkf.Status.COMPLETED


def test_a_field_out_of_range_at_once_is_reported():
    run = tkf.evolve(tkf.Flow(tkf.Unnormalized(1.0), tkf.Free()), tkf.Tokens([[100.0, 0.0]]), t=1.0)
    assert run.status is tkf.Status.BLOW_UP and np.all(np.isfinite(run.x)) and float(run.times[-1]) == 0


def test_tolerance_that_cannot_be_reached_stalls_and_says_so():
    class Jagged(tkf.Free):
        """A field with a jump at every turn: no step is ever accurate."""

        def velocity(self, t, mu, x, gamma):
            return 1.0 + jnp.sign(jnp.sin(1e17 * t))[None, None] * jnp.ones_like(mu.x)

    run = tkf.evolve(tkf.Flow(tkf.Softmax(1.0), Jagged()), tkf.Tokens([[1.0, 2.0]]), t=1.0, rtol=1e-13, max_steps=5000)
    assert not run.status.ok and np.all(np.isfinite(run.x))


def test_ctrl_c_keeps_what_was_computed():
    def press(t, mu):
        if t > 1.0:
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    run = tkf.evolve(tkf.sa(9.0), MU, t=1e6, save=np.append(np.linspace(0, 10, 50), 1e6), watch=press)
    assert run.status is tkf.Status.INTERRUPTED and float(run.times[-1]) < 1e6 and len(run) > 5
    assert signal.getsignal(signal.SIGINT) is before


def test_watch_sees_every_saved_state_in_order():
    seen = []
    run = tkf.evolve(tkf.sa(2.0), MU, t=3.0, save=20, watch=lambda t, mu: seen.append((t, np.asarray(mu.x))))
    assert [t for t, _ in seen] == run.times.tolist()
    assert all(np.array_equal(x, run.x[i]) for i, (_, x) in enumerate(seen))


def test_progress_is_silent_off_a_terminal_and_speaks_when_asked(capfd, monkeypatch):
    monkeypatch.setattr(progress_module, "PATIENCE", 0.0)
    monkeypatch.setattr(pieces, "PIECE_SECONDS", 1e-9)
    tkf.evolve(tkf.sa(2.0), MU, t=3.0)
    assert capfd.readouterr() == ("", "")
    tkf.evolve(tkf.sa(2.0), MU, t=3.0, progress=True)
    out, err = capfd.readouterr()
    assert out == "" and "evolving" in err


def test_huge_and_tiny_tokens_keep_their_size():
    """At β = 0 in R^d the mean grows like e^t, up to the largest numbers."""
    mu = tkf.Tokens.gaussian(6, 5, seed=1)
    run = tkf.evolve(tkf.Flow(tkf.Softmax(0.0)), mu, t=600.0, save=2)
    exact = mu.x + np.expm1(600.0) * mu.mean
    assert run.status is tkf.Status.COMPLETED and np.max(abs(run.final.x / exact - 1)) < 1e-3
    odd = tkf.Tokens([[1e-200, 0.0], [0.0, 1e200]])
    assert odd.directions.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_everything_at_the_origin_is_at_rest():
    run = tkf.evolve(tkf.Flow(tkf.Softmax(1.0)), tkf.Tokens([[0.0, 0.0], [0.0, 0.0]]), t=5.0)
    assert run.status is tkf.Status.COMPLETED and not np.any(run.x)


def test_usa_at_beta_1e4_is_finite():
    mu = tkf.Tokens.uniform_sphere(n=50, d=2, seed=0)
    for flow in (tkf.sa(1e4), tkf.usa(1e4, scaled=True)):
        run = tkf.evolve(flow, mu, t=100.0, save=5)
        assert run.status is tkf.Status.COMPLETED and np.all(np.isfinite(run.x))
        assert np.max(abs(np.linalg.norm(run.x, axis=-1) - 1)) < 1e-12
