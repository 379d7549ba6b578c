"""Final states against an independent tight solve, and the order in which errors fall."""

import numpy as np
import pytest
from scipy.linalg import expm

import tokenfield as tkf
from tests import naive

N = 24


def problem(d, matrices, weighted, seed=0):
    rng = np.random.default_rng(seed)
    near = np.repeat(naive.unit(N // 3, d, rng), 3, axis=0)  # neighbours, so that something moves even at β = 81
    x = near + 0.15 * rng.normal(size=(N, d)) / np.sqrt(d)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    w = rng.uniform(0.5, 2.0, N) if weighted else np.ones(N)
    if not matrices:
        return x, w / w.sum(), [np.eye(d)] * 3, {}
    turn = rng.normal(size=(d, d))
    turn = expm(0.3 * (turn - turn.T) / np.linalg.norm(turn - turn.T, 2))  # every vector turns by at most 0.3
    Q = naive.orthogonal(d, rng)
    K, V = Q @ turn, np.eye(d) + 0.5 * rng.normal(size=(d, d)) / np.sqrt(d)
    return x, w / w.sum(), (Q, K, V), dict(Q=Q, K=K, V=V)


@pytest.mark.parametrize("weighted", [False, True], ids=["uniform", "weighted"])
@pytest.mark.parametrize("matrices", [False, True], ids=["identity", "QKV"])
@pytest.mark.parametrize("d", [2, 3, 64])
@pytest.mark.parametrize("model", ["sa", "usa"])
def test_final_state_at_rtol_1e_9(model, d, matrices, weighted):
    x, w, (Q, K, V), given = problem(d, matrices, weighted)
    for beta in (1.0, 9.0, 81.0):
        flow = tkf.sa(beta, **given) if model == "sa" else tkf.usa(beta, **given, scaled=True)
        t = 6.0
        run = tkf.evolve(flow, tkf.Tokens(x, w), t, save=2, rtol=1e-9)
        exact = naive.solve(x, t, w, beta, Q, K, V, softmax=model == "sa")
        assert run.status is tkf.Status.COMPLETED
        moved = np.linalg.norm(exact - x)
        assert moved > 0.01, "the comparison needs something to compare"
        assert np.linalg.norm(run.final.x - exact) < 1e-7 * np.linalg.norm(exact), (beta, moved)


@pytest.mark.parametrize("solver", ["tsit5", "dopri5", "dopri8", pytest.param("kvaerno5", marks=pytest.mark.slow)])
@pytest.mark.parametrize("model", ["sa", "usa"])
def test_error_falls_with_rtol_over_four_decades(model, solver):
    x, w, parameters, _ = problem(3, False, True)
    t = {"sa": 6.0, "usa": 60.0}[model]
    exact = naive.solve(x, t, w, 9.0, *parameters, softmax=model == "sa")
    flow = tkf.sa(9.0) if model == "sa" else tkf.usa(9.0, scaled=True)
    rtols = 10.0 ** -np.arange(5, 10)
    errors = [
        np.linalg.norm(tkf.evolve(flow, tkf.Tokens(x, w), t, save=2, solver=solver, rtol=r).final.x - exact)
        for r in rtols
    ]
    slope = np.polyfit(np.log10(rtols), np.log10(errors), 1)[0]
    assert 0.6 < slope < 1.4, errors
    assert errors[-1] < 1e-3 * errors[0]


def test_saved_states_are_as_accurate_as_the_last():
    x, w, parameters, _ = problem(3, False, False)
    run = tkf.evolve(tkf.sa(9.0), tkf.Tokens(x, w), 8.0, save=41, rtol=1e-9)
    for i in (3, 17, 29):
        exact = naive.solve(x, float(run.times[i]), w, 9.0, *parameters, softmax=True)
        assert np.linalg.norm(run.x[i] - exact) < 1e-7 * np.linalg.norm(exact)


def test_free_flow_against_scipy():
    rng = np.random.default_rng(1)
    x, d = rng.normal(size=(20, 3)), 3
    Q, K, V = rng.normal(size=(2, d)), rng.normal(size=(2, d)), 0.3 * rng.normal(size=(d, d))
    w = np.full(20, 1 / 20)
    run = tkf.evolve(tkf.Flow(tkf.Softmax(1.0, Q=Q, K=K, V=V), tkf.Free()), tkf.Tokens(x), 3.0, rtol=1e-9)
    exact = naive.solve(x, 3.0, w, 1.0, Q, K, V, softmax=True, sphere=False)
    assert np.linalg.norm(run.final.x - exact) < 1e-7 * np.linalg.norm(exact)
    by_a = tkf.evolve(tkf.Flow(tkf.Softmax(1.0, A=K.T @ Q, V=V)), tkf.Tokens(x), 3.0, rtol=1e-9)
    assert np.linalg.norm(by_a.final.x - exact) < 1e-7 * np.linalg.norm(exact)


def test_float32_stays_float32_and_says_so():
    x, w, parameters, _ = problem(3, False, False)
    run = tkf.evolve(tkf.sa(9.0), tkf.Tokens(x.astype(np.float32)), 3.0)
    assert run.x.dtype == np.float32 and "float32" in str(run)
    exact = naive.solve(x, 3.0, w, 9.0, *parameters, softmax=True)
    assert np.linalg.norm(run.final.x - exact) < 1e-3 * np.linalg.norm(exact)
