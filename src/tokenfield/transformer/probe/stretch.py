"""Local Lipschitz constants of a model's blocks at the tokens of a text, and how they grow with the number of tokens."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenfield import _checks as check
from tokenfield._compile import compiled, make_room
from tokenfield._types import AnyArray
from tokenfield.errors import InputError
from tokenfield.observe.sensitivity import largest
from tokenfield.transformer.block import Block
from tokenfield.transformer.model import Transformer
from tokenfield.transformer.norms import normed

MAPS = ("attention", "block")
"""Whose constants: attention's, of what it reads, and the whole block's, of its tokens."""
SHORTEST, GOAL = 8, 2e-3
"""The least number of tokens that counts for an exponent; and the residual of a search, which makes half of it relative."""


def lengths_for(longest: int, asked: Sequence[int] | None) -> tuple[int, ...]:
    """The numbers of tokens at which constants are measured: powers of two from 8 up to the longest text, or halves of it.

    >>> lengths_for(100, None), lengths_for(12, None), lengths_for(100, [10, 90])
    ((8, 16, 32, 64), (3, 6, 12), (10, 90))
    """
    if asked is not None:
        numbers = sorted({check.whole("lengths", n, 2, "a number of tokens") for n in asked})
        if len(numbers) < 2 or numbers[0] > longest:
            raise InputError(
                f"An exponent needs two numbers of tokens or more, up to {longest} as the longest text has, but `lengths` is "
                f"{check.brief(asked)}."
            )
        return tuple(numbers)
    found = [2**k for k in range(3, 40) if SHORTEST <= 2**k <= longest]
    return tuple(found if len(found) > 2 else sorted({max(2, longest // 4), max(2, longest // 2), longest}))


def constants(model: Transformer, ids: np.ndarray, n: int, blocks: Sequence[int]) -> Float[np.ndarray, "maps blocks"]:
    """The local Lipschitz constants of some blocks at the first n tokens of a text, which pass through the model by themselves.

    For attention it is ‖D_Y f‖₂ of the map f from what attention reads to what its output projection returns, all heads together,
    without the residual [castin2024]; for the block that of all that it does to its tokens. The largest singular value is
    found as `observe.lipschitz` does, from products with the Jacobian and its transpose.

    **Arguments**

    - `model`, `ids`: the model, and the numbers of the text's tokens.
    - `n`: how many tokens are taken.
    - `blocks`: numbers of blocks.

    **Returns** one row for attention and one for the block; NaN where the search did not find them.
    """
    make_room()
    states, dtype = np.asarray(model.run(ids[:n]).x), model.dtype
    goal, w = np.asarray(GOAL, dtype), np.asarray(np.arange(room_for(n)) < n, dtype)
    filled = np.concatenate([states, np.repeat(states[:, :1], len(w) - n, axis=1)], axis=1)
    found = [[_constant(which, model.blocks[k], filled[k], w, goal) for k in blocks] for which in MAPS]
    return np.array([[float(σ) if rest <= 2 * GOAL else np.nan for σ, rest in row] for row in found])


def room_for(n: int) -> int:
    """Places for n tokens: 32, 128, 512, ...; what is not filled has no weight, and fewer programs serve all lengths.

    >>> room_for(8), room_for(64), room_for(129)
    (32, 128, 512)
    """
    return int(2 ** (2 * np.ceil(np.log2(max(n, 32) / 32) / 2) + 5))


@compiled
def _constant(
    which: str, block: Block, x: Float[AnyArray, "n d"], w: Float[AnyArray, " n"], goal: Float[AnyArray, ""]
) -> tuple[Array, Array]:
    σ, present = jnp.arange(len(x), dtype=x.dtype), w[:, None]
    f = block.attention.f
    attention = lambda y: f(y, σ, f.see(y, σ, w))
    point, field = (
        (normed(block.attention.before, x), attention)
        if which == "attention"
        else (x, lambda x: block(x, σ, block.see(x, σ, w)))
    )
    slope = jax.linearize(field, point)[1]
    forward = lambda v: present * slope(present * v)
    backward = lambda u: present * jax.linear_transpose(slope, point)(present * u)[0]
    found = largest(forward, backward, point, goal)
    return found.value, found.residual


class Exponent(NamedTuple):
    """p of a law C n^p, and its standard error."""

    value: float
    error: float


def exponent(n: Any, values: Float[np.ndarray, "texts lengths"]) -> Exponent:
    r"""The exponent of $C_t n^p$ by least squares in logarithms, with a constant for each text t and one p for all.

    The standard error is that of the residuals about the fit, with one degree of freedom less for every text and one for p. NaN
    entries, of texts that are shorter, are left out, and so are texts with fewer than two entries.

    **Arguments**

    - `n`: the numbers of tokens.
    - `values`: one row per text.

    **Returns** p and its error; NaN where nothing, or nothing more, is known.

    >>> exponent([8, 16, 32], np.array([[2.0, 4.0, 8.0], [1.0, 2.0, np.nan]]))
    Exponent(value=1.0, error=0.0)
    """
    rows = [(np.log(np.asarray(n, float)[good]), np.log(row[good])) for row in values if (good := row > 0).sum() > 1]
    if not rows:
        return Exponent(np.nan, np.nan)
    x, y = (np.concatenate([part - part.mean() for part in parts]) for parts in zip(*rows, strict=True))
    slope = float(x @ y / (x @ x))
    free = len(x) - len(rows) - 1
    error = np.sqrt(np.sum((y - slope * x) ** 2) / free / (x @ x)) if free > 0 else np.nan
    return Exponent(round(slope, 12), round(float(error), 12))
