"""A sample of the phase diagram of self-attention; one contender in its own process: `python -m benchmarks.phase phase CONTENDER`.

SA from n random tokens on the sphere; the statistic is the share of pairs with an inner product beyond 0.999, at 200 times,
averaged over starts. Times are CPU seconds on one core per member, statistic included. The slower peers move fewer members."""

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import SMALL, times_only

N, T, CLOSE = 32, 30.0, 0.999
BETAS = np.linspace(0.1, 9.0, 90)[[0, 11, 22, 33, 44, 55, 66, 77, 89]]
TIMES = np.linspace(0, T, 200)
STARTS = {8: 4, 1024: 4} if SMALL else {2: 256, 8: 256, 128: 64, 1024: 32}
"""Random starts a β, by dimension."""
FEW = {2: 32, 8: 32, 128: 16, 1024: 4}
"""How many of them torchdiffeq moves; SciPy moves the first."""
DEMANDS = {8: 1.0, 128: 3.0, 1024: 25.0}
"""How many times the time of `tokenfield_loose` an Euler loop in torch is to take, by dimension."""
COLLAPSED = 0.022
"""Tokens so near to their mean are all beyond the bound, 2 · 0.022² < 1 - 0.999, and stay there: the share stays 1."""
EULER = 0.1
OURS, LOOSE, TIGHT = 3e-6, 1e-3, 1e-11
"""The tolerance of `tokenfield`, of `tokenfield_loose`, and of the reference."""
PEERS = {"torchdiffeq": 1e-7, "scipy": 2e-7, "torchdiffeq_loose": 5e-5, "scipy_loose": 1.3e-4}
"""The rtol (atol is a thousandth) with which peers err as `tokenfield` does, and as `tokenfield_loose` does, or a little more, in
R^8. There, of 256 starts (SciPy: 64): 1.0e-7 beside 1.5e-7 and 1.2e-7, and 7.8e-5 beside 1.2e-4 and 7.8e-5."""
CONTENDERS = ("tokenfield", "tokenfield_loose", "torch_euler", "torch_euler_float32", *PEERS)
LIBRARIES = {"torch": "torch", "torchdiffeq": "torchdiffeq", "scipy": "scipy.integrate"}
TOGETHER = 8
"""How many starts share the steps of the reference."""
BATCHES = {2: 128, 8: 128, 128: 64, 1024: 8}
"""How many members torch moves side by side, by dimension; more do not fit into caches, or 200 states of all into memory."""


def starts(d: int) -> np.ndarray:
    x = np.random.default_rng(d).normal(size=(STARTS[d], N, d))
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def cpu() -> float:
    spent = os.times()
    return spent.user + spent.system


def tokenfield(d: int, rtol: float, dtype: type = np.float64) -> tuple[np.ndarray, str]:
    """Every β from every start, in one call; a member ends where its tokens are within a radius of their mean."""
    import jax

    import tokenfield as tkf

    batch = jax.vmap(tkf.Tokens)(starts(d).astype(dtype))
    flows = [tkf.sa(β) for β in BETAS]
    until = tkf.Collapsed(COLLAPSED)
    runs = tkf.evolve(flows, batch, T, save=TIMES, rtol=rtol, observe="fraction_close", until=until, progress=False)
    note = f"{runs.provenance.summation}, {np.dtype(dtype).name}, rtol {runs.provenance.rtol:.2g}, {np.mean(runs.steps):.0f} steps"
    return np.asarray(runs.observed["fraction_close"]), note


def torch_euler(d: int, dtype: str = "float64") -> tuple[np.ndarray, str]:
    """Steps of 0.1, each followed by normalization; the statistic after the step nearest to its time."""
    import torch

    steps = np.rint(TIMES / EULER).astype(int)
    batches = torch.from_numpy(starts(d)).to(getattr(torch, dtype)).split(BATCHES[d])
    shares = np.empty((len(BETAS), len(starts(d)), int(T / EULER) + 1))
    for i, β in enumerate(BETAS.tolist()):
        done = 0
        for x in batches:
            for k in range(shares.shape[-1]):
                gram = x @ x.mT
                if k in steps:
                    shares[i, done : done + len(x), k] = _share(gram)
                x = x + EULER * torch.softmax(β * gram, dim=-1) @ x
                x = x / x.norm(dim=-1, keepdim=True)
            done += len(x)
    return shares[..., steps], f"steps of {EULER}, {dtype}, {BATCHES[d]} side by side"


