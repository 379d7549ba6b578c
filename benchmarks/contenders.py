"""One contender of one case, in its own process: prints the median seconds of a warm call, and its error."""

import json
import sys

import numpy as np
from scipy.integrate import solve_ivp

from benchmarks import measures
from benchmarks.harness import furthest, times_only, warm

N, D, BETA, T, RTOL = 1000, 3, 9.0, 10.0, 1e-6


def start() -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(N, D))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


class Numpy:
    """The best plain numpy: shifted exponents, everything in place, no temporaries of size n²."""

    def __init__(self):
        self.scores = np.empty((N, N))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        s = np.matmul(BETA * x, x.T, out=self.scores)
        s -= BETA  # the largest score on the sphere, known beforehand
        np.exp(s, out=s)
        a = s @ x
        a /= s.sum(axis=1, keepdims=True)
        a -= np.sum(a * x, axis=1, keepdims=True) * x
        return a


def reference(x: np.ndarray) -> np.ndarray:
    s = np.exp(BETA * (x @ x.T - 1))
    a = (s @ x) / s.sum(1, keepdims=True)
    return a - np.sum(a * x, axis=1, keepdims=True) * x


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def exact() -> np.ndarray:
    rhs = Numpy()
    solution = solve_ivp(
        lambda t, y: rhs(unit(y.reshape(N, D))).ravel(),
        (0, T),
        start().ravel(),
        method="DOP853",
        rtol=1e-11,
        atol=1e-12,
    )
    return unit(solution.y[:, -1].reshape(N, D))


def velocity_tokenfield():
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    import tokenfield as tkf

    flow, mu, sums = tkf.sa(BETA), tkf.Tokens(start()), tkf.Dense()
    compiled = eqx.filter_jit(lambda flow, mu: flow.velocity(jnp.zeros(()), mu, mu.x, sums))
    return lambda: np.asarray(jax.block_until_ready(compiled(flow, mu))), ""


def velocity_numpy():
    rhs, x = Numpy(), start()
    return lambda: rhs(x), "in place, shifted"


def torch_velocity():
    import torch

    attend = torch.nn.functional.scaled_dot_product_attention

    def velocity(x):
        q = x[None, None]  # with fewer axes it stores all n² scores
        a = attend(q, q, q, scale=BETA)[0, 0]
        return a - (a * x).sum(1, keepdim=True) * x

    return torch, velocity


def velocity_torch_sdpa():
    torch, velocity = torch_velocity()
    x = torch.from_numpy(start())
    return lambda: velocity(x).numpy(), f"{torch.get_num_threads()} threads"


def solve_tokenfield():
    import tokenfield as tkf

    flow, mu = tkf.sa(BETA), tkf.Tokens(start())
    run = lambda: tkf.evolve(flow, mu, T, save=1, rtol=RTOL)
    steps = int(run().steps)
    return lambda: np.asarray(run().final.x), f"tsit5, {steps} steps, error of the worst token controlled"


def solve_scipy_rk45():
    rhs, x = Numpy(), start().ravel()
    solve = lambda: solve_ivp(lambda t, y: rhs(y.reshape(N, D)).ravel(), (0, T), x, method="RK45", rtol=RTOL, atol=1e-9)
    note = f"{solve().nfev} evaluations, numpy in place and shifted"
    return lambda: unit(solve().y[:, -1].reshape(N, D)), note


def solve_torchdiffeq():
    torch, velocity = torch_velocity()
    from torchdiffeq import odeint

    x, times = torch.from_numpy(start()), torch.tensor([0.0, T], dtype=torch.float64)
    solve = lambda: odeint(lambda t, y: velocity(y), x, times, rtol=RTOL, atol=1e-9, method="dopri5")[-1].numpy()
    return lambda: unit(solve()), "dopri5, SDPA"


EXACT = {
    "velocity": lambda: reference(start()),
    "solve": exact,
    "gaussians": measures.gaussians_exact,
    "fokker_planck": measures.fokker_planck_exact,
}


def main(case: str, contender: str) -> None:
    call, note = (globals() | vars(measures))[f"{case}_{contender}"]()
    value = call()
    error = None
    if not times_only():
        error = furthest(value, EXACT[case]())
    seconds = warm(call, least=5, budget=2)
    print(json.dumps({case: {"seconds": seconds, "error": error, "note": note}}))


if __name__ == "__main__":
    main(*sys.argv[1:])
