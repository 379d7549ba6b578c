"""Harmonics about an axis: functions of t = <x, e_1>, alone or times harmonics of the directions around the axis."""

import math

import numpy as np
from jaxtyping import Float

from tokenfield.harmonics.kernel import log_dimension
from tokenfield.harmonics.zonal import gegenbauer


def zonal(d: int, degree: int, t: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n {degree}+1"]:
    """The functions e_0 = 1, e_1 = √d t, ..., orthonormal in the law of t, positive at t = 1 (where they are √dim_l).

    >>> zonal(2, 2, np.array([1.0, 0.0])).round(6).tolist()          # 1, √2 cos θ, √2 cos 2θ
    [[1.0, 1.414214, 1.414214], [1.0, 0.0, -1.414214]]
    """
    return np.stack(list(gegenbauer(t, d, degree)), axis=1)


def associated(d: int, degree: int, m: int, t: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n count"]:
    """Functions g_l(t), l = m..degree, orthonormal in the law of t, such that g_l(t) Y_m(ω) is a harmonic of degree l for
    every harmonic Y_m of degree m on S^{d-2}: (1-t²)^{m/2} times the zonal functions of dimension d + 2m.

    >>> associated(2, 1, 1, np.array([0.0])).round(6).tolist()          # √2 sin θ
    [[1.414214]]
    """
    k = np.arange(m)
    norm = np.prod((d / 2 + k) / ((d - 1) / 2 + k))
    return np.sqrt(norm) * ((1 - t) * (1 + t))[:, None] ** (m / 2) * zonal(d + 2 * m, degree - m, t)


def multiplicity(d: int, m: int) -> int:
    """How many independent harmonics of degree m there are on S^{d-2}; on the S⁰ of the circle, two points, 1 for m ≤ 1, else 0.

    >>> [multiplicity(3, m) for m in range(3)]
    [1, 2, 2]
    """
    return int(m < 2) if d == 2 else round(math.exp(float(log_dimension(np.array([m]), d - 1)[0])))


def dimension(d: int, degree: int) -> Float[np.ndarray, " {degree}+1"]:
    """How many independent harmonics of degree l = 0..degree there are on S^{d-1}; beyond 10²⁹⁹ cut off.

    >>> dimension(3, 2).round(9).tolist()
    [1.0, 3.0, 5.0]
    """
    return np.exp(np.minimum(log_dimension(np.arange(degree + 1), d), 690.0))
