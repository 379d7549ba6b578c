"""The dense sum over several devices: each has a share of the queries and sees all keys."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from tokenfield._checks import brief
from tokenfield.errors import InputError
from tokenfield.summation.base import AbstractVariant, ExponentialSums, inner
from tokenfield.summation.dense import Dense


class Sharded(AbstractVariant):
    """Dense sums with the queries dealt out to several devices. Rows are computed as on one device, so the result is the
    same up to the order of additions inside a matrix product.

    **Arguments**

    - `devices`: how many, or a list of them; left out, all that JAX has.
    - `dense`: the dense sum that each device computes; `Dense()` when left out.

    **Raises** `InputError` where there are not so many devices.

    >>> x = jnp.asarray(np.random.default_rng(0).normal(size=(10, 3)))
    >>> one, other = (eqx.filter_jit(sums.exponential)(x, x, x, jnp.full(10, 0.1)) for sums in (Sharded(1), Dense()))
    >>> bool(np.allclose(one.average, other.average))
    True
    """

    mesh: Mesh = eqx.field(static=True)
    dense: Dense

    def __init__(self, devices: Any = None, dense: Dense | None = None):
        self.mesh = devices if isinstance(devices, Mesh) else Mesh(np.array(_devices(devices)), ("rows",))
        self.dense = Dense() if dense is None else dense

    @property
    def name(self) -> str:
        return f"dense, {self.mesh.size} devices"

    @property
    def exact(self) -> bool:
        return True

    @property
    def other(self) -> Dense:
        return self.dense

    def exponential(
        self, q: Any, k: Any, v: Any, w: Any, score: Any = inner, bias: Any = None, related: Any = None
    ) -> ExponentialSums:
        return self._deal(lambda dense, q, k, v, w, bias: dense.exponential(q, k, v, w, score, bias), q, k, v, w, bias)

    def elementwise(self, function: Any, q: Any, k: Any, v: Any, w: Any) -> Any:
        return self._deal(lambda dense, *parts: dense.elementwise(function, *parts), q, k, v, w)

    def masked(self, σ: Any, τ: Any, window: Any) -> "Sharded":
        return Sharded(self.mesh, self.dense.masked(σ, τ, window))

    def _deal(self, sums: Any, q: Any, *rest: Any) -> Any:
        """sums(dense, q, *rest) with the rows of q, and their positions, dealt out. Rows that fill up repeat the first."""
        positions = self.dense.query_positions
        extra = -len(q) % self.mesh.size
        fill = lambda rows: jnp.concatenate([rows, jnp.repeat(rows[:1], extra, axis=0)]) if extra else rows

        def share(q, positions, dense, rest):
            return sums(eqx.tree_at(_where, dense, positions, is_leaf=_none), q, *rest)

        everywhere = eqx.tree_at(_where, self.dense, None, is_leaf=_none)
        split = jax.shard_map(
            share, mesh=self.mesh, in_specs=(P("rows"), P("rows"), P(), P()), out_specs=P("rows"), check_vma=False
        )
        found = split(fill(q), None if positions is None else fill(positions), everywhere, rest)
        return jax.tree.map(lambda part: part[: len(q)], found)


def _where(dense: Dense) -> Any:
    return dense.query_positions


def _none(leaf: Any) -> bool:
    return leaf is None


def _devices(devices: Any) -> list[Any]:
    """Some of JAX's devices, by number or themselves."""
    if isinstance(devices, list | tuple) and devices and all(isinstance(one, jax.Device) for one in devices):
        return list(devices)
    known = jax.devices()
    if devices is None:
        return known
    if not isinstance(devices, int) or isinstance(devices, bool) or not 1 <= devices <= len(known):
        raise InputError(
            f"Argument `devices` must be a list of JAX devices or a number of them between 1 and {len(known)}, but is "
            f"{brief(devices)}. On one CPU, XLA_FLAGS=--xla_force_host_platform_device_count=4 makes four."
        )
    return known[:devices]
