"""The first answer of a process: `python -m benchmarks.cold cold CONTENDER`, each in a process of its own, which imports what it
needs and solves SA for 16 tokens once."""

import json
import os
import sys
import tempfile
import time

BEGAN = time.perf_counter()
N, D, BETA, T, SAVES, RTOL = 16, 3, 4.0, 5.0, 100, 1e-6
CONTENDERS = ("tokenfield, empty cache", "tokenfield, warm cache", "diffrax", "scipy")


def start():
    """Tokens on the sphere, the same for all."""
    import numpy as np

    x = np.random.default_rng(0).normal(size=(N, D))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def tokenfield():
    x = start()
    import tokenfield as tkf

    flow, mu0, evolve = tkf.sa(BETA), tkf.Tokens(x), tkf.evolve
    imported = time.perf_counter()
    run = evolve(flow, mu0, T, save=SAVES)
    return imported, run.x[-1]


def diffrax():
    """As its documentation has it: the equation, Tsit5, the PID control."""
    os.environ["JAX_ENABLE_X64"] = "1"
    x = start()
    import diffrax as dfx
    import jax
    import jax.numpy as jnp

    def velocity(t, y, beta):
        u = y / jnp.linalg.norm(y, axis=1, keepdims=True)
        a = jax.nn.softmax(beta * u @ u.T, axis=1) @ u
        return a - jnp.sum(a * u, axis=1, keepdims=True) * u

    imported = time.perf_counter()
    solution = dfx.diffeqsolve(
        dfx.ODETerm(velocity),
        dfx.Tsit5(),
        0.0,
        T,
        None,
        jnp.asarray(x),
        args=BETA,
        saveat=dfx.SaveAt(ts=jnp.linspace(0, T, SAVES)),
        stepsize_controller=dfx.PIDController(rtol=RTOL, atol=RTOL / 1000),
    )
    return imported, solution.ys[-1]


def scipy():
    import numpy as np
    from scipy.integrate import solve_ivp

    x = start()

    def velocity(t, y):
        u = y.reshape(N, D)
        u = u / np.linalg.norm(u, axis=1, keepdims=True)
        k = np.exp(BETA * (u @ u.T - 1))
        a = k @ u / k.sum(axis=1, keepdims=True)
        return (a - np.sum(a * u, axis=1, keepdims=True) * u).ravel()

    imported = time.perf_counter()
    times = np.linspace(0, T, SAVES)
    solution = solve_ivp(velocity, (0, T), x.ravel(), rtol=RTOL, atol=RTOL / 1000, t_eval=times)
    return imported, solution.y[:, -1].reshape(N, D)


def main(contender: str) -> None:
    library, _, cache = contender.partition(", ")
    if cache:
        warm = os.path.join(tempfile.gettempdir(), "tokenfield-benchmark-cache")
        os.environ["TOKENFIELD_CACHE"] = tempfile.mkdtemp() if cache == "empty cache" else warm
    imported, value = {"tokenfield": tokenfield, "diffrax": diffrax, "scipy": scipy}[library]()
    import numpy as np

    value = np.asarray(value)
    ended = time.perf_counter()
    value = value / np.linalg.norm(value, axis=1, keepdims=True)
    found = {"import": imported - BEGAN, "first answer": ended - imported, "both": ended - BEGAN}
    check = float(np.sum(value * np.arange(N * D).reshape(N, D)))
    print(json.dumps({name: {"seconds": seconds, "check": check} for name, seconds in found.items()}))


if __name__ == "__main__":
    main(sys.argv[2])
