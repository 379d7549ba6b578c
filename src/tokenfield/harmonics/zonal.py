"""Zonal harmonics: functions on S^{d-1} of the height t = ⟨x, e_1⟩ alone, in any dimension."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenfield._checks import room, whole
from tokenfield._types import AnyArray, Count
from tokenfield.errors import InputError
from tokenfield.harmonics.base import AbstractHarmonics
from tokenfield.harmonics.fourier import checked_degree, frozen, parts, resized
from tokenfield.harmonics.kernel import log_dimension


@dataclasses.dataclass(frozen=True)
class Zonal(AbstractHarmonics):
    r"""The zonal harmonics on S^{d-1}: $e_l(t) ∝ C_l^{(d/2-1)}(t)$, $t = ⟨x, e_1⟩$, $e_l(1) > 0$.

    They are orthonormal with respect to the law of t when x is uniform on S^{d-1}, of density ∝ $(1-t^2)^{(d-3)/2}$: for d = 2
    they are $1, \sqrt2\,T_l$, for d = 3 $\sqrt{2l+1}\,P_l$. The grid has the nodes of Gauss–Jacobi quadrature; its points are
    (t, √(1-t²), 0, ...).

    **Arguments**

    - `d`: the sphere is S^{d-1}, 2 or more.
    - `degree`: the highest degree, 1 or more.

    **Raises** `InputError` where they are not, or the harmonics leave the range of floating-point numbers.

    >>> basis = Zonal(8, 2)
    >>> f = basis.synthesize(jnp.array([0.0, 1.0, 0.0]))
    >>> bool(np.allclose(f, np.sqrt(8) * basis.t))              # e_1 = √d t
    True
    """

    most: ClassVar[int] = 768
    d: Count
    degree: Count

    def __post_init__(self):
        object.__setattr__(self, "d", whole("d", self.d, 2, "the dimension of the space around the sphere"))
        object.__setattr__(self, "degree", checked_degree(self.degree))
        room(3 * 8 * 1.5 * self.degree**2, f"Zonal harmonics of degree {self.degree}")
        _check_range(self.d, self.degree)

    @property
    def degrees(self) -> np.ndarray:
        return np.arange(self.degree + 1)

    @property
    def t(self) -> np.ndarray:
        """Heights of the grid points, increasing, shape (m,)."""
        return gauss(self.d, _nodes(self.degree))[0]

    @property
    def points(self) -> np.ndarray:
        room(2 * 8 * len(self.t) * self.d, f"Points of the sphere in {self.d} dimensions")
        points = np.zeros((len(self.t), self.d))
        points[:, 0], points[:, 1] = self.t, np.sqrt((1 - self.t) * (1 + self.t))
        return points

    @property
    def weights(self) -> np.ndarray:
        return gauss(self.d, _nodes(self.degree))[1]

    def synthesize(self, coefficients: Float[Array, "*batch size"]) -> Float[Array, "*batch m"]:
        return coefficients @ _table(self, "synthesis", coefficients.dtype)

    def analyze(self, values: Float[Array, "*batch m"]) -> Float[Array, "*batch size"]:
        return values @ _table(self, "analysis", values.dtype)

    def evaluate(self, coefficients: Float[np.ndarray, " size"], x: Float[np.ndarray, "k d"]) -> np.ndarray:
        f = np.zeros(len(x))
        for part in parts(len(x)):
            for c, e in zip(coefficients, gegenbauer(x[part, 0], self.d, self.degree), strict=True):
                f[part] += c * e
        return f

    def moments(self, x: Float[np.ndarray, "n d"], w: Float[np.ndarray, " n"]) -> np.ndarray:
        sums = np.zeros(self.size)
        for part in parts(len(x)):
            sums += [w[part] @ e for e in gegenbauer(x[part, 0], self.d, self.degree)]
        return sums

    def refined(self, degree: int) -> "Zonal":
        return Zonal(self.d, degree)

    def resize(self, coefficients: Float[AnyArray, "*batch size"], degree: int) -> Float[Array, "*batch other"]:
        return resized(coefficients, self.refined(degree).size)


def recurrence(d: int, n: int) -> np.ndarray:
    r"""$b_1, \dots, b_n$ of $t\,e_l = b_{l+1} e_{l+1} + b_l e_{l-1}$: $b_l^2 = \frac{l(l+d-3)}{(2l+d-2)(2l+d-4)}$."""
    l = np.arange(2.0, n + 1)
    first = [1 / d]  # the formula cancels to this; for d = 2 it would read 0/0
    return np.sqrt(np.concatenate([first, l * (l + d - 3) / ((2 * l + d - 2) * (2 * l + d - 4))])[:n])


def gegenbauer(t: np.ndarray, d: int, degree: int) -> Iterator[np.ndarray]:
    """e_0(t), ..., e_degree(t), one after the other."""
    before, now, last = np.zeros_like(t), np.ones_like(t), 0.0
    yield now
    for b in recurrence(d, degree):
        before, now, last = now, (t * now - last * before) / b, b
        yield now


@functools.lru_cache(maxsize=64)
def gauss(d: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes, increasing, and weights, sum 1, of Gauss quadrature with n ≥ 2 nodes for the law of t on S^{d-1}.

    In high dimension the outermost weights may fall below the least float; they are kept at that, positive.
    """
    t, root = _gauss(d, n)
    return t, frozen(np.maximum(root * root, np.finfo(float).tiny))


