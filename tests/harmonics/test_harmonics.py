"""Harmonic bases: orthonormal, exact, the same as other people's, and eigenfunctions of the attention kernel."""

import functools
import math
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special

from tests import naive
from tokenfield.errors import InputError
from tokenfield.harmonics import Fourier, Spherical, Zonal, kernel_eigenvalues
from tokenfield.harmonics.fourier import CHUNK, fast_even
from tokenfield.harmonics.zonal import gauss

BASES = [
    Fourier(1),
    Fourier(64),
    Zonal(2, 1),
    Zonal(2, 128),
    Zonal(3, 24),
    Zonal(8, 24),
    Zonal(64, 24),
    Zonal(1000, 40),
]
BASES += [Spherical(1), Spherical(16)]
eigenvalues = jax.jit(lambda beta, d: kernel_eigenvalues(beta, d, 128), static_argnums=1)
named = lambda *bases: pytest.mark.parametrize("basis", bases, ids=repr)


@functools.lru_cache(maxsize=32)
def there_and_back(basis):
    """Coefficients of every basis function and, in the last row, random ones; their values; the coefficients again."""
    c = np.concatenate([np.eye(basis.size), random(basis, 1)])
    values = jax.jit(basis.synthesize)(jnp.asarray(c))
    return c, np.asarray(values), np.asarray(jax.jit(basis.analyze)(values))


def table(basis):
    """Every basis function on its grid, shape (size, m)."""
    return there_and_back(basis)[1][:-1]


def random(basis, *batch):
    return np.random.default_rng(0).normal(size=(*batch, basis.size))


@named(*BASES)
def test_grid_is_a_probability_on_the_sphere(basis):
    assert basis.points.shape == (len(basis.weights), basis.d) and np.all(basis.weights > 0)
    assert abs(basis.weights.sum() - 1) < 1e-14
    assert np.max(abs(np.linalg.norm(basis.points, axis=1) - 1)) < 1e-14
    assert basis.degrees[0] == 0 and basis.degrees[-1] == basis.degree and np.all(np.diff(basis.degrees) >= 0)
    assert len(basis.degrees) == basis.size == len(basis.laplacian)


@named(*BASES)
def test_orthonormal_on_the_grid_and_analysis_undoes_synthesis(basis):
    e, (c, _, back) = table(basis), there_and_back(basis)
    np.testing.assert_allclose((e * basis.weights) @ e.T, np.eye(basis.size), atol=1e-13)
    np.testing.assert_allclose(back[:-1], np.eye(basis.size), atol=1e-13)
    np.testing.assert_allclose(back[-1], c[-1], atol=1e-12)


@named(*BASES)
def test_values_at_points_and_moments_agree_with_the_grid(basis):
    c, values, _ = (array[-1] for array in there_and_back(basis))
    assert np.max(abs(basis.evaluate(c, basis.points) - values) / (abs(c) @ abs(table(basis)))) < 1e-13
    np.testing.assert_allclose(basis.moments(basis.points, basis.weights * values), c, atol=1e-12)


@named(Fourier(5), Fourier(6), Zonal(2, 6), Zonal(3, 7), Zonal(8, 7), Zonal(64, 6), Spherical(3), Spherical(4))
def test_products_of_three_are_integrated_exactly(basis):
    finer = basis.refined(2 * basis.degree + 1)
    e, f = (np.stack([basis.evaluate(c, grid.points) for c in np.eye(basis.size)]) for grid in (basis, finer))
    coarse = np.einsum("ai,bi,ci->abc", e * basis.weights, e, e, optimize=True)
    fine = np.einsum("ai,bi,ci->abc", f * finer.weights, f, f, optimize=True)
    np.testing.assert_allclose(coarse, fine, atol=1e-13 * abs(fine).max())


@named(Fourier(2), Zonal(3, 2), Spherical(2))
def test_many_points_are_taken_in_parts(basis):
    rng = np.random.default_rng(1)
    x, c = naive.unit(CHUNK + 7, basis.d, rng), random(basis)
    w = rng.uniform(size=len(x))
    few = slice(CHUNK - 3, CHUNK + 5)
    np.testing.assert_allclose(basis.evaluate(c, x)[few], basis.evaluate(c, x[few]), atol=1e-14)
    np.testing.assert_allclose(basis.moments(x, w) @ c, w @ basis.evaluate(c, x), rtol=1e-12)
    assert basis.evaluate(c, x[:0]).shape == (0,) and not basis.moments(x[:0], w[:0]).any()


