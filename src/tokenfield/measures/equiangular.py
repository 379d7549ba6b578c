"""Equiangular tokens: n vectors of equal length, every two at the same angle."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._types import Scalar, Whole
from tokenfield.errors import InputError
from tokenfield.measures.base import AbstractMeasure
from tokenfield.measures.tokens import Tokens


class Equiangular(AbstractMeasure):
    r"""Equiangular tokens: n vectors $x_i = rθ_i$ of one length with $⟨θ_i, θ_j⟩ = ρ$ for i ≠ j.

    Attention whose matrices are multiples of the identity keeps them so  [rigollet2025, section 6.1]. It is the gap 1 - ρ that
    is kept, as its logarithm, so that it has all its digits when ρ is 1 to sixteen of them.

    **Arguments**

    - `rho`: the common cosine, -1/(n-1) ≤ ρ < 1.
    - `n`: how many, 2 or more, as many as 10¹⁶.
    - `r`: their length.
    - `gap`, `log_gap`: 1 - ρ or log(1 - ρ), one of them in place of ρ.

    **Raises** `InputError` where n is missing, the angle is not given exactly once, or no such vectors exist.

    >>> mu = Equiangular(rho=0.5, n=2000)
    >>> float(mu.rho), float(mu.gap), int(mu.n)
    (0.5, 0.5, 2000)
    >>> Equiangular(gap=1e-30, n=10).log_gap.item()
    -69.07755278982137
    """

    log_gap: Float[Array, "*batch"]
    r: Float[Array, "*batch"]
    n: Float[Array, "*batch"]
    axes: ClassVar = {"log_gap": (), "r": (), "n": ()}
    quantities: ClassVar = ("rho", "r")

    @classmethod
    def constructors(cls) -> Mapping[str, Callable[..., "Equiangular"]]:
        return {"equiangular_measure": cls}

    @front_door
    def __init__(
        self, rho: Scalar = None, n: Scalar = None, r: Scalar = 1.0, *, gap: Scalar = None, log_gap: Scalar = None
    ):
        if n is None:
            raise InputError("Equiangular tokens need their number `n`, e.g. Equiangular(rho=0.0, n=2000).")
        if sum(part is not None for part in (rho, gap, log_gap)) != 1:
            raise InputError("Give the angle once: rho, or gap = 1 - rho, or log_gap = log(1 - rho).")
        self.n = _count(n)
        self.r = check.scalar("r", r)
        if not check.traced(self.r) and not float(self.r) > 0:
            raise InputError(f"Argument `r`, the length of the tokens, must be positive, but is {float(self.r):g}.")
        if log_gap is not None:
            self.log_gap = check.scalar("log_gap", log_gap)
        else:
            gap = _gap(check.scalar("rho", rho)) if gap is None else check.scalar("gap", gap)
            if not check.traced(gap) and not float(gap) > 0:
                raise InputError(
                    f"Equiangular tokens need ρ < 1, but 1 - ρ = {float(gap):g}. At ρ = 1 they are one token and rest; to "
                    "come closer than 1e-16 to it, give gap=."
                )
            self.log_gap = jnp.log(gap) if check.traced(gap) else check.on_device(np.log(np.asarray(gap)))
        self._exists()

    def _exists(self) -> None:
        """Some vectors have these angles: 1 + (n-1)ρ ≥ 0."""
        if not check.traced((self.log_gap, self.n)):
            n, gap = float(self.n), float(np.exp(np.float64(self.log_gap)))
            if gap > n / (n - 1) * (1 + 1e-12):
                raise InputError(
                    f"Argument `rho` must be at least -1/(n-1) = {-1 / (n - 1):g} for n = {n:g}, but is {1 - gap:g}: no "
                    "such vectors exist."
                )

    @property
    def origin(self) -> dict[str, Any] | None:
        if check.traced(self) or self.log_gap.ndim:
            return None
        return {"kind": "equiangular_measure", "rho": float(self.rho), "n": float(self.n), "r": float(self.r)}

    @property
    def gap(self) -> Float[Array, "*batch"]:
        """1 - ρ."""
        return jnp.exp(self.log_gap)

    @property
    def rho(self) -> Float[Array, "*batch"]:
        """The common cosine ρ."""
        return 0.0 - jnp.expm1(self.log_gap)

    @property
    def spread(self) -> Float[Array, "*batch"]:
        """The distance of every token from the mean, r √((1-ρ)(1-1/n))."""
        return self.r * jnp.exp(0.5 * self.log_gap) * jnp.sqrt(1 - 1 / self.n)

    @property
    def excess(self) -> Float[Array, "*batch"]:
        """1 + (n-1)ρ, which is n|mean|²/r²: n when all have met, 0 for a regular simplex."""
        return jnp.maximum(1 + (self.n - 1) * self.rho, 0.0)

    @property
    def alignment(self) -> Float[Array, "*batch"]:
        """u = log[(1 + (n-1)ρ)/(1 - ρ)], from -∞ for a regular simplex to ∞ when all have met. Attention moves it at the
        rate 2nq, whatever ρ; with it ρ has all its digits at both ends, also where it is of order 1/n."""
        return jnp.maximum(jnp.log(self.excess) - self.log_gap, -1e5)

    def with_alignment(self, alignment: Float[Array, ""], r: Float[Array, ""]) -> "Equiangular":
        """The same number of tokens at another alignment u and length r: 1 - ρ = n/(n - 1 + e^u).

        **Arguments**

        - `alignment`: u.
        - `r`: the length of the tokens.

        **Returns** the tokens there.
        """
        far = alignment > 30
        near = jnp.log1p(jnp.expm1(jnp.where(far, 0.0, alignment)) / self.n)
        beyond = jnp.logaddexp(jnp.log(self.n - 1), alignment) - jnp.log(self.n)
        return Equiangular(log_gap=-jnp.where(far, beyond, near), n=self.n, r=r)

    def mixed(self, own: Float[Array, ""], other: Float[Array, ""]) -> "Equiangular":
        r"""The tokens $\text{own}\cdot θ_i + \text{other}\cdot\sum_{j≠i} θ_j$ of the directions θ, which are equiangular again:
        the eigenvalues 1 - ρ and 1 + (n-1)ρ of the θ's Gram matrix are multiplied by squares.

        **Arguments**

        - `own`: the part of each direction in its own token.
        - `other`: its part in every other token.

        **Returns** the new tokens.
        """
        across, along = own - other, own + (self.n - 1) * other
        r = jnp.sqrt((1 - 1 / self.n) * self.gap * across**2 + self.excess / self.n * along**2)
        return self.with_alignment(self.alignment + 2 * jnp.log(jnp.abs(along / across)), r)

    @front_door
    def tokens(self, d: Whole = None, seed: Whole = None) -> Tokens:
        """Actual tokens in this position.

        **Arguments**

        - `d`: the dimension of their space; the least that holds them when left out, n unless they are a regular simplex.
        - `seed`: the seed of a random rotation; none when left out.

        **Returns** n tokens in R^d.

        **Raises** `InputError` where R^d has no room for them.

        >>> Equiangular(rho=0.0, n=3, r=2.0).tokens().gram.tolist()
        [[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 4.0]]
        """
        directions = Tokens.equiangular(int(self.n), float(self.rho), d, seed)
        return directions.with_points(self.r * directions.x)

    def __repr__(self) -> str:
        if check.traced(self) or self.log_gap.ndim:
            return f"Equiangular({'traced' if check.traced(self) else f'{self.log_gap.shape} states'})"
        angle = f"rho={float(self.rho):.6g}" if float(self.gap) > 1e-5 else f"rho=1-{float(self.gap):.4g}"
        radius = "" if float(self.r) == 1 else f", r={float(self.r):g}"
        return f"Equiangular({angle}, n={float(self.n):.16g}{radius})"


def _gap(rho: Float[Array, ""]) -> Float[Array, ""]:
    """1 - ρ."""
    return 1 - rho if check.traced(rho) else jnp.asarray(1 - np.asarray(rho))


def _count(n: Any) -> Float[Array, ""]:
    """The number of tokens; it decides no shape, so it may be huge, and traced."""
    count = check.scalar("n", n)
    if not check.traced(count) and not (float(count) >= 2 and float(count) == round(float(count))):
        raise InputError(f"Argument `n` must be a whole number of tokens, 2 or more, but is {float(count):g}.")
    return count
