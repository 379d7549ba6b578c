"""Discrete layers, and parameters that change with depth."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tests import fast_first
from tokenfield.errors import InputError

SPHERE = tkf.Tokens.uniform_sphere(n=10, d=3, seed=2)
NORMS = [
    tkf.Free(),
    tkf.PostLN(),
    tkf.PreLN(),
    tkf.NGPT(0.7),
]
MORE_NORMS = [tkf.Rescaled(), tkf.PeriLN(), tkf.MixLN(0.5), tkf.SqrtScaling(), tkf.TraceNorm()]


@pytest.mark.parametrize(
    "norm",
    [*NORMS[:2], *(pytest.param(norm, marks=pytest.mark.slow) for norm in (*NORMS[2:], *MORE_NORMS))],
    ids=lambda n: type(n).__name__,
)
def test_layers_converge_to_the_flow_at_first_order(norm):
    flow = tkf.Flow(
        tkf.Softmax(2.0, V=0.8), norm, mlp=tkf.MLP.random(3, 6, around=isinstance(norm, tkf.Rescaled), seed=1)
    )
    exact = tkf.evolve(flow, SPHERE, t=1.0, save=1, rtol=1e-10).final.x
    depths = np.array([16, 32, 64, 128, 256])
    errors = [np.max(abs(tkf.layers(flow, SPHERE, int(k), 1 / k, save=1).final.x - exact)) for k in depths]
    slope = np.polyfit(np.log(1 / depths), np.log(errors), 1)[0]
    assert 0.9 < slope < 1.15, errors


def ln(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def attend(x, beta=2.0):
    k = np.exp(beta * x @ x.T)
    return k / k.sum(1, keepdims=True) @ x


@pytest.mark.parametrize(
    ("norm", "layer"),
    [
        (tkf.Free(), lambda x, t: x + 0.5 * attend(x)),
        (tkf.PostLN(), lambda x, t: ln(x + 0.5 * attend(x))),
        (tkf.PreLN(), lambda x, t: x + 0.5 * attend(ln(x))),
        (tkf.PeriLN(), lambda x, t: x + 0.5 * ln(attend(ln(x)))),
        (tkf.MixLN(0.7), lambda x, t: ln(x + 0.5 * attend(ln(x))) if t <= 0.7 else x + 0.5 * attend(ln(x))),
        (tkf.NGPT(0.3), lambda x, t: ln(x + 0.5 * 0.3 * ln(attend(x)))),
        (tkf.SqrtScaling(), lambda x, t: ln(x + 0.5 / np.sqrt(t + 1) * attend(x))),
    ],
    ids=["free", "post", "pre", "peri", "mix", "ngpt", "sqrt"],
)
def test_layers_are_the_layers_of_the_literature(norm, layer):
    run = tkf.layers(tkf.Flow(tkf.Softmax(2.0), norm), SPHERE, depth=6, step=0.5)
    x = np.asarray(SPHERE.x)
    for k in range(6):
        x = layer(x, 0.5 * k)
        assert np.allclose(run.x[k + 1], x, atol=1e-13)
    assert run.times.tolist() == [0.5 * k for k in range(7)] and run.status is tkf.Status.COMPLETED


def test_every_layer_its_own_weights():
    Q, K, V = (tkf.PerLayer.gaussian(5, 3, 3, seed=s) for s in range(3))
    run = tkf.layers(tkf.sa(1.5, Q=Q, K=K, V=V), SPHERE, depth=5)
    x = np.asarray(SPHERE.x)
    for q, k, v in zip(Q.values, K.values, V.values, strict=True):
        kernel = np.exp(1.5 * (x @ q.T) @ (x @ k.T).T)
        x = ln(x + kernel / kernel.sum(1, keepdims=True) @ x @ v.T)
    assert np.allclose(run.final.x, x, atol=1e-12)
    assert np.allclose(
        tkf.layers(tkf.sa(1.5, Q=Q.values, K=K.values, V=V.values), SPHERE, 5, save=2).final.x, x, atol=1e-12
    )
    with pytest.raises(InputError, match="parameters for 5 layers, but depth = 6"):
        tkf.layers(tkf.sa(1.5, Q=Q, K=K, V=V), SPHERE, depth=6)


def test_random_ensembles_by_vmap():
    final = lambda Q: tkf.layers(tkf.sa(1.5, Q=tkf.PerLayer(Q)), SPHERE, 5, save=1).final.x
    Qs = jnp.stack([tkf.PerLayer.gaussian(5, 3, 3, seed=s).values for s in range(4)])
    assert jax.vmap(final)(Qs).shape == (4, 10, 3)
    assert np.all(np.isfinite(jax.grad(lambda Q: jnp.sum(final(Q) ** 3))(Qs[0])))


def test_layers_that_overflow_keep_what_was_computed():
    run = tkf.layers(tkf.Flow(tkf.Linear(1.0)), tkf.Tokens.gaussian(5, 2, seed=0), depth=40)
    assert run.status is tkf.Status.BLOW_UP and np.all(np.isfinite(run.x)) and 2 < len(run) < 41


def test_parameters_as_functions_of_time():
    """β(t) = 9/(1+t), V = cos(t) I, two tokens on the circle: φ̇ = -2 cos(t) sin φ e^{β cos φ}/(e^β + e^{β cos φ})."""
    from scipy.integrate import solve_ivp

    x = [[1.0, 0.0], [np.cos(2.0), np.sin(2.0)]]
    run = tkf.evolve(tkf.sa(lambda t: 9 / (1 + t), V=lambda t: jnp.cos(t)), tkf.Tokens(x), t=1.5, save=2, rtol=1e-10)

    def rate(t, φ):
        β = 9 / (1 + t)
        return -2 * np.cos(t) * np.sin(φ) * np.exp(β * np.cos(φ)) / (np.exp(β) + np.exp(β * np.cos(φ)))

    φ = solve_ivp(rate, (0, 1.5), [2.0], method="DOP853", rtol=1e-12, atol=1e-13).y[0, -1]
    assert np.arccos(float(run.final.x[0] @ run.final.x[1])) == pytest.approx(φ, abs=1e-8)
    assert "beta(t)" in str(run.flow)


def test_one_value_a_layer_in_the_flow():
    """evolve holds each layer's value for one unit of time, and steps exactly onto the changes."""
    run = tkf.evolve(tkf.sa(tkf.PerLayer([1.0, 6.0, 3.0])), SPHERE, t=3.0, save=4, rtol=1e-10)
    mu = SPHERE
    for beta in (1.0, 6.0, 3.0):
        mu = tkf.evolve(tkf.sa(beta), mu, t=1.0, save=2, rtol=1e-10).final
    assert np.max(abs(run.final.x - mu.x)) < 1e-8
    assert np.array_equal(tkf.evolve(tkf.sa([1.0, 6.0, 3.0]), SPHERE, t=3.0, save=4, rtol=1e-10).x, run.x)
    assert "3 layers" in str(run.flow)


