"""Flow: an attention and a normalization that act on a measure; and the named models."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from tokenfield import _checks as check
from tokenfield._compile import compiled
from tokenfield._front import front_door
from tokenfield._types import Matrix, Number, Numbers, Scalar, no_type_check
from tokenfield.attention import AbstractAttention, Coupling, Krause, MeanShift, Softmax, Unnormalized
from tokenfield.attention.base import DENSE, TOLERANCE, Points, as_dtype, query_points, refuse_overflow, requested
from tokenfield.attention.reductions import with_energy
from tokenfield.blocks import MLP, FisherRao
from tokenfield.errors import InputError
from tokenfield.harmonics import AbstractHarmonics
from tokenfield.measures import AbstractMeasure, Tokens
from tokenfield.normalization import AbstractNormalization, Free, Gamma, PostLN
from tokenfield.parameters import at_layer, at_time, describe, described, scheduled
from tokenfield.summation import AbstractSummation, Request, choose

DENSE_PAIRS = 500_000
"""Pairs of tokens up to which a fast sum saves less than it takes to compile (see `summation/choose.py`)."""

BATCHED_PAIRS = 16_384
"""The same for members of ensembles."""


class Flow(eqx.Module):
    """How a measure moves: attention makes the field, normalization says how tokens answer it; an MLP, a reweighting and
    noise may stand beside them.

    **Arguments**

    - `attention`: Γ, such as `Softmax(beta=9.0)`.
    - `normalization`: such as `PostLN()`; `Free()` when left out.
    - `mlp`: an `MLP` beside or around attention.
    - `reweighting`: a `FisherRao`, with which weights evolve.
    - `kappa`: noise √(2/κ) dW, on the sphere or in R^d as the normalization has it; none when left out
      [rigollet2025, section 7].

    **Raises** `InputError` where a part is not of its kind, or κ is not positive.

    >>> Flow(Softmax(beta=9.0), PostLN())
    Flow: Softmax(beta=9) attention, PostLN normalization
    """

    attention: AbstractAttention
    normalization: AbstractNormalization
    mlp: MLP | None
    reweighting: FisherRao | None
    kappa: Float[Array, ""] | None

    @front_door
    @no_type_check
    def __init__(
        self,
        attention: AbstractAttention,
        normalization: AbstractNormalization | None = None,
        *,
        mlp: MLP | None = None,
        reweighting: FisherRao | None = None,
        kappa: Number | None = None,
    ):
        normalization = Free() if normalization is None else normalization
        _require(attention, AbstractAttention, "A Flow starts with an attention such as Softmax(beta=9.0)")
        _require(
            normalization, AbstractNormalization, "A Flow's second part is a normalization such as PostLN() or Free()"
        )
        if mlp is not None:
            _require(mlp, MLP, "A Flow's `mlp` is an MLP(...)")
        if reweighting is not None:
            _require(reweighting, FisherRao, "A Flow's `reweighting` is a FisherRao(rate)")
        self.attention, self.normalization, self.mlp, self.reweighting = attention, normalization, mlp, reweighting
        self.kappa = _inverse_noise(kappa)

    # What solvers call: unchecked and traceable.

    def velocity(self, t: Float[Array, ""], mu: Tokens, x: Points, summation: AbstractSummation) -> Float[Array, "m d"]:
        """v_μ(x) at time t; x None for the tokens themselves."""
        now = at_time(self, t)
        sums = summation.tangential() if self.own_term_is_radial else summation
        return now.normalization.velocity(t, mu, x, now._gamma(sums))

    def growth(self, t: Float[Array, ""], mu: Tokens, summation: AbstractSummation) -> Float[Array, " n"]:
        """d log w_i / dt, up to what all tokens share."""
        now = at_time(self, t)
        assert now.reweighting is not None
        return now.reweighting(now.normalization.reads(mu), now.attention, summation)

    def layer(
        self, k: Int[Array, ""], t: Float[Array, ""], step: Float[Array, ""], mu: Tokens, summation: AbstractSummation
    ) -> Tokens:
        """Layer k of the discrete Transformer, at time t, on tokens and on their weights."""
        now = at_layer(self, k, t)
        after = now.normalization.layer(t, step, mu, now._gamma(summation))
        if now.reweighting is None:
            return after
        g = now.reweighting(now.normalization.reads(mu), now.attention, summation)
        w = mu.w * jnp.exp(step * g - step * g.max())
        return eqx.tree_at(lambda nu: nu.w, after, w / w.sum())

    def _gamma(self, summation: AbstractSummation) -> Gamma:
        return Gamma(self.attention, summation, self._block)

    def _block(self, a: Float[Array, "m d"], x: Float[Array, "m d"]) -> Float[Array, "m d"]:
        """The field with the MLP: a, a + MLP(x), or MLP(a)."""
        if self.mlp is None:
            return a
        return self.mlp(a) if self.mlp.around else a + self.mlp(x)

    # What a flow can do, asked here and nowhere else.

    def jumps(self) -> list[Array]:
        """Times at which the flow changes abruptly."""
        return self.normalization.jumps() + [jump for part in scheduled(self) for jump in part.jumps()]

    @property
    def rotates(self) -> bool:
        """Whether the flow commutes with rotations, so that it never leaves the span of its tokens."""
        plain = self.mlp is None and self.kappa is None
        return plain and self.normalization.isotropic and self.attention.isotropic

    @property
    def timeless(self) -> bool:
        """Whether the flow is the same at all times."""
        return not scheduled(self) and self.normalization.timeless

    @property
    def own_term_is_radial(self) -> bool:
        """Whether a token's own term is radial and does not move it."""
        return self.attention.own_term_is_radial and self.normalization.tangential and self.mlp is None

    @property
    def neighbours_move_together(self) -> bool:
        """Whether tokens that have met and are neighbours under a causal mask stay together."""
        together = self.attention.neighbours_move_together
        return together and self.normalization.tangential and self.mlp is None

    def coupling(self) -> Coupling:
        """The numbers β and V of softmax or unnormalized attention whose matrices are multiples of the identity: the one
        place that knows "the β of this flow". Refused where there is none."""
        return self.attention.coupling()

    def coupling_if_any(self) -> Coupling | None:
        """The same, or None."""
        try:
            return self.coupling()
        except InputError:
            return None

    def interaction(self, f: Float[Array, "*batch size"], basis: AbstractHarmonics) -> Float[Array, "*batch"]:
        """∬ W dμ dμ of a density with coefficients f, where attention is the gradient of ∫ W(x, y) dμ(y)."""
        if scheduled(self):
            raise InputError("A flow that changes with depth has no energy of its own. Give its parameters one value.")
        return with_energy(self.attention).interaction(f, basis)

    def summation(self, mu: Tokens, points: Points, asked: Any, tolerance: Any) -> AbstractSummation:
        """The summation that serves this flow on these tokens, at query points or (None) at the tokens themselves, with
        an error of at most `tolerance` in every row: the one asked for, or the cheapest."""
        if (isinstance(asked, str) and asked == "dense") or (
            asked is None and mu.n * (mu.n if points is None else len(points)) < DENSE_PAIRS
        ):
            return DENSE
        return choose(asked, self._request(mu, points, tolerance))

    def _request(self, mu: Tokens, points: Points, tolerance: Any) -> Request:
        request = requested(self.attention, mu, points, tolerance, unit=self.normalization.reads_directions)
        if request.scores is None:
            return request
        return dataclasses.replace(request, scores=self.normalization.scores(self.attention, mu.d))

    @staticmethod
    def summation_of_all(flows: Sequence["Flow"], mu: Tokens, asked: Any, tolerance: Any) -> AbstractSummation:
        """The summation that serves many flows that are alike, on tokens like these, side by side: for the largest score of any.
        One that is not asked for costs a longer compilation, which few pairs are not worth."""
        if asked == "dense" or (asked is None and mu.n**2 < BATCHED_PAIRS):
            return DENSE
        requests = [flow._request(mu, None, tolerance) for flow in flows]
        scores = [pair for request in requests for pair in request.scores or []]
        known = all(request.scores is not None for request in requests)
        return choose(asked, dataclasses.replace(requests[0], scores=scores if known else None, batch=True))

    # The front doors.

    @no_type_check
    def settle(self, mu: AbstractMeasure) -> Tokens:
        """Tokens that this flow can move, checked: sizes fit, directions exist where they are needed."""
        if not isinstance(mu, AbstractMeasure):
            raise no_measure(mu)
        if not isinstance(mu, Tokens):
            raise InputError(f"This needs Tokens, but got {_name(mu)}. `evolve` moves every kind of measure.")
        self.check(mu.d)
        return self.normalization.settle(mu)

    def check(self, d: int) -> None:
        """Refuse parts that do not fit R^d or each other."""
        rows = self.attention.check(d)
        if rows != d:
            raise InputError(
                f"Argument `V` must have shape (d, d) = ({d}, {d}) to move tokens, but the field has {rows} entries. "
                "Heads with fewer are for MultiHead(..., output=...)."
            )
        if self.mlp is not None:
            self.mlp.check(d)
        if self.reweighting is not None:
            self.reweighting.check(self.attention)
        block = None if self.mlp is None else "around" if self.mlp.around else "added"
        self.normalization.check(self.attention, d, block)

    def __repr__(self) -> str:
        extra = "".join(f", {describe(part)}" for part in (self.mlp, self.reweighting) if part is not None)
        if self.kappa is not None:
            extra += f", noise {described('kappa', self.kappa)}"
        return f"Flow: {describe(self.attention)} attention, {describe(self.normalization)} normalization{extra}"


