"""Films and the pages that stand alone."""

import base64
import gzip
import re
import struct

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield.errors import InputError, StoreError
from tokenfield.lab import film, pages
from tokenfield.lab.wire import unpack

MU = tkf.Tokens.uniform_sphere(n=20, d=3, seed=0)
RUN = tkf.evolve(tkf.sa(4.0), MU, t=2.0, save=12)


def frames_of(text):
    """What the player reads: headers, and coordinates as they are seen."""
    data = re.search(r'<script type="text/plain" id="film">([^<]*)</script>', text)
    roll, found, before = gzip.decompress(base64.b64decode(data[1])), [], None
    while roll:
        (length,) = struct.unpack_from("<I", roll)
        header, arrays = unpack(roll[4 : 4 + length])
        roll, q = roll[4 + length :], arrays["x"]
        before = q + before if header["delta"] else q
        found.append((header, before.view(np.int16).T * header["range"] / 32767, arrays))
    return found


def test_a_film_holds_the_run(tmp_path):
    path = RUN.film(tmp_path / "run.html")
    text = path.read_text(encoding="utf-8")
    frames = frames_of(text)
    assert len(frames) == 12
    for k, (header, x, arrays) in enumerate(frames):
        assert header["t"] == pytest.approx(float(RUN.times[k]))
        assert np.abs(x - np.asarray(RUN.x[k])).max() < 1 / 32767
        assert len(arrays["label"]) == 20 and 0 < header["energy"] <= 1
    assert "http-equiv" in text and "default-src 'none'" in text
    assert not re.search(r"(src|href)=\"?(https?:)?//", text), "nothing is loaded from anywhere"
    assert "\nimport " not in text and "\nexport " not in text


def test_a_thousand_tokens_and_four_hundred_frames_are_small(tmp_path):
    rng = np.random.default_rng(0)
    steps = np.cumsum(0.05 * rng.normal(size=(400, 1000, 3)), axis=0) + rng.normal(size=(1000, 3))
    x = steps / np.linalg.norm(steps, axis=-1, keepdims=True)
    run = tkf.Trajectory.from_states(x, flow=tkf.sa(9.0))
    assert run.film(tmp_path / "run.html").stat().st_size < 5e6


def test_more_states_than_a_film_holds(tmp_path):
    run = tkf.Trajectory.from_states(np.random.default_rng(0).normal(size=(1000, 3, 2)))
    frames = frames_of(run.film(tmp_path / "run.html").read_text(encoding="utf-8"))
    assert len(frames) == film.MOST_FRAMES and frames[-1][0]["t"] == 999


def test_ensembles_are_small_multiples(tmp_path):
    starts = [tkf.Tokens.uniform_sphere(n=n, d=3, seed=n) for n in (4, 6, 8)]
    runs = tkf.evolve([tkf.sa(1.0), tkf.sa(9.0)], starts, t=1.0, save=5)
    frames, about = film.filmed(runs)
    assert len(about["members"]) == 6 and len(frames) == 5
    header, arrays = frames[-1]
    assert sum(header["split"]) == len(arrays["x"]) == len(arrays["label"])
    assert len(header["energy"]) == 6
    assert runs.film(tmp_path / "runs.html").exists()


@pytest.mark.parametrize(
    "run",
    [
        tkf.evolve(
            tkf.Flow(tkf.Softmax(A=-1.0), tkf.Free()), tkf.Gaussian([0.0, 0.0], [[1.0, 0.2], [0.2, 1.0]]), t=1.0, save=4
        ),
        tkf.evolve(tkf.sa(1.0), tkf.Equiangular(rho=0.1, n=9), t=1.0, save=4),
        tkf.evolve(tkf.sa(1.0, kappa=8.0), tkf.CircleDensity.wave(0.1, k=2), t=0.5, save=4),
        tkf.evolve(tkf.usa(1.0, kappa=8.0), tkf.SphereDensity.wave(0.1, l=2), t=0.5, save=4),
        tkf.Trajectory.from_states(np.random.default_rng(0).normal(size=(4, 5, 9))),
    ],
    ids=["gaussian", "equiangular", "circle", "sphere", "given states"],
)
def test_every_measure_can_be_filmed(run, tmp_path):
    assert len(frames_of(run.film(tmp_path / "run.html").read_text(encoding="utf-8"))) == 4


def test_what_is_no_film(tmp_path):
    with pytest.raises(InputError, match="is a page"):
        RUN.film(tmp_path / "run.mp4")
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(StoreError, match="cannot be written"):
        RUN.film(tmp_path / "folder.html")
    kept = tkf.evolve(tkf.sa(1.0), MU, t=1.0, observe="mean_overlap")
    with pytest.raises(InputError, match="observables"):
        kept.film(tmp_path / "run.html")


def test_what_a_film_says_is_text(tmp_path):
    text = film.page(
        "</title><script>alert(1)</script>", film.filmed(RUN)[0], {"title": "</script><script>alert(2)</script>"}
    )
    assert "<script>alert" not in text


def test_a_view_holds_the_run_and_needs_no_kernel():
    anywidget = pytest.importorskip("anywidget")
    view = RUN.view(height=300)
    assert isinstance(view, anywidget.AnyWidget) and view.height == 300
    assert gzip.decompress(view.film) and view.hello["film"]["frames"] == 12
    state = view.get_state()
    assert {"_esm", "_css", "film", "hello", "height"} <= set(state)
    assert "export default" in view._esm and "\nimport " not in view._esm
    with pytest.raises(InputError, match="needs no server"):
        view.serve()


def test_a_live_view_answers(monkeypatch):
    pytest.importorskip("anywidget")
    sent = []
    view = tkf.play(tkf.sa(4.0), tkf.Tokens.uniform_sphere(n=8, d=3, seed=0))
    monkeypatch.setattr(view, "send", lambda message, buffers=None: sent.append((message, buffers)))
    view._told(view, {"ack": 0}, [])
    view._told(view, {"ack": 0}, [])
    view._told(view, {"set": {"beta": 2.0}}, [])
    view._told(view, {"ack": 2}, [])
    frames = [unpack(buffers[0]) for _, buffers in sent if buffers]
    assert len(frames) == 3 and frames[-1][0]["t"] > 0
    assert any(message.get("p", {}).get("beta") == 2.0 for message, _ in sent)
    view._told(view, "nonsense", [])
    view._told(view, {"act": "pause"}, [])
    count = len(sent)
    view._told(view, {"ack": 3}, [])
    assert len(sent) == count, "one that stands still asks for nothing"
    with pytest.raises(InputError, match="play\\(flow, mu0\\)"):
        tkf.play(3, MU)
    with pytest.raises(InputError):
        tkf.play(tkf.Flow(tkf.ReLU(), tkf.Free()), tkf.Gaussian([0.0], [[1.0]]))


def test_explorables_stand_alone(tmp_path):
    paths = pages.write(tmp_path)
    assert len(paths) == len(pages.explorables()) + 1
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert "\nimport " not in text and not re.search(r"(src|href)=\"?(https?:)?//", text)


def test_a_bundle_has_each_module_once(tmp_path, monkeypatch):
    for name, text in {
        "a.js": "import { b } from './b.js';\nimport { c } from './deep/c.js';\nexport default { b, c };\n",
        "b.js": "import { c } from './deep/c.js';\nexport const b = c;\n",
        "deep/c.js": "export function c() {}\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(pages, "WEB", tmp_path)
    script = pages.bundle("a.js")
    assert (
        script.count("function c()") == 1
        and "import" not in script
        and script.index("function c") < script.index("const b")
    )
    assert "export default { b, c }" in script and "export const" not in script
