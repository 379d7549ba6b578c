"""Few tokens: in their span, and as ensembles; one contender in its own process: `python -m benchmarks.many CASE CONTENDER`."""

import functools
import json
import sys
import time
from collections.abc import Callable

import numpy as np

from benchmarks.harness import SMALL, furthest, times_only, warm
from benchmarks.pairs import tokens

SPAN = {"n": 32, "d": 1024, "beta": 4.0, "t": 5.0}
REPEATS = 200
"""Right-hand sides in one compiled loop, as a run has them: called one by one, half the time would be the call's."""
MEMBERS, N, D, STEP = (200 if SMALL else 2_000), 32, 128, 0.1
CIRCLE_N, CIRCLE_T = 512, 0.5
CONTENDERS = {
    "span": ("span", "dense"),
    "circles": ("circle", "dense"),
    "ensemble": ("tokenfield", "tokenfield_dense", "numpy", "torch"),
}
CHUNKS = (8, 50, MEMBERS)
"""Members side by side; the fastest is each library's own. Fewer stay in cache, more cost fewer calls."""


def span(summation: str) -> dict:
    """One right-hand side of a run, and a whole run."""
    import jax
    import jax.numpy as jnp

    import tokenfield as tkf
    from tokenfield.evolution.coordinates import Span
    from tokenfield.evolution.motions.particles import Particles

    flow, mu = tkf.sa(SPAN["beta"]), tkf.Tokens(tokens(SPAN["n"], SPAN["d"]))
    span = Span(mu.x) if summation == "span" else None
    motion = Particles(flow, mu if span is None else mu.with_points(span.y), tkf.Dense())
    rate = lambda y: motion.rate(jnp.zeros(()), y, None)
    many = jax.jit(lambda y: jax.lax.fori_loop(0, REPEATS, lambda _, y: y + 1e-9 * rate(y), y))
    sides = lambda: jax.block_until_ready(many(motion.first))
    run = lambda: tkf.evolve(flow, mu, SPAN["t"], save=1, summation=summation)
    steps, v = int(run().steps), np.asarray(jax.jit(rate)(motion.first))
    error = furthest(v if span is None else v @ span.basis, _velocity(np.asarray(mu.x)[None], SPAN["beta"])[0])
    sides()
    shape = " × ".join(map(str, motion.first.shape))
    return {
        "right-hand side": {"seconds": warm(sides, least=5) / REPEATS, "error": error, "note": f"{shape} numbers"},
        "evolve(t = 5)": {"seconds": warm(run, least=5, budget=1), "error": None, "note": f"{steps} steps"},
    }


def circles(summation: str) -> dict:
    """A whole ensemble; its programs are compiled by a smaller one first."""
    import tokenfield as tkf

    starts = [tkf.Tokens.uniform_sphere(CIRCLE_N, 2, seed=seed) for seed in range(MEMBERS)]
    run = lambda starts: tkf.evolve([tkf.sa(9.0)], starts, CIRCLE_T, save=2, summation=summation)
    runs = run(starts[:100])
    one = tkf.evolve(tkf.sa(9.0), starts[0], CIRCLE_T, save=2, rtol=1e-11, summation="dense")
    error = furthest(runs.x[0, 0, -1], np.asarray(one.x[-1]))
    began = time.perf_counter()
    run(starts)
    return {"evolve": {"seconds": time.perf_counter() - began, "error": error, "note": runs.provenance.summation}}


def ensemble(library: str) -> dict:
    """One RK4 step of every member: four velocities each."""
    x = tokens(MEMBERS * N, D).reshape(MEMBERS, N, D)
    timed, first = [], None
    libraries = {"tokenfield": _tokenfield, "tokenfield_dense": _tokenfield_dense, "numpy": _numpy, "torch": _torch}
    for name, call in libraries[library](x):
        value = call()
        assert value.dtype == np.float64, (library, value.dtype)
        first = value if first is None else first
        timed.append((warm(call, least=3), name))
    seconds, note = min(timed)
    if library == "tokenfield":
        first = first @ _spans(x)[1]
    error = None if times_only() else furthest(first, _rk4(lambda y: _velocity(y, 1.0), x))
    return {"one RK4 step": {"seconds": seconds, "error": error, "note": note}}


def _velocity(x: np.ndarray, β: float) -> np.ndarray:
    """Batched numpy, in place where it helps; exponents of unit vectors need no shift at small β."""
    r = np.linalg.norm(x, axis=-1, keepdims=True)
    u = x / r
    k = u @ np.swapaxes(u, -1, -2)
    k *= β
    np.exp(k, out=k)
    k /= k.sum(axis=-1, keepdims=True)
    a = k @ u
    a -= np.einsum("bnd,bnd->bn", a, u)[..., None] * u
    a *= r  # as tokenfield has it off the sphere, where the stages of a step are
    return a


def _rk4(velocity: Callable, x):
    k1 = velocity(x)
    k2 = velocity(x + STEP / 2 * k1)
    k3 = velocity(x + STEP / 2 * k2)
    return x + STEP / 6 * (k1 + 2 * k2 + 2 * k3 + velocity(x + STEP * k3))


def _spans(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates in the span of every member's tokens, and its basis: what `evolve` makes once a run."""
    basis, triangle = np.linalg.qr(np.swapaxes(x, 1, 2))
    return np.swapaxes(triangle, 1, 2), np.swapaxes(basis, 1, 2)


def _tokenfield(x: np.ndarray):
    """As `evolve` has it: n < d, so members move in their tokens' span."""
    yield from _tokenfield_dense(_spans(x)[0])


def _tokenfield_dense(x: np.ndarray):
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    import tokenfield as tkf

    flow, dense, t, starts = tkf.sa(1.0), tkf.Dense(), jnp.zeros(()), jnp.asarray(x)
    velocity = lambda x: flow.velocity(t, tkf.Tokens(x), None, dense)
    for chunk in CHUNKS:
        every = eqx.filter_jit(lambda x, chunk=chunk: jax.lax.map(lambda x: _rk4(velocity, x), x, batch_size=chunk))
        yield f"vmap of {chunk}", lambda every=every: np.asarray(jax.block_until_ready(every(starts)))


def _numpy(x: np.ndarray):
    step = lambda part: _rk4(lambda y: _velocity(y, 1.0), part)
    for chunk in CHUNKS:
        parts = np.split(x, len(x) // chunk)
        yield f"{chunk} side by side", lambda parts=parts: np.concatenate([step(part) for part in parts])


def _torch(x: np.ndarray):
    import torch

    attend = torch.nn.functional.scaled_dot_product_attention
    sdpa = lambda u: attend(u[:, None], u[:, None], u[:, None], scale=1.0)[:, 0]
    bmm = lambda u: torch.bmm(torch.softmax(torch.bmm(u, u.mT), dim=-1), u)

    def velocity(attention, x):
        r = x.norm(dim=-1, keepdim=True)
        u = x / r
        a = attention(u)
        return r * (a - (a * u).sum(-1, keepdim=True) * u)

    for chunk in CHUNKS:
        parts = torch.from_numpy(x).split(chunk)
        for name, attention in (("SDPA", sdpa), ("bmm and softmax", bmm)):
            field = functools.partial(velocity, attention)
            step = lambda parts=parts, field=field: torch.cat([_rk4(field, part) for part in parts]).numpy()
            yield f"{name}, {chunk} side by side", step


if __name__ == "__main__":
    case, contender = sys.argv[1:]
    print(json.dumps({"span": span, "circles": circles, "ensemble": ensemble}[case](contender)))
