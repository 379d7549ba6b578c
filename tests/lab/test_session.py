"""Sessions: what is told to them, and what is seen; no web."""

import base64
import io
import itertools
import tomllib

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import tokenfield as tkf
from tokenfield import attention, normalization
from tokenfield.lab import front
from tokenfield.lab import setting as settings
from tokenfield.lab.controls import controls
from tokenfield.lab.presets import NAMES, PRESETS
from tokenfield.lab.scenes import leaders, projected, scene_of
from tokenfield.lab.session import Session
from tokenfield.lab.setting import Setting, checked_parts
from tokenfield.lab.wire import dumped, unpack

SMALL = {"p": {"n": 12, "beta": 2.0}}


def seen(session):
    return unpack(session.frame())


def moved(session, frames=3):
    for _ in range(frames):
        session.step(0.05)
    return session


@pytest.fixture(scope="module")
def one():
    """One session for tests that begin anew."""
    return Session(link=SMALL)


def test_every_kind_of_the_library_has_a_control():
    menus = controls(NAMES, {})
    assert set(menus["attention"].options) == set(attention.KINDS) - {"multi_head", "causal"}
    assert set(menus["normalization"].options) == set(normalization.KINDS)
    assert {"heads", "causal", "mlp", "kappa", "n", "d", "beta"} <= set(menus)


PAIRS = list(itertools.product(controls((), {})["attention"].options, controls((), {})["normalization"].options))


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_every_attention_and_normalization_moves_or_is_refused(one, pair):
    _moves_or_refuses(one, *pair)


@pytest.mark.parametrize("pair", [*PAIRS[::7], ("krause", "free"), ("sinkhorn", "post_ln")], ids="-".join)
def test_some_attentions_and_normalizations_move_or_are_refused(one, pair):
    _moves_or_refuses(one, *pair)


def _moves_or_refuses(session, kind, scheme):
    session.told({"set": {"measure": "uniform_sphere", "n": 8, "attention": kind, "normalization": scheme}})
    if session.say:
        assert session.kind == "refused" and session.say.endswith(".")
        return
    session.told({"act": "reset"})
    before = np.array(session.live.measure.x)
    moved(session)
    assert session.live.t > 0 or session.kind == "ended"
    assert not np.array_equal(before, session.live.measure.x)


@pytest.mark.parametrize(
    "values",
    [
        {"measure": "gaussian_measure", "normalization": "free", "beta": 0.5, "V": -1.0, "d": 2},
        {"measure": "gaussian_measure", "normalization": "free", "beta": 0.5, "V": -1.0, "d": 4},
        {"measure": "gaussian_measure", "normalization": "free", "beta": 0.5, "V": -1.0, "d": 2, "view": "cone"},
        {"measure": "equiangular_measure", "n": 20},
        {"measure": "circle_wave", "k": 3},
        {"measure": "sphere_wave", "k": 2},
        {"measure": "uniform_sphere", "n": 6, "d": 7},
        {"measure": "gaussian", "n": 6, "d": 2, "normalization": "free", "kappa": 8.0},
        {"measure": "uniform_box", "n": 6, "d": 3, "normalization": "pre_ln", "mlp": "tanh"},
        {"measure": "uniform_sphere", "n": 6, "heads": 3, "causal": True},
        {"measure": "uniform_sphere", "n": 6, "coalesce": True, "clock": "log"},
    ],
    ids=lambda values: "-".join(map(str, values.values())),
)
def test_every_measure_is_seen_and_downloads_as_a_spec_that_runs(values):
    session = moved(Session(link={"p": values}))
    assert session.say == "", session.say
    header, arrays = seen(session)
    assert header["t"] > 0 and header["reach"] > 0 and header["unit"] in (0, 1)
    assert len(arrays["x"]) == len(arrays["label"]) and arrays["x"].shape[1] in (2, 3)
    assert all(np.all(np.isfinite(array)) for array in arrays.values())
    text = session.told({"act": "toml"})[0]["toml"]
    spec = tkf.Spec.from_dict(tomllib.loads(text))
    assert str(spec.flow()).startswith("Flow: ") and spec.time is not None
    again = Session(link=session.link())
    assert again.setting.values == session.setting.values


