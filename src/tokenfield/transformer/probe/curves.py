"""The theory's curves beside a model: equiangular tokens through as many layers, at its effective β and in its normalization."""

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float

import tokenfield as tkf
from tokenfield.normalization import AbstractNormalization

CURVES = ("spread, step 1", "spread, measured step", "concentration, step 1", "concentration, measured step")
"""Which β: that of the spread of scores, or that of how concentrated attention is; and which step of the residual stream."""


def curve(
    scheme: AbstractNormalization, rho: float, n: int, beta: Any, steps: Any = None
) -> Float[np.ndarray, " layers"]:
    r"""The common cosine of n equiangular tokens through layers of softmax attention with V = I, $x \mapsto N(x + v_k Γ(θ))$.

    It is `layers` of `Equiangular(rho, n)`, which starts with |x| = 1, under the flow with the given normalization: what the
    theory of rigollet2025, section 6, says of a model of which nothing else is known.

    **Arguments**

    - `scheme`: the normalization.
    - `rho`, `n`: where tokens start.
    - `beta`: one β per layer.
    - `steps`: v, one per layer; 1 when left out.

    **Returns** the cosine before the first layer and after every one.

    >>> curve(tkf.PostLN(), 0.5, 10, [0.0]).round(6).tolist()                       # x + mean: (ρ + 3c)/(1 + 3c), c = 0.55
    [0.5, 0.811321]
    """
    beta = np.asarray(beta, float)
    v = np.ones(len(beta)) if steps is None else np.asarray(steps, float)
    flow = tkf.Flow(tkf.Softmax(beta=tkf.PerLayer(beta), V=tkf.PerLayer(v)), scheme)
    start = tkf.Equiangular(rho=float(np.clip(rho, -1 / (n - 1), 1 - 1e-12)), n=n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tkf.errors.UnfinishedWarning)
        found: Any = tkf.layers(flow, start, len(beta)).states
    ρ = np.asarray(found.rho, float)
    return np.append(ρ, np.full(len(beta) + 1 - len(ρ), ρ[-1]))


def told(values: Float[np.ndarray, "blocks *rest"]) -> Float[np.ndarray, " blocks"]:
    """One number per block: the median over heads and texts; where there is none, that of all blocks, and 0 where there is none
    at all."""
    flat = values.reshape(len(values), -1)
    known = [np.median(row[np.isfinite(row)]) if np.isfinite(row).any() else np.nan for row in flat]
    some = np.asarray(known)[np.isfinite(known)]
    return np.where(np.isfinite(known), known, np.median(some) if some.size else 0.0)


def curves(
    scheme: AbstractNormalization, rho: float, n: int, data: dict[str, np.ndarray]
) -> Float[np.ndarray, "curves layers"]:
    """All four curves of one variant.

    **Arguments**

    - `scheme`, `rho`, `n`: as for `curve`.
    - `data`: "beta", "beta_concentrated" (blocks first), "step" and "radius", one number per block and before each.

    **Returns** one row per curve.
    """
    length = data["radius"]
    grown = length / max(length[0], np.finfo(float).tiny)
    on = [bool(np.asarray(scheme.on_sphere(float(k)))) for k in range(len(length))]
    steps = data["step"] * np.where(on, 1.0, grown)
    betas = [told(data["beta"]), told(data["beta_concentrated"])]
    return np.stack([curve(scheme, rho, n, β, v) for β in betas for v in (None, steps)])