@front_door
@no_type_check
def velocity(
    flow: Flow,
    mu: Tokens,
    x: Numbers | None = None,
    *,
    t: Number = 0.0,
    summation: str | AbstractSummation | None = None,
) -> Array:
    """The velocity $v_μ(x)$ of a flow.

    **Arguments**

    - `flow`: what moves.
    - `mu`: the tokens that generate the field.
    - `x`: points of shape (m, d), or (d,) for one; left out, the tokens themselves.
    - `t`: the time, which matters where parameters change with depth.
    - `summation`: how sums over tokens are computed; chosen by cost when left out.

    **Returns** the velocities, in the shape of the points.

    **Raises** `InputError` where the parts do not fit, or the field leaves the range of floating-point numbers.

    >>> import tokenfield as tkf
    >>> two = tkf.Tokens([[1.0, 0.0], [0.0, 1.0]])
    >>> tkf.velocity(tkf.kuramoto(), two).tolist()          # each turns towards the other
    [[0.0, 0.5], [0.5, 0.0]]
    """
    _require(flow, Flow, "velocity(flow, mu) needs a Flow first, e.g. tkf.sa(beta=9.0)")
    mu = flow.settle(mu)
    points = query_points(mu, x)
    where = None if x is None else flow.normalization.settle(Tokens(jnp.atleast_2d(points))).x
    flow = as_dtype(flow, mu.x.dtype)
    sums = flow.summation(mu, where, summation, TOLERANCE)
    v = _velocity(flow, check.as_floats(check.scalar("t", t), mu.x.dtype), mu, where, sums)
    return refuse_overflow(v.reshape(points.shape), flow.attention)


