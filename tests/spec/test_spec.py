"""Specs: read, overridden, run, and refused with the line."""

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.spec import TEMPLATE, Spec, SpecError

GOOD = """\
[measure]
kind = "uniform_sphere"
n = 20
d = 3
seed = 5

[flow.attention]
kind = "softmax"
beta = 4.0

[flow.normalization]
kind = "post_ln"

[time]
end = 3.0
save = 7
"""


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "spec.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_spec_is_the_run_it_describes(write):
    run = Spec.load(write(GOOD)).run()
    direct = tkf.evolve(tkf.sa(4.0), tkf.Tokens.uniform_sphere(20, 3, seed=5), 3.0, save=7)
    assert np.array_equal(run.x, direct.x)
    assert run.provenance.spec["flow"]["attention"]["beta"] == 4.0 and run.provenance.seed == 5
    again = Spec.from_dict(run.provenance.spec).run()
    assert np.array_equal(again.x, run.x), "a run's own provenance repeats it"


def test_the_template_runs(write):
    spec = Spec.load(write(TEMPLATE), ["measure.n=10", "time.end=1", "time.save=3"])
    assert spec.run().x.shape == (3, 10, 3)
    assert Spec.load(write(spec.to_toml())).data == spec.data


def test_overrides(write):
    spec = Spec.load(
        write(GOOD),
        [
            "flow.attention.beta=9",
            "time.save=[0, 1.5]",
            "flow.attention.V=-1.0",
            "time.solver=dopri8",
            "output.animation=true",
        ],
    )
    assert spec.data["flow"]["attention"] == {"kind": "softmax", "beta": 9.0, "V": -1.0}
    assert spec.time.save == [0, 1.5] and spec.time.solver == "dopri8" and spec.output.animation


def test_coalescing_to_late_times(write):
    changes = ["time.coalesce=1e-5", "time.end=1e20", "time.spacing=log", "time.save=9", "time.summation=dense"]
    run = Spec.load(write(GOOD), changes).run()
    assert float(run.times[-1]) == 1e20 and run.mergers is not None and run.provenance.clock == "log"
    with pytest.raises(SpecError, match="unknown summation"):
        Spec.load(write(GOOD), ["time.summation=circel"])


def test_log_spacing_and_until(write):
    run = Spec.load(write(GOOD), ["time.spacing=log", "time.end=1000", "time.until=collapsed"]).run()
    assert run.status is tkf.Status.STOPPED
    ratios = np.asarray(run.times[2:-1] / run.times[1:-2])
    assert np.allclose(ratios, ratios[0])


def test_matrices_and_tokens_from_files(write, tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "V.npy", V := rng.normal(size=(3, 3)))
    np.savez(tmp_path / "tokens.npz", x=(x := rng.normal(size=(6, 3))), w=np.arange(1, 7) / 21)
    text = GOOD.replace('kind = "uniform_sphere"\nn = 20\nd = 3\nseed = 5', 'kind = "file"\npath = "tokens.npz"')
    spec = Spec.load(write(text), ["flow.attention.V=V.npy"])
    assert np.array_equal(spec.flow().attention.V, V)
    assert np.array_equal(spec.measure().x, x) and float(spec.measure().w[-1]) == pytest.approx(6 / 21)
    np.save(tmp_path / "tokens.npy", x)
    assert np.array_equal(Spec.load(write(text), ["measure.path=tokens.npy"]).measure().x, x)


@pytest.mark.parametrize("kind", ["uniform_sphere", "gaussian", "uniform_box", "orthonormal", "equiangular"])
def test_every_measure_has_a_spec(kind):
    extra = {"rho": 0.2} if kind == "equiangular" else {}
    extra |= {"mean": [0.0, 1.0, 2.0], "cov": [[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]]} if kind == "gaussian" else {}
    time = {"end": 1.0, "save": 2}
    flow = {"attention": {"kind": "unnormalized", "scaled": True}, "normalization": {"kind": "free"}}
    spec = Spec.from_dict({"measure": {"kind": kind, "n": 3, "d": 3, **extra}, "flow": flow, "time": time})
    assert spec.measure().x.shape == (3, 3) and spec.measure().origin["kind"] == kind
    assert isinstance(spec.flow().attention, tkf.Unnormalized) and spec.flow().attention.scaled


