"""A probe measures what its formulas say, on a small model against plain numpy, and refuses what cannot be probed."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenfield as tkf
from tests.test_cli import tokenfield
from tests.test_report import Reader
from tokenfield import observe
from tokenfield.errors import InputError, StoreError
from tokenfield.transformer.norms import normed
from tokenfield.transformer.probe import Probe
from tokenfield.transformer.probe import statistics as of
from tokenfield.transformer.probe.controls import untrained
from tokenfield.transformer.probe.curves import curve, told
from tokenfield.transformer.probe.looks import looks, visible
from tokenfield.transformer.probe.stretch import constants, exponent
from tokenfield.transformer.probe.texts import encoded, read

ARCHITECTURE = tkf.Architecture(vocabulary=257, context=40, d=16, layers=2, heads=2, hidden=20)
TEXT = "tokens meet"


def louder(model, by=12.0):
    """A small model whose weights are large enough for attention to be uneven."""
    return jax.tree.map(lambda leaf: by * leaf if eqx.is_inexact_array(leaf) and leaf.ndim == 2 else leaf, model)


@pytest.fixture(scope="module")
def model():
    return louder(tkf.Transformer.random(ARCHITECTURE, seed=3)).astype("float64")


@pytest.fixture(scope="module")
def found(model):
    return tkf.probe(model, [TEXT, "attention is a field"], lengths=[4, 8], lipschitz=1, repeat=5)


@pytest.fixture(scope="module")
def look(model):
    """The first block at the text, and its tokens."""
    states = np.asarray(model.run(TEXT).x)
    return next(iter(looks(model, states))), states[0]


# States


def test_states_are_measured_as_the_observables_do(model, found):
    run = model.run(TEXT)
    one = found.data.sel(variant="text", sinks="with").isel(text=0)
    np.testing.assert_allclose(one.cosine, observe.mean_overlap(run), atol=1e-12)
    np.testing.assert_allclose(one["rank"], observe.effective_rank(run), rtol=1e-9)
    np.testing.assert_allclose(one.radius, np.linalg.norm(run.x, axis=2).mean(axis=1), rtol=1e-12)
    assert one.clusters.values.tolist() == [len(c) for c in observe.clusters(run, 0.5)]
    np.testing.assert_allclose(one.histogram, observe.overlap_histogram(run, of.BINS).share, atol=1e-12)
    β = found.about["energy_beta"]
    energies = [observe.energy(tkf.Tokens(mu.directions), β, scaled=True) for mu in (run[k] for k in range(len(run)))]
    np.testing.assert_allclose(one.energy, 2 * β * np.asarray(energies), rtol=1e-9)


def test_the_mean_cosine_leaves_the_diagonal_out():
    x = np.random.default_rng(0).normal(size=(5, 3))
    θ = x / np.linalg.norm(x, axis=1)[:, None]
    pairs = [θ[i] @ θ[j] for i in range(5) for j in range(5) if i != j]
    assert of.cosine(x) == pytest.approx(np.mean(pairs))


# Attention


def test_a_look_sees_what_the_model_says(model, look):
    one, x = look
    np.testing.assert_allclose(one.P, model.attention(TEXT)[0], atol=1e-12)
    np.testing.assert_allclose(one.S, model.scores(TEXT)[0], atol=1e-12)
    np.testing.assert_allclose(x + one.added, model.run(TEXT, half=True).x[1], atol=1e-12)
    assert visible(model, 3).tolist() == np.tril(np.ones((3, 3), bool)).tolist()


def test_entropies_sinks_and_spreads_by_their_formulas(model, look):
    one, _ = look
    n = len(one.O)
    seen = visible(model, n)
    H = [[-sum(p * np.log(p) for p in one.P[h, i, : i + 1] if p > 0) for i in range(1, n)] for h in range(2)]
    entropy, share = of.entropy(one.P, seen)
    np.testing.assert_allclose(entropy, np.mean(H, axis=1), rtol=1e-9)
    np.testing.assert_allclose(share, np.mean(H / np.log(np.arange(2, n + 1)), axis=1), rtol=1e-9)
    np.testing.assert_allclose(of.held(one.P, seen), one.P[:, 1:].mean(axis=1), atol=1e-12)
    wide = lambda S: np.mean([np.std(S[i, : i + 1]) for i in range(1, n)])
    np.testing.assert_allclose(of.beta(one, seen), [wide(S) / wide(one.O) for S in one.S], rtol=1e-9)
    corr = lambda S: np.mean([np.corrcoef(S[i, : i + 1], one.O[i, : i + 1])[0, 1] for i in range(1, n)])
    np.testing.assert_allclose(of.alignment(one, seen), [corr(S) for S in one.S], rtol=1e-9)


def on_the_sphere(x, beta):
    """A look at tokens on the sphere with Q = K = I, without a norm."""
    from tokenfield.transformer.probe.looks import Look, overlap_matrix

    S = beta * x @ x.T
    P = np.exp(S - S.max(axis=1, keepdims=True))
    return Look(x, x, (P / P.sum(axis=1, keepdims=True))[None], S[None], overlap_matrix(x)), np.ones(
        (len(x), len(x)), bool
    )


@pytest.mark.parametrize("beta", [0.3, 4.0, 50.0])
def test_the_effective_beta_on_the_sphere_is_beta(beta):
    """Also among the keys that a mask leaves; and of equiangular tokens, where the own token alone differs."""
    x = np.asarray(tkf.Tokens.uniform_sphere(20, 5, seed=1).x)
    one, seen = on_the_sphere(x, beta)
    assert of.beta(one, seen)[0] == pytest.approx(beta, rel=1e-12)
    assert of.beta(one, np.tril(seen))[0] == pytest.approx(beta, rel=1e-12)
    assert of.alignment(one, seen)[0] == pytest.approx(1.0)
    one, seen = on_the_sphere(np.asarray(tkf.Tokens.equiangular(9, rho=0.4).x), beta)
    assert of.beta(one, seen)[0] == pytest.approx(beta, rel=1e-9)
    if beta < 20:  # where attention is not one token's alone
        assert of.concentrated(one, seen)[0] == pytest.approx(beta, rel=1e-9)


def test_a_model_on_the_sphere_has_its_own_beta():
    """Through a whole block: Q = K = I, one head, RMSNorm reads √d θ, so that β d is the theory's."""
    of_it = tkf.Architecture(
        vocabulary=257, d=16, layers=1, heads=1, norm="rms", eps=0.0, bias=False, positions="none", causal=False
    )
    model = tkf.Transformer.random(of_it).astype("float64")
    eye = jnp.eye(16)
    model = eqx.tree_at(lambda m: (m.blocks[0].attention.f.query.W, m.blocks[0].attention.f.key.W), model, (eye, eye))
    data = tkf.probe(model, "abcdefghijk", lipschitz=0).data
    assert float(data.beta.sel(variant="text", sinks="with")[0, 0, 0]) == pytest.approx(0.25 * 16, rel=1e-9)


