"""A second run with another β, start, or time reuses the compiled program."""

import jax
import jax.monitoring
import numpy as np
import pytest

import tokenfield as tkf
from tokenfield import _compile
from tokenfield.attention import AbstractAttention
from tokenfield.attention.base import AbstractDotProduct


class Counting(AbstractAttention):
    """Softmax that counts how often Python runs through it, which is how often it is traced."""

    inner: AbstractDotProduct
    traces = 0

    def weigh(self, mu, x, values, summation):
        Counting.traces += 1
        return self.inner.weigh(mu, x, values, summation)

    def check(self, d):
        return self.inner.check(d)


@pytest.fixture
def compilations():
    """The names of programs compiled while the test runs."""
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
    def go(beta, seed, t):
        run = tkf.evolve(tkf.sa(beta), tkf.Tokens.uniform_sphere(n=13, d=3, seed=seed), t, save=9)
        return tkf.observe.energy(run, beta), tkf.observe.mean_overlap(run)

    go(4.0, 0, 1.0)
    assert compilations, "the first run compiles: the listener hears"
    compilations.clear()
    go(5.0, 1, 2.5)
    go(7.0, 5, (0.5, 9.0))
    assert compilations == []


def test_gradients_compile_once_too():
    mu0 = tkf.Tokens.uniform_sphere(n=5, d=3, seed=0)

    def final(beta):
        flow = tkf.Flow(Counting(tkf.Softmax(beta)), tkf.PostLN())
        return tkf.evolve(flow, mu0, 1.0, save=2).final.x[0, 0]

    jax.grad(final)(2.0)
    before = Counting.traces
    jax.grad(final)(3.0)
    assert Counting.traces == before


def test_a_crowded_process_forgets_its_programs(monkeypatch, tmp_path):
    """Where memory maps run short, programs are forgotten; what is asked next compiles again and is right."""
    maps, limit = tmp_path / "maps", tmp_path / "limit"
    limit.write_text("1000")
    monkeypatch.setattr(_compile, "MAPS", maps)
    monkeypatch.setattr(_compile, "LIMIT", limit)
    double = jax.jit(lambda x: 2 * x)
    for lines, kept in ((500, 1), (700, 0)):
        double(1.0)
        maps.write_text("map\n" * lines)
        for _ in range(_compile.EVERY):
            _compile.make_room()
        assert double._cache_size() == kept
    assert double(1.0) == 2.0
