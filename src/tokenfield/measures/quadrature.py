"""Quadrature rules with positive weights on intervals, boxes, balls and spheres, exact for polynomials."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import roots_jacobi, roots_legendre

from tokenfield import _checks as check
from tokenfield.errors import InputError
from tokenfield.harmonics.zonal import gauss

Rule = tuple[np.ndarray, np.ndarray]
"""Points (m, d) and weights (m,)."""
LARGEST = 10**7
"""Nodes that a rule may have."""
FINEST = 10**4
"""Nodes that it may have in one direction: finding them takes time in proportion to their square."""


def weighted_points(density: Callable, rule: Callable[[int], Rule], n: int) -> Rule:
    """Points and weights of the measure with this density, normalized; refused where n nodes do not resolve it."""
    if n > FINEST:
        raise InputError(
            f"Argument `n` must be at most {FINEST} nodes in each direction, but is {n}. Give a smaller n, or sample tokens."
        )
    x, w = rule(n)
    mass = w * _values(density, x)
    finer_x, finer_w = rule(n + max(2, n // 4))
    finer = float(np.sum(finer_w * _values(density, finer_x)))
    total = float(np.sum(mass))
    if not total > 0:
        raise InputError("A density must have mass, but the function is zero at all nodes.")
    if abs(total - finer) > 1e-3 * total:
        raise InputError(
            f"Too few nodes: with n = {n} the density has mass {total:.6g}, with a few more {finer:.6g}. Give a larger n, or "
            "a smaller domain."
        )
    kept = mass > 1e-300 * total
    return x[kept], mass[kept] / total


def _values(density: Callable, x: np.ndarray) -> np.ndarray:
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused below
            f = np.asarray(density(x), float)
    except InputError:
        raise
    except Exception as error:  # the density is the user's, and may raise anything
        raise InputError(
            f"The density must be a function of points, shape (m, d) = {x.shape}, to numbers, but it raised "
            f"{type(error).__name__}: {check.brief(str(error))}."
        ) from error
    if f.shape not in ((len(x),), (len(x), 1)):
        raise InputError(f"The density must give one number per point, shape ({len(x)},), but gave shape {f.shape}.")
    if not np.isfinite(f).all() or f.min() < 0:
        raise InputError(
            f"A density must be finite and not negative, but its least value at the nodes is {f.min():.3g}."
        )
    return f.ravel()


def box_rule(sides: Any) -> Callable[[int], Rule]:
    """Gauss–Legendre in every direction of [a_1, b_1] × ... × [a_d, b_d]."""
    sides = np.atleast_2d(np.asarray(check.real_array("box", sides), float))
    if sides.ndim != 2 or sides.shape[1] != 2 or not np.all(sides[:, 0] < sides[:, 1]) or not np.isfinite(sides).all():
        raise InputError(f"A box is a list of sides (low, high) with low < high, but got {sides.tolist()}.")

    def rule(n: int) -> Rule:
        _refuse_many(n, len(sides))
        t, w = roots_legendre(n)
        nodes = [0.5 * (low + high) + 0.5 * (high - low) * t for low, high in sides]
        weights = [0.5 * (high - low) * w for low, high in sides]
        return _product(nodes), np.prod(_product(weights), axis=1)

    return rule


def sphere_rule(d: Any) -> Callable[[int], Rule]:
    """Equally spaced angles on the circle; beyond, Gauss nodes of the height times the rule one dimension lower."""
    d = check.whole("sphere", d, 2, "the dimension d of S^{d-1}")

    def rule(n: int) -> Rule:
        _refuse_many(n, d - 1)
        θ = 2 * np.pi * np.arange(2 * n) / (2 * n)
        x, w = np.stack([np.cos(θ), np.sin(θ)], axis=1), np.full(2 * n, 1 / (2 * n))
        for dimension in range(3, d + 1):
            t, v = gauss(dimension, n)
            radius = np.sqrt((1 - t) * (1 + t))
            heights, around = np.repeat(t, len(x)), (radius[:, None, None] * x).reshape(-1, dimension - 1)
            x, w = np.column_stack([heights, around]), np.outer(v, w).ravel()
        return x, w

    return rule


def ball_rule(pair: Any) -> Callable[[int], Rule]:
    """Gauss–Jacobi in the radius, whose weight is r^{d-1}, times the rule of the sphere."""
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        raise InputError(f"Argument `ball` must be a pair (radius, d), but is {check.brief(pair)}.")
    radius, d = pair
    radius, d = check.number("radius", radius, positive=True), check.whole("d", d, 1, "the dimension of the ball")
    if d == 1:
        return box_rule([(-radius, radius)])

    def rule(n: int) -> Rule:
        _refuse_many(n, d)
        t, w = roots_jacobi(n, 0, d - 1)
        x, v = sphere_rule(d)(n)
        return (0.5 * radius * (1 + t)[:, None, None] * x).reshape(-1, d), np.outer(w, v).ravel()

    return rule


def _product(axes: list[np.ndarray]) -> np.ndarray:
    return np.array(list(itertools.product(*axes))).reshape(-1, len(axes))


def _refuse_many(n: int, d: int) -> None:
    """Refuse rules of n^d nodes or so before they are made. (In logarithms: n^d may be no number.)"""
    if d * math.log(n) > math.log(LARGEST):
        raise InputError(
            f"This rule has about {n}^{d} nodes, too many ({LARGEST:.0e} is the most): give a smaller n, or sample tokens."
        )