def test_fourier_is_cosines_and_sines():
    basis, θ = Fourier(50), np.linspace(-3, 3, 41)
    x = np.stack([np.cos(θ), np.sin(θ)], axis=1)
    assert basis.degrees[:5].tolist() == [0, 1, 1, 2, 2]
    for j, l in enumerate(basis.degrees):
        wave = [1 + 0 * θ, np.sqrt(2) * np.sin(l * θ), np.sqrt(2) * np.cos(l * θ)][0 if j == 0 else 1 + j % 2]
        np.testing.assert_allclose(basis.evaluate(np.eye(basis.size)[j], x), wave, atol=1e-11)


@pytest.mark.parametrize("d", [2, 3, 4, 8, 64])
def test_zonal_is_gegenbauer(d):
    basis, t = Zonal(d, 40), np.linspace(-1, 1, 23)
    x = np.stack([t, np.sqrt(1 - t**2), *[0 * t] * (d - 2)], axis=1)
    for l in basis.degrees:
        dimension = math.comb(l + d - 1, d - 1) - math.comb(l + d - 3, d - 1) if l else 1
        raw = special.eval_chebyt if d == 2 else lambda l, t: special.eval_gegenbauer(l, d / 2 - 1, t)
        exact = math.sqrt(dimension) * raw(l, t) / raw(l, 1.0)
        np.testing.assert_allclose(basis.evaluate(np.eye(41)[l], x), exact, atol=1e-11 * math.sqrt(dimension))


def other_spherical(l, m, x):
    """e_lm by SciPy: cosine for m ≥ 0, sine of |m| for m < 0."""
    θ, φ = np.arctan2(np.hypot(x[:, 0], x[:, 1]), x[:, 2]), np.arctan2(x[:, 1], x[:, 0])
    Y = math.sqrt(4 * math.pi) * (-1) ** m * special.sph_harm_y(l, abs(m), θ, φ)
    return Y.real if m == 0 else math.sqrt(2) * (Y.real if m > 0 else Y.imag)