def test_mlp_blocks():
    x = np.asarray(SPHERE.x)
    relu = tkf.MLP(W1=2.0, b1=[0.1, -0.2, 0.0], W2=-1.0, b2=[1.0, 0.0, 0.0], activation="relu")
    assert np.allclose(relu(SPHERE.x), -np.maximum(2 * x + [0.1, -0.2, 0.0], 0) + [1.0, 0, 0])
    gelu = tkf.MLP(activation="gelu", around=True)
    field = tkf.Softmax(2.0)(SPHERE)
    assert np.allclose(tkf.velocity(tkf.Flow(tkf.Softmax(2.0), mlp=gelu), SPHERE), gelu(field))


GRADIENTS = {
    "softmax": tkf.Softmax(1.3, Q=0.9, V=0.8),
    "unnormalized": tkf.Unnormalized(0.7, K=0.9),
    "l2": tkf.L2(0.8, Q=0.9),
    "sinkhorn": tkf.Sinkhorn(1.1, Q=0.9, V=0.8, tolerance=1e-13),
    "sigmoid": tkf.Sigmoid(1.2, b=-0.3),
    "linear": tkf.Linear(0.9, V=0.7),
    "relu": tkf.ReLU(0.9, V=0.7),
    "hardmax": tkf.Hardmax(V=0.7),
    "additive": tkf.Additive(W=np.eye(3) * 0.5, U=np.ones((3, 3)) * 0.2, v=[1.0, -0.5, 0.3], V=0.9),
    "heads": tkf.MultiHead([tkf.Softmax(1.0), tkf.L2(0.5)], output=np.ones((3, 6)) * 0.3),
    "causal": tkf.Causal(tkf.Softmax(1.2), alibi=0.4, rotary=2.0),
    "mean-shift": tkf.MeanShift(0.8),
}


