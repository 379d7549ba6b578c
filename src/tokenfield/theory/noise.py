"""Linear stability of the uniform measure on S^{d-1} under a noisy Transformer  [rigollet2025, section 7]."""

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from tokenfield import _checks as check
from tokenfield._types import Whole
from tokenfield.theory.coupling import coupling


def growth_rates(flow: Any, d: Whole, degree: Whole, kappa: Any = None) -> Float[np.ndarray, " {degree}+1"]:
    r"""Growth rates of the harmonics of degree l = 0..degree around the uniform measure:
    $l(l+d-2)\,(V c_l/β - 1/κ)$ for USA, with $c_l/c_0$ in place of $c_l$ for SA  [rigollet2025, section 7].

    $c_l = Γ(d/2)(2/β)^{d/2-1} I_{l+d/2-1}(β)$. `kappa` overrides the flow's own noise; without either there is none,
    1/κ = 0. Exact as β → 0, and at any β with `scaled=True`.

    >>> import tokenfield as tkf
    >>> growth_rates(tkf.kuramoto(), d=2, degree=2, kappa=4.0).tolist()          # 1/2 - 1/4, then 4 · (0 - 1/4)
    [0.0, 0.25, -1.0]
    """
    model, d = coupling(flow), _dimension(d)
    l = np.arange(check.whole("degree", degree, 0, "the highest degree") + 1)
    noise = _inverse(model.kappa if kappa is None else check.number("kappa", kappa, positive=True))
    return l * (l + d - 2.0) * (model.strengths(d, len(l) - 1) - noise) + 0.0  # -0 + 0 = 0


def most_unstable(flow: Any, d: Whole, kappa: Any = None) -> int:
    """The degree l that grows fastest around the uniform measure; 0 where none grows  [rigollet2025, section 5].

    Without noise and for large β about √(2β) on the circle: the number of early clusters.

    >>> import tokenfield as tkf
    >>> most_unstable(tkf.sa(200.0), d=2)
    20
    """
    degree = 16 + math.ceil(4 * math.sqrt(2 * abs(coupling(flow).beta)))
    return int(np.argmax(growth_rates(flow, d, degree, kappa)))


def bifurcation_kappas(flow: Any, d: Whole, degree: Whole) -> Float[np.ndarray, " {degree}"]:
    r"""$κ_l = 1/(V c_l/β)$ (SA: $c_l/c_0$ for $c_l$), l = 1..degree: where harmonics of degree l begin to grow around the
    uniform measure, and a branch of other stationary states starts; inf where they never do  [rigollet2025, section 7].

    >>> import tokenfield as tkf
    >>> bifurcation_kappas(tkf.usa(2.0), d=2, degree=2).round(6).tolist()          # 2/I_1(2), 2/I_2(2)
    [1.257358, 2.902975]
    """
    λ = coupling(flow).strengths(_dimension(d), check.whole("degree", degree, 1, "the highest degree"))[1:]
    return np.divide(1.0, λ, out=np.full(λ.shape, np.inf), where=λ > np.finfo(float).tiny)


def critical_kappa(flow: Any, d: Whole) -> float:
    r"""$κ_c = \min_l κ_l$: below it noise keeps the uniform measure stable; inf where nothing is ever unstable, as for V < 0.

    [rigollet2025, section 7]. For V > 0 degree 1 goes first; β → 0 gives κ_c = d/V.

    >>> import tokenfield as tkf
    >>> critical_kappa(tkf.kuramoto(), d=3), critical_kappa(tkf.usa(1.0, V=-1.0), d=3)
    (3.0, inf)
    """
    return float(bifurcation_kappas(flow, d, 2).min())  # |c_l| decreases in l: degree 1 is first, or 2 where V, β < 0


def _dimension(d: Any) -> int:
    return check.whole("d", d, 2, "tokens on the sphere in R^d")


def _inverse(kappa: float | None) -> float:
    return 0.0 if kappa is None else 1 / kappa
