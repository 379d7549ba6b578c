"""Attention kinds. One file per kernel; `KINDS` gives the name of each in a spec."""

from tokenfield.attention.additive import Additive as Additive
from tokenfield.attention.base import AbstractAttention as AbstractAttention
from tokenfield.attention.base import AbstractKernel as AbstractKernel
from tokenfield.attention.base import Coupling as Coupling
from tokenfield.attention.consensus import Krause as Krause
from tokenfield.attention.consensus import MeanShift as MeanShift
from tokenfield.attention.dot_product import AbstractDotProduct as AbstractDotProduct
from tokenfield.attention.elementwise import Linear as Linear
from tokenfield.attention.elementwise import ReLU as ReLU
from tokenfield.attention.elementwise import Sigmoid as Sigmoid
from tokenfield.attention.hardmax import Hardmax as Hardmax
from tokenfield.attention.l2 import L2 as L2
from tokenfield.attention.sinkhorn import Sinkhorn as Sinkhorn
from tokenfield.attention.softmax import Softmax as Softmax
from tokenfield.attention.unnormalized import Unnormalized as Unnormalized
from tokenfield.attention.wrappers import Causal as Causal
from tokenfield.attention.wrappers import MultiHead as MultiHead

KINDS: dict[str, type[AbstractAttention]] = {
    "softmax": Softmax,
    "unnormalized": Unnormalized,
    "l2": L2,
    "sinkhorn": Sinkhorn,
    "sigmoid": Sigmoid,
    "linear": Linear,
    "relu": ReLU,
    "hardmax": Hardmax,
    "additive": Additive,
    "multi_head": MultiHead,
    "causal": Causal,
    "krause": Krause,
    "mean_shift": MeanShift,
}
