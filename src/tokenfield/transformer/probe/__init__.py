"""Probe: what a model does to the tokens of texts, layer by layer, beside two controls and the theory."""

from tokenfield.transformer.probe.front import probe as probe
from tokenfield.transformer.probe.result import Probe as Probe
