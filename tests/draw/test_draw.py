"""Pictures and movies of every kind of run are drawn, whole."""

import numpy as np
import pytest
from matplotlib.image import imread
from PIL import Image

import tokenfield as tkf
from tests import fast_first
from tokenfield.draw import movie
from tokenfield.draw.picture import snapshot_times

RUNS = {
    "circle": lambda: tkf.evolve(tkf.sa(9.0), tkf.Tokens.uniform_sphere(30, 2, seed=0), 6.0, save=15),
    "sphere": lambda: tkf.evolve(tkf.usa(2.0), tkf.Tokens.uniform_sphere(30, 3, seed=0), 2.0, save=15),
    "many dimensions": lambda: tkf.evolve(tkf.sa(2.0), tkf.Tokens.uniform_sphere(30, 16, seed=0), 9.0, save=15),
    "line": lambda: tkf.evolve(tkf.Flow(tkf.Softmax(1.0)), tkf.Tokens.gaussian(20, 1, seed=0), 1.0, save=15),
    "plane": lambda: tkf.evolve(tkf.Flow(tkf.Softmax(1.0, V=-1.0)), tkf.Tokens.gaussian(20, 2, seed=0), 1.0, save=15),
    "space": lambda: tkf.evolve(tkf.Flow(tkf.Softmax(1.0)), tkf.Tokens.gaussian(20, 3, seed=0), 1.0, save=15),
    "one state": lambda: tkf.evolve(tkf.sa(2.0), tkf.Tokens.uniform_sphere(9, 3, seed=0), 1.0, save=1),
    "one token": lambda: tkf.evolve(tkf.sa(2.0), tkf.Tokens([[1.0, 0.0]]), 1.0, save=4),
    "a token at the origin": lambda: tkf.evolve(
        tkf.Flow(tkf.Softmax(1.0)), tkf.Tokens([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]), 1.0, save=4
    ),
    "log times": lambda: tkf.evolve(
        tkf.sa(9.0), tkf.Tokens.uniform_sphere(30, 3, seed=0), 1000.0, save=np.append(0, np.geomspace(0.1, 1000, 20))
    ),
}


@pytest.mark.parametrize("name", fast_first(RUNS, "circle", "sphere"))
def test_picture(tmp_path, name):
    run = RUNS[name]()
    assert run.plot(tmp_path / "run.png") == tmp_path / "run.png"
    pixels = imread(tmp_path / "run.png")
    assert pixels.shape[:2] == (960, 1800)
    assert len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 20, "not an empty page"


def test_picture_as_a_figure():
    assert RUNS["circle"]().plot().get_axes()


@pytest.mark.parametrize("name", fast_first(["circle", "sphere", "many dimensions"], "circle", "sphere"))
def test_movies(tmp_path, name):
    run = RUNS[name]()
    gif = run.animate(tmp_path / "run.gif", seconds=1.0)
    with Image.open(gif) as image:
        assert image.n_frames == 15
    mp4 = run.animate(tmp_path / "run.mp4", seconds=1.0)
    assert mp4.suffix == ".mp4" and mp4.read_bytes()[4:8] == b"ftyp"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.gif", "run.mp4"]


def test_without_ffmpeg_a_movie_is_a_gif(tmp_path, monkeypatch):
    monkeypatch.setattr(movie, "ffmpeg", lambda: None)
    assert RUNS["circle"]().animate(tmp_path / "run.mp4", seconds=0.5) == tmp_path / "run.gif"
    assert (tmp_path / "run.gif").exists()


def test_snapshots_follow_the_way_not_the_clock():
    run = RUNS["log times"]()
    moments = snapshot_times(run)
    assert moments[0] == 0 and moments[-1] == len(run) - 1 and moments == sorted(set(moments)) and len(moments) == 5
