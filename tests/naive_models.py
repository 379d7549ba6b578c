"""Every model once more in plain numpy, straight from its definition: n × n kernels and the table of s and ṙ."""

import numpy as np
from scipy.linalg import expm


def kernel(kind, x, w, p, seen=None):
    """k_μ(x_i, x_j) w_j as a matrix."""
    n = len(x)
    seen = np.ones((n, n), bool) if seen is None else seen
    if kind == "additive":
        hidden = np.tanh((x @ p["W"].T)[:, None, :] + (x @ p["U"].T)[None, :, :])
        scores = p["beta"] * hidden @ p["v"]
    elif kind == "l2":
        gap = (x @ p["Q"].T)[:, None, :] - (x @ p["K"].T)[None, :, :]
        scores = -p["beta"] * np.sum(gap**2, axis=2)
    else:
        scores = p.get("beta", 1.0) * (x @ p["Q"].T) @ (x @ p["K"].T).T
    if kind in ("softmax", "l2", "additive"):
        k = np.exp(np.where(seen, scores, -np.inf) - scores.max(1, keepdims=True)) * w
        return k / k.sum(1, keepdims=True)
    if kind == "sinkhorn":
        k = np.exp(scores - scores.max())
        f = g = np.ones(n)
        for _ in range(20_000):
            f = 1 / (k @ (g * w))
            new = 1 / (k.T @ (f * w))
            if np.max(abs(new / g - 1)) < 1e-15:
                break
            g = new
        k = k * g * w
        return k / k.sum(1, keepdims=True)
    if kind == "hardmax":
        scores = scores.copy()
        np.fill_diagonal(scores, -np.inf)
        k = (scores == scores.max(1, keepdims=True)) * w
        return k / k.sum(1, keepdims=True)
    function = {
        "unnormalized": np.exp,
        "sigmoid": lambda s: 1 / (1 + np.exp(-s - p["b"])),
        "linear": lambda s: s,
        "relu": lambda s: np.maximum(s, 0),
    }[kind]
    return np.where(seen, function(scores), 0) * w


def mlp(x, p):
    return np.tanh(x @ p["W1"].T + p["b1"]) @ p["W2"].T + p["b2"]


def velocity(norm, x, w, t, heads, seen=None, block=None, tau=0.3, alpha=0.6):
    """ẋ of the tokens; `heads` is a list of (kind, parameters), summed; `block` the parameters of an MLP."""

    def gamma(y):
        return sum(kernel(kind, y, w, p, seen) @ y @ p["V"].T for kind, p in heads)

    if norm == "free":
        return gamma(x) + (0 if block is None else mlp(x, block))
    if norm == "rescaled":
        ((kind, p),) = heads
        moved = x @ expm(t * p["V"]).T
        v = (kernel(kind, moved, w, p, seen) @ x - x) @ p["V"].T
        return v if block is None else mlp(v, block)
    if norm == "trace_norm":
        a, spread = gamma(x) + (0 if block is None else mlp(x, block)), x - w @ x
        return a - np.sum(w @ (spread * a)) / np.sum(w @ spread**2) * x
    r = np.linalg.norm(x, axis=1, keepdims=True)
    θ = x / r
    a = gamma(θ) + (0 if block is None else mlp(θ, block))
    radial, size = np.sum(θ * a, axis=1, keepdims=True), np.linalg.norm(a, axis=1, keepdims=True)
    s, growth = {
        "post_ln": (1, 0),
        "pre_ln": (r, radial),
        "peri_ln": (r * size, radial / size),
        "mix_ln": (1, 0) if t <= tau else (r, radial),
        "ngpt": (size / alpha, 0),
        "sqrt_scaling": (np.sqrt(t + 1), 0),
    }[norm]
    return r * (a - radial * θ) / s + growth * θ