@compiled
def _velocity(flow: Flow, t: Array, mu: Tokens, x: Points, summation: AbstractSummation) -> Array:
    return flow.velocity(t, mu, x, summation)


class Flows(eqx.Module):
    """The flows of an ensemble whose flows have different parts, in the order of its first axis."""

    flows: tuple[Flow, ...]

    def __len__(self) -> int:
        return len(self.flows)

    def __getitem__(self, i: int) -> Flow:
        return self.flows[i]

    def __repr__(self) -> str:
        return f"{len(self)} flows of different parts"


def no_measure(mu: Any) -> InputError:
    """What is said of something that is no measure."""
    return InputError(
        f"A flow moves a measure such as tokenfield.Tokens, but got {_name(mu)}. For an array x of shape "
        "(n, d), write Tokens(x)."
    )


def _inverse_noise(kappa: Any) -> Float[Array, ""] | None:
    if kappa is None:
        return None
    number = check.scalar("kappa", kappa)
    if not check.traced(number) and not float(number) > 0:
        raise InputError(
            f"Argument `kappa` must be positive: the noise is √(2/κ) dW. It is {float(number):g}. For no noise, leave it out."
        )
    return number


@front_door
def sa(beta: Scalar = 1.0, *, kappa: Number | None = None, **parameters: Matrix) -> Flow:
    r"""Self-attention on the sphere: $\dot x_i = P_{x_i} \sum_j w_j e^{\beta\langle x_i, x_j\rangle} x_j / Z_i$.

    [rigollet2025, equation (SA)].

    **Arguments**

    - `beta`, and `Q`, `K`, `V` or `A`: as for `Softmax`.
    - `kappa`: noise √(2/κ) dW; none when left out.

    **Returns** `Flow(Softmax(beta, ...), PostLN())`.

    >>> sa(9.0)
    Flow: Softmax(beta=9) attention, PostLN normalization
    """
    return Flow(Softmax(beta, **parameters), PostLN(), kappa=kappa)


