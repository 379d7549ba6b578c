"""Attention kinds. One file a kernel; `KINDS` gives the name of each in a spec."""

from tokenfield.attention.base import AbstractAttention as AbstractAttention
from tokenfield.attention.softmax import Softmax as Softmax
from tokenfield.attention.unnormalized import Unnormalized as Unnormalized

KINDS: dict[str, type[AbstractAttention]] = {"softmax": Softmax, "unnormalized": Unnormalized}
