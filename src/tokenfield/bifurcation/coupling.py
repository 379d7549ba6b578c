"""How strongly a flow couples harmonics: the few numbers of a flow that theory on the sphere needs."""

import dataclasses
import functools
import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tokenfield import _checks as check
from tokenfield._types import no_type_check
from tokenfield.errors import InputError
from tokenfield.flow import Flow
from tokenfield.harmonics import kernel_eigenvalues
from tokenfield.parameters import describe

BUCKET = 512
"""Eigenvalues are computed for this many degrees at a time, so that few sizes are ever compiled."""


@dataclasses.dataclass(frozen=True)
class Coupling:
    """A flow v = V ∫ e^{β<x,y> - log_unit} y dμ ("usa") or its softmax quotient ("sa") with noise κ (None: no noise)."""

    kind: str
    beta: float
    V: float
    log_unit: float
    kappa: float | None

    def strengths(self, d: int, degree: int) -> Float[np.ndarray, " {degree}+1"]:
        """λ_l = V c_l/β (usa) or V (c_l/c_0)/β (sa) for l = 0..degree; λ_0 = 0. A density 1 + ε e_l has the potential ελ_l e_l."""
        slope, _ = _slopes(self.beta, d, -(-(degree + 1) // BUCKET) * BUCKET)
        return self.V * self.unit(d) * slope[: degree + 1]

    def unit(self, d: int) -> float:
        """What multiplies (c_l/β)/c_0: c_0 e^{-log_unit} for usa, 1 for sa."""
        if self.kind == "sa":
            return 1.0
        exponent = _slopes(self.beta, d, BUCKET)[1] - self.log_unit
        if abs(exponent) > 690:
            raise InputError(
                f"At β = {self.beta:g} the unnormalized kernel leaves the range of floating-point numbers. Measure time "
                "in units of exp(-β): tkf.usa(beta, scaled=True)."
            )
        return math.exp(exponent)

    def uniform_energy(self, d: int) -> float:
        r"""-(V/2)(c_0 - 1)/β in the flow's unit: the free energy of the uniform state."""
        β = self.beta
        if abs(β) < 1e-3:  # c_0 - 1 = β²/2d + β⁴/8d(d+2) + ...
            return -self.V / 2 * math.exp(-self.log_unit) * (β / (2 * d) + β**3 / (8 * d * (d + 2)))
        return -self.V / 2 * (self.unit(d) - math.exp(-self.log_unit)) / β


@no_type_check
def coupling(flow: Flow) -> Coupling:
    """The coupling of a flow on the sphere whose matrices are multiples of the identity.

    **Arguments**

    - `flow`: softmax or unnormalized attention with `PostLN()`, with or without noise.

    **Returns** its numbers.

    **Raises** `InputError` for everything else, saying why.

    >>> import tokenfield as tkf
    >>> coupling(tkf.usa(3.0, Q=2.0, V=0.5))
    Coupling(kind='usa', beta=6.0, V=0.5, log_unit=0.0, kappa=None)
    """
    if not isinstance(flow, Flow):
        raise InputError(f"A Flow such as tkf.usa(beta=1.0) is needed, but got a {type(flow).__name__}.")
    known = flow.coupling()
    if not flow.normalization.tangential or not flow.normalization.timeless:
        raise InputError(
            f"This theory lives on the sphere and needs PostLN() without a gain, but the flow has "
            f"{describe(flow.normalization)}. Use tkf.sa(beta) or tkf.usa(beta)."
        )
    for name, part in (("MLP", flow.mlp), ("reweighting", flow.reweighting)):
        if part is not None:
            raise InputError(
                f"This theory knows flows of attention and noise alone, but this one has an {name}. Leave it out."
            )
    numbers = {name: check.number(name, getattr(known, name)) for name in ("beta", "V", "log_unit")}
    kappa = None if flow.kappa is None else check.number("kappa", flow.kappa, positive=True)
    return Coupling(kind=known.kind, kappa=kappa, **numbers)


@functools.lru_cache(maxsize=64)
def _slopes(beta: float, d: int, degree: int) -> tuple[Float[np.ndarray, " {degree}"], float]:
    """(c_l/β)/c_0 for l = 0..degree-1, and log c_0."""
    c = kernel_eigenvalues(jnp.asarray(beta), d, degree - 1)
    return np.asarray(c.slope, float), float(c.log_first)
