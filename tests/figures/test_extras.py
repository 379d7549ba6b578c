"""Movies that go with a figure in its folder."""

import dataclasses

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.figures import folders


@dataclasses.dataclass(frozen=True)
class Moving(tkf.figures.Figure):
    """A dot on a line."""

    name = "moving"
    shows = "A dot moves."

    ending: str = ".gif"

    def compute(self, shelf):
        import xarray

        return xarray.Dataset({"place": ("time", np.arange(3.0))})

    def draw(self, data):
        from tokenfield.figures.style import sheet

        return sheet(width=1.0)[0]

    def claims(self, data):
        yield from ()

    def extras(self, data):
        yield f"moving{self.ending}", lambda path: path.write_bytes(data.place.values.tobytes())


def test_what_goes_with_a_figure_is_written_and_stays_a_figure(tmp_path):
    plate = tkf.figures.make(Moving, out=tmp_path / "a")
    assert (tmp_path / "a" / "moving.gif").read_bytes() == np.arange(3.0).tobytes()
    assert "(moving.gif)" in (tmp_path / "a" / "README.md").read_text(encoding="utf-8")
    again = tkf.figures.make(Moving, out=tmp_path / "a")  # the folder holds nothing foreign
    assert again.about["made"] == plate.about["made"]
    tkf.figures.make(Moving, out=tmp_path / "a", force=True, ending=".mp4")
    assert folders.standing(tmp_path / "a") == ("moving", {"ending": ".mp4"})
    assert not (tmp_path / "a" / "moving.gif").exists()


def test_it_has_the_name_of_the_figure(tmp_path):
    with pytest.raises(tkf.errors.InputError, match=r"called moving.mp4 or moving.gif, not 'moving.txt'"):
        tkf.figures.make(Moving, out=tmp_path, ending=".txt")
