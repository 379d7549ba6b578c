"""Tests mirror the package. `checked` is the type checker that they put on every function of it: beartype, with int
accepted where float is."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
