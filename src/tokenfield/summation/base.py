"""The seam behind which sums over tokens are computed. Whoever asks never sees how."""

import abc
from typing import NamedTuple

import equinox as eqx
from jaxtyping import Array, Float


class ExponentialSums(NamedTuple):
    r"""Sums over tokens with kernel $e^{\langle q, k\rangle}$, held as numbers times $e^{\text{shift}}$ so that they
    never overflow: $\sum_j w_j e^{\langle q_i, k_j\rangle} = e^{\text{shift}_i}\,\text{total}_i$, and
    $\sum_j w_j e^{\langle q_i, k_j\rangle} v_j = e^{\text{shift}_i}\,\text{weighted}_i$.
    """

    shift: Float[Array, " m"]
    total: Float[Array, " m"]
    weighted: Float[Array, "m p"]

    @property
    def average(self) -> Float[Array, "m p"]:
        """The softmax average of the values: the shift cancels."""
        return self.weighted / self.total[:, None]


class AbstractSummation(eqx.Module):
    """How sums over tokens are computed."""

    @abc.abstractmethod
    def exponential(
        self, q: Float[Array, "m k"], k: Float[Array, "n k"], v: Float[Array, "n p"], w: Float[Array, " n"]
    ) -> ExponentialSums:
        """Σ_j w_j e^{<q_i, k_j>} and Σ_j w_j e^{<q_i, k_j>} v_j for every query q_i.

        A kernel with a bias b_j on its keys is the same sum: append 1 to the queries and b_j to the keys.
        """
