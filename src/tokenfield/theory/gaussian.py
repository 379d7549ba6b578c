"""Gaussians under softmax attention: the closed form, its blow-up and its limit."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float

from tokenfield._front import front_door
from tokenfield._types import no_type_check
from tokenfield.attention import Softmax
from tokenfield.attention.matrices import square
from tokenfield.errors import InputError
from tokenfield.flow import Flow
from tokenfield.measures import Gaussian
from tokenfield.normalization import Free
from tokenfield.parameters import scheduled


@dataclasses.dataclass(frozen=True)
class ClosedForm:
    r"""The covariance of a Gaussian under softmax attention, as a function of time:
    $Σ(t) = (Σ_0^{-1} - tM)^{-1} = L(I - tN)^{-1}L^⊤$ with $M = VS + S^⊤V^⊤$, $S = βK^⊤Q$, $Σ_0 = LL^⊤$ and $N = L^⊤ML$.

    [castin2025]. The second form needs no inverse of Σ₀, which may be singular. `closed_form` makes it.

    - `L`: a square root of Σ₀.
    - `rates`, `axes`: the eigenvalues of N and its eigenvectors, as columns.
    - `form(t)`: the covariance at a time.
    - `form.blow_up_time`, `form.limit`, `form.limit_rank`: when it becomes infinite, or what it tends to, and of which rank.
    """

    L: Float[np.ndarray, "d k"]
    rates: Float[np.ndarray, " k"]
    axes: Float[np.ndarray, "k k"]

    @front_door
    def __call__(self, t: float) -> Float[np.ndarray, "d d"]:
        """The covariance Σ(t).

        **Arguments**

        - `t`: a time, not negative and before the blow-up.

        **Returns** the matrix, shape (d, d).

        **Raises** `InputError` at other times.
        """
        if not 0 <= t < self.blow_up_time:
            raise InputError(f"The solution lives on [0, {self.blow_up_time:g}), but was asked for t = {t:g}.")
        return self._assemble(1 / (1 - t * self.rates))

    @property
    def blow_up_time(self) -> float:
        """t* = 1/λ_max(N) if that is positive; infinity otherwise."""
        top = float(self.rates.max())
        return 1 / top if top > 0 else float("inf")

    @property
    def limit(self) -> Float[np.ndarray, "d d"] | None:
        """Σ(t → ∞): what M does not contract; None where the solution blows up."""
        return None if np.isfinite(self.blow_up_time) else self._assemble((self.rates == 0).astype(float))

    @property
    def limit_rank(self) -> int | None:
        """The rank of the limit; None where there is none."""
        return None if np.isfinite(self.blow_up_time) else int(np.sum(self.rates == 0) - self._flat)

    @property
    def _flat(self) -> int:
        """Directions in which Σ₀ has no extent: their rate is 0, and they add nothing to the rank."""
        return int(np.sum(np.sum((self.L @ self.axes) ** 2, axis=0) <= 1e-14 * np.sum(self.L**2)))

    def _assemble(self, growth: np.ndarray) -> np.ndarray:
        columns = self.L @ self.axes
        return (columns * growth) @ columns.T


@front_door
@no_type_check
def closed_form(flow: Flow, mu: Gaussian) -> ClosedForm:
    r"""The covariance of a Gaussian under softmax attention in R^d in closed form, with its blow-up and its limit.

    It is known where V commutes with $M = VS + S^⊤V^⊤$, $S = βK^⊤Q$, and with Σ₀  [castin2025]: always if V is a multiple of
    the identity.

    **Arguments**

    - `flow`: `Flow(Softmax(...), Free())` with constant parameters, without noise and MLP.
    - `mu`: the Gaussian at t = 0.

    **Returns** a `ClosedForm`, to be called at times.

    **Raises** `InputError` for other flows and measures, and where V does not commute.

    >>> import tokenfield as tkf
    >>> form = closed_form(tkf.Flow(tkf.Softmax(beta=0.5), tkf.Free()), tkf.Gaussian([0.0, 0.0], [[1.0, 0.0], [0.0, 2.0]]))
    >>> round(form.blow_up_time, 12), np.round(form(0.25), 6).tolist()
    (0.5, [[1.333333, 0.0], [0.0, 4.0]])
    """
    _refuse_other_flows(flow, mu)
    d, attention = mu.d, flow.attention
    assert isinstance(attention, Softmax)
    V, S, Σ = (np.asarray(part, float) for part in (square(attention.V, d), attention.score(d), mu.cov))
    M = V @ S + (V @ S).T
    for name, other in (("M = VS + SᵀVᵀ", M), ("Σ₀", Σ)):
        if np.abs(V @ other - other @ V).max() > 1e-12 * np.abs(V).max() * max(np.abs(other).max(), 1e-300):
            raise InputError(
                f"The closed form needs V to commute with {name}, and it does not. `evolve` solves every case numerically."
            )
    L = np.asarray(mu.factor, float)
    rates, axes = np.linalg.eigh(L.T @ M @ L)
    rates[abs(rates) < 1e-12 * abs(rates).max()] = 0.0  # round-off
    return ClosedForm(L, rates, axes)


def _refuse_other_flows(flow: Any, mu: Any) -> None:
    if not isinstance(mu, Gaussian):
        raise InputError(f"The closed form is of a Gaussian, but got {type(mu).__name__}.")
    if (
        not isinstance(flow, Flow)
        or not isinstance(flow.attention, Softmax)
        or not isinstance(flow.normalization, Free)
    ):
        raise InputError(
            "The closed form is known for Flow(Softmax(...), Free()). `evolve` solves the others numerically."
        )
    if scheduled(flow) or flow.kappa is not None or flow.mlp is not None:
        raise InputError("The closed form needs constant parameters, no noise and no MLP. Use `evolve`.")
    flow.check(mu.d)
