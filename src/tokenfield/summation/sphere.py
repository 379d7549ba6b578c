"""Exponential sums over tokens on the sphere S², by non-uniform FFTs on the double Fourier sphere."""

import functools
import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from tokenfield.harmonics.spherical import legendre
from tokenfield.harmonics.zonal import gauss
from tokenfield.summation.circle import angle, coupling, on_sphere, reach
from tokenfield.summation.spectral import AbstractSpectral, Split, coarse
from tokenfield.summation.transforms import to_modes, to_points


class Sphere(AbstractSpectral):
    r"""Exponential sums over tokens on S², in O(n): $e^{β⟨x,y⟩} = \sum_l (2l+1) κ_l P_l(⟨x,y⟩)$ is diagonal in spherical
    harmonics (Funk and Hecke), with $κ_l = \frac12 \int_{-1}^1 e^{βz} P_l(z)\,dz$.

    Tokens at colatitude θ and longitude φ give the coefficients of $e^{i(kθ + mφ)}$ by one two-dimensional non-uniform FFT
    [townsend2016]. Order by order, a Legendre table turns these into coefficients of harmonics, the κ_l multiply them, its
    transpose turns them back, and a second transform evaluates them at the queries. Queries must share one length and
    keys another.

    **Arguments**

    - `beta`: the largest product of the two lengths.
    - `tolerance`: how large a row's error may be, relative to its own total.

    >>> x = jnp.asarray(np.random.default_rng(0).normal(size=(500, 3)))
    >>> x = x / jnp.linalg.norm(x, axis=1, keepdims=True)
    >>> sums = Sphere(beta=9.0).exponential(9.0 * x, x, x, jnp.full(500, 0.002))
    >>> bool(abs(sums.total[0] - jnp.mean(jnp.exp(9 * (x @ x[0] - 1)))) < 1e-13)
    True
    """

    table: Float[Array, "2 m l k"]
    zonal: Float[Array, "l z"]
    degree: int = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)

    def __init__(self, beta: float, tolerance: float = 1e-9):
        degree = coarse(reach(beta))
        degree += 1 - degree % 2  # odd, so that even and odd degrees are equally many
        self.degree, self.tolerance = degree, tolerance
        self.table, self.zonal = _series_table(degree), _zonal_table(degree)

    @property
    def modes(self) -> int:
        return self.degree

    def split(self, q: Float[Array, "m 3"], k: Float[Array, "n 3"]) -> Split:
        return on_sphere(q, k)

    def convolve(
        self, x: Float[Array, "m 3"], y: Float[Array, "n 3"], charges: Complex[Array, "b n"], precision: float
    ) -> Complex[Array, "b m"]:
        c = to_modes((2 * self.degree + 1,) * 2, charges, _angles(y), precision)
        return to_points(self._funk_hecke(c, coupling(x, y)), _angles(x), precision)

    def _funk_hecke(self, c: Complex[Array, "b k m"], β: Float[Array, ""]) -> Complex[Array, "b k m"]:
        """Coefficients of charges to coefficients of their sums: for every order m, Pᵀ κ P on the series in θ."""
        z, weights = gauss(3, self.zonal.shape[1])
        κ = self.zonal.astype(β.dtype) @ jnp.asarray(weights * jnp.exp(β * (z - 1)))
        κ = κ.reshape(-1, 2).T[:, None, :, None]  # by parity
        table = self.table.astype(β.dtype)
        u = _fold(c, self.degree)
        columns = jnp.concatenate([jnp.real(u), jnp.imag(u)], axis=-1)
        harmonics = κ * jnp.einsum("pmlk,pmkb->pmlb", table, columns)
        back = jnp.einsum("pmlk,pmlb->pmkb", table, harmonics)
        half = u.shape[-1]
        return _unfold(back[..., :half] + 1j * back[..., half:], c.shape)


