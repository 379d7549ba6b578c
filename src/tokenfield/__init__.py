"""tokenfield: a laboratory for the mean-field dynamics of Transformers.

Tokens are particles, attention is the field that their measure generates, depth is time.

>>> import tokenfield as tkf
>>> flow = tkf.sa(beta=9.0)
>>> run = tkf.evolve(flow, tkf.Tokens.uniform_sphere(n=64, d=3, seed=0), t=5.0)
>>> run.final.x.shape
(64, 3)

Names load when they are first used, so that ``tokenfield --help`` never waits for JAX.
"""

import importlib
import os
import sys
from typing import TYPE_CHECKING

# Double precision is the default of the laboratory; whoever sets JAX_ENABLE_X64 decides otherwise.
if "JAX_ENABLE_X64" not in os.environ:
    os.environ["JAX_ENABLE_X64"] = "1"
    if "jax" in sys.modules:
        sys.modules["jax"].config.update("jax_enable_x64", True)

__version__ = "0.1.0"

_HOME = {
    "tokenfield.measures": ["CircleDensity", "Equiangular", "Gaussian", "SphereDensity", "Tokens"],
    "tokenfield.attention": [
        "Additive",
        "Causal",
        "Hardmax",
        "Krause",
        "L2",
        "Linear",
        "MeanShift",
        "MultiHead",
        "ReLU",
        "Sigmoid",
        "Sinkhorn",
        "Softmax",
        "Unnormalized",
    ],
    "tokenfield.normalization": [
        "Free",
        "MixLN",
        "NGPT",
        "PeriLN",
        "PostLN",
        "PreLN",
        "Rescaled",
        "SqrtScaling",
        "TraceNorm",
    ],
    "tokenfield.parameters": ["PerLayer", "Schedule"],
    "tokenfield.blocks": ["FisherRao", "MLP"],
    "tokenfield.summation": ["Dense"],
    "tokenfield.flow": ["Flow", "krause", "kuramoto", "mean_shift", "sa", "usa", "velocity"],
    "tokenfield.evolution": ["Collapsed", "collapsed", "evolve", "layers", "log_times"],
    "tokenfield.status": ["Status"],
    "tokenfield.theory": ["long_context"],
    "tokenfield.bifurcation": ["stationary"],
    "tokenfield.trajectory": ["Trajectory"],
    "tokenfield.spec": ["Spec"],
}
_MODULES = ["errors", "harmonics", "observe", "theory"]
_NAMES = {name: module for module, names in _HOME.items() for name in names}
__all__ = [*_NAMES, *_MODULES, "__version__"]  # pyright: ignore[reportUnsupportedDunderAll]

if TYPE_CHECKING:
    from tokenfield import errors as errors
    from tokenfield import harmonics as harmonics
    from tokenfield import observe as observe
    from tokenfield import theory as theory
    from tokenfield.attention import L2 as L2
    from tokenfield.attention import Additive as Additive
    from tokenfield.attention import Causal as Causal
    from tokenfield.attention import Hardmax as Hardmax
    from tokenfield.attention import Krause as Krause
    from tokenfield.attention import Linear as Linear
    from tokenfield.attention import MeanShift as MeanShift
    from tokenfield.attention import MultiHead as MultiHead
    from tokenfield.attention import ReLU as ReLU
    from tokenfield.attention import Sigmoid as Sigmoid
    from tokenfield.attention import Sinkhorn as Sinkhorn
    from tokenfield.attention import Softmax as Softmax
    from tokenfield.attention import Unnormalized as Unnormalized
    from tokenfield.bifurcation import stationary as stationary
    from tokenfield.blocks import MLP as MLP
    from tokenfield.blocks import FisherRao as FisherRao
    from tokenfield.evolution import Collapsed as Collapsed
    from tokenfield.evolution import collapsed as collapsed
    from tokenfield.evolution import evolve as evolve
    from tokenfield.evolution import layers as layers
    from tokenfield.evolution import log_times as log_times
    from tokenfield.flow import Flow as Flow
    from tokenfield.flow import krause as krause
    from tokenfield.flow import kuramoto as kuramoto
    from tokenfield.flow import mean_shift as mean_shift
    from tokenfield.flow import sa as sa
    from tokenfield.flow import usa as usa
    from tokenfield.flow import velocity as velocity
    from tokenfield.measures import CircleDensity as CircleDensity
    from tokenfield.measures import Equiangular as Equiangular
    from tokenfield.measures import Gaussian as Gaussian
    from tokenfield.measures import SphereDensity as SphereDensity
    from tokenfield.measures import Tokens as Tokens
    from tokenfield.normalization import NGPT as NGPT
    from tokenfield.normalization import Free as Free
    from tokenfield.normalization import MixLN as MixLN
    from tokenfield.normalization import PeriLN as PeriLN
    from tokenfield.normalization import PostLN as PostLN
    from tokenfield.normalization import PreLN as PreLN
    from tokenfield.normalization import Rescaled as Rescaled
    from tokenfield.normalization import SqrtScaling as SqrtScaling
    from tokenfield.normalization import TraceNorm as TraceNorm
    from tokenfield.parameters import PerLayer as PerLayer
    from tokenfield.parameters import Schedule as Schedule
    from tokenfield.spec import Spec as Spec
    from tokenfield.status import Status as Status
    from tokenfield.summation import Dense as Dense
    from tokenfield.theory import long_context as long_context
    from tokenfield.trajectory import Trajectory as Trajectory


def __getattr__(name: str):
    if name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"tokenfield.{name}")
    else:
        raise AttributeError(f"tokenfield has no name {name!r}. Its names are: {', '.join(sorted(__all__))}.")
    globals()[name] = value
    return value


def __dir__():
    return sorted(__all__)
