"""A second run with another β, start, or time reuses the compiled program."""

import os
import subprocess
import sys
from typing import ClassVar

import jax
import jax.monitoring
import numpy as np
import pytest

import tokenfield as tkf
from tests import fast_first
from tokenfield import _compile
from tokenfield.attention import AbstractKernel
from tokenfield.attention.dot_product import AbstractDotProduct
from tokenfield.flow import _velocity


class Counting(AbstractKernel):
    """Softmax that counts how often Python runs through it, which is how often it is traced."""

    inner: AbstractDotProduct
    traces: ClassVar[int] = 0

    @property
    def V(self):
        return self.inner.V

    def weigh(self, mu, x, values, summation):
        Counting.traces += 1
        return self.inner.weigh(mu, x, values, summation)

    def check(self, d):
        return self.inner.check(d)


@pytest.fixture
def compilations():
    """The names of programs compiled while the test runs, which begins with room for them: none is forgotten on the way."""
    _compile.forget()
    compiled = []

    def listen(event, duration, **details):
        if "backend_compile" in event:
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield compiled
    jax.monitoring.unregister_event_duration_listener(listen)


def test_traces_are_counted_once():
    def go(beta, seed, t, **options):
        flow = tkf.Flow(Counting(tkf.Softmax(beta)), tkf.PostLN())
        return tkf.evolve(flow, tkf.Tokens.uniform_sphere(n=11, d=3, seed=seed), t, save=7, **options)

    go(4.0, 0, 1.0)
    before = Counting.traces
    assert before > 0
    a, b = go(5.0, 1, 2.5), go(6, 2, (1.0, 3.0), rtol=1e-8, max_steps=5000)
    assert Counting.traces == before
    assert not np.allclose(a.final.x, b.final.x)
    go(4.0, 0, 1.0, solver="dopri8")
    assert Counting.traces > before, "another solver is another program: the counter can count"


def test_nothing_at_all_is_compiled_again(compilations):
    def go(beta, seed, t, save=100, **options):
        return tkf.evolve(tkf.sa(beta), tkf.Tokens.uniform_sphere(n=13, d=3, seed=seed), t, save=save, **options)

    go(4.0, 0, 1.0)
    assert 0 < len(compilations) <= 4, "two are ours (random numbers, and the run), two are Diffrax's constants"
    compilations.clear()
    go(5.0, 1, 2.5)
    go(7.0, 5, (0.5, 9.0), rtol=1e-8)
    for save in (1, 50, 77, 200, 500, "log", [0.1, 0.4]):
        run = go(6.0, 2, 3.0, save=save)
    assert compilations == []
    run.at(0.2)
    assert compilations == [], "a run that is solved again is the same program"


def test_stopping_compiles_once(compilations):
    mu0 = tkf.Tokens.uniform_sphere(n=13, d=3, seed=0)
    tkf.evolve(tkf.sa(1.0), mu0, 50.0, until=tkf.collapsed)
    compilations.clear()
    tkf.evolve(tkf.sa(2.0), mu0, 90.0, until=tkf.collapsed, save=30)
    tkf.evolve(tkf.sa(2.0), mu0, 90.0, until=tkf.Collapsed(0.1))
    assert compilations == []


def test_merging_compiles_once_per_capacity(compilations):
    start = lambda seed: tkf.Tokens.uniform_sphere(n=20, d=2, seed=seed)
    tkf.evolve(tkf.sa(4.0), start(0), 1e6, coalesce=1e-4, save="log")
    compilations.clear()
    again = tkf.evolve(tkf.sa(5.0), start(1), 1e8, coalesce=1e-5, save=30)
    assert compilations == [] and again.mergers.left[-1] == 1


def test_the_first_run_of_a_process_compiles_three_programs(tmp_path):
    """In a process of its own, with an empty cache; and with a full one it compiles none of ours."""
    script = """
import jax, jax.monitoring, numpy as np, tokenfield as tkf
compiled, hits = [], []
jax.monitoring.register_event_duration_secs_listener(lambda e, d, **k: compiled.append(e) if "backend_compile" in e else None)
jax.monitoring.register_event_listener(lambda e, **k: hits.append(e) if "cache_hits" in e else None)
x = np.random.default_rng(0).normal(size=(16, 3))
tkf.evolve(tkf.sa(4.0), tkf.Tokens(x), 5.0)
print(len(compiled), len(hits))
"""
    environment = {**os.environ, "TOKENFIELD_CACHE": str(tmp_path)}
    runs = [
        subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    (programs, _), (_, found) = (map(int, run.split()) for run in runs)
    assert programs <= 4 and found >= 1


@pytest.mark.parametrize("adjoint", fast_first(["forward", "reverse"], "forward"))
def test_gradients_compile_once_too(adjoint):
    mu0 = tkf.Tokens.uniform_sphere(n=5, d=3, seed=0)

    def final(beta):
        flow = tkf.Flow(Counting(tkf.Softmax(beta)), tkf.PostLN())
        return tkf.evolve(flow, mu0, 1.0, save=2, adjoint=adjoint).final.x[0, 0]

    derivative = jax.grad(final) if adjoint == "reverse" else lambda b: jax.jvp(final, (b,), (1.0,))
    derivative(2.0)
    before = Counting.traces
    derivative(3.0)
    assert Counting.traces == before


def test_a_crowded_process_forgets_its_own_programs(monkeypatch, tmp_path):
    """Where memory maps run short, tokenfield's programs are forgotten, and compile again when asked for; the user's stay."""
    maps, limit = tmp_path / "maps", tmp_path / "limit"
    limit.write_text("1000")
    monkeypatch.setattr(_compile, "MAPS", maps)
    monkeypatch.setattr(_compile, "LIMIT", limit)
    users = jax.jit(lambda x: 2 * x)
    mu, flow = tkf.Tokens.uniform_sphere(n=3, d=3, seed=0), tkf.sa(1.0)
    ours = _velocity._cached
    for lines, kept in ((500, True), (700, False)):
        users(1.0)
        before = tkf.velocity(flow, mu)
        maps.write_text("map\n" * lines)
        for _ in range(_compile.EVERY):
            _compile.make_room()
        assert (ours._cache_size() > 0) == kept and users._cache_size() == 1
    assert np.array_equal(tkf.velocity(flow, mu), before)
