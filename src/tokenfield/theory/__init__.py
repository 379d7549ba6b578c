"""Predictions that need no simulation, and statements of the literature that are checked against simulations.

>>> import tokenfield as tkf
>>> from tokenfield import theory
>>> round(theory.critical_kappa(tkf.kuramoto(), d=2), 12)
2.0
>>> theory.statement("hemisphere-rate").source, theory.statement("hemisphere-rate").number
('geshkovski2025', 'Theorem 3 in rigollet2025')

Names load when they are first used, so that the list of statements needs no JAX. They are listed in `__init__.pyi`.
"""

import lazy_loader

from tokenfield import errors

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"tokenfield.theory has no name {name!r}. {errors.suggest(name, __all__)}")
    globals()[name] = value = _load(name)
    return value
