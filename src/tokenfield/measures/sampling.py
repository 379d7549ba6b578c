"""Independent samples of densities on spheres, by inverting distribution functions."""

import numpy as np

from tokenfield.harmonics import Spherical, Zonal
from tokenfield.harmonics.spherical import longitude_series

CHUNK = 4096


def inverted(grid: np.ndarray, f: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Points whose distribution function is u, from values of a density on a fine grid."""
    mass = np.append(0.0, np.cumsum(np.maximum(0.5 * (f[1:] + f[:-1]), 0.0) * np.diff(grid)))
    return np.interp(u, mass / mass[-1], grid)


def _heights(basis: Zonal, coefficients: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Polar angles α, of density f(cos α) sin^{d-2} α."""
    α = np.linspace(0, np.pi, 32 * max(basis.degree, 64) + 1)
    axis = np.zeros((len(α), basis.d))
    axis[:, 0] = np.cos(α)
    return inverted(α, basis.evaluate(coefficients, axis) * np.sin(α) ** (basis.d - 2), rng.random(n))


def sample_zonal(basis: Zonal, coefficients: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """n points of S^{d-1}: first the height, then a uniform direction around the axis."""
    α = _heights(basis, coefficients, n, rng)
    around = rng.standard_normal((n, basis.d - 1))
    around /= np.linalg.norm(around, axis=1, keepdims=True)
    return np.column_stack([np.cos(α), np.sin(α)[:, None] * around])


def sample_sphere(basis: Spherical, coefficients: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """n points of S². The height has the density of the m = 0 harmonics; given it, the longitude has a Fourier series."""
    middle = coefficients[np.arange(basis.degree + 1) ** 2]
    z = np.cos(_heights(Zonal(3, basis.degree), middle, n, rng))
    u = rng.random(n)
    φ = np.concatenate(
        [_longitudes(basis, coefficients, z[i : i + CHUNK], u[i : i + CHUNK]) for i in range(0, n, CHUNK)]
    )
    return np.column_stack([np.sqrt(1 - z**2) * np.cos(φ), np.sqrt(1 - z**2) * np.sin(φ), z])


def _longitudes(basis: Spherical, coefficients: np.ndarray, z: np.ndarray, u: np.ndarray) -> np.ndarray:
    """φ with ∫_0^φ f = u ∫_0^{2π} f, by bisection on the integrated series of every point at once."""
    series = longitude_series(coefficients, z, basis.degree)  # f(z, φ) = Re Σ_m series_m e^{imφ}
    m = np.arange(1, basis.degree + 1)[:, None]
    total = 2 * np.pi * np.real(series[0])

    def mass(φ: np.ndarray) -> np.ndarray:
        turns = np.exp(1j * m * φ) - 1
        return np.real(series[0]) * φ + np.real(np.sum(series[1:] / (1j * m) * turns, axis=0))

    low, high = np.zeros_like(u), np.full_like(u, 2 * np.pi)
    for _ in range(40):
        middle = 0.5 * (low + high)
        below = mass(middle) < u * total
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)