@pytest.mark.parametrize("degree", [6, 128])
def test_spherical_is_the_same_as_scipys(degree):
    basis = Spherical(degree)
    x = np.concatenate([naive.unit(8, 3, np.random.default_rng(2)), np.eye(3), -np.eye(3), [[1e-3, 1e-9, 1.0]]])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    for l in {0, 1, 2, 3, degree // 2, degree}:
        for m in {0, 1, -1, 2, -2, l // 2, -(l // 2), l, -l} & set(range(-l, l + 1)):
            c = np.zeros(basis.size)
            c[l * l + (2 * m - 1 if m > 0 else -2 * m)] = 1
            np.testing.assert_allclose(basis.evaluate(c, x), other_spherical(l, m, x), atol=1e-11)


def test_spherical_of_degree_128():
    basis, rng = Spherical(128), np.random.default_rng(3)
    assert basis.shape == (193, 400) and basis.size == 129**2
    c = random(basis, 6)
    c[1:] = 0
    c[np.arange(1, 6), [5, 5000, 128**2, basis.size - 2, basis.size - 1]] = 1
    values = jax.jit(basis.synthesize)(jnp.asarray(c))
    np.testing.assert_allclose(jax.jit(basis.analyze)(values), c, atol=1e-12)
    values = np.asarray(values)
    np.testing.assert_allclose((values[1:] * basis.weights) @ values[1:].T, np.eye(5), atol=1e-13)
    at = rng.integers(len(basis.weights), size=50)
    np.testing.assert_allclose(basis.evaluate(c[0], basis.points[at]), values[0, at], atol=1e-10)


def test_first_spherical_harmonics_are_the_coordinates():
    x = naive.unit(9, 3, np.random.default_rng(4))
    e = np.stack([Spherical(1).evaluate(c, x) for c in np.eye(4)])
    np.testing.assert_allclose(e, [0 * x[:, 0] + 1, *(np.sqrt(3) * x[:, [2, 0, 1]].T)], atol=1e-14)


def smeared(basis, β):
    """∫ e^{β<x,y>} e_j(y) dσ(y) at the grid points, shape (size, m)."""
    e, x, w = table(basis), basis.points, basis.weights
    if not isinstance(basis, Zonal):
        return (e * w) @ np.exp(β * x @ x.T)
    # Around the axis the other coordinates of y are uniform on a sphere of one dimension less: two points for d = 2.
    u, v = (np.array([-1.0, 1.0]), np.full(2, 0.5)) if basis.d == 2 else gauss(basis.d - 1, 30)
    scores = basis.t[:, None, None] * basis.t[:, None] + np.multiply.outer(x[:, 1], np.outer(x[:, 1], u))
    return (e * w) @ (np.exp(β * scores) @ v)


@named(Fourier(64), Zonal(2, 128), Zonal(3, 24), Zonal(8, 24), Spherical(16))
def test_funk_hecke(basis):
    β = 3.0
    c = eigenvalues(β, basis.d)
    exact = np.asarray(c.ratio)[basis.degrees, None] * table(basis)
    scaled = smeared(basis, β) * np.exp(-float(c.log_first))
    size = np.maximum(abs(table(basis)), 1)  # for d > 3 the functions are large near the poles
    assert np.max(abs(scaled - exact) / size) < 1e-11


@pytest.mark.parametrize("beta", [0.1, 9.0, 1000.0])
@pytest.mark.parametrize("d", [2, 3, 8])
def test_kernel_eigenvalues_are_bessel_functions(d, beta):
    c = eigenvalues(beta, d)
    ν, l = d / 2 - 1, np.arange(33)
    exact = special.ive(l + ν, beta) / special.ive(ν, beta)
    np.testing.assert_allclose(c.ratio[:33], exact, rtol=1e-12)
    np.testing.assert_allclose(c.slope[1:33], exact[1:] / beta, rtol=1e-12)
    first = math.lgamma(d / 2) + ν * math.log(2 / beta) + math.log(special.ive(ν, beta)) + beta
    np.testing.assert_allclose(c.log_first, first, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("d", [2, 3, 8])
def test_kernel_eigenvalues_without_interaction(d):
    c = eigenvalues(0.0, d)
    np.testing.assert_allclose(c.ratio[:3], [1, 0, 0], atol=1e-16)
    np.testing.assert_allclose(c.slope[:3], [0, 1 / d, 0], atol=1e-16)
    assert not c.ratio[3:].any() and not c.slope[3:].any() and abs(float(c.log_first)) < 1e-15


def test_laplacian_is_that_of_the_sphere():
    assert Fourier(2).laplacian.tolist() == [0, -1, -1, -4, -4]
    assert Zonal(8, 2).laplacian.tolist() == [0, -7, -16]
    assert Spherical(2).laplacian.tolist() == [0, -2, -2, -2, -6, -6, -6, -6, -6]


@pytest.mark.parametrize("d", [2, 4])
@pytest.mark.parametrize("n", [2, 7, 200, 1000])
def test_gauss_nodes_that_are_known(d, n):
    t, w = gauss(d, n)
    if d == 2:
        exact, weights = np.sin(np.pi * (2 * np.arange(n) + 1 - n) / (2 * n)), np.full(n, 1 / n)
    else:
        angle = np.pi * np.arange(n, 0, -1) / (n + 1)
        exact, weights = np.cos(angle), 2 * np.sin(angle) ** 2 / (n + 1)
    np.testing.assert_allclose(t, exact, atol=1e-14)
    np.testing.assert_allclose(w, weights, atol=1e-14)
    assert np.array_equal(t, -t[::-1]) and np.array_equal(w, w[::-1]) and np.all(np.diff(t) > 0)


@pytest.mark.parametrize(("d", "n"), [(3, 1000), (100, 300), (1000, 20), (1000, 1000)])
def test_gauss_integrates_powers_in_high_dimension(d, n):
    t, w = gauss(d, n)
    moment = 1.0  # E t^{2k} = Π_{i<k} (2i+1)/(d+2i)
    for k in range(1, 12):
        moment *= (2 * k - 1) / (d + 2 * k - 2)
        np.testing.assert_allclose(w @ t ** (2 * k), moment, rtol=1e-12)


def test_zonal_far_beyond_the_range_of_its_weights():
    basis = Zonal(1000, 600)
    np.testing.assert_allclose(basis.analyze(jnp.asarray(table(basis))), np.eye(601), atol=1e-13)


@named(Fourier(4), Zonal(5, 4), Spherical(4))
def test_other_degrees(basis):
    finer, c = basis.refined(7), jnp.asarray(random(basis, 3))
    assert finer == type(basis)(*([5] if isinstance(basis, Zonal) else []), 7) and hash(basis.refined(4)) == hash(basis)
    padded = basis.resize(c, 7)
    assert padded.shape == (3, finer.size) and np.array_equal(finer.resize(padded, 4), c)
    x = naive.unit(6, basis.d, np.random.default_rng(5))
    for coarse, fine in zip(np.asarray(c), np.asarray(padded), strict=True):
        np.testing.assert_allclose(finer.evaluate(fine, x), basis.evaluate(coarse, x), atol=1e-14)
    assert np.array_equal(basis.resize(c, 2), c[:, : basis.refined(2).size])


@named(Fourier(4), Zonal(5, 4), Spherical(4))
def test_transforms_under_jit_vmap_and_grad(basis):
    c, w = random(basis, 2, 3), basis.weights
    energy = lambda c: jnp.sum(basis.synthesize(c) ** 2 @ w)  # ∫ f² dσ
    through = lambda f: jnp.sum(basis.analyze(f) ** 2)  # Σ f_j²
    every = lambda c: ((f := jax.vmap(basis.synthesize)(c)), jax.grad(energy)(c), jax.grad(through)(f))
    values, slope, pull = jax.jit(every)(jnp.asarray(c))
    each = [[basis.evaluate(row, basis.points) for row in rows] for rows in c]
    np.testing.assert_allclose(values, each, atol=1e-13)
    np.testing.assert_allclose(slope, 2 * c, atol=1e-13)
    np.testing.assert_allclose(pull, 2 * w * values, atol=1e-13)
    assert jax.eval_shape(basis.synthesize, jnp.zeros((0, basis.size))).shape == (0, len(w))


@named(Fourier(4), Zonal(5, 4), Spherical(4))
def test_single_precision_stays_single(basis):
    c = jnp.asarray(random(basis, 2), jnp.float32)
    values, back = jax.jit(lambda c: ((f := basis.synthesize(c)), basis.analyze(f)))(c)
    assert values.dtype == back.dtype == basis.resize(c, 6).dtype == jnp.float32
    np.testing.assert_allclose(back, c, atol=1e-5)


def test_tables_cannot_be_written():
    for array in (Fourier(3).points, Zonal(3, 3).t, Zonal(3, 3).weights, Spherical(3).points):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_fast_sizes():
    assert [fast_even(n) for n in (1, 4, 7, 13, 97, 385)] == [2, 4, 8, 16, 100, 400]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Fourier(0), "`degree` must be at least 1 .* but is 0"),
        (lambda: Spherical(2.5), "`degree` must be a whole number .* but is 2.5"),
        (lambda: Spherical(True), "`degree` must be a whole number"),
        (lambda: Zonal(3, -1), "`degree` must be at least 1"),
        (lambda: Zonal(1, 4), "`d` must be at least 2 .* but is 1"),
        (lambda: Zonal(10_000, 2000), "Use a lower degree"),
        (lambda: Fourier(3).refined(0), "`degree` must be at least 1"),
        (lambda: Spherical(3).resize(jnp.ones(16), 0), "`degree` must be at least 1"),
        (lambda: Zonal(1000, 128).synthesize(jnp.ones(129, jnp.float32)), "Use float64, or a lower degree"),
    ],
)
def test_refusals(make, words):
    with pytest.raises(InputError, match=words):
        make()


