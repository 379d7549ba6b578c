"""How smooth softmax attention is: bounds on its Lipschitz constant in a ball, and the tokens that nearly attain them."""

from typing import Any

import numpy as np

from tokenfield import _checks as check
from tokenfield._front import front_door
from tokenfield._types import Count, Whole
from tokenfield.attention import AbstractAttention, Causal, Softmax
from tokenfield.attention.matrices import written
from tokenfield.errors import InputError
from tokenfield.measures import Tokens
from tokenfield.parameters import scheduled

REAL = 1e-10
"""How large the imaginary part of an eigenvalue may be, beside the norm of the matrix, to be round-off."""


@front_door
def lipschitz_upper(attention: AbstractAttention, n: Count, R: float, d: Whole = None) -> float:
    r"""The upper bound $\sqrt3\,\|V\| (\|A\|^2 R^4 (4n+1) + n)^{1/2}$ on the Lipschitz constant of softmax attention on $B_R^n$.

    [castin2024], with scores $\langle Ax, y\rangle$, β included, and the norm $\sum_i |x_i|^2$. Its proof bounds one row of the
    Jacobian after another and asks only that a row's weights sum to 1, so that it holds for causal attention and any weights too.

    **Arguments**

    - `attention`: `Softmax`, or `Causal` of one, whose parameters do not change with depth.
    - `n`: how many tokens.
    - `R`: the radius of the ball that they lie in.
    - `d`: the dimension of their space; it need not be told, since norms do not depend on it.

    **Returns** the bound.

    **Raises** `InputError` for other attention, and where the bound leaves the range of floating-point numbers.

    >>> round(lipschitz_upper(Softmax(), n=1, R=1.0), 9)                      # √3 √(5 + 1)
    4.242640687
    """
    A, V = _matrices(attention, d)
    n, R = _sizes(n, R)
    stretch = np.linalg.norm(A, 2) * R * R
    bound = float(np.sqrt(3) * np.linalg.norm(V, 2) * np.hypot(stretch * np.sqrt(4.0 * n + 1), np.sqrt(n)))
    if not np.isfinite(bound):
        raise InputError("The bound exceeds the largest number. Take a smaller R, or a smaller β.")
    return bound


@front_door
def lipschitz_lower(attention: AbstractAttention, n: Count, R: float, d: Whole = None) -> float:
    r"""The lower bound $\sqrt{n-1}/(1 + (n-1)e^{-2R^2γ})$ on the Lipschitz constant of softmax attention with V = I on $B_R^n$.

    [castin2024], where $γ = \max(-λ_{\min}, λ_{\max}/8)$ over the real eigenvalues of A, scores being $\langle Ax, y\rangle$, β
    included. `adversarial` builds tokens that attain it. The first of them is seen by all others, so that it is a bound for causal
    attention too.

    **Arguments**

    - `attention`, `n`, `R`, `d`: as for `adversarial`; V is the identity, and all tokens weigh the same.

    **Returns** the bound; it grows like √n as long as n is small beside $e^{2R^2γ}$.

    **Raises** `InputError` for other attention, where V is not the identity, or A has no real eigenvalue.

    >>> round(lipschitz_lower(Softmax(), n=101, R=9.0), 6)                    # γ = 1/8: almost √100
    9.999998
    """
    A, V = _matrices(attention, d)
    n, R = _sizes(n, R)
    if not np.array_equal(V, np.eye(len(V))):
        raise InputError("The lower bound is known for V = I, but this attention has another V. Leave it out.")
    λ, _ = _steepest(A)
    γ = max(-λ, λ / 8)
    return float(np.sqrt(n - 1) / (1 + (n - 1) * np.exp(-2 * R * R * γ)))


