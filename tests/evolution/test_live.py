"""The live stepper against `evolve`: the same states, whatever frames are asked for, and one program."""

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.errors import InputError
from tokenfield.evolution import live as module
from tokenfield.evolution.live import Late, Live, capacity

MU = tkf.Tokens.uniform_sphere(n=40, d=3, seed=0)


def walked(live, times):
    for t in times:
        live.onward(t)
    return live


def apart(mu, nu):
    return max(
        float(np.abs(np.asarray(a) - np.asarray(b)).max())
        for a, b in zip(mu.arrays.values(), nu.arrays.values(), strict=True)
    )


CASES = {
    "softmax": (tkf.sa(9.0), MU),
    "unnormalized": (tkf.usa(1.0), MU),
    "free": (tkf.Flow(tkf.Softmax(0.5), tkf.Free()), tkf.Tokens.gaussian(n=20, d=2, seed=1)),
    "pre-ln": (tkf.Flow(tkf.L2(2.0), tkf.PreLN()), tkf.Tokens.gaussian(n=20, d=5, seed=1)),
    "sinkhorn": (tkf.Flow(tkf.Sinkhorn(2.0), tkf.PostLN()), MU),
    "hardmax": (tkf.Flow(tkf.Hardmax(), tkf.PostLN()), tkf.Tokens.uniform_sphere(n=6, d=3, seed=2)),
    "causal": (tkf.Flow(tkf.Causal(tkf.Softmax(4.0)), tkf.PostLN()), MU),
    "mix-ln": (tkf.Flow(tkf.Softmax(2.0), tkf.MixLN(0.5)), MU),
    "reweighting": (tkf.Flow(tkf.Unnormalized(1.0), tkf.PostLN(), reweighting=tkf.FisherRao(1.0)), MU),
    "gaussian": (tkf.Flow(tkf.Softmax(A=-1.0), tkf.Free()), tkf.Gaussian([0.1, 0.0], [[1.0, 0.2], [0.2, 0.5]])),
    "equiangular": (tkf.sa(1.0), tkf.Equiangular(rho=0.1, n=16)),
    "circle": (tkf.sa(4.0, kappa=8.0), tkf.CircleDensity.wave(0.1, k=2)),
    "sphere": (tkf.usa(1.0, kappa=20.0), tkf.SphereDensity.wave(0.1, l=2)),
}


@pytest.mark.parametrize("name", CASES)
def test_frames_equal_a_run(name):
    flow, mu = CASES[name]
    times = np.linspace(0, 1.0, 13)[1:]
    live = walked(Live(flow, mu, rtol=1e-8), times)
    run = tkf.evolve(flow, mu, t=1.0, save=2, rtol=1e-8)
    assert live.t == 1.0 and live.status is tkf.Status.RUNNING
    assert apart(live.measure, run.final) < 1e-6


@pytest.mark.parametrize(("n", "d", "sums"), [(2000, 3, "sphere"), (2000, 2, "circle")])
def test_fast_sums_serve_the_largest_beta(n, d, sums):
    mu = tkf.Tokens.uniform_sphere(n=n, d=d, seed=0)
    live = walked(Live(tkf.sa(9.0), mu, widest=tkf.sa(50.0)), (0.1, 0.2))
    assert live.sums.startswith(sums)
    live.change(tkf.sa(40.0))
    live.onward(0.3)
    first = tkf.evolve(tkf.sa(9.0), mu, t=0.2, save=2)
    then = tkf.evolve(tkf.sa(40.0), first.final, t=0.1, save=2)
    assert apart(live.measure, then.final) < 1e-5


def programs(monkeypatch):
    """How often the program of a live run is traced."""
    count, start = [0], module.start

    def counted(p):
        count[0] += 1
        return start(p)

    monkeypatch.setattr(module, "start", counted)
    return count


def test_other_parameters_tokens_and_numbers_are_no_other_program(monkeypatch):
    count = programs(monkeypatch)
    live = walked(Live(tkf.sa(3.0), tkf.Tokens.uniform_sphere(n=45, d=4, seed=0)), (0.1, 0.2))
    traced = count[0]
    assert traced > 0
    live.change(tkf.sa(5.0))
    live.onward(0.3)
    x = np.array(live.measure.x)
    x[3] = x[0]
    live.change(mu=tkf.Tokens(x))
    live.onward(0.4)
    for n in (44, 47, 48):
        live.change(mu=tkf.Tokens.uniform_sphere(n=n, d=4, seed=n))
        assert live.onward(live.t + 0.1).n == n
    assert count[0] == traced and capacity(45) == capacity(48) == 48


