"""κ_c and folds of noisy USA by means that the figure of bifurcations does not use: closed forms, and iteration on a grid."""

import numpy as np


def closed_form(β: float, d: int) -> float:
    """κ_c: β/I_1(β) on the circle, by the integral of I_1, and β³/(β cosh β - sinh β) on S²; d at β = 0."""
    if β == 0:
        return float(d)
    θ = 2 * np.pi * np.arange(256) / 256
    return float(β / np.mean(np.exp(β * np.cos(θ)) * np.cos(θ)) if d == 2 else β**3 / (β * np.cosh(β) - np.sinh(β)))


def alignment(x: float, d: int) -> float:
    """∫t e^{xt} / ∫e^{xt} over S^(d-1): I_1(x)/I_0(x) on the circle, coth x - 1/x on S². At β = 0 R is this at x = κR."""
    if d == 3:
        return float(1 / np.tanh(x) - 1 / x)
    t = np.cos(2 * np.pi * np.arange(256) / 256)
    return float(np.mean(np.exp(x * t) * t) / np.mean(np.exp(x * t)))


def turning(β: float, d: int) -> float:
    """The least κ at which there is a state with R > 0: that of states f ∝ e^{κΦ[f]} of given R, minimized over R."""
    (t, w, K), κ = _grid(β, d), [np.inf]
    low, high = 0.02, 0.97
    for _ in range(
        14
    ):  # a quarter of the stretch each time; κ is level at its least, so that it is known better than R
        R = np.linspace(low, high, 9)
        κ = [_kappa(one, t, w, K) for one in R]
        k = int(np.clip(np.argmin(κ), 1, 7))
        low, high = R[k - 1], R[k + 1]
    return min(κ)


def _grid(β: float, d: int, size: int = 128) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Heights t = <x, e_1>, weights, and (e^{β<x,y>} - 1)/β averaged over points of these heights."""
    if d == 2:
        θ = 2 * np.pi * np.arange(size) / size
        return np.cos(θ), np.full(size, 1 / size), np.expm1(β * np.cos(θ[:, None] - θ)) / β
    t, w = np.polynomial.legendre.leggauss(size // 2)
    s = np.sqrt(1 - t * t)
    return t, w / 2, (np.exp(β * np.outer(t, t)) * np.i0(β * np.outer(s, s)) - 1) / β


def _kappa(R: float, t: np.ndarray, w: np.ndarray, K: np.ndarray) -> float:
    """κ of the state with this R, by iterating f ← e^{κΦ[f]}/Z, κ such that ∫t f = R."""
    g = w * np.exp(3 * R * t)
    g, κ = g / g.sum(), 1 / np.ptp(K)
    for _ in range(500):
        Φ, before = K @ g, g
        for _ in range(60):  # Newton's method for κ
            g = w * np.exp(κ * (Φ - Φ.max()))
            g = g / g.sum()
            step = (R - g @ t) / (g @ (t * Φ) - (g @ t) * (g @ Φ))
            κ = np.clip(κ + step, κ / 2, 2 * κ)
            if abs(step) < 1e-14 * κ:
                break
        if np.abs(g - before).max() < 1e-15:
            break
    return float(κ)
