"""A report is one page that needs nothing but itself, and takes whatever it reads as text."""

import html.parser
import json

import numpy as np
import pytest
import xarray

import tokenfield as tkf
from tests.test_cli import tokenfield
from tokenfield.errors import InputError
from tokenfield.report import report
from tokenfield.store import tables


class Reader(html.parser.HTMLParser):
    """What a page consists of."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.text = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "action", "data")]

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    tkf.figures.kinetic(small=True, out=folder / "figures" / "kinetic")
    mu = tkf.Tokens.uniform_sphere(n=8, d=3, seed=0)
    tkf.sweep(
        tkf.sa, mu, 1.0, over={"beta": [1.0, 2.0]}, observe="mean_overlap", save=3, workers=0, out=folder / "grid.zarr"
    )
    tkf.evolve(tkf.sa(1.0), mu, t=1.0, save=3).save(folder / "mine" / "run.zarr")
    return folder


def test_figures_sweeps_and_runs_stand_on_one_page_that_opens_offline(made, tmp_path):
    path, good = report([made], tmp_path / "report.html")
    text = path.read_text(encoding="utf-8")
    page = Reader(text)
    assert good and {"kinetic", "grid.zarr", "mine"} <= set(page.text.split())
    assert "✓ holds" in page.text and "tokenfield figure kinetic --small" in page.text
    assert page.tags.count("img") == 3 and "script" not in page.tags and "link" not in page.tags
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in page.links)
    assert "default-src 'none'" in text and "://" not in text


def test_whatever_folders_say_is_text(tmp_path):
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'"
    about = {
        "figure": "mine",
        "shows": evil,
        "source": evil,
        "remark": evil,
        "command": evil,
        "made": evil,
        "seconds": 1.0,
        "parameters": {evil: evil},
        "versions": {evil: evil},
        "claims": [{"what": evil, "predicted": 1.0, "measured": 2.0, "tolerance": 0.5, "because": evil}],
    }
    tables.save(xarray.Dataset({"y": ("x", np.zeros(2))}), tmp_path / "mine" / "data.zarr", about)
    path, good = report([tmp_path], tmp_path / "report.html")
    page = Reader(path.read_text(encoding="utf-8"))
    assert not good and "script" not in page.tags and "img" not in page.tags and page.text.count(evil) >= 6


def test_what_is_no_report_is_left_alone(made, tmp_path):
    (tmp_path / "mine.html").write_text("mine")
    with pytest.raises(InputError, match="no report"):
        report([made], tmp_path / "mine.html")
    assert (tmp_path / "mine.html").read_text() == "mine"
    report([made], tmp_path / "mine.html", force=True)
    report([made / "figures"], tmp_path / "mine.html")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no figure, sweep or run"):
        report([tmp_path / "empty"], tmp_path / "report.html")


def test_the_command_tells_whether_claims_are_met(made, tmp_path):
    assert "report.html" in tokenfield("report", str(made / "figures"), cwd=tmp_path).stdout
    wrong = tokenfield("report", "nowhere", cwd=tmp_path, ok=False)
    assert wrong.returncode == 2 and "no folder nowhere" in wrong.stderr and "Traceback" not in wrong.stderr
    assert json.loads((made / "figures" / "kinetic" / "claims.json").read_text())["verdict"] == "holds"