@functools.lru_cache(maxsize=64)
def _gauss(d: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and square roots of the weights: those are floats even where the weights are too small to be."""
    from scipy.linalg import eigh_tridiagonal

    t = np.asarray(eigh_tridiagonal(np.zeros(n), recurrence(d, n - 1), eigvals_only=True))  # Golub and Welsch
    t = (t - t[::-1]) / 2
    t = t - _christoffel(t, d, n)[0]
    t = (t - t[::-1]) / 2
    _, root = _christoffel(t, d, n)
    root = (root + root[::-1]) / 2
    return frozen(t), frozen(root / np.linalg.norm(root))


def _christoffel(t: np.ndarray, d: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Newton's step e_n/e_n' near the zeros of e_n, and the square roots of Christoffel's numbers 1/Σ_{l<n} e_l².

    At a zero b_n e_n' e_{n-1} = Σ_{l<n} e_l² (Christoffel, Darboux), so the step is a ratio that no scaling changes.
    """
    before, now, last = np.zeros_like(t), np.ones_like(t), 0.0
    total, exponent = np.ones_like(t), np.zeros(len(t), int)
    for b in recurrence(d, n - 1):
        before, now, last = now, (t * now - last * before) / b, b
        total = total + now * now
        # The sums leave the range of floats in high dimension: powers of two are taken out, which rounds nothing.
        shift = np.where(total > 2.0**400, 200, 0)
        before, now, total = np.ldexp(before, -shift), np.ldexp(now, -shift), np.ldexp(total, -2 * shift)
        exponent = exponent + shift
    after = t * now - last * before  # b_n e_n
    return after * now / total, np.ldexp(1 / np.sqrt(total), -exponent)


def _nodes(degree: int) -> int:
    """Enough for products of three: n nodes are exact to degree 2n - 1."""
    return (3 * degree) // 2 + 1


@functools.lru_cache(maxsize=64)
def _tables(d: int, degree: int) -> dict[str, np.ndarray]:
    """e_l(t_i), shape (size, m), and w_i e_l(t_i), shape (m, size)."""
    t, root = _gauss(d, _nodes(degree))
    e = np.stack(list(gegenbauer(t, d, degree)))
    # In high dimension e is huge where w is tiny; √w e never is either, and w alone may not be a float.
    return {"synthesis": frozen(e), "analysis": frozen(np.ascontiguousarray((root * (root * e)).T))}


def _table(basis: Zonal, name: str, dtype: np.dtype) -> Array:
    table = _tables(basis.d, basis.degree)[name]
    if np.max(np.abs(table)) > np.finfo(dtype).max:
        raise InputError(
            f"{basis} has values up to {np.max(np.abs(table)):.0e}, but {dtype} ends at {np.finfo(dtype).max:.0e}. "
            "Use float64, or a lower degree."
        )
    return jnp.asarray(table, dtype)


def _check_range(d: int, degree: int) -> None:
    """e_l(1) is the square root of the number of harmonics of degree l; it must be a float."""
    top = float(log_dimension(np.array([degree]), d)[0]) / 2 / np.log(10)
    if top > 280:
        raise InputError(
            f"Argument `degree` must be such that the harmonics are within floats (below 1e280), but for d = {d} and "
            f"degree {degree} they reach 1e{top:.0f} at the pole. Use a lower degree."
        )
