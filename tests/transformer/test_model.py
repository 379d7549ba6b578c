"""The whole architecture against numpy; its parts as flows; what if; text token by token."""

import equinox as eqx
import jax
import numpy as np
import pytest

import tokenfield as tkf
from tests.transformer import naive
from tokenfield.errors import InputError

IDS = np.random.default_rng(3).integers(0, 40, 9)
KINDS = ["softmax", "unnormalized", "l2", "sigmoid", "linear", "relu", "additive", "sinkhorn", "hardmax"]
SCHEMES = [tkf.Free(), tkf.PostLN(), tkf.PreLN(), tkf.PeriLN(), tkf.MixLN(1.0), tkf.NGPT(0.5), tkf.SqrtScaling()]
OPTIONS = [
    {"positions": "rotary", "groups": 1, "rotary_base": 500.0},
    {"positions": "sinusoidal", "activation": "silu", "gated": True, "bias": False},
    {"positions": "alibi", "norm": "rms", "activation": "gelu_tanh"},
    {"positions": "none", "causal": False, "activation": "relu"},
    {"positions": "learned", "window": 3, "head_size": 6, "groups": 2, "tied": False},
    {"shared": True, "activation": "tanh", "hidden": 20, "eps": 0.1},
]


def made(seed=0, **options):
    """A small model in float64, with weights large enough for its nonlinearities to count."""
    sizes = {"vocabulary": 40, "context": 16, "d": 16, "layers": 2, "heads": 4} | options
    model = tkf.Transformer.random(tkf.Architecture(**sizes), seed=seed).astype("float64")
    rng = np.random.default_rng(seed + 1)
    arrays, parts = eqx.partition(model, lambda leaf: eqx.is_inexact_array(leaf) and leaf.ndim > 0)
    known = {}

    def larger(leaf):
        if id(leaf) not in known:
            known[id(leaf)] = jax.numpy.asarray(np.asarray(leaf) + rng.normal(size=leaf.shape) * 0.3)
        return known[id(leaf)]

    return eqx.combine(jax.tree.map(larger, arrays), parts)


def close(one, other, tolerance):
    scale = np.max(abs(np.asarray(other)))
    assert np.max(abs(np.asarray(one) - np.asarray(other))) < tolerance * scale


@pytest.mark.parametrize("kind", KINDS)
def test_every_attention_agrees_with_numpy(kind):
    model = made(attention=kind, layers=1)
    close(model.run(IDS).x, naive.states(model, IDS), 1e-9 if kind == "sinkhorn" else 1e-12)
    close(model.logits(IDS), naive.logits(model, IDS), 1e-9 if kind == "sinkhorn" else 1e-12)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: type(scheme).__name__)
def test_every_scheme_agrees_with_numpy(scheme):
    model = made(normalization=scheme)
    close(model.run(IDS).x, naive.states(model, IDS), 1e-12)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())))
def test_every_option_agrees_with_numpy(options):
    model = made(**options)
    close(model.run(IDS).x, naive.states(model, IDS), 1e-12)
    close(model.logits(IDS), naive.logits(model, IDS), 1e-12)


def test_a_batch_with_padding_is_its_texts_alone():
    model = made(causal=False)
    padded = np.stack([IDS, np.concatenate([IDS[:6], [0, 0, 0]])])
    weights = np.array([[1] * 9, [1] * 6 + [0] * 3], float)
    together = model(padded, weights)
    close(together[0], model(IDS), 1e-13)
    close(together[1, :6], model(IDS[:6]), 1e-13)


def test_attention_matrices_have_rows_that_sum_to_one_and_look_back_only():
    matrices = made().attention(IDS)
    assert len(matrices) == 2 and matrices[0].shape == (4, 9, 9)
    close(np.sum(matrices[1], axis=-1), np.ones((4, 9)), 1e-13)
    assert np.all(np.triu(matrices[0][2], 1) == 0)