def test_what_the_page_shows_is_the_librarys_run():
    session = Session(link={"p": {"n": 50, "rtol": "1e-9"}})
    moved(session, 10)
    header, arrays = seen(session)
    run = tkf.evolve(tkf.sa(9.0), tkf.Tokens.uniform_sphere(n=50, d=3, seed=0), t=header["t"], save=2, rtol=1e-9)
    assert np.array_equal(arrays["x"], np.asarray(session.live.measure.x, np.float32))
    assert np.abs(arrays["x"] - np.asarray(run.final.x)).max() < 1e-6


def test_panels_show_what_the_library_observes():
    session = Session(
        link={"p": {"n": 60, "beta": 9.0}, "panels": ["energy", "clusters", "overlaps", "attention", "rank", "order"]}
    )
    moved(session, 60)
    session._next_look = -np.inf
    header, arrays = seen(session)
    mu, flow = session.live.measure, session.live.flow
    assert header["energy"] == pytest.approx(18 * float(tkf.observe.energy(mu, 9.0, scaled=True)), rel=1e-6)
    assert header["rank"] == pytest.approx(float(tkf.observe.effective_rank(mu)), rel=1e-6)
    assert header["order"] == pytest.approx(float(np.linalg.norm(mu.mean)), rel=1e-9)
    assert header["clusters"] == len(np.unique(arrays["label"]))
    assert arrays["overlaps"].sum() == pytest.approx(1) and arrays["attention"].shape == (60, 60)
    order = np.argsort(arrays["label"], kind="stable")
    matrix = np.asarray(tkf.observe.attention_matrix(mu, flow))[np.ix_(order, order)]
    assert np.abs(arrays["attention"] / 255 - matrix / matrix.max()).max() < 1 / 255
    session.told({"panels": ["rank", "nonsense", 3, "rank"]})
    assert session.shown == ("rank",) and session.link()["panels"] == ["rank"]
    session._next_look = -np.inf
    header, arrays = seen(session)
    assert "energy" not in header and "overlaps" not in arrays


def test_clusters_far_apart_are_those_of_the_library():
    x = np.repeat(np.asarray(tkf.Tokens.uniform_sphere(n=7, d=3, seed=1).x), 5, axis=0)
    labels, count = leaders(x, 0.1)
    assert count == 7 == len(tkf.observe.clusters(tkf.Tokens(x))) and np.array_equal(labels, np.repeat(np.arange(7), 5))


def test_a_density_on_the_sphere_is_seen_where_it_is():
    mu = tkf.SphereDensity.from_function(lambda x: 1 + 0.5 * x[:, 0] + 0.3 * x[:, 1] * x[:, 2])
    rows, columns = (scene := scene_of(mu)).ROWS, scene.COLUMNS
    θ, φ = np.meshgrid((np.arange(rows) + 0.5) * np.pi / rows, 2 * np.pi * np.arange(columns) / columns, indexing="ij")
    x = np.stack([np.sin(θ) * np.cos(φ), np.sin(θ) * np.sin(φ), np.cos(θ)], axis=-1)
    assert np.abs(scene._field(mu) - (1 + 0.5 * x[..., 0] + 0.3 * x[..., 1] * x[..., 2])).max() < 0.01


def test_refused_combinations_keep_the_last_good_state():
    session = moved(Session(link=SMALL))
    before, t = np.array(session.live.measure.x), session.live.t
    session.told({"set": {"measure": "gaussian_measure"}})
    assert "Free" in session.say or "Gaussian" in session.say
    assert np.array_equal(session.live.measure.x, before)
    moved(session)
    assert session.live.t == t, "nothing moves while something is refused"
    session.told({"set": {"normalization": "free"}})
    assert session.say == "" and session.live.measure.d == 3 and session.live.t == 0
    session.told({"set": {"attention": "relu"}})
    assert session.kind == "refused" and session.live.measure.d == 3
    session.told({"set": {"attention": "softmax"}})
    assert session.say == ""
    assert moved(session).live.t > 0