def _angles(x: Float[Array, "n 3"]) -> list[Float[Array, " n"]]:
    """Colatitude and longitude. At the poles, where longitude means nothing, it is 0 and has no gradient."""
    flat = jnp.sum(x[:, :2] ** 2, axis=1)
    s = jnp.where(flat > 0, jnp.sqrt(jnp.where(flat > 0, flat, 1.0)), 0.0)
    return [angle(jnp.stack([x[:, 2], s], axis=1)), angle(x[:, :2])]


def _fold(c: Complex[Array, "b k m"], degree: int) -> Complex[Array, "2 orders half cols"]:
    """Σ f cos kθ e^{-imφ} for even m and Σ f sin kθ e^{-imφ} for odd m, by parity of k, then |m|; both signs of m and
    all charges side by side."""
    positive, negative = c[:, degree:], c[:, degree::-1]  # k = 0, 1, ..., and 0, -1, ...
    sums = jnp.where(_odd_orders(degree), (negative - positive) / 2j, (negative + positive) / 2)
    both = jnp.stack([sums[..., degree:], sums[..., degree::-1]], axis=-1)  # +m, -m
    b, k, m, _ = both.shape
    return both.reshape(b, k // 2, 2, m, 2).transpose(2, 3, 1, 0, 4).reshape(2, m, k // 2, 2 * b)


def _unfold(u: Complex[Array, "2 orders half cols"], shape: tuple[int, ...]) -> Complex[Array, "b k m"]:
    """The coefficients of e^{i(kθ + mφ)} of series in cos kθ or sin kθ; the transpose of `_fold`, up to signs."""
    (b, count, _), (_, m, half, _) = shape, u.shape
    both = u.reshape(2, m, half, b, 2).transpose(3, 2, 0, 1, 4).reshape(b, 2 * half, m, 2)
    sums = jnp.concatenate([both[:, :, :0:-1, 1], both[..., 0]], axis=-1)
    odd = _odd_orders(count // 2)
    above, below = jnp.where(odd, sums / 2j, sums / 2), jnp.where(odd, -sums / 2j, sums / 2)
    zeroth = jnp.where(odd[None], 0.0, sums[:, :1])
    return jnp.concatenate([below[:, :0:-1], zeroth, above[:, 1:]], axis=1)


def _odd_orders(degree: int) -> np.ndarray:
    return np.arange(-degree, degree + 1) % 2 == 1


@functools.lru_cache(maxsize=4)
def _series_table(degree: int) -> Float[Array, "2 m l k"]:
    r"""$\bar P_l^m(\cos θ) = \sum_k a_k \cos kθ$ (m even) or $\sum_k a_k \sin kθ$ (m odd): a_k, by the common parity of l and
    k, for every m. On the double sphere θ runs through the whole circle, and sin θ changes sign."""
    samples = 2 * degree + 2
    θ = 2 * np.pi * np.arange(samples) / samples
    table = np.zeros((2, degree + 1, (degree + 1) // 2, (degree + 1) // 2))
    scale = np.where(np.arange(degree + 1) == 0, 1, 2) / samples
    for l, P in enumerate(legendre(np.cos(θ), np.sin(θ), degree)):
        series = np.fft.rfft(P, axis=1)[:, : degree + 1] * scale
        a = np.where(np.arange(l + 1)[:, None] % 2 == 0, series.real, -series.imag)
        table[l % 2, : l + 1, l // 2] = a[:, l % 2 :: 2]
    return jnp.asarray(table)


@functools.lru_cache(maxsize=4)
def _zonal_table(degree: int) -> Float[Array, "l z"]:
    """P_l at Gauss nodes, enough of them to integrate P_l times the kernel, whose own degree counts as the same."""
    z, _ = gauss(3, degree + 8)
    rows = [P[0] / math.sqrt(2 * l + 1) for l, P in enumerate(legendre(z, np.sqrt((1 - z) * (1 + z)), degree))]
    return jnp.asarray(np.stack(rows))