def test_weightless_tokens_change_nothing():
    mu = tkf.Tokens.uniform_sphere(n=33, d=3, seed=0)
    assert capacity(33) > 33
    live = walked(Live(tkf.sa(9.0), mu), (0.5, 1.0))
    assert apart(live.measure, tkf.evolve(tkf.sa(9.0), mu, t=1.0, save=2).final) < 1e-5
    assert live.measure.n == 33 and abs(float(np.sum(live.measure.w)) - 1) < 1e-12


def test_what_cannot_go_together_changes_nothing():
    live = walked(Live(tkf.sa(2.0), MU), (0.1,))
    before = np.array(live.measure.x)
    with pytest.raises(InputError, match="Noise"):
        live.change(tkf.Flow(tkf.Softmax(1.0), tkf.Rescaled(), kappa=1.0))
    assert np.array_equal(live.measure.x, before) and float(live.flow.attention.beta) == 2.0
    live.onward(0.2)
    assert live.t == 0.2


def test_noise_is_that_of_a_run_and_has_its_law():
    """On the circle without attention E<x, x_0> = e^{-t/κ}; and frames do not change the path, up to its steps."""
    mu = tkf.Tokens(np.tile([[1.0, 0.0]], (4096, 1)))
    flow = tkf.usa(0.0, V=0.0, kappa=4.0)
    live = walked(Live(flow, mu, seed=3), np.linspace(0, 1, 9)[1:])
    assert abs(float(np.mean(np.asarray(live.measure.x)[:, 0])) - np.exp(-1 / 4)) < 4 * np.sqrt(0.5 / 4096)


def test_a_run_that_blows_up_says_so_and_stays():
    flow = tkf.Flow(tkf.Unnormalized(1.0), tkf.Free())
    live = Live(flow, tkf.Tokens([[1.0], [1.1]]))
    for t in np.linspace(0.1, 3, 30):
        live.onward(t)
    assert live.status is tkf.Status.BLOW_UP and "blows up" in live.message
    assert np.all(np.isfinite(live.measure.x)) and live.t < 3


def test_a_budget_is_kept():
    live = Live(tkf.sa(9.0), MU)
    live.onward(0.01)
    live.onward(1e4, budget=1e-9)
    assert live.t < 1e4
    live.onward(live.t + 1.0, budget=0.0)
    assert live.status is tkf.Status.RUNNING


def test_a_density_is_refined_on_its_way():
    live = Live(tkf.sa(20.0), tkf.CircleDensity.wave(0.3, k=3, degree=24), rtol=1e-6)
    live.onward(3.0)
    assert live.measure.degree > 24 and live.t > 0.3


def test_late_times_are_those_of_a_run_that_coalesces():
    mu = tkf.Tokens.uniform_sphere(n=12, d=3, seed=0)
    late = Late(tkf.usa(6.0, scaled=True), mu)
    for t in np.geomspace(0.1, 1e4, 60):
        late.onward(t)
    run = tkf.evolve(tkf.usa(6.0, scaled=True), mu, t=1e4, save=2, coalesce=1e-5)
    assert abs(late.t - 1e4) < 1e-6 * 1e4 and apart(late.measure, run.final) < 1e-3
    with pytest.raises(InputError):
        late.change(tkf.Flow(tkf.Causal(tkf.Softmax(1.0)), tkf.PostLN()))


@pytest.mark.slow
@pytest.mark.parametrize("n", [500, 2000, 10_000])
def test_a_frame_is_cheaper_than_a_run(n):
    """In the mean over two seconds of play; `evolve` once a frame takes 39, 108 and 190 ms."""
    import time

    live = Live(tkf.sa(9.0), tkf.Tokens.uniform_sphere(n=n, d=3, seed=0), widest=tkf.sa(50.0))
    live.onward(1 / 30)
    began = time.perf_counter()
    walked(live, np.arange(2, 62) / 30)
    assert (time.perf_counter() - began) / 60 < 0.03
