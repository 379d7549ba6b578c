"""Rotary positions as configs describe them."""

from typing import Any

import numpy as np

from tokenfield.errors import short
from tokenfield.transformer.files.config import Config
from tokenfield.transformer.positions import Rotary

KINDS = {
    "default": (),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}
"""Kinds of frequencies, and the numbers that each needs."""
FACTORS = "rope_freqs.weight"
"""A tensor of GGUF files, by which frequencies are divided."""


def rotary(config: Config, k: int, context: int) -> Rotary:
    """The rotary positions that a config asks for.

    **Arguments**

    - `config`: its fields: `rope_parameters`, or `rope_theta` and `rope_scaling` of earlier files.
    - `k`: the dimension of heads.
    - `context`: how long a text may be.

    **Returns** the positions.

    **Raises** `InputError` for kinds that are not built here.
    """
    name = "rope_scaling" if config.fields.get("rope_scaling") else "rope_parameters"
    both = [config.get(one) or {} for one in ("rope_parameters", "rope_scaling")]
    fields, other = both if name == "rope_parameters" else both[::-1]
    if not isinstance(fields, dict) or (other and other != fields):
        raise config.refusal(name, "must hold the fields of rotary positions, and say the same as `rope_parameters`")
    base = config.number("rope_theta", 10000.0)
    kind = _kind(config, name, fields)
    number = lambda key, default=None: _number(config, name, fields, key, default)
    base = number("rope_theta", base)
    if number("partial_rotary_factor", _partial(config)) != 1.0:
        raise config.refusal(name, "asks for heads that are turned in part, which is not built here")
    if kind == "default":
        return Rotary(base)
    rates = base ** (-np.arange(0, k, 2) / k)
    if kind == "linear":
        return Rotary(base, _plain(rates / number("factor")))
    low, high, first = (
        number("low_freq_factor"),
        number("high_freq_factor"),
        number("original_max_position_embeddings", context),
    )
    return Rotary(base, _plain(_llama3(rates, number("factor"), low, high, first)))


def _kind(config: Config, name: str, fields: dict[str, Any]) -> str:
    kind = fields.get("rope_type", fields.get("type", "default"))
    if kind not in KINDS:
        raise config.refusal(name, f"asks for the kind {short(kind)}; known are {', '.join(KINDS)}")
    known = {"rope_type", "type", "rope_theta", "partial_rotary_factor", *KINDS[kind]}
    if strange := sorted(set(fields) - known):
        raise config.refusal(name, f"has a field {short(strange[0])}, which the kind {kind} does not use")
    if fields.get("type", kind) != kind:
        raise config.refusal(name, "names two kinds")
    return kind


def _partial(config: Config) -> float:
    return config.number("partial_rotary_factor", 1.0) if config.get("partial_rotary_factor") is not None else 1.0


def _number(config: Config, name: str, fields: dict[str, Any], key: str, default: float | None) -> float:
    value = fields.get(key, default)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e30:
        raise config.refusal(name, f"must hold a positive number `{key}`")
    return float(value)


def _llama3(rates: np.ndarray, factor: float, low: float, high: float, first: float) -> np.ndarray:
    """Waves longer than first/low are slowed by the factor, those shorter than first/high are left, between them it is blended."""
    turns = first * rates / (2 * np.pi)
    share = np.clip((turns - low) / (high - low), 0, 1) if high != low else (turns > low).astype(float)
    return rates * (share + (1 - share) / factor)


def _plain(rates: np.ndarray) -> tuple[float, ...]:
    return tuple(rates.tolist())


def slowed(turning: Rotary, factors: np.ndarray) -> Rotary:
    """Rotary positions whose frequencies are divided by factors."""
    k = 2 * len(factors)
    rates = (
        turning.base ** (-np.arange(0, k, 2) / k) if turning.frequencies is None else np.asarray(turning.frequencies)
    )
    return Rotary(turning.base, _plain(rates / factors.astype(float)))