def test_sinkhorn_between_queries_and_keys_is_doubly_stochastic():
    P = np.asarray(made(attention="sinkhorn").attention(IDS)[0])
    close(P.sum(-1), np.ones((4, 9)), 1e-9)
    close(P.sum(-2), np.ones((4, 9)), 1e-9)
    assert np.max(abs(P - P.transpose(0, 2, 1))) > 0.01  # queries are not keys


def test_a_models_run_is_observed_drawn_moved_and_kept_as_any_run(tmp_path):
    model = tkf.Transformer.random(tkf.Architecture(vocabulary=257, d=8, layers=3, heads=2), seed=0)
    run = model.run("tokens are particles", half=True)
    energy, rank = tkf.observe.energy(run, 1.0), tkf.observe.effective_rank(run)
    assert energy.shape == rank.shape == (7,) and len(tkf.observe.clusters(run)) == 7
    assert str(run).startswith("Trajectory of n = 20, d = 8")
    for made in (run.plot(tmp_path / "run.png"), run.animate(tmp_path / "run.gif")):
        assert made.stat().st_size > 1000
    run.save(tmp_path / "run.zarr")
    again = tkf.Trajectory.load(tmp_path / "run.zarr")
    assert np.array_equal(again.x, run.x) and again.times.tolist() == [0, 0.5, 1, 1.5, 2, 2.5, 3]


def test_half_layers_stand_between_layers():
    model = made()
    run, halves = model.run(IDS), model.run(IDS, half=True)
    assert halves.times.tolist() == [0, 0.5, 1, 1.5, 2]
    close(halves.x[::2], run.x, 1e-14)


@pytest.mark.parametrize("options", [{}, {"positions": "rotary", "groups": 2}, {"causal": False}])
def test_a_block_is_the_euler_step_of_its_flow(options):
    model = made(**options)
    run = model.run(IDS)
    for k in range(2):
        close(tkf.layers(model.flow(k), run[k], 1).final.x, run.x[k + 1], 1e-13)


def test_a_blocks_flow_goes_on_in_continuous_depth():
    """Layers of step τ approach the flow as τ does 0: halving τ halves the distance."""
    model = made(normalization="pre_ln")
    mu = model.tokens(IDS)
    exact = tkf.evolve(model.flow(0), mu, 1.0, rtol=1e-10).final.x
    errors = [np.max(abs(tkf.layers(model.flow(0), mu, k, step=1 / k).final.x - exact)) for k in (40, 80)]
    assert 1.8 < errors[0] / errors[1] < 2.2


def test_the_field_of_a_block_at_other_points_is_that_of_a_token_there():
    model = made(causal=False, positions="none")
    mu, flow = model.tokens(IDS), model.flow(0)
    close(flow.attention(mu, mu.x[2:5]), tkf.velocity(flow, mu)[2:5], 1e-13)
    causal = made().flow(0).attention
    with pytest.raises(InputError, match="positions"):
        causal(mu, mu.x[:2])
    close(causal(mu, mu.x[2:5], s=mu.s[2:5]), causal(mu)[2:5], 1e-13)


def test_a_block_that_is_repeated_is_the_shared_model():
    model = made(shared=True, layers=5)
    close(model.repeat(IDS, 0, 5).x, model.run(IDS).x, 1e-13)


def test_what_if():
    model = made(causal=False)
    assert float(model.beta) == pytest.approx(0.5)
    assert float(model.replace(beta=2.0).beta) == 2.0
    other = model.replace(attention="l2")
    assert float(other.beta) == pytest.approx(0.25)
    close(other.run(IDS).x, naive.states(other, IDS), 1e-12)
    post = model.replace(normalization=tkf.PostLN())
    close(post.run(IDS).x, naive.states(post, IDS), 1e-12)
    assert post.blocks[0].mlp.after is not None and post.blocks[0].mlp.before is None
    back = post.replace(normalization="pre_ln")
    close(back.run(IDS).x, model.run(IDS).x, 1e-14)
    free = model.replace(normalization=tkf.Free()).replace(normalization=tkf.PreLN())
    assert free.blocks[0].mlp.before.gain is None  # whose own was given up
    with pytest.raises(InputError, match="doubly stochastic"):
        made().replace(attention="sinkhorn")
    with pytest.raises(InputError, match="no β"):
        model.replace(attention="hardmax", beta=1.0)


