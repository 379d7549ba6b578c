"""Flow: an attention and a normalization that act on a measure; and the named models."""

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from tokenfield import _checks as check
from tokenfield._checks import Scalar
from tokenfield.attention import AbstractAttention, Krause, MeanShift, Softmax, Unnormalized
from tokenfield.attention.base import TOLERANCE, Points, as_dtype, query_points, refuse_overflow, requested
from tokenfield.blocks import MLP, FisherRao
from tokenfield.errors import InputError
from tokenfield.measures import AbstractMeasure, Tokens
from tokenfield.normalization import AbstractNormalization, Free, Gamma, PostLN, Rescaled
from tokenfield.parameters import PerLayer, at_layer, at_time, scheduled
from tokenfield.summation import AbstractSummation, choose


class Flow(eqx.Module):
    """How a measure moves: attention makes the field, normalization says how tokens answer it; an MLP, a reweighting and
    noise may stand beside them.

    **Arguments** `attention`, `normalization` (Free when left out), `mlp`, `reweighting`; `kappa`: noise √(2/κ) dW, on the
    sphere or in R^d as the normalization has it; none when left out  [rigollet2025, section 7].

    >>> Flow(Softmax(beta=9.0), PostLN())
    Flow: Softmax(beta=9) attention, PostLN normalization
    """

    attention: AbstractAttention
    normalization: AbstractNormalization
    mlp: MLP | None
    reweighting: FisherRao | None
    kappa: Float[Array, ""] | None

    def __init__(
        self,
        attention: Any,
        normalization: Any = None,
        *,
        mlp: Any = None,
        reweighting: Any = None,
        kappa: Scalar = None,
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
        return now.normalization.velocity(t, mu, x, now._gamma(summation))

    def growth(self, t: Float[Array, ""], mu: Tokens, summation: AbstractSummation) -> Float[Array, " n"]:
        """d log w_i / dt, up to what all tokens share."""
        now = at_time(self, t)
        assert now.reweighting is not None
        return now.reweighting(now.normalization.reads(mu), now.attention, summation)

    def layer(
        self, k: Int[Array, ""], t: Float[Array, ""], step: Float[Array, ""], mu: Tokens, summation: AbstractSummation
    ) -> Tokens:
        """Layer k of the discrete Transformer, at time t."""
        now = at_layer(self, k, t)
        after = now.normalization.layer(t, step, mu, now._gamma(summation))
        if now.reweighting is None:
            return after
        w = mu.w * jnp.exp(
            step * (g := now.reweighting(now.normalization.reads(mu), now.attention, summation)) - step * g.max()
        )
        return eqx.tree_at(lambda nu: nu.w, after, w / w.sum())

    def _gamma(self, summation: AbstractSummation) -> Gamma:
        return Gamma(self.attention, summation, self._block)

    def _block(self, a: Float[Array, "m d"], x: Float[Array, "m d"]) -> Float[Array, "m d"]:
        """The field with the MLP: a, a + MLP(x), or MLP(a)."""
        if self.mlp is None:
            return a
        return self.mlp(a) if self.mlp.around else a + self.mlp(x)

    def jumps(self) -> list[Array]:
        """Times at which the flow changes abruptly."""
        return self.normalization.jumps() + [part.jumps for part in scheduled(self) if isinstance(part, PerLayer)]

    @property
    def rotates(self) -> bool:
        """Whether the flow commutes with rotations, so that it never leaves the span of its tokens."""
        plain = self.mlp is None and self.kappa is None
        return plain and self.normalization.isotropic and self.attention.isotropic

    def sums(
        self, mu: Tokens, points: Points, summation: Any, tolerance: Any, *, run: bool = False
    ) -> AbstractSummation:
        """The summation that serves this flow on these tokens, at query points or (None) at the tokens themselves, with
        an error of at most `tolerance` in every row. `run`: for a whole run, which may go on in other coordinates."""
        isotropic = run and self.rotates
        turning = isinstance(self.normalization, Rescaled) and getattr(self.attention, "A", None) is not None
        unit = self.normalization.reads_directions
        request = requested(self.attention, mu, points, tolerance, unit=unit, isotropic=isotropic)
        return choose(summation, dataclasses.replace(request, scores=None) if turning else request)

    # The front doors.

    def settle(self, mu: Any) -> Tokens:
        """Tokens that this flow can move, checked: sizes fit, directions exist where they are needed."""
        refuse_non_measures(mu)
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
            extra += f", noise {_told('kappa', self.kappa)}"
        return f"Flow: {describe(self.attention)} attention, {describe(self.normalization)} normalization{extra}"


def velocity(flow: Any, mu: Any, x: Any = None, *, t: Any = 0.0, summation: Any = None) -> Array:
    """ẋ of every token under the flow, shape (n, d); or, with `x` of shape (m, d) or (d,), the velocity field there.

    >>> import tokenfield as tkf
    >>> two = tkf.Tokens([[1.0, 0.0], [0.0, 1.0]])
    >>> tkf.velocity(tkf.kuramoto(), two).tolist()          # each turns towards the other
    [[0.0, 0.5], [0.5, 0.0]]
    """
    _require(flow, Flow, "velocity(flow, mu) needs a Flow first, e.g. tkf.sa(beta=9.0)")
    mu = flow.settle(mu)
    points = query_points(mu, x)
    at = None if x is None else flow.normalization.settle(Tokens(jnp.atleast_2d(points))).x
    flow = as_dtype(flow, mu.x.dtype)
    sums = flow.sums(mu, at, summation, TOLERANCE)
    v = _velocity(flow, check.scalar("t", t).astype(mu.x.dtype), mu, at, sums)
    return refuse_overflow(v.reshape(points.shape), flow.attention)


@eqx.filter_jit
def _velocity(flow: Flow, t: Array, mu: Tokens, at: Points, summation: AbstractSummation) -> Array:
    return flow.velocity(t, mu, at, summation)


def refuse_non_measures(mu: Any) -> None:
    if not isinstance(mu, AbstractMeasure):
        raise InputError(
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


def sa(beta: Any = 1.0, *, kappa: Any = None, **parameters: Any) -> Flow:
    r"""Self-attention on the sphere: $\dot x_i = P_{x_i} \sum_j w_j e^{\beta\langle x_i, x_j\rangle} x_j / Z_i$.

    [rigollet2025, equation (SA)]. Q, K, V or A as for `Softmax`; `kappa` adds noise √(2/κ) dW.

    >>> sa(9.0)
    Flow: Softmax(beta=9) attention, PostLN normalization
    """
    return Flow(Softmax(beta, **parameters), PostLN(), kappa=kappa)


def usa(beta: Any = 1.0, *, kappa: Any = None, **parameters: Any) -> Flow:
    r"""Unnormalized self-attention on the sphere: $\dot x_i = P_{x_i} \sum_j w_j e^{\beta\langle x_i, x_j\rangle} x_j$.

    [rigollet2025, equation (USA)]; the gradient ascent of the energy E_β. Q, K, V, A, `scaled` as for `Unnormalized`;
    `kappa` adds noise √(2/κ) dW.

    >>> usa(9.0, scaled=True)
    Flow: Unnormalized(beta=9, scaled) attention, PostLN normalization
    """
    return Flow(Unnormalized(beta, **parameters), PostLN(), kappa=kappa)


def kuramoto(coupling: Any = 1.0, *, kappa: Any = None) -> Flow:
    r"""Identical Kuramoto oscillators: $\dot θ_i = -\text{coupling} \sum_j w_j \sin(θ_i - θ_j)$, which is USA at β = 0.

    [rigollet2025, section 3.3]. In any dimension; d = 2 is the classical model.

    >>> kuramoto()
    Flow: Unnormalized(beta=0) attention, PostLN normalization
    """
    coupling = None if isinstance(coupling, int | float) and coupling == 1 else check.scalar("coupling", coupling)
    return Flow(Unnormalized(0.0, V=coupling), PostLN(), kappa=kappa)


def krause(P: Any) -> Flow:
    r"""The Krause model in R^d with fixed weights: $\dot x_i = \sum_j P_{ij} (x_j - x_i)$, P row-stochastic.

    >>> krause([[0.5, 0.5], [0.5, 0.5]])
    Flow: Krause(P: 2×2) attention, Free normalization
    """
    return Flow(Krause(P), Free())


def mean_shift(beta: Any = 1.0, data: Any = None, *, sphere: bool = False) -> Flow:
    r"""Mean-shift with a Gaussian kernel of precision β: $\dot x_i = ∇ \log \int e^{-\beta|x_i - y|^2/2} dμ(y)$.

    Blurring (μ moves with the tokens), or with fixed `data` of shape (m, d). In R^d, or on the sphere, where the blurring
    kind is β times SA.

    >>> mean_shift(9.0, sphere=True)
    Flow: MeanShift(beta=9) attention, PostLN normalization
    """
    return Flow(MeanShift(beta, data), PostLN() if sphere else Free())


def describe(module: eqx.Module) -> str:
    """A short name of a part: Softmax(beta=9, V=-1·I)."""
    parts = [_told(name, getattr(module, name)) for name in module.__dataclass_fields__]
    parts = [part for part in parts if part]
    return type(module).__name__ + (f"({', '.join(parts)})" if parts else "")


def _told(name: str, value: Any) -> str | None:
    if value is None or value is False:
        return None
    if value is True:
        return name
    if isinstance(value, PerLayer):
        return f"{name}: {len(value.values)} layers"
    if isinstance(value, AbstractAttention):
        return describe(value)
    if isinstance(value, tuple):
        return ", ".join(describe(part) for part in value)
    if not eqx.is_array(value):
        return f"{name}(t)" if isinstance(value, eqx.Module) else f"{name}={value}"
    if value.ndim:
        return f"{name}: {'×'.join(map(str, value.shape))}"
    number = "traced" if check.traced(value) else f"{float(value):g}"
    return f"{name}={number}{'·I' if name in 'QKVA' else ''}"


def _require(thing: Any, kind: type, wanted: str) -> None:
    if isinstance(thing, kind):
        return
    brackets = f" Write {thing.__name__}()." if isinstance(thing, type) and issubclass(thing, kind) else ""
    raise InputError(f"{wanted}, but got {_name(thing)}.{brackets}")


def _name(thing: Any) -> str:
    return f"the class {thing.__name__}" if isinstance(thing, type) else f"a {type(thing).__name__}"
