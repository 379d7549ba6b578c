"""Blocks beside attention: the MLP, and Fisher–Rao reweighting."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._types import Matrix, Scalar, Vector
from tokenfield.attention.base import AbstractAttention
from tokenfield.attention.matrices import apply
from tokenfield.errors import InputError, suggest
from tokenfield.measures import Tokens
from tokenfield.parameters import Parameter, fits, matrix_parameter, parameter, shown
from tokenfield.summation import AbstractSummation

ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu, "gelu": lambda x: jax.nn.gelu(x, approximate=False)}


class MLP(eqx.Module):
    r"""$x \mapsto W_2\,σ(W_1 x + b_1) + b_2$, token by token  [rigollet2025, section 2].

    Added to attention's field, a = Γ(x) + MLP(x); or `around` it, a = MLP(Γ(x)), as in W σ(Σ_j P_ij V(z_j - z_i))
    [geshkovski2023].

    **Arguments**

    - `W1`: of shape (h, d), `b1`: (h,), `W2`: (d, h), `b2`: (d,); left out, matrices are I and offsets 0.
    - `activation`: σ, one of "tanh", "relu", "gelu".
    - `around`: whether the MLP acts on attention's field instead of beside it.

    **Raises** `InputError` where the activation is unknown or a parameter is not finite.

    >>> MLP(activation="relu")(jnp.array([[-1.0, 2.0]])).tolist()
    [[0.0, 2.0]]
    """

    W1: Parameter
    b1: Parameter
    W2: Parameter
    b2: Parameter
    activation: str = eqx.field(static=True)
    around: bool = eqx.field(static=True)

    @front_door
    def __init__(
        self,
        W1: Matrix = None,
        b1: Vector = None,
        W2: Matrix = None,
        b2: Vector = None,
        activation: str = "tanh",
        around: bool = False,
    ):
        self.W1, self.W2 = matrix_parameter("W1", W1), matrix_parameter("W2", W2)
        self.b1, self.b2 = (parameter(name, value, 1, "a vector") for name, value in (("b1", b1), ("b2", b2)))
        if activation not in ACTIVATIONS:
            raise InputError(f"Unknown activation {activation!r}. {suggest(activation, ACTIVATIONS)}")
        self.activation, self.around = activation, bool(around)

    @staticmethod
    @front_door
    def random(d: int, hidden: int, *, activation: str = "tanh", around: bool = False, seed: int = 0) -> "MLP":
        """Weights N(0, 1/fan-in), no offsets.

        **Arguments**

        - `d`: the dimension of the tokens.
        - `hidden`: how many hidden units.
        - `activation`, `around`: as for `MLP`.
        - `seed`: the seed of the random numbers.

        **Returns** the MLP.

        **Raises** `InputError` where a size or the seed is not a whole number, or the activation is unknown.

        >>> MLP.random(3, 12, seed=1).check(3)
        """
        d, hidden = check.whole("d", d, 1, "the dimension"), check.whole("hidden", hidden, 1, "how many hidden units")
        seed = check.whole("seed", seed, 0, "the seed of the random numbers")
        check.room(4 * 2 * 8 * d * hidden, f"An MLP of {hidden} hidden units in {d} dimensions")
        one, two = jax.random.split(jax.random.key(seed))
        W1, W2 = jax.random.normal(one, (hidden, d)) / d**0.5, jax.random.normal(two, (d, hidden)) / hidden**0.5
        return MLP(W1, None, W2, None, activation, around)

    def __call__(self, x: Float[Array, "m d"]) -> Float[Array, "m d"]:
        hidden = apply(self.W1, x) + (0.0 if self.b1 is None else self.b1)
        return apply(self.W2, ACTIVATIONS[self.activation](hidden)) + (0.0 if self.b2 is None else self.b2)

    def __repr__(self) -> str:
        return shown(self)

    def check(self, d: int) -> None:
        hidden = fits("W1", self.W1, d)
        fits("W2", self.W2, hidden, rows=d)
        for name, value, size in (("b1", self.b1, hidden), ("b2", self.b2, d)):
            if value is not None and value.shape != (size,):
                raise InputError(f"Argument `{name}` must have shape ({size},), but has shape {value.shape}.")


class FisherRao(eqx.Module):
    r"""Weights that grow where the energy does: $\dot w_i = λ w_i (φ(x_i) - \sum_j w_j φ(x_j))$,
    $φ(x) = \frac1β \int e^{β\langle x, y\rangle} dμ(y)$: with USA, Wasserstein–Fisher–Rao ascent of E_β  [rigollet2025].

    Weights are carried as logarithms, so they stay positive and sum to 1. β is the attention's, numbers Q, K and A included;
    in USA's scaled clock φ is scaled too. At β = 0, φ(x) = <x, ∫y dμ>.

    **Arguments**

    - `rate`: λ.

    **Raises** `InputError` where the rate is not finite; a flow refuses it beside attention without one number β.

    >>> import tokenfield as tkf
    >>> flow = tkf.Flow(tkf.Unnormalized(1.0), tkf.PostLN(), reweighting=FisherRao(rate=2.0))
    >>> run = tkf.evolve(flow, tkf.Tokens.uniform_sphere(8, 3), t=2.0)
    >>> round(float(run.final.w.sum()), 12), bool(run.final.w.min() > 0)
    (1.0, True)
    """

    rate: Float[Array, ""]

    @front_door
    def __init__(self, rate: Scalar = 1.0):
        self.rate = check.scalar("rate", rate)

    def __call__(self, mu: Tokens, attention: AbstractAttention, summation: AbstractSummation) -> Float[Array, " n"]:
        """λ φ(x_i): the growth of log w_i, up to what all share."""
        coupling = attention.coupling()
        β = coupling.beta
        sums = summation.exponential(β * mu.x, mu.x, mu.x[:, :0], mu.w)
        φ = jnp.exp(sums.shift - coupling.log_unit) * sums.total / jnp.where(β == 0, 1.0, β)
        return self.rate * jnp.where(β == 0, mu.x @ mu.mean, φ)

    def __repr__(self) -> str:
        return shown(self)

    def check(self, attention: AbstractAttention) -> None:
        """Refuse attention without a β of its own."""
        try:
            attention.coupling()
        except InputError as error:
            raise InputError(f"Fisher–Rao reweighting takes its β from attention that has one. {error}") from None
