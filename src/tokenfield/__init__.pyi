"""The public names, each in one place: what type checkers read, and what is loaded when a name is first used."""

from . import errors as errors
from . import harmonics as harmonics
from . import observe as observe
from . import theory as theory
from .attention import L2 as L2
from .attention import Additive as Additive
from .attention import Causal as Causal
from .attention import Hardmax as Hardmax
from .attention import Krause as Krause
from .attention import Linear as Linear
from .attention import MeanShift as MeanShift
from .attention import MultiHead as MultiHead
from .attention import ReLU as ReLU
from .attention import Sigmoid as Sigmoid
from .attention import Sinkhorn as Sinkhorn
from .attention import Softmax as Softmax
from .attention import Unnormalized as Unnormalized
from .bifurcation import stationary as stationary
from .blocks import MLP as MLP
from .blocks import FisherRao as FisherRao
from .evolution import Collapsed as Collapsed
from .evolution import collapsed as collapsed
from .evolution import evolve as evolve
from .evolution import layers as layers
from .evolution import log_times as log_times
from .flow import Flow as Flow
from .flow import krause as krause
from .flow import kuramoto as kuramoto
from .flow import mean_shift as mean_shift
from .flow import sa as sa
from .flow import usa as usa
from .flow import velocity as velocity
from .measures import CircleDensity as CircleDensity
from .measures import Equiangular as Equiangular
from .measures import Gaussian as Gaussian
from .measures import SphereDensity as SphereDensity
from .measures import Tokens as Tokens
from .normalization import NGPT as NGPT
from .normalization import Free as Free
from .normalization import MixLN as MixLN
from .normalization import PeriLN as PeriLN
from .normalization import PostLN as PostLN
from .normalization import PreLN as PreLN
from .normalization import Rescaled as Rescaled
from .normalization import SqrtScaling as SqrtScaling
from .normalization import TraceNorm as TraceNorm
from .parameters import PerLayer as PerLayer
from .parameters import Schedule as Schedule
from .spec import Spec as Spec
from .status import Status as Status
from .summation import Dense as Dense
from .theory import long_context as long_context
from .trajectory import Trajectory as Trajectory

__version__: str
__all__: list[str]
