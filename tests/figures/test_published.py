"""Every published figure: made at its small size, with what it claims; drawn again from its folder without computing; and at its
published size behind `make test-full`."""

import json
import subprocess
import sys

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.figures import command, folders
from tokenfield.figures.base import Figure
from tokenfield.figures.published import NAMES, durations, find

LONG = ("phase-diagram",)
"""Takes hours at its published size: the gallery has it, and no test."""


def refuse(*_, **__):
    raise AssertionError("nothing is computed to draw a figure again")


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_claims_what_is_so_and_is_drawn_again_from_its_folder(name, tmp_path, monkeypatch):
    out = tmp_path / name
    plate = tkf.figures.make(name, small=True, out=out)
    assert plate.claims and plate.failed == (), plate
    told = json.loads((out / "claims.json").read_text())
    assert told["verdict"] == "holds" and len(told["claims"]) == len(plate.claims)
    first = (out / f"{name}.png").read_bytes()
    assert first.startswith(b"\x89PNG") and (out / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    readme = (out / "README.md").read_text()
    assert f"tokenfield figure {name} --small" in readme and "## Claims" in readme and "jax" in readme
    assert not (out / "parts").exists()
    for front in ("evolve", "layers", "sweep", "stationary"):
        monkeypatch.setattr(tkf, front, refuse)
    monkeypatch.setattr(find(name), "compute", refuse)
    again = tkf.figures.make(name, small=True, out=out)
    assert again.again and again.claims == plate.claims
    assert (out / f"{name}.png").read_bytes() == first
    loaded = tkf.figures.load(out)
    assert loaded.data.identical(again.data) and set(loaded.data.variables) == set(plate.data.variables)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name not in LONG])
def test_a_figure_claims_what_is_so_at_its_published_size(name, tmp_path):
    plate = tkf.figures.make(name, out=tmp_path / name)
    assert plate.failed == (), plate


def test_every_figure_is_described_and_listed_with_its_duration():
    listed = command.listing()
    for name in NAMES:
        kind = find(name)
        assert kind.name == name and kind.shows.endswith(".") and kind.__doc__
        assert kind.small, f"{name} has no small size"
        assert name in listed and {"small", "published"} <= set(durations()[name])
        assert all(f"`{field}`" in kind.__doc__ for field in kind.parameters()), f"{name}: a parameter is not described"


def test_listing_figures_loads_no_jax():
    heavy = "sorted({'jax', 'scipy', 'matplotlib', 'xarray'} & set(sys.modules))"
    code = f"import sys; from tokenfield.figures import command; command.listing(); print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_parameter_that_makes_no_sense_is_refused():
    from tokenfield.errors import InputError

    for wrong in ({"betaa": 1.0}, {"beta": "hot"}, {"times": 2.5}, {"times": True}):
        with pytest.raises(InputError, match=r"kinetic"):
            tkf.figures.kinetic(**wrong)
    with pytest.raises(InputError, match="Did you mean 'kinetic'"):
        tkf.figures.make("kinetik")
    with pytest.raises(AttributeError, match="no name 'kinetik'"):
        _ = tkf.figures.kinetik


class Counting(Figure):
    """A figure in two parts that counts how often each was computed."""

    name, shows, source = "counting", "Two parts.", ""
    computed: list[str] = []  # noqa: RUF012

    def compute(self, shelf):
        import xarray

        parts = []
        for k in range(2):
            parts.append(shelf(f"part {k}", lambda k=k: self._part(k)))
        return xarray.concat(parts, "part")

    def _part(self, k):
        import xarray

        Counting.computed.append(f"part {k}")
        if k == 1 and len(Counting.computed) == 2:
            raise KeyboardInterrupt
        return xarray.Dataset(
            {"y": ("x", np.arange(3.0) + k), "odd": ("x", np.arange(3) % 2 == 1)}, coords={"x": ["a", "b", "c"]}
        )

    def draw(self, data):
        from tokenfield.figures.style import sheet

        figure, axes = sheet()
        axes[0, 0].plot(data.y[0])
        return figure

    def claims(self, data):
        yield tkf.theory.Finding("y", 3.0, float(data.y.max()), 0.0, "Exact.")


def test_parts_that_were_computed_before_a_figure_was_cut_off_are_not_computed_again(tmp_path):
    Counting.computed.clear()
    with pytest.raises(KeyboardInterrupt):
        tkf.figures.make(Counting, out=tmp_path / "c")
    plate = tkf.figures.make(Counting, out=tmp_path / "c")
    assert Counting.computed == ["part 0", "part 1", "part 1"] and plate.failed == ()
    again = tkf.figures.load(tmp_path / "c", Counting)
    assert again.data.odd.dtype == bool and again.data.x.values.tolist() == ["a", "b", "c"]
    assert again.data.identical(plate.data)


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    from tokenfield.errors import InputError

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "README.md").write_text("mine")
    with pytest.raises(InputError, match="something else"):
        tkf.figures.kinetic(small=True, out=tmp_path / "mine")
    assert (tmp_path / "mine" / "README.md").read_text() == "mine"
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError):
        tkf.figures.kinetic(small=True, out=tmp_path / "file")
    tkf.figures.kinetic(small=True, out=tmp_path / "kinetic")
    with pytest.raises(InputError, match="holds the figure kinetic"):
        tkf.figures.sphere(small=True, out=tmp_path / "kinetic")
    with pytest.raises(InputError, match=r"beta: 4\.0 there, 5\.0 asked for"):
        tkf.figures.kinetic(small=True, beta=5.0, out=tmp_path / "kinetic")
    (tmp_path / "kinetic" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="something else"):
        tkf.figures.kinetic(small=True, beta=5.0, out=tmp_path / "kinetic", force=True)
    assert folders.load(tmp_path / "kinetic").made_by.beta == 4.0