@pytest.mark.parametrize("name", fast_first(GRADIENTS, next(iter(GRADIENTS))))
def test_gradients_of_every_attention(name):
    """With respect to every parameter and the tokens, against central differences; and vmap over them."""
    probe = np.random.default_rng(0).normal(size=(10, 3))
    direction = np.random.default_rng(1).normal(size=(10, 3))
    leaves, structure = jax.tree.flatten(GRADIENTS[name])
    real = [i for i, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, jnp.floating)]

    @partial(jax.jit, static_argnums=1)
    def value(h, i):
        moved = [leaf + h if j == i else leaf for j, leaf in enumerate(leaves)]
        mu = tkf.Tokens(SPHERE.x + (h * direction if i is None else 0.0))
        return jnp.sum(jax.tree.unflatten(structure, moved)(mu) * probe)

    for i in [None, *real]:
        slope = float(jax.grad(value)(0.0, i))
        h = 1e-5
        assert slope == pytest.approx(float(value(h, i) - value(-h, i)) / (2 * h), rel=1e-5, abs=1e-7), i
    batch = jax.vmap(lambda h: value(h, real[0]))(jnp.array([0.0, 0.1]))
    assert np.allclose(batch, [value(0.0, real[0]), value(0.1, real[0])], atol=1e-10)


def test_the_number_of_post_layers():
    """A layer that begins before τ is a Post-LN layer: of length h, the first ⌈τ/h⌉, whatever rounding does to kh."""
    x = 3 * np.asarray(SPHERE.x)
    for tau, h, count in [
        (25.0, 1.0, 25),
        (0.7, 0.7 / 7, 7),
        (0.3, 0.1, 3),
        (2.4, 0.5, 5),
        (1.0, 1 / 3, 3),
        (0.0, 1.0, 0),
    ]:
        run = tkf.layers(tkf.Flow(tkf.Softmax(2.0), tkf.MixLN(tau)), tkf.Tokens(x), depth=count + 3, step=h)
        on = np.max(abs(np.linalg.norm(run.x[1:], axis=-1) - 1), axis=-1) < 1e-12
        assert on.tolist() == [True] * count + [False] * 3, (tau, h)