def test_a_changed_flow_goes_on_from_here():
    session = moved(Session(link=SMALL))
    t, x = session.live.t, np.array(session.live.measure.x)
    session.told({"set": {"beta": 5.0, "kappa": 100.0}})
    assert session.live.t == t and np.allclose(session.live.measure.x, x, atol=1e-14)
    assert float(session.live.flow.attention.beta) == 5.0


def test_tokens_by_hand():
    session = moved(Session(link={"p": {"n": 5, "beta": 1.0}}))
    session.told({"drag": [2, 0.0, 0.0, 2.0]})
    assert np.allclose(session.live.measure.x[2], [0, 0, 1]), "back on the sphere"
    moved(session, 5)
    assert np.linalg.norm(np.asarray(session.live.measure.x[2]) - [0, 0, 1]) < 0.2, "it is held"
    session.told({"drop": 2})
    (state,) = session.told({"add": [1.0, 0.0, 0.0]})
    assert state["p"]["n"] == 6 == session.live.measure.n
    session.told({"remove": 0})
    assert session.live.measure.n == 5 and session.setting.values["n"] == 5
    assert float(np.sum(session.live.measure.w)) == pytest.approx(1)
    for _ in range(6):
        session.told({"remove": 0})
    assert session.live.measure.n == 1 and "last token" in session.say


def test_tokens_in_many_dimensions_are_moved_as_they_are_seen():
    session = Session(link={"p": {"measure": "gaussian", "normalization": "free", "n": 5, "d": 6}})
    before = np.array(session.live.measure.x[1])
    session.told({"drag": [1, 0.5, -0.5, 0.25]})
    after = np.asarray(session.live.measure.x[1:2])
    assert np.allclose(projected(after)[0], [0.5, -0.5, 0.25])
    assert np.linalg.norm(after[0] - before) == pytest.approx(np.linalg.norm(projected(after - before)))


@pytest.mark.parametrize("name", NAMES)
def test_every_example_moves(name):
    session = Session(link={"p": {"preset": name}})
    assert session.say == "" and session.setting.values["preset"] == name
    moved(session, 2)
    header, arrays = seen(session)
    assert header["t"] > 0 and session.say == ""
    assert all(
        header.get(panel) is not None or panel in arrays or panel == "clusters" for panel in PRESETS[name].panels
    )
    (hello,) = Session(link=SMALL).told({"set": {"preset": name}})
    assert hello["p"]["preset"] == name and dumped(hello)


def test_data_and_film_download():
    session = moved(Session(link=SMALL))
    for _ in range(3):
        session.step(0.1)
        session.frame()
    (answer,) = session.told({"act": "data"})
    with np.load(io.BytesIO(base64.b64decode(answer["data"]))) as data:
        assert np.array_equal(data["x"], session.live.measure.x) and float(data["t"]) == session.live.t
    (answer,) = session.told({"act": "film"})
    assert answer["film"].startswith("<!doctype html>") and answer["name"] == "run.html"


def test_specs_on_the_page_name_no_files(tmp_path):
    secret = tmp_path / "secret.npy"
    np.save(secret, np.eye(3))
    for own in (
        {"attention": {"kind": "softmax", "Q": str(secret)}},
        {"measure": {"kind": "file", "path": str(secret)}},
        {"attention": {"kind": "multi_head", "heads": [{"kind": "softmax", "V": "V.npz"}]}},
    ):
        session = Session(link={"p": {"attention": "own"}, "own": own})
        assert "may not name files" in session.say and session.setting.own == {}
    with pytest.raises(tkf.errors.InputError, match="bytes"):
        checked_parts({"attention": {"kind": "softmax", "Q": [[0.0] * 200] * 200}})
    huge = Session(link={"p": {"measure": "own"}, "own": {"measure": {"kind": "uniform_sphere", "n": 10**12, "d": 3}}})
    assert "memory" in huge.say