@front_door
def usa(beta: Scalar = 1.0, *, kappa: Number | None = None, scaled: bool = False, **parameters: Matrix) -> Flow:
    r"""Unnormalized self-attention on the sphere: $\dot x_i = P_{x_i} \sum_j w_j e^{\beta\langle x_i, x_j\rangle} x_j$.

    [rigollet2025, equation (USA)]; the gradient ascent of the energy E_β.

    **Arguments**

    - `beta`, `scaled`, and `Q`, `K`, `V` or `A`: as for `Unnormalized`.
    - `kappa`: noise √(2/κ) dW; none when left out.

    **Returns** `Flow(Unnormalized(beta, ...), PostLN())`.

    >>> usa(9.0, scaled=True)
    Flow: Unnormalized(beta=9, scaled) attention, PostLN normalization
    """
    return Flow(Unnormalized(beta, scaled=scaled, **parameters), PostLN(), kappa=kappa)


@front_door
def kuramoto(coupling: Number = 1.0, *, kappa: Number | None = None) -> Flow:
    r"""Identical Kuramoto oscillators: $\dot θ_i = -\text{coupling} \sum_j w_j \sin(θ_i - θ_j)$, which is USA at β = 0.

    [rigollet2025, section 3.3]. In any dimension; d = 2 is the classical model.

    **Arguments**

    - `coupling`: the strength of the coupling.
    - `kappa`: noise √(2/κ) dW; none when left out.

    **Returns** `Flow(Unnormalized(0.0, V=coupling), PostLN())`.

    >>> kuramoto()
    Flow: Unnormalized(beta=0) attention, PostLN normalization
    """
    V = None if isinstance(coupling, int | float) and coupling == 1 else check.scalar("coupling", coupling)
    return Flow(Unnormalized(0.0, V=V), PostLN(), kappa=kappa)


@front_door
def krause(P: Matrix) -> Flow:
    r"""The Krause model in R^d with fixed weights: $\dot x_i = \sum_j P_{ij} (x_j - x_i)$, P row-stochastic.

    **Arguments**

    - `P`: as for `Krause`.

    **Returns** `Flow(Krause(P), Free())`.

    >>> krause([[0.5, 0.5], [0.5, 0.5]])
    Flow: Krause(P: 2×2) attention, Free normalization
    """
    return Flow(Krause(P), Free())


@front_door
def mean_shift(beta: Scalar = 1.0, data: Matrix = None, *, sphere: bool = False) -> Flow:
    r"""Mean-shift with a Gaussian kernel of precision β: $\dot x_i = ∇ \log \int e^{-\beta|x_i - y|^2/2} dμ(y)$.

    Blurring (μ moves with the tokens), or with fixed data. On the sphere the blurring kind is β times SA.

    **Arguments**

    - `beta`, `data`: as for `MeanShift`.
    - `sphere`: whether tokens live on the sphere; else in R^d.

    **Returns** `Flow(MeanShift(beta, data), Free())`, or the same with `PostLN()`.

    >>> mean_shift(9.0, sphere=True)
    Flow: MeanShift(beta=9) attention, PostLN normalization
    """
    return Flow(MeanShift(beta, data), PostLN() if sphere else Free())


def _require(thing: Any, kind: type, wanted: str) -> None:
    if isinstance(thing, kind):
        return
    brackets = f" Write {thing.__name__}()." if isinstance(thing, type) and issubclass(thing, kind) else ""
    raise InputError(f"{wanted}, but got {_name(thing)}.{brackets}")


def _name(thing: Any) -> str:
    return f"the class {thing.__name__}" if isinstance(thing, type) else f"a {type(thing).__name__}"
