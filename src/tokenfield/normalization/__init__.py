"""Normalization schemes. One file a scheme; `KINDS` gives the name of each in a spec."""

from tokenfield.normalization.base import AbstractLayerNorm as AbstractLayerNorm
from tokenfield.normalization.base import AbstractNormalization as AbstractNormalization
from tokenfield.normalization.free import Free as Free
from tokenfield.normalization.post_ln import PostLN as PostLN

KINDS: dict[str, type[AbstractNormalization]] = {"free": Free, "post_ln": PostLN}
