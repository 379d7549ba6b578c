"""Every option of `evolve` is used or refused: each kind of motion declares those that it takes."""

import dataclasses

import diffrax as dfx
import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
import pytest

import tokenfield as tkf
from tests import fast_first
from tokenfield.errors import InputError
from tokenfield.evolution.motions import motion_for
from tokenfield.evolution.task import OPTIONS, Options, Task, read

MEASURES = {
    "tokens": (tkf.sa(2.0), tkf.Tokens.uniform_sphere(6, 3, seed=0)),
    "noisy tokens": (tkf.sa(2.0, kappa=4.0), tkf.Tokens.uniform_sphere(6, 3, seed=0)),
    "equiangular": (tkf.sa(2.0), tkf.Equiangular(0.1, 6)),
    "gaussian": (tkf.Flow(tkf.Softmax(0.5)), tkf.Gaussian([0.0, 0.0], np.eye(2))),
    "density": (tkf.usa(1.0, kappa=1.0), tkf.CircleDensity.wave(0.1, degree=16)),
}
NOTHING = {field.name: None for field in dataclasses.fields(Options)} | {"save": 2, "max_steps": 100}
GIVEN = {"summation": "dense", "devices": 1, "coalesce": 1e-4, "step": 0.05, "seed": 3, "refine": False}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("kind", MEASURES)
def test_what_a_motion_does_not_take_is_refused(kind, name):
    flow, mu0 = MEASURES[kind]
    if name in motion_for(flow, type(mu0)).options:
        task = read(flow, mu0, 0.1, Options(**{**NOTHING, name: GIVEN[name]}))
        assert isinstance(task, Task), "it is taken; what it does is tested where it does it"
    else:
        with pytest.raises(InputError, match=rf"Argument `{name}` .*leave it out"):
            tkf.evolve(flow, mu0, 0.1, save=2, **{name: GIVEN[name]})


def test_each_option_is_somebodys():
    declared = [motion_for(flow, type(mu0)).options for flow, mu0 in MEASURES.values()]
    assert set().union(*declared) == set(OPTIONS) == set(GIVEN)


@pytest.mark.parametrize("kind", MEASURES)
def test_typing_errors_do_not_pass(kind):
    flow, mu0 = MEASURES[kind]
    with pytest.raises(InputError):
        tkf.evolve(flow, mu0, 0.1, summation="dnese")
    with pytest.raises(InputError, match="solver"):
        tkf.evolve(flow, mu0, 0.1, solver="tsitt5")


@pytest.mark.parametrize(
    ("kind", "both", "why"),
    [
        ("tokens", {"clock": "log", "save": [0.05, 0.1]}, "`save` is an array of times"),
        ("tokens", {"clock": "linear", "save": "log"}, "`save` asks for equal ratios"),
        ("noisy tokens", {"step": 0.05, "atol": 1e-4}, "`atol` is for steps that adapt"),
    ],
)
def test_two_options_of_which_one_would_be_ignored_are_refused(kind, both, why):
    with pytest.raises(InputError, match=f"{why}.*Leave one of them out"):
        tkf.evolve(*MEASURES[kind], 0.1, **both)


def test_an_impossible_span_is_refused_in_an_ensemble_too():
    starts = [tkf.Tokens.uniform_sphere(6, 3, seed=seed) for seed in range(2)]
    with pytest.raises(InputError, match="'span' does not serve here: it needs fewer tokens"):
        tkf.evolve(tkf.sa(2.0), starts, 0.1, summation="span")
    many = [tkf.Tokens.uniform_sphere(4, 9, seed=seed) for seed in range(2)]
    with pytest.raises(InputError, match="until"):
        tkf.evolve(tkf.sa(2.0), many, 0.1, summation="span", until=lambda t, mu: mu.x[0, 0] > 0.9)
    runs = tkf.evolve(tkf.sa(2.0), many, 0.1, save=2, summation="span", until=tkf.collapsed)
    alone = tkf.evolve(tkf.sa(2.0), many[1], 0.1, save=2, summation="dense")
    assert runs.provenance.summation == "span" and np.max(abs(runs.x[1] - alone.x)) < 1e-12


def test_a_stop_condition_sees_the_axes_that_tokens_came_in():
    """In coordinates of the span too: the run stops where the first coordinate says so."""
    mu0 = tkf.Tokens.uniform_sphere(4, 9, seed=2)
    low = float(mu0.x[0, 0])
    until = lambda t, mu: abs(mu.x[0, 0] - low) > 0.1
    ours, dense = (tkf.evolve(tkf.sa(2.0), mu0, 50.0, until=until, summation=s) for s in ("span", "dense"))
    assert ours.status is dense.status is tkf.Status.STOPPED
    assert abs(float(ours.reached) - float(dense.reached)) < 1e-6
    seen = []
    tkf.evolve(tkf.sa(2.0), mu0, 1.0, save=3, summation="span", watch=lambda t, mu: seen.append(mu.x))
    assert np.max(abs(np.asarray(seen[0]) - np.asarray(mu0.x))) < 1e-14


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"watch": print}, "sees values"),
        ({"progress": True}, "no progress to show"),
        ({"coalesce": 1e-4}, "under jit"),
    ],
)
def test_what_a_traced_run_cannot_have_is_refused(how, why):
    with pytest.raises(InputError, match=why):
        jax.jit(lambda b: tkf.evolve(tkf.sa(b), MEASURES["tokens"][1], 0.1, **how).x)(1.0)


class Loud(tkf.Softmax):
    """Softmax attention of a user's own, which says nothing about telling tokens apart."""

    @property
    def mean_field(self):
        return False