MISTAKES = {
    "typo in a field": (
        "beta = 4.0",
        "betta = 4.0",
        r"spec\.toml:9: flow\.attention\.betta: there is no such field\. Did you mean 'beta'\?",
    ),
    "typo in a section": ("[time]", "[tme]", r"spec\.toml:14: tme: there is no such field\. Did you mean 'time'\?"),
    "a section is missing": ("[time]\nend = 3.0\nsave = 7\n", "", r"time: this field is missing"),
    "unknown kind": (
        '"softmax"',
        '"sofmax"',
        r"spec\.toml:8: flow\.attention\.kind: unknown value 'sofmax'\. Did you mean 'softmax'\?",
    ),
    "unknown measure": (
        '"uniform_sphere"',
        '"uniform"',
        r"spec\.toml:2: measure\.kind: unknown value 'uniform'\. Did you mean 'uniform_",
    ),
    "kind is missing": ('kind = "post_ln"', "", r"spec\.toml:11: flow\.normalization\.kind: this field is missing"),
    "text for a number": (
        "beta = 4.0",
        'beta = "four"',
        r"spec\.toml:9: flow\.attention\.beta: .*valid number.*got 'four'",
    ),
    "a fraction of a token": ("n = 20", "n = 2.5", r"spec\.toml:3: measure\.n: .*integer.*got 2\.5"),
    "no tokens": ("n = 20", "n = 0", r"spec\.toml:3: measure\.n: Argument `n` must be at least 1"),
    "negative time": ("end = 3.0", "end = -3.0", r"spec\.toml:14: time: start = 0 must come before end = -3"),
    "start after end": (
        "end = 3.0",
        "end = 3.0\nstart = 4.0",
        r"spec\.toml:14: time: start = 4 must come before end = 3",
    ),
    "unknown solver": (
        "end = 3.0",
        'end = 3.0\nsolver = "rk45"',
        r"spec\.toml:16: time\.solver: unknown solver 'rk45'.*Known: dopri5, dopri8",
    ),
    "unknown stop": (
        "end = 3.0",
        'end = 3.0\nuntil = "done"',
        r"spec\.toml:16: time\.until: unknown value 'done'.*Known: collapsed",
    ),
    "wrong shape": (
        "beta = 4.0",
        "beta = 4.0\nV = [[1.0, 2.0]]",
        r"spec\.toml:10: flow\.attention\.V: .*must have shape \(rows, d\) = \(rows, 3\), but has shape \(1, 2\)",
    ),
    "A and Q": ("beta = 4.0", "beta = 4.0\nA = 1.0\nQ = 1.0", r"spec\.toml:7: flow\.attention: Give either A"),
    "infinite": ("beta = 4.0", "beta = inf", r"spec\.toml:9: flow\.attention\.beta: .*finite number.*got inf"),
    "times out of order": ("save = 7", "save = [2.0, 1.0]", r"spec\.toml:16: time\.save: .*strictly increasing"),
    "no such file": (
        "beta = 4.0",
        'beta = 4.0\nV = "V.npy"',
        r"flow\.attention: The file .*V\.npy cannot be read as numbers",
    ),
    "not TOML": ("n = 20", "n = = 20", r"spec\.toml:3: not valid TOML"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told_with_their_line(write, name):
    before, after, sentence = MISTAKES[name]
    assert before in GOOD
    with pytest.raises(SpecError, match=sentence):
        Spec.load(write(GOOD.replace(before, after, 1))).run()


def test_several_mistakes_are_told_at_once(write):
    with pytest.raises(SpecError) as told:
        Spec.load(write(GOOD.replace("beta", "bta").replace("save", "sve")))
    assert len(str(told.value).splitlines()) == 2


def test_mistakes_on_the_command_line_are_blamed_on_it(write):
    with pytest.raises(SpecError, match=r"--set flow\.attention\.betta: there is no such field"):
        Spec.load(write(GOOD), ["flow.attention.betta=4"])
    with pytest.raises(SpecError, match="--set needs field=value"):
        Spec.load(write(GOOD), ["flow.attention.beta"])
    with pytest.raises(SpecError, match="'n' is a value, not a section"):
        Spec.load(write(GOOD), ["measure.n.m=4"])


@pytest.mark.parametrize(
    "change",
    [
        "flow.attention.beta=[1, 2]",
        "flow.attention.V=[[[1.0, 0, 0], [0, 1, 0], [0, 0, 1]]]",
        "flow.attention={kind = 'softmax', beta = [1.0, 2.0]}",
        "flow.attention={kind = 'causal', attention = {kind = 'softmax', beta = [1.0, 2.0]}}",
    ],
)
def test_a_list_on_the_command_line_is_not_one_value_per_layer(write, change):
    with pytest.raises(
        SpecError, match=r"--set flow\.attention.*one value per layer\. Write such lists into the spec itself"
    ):
        Spec.load(write(GOOD), [change]).run()
    spec = Spec.load(
        write(GOOD.replace("beta = 4.0", "beta = [1.0, 2.0]")), ["flow.attention.V=[[1, 0, 0], [0, 1, 0], [0, 0, 1]]"]
    )
    assert spec.flow().attention.beta.depth == 2, "in the spec itself it is, and a matrix is a matrix"


def test_unreadable_specs(tmp_path):
    with pytest.raises(SpecError, match=r"cannot be read: No such file.*tokenfield new"):
        Spec.load(tmp_path / "none.toml")
    with pytest.raises(SpecError, match="cannot be read"):
        Spec.load(tmp_path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(SpecError, match="it is not text"):
        Spec.load(tmp_path / "binary.toml")


KINDS = {
    "softmax": {"Q": 1.0},
    "unnormalized": {"scaled": True},
    "l2": {"beta": 0.5},
    "sinkhorn": {"tolerance": 1e-9, "iterations": 2000},
    "sigmoid": {"b": -1.0},
    "linear": {"A": [[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]]},
    "relu": {"V": 0.5},
    "hardmax": {},
    "additive": {"W": 1.0, "U": 1.0, "v": [1.0, 0.5, 0.2]},
    "multi_head": {"heads": [{"kind": "softmax", "beta": 2.0}, {"kind": "causal", "attention": {"kind": "l2"}}]},
    "causal": {"attention": {"kind": "softmax", "beta": [1.0, 2.0, 3.0]}, "window": 0.5, "alibi": 1.0, "rotary": 4.0},
    "krause": {"P": [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]]},
    "mean_shift": {"data": [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]},
}
NORMALIZATIONS = {
    "free": {},
    "rescaled": {},
    "post_ln": {"gain": [1.0, 2.0, 1.0]},
    "pre_ln": {},
    "peri_ln": {},
    "mix_ln": {"tau": 0.5},
    "ngpt": {"alpha": 0.5},
    "sqrt_scaling": {},
    "trace_norm": {},
}


def described(attention, normalization, **more):
    return {
        "measure": {"kind": "orthonormal", "n": 3},
        "flow": {"attention": attention, "normalization": normalization, **more},
        "layers": {"depth": 2, "step": 0.5},
    }


def test_every_kind_has_a_spec_and_survives_the_disk(tmp_path):
    from tokenfield import attention, config, normalization

    assert set(KINDS) == set(attention.KINDS) and set(NORMALIZATIONS) == set(normalization.KINDS)
    cases = [({"kind": kind, **extra}, {"kind": "free"}) for kind, extra in KINDS.items()]
    cases += [({"kind": "softmax"}, {"kind": kind, **extra}) for kind, extra in NORMALIZATIONS.items()]
    for one, other in cases:
        spec = Spec.from_dict(described(one, other))
        flow = spec.flow()
        assert type(flow.attention) is attention.KINDS[one["kind"]]
        assert type(flow.normalization) is normalization.KINDS[other["kind"]]
        assert str(config.decode(config.encode(flow))) == str(flow)
    run = Spec.from_dict(described({"kind": "causal", **KINDS["causal"]}, {"kind": "pre_ln"})).run()
    run.save(tmp_path / "run.zarr")
    assert str(tkf.Trajectory.load(tmp_path / "run.zarr").flow) == str(run.flow)


def test_blocks_and_layers_in_a_spec(write):
    text = GOOD.replace("[time]\nend = 3.0\nsave = 7\n", "[layers]\ndepth = 4\nstep = 0.25\n")
    text += '\n[flow.mlp]\nactivation = "relu"\naround = true\n\n[flow.reweighting]\nrate = 2.0\n'
    run = Spec.load(write(text)).run()
    assert run.times.tolist() == [0, 0.25, 0.5, 0.75, 1.0] and run.flow.mlp.around
    assert float(run.flow.reweighting.rate) == 2 and "4 layers" in str(run)
    with pytest.raises(SpecError, match=r"either \[time\], for a flow, or \[layers\]"):
        Spec.load(write(GOOD + "\n[layers]\ndepth = 4\n"))


def test_mistakes_inside_heads_are_told():
    bad = {"kind": "multi_head", "heads": [{"kind": "softmax", "betta": 2.0}]}
    with pytest.raises(SpecError, match=r"betta: there is no such field\. Did you mean 'beta'"):
        Spec.from_dict(described(bad, {"kind": "free"}))
    with pytest.raises(SpecError, match=r"unknown value 'sofmax'"):
        Spec.from_dict(described({"kind": "causal", "attention": {"kind": "sofmax"}}, {"kind": "free"}))
