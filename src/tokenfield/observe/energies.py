"""The energy that attention climbs."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._types import Number, no_type_check
from tokenfield.attention import Softmax
from tokenfield.attention.base import TOLERANCE, requested
from tokenfield.errors import InputError
from tokenfield.flow import Flow
from tokenfield.measures import AbstractDensity, Tokens
from tokenfield.measures.density import within_range
from tokenfield.observe.base import Measured, blind, by_members, each, states
from tokenfield.summation import AbstractSummation, choose
from tokenfield.trajectory import Trajectory


@blind
@front_door
@no_type_check
def energy(thing: Measured, beta: Number | None = None, *, scaled: bool = False) -> Float[Array, "*time"]:
    r"""The energy that attention climbs: $E_β(μ) = \frac{1}{2β} \iint e^{β\langle x, y\rangle} dμ(x) dμ(y)$.

    [rigollet2025, equation (3)]. It increases along USA, with $dE/dt = \int |v|^2 dμ$, and along SA. At
    β = 0, where the formula is a constant plus O(β), that constant 1/(2β) is left out: $E_0 = |\int x\,dμ|^2/2$. (Do not
    differentiate in β there.)

    **Arguments**

    - `thing`: tokens or a density, or a run of them.
    - `beta`: the inverse temperature β; left out, that of the run's own flow (of a batch, each member's).
    - `scaled`: whether to multiply by $e^{-β}$, which goes with the clock of `usa(beta, scaled=True)`. On the sphere the energy
      is then finite for all β ≥ 0, and one cluster has the value 1/(2β).

    **Returns** the energy, of a run one number per saved time.

    **Raises** `InputError` where `thing` is of another kind, β is neither given nor known, or the energy leaves the range of
    floating-point numbers.

    >>> round(float(energy(Tokens([[1.0, 0.0]]), beta=2.0)), 6)          # e²/4
    1.847264
    """
    if beta is None and isinstance(thing, Trajectory) and thing.batch:
        return by_members(lambda run: energy(run, scaled=scaled), thing)
    beta = check.scalar("beta", _beta_of(thing) if beta is None else beta)
    mu = thing.states if isinstance(thing, Trajectory) else thing
    if isinstance(mu, AbstractDensity):
        return mu.energy(beta, scaled)
    return within_range(each(_energy, thing, beta, scaled, _sums(states(thing), beta)), beta)


@blind
@front_door
@no_type_check
def entropy(thing: Measured) -> Float[Array, "*time"]:
    r"""The entropy $-\int f \log f\,dσ$ of a density f with respect to the uniform measure σ.

    It is 0 when the density is uniform, and negative otherwise.

    **Arguments**

    - `thing`: a density, or a run of one.

    **Returns** the entropy, of a run one number per saved time.

    **Raises** `InputError` where `thing` is not a density.

    >>> import tokenfield as tkf
    >>> float(entropy(tkf.CircleDensity.uniform()))
    0.0
    """
    return states(thing, AbstractDensity).entropy


@blind
@front_door
@no_type_check
def free_energy(thing: Measured, flow: Flow | None = None) -> Float[Array, "*time"]:
    r"""The free energy of a density, which falls along noisy USA:
    $F(μ) = \frac1κ \int f \log f\,dσ - \frac V2 \iint \frac{e^{β⟨x,y⟩} - 1}{β} dμ dμ$.

    [rigollet2025, section 7]. Without noise the first term is left out.

    **Arguments**

    - `thing`: a density, or a run of one.
    - `flow`: what gives β, V and κ; left out, the flow of the run.

    **Returns** the free energy, of a run one number per saved time.

    **Raises** `InputError` where `thing` is not a density, there is no flow, or attention is not the gradient of an energy.

    >>> import tokenfield as tkf
    >>> run = tkf.evolve(tkf.kuramoto(kappa=4.0), tkf.CircleDensity.wave(0.1), t=1.0, save=3)
    >>> bool((free_energy(run)[1:] < free_energy(run)[:-1]).all())
    True
    """
    if flow is None and isinstance(thing, Trajectory) and thing.batch:
        return by_members(free_energy, thing)
    flow = thing.own_flow if flow is None and isinstance(thing, Trajectory) else flow
    if not isinstance(flow, Flow):
        raise InputError("The free energy needs a flow with its β and κ: free_energy(mu, tkf.usa(1.0, kappa=4.0)).")
    return states(thing, AbstractDensity).free_energy(flow)


def _beta_of(thing: Any) -> float:
    """The β of a run's own flow, whose energy it climbs."""
    beta = energy_beta(thing) if isinstance(thing, Trajectory) else None
    if beta is None:
        raise InputError(
            "The energy needs its β: energy(mu, beta=4.0). Of a run it may be left out where the flow has one constant, positive "
            "β and V, and no matrices."
        )
    return beta


def _sums(mu: Tokens, beta: Float[Array, ""]) -> AbstractSummation:
    """The summation for tokens at one time or at many."""
    if check.traced((mu, beta)):
        return choose()
    flat = mu.x.reshape(-1, mu.d)
    request = requested(Softmax(beta), Tokens(flat), None, TOLERANCE)
    return choose(None, dataclasses.replace(request, n=mu.n, queries=mu.n))


def _energy(mu: Tokens, beta: Float[Array, ""], scaled: bool, summation: AbstractSummation) -> Float[Array, ""]:
    beta = beta.astype(mu.x.dtype)
    sums = summation.exponential(beta * mu.x, mu.x, mu.x[:, :1], mu.w)
    pairs = jnp.sum(mu.w * sums.total * jnp.exp(sums.shift - (beta if scaled else 0.0)))
    return jnp.where(beta == 0, 0.5 * jnp.sum(mu.mean**2), pairs / (2 * jnp.where(beta == 0, 1.0, beta)))


def energy_beta(run: Trajectory) -> float | None:
    """The β whose energy a run climbs: that of softmax or unnormalized attention with a constant, positive one, numbers Q and K
    included, and no matrices; None where there is none."""
    coupling = None if run.own_flow is None else run.own_flow.coupling_if_any()
    if coupling is None or not float(coupling.beta) > 0 or not float(coupling.V) > 0:
        return None
    return float(coupling.beta)


def free_energies(run: Trajectory) -> np.ndarray | None:
    """The free energy along a run of densities, where its flow descends one; else None."""
    try:
        return np.asarray(free_energy(run))
    except InputError:
        return None
