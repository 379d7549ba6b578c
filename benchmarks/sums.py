"""Velocities on the circle and on S² by one contender, in its own process: prints seconds and errors of every setting.

`python -m benchmarks.sums CASE CONTENDER`. Tokens are uniformly random, numbers float64. What grows like n² and would
take minutes is timed for ROWS query rows against all keys, and the seconds are multiplied by n / ROWS; a note says so.
Fast sums of tokenfield, and the transforms of jax-finufft alone, are timed in one compiled loop of REPEATS, as a run has them:
memory that every call of a program asks for anew is then asked for once.
"""

import json
import math
import os
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.harness import SMALL, furthest, times_only, warm

MODELS, BETAS, TYPICAL = ("sa", "usa"), (1.0, 9.0, 100.0), 9.0
SIZES = (1_000, 10_000) if SMALL else (10_000, 100_000, 1_000_000)
CURVE = (1_000, 3_000, 10_000) if SMALL else (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
ROWS, CHECKED, TOLERANCE, PRECISION = 2_000, 200, 1e-9, 1e-13
REPEATS = 8
CONTENDERS = ("tokenfield", "jax_finufft", "dense", "ducc0", "torch_sdpa", "keops", "numpy")
FURTHEST = {
    "tokenfield": 10**6,
    "jax_finufft": 10**6,
    "ducc0": 10**6,
    "dense": 10**5,
    "keops": 10**5,
    "torch_sdpa": 10**4,
    "numpy": 10**4,
}
FURTHEST_CURVE = FURTHEST | {"dense": 30_000, "keops": 30_000, "torch_sdpa": 30_000}
FULL = 30_000
"""Up to so many tokens every contender evaluates all rows."""


class Sum(NamedTuple):
    """One velocity: where tokens live, the model, β and n."""

    space: str
    model: str
    beta: float
    n: int

    @property
    def key(self) -> str:
        return f"{self.space} {self.model} {self.beta:g} {self.n}"

    @property
    def tokens(self) -> np.ndarray:
        x = np.random.default_rng(0).normal(size=(self.n, 2 if self.space == "circle" else 3))
        return x / np.linalg.norm(x, axis=1, keepdims=True)


def settings(case: str, contender: str) -> list[Sum]:
    """What a contender computes. The time of the plain rivals does not depend on β, so that they have one."""
    if case == "scaling":
        sizes = [n for n in CURVE if n <= FURTHEST_CURVE[contender]]
        return [Sum(space, "sa", TYPICAL, n) for space in ("circle", "sphere") for n in sizes]
    betas = BETAS if contender in ("tokenfield", "jax_finufft", "dense", "ducc0") else (TYPICAL,)
    models = ("sa",) if contender in ("torch_sdpa", "jax_finufft") else MODELS
    sizes = [n for n in SIZES if n <= FURTHEST[contender]]
    return [Sum(case, model, β, n) for model in models for β in betas for n in sizes]


def tangent(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    return a - np.sum(a * x, axis=1, keepdims=True) * x


def direct(s: Sum, x: np.ndarray) -> np.ndarray:
    """The velocities of the first rows by a direct sum, a few rows at a time."""
    few = max(1, 10**7 // s.n)
    return np.concatenate([_rows(s, x[i : min(i + few, CHECKED)], x) for i in range(0, CHECKED, few)])


def _rows(s: Sum, q: np.ndarray, x: np.ndarray) -> np.ndarray:
    kernel = np.exp(s.beta * (q @ x.T - 1))
    return tangent(kernel @ x / (kernel.sum(1, keepdims=True) if s.model == "sa" else s.n), q)


class Timed(NamedTuple):
    """What a contender computes, how long one of them takes is asked of `many`, which computes it `times` times; and a note."""

    call: Callable
    note: str
    many: Callable | None = None
    times: int = 1


def tokenfield(s: Sum, x: np.ndarray, rows: np.ndarray, summation: str | None = None) -> Timed:
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    import tokenfield as tkf

    flow = tkf.sa(s.beta) if s.model == "sa" else tkf.usa(s.beta, scaled=True)
    mu, at = tkf.Tokens(x), None if len(rows) == len(x) else jnp.asarray(rows)
    sums = flow.summation(mu, at, summation or s.space, TOLERANCE)
    velocity = lambda flow, mu, at, sums: flow.velocity(jnp.zeros(()), mu, at, sums)
    compiled = eqx.filter_jit(velocity)
    call = lambda: np.asarray(jax.block_until_ready(compiled(flow, mu, at, sums)))
    if summation == "dense":
        return Timed(call, sums.name)
    along = lambda flow, mu, sums: lambda _, x: x + 1e-9 * velocity(flow, mu.with_points(x), None, sums)
    loop = eqx.filter_jit(lambda flow, mu, sums: jax.lax.fori_loop(0, REPEATS, along(flow, mu, sums), mu.x))
    return Timed(call, sums.name, lambda: jax.block_until_ready(loop(flow, mu, sums)), REPEATS)


def jax_finufft(s: Sum, x: np.ndarray, rows: np.ndarray) -> Timed:
    """The transforms alone, one in and one back (two on S²), with the modes, the precision and the options of tokenfield's sums."""
    import jax
    import jax.numpy as jnp

    from tokenfield.summation import Circle, Sphere
    from tokenfield.summation.transforms import _library, _options

    sums = (Circle if s.space == "circle" else Sphere)(s.beta, TOLERANCE)
    precision = sums.errors(sums.modes, float, TOLERANCE)[0]
    if s.space == "circle":
        places, shape, back = [jnp.asarray(np.arctan2(x[:, 1], x[:, 0]))], (2 * sums.modes + 1,), 1
    else:
        θ, φ = np.arctan2(np.hypot(x[:, 0], x[:, 1]), x[:, 2]), np.arctan2(x[:, 1], x[:, 0])
        places, shape, back = [jnp.asarray(θ), jnp.asarray(φ)], (2 * sums.modes + 1,) * 2, 2
    library, options = _library(), _options(s.n, shape)

    def transforms(_, charges):
        c = library.nufft1(shape, charges, *places, iflag=-1, eps=precision, opts=options)
        c = jnp.broadcast_to(c / s.n, (back, *shape))
        return library.nufft2(c, *places, iflag=1, eps=precision, opts=options)[:1]

    charges = jnp.full((1, s.n), 1 / s.n, complex)
    loop = jax.jit(lambda charges: jax.lax.fori_loop(0, REPEATS, transforms, charges))
    many = lambda: np.asarray(jax.block_until_ready(loop(charges)))
    return Timed(lambda: np.zeros(x.shape), f"{1 + back} transforms, {sums.modes} modes", many, REPEATS)


def dense(s: Sum, x: np.ndarray, rows: np.ndarray) -> Timed:
    return tokenfield(s, x, rows, "dense")


def numpy(s: Sum, x: np.ndarray, rows: np.ndarray) -> Timed:
    def sa():
        kernel = np.exp(s.beta * (rows @ x.T))
        return tangent(kernel @ x / kernel.sum(axis=1, keepdims=True), rows)

    usa = lambda: tangent(np.exp(s.beta * (rows @ x.T - 1)) @ x / s.n, rows)
    return Timed(sa if s.model == "sa" else usa, "textbook")


def torch_sdpa(s: Sum, x: np.ndarray, rows: np.ndarray) -> Timed:
    import torch

    q, k = (torch.from_numpy(part)[None, None] for part in (rows, x))  # four axes, else it stores all n² scores
    attend = torch.nn.functional.scaled_dot_product_attention

    def velocity():
        a = attend(q, k, k, scale=s.beta)
        return (a - (a * q).sum(-1, keepdim=True) * q)[0, 0].numpy()

    return Timed(velocity, f"{torch.get_num_threads()} threads")


def keops(s: Sum, x: np.ndarray, rows: np.ndarray) -> Timed:
    import pykeops
    from pykeops.numpy import LazyTensor

    pykeops.set_verbose(False)

    def velocity():
        q, k = LazyTensor(rows[:, None, :]), LazyTensor(x[None, :, :])
        if s.model == "sa":
            return tangent(((q | k) * s.beta).sumsoftmaxweight(k, axis=1), rows)
        return tangent(((((q | k) - 1) * s.beta).exp() * k).sum(axis=1) / s.n, rows)

    return Timed(velocity, "LazyTensor")


def ducc0(s: Sum, x: np.ndarray, rows: np.ndarray) -> Timed:
    weights = _circle_weights(s.beta) if s.space == "circle" else _sphere_weights(s.beta)
    transforms = _ducc0_circle if s.space == "circle" else _ducc0_sphere
    return Timed(lambda: transforms(s, x, weights), f"{len(weights) - 1} modes, asked for {PRECISION:g}")


def _circle_weights(β: float) -> np.ndarray:
    """e^{-β} I_k(β) as far as it counts."""
    from scipy.special import ive

    weights = ive(np.arange(int(8 * math.sqrt(β) + 60)), β)
    return weights[: 1 + np.max(np.nonzero(weights > PRECISION * weights[0]))]


def _sphere_weights(β: float) -> np.ndarray:
    """Funk–Hecke factors of e^{β(z-1)}, 2π ∫ e^{β(z-1)} P_l(z) dz, as far as they count."""
    from scipy.special import ive

    l = np.arange(int(8 * math.sqrt(β) + 60))
    weights = 4 * math.pi * math.sqrt(math.pi / (2 * β)) * ive(l + 0.5, β)
    return weights[: 1 + np.max(np.nonzero(weights * np.sqrt(2 * l + 1) > PRECISION * weights[0]))]


def _ducc0_circle(s: Sum, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Σ_j e^{β(cos(θ - θ_j) - 1)} as the real part and its derivative over β as the imaginary part of one series."""
    import ducc0

    modes = len(weights) - 1
    k, θ = np.arange(-modes, modes + 1), np.arctan2(x[:, 1], x[:, 0])
    options = {"coord": θ[:, None], "epsilon": PRECISION, "nthreads": os.cpu_count(), "periodicity": 2 * np.pi}
    c = ducc0.nufft.nu2u(
        points=np.ones(s.n, complex), forward=True, out=np.zeros(len(k), complex), fft_order=False, **options
    )
    r = ducc0.nufft.u2nu(grid=c * weights[abs(k)] * (1 - k / s.beta), forward=False, fft_order=False, **options)
    speed = r.imag / (r.real if s.model == "sa" else s.n)
    return speed[:, None] * np.stack([-x[:, 1], x[:, 0]], axis=1)


def _ducc0_sphere(s: Sum, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The sum by a synthesis of spin 0 and its gradient by one of spin 1; USA needs the gradient only."""
    import ducc0

    top = len(weights) - 1
    l = np.concatenate([np.arange(m, top + 1) for m in range(top + 1)])
    s_θ = np.hypot(x[:, 0], x[:, 1])
    θ, φ = np.arctan2(s_θ, x[:, 2]), np.arctan2(x[:, 1], x[:, 0]) % (2 * np.pi)
    options = {"lmax": top, "loc": np.stack([θ, φ], axis=1), "epsilon": PRECISION, "nthreads": os.cpu_count()}
    alm = ducc0.sht.adjoint_synthesis_general(map=np.ones((1, s.n)), spin=0, **options) * weights[l]
    total = ducc0.sht.synthesis_general(alm=alm, spin=0, **options)[0] if s.model == "sa" else s.n
    south, east = ducc0.sht.synthesis_general(alm=alm * np.sqrt(l * (l + 1.0)), spin=1, mode="GRAD_ONLY", **options) / (
        s.beta * total
    )
    cos_φ, sin_φ = x[:, 0] / s_θ, x[:, 1] / s_θ
    return np.stack(
        [south * x[:, 2] * cos_φ - east * sin_φ, south * x[:, 2] * sin_φ + east * cos_φ, -south * s_θ], axis=1
    )


def main(case: str, contender: str) -> None:
    results = {}
    for s in settings(case, contender):
        x = s.tokens
        rows = x[:ROWS] if s.n > FULL and FURTHEST[contender] < 10**6 else x
        timed = globals()[contender](s, x, rows)
        value, error, note = timed.call(), None, timed.note
        assert value.dtype == np.float64, (contender, value.dtype)
        if not times_only() and case != "scaling" and contender != "jax_finufft":
            error = furthest(value[:CHECKED], direct(s, x))
        if len(rows) < s.n:
            note += f", {ROWS:,} of {s.n:,} rows, scaled"
        seconds = warm(timed.many or timed.call) / timed.times * s.n / len(rows)
        results[s.key] = {"seconds": seconds, "error": error, "note": note}
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
