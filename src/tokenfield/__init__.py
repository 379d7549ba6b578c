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
    "tokenfield.measures": ["Tokens"],
    "tokenfield.attention": ["Softmax", "Unnormalized"],
    "tokenfield.normalization": ["Free", "PostLN"],
    "tokenfield.summation": ["Dense"],
    "tokenfield.flow": ["Flow", "kuramoto", "sa", "usa", "velocity"],
    "tokenfield.evolution": ["Collapsed", "collapsed", "evolve"],
    "tokenfield.status": ["Status"],
    "tokenfield.trajectory": ["Trajectory"],
    "tokenfield.spec": ["Spec"],
}
_MODULES = ["observe"]
_NAMES = {name: module for module, names in _HOME.items() for name in names}
__all__ = [*_NAMES, *_MODULES, "__version__"]  # pyright: ignore[reportUnsupportedDunderAll]

if TYPE_CHECKING:
    from tokenfield import observe as observe
    from tokenfield.attention import Softmax as Softmax
    from tokenfield.attention import Unnormalized as Unnormalized
    from tokenfield.evolution import Collapsed as Collapsed
    from tokenfield.evolution import collapsed as collapsed
    from tokenfield.evolution import evolve as evolve
    from tokenfield.flow import Flow as Flow
    from tokenfield.flow import kuramoto as kuramoto
    from tokenfield.flow import sa as sa
    from tokenfield.flow import usa as usa
    from tokenfield.flow import velocity as velocity
    from tokenfield.measures import Tokens as Tokens
    from tokenfield.normalization import Free as Free
    from tokenfield.normalization import PostLN as PostLN
    from tokenfield.spec import Spec as Spec
    from tokenfield.status import Status as Status
    from tokenfield.summation import Dense as Dense
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