def test_a_flow_of_the_users_own():
    Q = np.array([[0.0, 1.0], [-1.0, 0.0]])
    flow = tkf.Flow(tkf.Causal(tkf.Softmax(3.0, Q=Q)), tkf.PostLN(), kappa=50.0)
    mu = tkf.Tokens([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    session = Session(settings.of(flow, mu, NAMES))
    p = session.setting.values
    assert p["causal"] and p["kappa"] == 50.0 and p["attention"] == p["measure"] == "own"
    assert str(session.live.flow) == str(flow) and np.allclose(session.live.measure.x, mu.x, atol=1e-14)
    session.told({"act": "toml"})
    assert "no spec can say" in session.say
    plain = settings.of(tkf.usa(7.0), tkf.Tokens.uniform_sphere(n=9, d=4, seed=5), NAMES).values
    assert (plain["attention"], plain["beta"], plain["n"], plain["d"], plain["seed"]) == ("unnormalized", 7.0, 9, 4, 5)


def test_a_spec_of_the_users_own_may_name_files(tmp_path):
    x = np.eye(3)[:2]
    np.save(tmp_path / "x.npy", x)
    flow = {"attention": {"kind": "l2", "beta": 3.0}, "normalization": {"kind": "ngpt", "alpha": 2.0}}
    data = {"measure": {"kind": "file", "path": "x.npy"}, "flow": flow, "time": {"end": 1.0}}
    setting = front.given(tkf.Spec.from_dict(data, tmp_path))
    session = moved(Session(setting))
    assert session.say == "" and session.live.measure.n == 2 and session.live.t > 0
    p = session.setting.values
    assert (p["attention"], p["beta"], p["normalization"], p["alpha"], p["measure"]) == ("l2", 3.0, "ngpt", 2.0, "own")


def test_a_link_holds_a_few_tokens_given_as_points():
    session = Session(link={"p": {"preset": "kinetic"}})
    session.told({"set": {"beta": 3.0}})
    assert session.setting.values["preset"] == "own"
    again = Session(link=session.link())
    assert again.say == "" and np.allclose(
        again.live.measure.x, Session(link={"p": {"preset": "kinetic"}}).live.measure.x
    )
    for points in ([], [[]], [[1.0], "x"], [[float("inf"), 0.0]], [[1, 2], [3]], [[0.0] * 17], [[10**400, 0]]):
        assert Session(link={"p": {"measure": "own"}, "points": points}).live.measure.n == 500


def test_late_times_go_on_however_frames_are_spaced():
    session = Session(link={"p": {"n": 6, "coalesce": True, "clock": "log", "speed": 5.0}})
    for k in range(60):
        session.step(0.1 if k % 7 == 0 else 1 / 60)
    elapsed = 9 * 0.1 + 51 / 60
    assert 0.5 < np.log(session.live.t / 0.05) / (5.0 * elapsed) <= 1.0 + 1e-9


def test_values_are_clamped():
    setting = Setting(NAMES)
    setting.set(
        {"n": 10**9, "beta": -5, "kappa": float("nan"), "attention": "evil", "causal": "yes", "d": True, "x": 1}
    )
    assert setting.values["n"] == 20_000 and setting.values["beta"] == 0
    assert setting.values["attention"] == "softmax" and setting.values["causal"] is False and setting.values["d"] == 3


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
anything = st.recursive(
    plain, lambda part: st.lists(part, max_size=4) | st.dictionaries(st.text(max_size=6), part), max_leaves=8
)
known = st.sampled_from(["set", "act", "drag", "drop", "add", "remove", "panels", "ack", "hello"])
values = st.dictionaries(st.sampled_from([*controls((), {}), "nonsense"]), anything, max_size=3)
small = values.filter(lambda v: "n" not in v and "coalesce" not in v and "preset" not in v)


@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(message=st.dictionaries(known, anything, max_size=3) | st.builds(lambda v: {"set": v}, small))
def test_hostile_messages_neither_crash_nor_steer(one, message):
    one.told({"set": {"n": 6}})
    one.told(message)
    values, known = one.setting.values, one.setting.controls
    assert all(known[name].read(value, None) == value for name, value in values.items())
    header, arrays = seen(one)
    assert np.all(np.isfinite(arrays["x"])) and np.isfinite(header["t"])


def test_many_tokens_without_fast_sums_are_refused():
    session = Session(link={"p": {"n": 20_000, "attention": "relu"}})
    assert "every pair" in session.say
