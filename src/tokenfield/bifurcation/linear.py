"""Linear stability of the uniform measure on S^{d-1} under a noisy Transformer  [rigollet2025, section 7]."""

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._types import Count, Number, no_type_check
from tokenfield.bifurcation.coupling import coupling
from tokenfield.flow import Flow


@front_door
@no_type_check
def growth_rates(flow: Flow, d: Count, degree: Count, kappa: Number | None = None) -> Float[np.ndarray, " {degree}+1"]:
    r"""The growth rates of harmonics around the uniform measure: $l(l+d-2)\,(V c_l/β - 1/κ)$ for those of degree l under USA.

    For SA, $c_l/c_0$ takes the place of $c_l = Γ(d/2)(2/β)^{d/2-1} I_{l+d/2-1}(β)$  [rigollet2025, section 7]. They are exact
    as β → 0, and at any β with `scaled=True`.

    **Arguments**

    - `flow`: `tkf.sa(...)` or `tkf.usa(...)`, matrices multiples of the identity.
    - `d`: the sphere is S^{d-1}.
    - `degree`: the highest degree.
    - `kappa`: noise √(2/κ) dW; left out, the flow's own, and where it has none there is none, 1/κ = 0.

    **Returns** the rates for l = 0..degree.

    **Raises** `InputError` for other flows, and where a number is not what it should be.

    >>> import tokenfield as tkf
    >>> growth_rates(tkf.kuramoto(), d=2, degree=2, kappa=4.0).tolist()          # 1/2 - 1/4, then 4 · (0 - 1/4)
    [0.0, 0.25, -1.0]
    """
    model, d = coupling(flow), _dimension(d)
    degree = check.whole("degree", degree, 0, "the highest degree")
    strengths = model.strengths(d, degree)
    l = np.arange(degree + 1)
    noise = _inverse(model.kappa if kappa is None else check.number("kappa", kappa, positive=True))
    return l * (l + d - 2.0) * (strengths - noise) + 0.0  # -0 + 0 = 0


@front_door
@no_type_check
def most_unstable(flow: Flow, d: Count, kappa: Number | None = None) -> int:
    r"""The degree l of the harmonics that grow fastest around the uniform measure  [rigollet2025, section 5].

    On the circle, without noise and for large β, it is about $\sqrt{2β}$: the number of early clusters.

    **Arguments**

    - `flow`, `d`, `kappa`: as for `growth_rates`.

    **Returns** the degree; 0 where none grows.

    **Raises** `InputError` for other flows, and where a number is not what it should be.

    >>> import tokenfield as tkf
    >>> most_unstable(tkf.sa(200.0), d=2)
    20
    """
    degree = 16 + math.ceil(4 * math.sqrt(2 * abs(coupling(flow).beta)))
    return int(np.argmax(growth_rates(flow, d, degree, kappa)))


@front_door
@no_type_check
def bifurcation_kappas(flow: Flow, d: Count, degree: Count) -> Float[np.ndarray, " {degree}"]:
    r"""The values $κ_l = 1/(V c_l/β)$ where harmonics of degree l begin to grow around the uniform measure.

    There a branch of other stationary states starts. For SA, $c_l/c_0$ takes the place of $c_l$  [rigollet2025, section 7].

    **Arguments**

    - `flow`, `d`, `degree`: as for `growth_rates`; the flow's own noise does not matter.

    **Returns** κ_l for l = 1..degree; inf where harmonics of this degree never grow.

    **Raises** `InputError` for other flows, and where a number is not what it should be.

    >>> import tokenfield as tkf
    >>> bifurcation_kappas(tkf.usa(2.0), d=2, degree=2).round(6).tolist()          # 2/I_1(2), 2/I_2(2)
    [1.257358, 2.902975]
    """
    λ = coupling(flow).strengths(_dimension(d), check.whole("degree", degree, 1, "the highest degree"))[1:]
    return np.divide(1.0, λ, out=np.full(λ.shape, np.inf), where=λ > np.finfo(float).tiny)


@front_door
@no_type_check
def critical_kappa(flow: Flow, d: Count) -> float:
    r"""The critical $κ_c = \min_l κ_l$, below which noise keeps the uniform measure stable.

    [rigollet2025, section 7]. For V > 0 degree 1 goes first; β → 0 gives κ_c = d/V.

    **Arguments**

    - `flow`, `d`: as for `growth_rates`; the flow's own noise does not matter.

    **Returns** κ_c; inf where nothing is ever unstable, as for V < 0.

    **Raises** `InputError` for other flows, and where d is not a whole number of at least 2.

    >>> import tokenfield as tkf
    >>> critical_kappa(tkf.kuramoto(), d=3), critical_kappa(tkf.usa(1.0, V=-1.0), d=3)
    (3.0, inf)
    """
    return float(bifurcation_kappas(flow, d, 2).min())  # |c_l| decreases in l: degree 1 is first, or 2 where V, β < 0


def _dimension(d: Any) -> int:
    return check.whole("d", d, 2, "tokens on the sphere in R^d")


def _inverse(kappa: float | None) -> float:
    return 0.0 if kappa is None else 1 / kappa