@pytest.mark.parametrize("kind", ["softmax", "linear"])
def test_text_with_the_cache_is_text_without(kind):
    model = made(attention=kind, positions="rotary", groups=2)
    said = model.continued(IDS, 7)
    assert said == model.continued(IDS, 7, cache=False)
    assert said[0] == int(np.argmax(naive.logits(model, IDS)[-1]))
    drawn = model.continued(IDS, 7, temperature=5.0, seed=1)
    assert drawn == model.continued(IDS, 7, temperature=5.0, seed=1, cache=False) != said


def test_tokens_are_drawn_from_the_softmax():
    model = made(vocabulary=4, layers=1)
    ids = np.array([1, 2])
    p = np.exp(naive.logits(model, ids)[-1])
    from tokenfield.transformer.generation import _drawn

    rng = np.random.default_rng(0)
    counts = np.bincount([_drawn(np.log(p), 1.0, rng) for _ in range(4000)], minlength=4) / 4000
    assert np.all(abs(counts - p / p.sum()) < 4 * np.sqrt(0.25 / 4000))


def test_numbers_of_parameters():
    """By hand: 12 d² + 13 d a block with biases, two norms and the tables."""
    d = 16
    assert made(layers=3).parameters == 3 * (12 * d**2 + 13 * d) + 2 * d + 40 * d + 16 * d
    assert made(layers=3, shared=True).parameters == 12 * d**2 + 13 * d + 2 * d + 40 * d + 16 * d


def test_bytes_are_the_embedded_tokenizer():
    model = tkf.Transformer.random(tkf.Architecture(vocabulary=257, d=16, layers=1, heads=2))
    assert model.encode("né").tolist() == [110, 195, 169]
    assert isinstance(model.generate("né", 3), str)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tkf.Architecture(d=10, heads=4), "multiple of `heads`"),
        (lambda: tkf.Architecture(heads=4, groups=3), "multiple of `groups`"),
        (lambda: tkf.Architecture(layers=0), "at least 1"),
        (lambda: tkf.Architecture(attention="softmaks"), "Did you mean 'softmax'"),
        (lambda: tkf.Architecture(attention=tkf.Softmax(Q=2.0)), "leave `Q`"),
        (lambda: tkf.Architecture(attention=tkf.Causal(tkf.Softmax())), "kernel"),
        (lambda: tkf.Architecture(attention="sinkhorn", causal=True), "doubly stochastic"),
        (lambda: tkf.Architecture(attention="sigmoid", positions="alibi"), "ALiBi"),
        (lambda: tkf.Architecture(positions="alibi", causal=False), "ALiBi"),
        (lambda: tkf.Architecture(normalization="mix_ln"), "MixLN"),
        (lambda: tkf.Architecture(normalization=tkf.Rescaled()), "no scheme"),
        (lambda: tkf.Architecture(norm="batch"), "layer"),
        (lambda: tkf.Architecture(activation="swish"), "silu"),
        (lambda: tkf.Architecture(depth=3), "no argument `depth`"),
        (lambda: tkf.Architecture(causal="yes"), "causal"),
        (lambda: made().run([1]), "at least two tokens"),
        (lambda: made().run(np.zeros(17)), "16 positions"),
        (lambda: made().run([1, 99]), "0 to 39"),
        (lambda: made().run([1.5, 2]), "whole"),
        (lambda: made().run([[1, 2]]), "shape"),
        (lambda: made().flow(2), "blocks 0 to 1"),
        (lambda: made(causal=False).generate([1, 2], 3), "causal"),
        (lambda: made().continued(IDS, 8), "16 positions"),
        (lambda: made().continued(IDS, 2, temperature=-1.0), "negative"),
        (lambda: tkf.evolve(made().flow(0), tkf.Tokens.uniform_sphere(4, 3), 1.0), "16 dimensions"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call, words):
    with pytest.raises(InputError, match=words):
        call()
