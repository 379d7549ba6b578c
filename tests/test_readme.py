"""The README's scripts run as they stand, and every key that a docstring cites is in the bibliography."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("n", [200, pytest.param(1000, marks=pytest.mark.slow)])
def test_the_scripts_run(n, tmp_path, monkeypatch, capsys):
    """Of the first script's thousand tokens, the quick tests move two hundred; and a few members of the phase diagram."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for script in SCRIPTS[:-1]:
        exec(script if n == 1000 else script.replace("n=1000", f"n={n}").replace("range(45)", "range(15)"), names)
    told = capsys.readouterr().out
    assert f"Trajectory of n = {n}" in told and "99 mergers of 100 tokens" in told
    assert n < 1000 or "5 clusters" in told
    assert {p.name for p in tmp_path.iterdir()} == {"run.png", "run.zarr", "late.png", "phase.png"}


@pytest.mark.slow  # reverse mode compiles for long; evolution/test_transformations.py has quick variants
def test_the_script_with_gradients_runs():
    assert "jax.grad" in SCRIPTS[-1]
    exec("import tokenfield as tkf\n" + SCRIPTS[-1].replace("linspace(0.5, 9.0, 20)", "linspace(0.5, 9.0, 3)"), {})


def test_the_first_script_is_short():
    assert len(SCRIPTS[0].splitlines()) <= 15


@pytest.mark.parametrize("path", sorted((ROOT / "src").rglob("*.py")), ids=lambda p: p.name)
def test_citations_are_in_the_bibliography(path):
    keys = set(re.findall(r"@\w+\{(\w+),", (ROOT / "docs" / "references.bib").read_text(encoding="utf-8")))
    for key in re.findall(r"\[([a-z]+\d{4})[,\]]", path.read_text(encoding="utf-8")):
        assert key in keys


def the_new_measure_is_that_of_two_tokens(names, tmp_path):
    import numpy as np

    import tokenfield as tkf
    from tokenfield import measures

    pair, many, Pair = names["pair"], names["many"], names["Pair"]
    tokens = tkf.evolve(tkf.sa(4.0), Pair(2.0, w=0.3).tokens, t=5.0, save=6, rtol=1e-9)
    angle = np.arctan2(tokens.x[:, 1, 1], tokens.x[:, 1, 0]) - np.arctan2(tokens.x[:, 0, 1], tokens.x[:, 0, 0])
    assert np.max(abs(pair.states.angle - angle)) < 1e-5
    speed = lambda α: -2 * np.sin(α) / (1 + np.exp(4 * (1 - np.cos(α))))  # of two equal tokens; its flow has the slope
    assert abs(float(names["slope"]) / (speed(float(names["later"](2.0))) / speed(2.0)) - 1) < 1e-5
    assert many.batch == (2, 2) and many.states.angle.shape == (2, 2, 6) and "angle" in str(pair)
    pair.save(tmp_path / "pair.zarr")
    assert np.array_equal(tkf.Trajectory.load(tmp_path / "pair.zarr").angle, pair.angle)
    assert pair.plot(tmp_path / "pair.png").exists() and measures.constructors()["pair"] is Pair


def test_extending_runs_as_it_stands(monkeypatch, tmp_path):
    import numpy as np

    from tokenfield import attention, measures, spec
    from tokenfield.evolution import motions

    monkeypatch.setattr(attention, "KINDS", dict(attention.KINDS))
    monkeypatch.setattr(measures, "MEASURES", dict(measures.MEASURES))
    monkeypatch.setattr(motions, "MOTIONS", dict(motions.MOTIONS))
    names = {}
    scripts = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "extending.md").read_text(encoding="utf-8"), re.DOTALL
    )
    for script in scripts:
        exec(script, names)
    kernel = scripts[0].split("class Rational")[1]
    assert len(kernel.strip().splitlines()) <= 30
    mu, P = names["mu"], np.asarray(names["P"])
    gap = np.sum((np.asarray(mu.x)[:, None] - np.asarray(mu.x)) ** 2, axis=2)
    direct = 1 / (1 + 20.0 * gap)
    assert np.allclose(P, direct / direct.sum(1, keepdims=True), atol=1e-12)
    assert names["run"].status.ok and names["causal"].status.ok and names["two"](mu).shape == (50, 3)
    the_new_measure_is_that_of_two_tokens(names, tmp_path)
    spec.fields.attention_union.cache_clear()
    spec.fields.spec_model.cache_clear()
    try:
        described = spec.Spec.from_dict(
            {
                "measure": {"kind": "orthonormal", "n": 3},
                "flow": {"attention": {"kind": "rational", "beta": 2.0}, "normalization": {"kind": "free"}},
                "layers": {"depth": 2},
            }
        )
        assert type(described.flow().attention).__name__ == "Rational"
    finally:
        spec.fields.attention_union.cache_clear()
        spec.fields.spec_model.cache_clear()


def test_every_model_is_on_its_page():
    from tokenfield import attention, normalization

    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    for cls in [*attention.KINDS.values(), *normalization.KINDS.values()]:
        assert f"| {cls.__name__} |" in page
    for image in re.findall(r"\]\((images/[^)]+)\)", page):
        assert (ROOT / "docs" / image).exists()
