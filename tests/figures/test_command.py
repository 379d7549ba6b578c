"""`tokenfield figure` as a user meets it."""

import json

import pytest

from tests.test_cli import tokenfield

OWN = """
import dataclasses, numpy as np, xarray, tokenfield as tkf
from tokenfield.figures import Figure
from tokenfield.figures.style import sheet

@dataclasses.dataclass(frozen=True)
class Mine(Figure):
    name, shows = "mine", "A line."
    small = {"n": 3}
    n: int = 5

    def compute(self, shelf):
        return xarray.Dataset({"y": ("x", np.arange(float(self.n)))})

    def draw(self, data):
        figure, axes = sheet()
        axes[0, 0].plot(data.y)
        return figure

    def claims(self, data):
        yield tkf.theory.Finding("the last", self.n - 1, float(data.y[-1]), 0.0, "Counted.", rival=self.n)
        if self.n == 7:
            yield tkf.theory.Finding("seven", 0, 7, 0.0, "Seven is not zero.")
"""


def test_a_figure_of_ones_own_is_one_file(tmp_path):
    (tmp_path / "mine.py").write_text(OWN, encoding="utf-8")
    told = tokenfield("figure", "mine.py", "--small", cwd=tmp_path).stdout
    assert "holds  the last: 2" in told and (tmp_path / "out" / "figures" / "mine" / "mine.png").exists()
    again = tokenfield("figure", "mine.py", "--small", cwd=tmp_path).stdout
    assert "drawn again" in again
    other = tokenfield("figure", "mine.py", cwd=tmp_path, ok=False).stderr
    assert "n: 3 there, 5 asked for" in other and "Traceback" not in other
    assert "the last: 4" in tokenfield("figure", "mine.py", "--force", cwd=tmp_path).stdout
    failed = tokenfield("figure", "mine.py", "--set", "n=7", "--out", "seven", cwd=tmp_path, ok=False)
    assert failed.returncode == 1 and "fails  seven" in failed.stdout
    assert json.loads((tmp_path / "seven" / "claims.json").read_text())["verdict"] == "fails"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["kinetik"], "Did you mean 'kinetic'?"),
        ([], "--list"),
        (["kinetic", "--set", "betta=3"], "no parameter 'betta'"),
        (["kinetic", "--set", "beta=hot"], "must be a number"),
        (["kinetic", "--set", "beta"], "--set needs FIELD=VALUE"),
        (["kinetic", "--out", "."], "something else"),
        (["nothing.py"], "no file nothing.py"),
        (["empty.py"], "has no figure"),
    ],
)
def test_mistakes_are_told_in_a_sentence_and_nothing_is_written(words, told, tmp_path):
    (tmp_path / "empty.py").write_text("", encoding="utf-8")
    result = tokenfield("figure", *words, cwd=tmp_path, ok=False)
    assert result.returncode == 2 and told in result.stderr and "Traceback" not in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["empty.py"]
