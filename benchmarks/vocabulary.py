"""One evaluation of every attention, and a deep random Transformer, by one library in its own process: prints medians."""

import json
import sys

import numpy as np

from benchmarks.harness import warm

N, D, BETA, ROUNDS = 2048, 64, 4.0, 15
DEPTH, WIDTH, TOKENS = 100, 512, 256
KINDS = [
    "softmax",
    "causal softmax",
    "unnormalized",
    "l2",
    "sinkhorn (to 1e-9)",
    "sigmoid",
    "linear",
    "relu",
    "hardmax",
    "additive (h = 8)",
]


def start() -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(N, D))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def additive() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(8, D)) / 8, rng.normal(size=(8, D)) / 8, rng.normal(size=8)


def weights() -> list[np.ndarray]:
    rng = np.random.default_rng(2)
    return [rng.normal(size=(DEPTH, WIDTH, WIDTH)) / np.sqrt(WIDTH) for _ in range(3)]


def deep_start() -> np.ndarray:
    x = np.random.default_rng(3).normal(size=(TOKENS, WIDTH))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def with_tokenfield() -> dict:
    import equinox as eqx
    import jax

    import tokenfield as tkf

    W, U, v = additive()
    kinds = dict(
        zip(
            KINDS,
            [
                tkf.Softmax(BETA),
                tkf.Causal(tkf.Softmax(BETA)),
                tkf.Unnormalized(BETA),
                tkf.L2(BETA / 2),
                tkf.Sinkhorn(BETA, tolerance=1e-9),
                tkf.Sigmoid(BETA),
                tkf.Linear(BETA),
                tkf.ReLU(BETA),
                tkf.Hardmax(),
                tkf.Additive(W, U, v),
            ],
            strict=True,
        )
    )
    mu, evaluate = tkf.Tokens(start()), eqx.filter_jit(lambda attention, mu: attention.field(mu, None, tkf.Dense()))
    calls = {name: lambda a=a: np.asarray(jax.block_until_ready(evaluate(a, mu))) for name, a in kinds.items()}
    Q, K, V = (tkf.PerLayer(w) for w in weights())
    flow, first = tkf.sa(np.sqrt(WIDTH), Q=Q, K=K, V=V), tkf.Tokens(deep_start())
    calls["layers"] = lambda: np.asarray(tkf.layers(flow, first, DEPTH, save=1).final.x)
    return calls


def with_numpy() -> dict:
    x, (W, U, v) = start(), additive()
    softmax = lambda s: (k := np.exp(s - s.max(1, keepdims=True))) @ x / k.sum(1, keepdims=True)

    def sinkhorn():
        k = np.exp(BETA * (x @ x.T - 1))
        g, change = np.ones(N), np.inf
        while change > 1e-9:
            new = 1 / (k.T @ (1 / (k @ g)))
            change, g = np.max(abs(new / g - 1)), new
        k = k * g
        return k @ x / k.sum(1, keepdims=True)

    def hardmax():
        s = x @ x.T
        np.fill_diagonal(s, -np.inf)
        return x[s.argmax(1)]

    def squares():
        return -BETA / 2 * (np.sum(x**2, 1)[:, None] + np.sum(x**2, 1) - 2 * x @ x.T)

    calls = [
        lambda: softmax(BETA * x @ x.T),
        lambda: softmax(np.where(np.tri(N, dtype=bool), BETA * x @ x.T, -np.inf)),
        lambda: np.exp(BETA * x @ x.T) @ x / N,
        lambda: softmax(squares()),
        sinkhorn,
        lambda: (1 / (1 + np.exp(-BETA * x @ x.T))) @ x / N,
        lambda: BETA * x @ (x.T @ x) / N,
        lambda: np.maximum(BETA * x @ x.T, 0) @ x / N,
        hardmax,
        lambda: softmax(sum(v[h] * np.tanh((x @ W[h])[:, None] + x @ U[h]) for h in range(8))),
    ]
    return dict(zip(KINDS, calls, strict=True))


def with_torch() -> dict:
    import torch

    x = torch.from_numpy(start())
    W, U, v = (torch.from_numpy(a) for a in additive())
    sdpa = torch.nn.functional.scaled_dot_product_attention
    attend = lambda q, k, v, **options: sdpa(q[None, None], k[None, None], v[None, None], **options)[
        0, 0
    ]  # see sums.py
    softmax = lambda s: torch.softmax(s, 1) @ x

    def sinkhorn():
        k = torch.exp(BETA * (x @ x.T - 1))
        g, change = torch.ones(N, dtype=x.dtype), 1.0
        while change > 1e-9:
            new = 1 / (k.T @ (1 / (k @ g)))
            change, g = float(torch.max(abs(new / g - 1))), new
        k = k * g
        return k @ x / k.sum(1, keepdim=True)

    def hardmax():
        s = x @ x.T
        s.fill_diagonal_(-float("inf"))
        return x[s.argmax(1)]

    calls = [
        lambda: attend(x, x, x, scale=BETA),
        lambda: attend(x, x, x, scale=BETA, is_causal=True),
        lambda: torch.exp(BETA * x @ x.T) @ x / N,
        lambda: softmax(-BETA / 2 * torch.cdist(x, x) ** 2),
        sinkhorn,
        lambda: torch.sigmoid(BETA * x @ x.T) @ x / N,
        lambda: BETA * x @ (x.T @ x) / N,
        lambda: torch.relu(BETA * x @ x.T) @ x / N,
        hardmax,
        lambda: softmax(sum(v[h] * torch.tanh((x @ W[h])[:, None] + x @ U[h]) for h in range(8))),
    ]
    named = {name: lambda call=call: call().numpy() for name, call in zip(KINDS, calls, strict=True)}
    Q, K, V = (torch.from_numpy(w) for w in weights())
    first = torch.from_numpy(deep_start())

    def layers():
        y = first
        for q, k, v in zip(Q, K, V, strict=True):
            a = attend(y @ q.T, y @ k.T, y, scale=WIDTH**0.5) @ v.T
            y = y + a
            y = y / y.norm(dim=1, keepdim=True)
        return y.numpy()

    named["layers"] = layers
    return named


def main(_: str, library: str) -> None:
    calls = {"tokenfield": with_tokenfield, "numpy": with_numpy, "torch": with_torch}[library]()
    results = {}
    for name, call in calls.items():
        value = call()
        results[name] = {
            "seconds": warm(call, least=5 if name == "layers" else ROUNDS),
            "check": float(np.sum(value * np.arange(value.size).reshape(value.shape) % 7)),
        }
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
