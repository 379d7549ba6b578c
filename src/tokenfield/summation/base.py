"""The seam behind which sums over tokens are computed. Whoever asks never sees how."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

Score = Callable[[Float[Array, "m k"], Float[Array, "n k"]], Float[Array, "m n"]]
"""How a block of queries meets a block of keys."""


def inner(q: Float[Array, "m k"], k: Float[Array, "n k"]) -> Float[Array, "m n"]:
    """The score of dot-product attention, <q_i, k_j>."""
    return q @ k.T


class ExponentialSums(NamedTuple):
    r"""Sums over tokens with kernel $e^{\text{score}}$, held as numbers times $e^{\text{shift}}$ so that they never
    overflow: $\sum_j w_j e^{\langle q_i, k_j\rangle} = e^{\text{shift}_i}\,\text{total}_i$, and
    $\sum_j w_j e^{\langle q_i, k_j\rangle} v_j = e^{\text{shift}_i}\,\text{weighted}_i$.

    - `shift`, `total`: one number per query.
    - `weighted`: one row per query.
    - `average`: the softmax average of the values, in which the shift cancels.
    """

    shift: Float[Array, " m"]
    total: Float[Array, " m"]
    weighted: Float[Array, "m p"]

    @property
    def average(self) -> Float[Array, "m p"]:
        """The softmax average of the values: the shift cancels. Where no key is seen, zero."""
        return self.weighted / jnp.where(self.total > 0, self.total, 1.0)[:, None]


class Related(NamedTuple):
    """How queries and values come from the keys, for sums that can use it; none needs to.

    - `turn`: M with q_i = M k_i for all i, a matrix or a number; None where queries are other points.
    - `back`: M with v_j = M k_j for all j.
    """

    turn: Float[Array, "..."] | None
    back: Float[Array, "..."]

    @property
    def multiple(self) -> Float[Array, ""] | None:
        """c with q_i = c k_i for all i; None where there is none."""
        return self.turn if self.turn is not None and self.turn.ndim == 0 else None


class AbstractSummation(eqx.Module):
    """How sums over tokens are computed. Kinds that differ from another in some sums only subclass `AbstractVariant`.

    Every sum keeps the error of each row below its own tolerance times that row's total, or is exact up to rounding.
    """

    @property
    def name(self) -> str:
        """What a run says about its sums."""
        return type(self).__name__.lower()

    @property
    def exact(self) -> bool:
        """Whether every row is exact up to rounding in the precision of its numbers."""
        return False

    @property
    def halves(self) -> bool:
        """Whether sums over earlier tokens, or windows of them, may be made of sums of parts by this one (`Halving`)."""
        return False

    def tangential(self) -> "AbstractSummation":
        """The same sums for those who read of a token's weighted values only what is tangent to the token, where queries are
        multiples of the keys; else the same sums."""
        return self

    def without_own_term(self) -> "AbstractSummation":
        """The same sums in which no token sees its own value, where they can be told apart; else the same sums."""
        return self

    def with_own_term(self) -> "AbstractSummation":
        """The same sums in which every token sees its own value."""
        return self

    def transposed(self) -> "AbstractSummation":
        """The same sums where keys ask queries: `exponential(k, q, ...)`."""
        return self

    def holds(self, n: int) -> int:
        """How many numbers a sum of n tokens among themselves has in memory at once, roughly: blocks of pairs."""
        return n * min(n, 2048)

    @property
    def keepable(self) -> bool:
        """Whether one device visits every pair, so that who asks many times may keep the kernel in memory instead."""
        return False

    @abc.abstractmethod
    def exponential(
        self,
        q: Float[Array, "m k"],
        k: Float[Array, "n k"],
        v: Float[Array, "n p"],
        w: Float[Array, " n"],
        score: Any = inner,
        bias: Float[Array, " n"] | None = None,
        related: Related | None = None,
    ) -> ExponentialSums:
        """Σ_j w_j e^{s_ij} and Σ_j w_j e^{s_ij} v_j for every query, s_ij = score(q_i, k_j) + bias_j.

        **Arguments**

        - `q`: queries, shape (m, k); `k`: keys, shape (n, k).
        - `v`: values, shape (n, p); `w`: weights, shape (n,).
        - `score`: how a block of queries meets a block of keys; inner products when left out.
        - `bias`: one number per key; none when left out.
        - `related`: how queries and values come from the keys, where it is known.

        **Returns** both sums as `ExponentialSums`.
        """

    @abc.abstractmethod
    def elementwise(
        self,
        function: Any,
        q: Float[Array, "m k"],
        k: Float[Array, "n k"],
        v: Float[Array, "n p"],
        w: Float[Array, " n"],
    ) -> Float[Array, "m p"]:
        """Σ_j w_j φ(<q_i, k_j>) v_j for a function φ of the score.

        **Arguments**

        - `function`: φ, entry by entry.
        - `q`, `k`, `v`, `w`: as for `exponential`.

        **Returns** the sums, shape (m, p).
        """

    @abc.abstractmethod
    def linear(
        self, q: Float[Array, "m k"], k: Float[Array, "n k"], v: Float[Array, "n p"], w: Float[Array, " n"]
    ) -> Float[Array, "m p"]:
        """Σ_j w_j <q_i, k_j> v_j, in O(n) where every query sees every key.

        **Arguments**

        - `q`, `k`, `v`, `w`: as for `exponential`.

        **Returns** the sums, shape (m, p).
        """

    @abc.abstractmethod
    def masked(
        self, σ: Float[Array, " m"], τ: Float[Array, " n"], window: Float[Array, ""] | None
    ) -> "AbstractSummation":
        """The same sums where a query at position σ sees the keys at σ - window ≤ τ ≤ σ only.

        **Arguments**

        - `σ`: positions of the queries; `τ`: positions of the keys.
        - `window`: how far back a query sees; None for all the way.

        **Returns** a summation.
        """

    @abc.abstractmethod
    def largest(
        self,
        q: Float[Array, "m k"],
        k: Float[Array, "n k"],
        v: Float[Array, "n p"],
        w: Float[Array, " n"],
        alone: bool,
    ) -> Float[Array, "m p"]:
        """The average of v_j over the largest scores <q_i, k_j>, ties shared by weight.

        **Arguments**

        - `q`, `k`, `v`, `w`: as for `exponential`.
        - `alone`: whether queries are the keys and j ≠ i, so that no token counts for itself.

        **Returns** the averages, shape (m, p).
        """


class AbstractVariant(AbstractSummation):
    """Sums that differ from another summation's in some ways, and are its sums in all others."""

    @property
    @abc.abstractmethod
    def other(self) -> AbstractSummation:
        """The summation that serves where nothing else is said."""

    def exponential(
        self, q: Any, k: Any, v: Any, w: Any, score: Any = inner, bias: Any = None, related: Related | None = None
    ) -> ExponentialSums:
        return self.other.exponential(q, k, v, w, score, bias, related)

    def elementwise(self, function: Any, q: Any, k: Any, v: Any, w: Any) -> Any:
        return self.other.elementwise(function, q, k, v, w)

    def linear(self, q: Any, k: Any, v: Any, w: Any) -> Any:
        return self.other.linear(q, k, v, w)

    def masked(self, σ: Any, τ: Any, window: Any) -> AbstractSummation:
        return self.other.masked(σ, τ, window)

    def largest(self, q: Any, k: Any, v: Any, w: Any, alone: bool) -> Any:
        return self.other.largest(q, k, v, w, alone)
