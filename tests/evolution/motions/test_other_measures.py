"""Measures beyond tokens through the same doors: specs, files, stories, times between saved ones."""

import re
from pathlib import Path

import numpy as np
import pytest

import tokenfield as tkf
from tests import fast_first
from tokenfield.errors import InputError
from tokenfield.spec import Spec, SpecError

ROOT = Path(__file__).resolve().parents[3]
SPHERE = {"normalization": {"kind": "post_ln"}}
SPECS = {
    "equiangular": {
        "measure": {"kind": "equiangular_measure", "rho": 0.1, "n": 1000},
        "flow": {"attention": {"kind": "softmax", "beta": 2.0}, **SPHERE},
        "time": {"end": 2.0, "save": 3},
    },
    "gaussian": {
        "measure": {"kind": "gaussian_measure", "mean": [0.0, 1.0], "cov": [[1.0, 0.2], [0.2, 0.5]]},
        "flow": {"attention": {"kind": "l2", "beta": 0.5}, "normalization": {"kind": "free"}},
        "time": {"end": 1.0, "save": 3},
    },
    "density": {
        "measure": {"kind": "circle_wave", "amplitude": 0.2, "k": 2, "degree": 32},
        "flow": {"attention": {"kind": "unnormalized", "beta": 1.0}, **SPHERE, "kappa": 4.0},
        "time": {"end": 1.0, "save": 3},
    },
    "noise": {
        "measure": {"kind": "uniform_sphere", "n": 12, "d": 3},
        "flow": {"attention": {"kind": "softmax", "beta": 1.0}, **SPHERE, "kappa": 4.0},
        "time": {"end": 0.5, "save": 3, "seed": 7, "step": 0.1},
    },
}
WORDS = {"equiangular": "cosine", "gaussian": "spectrum", "density": "free energy", "noise": "seed of the noise 7"}


@pytest.mark.parametrize("kind", fast_first(SPECS, "equiangular", "gaussian", "noise"))
def test_a_spec_runs_is_saved_and_is_the_same_again(kind, tmp_path):
    run = Spec.from_dict(SPECS[kind]).run()
    assert run.status.ok and len(run) == 3 and WORDS[kind] in str(run)
    run.save(tmp_path / "run.zarr")
    again = tkf.Trajectory.load(tmp_path / "run.zarr")
    assert type(again.states) is type(run.states) and str(again.flow) == str(run.flow)
    for name, array in run.states.arrays.items():
        assert np.array_equal(array, again.states.arrays[name])
        assert run.to_xarray()[name].dims[0] == "time"
    if kind == "noise":
        with pytest.raises(InputError, match="not drawn twice"):
            again.at(0.3)
    else:
        between = again.at(0.5 * float(run.times[1]))
        assert type(between) is type(run.final)
    assert np.array_equal(next(iter(again[1].arrays.values())), next(iter(again.states.take(1).arrays.values())))


def test_mistakes_in_specs_are_sentences():
    for change, words in (
        ({"measure": {"kind": "gaussian_measure", "mean": [0.0], "cov": [[-1.0]]}}, "negative eigenvalue"),
        ({"measure": {"kind": "circle_wave", "amplitude": 2.0}}, "must not be negative"),
        ({"flow": {**SPECS["density"]["flow"], "kappa": -1.0}}, "kappa"),
        ({"flow": {"attention": {"kind": "relu"}, **SPHERE}}, "densities"),
    ):
        with pytest.raises(SpecError, match=words):
            Spec.from_dict({**SPECS["density"], **change}).run()


def test_a_run_has_the_quantities_of_its_measure():
    run = Spec.from_dict(SPECS["equiangular"]).run()
    assert run.rho.shape == (3,) and run.gap.shape == (3,) and float(run.final.rho) == float(run.rho[-1])
    with pytest.raises(AttributeError, match="Neither a run nor its Equiangular states have 'cov'"):
        _ = run.cov
    stopped = tkf.evolve(tkf.sa(2.0), tkf.Equiangular(rho=0.0, n=9), t=50.0, until=tkf.collapsed)
    assert stopped.status is tkf.Status.STOPPED and abs(float(stopped.final.spread) - 1e-3) < 1e-6


def test_kinds_that_need_tokens_say_so():
    mu = tkf.Gaussian([0.0], [[1.0]])
    with pytest.raises(InputError, match="needs Tokens"):
        tkf.velocity(tkf.sa(1.0), mu)
    with pytest.raises(InputError, match="Layers act on Tokens, Equiangular or a Gaussian, but got a CircleDensity"):
        tkf.layers(tkf.sa(1.0), tkf.CircleDensity.uniform(), 3)
    with pytest.raises(InputError, match="not one of a Gaussian"):
        tkf.observe.mean_overlap(mu)


@pytest.mark.slow
def test_the_page_runs_as_it_stands():
    names = {}
    for script in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "measures.md").read_text("utf-8"), re.DOTALL):
        exec(script, names)
    assert names["diagram"].transition == "first-order"
