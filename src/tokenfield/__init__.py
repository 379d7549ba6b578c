"""tokenfield: a laboratory for the mean-field dynamics of Transformers.

Tokens are particles, attention is the field that their measure generates, depth is time.

>>> import tokenfield as tkf
>>> flow = tkf.sa(beta=9.0)
>>> run = tkf.evolve(flow, tkf.Tokens.uniform_sphere(n=64, d=3, seed=0), t=5.0)
>>> run.final.x.shape
(64, 3)

Names load when they are first used, so that ``tokenfield --help`` never waits for JAX. They are listed in `__init__.pyi`.
"""

import lazy_loader

from tokenfield import _cache, errors

__version__ = "0.1.0"
_cache.use_double_precision()
_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"tokenfield has no name {name!r}. {errors.suggest(name, __all__)}")
    globals()[name] = value = _load(name)
    return value
