"""A flow as plain data and back: what specs, saved runs and other programs exchange."""

from typing import Any

import equinox as eqx
import numpy as np

from tokenfield import attention, normalization
from tokenfield._checks import traced
from tokenfield.blocks import MLP, FisherRao
from tokenfield.errors import InputError, suggest
from tokenfield.flow import Flow
from tokenfield.parameters import PerLayer

BLOCKS: dict[str, type[eqx.Module]] = {"mlp": MLP, "fisher_rao": FisherRao}


def kinds() -> dict[str, type[eqx.Module]]:
    """Every part of a flow by its name in a spec."""
    return {**attention.KINDS, **normalization.KINDS, **BLOCKS, "per_layer": PerLayer}


def encode(flow: Flow) -> dict[str, Any] | None:
    """The flow as plain data; None where a part is not one of the library's kinds or its values are traced."""
    if traced(flow):
        return None
    parts = {name: getattr(flow, name) for name in flow.__dataclass_fields__}
    try:
        return {name: _encode(part) for name, part in parts.items() if part is not None}
    except KeyError:
        return None


def decode(data: dict[str, Any]) -> Flow:
    """The flow that `encode` wrote down."""
    return Flow(**{name: build(part) for name, part in data.items()})


def _encode(part: Any) -> Any:
    if isinstance(part, eqx.Module):
        name = {cls: name for name, cls in kinds().items()}[type(part)]
        fields = {field: getattr(part, field) for field in part.__dataclass_fields__}
        return {"kind": name} | {field: _encode(value) for field, value in fields.items() if value is not None}
    if isinstance(part, tuple):
        return [_encode(one) for one in part]
    return np.asarray(part).tolist() if eqx.is_array(part) else part


def build(data: Any) -> Any:
    """The part that plain data describes: a table with a kind becomes an object, whatever is inside it too."""
    if isinstance(data, list) and data and isinstance(data[0], dict):
        return [build(one) for one in data]
    if not isinstance(data, dict):
        return data
    fields = {name: build(value) for name, value in data.items() if name != "kind"}
    if data.get("kind") not in kinds():
        raise InputError(f"Unknown kind {data.get('kind')!r}. {suggest(data.get('kind'), kinds())}")
    return kinds()[data["kind"]](**fields)
