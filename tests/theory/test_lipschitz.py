"""Bounds on the Lipschitz constant of softmax attention, and the tokens that attain them."""

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield import observe, theory
from tokenfield.errors import InputError

NS = [16, 32, 64, 128, 256, 512]
SOME = [16, 90, 512]
ROTATION = np.array([[0.0, -1.0], [1.0, 0.0]])
SKEWED = np.array([[2.0, 1.0, 0.0], [0.0, -0.5, 3.0], [0.0, 0.0, 1.0]])  # eigenvalues 2, -0.5, 1, no symmetry

ATTENTIONS = {
    "A = I": (tkf.Softmax(1.0, A=np.eye(3)), 8.0),
    "A = -I": (tkf.Softmax(-1.0, A=np.eye(3)), 4.0),
    "general A": (tkf.Softmax(0.5, A=SKEWED), 8.0),
    "causal": (tkf.Causal(tkf.Softmax(0.5, A=SKEWED)), 8.0),
    "Q and K": (tkf.Softmax(2.0, Q=np.eye(3)[:2], K=np.array([[1.0, 0.5, 0.0], [0.0, -1.0, 0.0]])), 6.0),
}


def grows_like_the_root(attention, R, ns):
    """Between the two bounds, with an exponent of 1/2; and in the ball."""
    found = []
    for n in ns:
        mu = theory.adversarial(attention, n, R)
        assert mu.n == n and float(mu.radii.max()) <= R * (1 + 1e-12)
        found.append(float(observe.lipschitz(attention, mu)))
        lower, upper = theory.lipschitz_lower(attention, n, R), theory.lipschitz_upper(attention, n, R)
        assert lower * (1 - 1e-6) <= found[-1] <= upper
    assert np.polyfit(np.log(ns), np.log(found), 1)[0] == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("name", ["A = I", "A = -I", "general A", "causal"])
def test_adversarial_tokens_grow_like_the_root_of_their_number(name):
    grows_like_the_root(*ATTENTIONS[name], SOME)


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTENTIONS)
def test_adversarial_tokens_of_many_numbers(name):
    grows_like_the_root(*ATTENTIONS[name], NS)


def test_other_tokens_do_not_grow_so():
    """What makes the exponent are the inputs: random tokens in the same ball have another one."""
    attention, R = ATTENTIONS["A = I"]
    random = lambda n: tkf.Tokens(np.random.default_rng(n).uniform(-R / 2, R / 2, size=(n, 3)))
    found = [float(observe.lipschitz(attention, random(n))) for n in SOME]
    assert np.polyfit(np.log(SOME), np.log(found), 1)[0] < 0.4


def test_the_share_of_the_first_token_is_that_of_the_proof():
    """p = 1/(1 + (n-1)e^{-2R²γ}) in the attention of every other token, with either sign of the eigenvalue."""
    for attention, γ in ((tkf.Softmax(0.6), 0.6 / 8), (tkf.Softmax(-0.6), 0.6)):
        matrix = np.asarray(observe.attention_matrix(theory.adversarial(attention, 7, 2.5), attention))
        assert matrix[1:, 0] == pytest.approx(1 / (1 + 6 * np.exp(-2 * 2.5**2 * γ)), rel=1e-12)


def test_the_bounds_by_hand():
    A, V = np.diag([3.0, -2.0]), np.diag([1.0, 4.0])
    upper = theory.lipschitz_upper(tkf.Softmax(0.5, A=A, V=V), n=10, R=2.0)
    assert upper == pytest.approx(np.sqrt(3) * 4 * np.sqrt(1.5**2 * 2**4 * 41 + 10), rel=1e-14)
    lower = theory.lipschitz_lower(tkf.Softmax(0.5, A=A), n=10, R=0.7)
    assert lower == pytest.approx(3 / (1 + 9 * np.exp(-2 * 0.49 * 1.0)), rel=1e-14), "γ = max(1, 1.5/8)"


def test_the_upper_bound_holds_at_random_tokens():
    rng = np.random.default_rng(0)
    for _ in range(5):
        A, V, R = rng.normal(size=(3, 3)), rng.normal(size=(3, 3)), rng.uniform(0.5, 3)
        x = rng.normal(size=(8, 3))
        mu = tkf.Tokens(R * x / np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True)))
        attention = tkf.Softmax(A=A, V=V)
        assert float(observe.lipschitz(attention, mu)) <= theory.lipschitz_upper(attention, 8, R)


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: theory.adversarial(tkf.Softmax(A=ROTATION), 4, 1.0), "real eigenvalues of A.*has none"),
        (lambda: theory.adversarial(tkf.L2(), 4, 1.0), "softmax attention.*but got L2"),
        (lambda: theory.adversarial(tkf.Causal(tkf.Softmax(), window=0.1), 4, 1.0), "without window"),
        (lambda: theory.lipschitz_lower(tkf.Softmax(V=2.0), 4, 1.0), "known for V = I"),
        (lambda: theory.lipschitz_upper(tkf.Softmax(lambda t: t), 4, 1.0), "do not change with depth"),
        (lambda: theory.lipschitz_upper(tkf.Softmax(), 4, -1.0), "`R` must be positive"),
    ],
)
def test_what_the_theorem_does_not_know_is_refused(ask, sentence):
    with pytest.raises(InputError, match=sentence):
        ask()
