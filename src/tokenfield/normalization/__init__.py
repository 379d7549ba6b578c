"""Normalization schemes; `KINDS` gives the name of each in a spec."""

from tokenfield.normalization.base import AbstractLayerNorm as AbstractLayerNorm
from tokenfield.normalization.base import AbstractNormalization as AbstractNormalization
from tokenfield.normalization.base import Gamma as Gamma
from tokenfield.normalization.free import Free as Free
from tokenfield.normalization.free import Rescaled as Rescaled
from tokenfield.normalization.layer_norm import NGPT as NGPT
from tokenfield.normalization.layer_norm import MixLN as MixLN
from tokenfield.normalization.layer_norm import PeriLN as PeriLN
from tokenfield.normalization.layer_norm import PostLN as PostLN
from tokenfield.normalization.layer_norm import PreLN as PreLN
from tokenfield.normalization.layer_norm import SqrtScaling as SqrtScaling
from tokenfield.normalization.trace import TraceNorm as TraceNorm

KINDS: dict[str, type[AbstractNormalization]] = {
    "free": Free,
    "rescaled": Rescaled,
    "post_ln": PostLN,
    "pre_ln": PreLN,
    "peri_ln": PeriLN,
    "mix_ln": MixLN,
    "ngpt": NGPT,
    "sqrt_scaling": SqrtScaling,
    "trace_norm": TraceNorm,
}
