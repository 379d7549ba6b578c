"""Softmax attention, the kernel of the SA model."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tokenfield._front import front_door
from tokenfield._types import Matrix, Scalar
from tokenfield.attention.base import Coupling, Points
from tokenfield.attention.dot_product import AbstractExponential, dot_product_parameters
from tokenfield.attention.matrices import apply, columns, scale
from tokenfield.harmonics import AbstractHarmonics, Eigenvalues, kernel_eigenvalues
from tokenfield.measures import Equiangular, Tokens
from tokenfield.parameters import Parameter
from tokenfield.summation import AbstractSummation


class Softmax(AbstractExponential):
    r"""$\Gamma_\mu(x) = \int e^{\beta\langle Qx, Ky\rangle} V y\,d\mu(y) / \int e^{\beta\langle Qx, Ky\rangle} d\mu$.

    [rigollet2025, equation (1)]. Finite at any β: exponents are shifted by their largest.

    **Arguments**

    - `beta`: the inverse temperature.
    - `Q`, `K`: matrices of shape (k, d), `V`: of shape (d, d); a number c means c·I, left out means I.
    - `A`: the (d, d) matrix KᵀQ, instead of Q and K.

    Each may be a function of t, or have one value per layer along a first axis (`PerLayer`).

    **Raises** `InputError` where both A and Q or K are given, or a parameter is not finite or of no such shape.

    >>> mu = Tokens([[1.0, 0.0], [0.0, 1.0]])
    >>> Softmax(beta=0.0)(mu).tolist()          # without temperature, everyone sees the mean
    [[0.5, 0.5], [0.5, 0.5]]
    >>> Softmax(beta=1e4)(mu, [0.6, 0.8]).tolist()     # and at a large β, only the most aligned token
    [0.0, 1.0]
    """

    beta: Parameter
    Q: Parameter
    K: Parameter
    V: Parameter
    A: Parameter

    @front_door
    def __init__(self, beta: Scalar = 1.0, Q: Matrix = None, K: Matrix = None, V: Matrix = None, A: Matrix = None):
        self.beta, self.Q, self.K, self.V, self.A = dot_product_parameters(beta, Q, K, V, A)

    @property
    def averages(self) -> bool:
        return True

    def weigh(
        self, mu: Tokens, x: Points, values: Float[Array, "n p"], summation: AbstractSummation
    ) -> Float[Array, "m p"]:
        return self.sums(mu, x, values, summation).average

    def coupling(self) -> Coupling:
        return self.couple("sa", 0.0)

    def gaussian(
        self, mean: Float[Array, " d"], L: Float[Array, "d k"], directions: Float[Array, "d j"] | None = None
    ) -> tuple[Float[Array, " p"], Float[Array, "p j"]]:
        """Γ(x) = V (m + ΣSx)  [castin2025]."""
        S = self.score(len(mean))
        tilt = lambda x: L @ (L.T @ (S @ x))
        return apply(self.V, mean + tilt(mean)), columns(self.V, tilt(L if directions is None else directions))

    def equiangular(self, mu: Equiangular) -> tuple[Float[Array, ""], Float[Array, ""]]:
        return softmax_pair(self.V, self.strength(), mu)

    def spectrum(self, d: int, degree: int) -> Eigenvalues:
        return kernel_eigenvalues(self.strength(), d, degree)

    def potential(
        self, f: Float[Array, "*batch size"], basis: AbstractHarmonics, spectrum: Eigenvalues
    ) -> Float[Array, "*batch size"]:
        """φ = (V/β) log ∫ e^{β<x,y>} dμ(y), whatever is constant left out. With the integral c_0 (1 + βS) this is
        V S log(1+βS)/βS, which has no trouble at β = 0. Where nothing is left of the integral, its logarithm is bounded."""
        β = self.strength()
        S = basis.synthesize(spectrum.slope[basis.degrees] * f)
        u = jnp.maximum(β * S, SMALLEST - 1)
        quotient = jnp.where(jnp.abs(u) < 1e-8, 1 - 0.5 * u, jnp.log1p(u) / jnp.where(u == 0, 1.0, u))
        return scale(self.V, basis.analyze(S * quotient))


SMALLEST = 1e-14
"""The least share of its mean that the softmax denominator of a density is trusted to."""


def softmax_pair(V: Parameter, coupling: Array, mu: Equiangular) -> tuple[Array, Array]:
    """p : q = 1 : e^{-β(1-ρ)r²} and p + (n-1)q = V  [rigollet2025, section 6.1]; in logarithms, so that n may be 10¹⁶."""
    others = jnp.log(mu.n - 1) - coupling * mu.gap * mu.r**2
    return scale(V, jax.nn.sigmoid(-others)), scale(V, jax.nn.sigmoid(others) / (mu.n - 1))
