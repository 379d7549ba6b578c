"""The equations once more, in plain numpy, sharing no code with the library: the independent side of comparisons."""

import numpy as np
from scipy.integrate import solve_ivp


def field(x, w, beta, Q, K, V, softmax):
    """Γ at every token, with the kernel e^{β(<Qx,Ky> - 1)} where it is not normalized."""
    scores = beta * (x @ Q.T) @ (x @ K.T).T
    if softmax:
        kernel = np.exp(scores - scores.max(1, keepdims=True)) * w
        kernel /= kernel.sum(1, keepdims=True)
    else:
        kernel = np.exp(scores - beta) * w
    return kernel @ x @ V.T


def velocity(x, w, beta, Q, K, V, softmax, sphere=True):
    if not sphere:
        return field(x, w, beta, Q, K, V, softmax)
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    a = field(x, w, beta, Q, K, V, softmax)
    return a - np.sum(a * x, axis=1, keepdims=True) * x


def solve(x0, t, w, beta, Q, K, V, softmax, sphere=True):
    """The final state by SciPy's DOP853 at rtol 1e-12."""
    shape = x0.shape

    def rhs(_, y):
        return velocity(y.reshape(shape), w, beta, Q, K, V, softmax, sphere).ravel()

    solution = solve_ivp(rhs, (0, t), x0.ravel(), method="DOP853", rtol=1e-12, atol=1e-13)
    assert solution.success
    x = solution.y[:, -1].reshape(shape)
    return x / np.linalg.norm(x, axis=1, keepdims=True) if sphere else x


def orthogonal(d, rng):
    q, r = np.linalg.qr(rng.normal(size=(d, d)))
    return q * np.sign(np.diag(r))


def unit(n, d, rng):
    x = rng.normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)