@pytest.mark.parametrize("d", [2, 3, 8, 64])
@pytest.mark.parametrize("beta", [1e3, 1.7e3, 1e5, 1e6, 1e8])
def test_eigenvalues_keep_their_digits_at_any_beta(beta, d):
    """c_l = Γ(d/2)(2/β)^ν I_{ν+l}(β) by SciPy's scaled Bessel functions."""
    ν, c = d / 2 - 1, kernel_eigenvalues(beta, d, 4)
    bessel = special.ive(ν + np.arange(5), beta)
    np.testing.assert_allclose(c.ratio, bessel / bessel[0], rtol=1e-12)
    log_first = math.lgamma(d / 2) + ν * math.log(2 / beta) + math.log(bessel[0]) + beta
    assert abs(float(c.log_first) - log_first) < 1e-15 * beta + 1e-11
    slope = jax.grad(lambda beta: kernel_eigenvalues(beta, d, 4).log_first)(beta)
    assert abs(float(slope) - bessel[1] / bessel[0]) < 1e-12  # d log c_0/dβ = c_1/c_0


def test_eigenvalues_are_numbers_at_the_ends():
    for beta in (1e300, -1e300, 0.0):
        for part in kernel_eigenvalues(beta, 3, 4):
            assert np.all(np.isfinite(part))


@pytest.mark.parametrize(("d", "named"), [(2, "on the circle"), (3, "on S²"), (8, "for d = 8")])
def test_the_documented_change_of_order_is_where_the_harmonics_say(d, named):
    """USA's transition is first-order from c₂/c₁ = 1/d on: as the docs say, as the code has it, and by Bessel functions."""
    text = (Path(__file__).parents[2] / "docs" / "measures.md").read_text(encoding="utf-8")
    sentence = text[text.index("the transition is first-order when") :][:250]
    told = float(re.findall(rf"([\d.]+) {re.escape(named)}", sentence)[0])
    ν = d / 2 - 1
    exact = optimize.brentq(lambda β: special.ive(ν + 2, β) / special.ive(ν + 1, β) - 1 / d, 0.5, 4.0, xtol=1e-12)
    decimals = len(str(told).partition(".")[2])
    assert told == round(exact, decimals)
    c = kernel_eigenvalues(exact, d, 2)
    assert abs(float(c.ratio[2] / c.ratio[1]) - 1 / d) < 1e-10