def test_one_cluster_has_no_effective_beta():
    one, seen = on_the_sphere(np.tile([[1.0, 0.0]], (4, 1)), 2.0)
    assert np.isnan(of.beta(one, seen)).all() and np.isnan(of.concentrated(one, seen)).all()


def test_sinks_are_found_and_left_out(model):
    n = 6
    seen = np.ones((n, n), bool)
    P = np.full((1, n, n), 0.4 / (n - 1))
    P[:, :, 2] = 0.6
    assert of.sinks(P, seen).tolist() == [False, False, True, False, False, False]
    assert not of.sinks(np.full((1, n, n), 1 / n), seen).any()
    causal = np.tril(seen)
    uniform = causal / causal.sum(axis=1, keepdims=True)
    assert not of.sinks(uniform[None], causal).any(), (
        "the first token holds much of uniform causal attention, and is no sink"
    )


def test_without_sinks_is_the_rest_by_itself(monkeypatch, model):
    monkeypatch.setattr(of, "EXCESS", 0.02)
    data = tkf.probe(model, TEXT, lipschitz=0).data.sel(variant="text").isel(text=0)
    sinks = int(data.sink_tokens)
    assert 0 < sinks < len(TEXT) - 1
    run, seen = model.run(TEXT), visible(model, len(TEXT))
    gone = np.any([of.sinks(np.asarray(P), seen) for P in model.attention(TEXT)], axis=0)
    assert gone.sum() == sinks
    rest = [of.cosine(np.asarray(x)[~gone]) for x in run.x]
    np.testing.assert_allclose(data.cosine.sel(sinks="without"), rest, atol=1e-12)


# Controls and theory


def test_the_untrained_control_has_the_scale_of_the_beginning(model):
    fresh = untrained(model, seed=1)
    W = fresh.blocks[1].attention.f.query.W
    assert abs(float(jnp.std(W)) - 0.02) < 0.004 and W.dtype == model.dtype
    assert float(jnp.std(fresh.blocks[0].mlp.f.down.W)) < 0.014, "what Pre-LN only adds up is smaller by √(2L)"
    assert float(jnp.abs(fresh.blocks[0].mlp.f.down.b).max()) == 0 and bool((fresh.norm.gain == 1).all())
    own = untrained(model, seed=1, kind="own")
    before, after = model.blocks[0].mlp.f.up.W, own.blocks[0].mlp.f.up.W
    assert float(jnp.std(after)) == pytest.approx(float(jnp.std(before)), rel=0.15)
    assert float(own.beta) == float(model.beta), "what is no weight stays"


