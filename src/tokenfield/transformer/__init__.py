"""Real Transformers, of the same attentions and normalizations as the flows; trained weights; training; what they show."""

from tokenfield.transformer.architecture import Architecture as Architecture
from tokenfield.transformer.model import Transformer as Transformer
from tokenfield.transformer.prediction import predict as predict
from tokenfield.transformer.probe import Probe as Probe
from tokenfield.transformer.probe import probe as probe
from tokenfield.transformer.training import Training as Training
from tokenfield.transformer.training import train as train