@front_door
def adversarial(attention: AbstractAttention, n: Count, R: float, d: Whole = None) -> Tokens:
    r"""Tokens in the ball $B_R^n$ at which the local Lipschitz constant of softmax attention with V = I is $\sqrt{n-1}$, nearly.

    They prove the lower bound of [castin2024]: all other tokens stand in one place and look at the first. Let u be a real unit
    eigenvector, Au = λu. For λ < 0 the first token is -Ru and the others are Ru, so that the first has a score of $|λ|R^2$ with
    them and they have $-|λ|R^2$ with one another; for λ > 0 the first is Ru and the others are Ru/2, with scores $λR^2/2$ and
    $λR^2/4$. Either way the first has the share $p = 1/(1 + (n-1)e^{-2R^2γ})$ of the attention of each of the others, with γ = -λ
    or λ/8, and where it moves at a right angle to u, they all move p times as far. (In one dimension it moves along u, and they
    move farther.) Of all real eigenvalues that with the largest γ is taken.

    The first token is also the first in order, seen by all others under a causal mask, and with a larger share.

    **Arguments**

    - `attention`: `Softmax`, or `Causal` of one, whose parameters do not change with depth.
    - `n`: how many tokens, 2 or more.
    - `R`: the radius of the ball.
    - `d`: the dimension, where no matrix of the attention tells it; 2 when left out.

    **Returns** the tokens, of equal weights.

    **Raises** `InputError` for other attention, or where A has no real eigenvalue.

    >>> adversarial(Softmax(), n=3, R=8.0).x.tolist()
    [[8.0, 0.0], [4.0, 0.0], [4.0, 0.0]]
    """
    A, _ = _matrices(attention, d)
    n, R = _sizes(n, R)
    check.room(8 * n * len(A), f"{n} tokens in {len(A)} dimensions")
    λ, u = _steepest(A)
    first, others = (R, R / 2) if λ > 0 else (-R, R)
    return Tokens(np.outer(np.append(first, np.full(n - 1, others)), u))


def _sizes(n: int, R: float) -> tuple[int, float]:
    n, R = check.whole("n", n, 1, "the number of tokens"), check.number("R", R, positive=True)
    if R > 1e150:
        raise InputError(f"Argument `R` must be at most 1e150, so that scores are numbers, but is {R:g}.")
    return n, R


def _matrices(attention: AbstractAttention, d: Any) -> tuple[np.ndarray, np.ndarray]:
    """A with scores <Ax, y>, β included, and V, of softmax attention, masked or not."""
    inner = attention
    if isinstance(attention, Causal):
        if attention.alibi is not None or attention.rotary is not None or attention.window is not None:
            raise InputError("These bounds know causal masks alone, without window, ALiBi and rotary scores.")
        inner = attention.attention
    if not isinstance(inner, Softmax):
        raise InputError(
            f"These bounds are of softmax attention, Softmax(...) or Causal(Softmax(...)), but got {type(inner).__name__}."
        )
    if scheduled(inner) or check.traced(inner):
        raise InputError("These bounds need parameters that are known and do not change with depth.")
    size = _dimension(inner, d)
    inner.check(size)
    left, right = (written(part, size) for part in (inner.Q if inner.A is None else inner.A, inner.K))
    return float(inner.beta) * right.T @ left, written(inner.V, size)


def _dimension(attention: Softmax, d: Any) -> int:
    """The dimension that the matrices act on; as told, or 2, where all of them are numbers."""
    known = [part.shape[-1] for part in (attention.Q, attention.K, attention.V, attention.A) if np.ndim(part) == 2]
    if d is not None:
        d = check.whole("d", d, 1, "the dimension")
        check.room(4 * 8 * d * d, f"Matrices in {d} dimensions")
    return d if d is not None else known[0] if known else 2


def _steepest(A: np.ndarray) -> tuple[float, np.ndarray]:
    """The real eigenvalue λ with the largest γ = max(-λ, λ/8), and its unit eigenvector."""
    if not np.isfinite(A).all():
        raise InputError("The scores of this attention leave the range of floating-point numbers. Take a smaller β.")
    values, vectors = np.linalg.eig(A)
    real = np.flatnonzero(np.abs(np.imag(values)) <= REAL * max(np.abs(A).max(), np.finfo(float).tiny))
    if len(real) == 0:
        raise InputError(
            "The lower bound is told by the real eigenvalues of A = β KᵀQ, and this A has none. Take a symmetric A, say."
        )
    λ = np.real(values[real])
    best = int(np.argmax(np.maximum(-λ, λ / 8)))
    u = np.real(vectors[:, real[best]])
    return float(λ[best]), u / np.linalg.norm(u)