def test_own_attention_that_tells_tokens_apart_does_not_coalesce():
    mu0 = MEASURES["tokens"][1]
    with pytest.raises(InputError, match="Loud attention, which tells them apart"):
        tkf.evolve(tkf.Flow(Loud(2.0), tkf.PostLN()), mu0, 1.0, coalesce=1e-4)
    for attention in (tkf.Hardmax(), tkf.Krause(np.full((6, 6), 1 / 6)), tkf.Causal(tkf.Softmax())):
        assert not attention.mean_field
    twins = tkf.Tokens([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])  # a token of hardmax sees its twin, but not itself
    assert jnp.allclose(tkf.Hardmax()(twins)[0], jnp.array([1.0, 0.0]))


def test_one_beta_of_a_flow():
    """β' = β·Q·K wherever a flow's β is asked for."""
    flow = tkf.usa(1.0, Q=2.0, K=3.0)
    assert float(flow.coupling().beta) == 6.0
    mu0 = tkf.Tokens.uniform_sphere(8, 3, seed=1)
    weighted = tkf.Flow(tkf.Unnormalized(1.0, Q=2.0, K=3.0), tkf.PostLN(), reweighting=tkf.FisherRao(0.7))
    plain = tkf.Flow(tkf.Unnormalized(6.0), tkf.PostLN(), reweighting=tkf.FisherRao(0.7))
    ours, same = (tkf.evolve(one, mu0, 0.01, save=2, rtol=1e-9).final for one in (weighted, plain))
    assert np.max(abs(ours.w - same.w)) < 1e-12 and np.max(abs(ours.w - mu0.w)) > 1e-3
    run = tkf.evolve(tkf.sa(2.0, Q=2.0), mu0, 1.0, save=2)
    assert "energy" in str(run), "energies know Q = 2.0 too"
    with pytest.raises(InputError, match=r"`Q` is a matrix of shape \(3, 3\)"):
        tkf.velocity(tkf.Flow(tkf.Unnormalized(Q=np.eye(3)), tkf.PostLN(), reweighting=tkf.FisherRao()), mu0)


SOLVERS = {
    "named": "kvaerno5",
    "given": dfx.Kvaerno5(),
    "another": dfx.Kvaerno3(),
    "euler": dfx.HalfSolver(dfx.Euler()),
    "newton": dfx.Kvaerno5(root_finder=optx.Newton(rtol=1e-10, atol=1e-10)),
    "newton without tolerances": dfx.Kvaerno5(root_finder=dfx.with_stepsize_controller_tols(optx.Newton)()),
    "explicit": dfx.Dopri8(),
}


@pytest.mark.parametrize("name", fast_first(SOLVERS, "given", "euler"))
def test_any_adaptive_solver_of_diffrax(name):
    """Alone and traced, with and without a root finder of its own, to the tolerance."""
    flow, mu0 = MEASURES["tokens"]
    exact = tkf.evolve(flow, mu0, 1.0, save=1, rtol=1e-11).final.x
    rtol = 1e-3 if name == "euler" else 1e-6
    run = tkf.evolve(flow, mu0, 1.0, save=1, solver=SOLVERS[name], rtol=rtol)
    assert run.status is tkf.Status.COMPLETED and np.max(abs(run.final.x - exact)) < 20 * rtol
    if name in ("given", "named"):
        assert int(run.steps) < 40, "no step is rejected for want of a root"
    traced = jax.jit(lambda b: tkf.evolve(tkf.sa(b), mu0, 1.0, save=1, solver=SOLVERS[name], rtol=rtol).final.x)(2.0)
    assert np.max(abs(traced - exact)) < 20 * rtol


def test_solvers_of_other_equations_are_refused():
    flow, mu0 = MEASURES["tokens"]
    for solver in (dfx.KenCarp4(), dfx.SPaRK(), dfx.HalfSolver(dfx.ImplicitEuler())):
        with pytest.raises(InputError, match="does not serve here"):
            tkf.evolve(flow, mu0, 1.0, solver=solver)


def test_a_traced_interval_that_runs_backward_moves_nothing():
    """Values are known only when the program runs: it holds the start and says so, without an error from inside JAX."""
    mu0 = MEASURES["tokens"][1]
    run = lambda a, b: (lambda r: (r.x, r.code, r.reached))(tkf.evolve(tkf.sa(2.0), mu0, t=(a, b), save=3))
    for a, b in [(1.0, 0.0), (1.0, 1.0), (np.nan, 1.0), (0.0, np.nan), (0.0, -np.inf)]:
        x, code, reached = jax.jit(run)(a, b)
        assert tkf.Status(int(code)) is tkf.Status.BACKWARD and not tkf.Status.BACKWARD.ok
        assert np.max(abs(x - mu0.x)) < 1e-15 and np.isfinite(reached), "it is held, and only normalized once more"
    x, code, _ = jax.jit(run)(0.0, 0.5)
    assert int(code) == tkf.Status.COMPLETED and np.max(abs(x - tkf.evolve(tkf.sa(2.0), mu0, t=0.5, save=3).x)) < 1e-10


def test_traced_save_times_are_brought_into_the_interval():
    """And into order: the times that a run returns are those of its states."""
    mu0 = MEASURES["tokens"][1]
    run = lambda ts: (lambda r: (r.times, r.x))(tkf.evolve(tkf.sa(2.0), mu0, t=1.0, save=ts))
    times, x = jax.jit(run)(jnp.array([0.5, -1.0, 3.0]))
    assert times.tolist() == [0.0, 0.5, 1.0]
    assert np.max(abs(x - tkf.evolve(tkf.sa(2.0), mu0, t=1.0, save=3).x)) < 1e-10