@pytest.mark.parametrize("many", [False, True], ids=["alone", "in an ensemble"])
def test_mixed_layers_from_off_the_sphere_converge_to_the_flow(many):
    """The first layer brings tokens to the sphere, and so does evolve at once; after the switch they leave it from there."""
    start = tkf.Tokens(np.asarray(SPHERE.x) * np.linspace(0.5, 12.0, 10)[:, None])
    flow, early = (tkf.Flow(tkf.Softmax(2.0), tkf.MixLN(tau)) for tau in (0.5, -1.0))
    if many:
        exact = tkf.evolve([flow, early], start, t=1.0, save=[0.25, 1.0], rtol=1e-10).x
        assert np.max(abs(exact[1] - tkf.evolve(early, start, t=1.0, save=[0.25, 1.0], rtol=1e-10).x)) < 1e-9
        assert np.max(np.linalg.norm(exact[1], axis=-1)) > 10, "Pre-LN from the start keeps lengths"
        exact = exact[0]
    else:
        exact = tkf.evolve(flow, start, t=1.0, save=[0.25, 1.0], rtol=1e-10).x
    errors = []
    for depth in (64, 256):
        run = tkf.layers(flow, start, depth, 1 / depth)
        errors.append([float(np.max(abs(run.x[k] - x))) for k, x in ((depth // 4, exact[0]), (depth, exact[1]))])
    assert np.all(np.log(np.array(errors[0]) / errors[1]) / np.log(4) > 0.9), errors


def test_equiangular_tokens_off_the_sphere_are_brought_to_it():
    """As the tokens that they stand for: lengths are 1 until the switch."""
    flow, mu = tkf.Flow(tkf.Softmax(2.0), tkf.MixLN(0.5)), tkf.Equiangular(0.2, 5, r=3.0)
    ours = tkf.evolve(flow, mu, t=1.0, save=[0.0, 0.5, 1.0], rtol=1e-10)
    theirs = tkf.evolve(flow, mu.tokens(5), t=1.0, save=[0.0, 0.5, 1.0], rtol=1e-10)
    assert np.allclose(ours.states.r, np.linalg.norm(theirs.x[:, 0], axis=-1), atol=1e-8)


EQUIANGULAR_NORMS = [
    tkf.PostLN(),
    tkf.MixLN(0.4),
    tkf.Free(),
    tkf.PreLN(),
    tkf.PeriLN(),
    tkf.NGPT(0.7),
    tkf.SqrtScaling(),
]


@pytest.mark.parametrize(
    "norm", fast_first([*EQUIANGULAR_NORMS, tkf.Rescaled()], "PostLN", "MixLN", name=lambda norm: type(norm).__name__)
)
def test_layers_of_equiangular_tokens_are_those_of_the_tokens(norm):
    flow, mu = tkf.Flow(tkf.Softmax(2.0, V=0.8), norm), tkf.Equiangular(0.2, 5, r=1.5)
    ours, theirs = tkf.layers(flow, mu, 6, 0.3), tkf.layers(flow, mu.tokens(), 6, 0.3).gram
    assert np.allclose(ours.states.r**2, theirs[:, 0, 0], atol=1e-13, rtol=1e-13)
    assert np.allclose(ours.states.rho, theirs[:, 0, 1] / theirs[:, 0, 0], atol=1e-13)


def test_many_layers_bring_equiangular_tokens_closer_than_any_number():
    """Near the collapse of softmax attention every layer multiplies 1 - ρ by 1/(1 + τ)²."""
    run = tkf.layers(tkf.sa(1.0), tkf.Equiangular(0.5, 2000), 2000, 1.0)
    assert run.status is tkf.Status.COMPLETED
    assert np.allclose(np.diff(run.states.log_gap)[-100:], -2 * np.log(2.0), rtol=1e-12)


@pytest.mark.parametrize(
    ("norm", "attention"),
    [
        (tkf.TraceNorm(), tkf.Softmax(0.5, V=-0.5)),
        pytest.param(tkf.Free(), tkf.Linear(V=-0.3), marks=pytest.mark.slow),
        pytest.param(tkf.Rescaled(), tkf.Softmax(0.5, V=-0.5), marks=pytest.mark.slow),
        pytest.param(tkf.Free(), tkf.Sinkhorn(0.5), marks=pytest.mark.slow),
    ],
    ids=repr,
)
def test_layers_of_a_gaussian_are_those_of_the_points_of_a_quadrature(norm, attention):
    mean, cov = np.array([1.0, 0.5]), np.array([[0.3, 0.09], [0.09, 0.18]])
    density = lambda x: jnp.exp(-0.5 * jnp.sum((x - mean) @ np.linalg.inv(cov) * (x - mean), axis=1))
    points = tkf.Tokens.quadrature(density, box=[(-4.5, 6.5), (-4.0, 5.0)], n=48)
    flow = tkf.Flow(attention, norm)
    ours, theirs = (tkf.layers(flow, mu, 6, 0.2, save=1).final for mu in (tkf.Gaussian(mean, cov), points))
    theirs = tkf.Gaussian.of(theirs)
    assert np.allclose(ours.mean, theirs.mean, atol=1e-12) and np.allclose(ours.cov, theirs.cov, atol=1e-12)


def test_layers_of_many_equiangular_tokens_and_gaussians():
    """Lists of them are run in all pairs, and what varies among starts is told."""
    starts = [tkf.Equiangular(0.1, 5), tkf.Equiangular(0.2, 50)]
    runs = tkf.layers([tkf.sa(1.0), tkf.sa(4.0)], starts, 4)
    assert np.array_equal(runs[1, 0].states.log_gap, tkf.layers(tkf.sa(4.0), starts[0], 4).states.log_gap)
    data = runs.to_xarray()
    assert np.allclose(data.rho, [0.1, 0.2]) and data.rho.dims == ("start",) and data.start_n.values.tolist() == [5, 50]
    flow = tkf.Flow(tkf.Softmax(0.5, V=-0.5))
    runs = tkf.layers([flow], [tkf.Gaussian([c], [[1.0]]) for c in (0.0, 1.0)], 3)
    assert runs.states.mean.shape == (1, 2, 4, 1)


def test_layers_of_measures_that_have_none():
    with pytest.raises(InputError, match="Layers act on Tokens, Equiangular or a Gaussian, but got a CircleDensity"):
        tkf.layers(tkf.sa(1.0), tkf.CircleDensity.wave(0.1, degree=8), 3)
    with pytest.raises(InputError, match="`summation` is for Tokens"):
        tkf.layers(tkf.sa(1.0), tkf.Equiangular(0.1, 5), 3, summation="dense")
    with pytest.raises(InputError, match="TraceNorm normalization has no layers of equiangular tokens"):
        tkf.layers(tkf.Flow(tkf.Softmax(1.0), tkf.TraceNorm()), tkf.Equiangular(0.1, 5), 3)