def test_shared_blocks_stay_shared():
    model = tkf.Transformer.random(dataclasses.replace(ARCHITECTURE, shared=True), seed=0)
    fresh = untrained(model)
    assert fresh.parameters == model.parameters


def test_shuffling_keeps_the_tokens_and_moves_them(found, model):
    data = found.data.isel(text=0)
    assert not np.allclose(data.cosine.sel(variant="text"), data.cosine.sel(variant="shuffled"))
    from tokenfield.transformer.probe.texts import shuffled

    ids = np.asarray(model.encode(TEXT))
    assert sorted(shuffled(ids, 0)) == sorted(ids) and (shuffled(ids, 0) != ids).any()


@pytest.mark.parametrize("scheme", [tkf.PostLN(), tkf.PreLN()])
def test_the_theory_is_that_of_actual_tokens(scheme):
    """Curves of equiangular tokens are layers of twelve tokens in R¹², and with short steps the flow of `evolve`."""
    flow = tkf.Flow(tkf.Softmax(2.0), scheme)
    actual = tkf.layers(flow, tkf.Tokens.equiangular(12, rho=0.2), 5)
    np.testing.assert_allclose(curve(scheme, 0.2, 12, [2.0] * 5), observe.mean_overlap(actual), atol=1e-9)
    flowing = tkf.evolve(flow, tkf.Equiangular(rho=0.2, n=12), t=1.0, save=2).states.rho[-1]
    fine = curve(scheme, 0.2, 12, [2.0] * 200, np.full(200, 1 / 200))
    assert fine[-1] == pytest.approx(float(flowing), abs=2e-3)


def test_the_curves_of_a_probe_start_where_its_tokens_do(found):
    first = found.data.cosine.sel(sinks="with").isel(layer=0).mean("text")
    np.testing.assert_allclose(found.data.theory.isel(layer=0), np.repeat(first.values[:, None], 4, axis=1), atol=1e-9)
    β = told(found.data.beta.sel(variant="text", sinks="with").transpose("block", "text", "head").values)
    plain = curve(tkf.PreLN(), float(first[0]), 16, β)
    np.testing.assert_allclose(found.data.theory.sel(variant="text", curve="spread, step 1"), plain, atol=1e-9)
    assert told(np.array([[np.nan], [2.0]])).tolist() == [2.0, 2.0]


# Lipschitz constants


def test_lipschitz_constants_are_the_norms_of_jacobians(model):
    ids = np.asarray(model.encode(TEXT))
    states = model.run(ids).x
    block, n = model.blocks[1], len(ids)
    σ, w = jnp.arange(n, dtype=float), jnp.ones(n)
    f, y = block.attention.f, normed(block.attention.before, states[1])
    attention = jax.jacfwd(lambda y: f(y, σ, f.see(y, σ, w)))(y)
    whole = jax.jacfwd(lambda x: block(x, σ, block.see(x, σ, w)))(states[1])
    dense = [np.linalg.norm(np.asarray(J).reshape(n * 16, n * 16), 2) for J in (attention, whole)]
    np.testing.assert_allclose(constants(model, ids, n, [1])[:, 0], dense, rtol=2e-3)


def test_exponents_are_fitted_with_their_errors():
    n = np.array([8, 16, 32, 64])
    noise = np.random.default_rng(0).normal(scale=0.05, size=(3, 4))
    value, error = exponent(n, np.array([[1.0], [3.0], [9.0]]) * n**0.25 * np.exp(noise))
    assert abs(value - 0.25) < 3 * error and 0.005 < error < 0.05
    assert np.isnan(exponent(n, np.full((1, 4), np.nan)).value)


def test_constants_of_shorter_texts_are_left_open(model):
    data = tkf.probe(model, ["ab cd", "tokens are points"], lengths=[4, 16], lipschitz=1).data
    assert np.isnan(data.lipschitz.sel(n=16).isel(text=0)).all() and (data.lipschitz.sel(n=16).isel(text=1) > 0).all()


# What is told and kept


