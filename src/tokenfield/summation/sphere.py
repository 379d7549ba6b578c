"""Exponential sums over tokens on the sphere S², by non-uniform FFTs on the double Fourier sphere."""

import functools
import math
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Complex, Float

from tokenfield._norms import sizes
from tokenfield.harmonics.spherical import legendre
from tokenfield.harmonics.zonal import gauss
from tokenfield.summation.base import Related
from tokenfield.summation.circle import angle, bound, complex_like, coupling, on_sphere, reach
from tokenfield.summation.spectral import AbstractSpectral, Split, coarse
from tokenfield.summation.transforms import to_modes, to_points


class Sphere(AbstractSpectral):
    r"""Exponential sums over tokens on S², in O(n): $e^{β⟨x,y⟩} = \sum_l (2l+1) κ_l P_l(⟨x,y⟩)$ is diagonal in spherical
    harmonics (Funk and Hecke), with $κ_l = \frac12 \int_{-1}^1 e^{βz} P_l(z)\,dz$.

    Tokens at colatitude θ and longitude φ give the coefficients of $e^{i(kθ + mφ)}$ by one two-dimensional non-uniform FFT
    [townsend2016]. Order by order, a Legendre table turns these into coefficients of harmonics, the κ_l multiply them, its
    transpose turns them back, and a second transform evaluates them at the queries. Queries must share one length and
    keys another.

    Where values are the tokens themselves, the coefficients of their coordinates times the weights are those of the weights at
    neighbouring degrees and orders (`_ladder`): only weights are transformed, and their Legendre sums are half of those of
    other charges, since weights are real.

    **Arguments**

    - `beta`: the largest product of the two lengths. Where β is traced, it is a bound: beyond it sums are dense.
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
        degree = coarse(1 + reach(beta, 3, self.errors(0, float, tolerance)[0]))
        degree += 1 - degree % 2  # odd, so that even and odd degrees are equally many
        self.degree, self.tolerance = degree, tolerance
        self.table, self.zonal = _series_table(degree), _zonal_table(degree)

    @property
    def modes(self) -> int:
        return self.degree

    def split(self, q: Float[Array, "m 3"], k: Float[Array, "n 3"]) -> Split:
        return on_sphere(q, k, bound(self.modes - 1, 3, self.errors(0, float, self.tolerance)[0]))

    def convolve(
        self, x: Float[Array, "m 3"], y: Float[Array, "n 3"], charges: Complex[Array, "b n"], precision: float
    ) -> Complex[Array, "b m"]:
        c = to_modes((2 * self.degree + 1,) * 2, charges, _angles(y), precision)
        return to_points(self._funk_hecke(c, coupling(x, y)), _angles(x), precision)

    def own(
        self,
        x: Float[Array, "m 3"],
        y: Float[Array, "n 3"],
        mass: Float[Array, " n"],
        precision: float,
        related: Related,
    ) -> tuple[Float[Array, " m"], Float[Array, "m p"]]:
        β, r, places = coupling(x, y), sizes(y[0]), _angles(y)
        if related.multiple is not None:
            asked, β = places, β * jnp.where(related.multiple < 0, -1.0, 1.0)
        else:
            asked = _angles(x)
        c = to_modes((2 * self.degree + 1,) * 2, mass[None].astype(complex_like(mass)), places, precision)
        first, second = to_points(self._coordinates(c, β), asked, precision)
        keys = r * jnp.stack([jnp.real(second), jnp.imag(second), jnp.imag(first)], axis=1)
        return jnp.real(first), keys * related.back if related.back.ndim == 0 else keys @ related.back.T

    def _coordinates(self, c: Complex[Array, "1 k m"], β: Float[Array, ""]) -> Complex[Array, "2 k m"]:
        """Coefficients of weights to those of 1 + iz and x + iy times weights, summed against the kernel."""
        u = _fold(c, self.degree)[..., :1]  # orders m ≥ 0: those of real weights at -m are their conjugates
        table = self.table.astype(β.dtype)
        a = self._harmonics(table, u)
        a = jnp.moveaxis(a[..., 0], 0, 2).reshape(a.shape[1], -1)  # by order, then by degree
        fields = _ladder(a, self.degree) * self._factors(β)
        fields = jnp.moveaxis(fields.reshape(4, len(a), -1, 2), (3, 0), (0, 3))  # by parity again; fields last
        one, x, y, z = jnp.moveaxis(self._series(table, fields), -1, 0)
        both = lambda real, imag: [real + 1j * imag, jnp.conj(real) + 1j * jnp.conj(imag)]  # at m, at -m
        return _unfold(jnp.stack(both(one, z) + both(x, y), axis=-1), (2, *c.shape[1:]))

    def _funk_hecke(self, c: Complex[Array, "b k m"], β: Float[Array, ""]) -> Complex[Array, "b k m"]:
        """Coefficients of charges to coefficients of their sums: for every order m, Pᵀ κ P on the series in θ."""
        κ, table = self._factors(β).reshape(-1, 2).T[:, None, :, None], self.table.astype(β.dtype)
        return _unfold(self._series(table, κ * self._harmonics(table, _fold(c, self.degree))), c.shape)

    def _factors(self, β: Float[Array, ""]) -> Float[Array, " l"]:
        """κ_l of e^{β<x,y> - |β|}."""
        z, weights = gauss(3, self.zonal.shape[1])
        return self.zonal.astype(β.dtype) @ jnp.asarray(weights * jnp.exp(β * z - jnp.abs(β)))

    @staticmethod
    def _harmonics(table: Array, u: Complex[Array, "2 m k b"]) -> Complex[Array, "2 m l b"]:
        """Coefficients of harmonics from series in θ."""
        return _by_parts(lambda columns: jnp.einsum("pmlk,pmkb->pmlb", table, columns), u)

    @staticmethod
    def _series(table: Array, a: Complex[Array, "2 m l b"]) -> Complex[Array, "2 m k b"]:
        """And series in θ from coefficients of harmonics."""
        return _by_parts(lambda columns: jnp.einsum("pmlk,pmlb->pmkb", table, columns), a)


def _by_parts(real: Callable[[Array], Array], columns: Complex[Array, "... b"]) -> Complex[Array, "... b"]:
    """A real linear map of complex columns: of their real and imaginary parts side by side."""
    found, b = real(jnp.concatenate([jnp.real(columns), jnp.imag(columns)], axis=-1)), columns.shape[-1]
    return lax.complex(found[..., :b], found[..., b:])


def _ladder(a: Complex[Array, "m l"], degree: int) -> Complex[Array, "4 m l"]:
    r"""Coefficients of $μ, xμ, yμ, zμ$ from those of a real measure, $a_l^m = \int \bar P_l^m e^{-imφ} dμ$ for m ≥ 0.

    $z\bar P_l^m = A\bar P_{l+1}^m + A'\bar P_{l-1}^m$ and $s\bar P_l^m = B\bar P_{l+1}^{m+1} - B'\bar P_{l-1}^{m+1}
    = C'\bar P_{l-1}^{m-1} - C\bar P_{l+1}^{m-1}$ with $s = \sqrt{1-z^2}$. What lies beyond the highest degree is left out: it
    is multiplied by the last κ_l, which is below the precision.
    """
    A, B, C = (jnp.asarray(part, jnp.real(a).dtype) for part in _ladder_factors(degree))
    up, down = jnp.pad(a[:, 1:], ((0, 0), (0, 1))), jnp.pad(a[:, :-1], ((0, 0), (1, 0)))  # at l + 1, at l - 1
    later = lambda rows: jnp.pad(rows[1:], ((0, 1), (0, 0)))  # at m + 1
    minus = B[0] * later(up) - B[1] * later(down)  # x - iy
    plus = jnp.concatenate([jnp.conj(minus[:1]), (C[1] * _before(down) - C[0] * _before(up))[1:]])  # x + iy
    return jnp.stack([a, 0.5 * (plus + minus), -0.5j * (plus - minus), A[0] * up + A[1] * down])


def _before(rows: Array) -> Array:
    """The rows at m - 1."""
    return jnp.pad(rows[:-1], ((1, 0), (0, 0)))


@functools.lru_cache(maxsize=16)
def _ladder_factors(degree: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(A, A'), (B, B') and (C, C') of `_ladder` for m = 0..degree (rows) and l = 0..degree; zero where l < m."""
    m, l = np.meshgrid(np.arange(degree + 1.0), np.arange(degree + 1.0), indexing="ij")
    there = l >= m
    root = lambda top, bottom: np.where(there, np.sqrt(np.maximum(top, 0) / np.where(there, np.abs(bottom), 1)), 0.0)
    after, before = (2 * l + 1) * (2 * l + 3), (2 * l - 1) * (2 * l + 1)
    A = root((l + 1) ** 2 - m**2, after), root(l**2 - m**2, before)
    B = root((l + m + 1) * (l + m + 2), after), root((l - m) * (l - m - 1), before)
    C = root((l - m + 1) * (l - m + 2), after), root((l + m) * (l + m - 1), before)
    return np.stack(A), np.stack(B), np.stack(C)


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
