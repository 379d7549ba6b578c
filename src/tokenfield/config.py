"""A flow as plain data and back: what specs, saved runs and other programs exchange."""

from typing import Any

import equinox as eqx
import numpy as np

from tokenfield import attention, normalization
from tokenfield._checks import traced
from tokenfield.errors import InputError, suggest
from tokenfield.flow import Flow


def kinds() -> dict[str, type[eqx.Module]]:
    """Every attention and normalization by its name in a spec."""
    return {**attention.KINDS, **normalization.KINDS}


def encode(flow: Flow) -> dict[str, Any] | None:
    """The flow as plain data; None where a part is not one of the library's kinds or its values are traced."""
    if traced(flow):
        return None
    try:
        return {"attention": _encode(flow.attention), "normalization": _encode(flow.normalization)}
    except KeyError:
        return None


def decode(data: dict[str, Any]) -> Flow:
    """The flow that `encode` wrote down."""
    return Flow(_decode(data["attention"]), _decode(data["normalization"]))


def _encode(part: Any) -> Any:
    if isinstance(part, eqx.Module):
        name = {cls: name for name, cls in kinds().items()}[type(part)]
        fields = {field: getattr(part, field) for field in part.__dataclass_fields__}
        return {"kind": name} | {field: _encode(value) for field, value in fields.items() if value is not None}
    return np.asarray(part).tolist() if eqx.is_array(part) else part


def _decode(data: Any) -> Any:
    if not isinstance(data, dict):
        return data
    data = dict(data)
    name = data.pop("kind")
    if name not in kinds():
        raise InputError(f"Unknown kind {name!r}. {suggest(name, kinds())}")
    return kinds()[name](**{field: _decode(value) for field, value in data.items()})