def torchdiffeq(d: int, rtol: float) -> tuple[np.ndarray, str]:
    """dopri5 for many members at once, which share their steps."""
    import torch
    from torchdiffeq import odeint

    times, batches = torch.from_numpy(TIMES), torch.from_numpy(starts(d)[: FEW[d]]).split(BATCHES[d])
    asked = 0

    def rate(β, x):
        nonlocal asked
        asked += len(x)
        a = torch.softmax(β * (x @ x.mT), dim=-1) @ x
        return a - (a * x).sum(-1, keepdim=True) * x

    shares = []
    for β in BETAS.tolist():
        for x in batches:
            states = odeint(lambda t, x, β=β: rate(β, x), x, times, rtol=rtol, atol=1e-3 * rtol, method="dopri5")
            shares.append(np.stack([_share(y @ y.mT) for y in states], axis=-1))
    evaluations = asked / (len(BETAS) * sum(map(len, batches)))
    note = f"dopri5, rtol {rtol:g}, {evaluations:.0f} evaluations, {min(FEW[d], BATCHES[d])} side by side"
    return np.concatenate(shares).reshape(len(BETAS), -1, len(TIMES)), note


def scipy(d: int, rtol: float) -> tuple[np.ndarray, str]:
    """RK45, the first start of every β only."""
    from scipy.integrate import solve_ivp

    x = starts(d)[0]

    def rate(β, y):
        x = y.reshape(N, d)
        kernel = np.exp(β * (x @ x.T - 1))
        a = kernel @ x / kernel.sum(axis=1, keepdims=True)
        return (a - np.einsum("nd,nd->n", a, x)[:, None] * x).ravel()

    shares, evaluations = [], []
    for β in BETAS:
        solved = solve_ivp(lambda t, y, β=β: rate(β, y), (0, T), x.ravel(), t_eval=TIMES, rtol=rtol, atol=1e-3 * rtol)
        states = solved.y.T.reshape(-1, N, d)
        shares.append([[_share(y @ y.T) for y in states]])
        evaluations.append(solved.nfev)
    return np.asarray(shares), f"RK45, rtol {rtol:g}, {np.mean(evaluations):.0f} evaluations, {len(BETAS)} members"


def exact(d: int) -> np.ndarray:
    """The shares by SciPy's DOP853 at a tight tolerance: another method than every contender's, and no code of tokenfield's."""
    from scipy.integrate import solve_ivp

    shares = np.empty((len(BETAS), STARTS[d], len(TIMES)))
    for i, β in enumerate(BETAS):
        for first in range(0, STARTS[d], TOGETHER):
            x = starts(d)[first : first + TOGETHER]

            def rate(t, y, β=β, shape=x.shape):
                x = y.reshape(shape)
                kernel = np.exp(β * (x @ x.swapaxes(1, 2) - 1))
                a = kernel @ x / kernel.sum(axis=2, keepdims=True)
                return (a - np.sum(a * x, axis=2, keepdims=True) * x).ravel()

            solved = solve_ivp(rate, (0, T), x.ravel(), "DOP853", TIMES, rtol=TIGHT, atol=1e-2 * TIGHT)
            for k, y in enumerate(solved.y.T.reshape(len(TIMES), *x.shape)):
                shares[i, first : first + len(x), k] = _share(y @ y.swapaxes(1, 2))
    return shares


def _share(gram: Any) -> np.ndarray:
    """The share of pairs i ≠ j beyond the bound; counted by its library, divided in float64."""
    return (np.asarray((gram > CLOSE).sum((-2, -1))) - N) / (N * (N - 1))


def call(contender: str) -> Callable[[int], tuple[np.ndarray, str]]:
    """Shares by β, start and time, and a note, of a dimension."""
    if contender in PEERS:
        peer = torchdiffeq if contender.startswith("torchdiffeq") else scipy
        return lambda d: peer(d, PEERS[contender])
    calls = {
        "tokenfield": lambda d: tokenfield(d, OURS),
        "tokenfield_loose": lambda d: tokenfield(d, LOOSE, np.float32),
        "torch_euler": torch_euler,
        "torch_euler_float32": lambda d: torch_euler(d, "float32"),
    }
    return calls[contender]


def reference(d: int) -> Path:
    """The file with the shares at a tight tolerance, in a folder that the report makes."""
    return Path(os.environ["BENCHMARK_PHASE"]) / f"{d}.npy"


def measured(contender: str) -> Iterator[tuple[str, dict]]:
    """Of every dimension: CPU seconds per member, the mean error of the probability, and its largest in the note."""
    for d in STARTS:
        run = call(contender)
        if contender.startswith("tokenfield"):
            run(d)  # which compiles
        else:
            importlib.import_module(LIBRARIES[contender.split("_")[0]])  # which is no part of its time either
        began = cpu()
        shares, note = run(d)
        seconds = (cpu() - began) / (shares.shape[0] * shares.shape[1])
        error = None
        if not times_only():
            wanted = np.load(reference(d))[:, : shares.shape[1]]
            errors = abs(np.mean(shares, axis=1) - np.mean(wanted, axis=1))
            error, note = float(np.mean(errors)), f"{note}; largest error {np.max(errors):.1e}"
        yield f"d = {d}", {"seconds": seconds, "error": error, "note": note}


def main(contender: str) -> None:
    if contender == "reference":
        for d in STARTS:
            np.save(reference(d), exact(d))
        return print("{}")
    print(json.dumps(dict(measured(contender))))


if __name__ == "__main__":
    main(sys.argv[2])
