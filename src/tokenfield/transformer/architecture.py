"""What a model is made of, without its weights: sizes, kinds and places."""

import dataclasses
from typing import Any

from tokenfield import _checks as check
from tokenfield import attention as kinds_of_attention
from tokenfield import normalization as kinds_of_normalization
from tokenfield._front import front_door
from tokenfield.attention.base import AbstractKernel
from tokenfield.errors import InputError, suggest
from tokenfield.normalization import AbstractNormalization, PreLN
from tokenfield.transformer.parts import ACTIVATIONS
from tokenfield.transformer.positions import POSITIONS

NORMS = {"layer": True, "rms": False}
"""Norms by name, and whether they centre."""
OWN_SCALE = {"softmax": 1.0, "l2": 0.5}
"""The β of a kind, in units of 1/√k, where a name is given instead of a kind: L2's scores are 2β<q, k> - β|k|²."""


@dataclasses.dataclass(frozen=True, eq=False)
class Architecture:
    """The sizes and kinds of a Transformer's parts.

    **Arguments**

    - `vocabulary`, `context`: how many different tokens there are, and how long a text may be.
    - `d`, `layers`, `heads`: the dimension of tokens, the number of blocks, and of heads in each.
    - `groups`: how many heads have keys and values of their own, the others sharing them; as many as heads when left out.
    - `head_size`: the dimension of queries and keys; d/heads when left out.
    - `hidden`: how many hidden units the feed-forward part has; 4d when left out.
    - `attention`: a kind by its name, at the usual β = 1/√k; or a kernel, such as `Softmax(beta=0.2)`, without Q, K and V.
    - `normalization`: a scheme, by name or as an object: PreLN when left out.
    - `norm`, `eps`: "layer" or "rms", and its ε.
    - `positions`: "learned", "sinusoidal", "rotary", "alibi" or "none"; `rotary_base` is that of rotary ones.
    - `activation`, `gated`: of the feed-forward part.
    - `causal`, `window`: whether tokens see earlier ones only, and how far back. Left out, attention that can be causal is.
    - `bias`: whether projections and norms have offsets.
    - `tied`: whether the head shares the embedding's table.
    - `shared`: whether all blocks have the same weights, as ALBERT's have.

    **Raises** `InputError` where sizes do not fit, or a kind is unknown.

    >>> Architecture(vocabulary=256, d=64, layers=2, heads=4).head_size
    16
    """

    vocabulary: int = 256
    context: int = 128
    d: int = 128
    layers: int = 4
    heads: int = 4
    groups: Any = None
    head_size: Any = None
    hidden: Any = None
    attention: Any = "softmax"
    normalization: Any = "pre_ln"
    norm: str = "layer"
    eps: float = 1e-5
    positions: str = "learned"
    rotary_base: float = 10000.0
    activation: str = "gelu"
    gated: bool = False
    causal: Any = None
    window: int | None = None
    bias: bool = True
    tied: bool = True
    shared: bool = False

    def __post_init__(self) -> None:
        self._refuse_sizes()
        _refuse_unknown("norm", self.norm, NORMS)
        _refuse_unknown("positions", self.positions, POSITIONS)
        _refuse_unknown("activation", self.activation, ACTIVATIONS)
        self._settle(groups=self.groups or self.heads, head_size=self.head_size or self.d // self.heads)
        self._settle(hidden=self.hidden or 4 * self.d, normalization=scheme_of(self.normalization))
        kernel = kernel_of(self.attention, self.head_size)
        causal = kernel.maskable is None if self.causal is None else check.flag("causal", self.causal)
        self._settle(attention=kernel, causal=causal)
        if self.causal and kernel.maskable is not None:
            raise InputError(f"{kernel.maskable} Leave `causal` out, or write causal=False.")
        if self.positions == "alibi" and not (self.causal and kernel.scored):
            raise InputError(
                "ALiBi changes the scores of causal attention by inner products, as softmax has them; this attention is "
                f"{'not causal' if kernel.scored else type(kernel).__name__}. Take other positions."
            )

    def _refuse_sizes(self) -> None:
        for name in ("vocabulary", "context", "d", "layers", "heads", "groups", "head_size", "hidden", "window"):
            size = getattr(self, name)
            if size is not None:
                self._settle(**{name: check.whole(name, size, 1, "a size of the model")})
        if self.head_size is None and self.d % self.heads:
            raise InputError(
                f"Argument `d` must be a multiple of `heads` where `head_size` is left out: {self.d} is none of {self.heads}."
            )
        if self.heads % (self.groups or self.heads):
            raise InputError(
                f"Argument `heads` must be a multiple of `groups`, but {self.heads} is none of {self.groups}."
            )

    def _settle(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def numbers(self) -> int:
        """About how many weights there are."""
        wide = (self.heads + self.groups) * self.head_size * 2 * self.d
        block = wide + (3 if self.gated else 2) * self.d * self.hidden
        return (1 if self.shared else self.layers) * block + (1 if self.tied else 2) * self.vocabulary * self.d

    def with_(self, **changes: Any) -> "Architecture":
        """The same with some fields changed."""
        return dataclasses.replace(self, **changes)

    def __str__(self) -> str:
        see = "causal" if self.causal else "full"
        heads = f"{self.heads} heads" + (f" in {self.groups} groups" if self.groups != self.heads else "")
        return (
            f"{self.layers} {'shared ' if self.shared else ''}blocks, d = {self.d}, {heads}, {see} {self.attention} attention, "
            f"{self.normalization} with {'LayerNorm' if self.norm == 'layer' else 'RMSNorm'}, {self.positions} positions, "
            f"context {self.context}, vocabulary {self.vocabulary}"
        )


Architecture.__init__ = front_door(Architecture.__init__)


def kernel_of(attention: Any, head_size: int) -> AbstractKernel:
    """The kernel that a name or an object stands for.

    **Arguments**

    - `attention`: a name, at β = 1/√k; or a kind whose own Q, K, V and A are left out.
    - `head_size`: k.

    **Returns** the kernel.

    **Raises** `InputError` where the kind is unknown, has no kernel, or has matrices of its own.
    """
    if isinstance(attention, str):
        _refuse_unknown("attention", attention, KERNELS)
        cls: Any = KERNELS[attention]
        takes = "beta" in cls.__init__.__annotations__
        attention = cls(beta=OWN_SCALE.get(attention, 1.0) * head_size**-0.5) if takes else cls()
    if not isinstance(attention, AbstractKernel):
        raise InputError(
            "A Transformer's attention is a kind with a kernel, such as 'softmax' or tkf.L2(beta=0.1), but is "
            f"{check.brief(attention)}."
        )
    for name in "QKVAWU":
        if getattr(attention, name, None) is not None:
            raise InputError(
                f"A Transformer projects queries, keys and values itself: leave `{name}` of its attention out."
            )
    return attention


def scheme_of(normalization: Any) -> AbstractNormalization:
    """The scheme that a name or an object stands for; a name stands for the scheme with its usual parameters."""
    if normalization is None:
        return PreLN()
    if isinstance(normalization, str):
        known = {
            name: cls for name, cls in kinds_of_normalization.KINDS.items() if name not in ("rescaled", "trace_norm")
        }
        _refuse_unknown("normalization", normalization, known)
        if normalization == "mix_ln":
            raise InputError("Mix-LN needs the number of its Post-LN blocks: normalization=tkf.MixLN(tau=2).")
        normalization = known[normalization]()
    if not isinstance(normalization, AbstractNormalization):
        raise InputError(
            f"Argument `normalization` must be a scheme such as tkf.PreLN(), but is {check.brief(normalization)}."
        )
    normalization.places(0)
    return normalization


def _refuse_unknown(name: str, value: Any, known: Any) -> None:
    if not isinstance(value, str) or value not in known:
        raise InputError(f"Argument `{name}` is unknown: {check.brief(value)}. {suggest(value, known)}")


KERNELS = {
    name: cls
    for name, cls in kinds_of_attention.KINDS.items()
    if issubclass(cls, AbstractKernel) and name not in ("krause", "mean_shift")
}
"""The kinds of attention that a Transformer may have, by name."""
