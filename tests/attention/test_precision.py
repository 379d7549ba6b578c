"""float32 tokens under every attention: the same as float64 to float32's accuracy, and float32 all the way."""

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield import observe

rng = np.random.default_rng(0)
X = rng.normal(size=(6, 3))
X /= np.linalg.norm(X, axis=1, keepdims=True)
W, U, A = rng.normal(size=(2, 3)), rng.normal(size=(2, 3)), rng.normal(size=(3, 3))
KINDS = {
    "softmax": tkf.Softmax(2.0),
    "unnormalized": tkf.Unnormalized(2.0),
    "l2": tkf.L2(2.0),
    "sinkhorn": tkf.Sinkhorn(2.0),
    "sinkhorn with a matrix": tkf.Sinkhorn(2.0, A=A),
    "sigmoid": tkf.Sigmoid(2.0),
    "linear": tkf.Linear(),
    "relu": tkf.ReLU(),
    "hardmax": tkf.Hardmax(),
    "additive": tkf.Additive(W, U, beta=2.0),
    "additive with a vector": tkf.Additive(W, U, [1.0, 2.0]),
    "heads": tkf.MultiHead([tkf.Softmax(1.0), tkf.Sinkhorn(2.0)]),
    "causal": tkf.Causal(tkf.Softmax(2.0), window=0.5, alibi=1.0, rotary=3.0),
    "causal additive": tkf.Causal(tkf.Additive(W, U)),
    "krause": tkf.Krause(np.full((6, 6), 1 / 6)),
    "mean shift": tkf.MeanShift(2.0),
    "a function of t": tkf.Softmax(beta=lambda t: 2.0 + np.float64(0.5) * t),
}
WAYS = {
    "call": lambda attention, mu: attention(mu),
    "matrix": lambda attention, mu: observe.attention_matrix(mu, attention),
    "velocity": lambda attention, mu: tkf.velocity(tkf.Flow(attention, tkf.PostLN()), mu),
    "layers": lambda attention, mu: tkf.layers(tkf.Flow(attention, tkf.PostLN()), mu, 2).final.x,
    "evolve": lambda attention, mu: tkf.evolve(tkf.Flow(attention, tkf.PostLN()), mu, 0.5, save=2).final.x,
}


def agree(kind, way):
    exact, coarse = (np.asarray(WAYS[way](KINDS[kind], tkf.Tokens(X.astype(dtype)))) for dtype in (float, np.float32))
    assert coarse.dtype == np.float32 and exact.dtype == np.float64
    assert np.max(np.abs(coarse - exact)) < 3e-5 * max(1.0, np.max(np.abs(exact)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_field_in_float32(kind):
    agree(kind, "call")


@pytest.mark.parametrize("way", ["matrix", "velocity", "layers", "evolve"])
@pytest.mark.parametrize("kind", ["sinkhorn", "causal additive"])
def test_what_broke_in_float32(kind, way):
    agree(kind, way)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_everything_in_float32(kind, way):
    agree(kind, way)


def test_parts_show_their_numbers():
    assert repr(tkf.Softmax(beta=9.0)) == "Softmax(beta=9)"
    assert repr(tkf.Softmax(2.5, V=-1.0, Q=A)) == "Softmax(beta=2.5, Q: 3×3, V=-1·I)"
    assert repr(tkf.MultiHead([tkf.Softmax(1.0), tkf.L2(4.0)])) == "MultiHead(Softmax(beta=1), L2(beta=4))"
    assert repr(tkf.Causal(tkf.Softmax(1.0), window=0.5)) == "Causal(Softmax(beta=1), window=0.5)"
    assert repr(tkf.PostLN()) == "PostLN()" and repr(tkf.MixLN(2.0)) == "MixLN(tau=2)"
    assert repr(tkf.FisherRao(3.0)) == "FisherRao(rate=3)" and repr(tkf.NGPT(0.5)) == "NGPT(alpha=0.5)"
    assert repr(tkf.PerLayer([1.0, 2.0])) == "PerLayer(2 layers of shape (), step=1)"
