"""A Transformer in plain numpy, pair by pair where that is how its formula reads: what the real one is compared with."""

import math

import numpy as np

erf = np.vectorize(math.erf)
ACTIVATIONS = {
    "gelu": lambda x: x * (1 + erf(x / 2**0.5)) / 2,
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
}
KERNELS = {
    "Softmax": (lambda q, k, β: np.exp(β * q @ k), True),
    "Unnormalized": (lambda q, k, β: np.exp(β * q @ k), False),
    "L2": (lambda q, k, β: np.exp(-β * np.sum((q - k) ** 2)), True),
    "Sigmoid": (lambda q, k, β: 1 / (1 + np.exp(-β * q @ k)), False),
    "Linear": (lambda q, k, β: β * q @ k, False),
    "ReLU": (lambda q, k, β: max(β * q @ k, 0.0), False),
    "Additive": (lambda q, k, β: np.exp(β * np.sum(np.tanh(q + k))), True),
}
"""The kernel of a pair, and whether rows are divided by their sums (else by the number of tokens that are seen)."""


def array(x):
    return np.asarray(x, np.float64)


def norm(part, x):
    if part is None:
        return x
    x = x - x.mean(-1, keepdims=True) if part.centre else x
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + part.eps)
    x = x if part.gain is None else x * array(part.gain)
    return x if part.bias is None else x + array(part.bias)


def affine(part, x):
    return x @ array(part.W).T + (0.0 if part.b is None else array(part.b))


def turned(x, base):
    """Rotary positions by complex numbers."""
    n, k = x.shape
    z = x[:, : k // 2] + 1j * x[:, k // 2 :]
    z = z * np.exp(1j * np.arange(n)[:, None] * base ** (-2 * np.arange(k // 2) / k))
    return np.concatenate([z.real, z.imag], axis=1)


def matrix(heads, q, k, slope):
    """The attention matrix of a head."""
    n, kind = len(q), type(heads.kernel).__name__
    β = getattr(heads.kernel, "beta", None)
    sees = lambda i, j: (j <= i or not heads.causal) and (heads.window is None or i - j < heads.window)
    if kind == "Sinkhorn":
        P = np.exp(float(β) * q @ k.T)
        for _ in range(20000):
            P = P / P.sum(0)
            P = P / P.sum(1, keepdims=True)
        return P
    if kind == "Hardmax":
        return np.eye(n)[np.argmax(q @ k.T, axis=1)]
    kernel, averages = KERNELS[kind]
    P = np.array(
        [
            [kernel(q[i], k[j], float(β)) * np.exp(-slope * (i - j)) if sees(i, j) else 0.0 for j in range(n)]
            for i in range(n)
        ]
    )
    count = np.array([sum(sees(i, j) for j in range(n)) for i in range(n)])
    return P / (P.sum(1, keepdims=True) if averages else count[:, None])


def attention(heads, x, kind, base):
    size = lambda part: part.W.shape[0] // heads.heads
    q, k, v = affine(heads.query, x), affine(heads.key, x), affine(heads.value, x)
    width, share = size(heads.query), heads.heads // heads.groups
    slopes = 2.0 ** (-8 * np.arange(1, heads.heads + 1) / heads.heads) if kind == "alibi" else np.zeros(heads.heads)
    fields = []
    for h in range(heads.heads):
        one = lambda y, h: y[:, width * h : width * (h + 1)]
        qh, kh, vh = one(q, h), one(k, h // share), one(v, h // share)
        if kind == "rotary":
            qh, kh = turned(qh, base), turned(kh, base)
        fields.append(matrix(heads, qh, kh, slopes[h]) @ vh)
    return affine(heads.output, np.concatenate(fields, axis=1))


def feed_forward(part, x):
    σ = ACTIVATIONS[part.activation]
    return affine(
        part.down, σ(affine(part.up, x)) if part.gate is None else σ(affine(part.gate, x)) * affine(part.up, x)
    )


def sublayer(part, x, f):
    y = norm(part.inside, f(norm(part.before, x)))
    return norm(part.after, x + (1.0 if part.scale is None else float(part.scale)) * y)


def states(model, ids):
    """The tokens after every block."""
    of = model.architecture
    x = array(model.embedding.words)[ids]
    if of.positions == "learned":
        x = x + array(model.embedding.positions.table)[: len(ids)]
    if of.positions == "sinusoidal":
        i = np.arange(of.d)
        angle = np.arange(len(ids))[:, None] * 10000.0 ** (-2 * (i // 2) / of.d)
        x = x + np.where(i % 2 == 0, np.sin(angle), np.cos(angle))
    found = [x]
    for block in model.blocks:
        x = sublayer(block.attention, x, lambda x, b=block: attention(b.attention.f, x, of.positions, of.rotary_base))
        x = sublayer(block.mlp, x, lambda x, b=block: feed_forward(b.mlp.f, x))
        found.append(x)
    return np.stack(found)


def logits(model, ids):
    table = model.embedding.words if model.head.table is None else model.head.table
    return norm(model.norm, states(model, ids)[-1]) @ array(table).T
