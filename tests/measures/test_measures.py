"""Tokens: what they are, and how they are made."""

import fractions

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

import tokenfield as tkf
from tokenfield.errors import InputError


def test_quantities():
    x = np.array([[3.0, 4.0], [0.0, 2.0], [1.0, 0.0]])
    mu = tkf.Tokens(x, w=[0.5, 0.25, 0.25], s=[0.0, 0.5, 1.0])
    assert (mu.n, mu.d) == (3, 2)
    assert np.allclose(mu.mean, 0.5 * x[0] + 0.25 * x[1] + 0.25 * x[2])
    assert np.allclose(mu.gram, x @ x.T)
    assert mu.radii.tolist() == [5.0, 2.0, 1.0]
    assert np.allclose(mu.directions, [[0.6, 0.8], [0, 1], [1, 0]])
    assert "weighted" in repr(mu) and "positions" in repr(mu)


def test_whole_numbers_become_floats_and_float32_stays():
    assert tkf.Tokens([[1, 0], [0, 1]]).x.dtype == np.float64
    assert tkf.Tokens(np.eye(2, dtype=np.float32)).w.dtype == np.float32


class Tensor:
    """What torch's tensors do: numpy sees them only outside their graph, on the CPU, in a precision that it has."""

    def __init__(self, x, dtype="torch.float32", free=False):
        self.x, self.dtype, self.free = x, dtype, free

    def detach(self):
        return Tensor(self.x, self.dtype, free=True)

    def cpu(self):
        return self

    def double(self):
        return Tensor(self.x.astype(np.float64), "torch.float64", self.free)

    def __array__(self, dtype=None, copy=None):
        if not self.free:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if "bfloat16" in self.dtype:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.x


class Frame:
    """What tables do: they are arrays when asked."""

    def __array__(self, dtype=None, copy=None):
        return np.eye(2)


def test_half_precision_and_other_libraries_are_widened():
    x = np.array([[1.0, 0.5], [0.25, -2.0]])  # exact in every precision
    for half in (np.float16, ml_dtypes.bfloat16):
        for array in (x.astype(half), jnp.asarray(x.astype(half))):
            assert tkf.Tokens(array).x.dtype == np.float64 and tkf.Tokens(array).x.tolist() == x.tolist()
    assert tkf.Tokens(Tensor(x.astype(np.float32))).x.dtype == np.float32
    assert tkf.Tokens(Tensor(x, "torch.bfloat16")).x.tolist() == x.tolist()
    assert tkf.Softmax(beta=Tensor(np.array(2.0)), V=Frame()).V.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert tkf.Tokens([[fractions.Fraction(1, 4), 10**20]]).x.tolist() == [[0.25, 1e20]]


@pytest.mark.parametrize("sharp", [1e2, 1e4, 1e6, 1e12])
def test_sharp_densities_warn_of_nothing(sharp):
    """Functions that overflow are refused in a sentence; numpy has nothing to add (a warning is an error here)."""
    with pytest.raises(InputError, match="not finite"):
        tkf.CircleDensity.from_function(lambda θ: np.exp(1e3 * sharp * np.cos(θ)))
    with pytest.raises(InputError, match="not negative"):
        tkf.Tokens.quadrature(lambda x: np.exp(1e3 * sharp * x[:, 0]), interval=(0.0, 1.0))
    if sharp < 1e5:
        mu = tkf.CircleDensity.von_mises(sharp)
        # R = I_1(κ)/I_0(κ) = 1 - 1/2κ - 1/8κ² - ..., where nothing cancels
        assert abs(float(mu.order) - special.ive(1, sharp) / special.ive(0, sharp)) < 1e-9
        assert np.all(np.isfinite(mu.sample(3).x))
    else:
        with pytest.raises(InputError, match=r"not resolved|have mass"):
            tkf.CircleDensity.von_mises(sharp)


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: tkf.Tokens.uniform_sphere(50, 4, seed=seed),
        lambda seed: tkf.Tokens.gaussian(50, 4, seed=seed),
        lambda seed: tkf.Tokens.uniform_box(50, 4, seed=seed),
        lambda seed: tkf.Tokens.orthonormal(3, 4, seed=seed),
        lambda seed: tkf.Tokens.equiangular(3, 0.2, 4, seed=seed),
    ],
)
def test_seeds_decide(make):
    assert np.array_equal(make(1).x, make(1).x)
    assert not np.allclose(make(1).x, make(2).x)
    assert make(1).origin["seed"] == 1


def test_laws():
    n = 20_000
    sphere = tkf.Tokens.uniform_sphere(n, 3, seed=0)
    assert np.allclose(sphere.radii, 1, atol=1e-14)
    assert np.allclose(sphere.x.T @ sphere.x / n, np.eye(3) / 3, atol=4 / np.sqrt(n))
    cov = np.array([[2.0, 0.7], [0.7, 0.5]])
    normal = tkf.Tokens.gaussian(n, 2, mean=[3.0, -1.0], cov=cov, seed=0)
    assert np.allclose(normal.mean, [3, -1], atol=6 / np.sqrt(n))
    assert np.allclose(np.cov(normal.x.T), cov, atol=12 / np.sqrt(n))
    line = tkf.Tokens.gaussian(10, 2, cov=[[1.0, 1.0], [1.0, 1.0]])
    assert np.allclose(line.x[:, 0], line.x[:, 1]), "a singular covariance is a covariance"
    box = tkf.Tokens.uniform_box(n, 2, low=2, high=6, seed=0)
    assert np.allclose(box.mean, 4, atol=6 / np.sqrt(n)) and np.allclose(np.var(box.x, axis=0), 16 / 12, atol=0.05)


@given(n=st.integers(2, 12), share=st.floats(0, 1), extra=st.integers(0, 3), seed=st.none() | st.integers(0, 99))
@settings(max_examples=10, deadline=None)
def test_equiangular_has_its_gram_matrix(n, share, extra, seed):
    least = -1 / (n - 1)
    rho = least + share * (1 - least)
    mu = tkf.Tokens.equiangular(n, rho, d=n + extra, seed=seed)
    assert np.allclose(mu.gram, np.full((n, n), rho) + (1 - rho) * np.eye(n), atol=1e-12)


def test_the_simplex_needs_one_dimension_less():
    mu = tkf.Tokens.equiangular(4, -1 / 3)
    assert mu.d == 3 and np.allclose(mu.gram, np.full((4, 4), -1 / 3) + 4 / 3 * np.eye(4), atol=1e-12)
    assert np.allclose(tkf.Tokens.orthonormal(3, 5, seed=8).gram, np.eye(3), atol=1e-14)


def test_origin_is_not_part_of_the_pytree():
    import jax

    one, two = tkf.Tokens.uniform_sphere(5, 3, seed=1), tkf.Tokens.uniform_sphere(5, 3, seed=2)
    assert jax.tree.structure(one) == jax.tree.structure(two)
    assert jax.tree.structure(one) == jax.tree.structure(tkf.Tokens(one.x))
    assert tkf.Tokens(one.x).origin is None and one.with_points(two.x).origin is None


def test_origins_live_as_long_as_their_tokens():
    import gc

    from tokenfield.measures.tokens import _ORIGINS

    gc.collect()
    before = len(_ORIGINS)
    mu = tkf.Tokens.uniform_sphere(5, 3)
    assert len(_ORIGINS) == before + 1 and mu.origin["n"] == 5
    del mu
    gc.collect()
    assert len(_ORIGINS) == before