def test_repetitions_are_those_of_the_first_block(found, model):
    run = model.repeat(TEXT, 0, 5)
    one = found.data.sel(variant="text").isel(text=0)
    assert one.repetition.values.tolist() == [0, 1, 2, 3, 4, 5]
    np.testing.assert_allclose(one.repeated_cosine, observe.mean_overlap(run), atol=1e-9)
    assert one.repeated_clusters.values.tolist() == [len(c) for c in observe.clusters(run, 0.5)]


def test_the_story_tells_what_was_measured(found):
    told = str(found)
    last = float(found.data.cosine.sel(variant="text", sinks="with").isel(layer=-1).mean())
    assert f"{last:.3f}" in told and "Effective β" in told and "n^p" in told and "repeated 5 times" in told


def test_a_folder_keeps_all_and_opens_offline(found, tmp_path):
    folder = found.save(tmp_path / "mine")
    assert sorted(path.name for path in folder.iterdir()) == ["probe.html", "probe.pdf", "probe.png", "probe.zarr"]
    again = Probe.load(folder)
    assert str(again) == str(found) and again.data.equals(found.data)
    text = (folder / "probe.html").read_text(encoding="utf-8")
    page = Reader(text)
    assert page.tags.count("img") == 1 and not {"script", "link", "iframe"} & set(page.tags)
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in page.links)
    assert "default-src 'none'" in text and "://" not in text
    with pytest.raises(InputError, match="holds a probe from before; nothing was overwritten"):
        found.save(folder)
    assert "Probe of" in tokenfield("show", str(folder)).stdout


def test_what_texts_say_is_text(model, tmp_path):
    text = "<script>alert(1)</script>"
    page = tkf.probe(model, text, lipschitz=0).html
    assert "<script>" not in page


def test_another_folder_is_left_alone(found, tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match=r"something else than a probe of tokenfield's \(thesis\.tex\)"):
        found.save(tmp_path, force=True)
    with pytest.raises(StoreError, match="There are no data"):
        Probe.load(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


# Bad input


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: tkf.probe(m, "a"), r"at least two tokens, for there to be an interaction, but this has 1: 'a'"),
        (lambda m: tkf.probe(m, ["fine", ""]), r"at least two tokens"),
        (lambda m: tkf.probe(m, "long " * 20), r"40 positions, but a text has 100 tokens.*tokens=40.*--tokens 40"),
        (lambda m: tkf.probe(m, []), r"holds no text"),
        (lambda m: tkf.probe(m, 3.0), r"`texts` must be a text or a list of texts"),
        (lambda m: tkf.probe(m, [None]), r"A text must be a string"),
        (lambda m: tkf.probe(m, TEXT, tokens=1), r"`tokens`"),
        (lambda m: tkf.probe(m, TEXT, lengths=[500, 600]), r"up to 11 as the longest text has"),
        (lambda m: tkf.probe(m, TEXT, control="none"), r"`control` is unknown.*Known: initial, own"),
        (lambda m: tkf.probe(m, TEXT, angle=4.0), r"between 0 and π"),
        (lambda m: tkf.probe(m, TEXT, watch=3), r"`watch` must be a function"),
        (lambda m: tkf.probe(m, TEXT, repeat=-1), r"`repeat`"),
        (lambda m: tkf.probe("minilm", TEXT), r"`model` must be a Transformer"),
    ],
)
def test_what_cannot_be_probed_is_refused(model, call, words):
    with pytest.raises(InputError, match=words):
        call(model)


def test_embedded_texts_fit_the_model_and_foreign_ones_are_told(model):
    assert [len(ids) for ids in encoded(model, None, None)] == [40] * 4

    class Chemist:
        size = 257
        encode = staticmethod(lambda text: [7] * len(text))
        decode = staticmethod(lambda ids: "")
        names = staticmethod(lambda ids: ["[UNK]" for _ in ids])

    foreign = dataclasses.replace(model, tokenizer=Chemist())
    with pytest.raises(InputError, match=r"does not read English: 100% .*\[UNK\].*--text FILE"):
        tkf.probe(foreign)


def test_files_of_texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("one\ntwo\n\n\nthree\n", encoding="utf-8")
    assert read(path) == ["one two", "three"]
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StoreError, match="UTF-8"):
        read(path)
    path.write_text(" \n")
    with pytest.raises(InputError, match="holds no text"):
        read(path)
    with pytest.raises(StoreError, match="cannot be read"):
        read(tmp_path / "nowhere")


def test_the_command_refuses_in_sentences(tmp_path):
    said = tokenfield("probe", str(tmp_path / "nowhere"), cwd=tmp_path, ok=False).stderr
    assert "error: There is no folder or file" in said and "Traceback" not in said
    assert not (tmp_path / "out").exists()
