"""What the estimates on Γ_μ are made of: norms of an attention's matrices, and how steep its scores are in a ball."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

import tokenfield as tkf
from tokenfield.errors import InputError
from tokenfield.theory.statements.given import flow_of


def written(part: Any, d: int, t: float = 0.0) -> np.ndarray:
    """A parameter as a matrix, at a time: left out it is the identity, a number a multiple of it."""
    if isinstance(part, tkf.Schedule | tkf.PerLayer):
        import jax.numpy as jnp

        part = part.value(jnp.asarray(t))
    value = np.asarray(1.0 if part is None else part, float)
    return value if value.ndim else value * np.eye(d)


def norm(part: Any, d: int, t: float = 0.0) -> float:
    """The spectral norm of a parameter."""
    return float(np.linalg.norm(written(part, d, t), 2))


def attention_of(run: tkf.Trajectory) -> Any:
    """The attention of a run's flow, of any kind."""
    return flow_of(run).attention


def averaging(attention: Any) -> bool:
    """Whether rows of the attention matrix are weights whose sum is at most 1: then |Γ_μ(x)| ≤ ‖V‖ R."""
    inner = attention.attention if isinstance(attention, tkf.Causal) else attention
    if isinstance(inner, tkf.MultiHead):
        return all(map(averaging, inner.heads))
    return isinstance(inner, tkf.Softmax | tkf.L2 | tkf.Sinkhorn | tkf.Sigmoid | tkf.Additive)


def value_norm(attention: Any, d: int, t: float = 0.0) -> float:
    """‖V‖, so that |Γ_μ(x)| ≤ ‖V‖ R for attention that averages; heads that are summed add up, others are stacked."""
    inner = attention.attention if isinstance(attention, tkf.Causal) else attention
    if not isinstance(inner, tkf.MultiHead):
        return norm(getattr(inner, "V", None), d, t)
    norms = [value_norm(head, d, t) for head in inner.heads]
    return sum(norms) if inner.output is None else norm(inner.output, d, t) * float(np.hypot.reduce(norms))


@dataclasses.dataclass(frozen=True)
class Scores:
    """Scores s(x, y) of attention that averages with weights ∝ e^s, for |x| ≤ r and |y| ≤ R.

    - `V`: the norm of V.
    - `cross`: the norm of the mixed derivative ∂_x ∂_y s, ‖A‖ for softmax.
    - `slope(r, R)`: how large ∂_y s may be, ‖A‖ r for softmax.
    - `spread(r, R)`: by how much scores of one x may differ, 2‖A‖rR for softmax.
    """

    V: float
    cross: float
    slope: Callable[[float, float], float]
    spread: Callable[[float, float], float]

    @classmethod
    def of(cls, attention: Any, d: int) -> Scores:
        """Those of softmax or L2 attention, causal or not; refused for others."""
        inner = attention.attention if isinstance(attention, tkf.Causal) else attention
        V = value_norm(inner, d)
        if isinstance(inner, tkf.Softmax):
            A = float(np.linalg.norm(np.asarray(inner.score(d)), 2))
            return cls(V, A, lambda r, R: A * r, lambda r, R: 2 * A * r * R)
        if isinstance(inner, tkf.L2):
            β, Q, K = float(inner.beta), norm(inner.Q, d), norm(inner.K, d)
            A = 2 * β * float(np.linalg.norm(written(inner.K, d).T @ written(inner.Q, d), 2))
            return cls(V, A, lambda r, R: 2 * β * K * (Q * r + K * R), lambda r, R: β * (Q * r + K * R) ** 2)
        raise InputError(
            f"These estimates are of softmax and L2 attention, causal or not, but got {type(inner).__name__}."
        )

    def field_constant(self, r: float, R: float, p: float, n: float = np.inf) -> float:
        """c with |Γ_μ(x) - Γ_ν(x)| ≤ c W_p(μ, ν) for |x| ≤ r, μ and ν in a ball of radius R: ‖V‖(1 + 2 slope R) m^(1/p), where the
        weights' density is at most m = e^spread, and at most n for n tokens of equal weight.

        Along the geodesic from μ to ν, whose points move at v, dΓ/ds = V ∫ k (1 + (y - Γ')(∂_y s)ᵀ) v dμ_s with ∫ k dμ_s = 1 and
        k ≤ m, and Hölder's inequality bounds ∫ k|v| dμ_s by ‖k‖_q ‖v‖_p ≤ m^(1/p) W_p.
        """
        return self.V * (1 + 2 * self.slope(r, R) * R) * self.crowding(r, R, n) ** (1 / p)

    def crowding(self, r: float, R: float, n: float = np.inf) -> float:
        """How dense the weights of attention may be beside those of the tokens."""
        return float(min(np.exp(min(self.spread(r, R), 700.0)), n))

    def map_constant(self, R: float, p: float, n: float = np.inf) -> float:
        """L with W_p(F(μ), F(ν)) ≤ L W_p(μ, ν) for F(μ) = (Γ_μ)_# μ: what the field changes at a point, and what moving the point
        does."""
        return self.V * self.cross * R**2 + self.field_constant(R, R, p, n)


def defined(attention: Any) -> bool:
    """Whether `Scores.of` knows this attention, with one value per parameter and a mask by position alone."""
    inner = attention
    if isinstance(attention, tkf.Causal):
        if attention.alibi is not None or attention.rotary is not None or attention.window is not None:
            return False
        inner = attention.attention
    return isinstance(inner, tkf.Softmax | tkf.L2)


def radius(mu: tkf.Tokens) -> float:
    """The radius of the ball around 0 that holds all tokens."""
    return float(np.linalg.norm(np.asarray(mu.x), axis=-1).max())


def quadrature(mu: tkf.Gaussian, k: int) -> tkf.Tokens:
    """Tokens that integrate polynomials of degree below 2k against a Gaussian exactly: the Gauss–Hermite product rule, in as many
    directions as the Gaussian has extent."""
    L = np.asarray(mu.factor)
    L = L[:, np.abs(L).max(axis=0) > 0]
    nodes, weights = np.polynomial.hermite_e.hermegauss(k)
    grid = np.stack(np.meshgrid(*[nodes] * L.shape[1], indexing="ij"), axis=-1).reshape(-1, L.shape[1])
    w = np.prod(np.stack(np.meshgrid(*[weights] * L.shape[1], indexing="ij"), axis=-1), axis=-1).ravel()
    return tkf.Tokens(np.asarray(mu.mean) + grid @ L.T, w / w.sum())
