"""Films and the widget in a real browser: recorded runs without a server, and notebooks with and without a kernel."""

import base64

import numpy as np
import pytest

import tokenfield as tkf
from tests.lab.page.conftest import until
from tokenfield.lab import pages
from tokenfield.lab.session import Session
from tokenfield.lab.widget import View

RUN = tkf.evolve(tkf.sa(4.0), tkf.Tokens.uniform_sphere(n=40, d=3, seed=0), t=3.0, save=12, progress=False)
PLAYED = "() => document.querySelector('[data-control=frame]')?.value === document.querySelector('[data-control=frame]')?.max"


def go(page, frame):
    """Move the slider of time, as a hand would."""
    page.locator("[data-control=frame]").evaluate(
        "(e, v) => { e.value = v; e.dispatchEvent(new Event('input')); }", frame
    )


def shown(page):
    return page.evaluate("() => { const f = played.look().frame; return [[...f.x], f.x.shape, f.t, f.split ?? null]; }")


@pytest.fixture
def film(visit, tmp_path):
    """film(run) plays a run from a file; its front end can be asked as `played`."""

    def film(run, **options):
        path = run.film(tmp_path / "run.html")
        text = path.read_text()
        start = "player(document.querySelector"
        assert text.count(start) == 1
        path.write_text(text.replace(start, f"window.played = await {start}"))
        page = visit(path.as_uri(), **options)
        until(page, "() => window.played")
        return page

    return film


def test_a_film_shows_the_run_at_every_time(film):
    page = film(RUN)
    for k in (0, 7, 3, 11):  # onward, and back, where differences are summed anew
        go(page, k)
        until(page, "k => played.look().frame.seq === k", k)
        x, shape, t, _ = shown(page)
        assert t == pytest.approx(float(RUN.times[k]))
        assert np.abs(np.reshape(x, shape) - np.asarray(RUN.x[k])).max() < 2 / 32767
    assert page.locator("[data-exact=frame]").input_value().startswith("3")


def test_a_film_plays_to_its_end_and_again(film):
    page = film(RUN)
    until(page, PLAYED)
    until(page, "() => document.querySelector('[data-act=play]').textContent === 'Play'")
    page.locator("[data-act=play]").click()
    until(page, "() => played.look().frame.seq < 11")
    until(page, PLAYED)


def test_small_multiples(film):
    starts = [tkf.Tokens.uniform_sphere(n=20, d=3, seed=seed) for seed in range(6)]
    runs = tkf.evolve(tkf.sa(4.0), starts, t=2.0, save=6, progress=False)
    page = film(runs)
    go(page, 5)
    until(page, "() => played.look().frame.seq === 5")
    _, shape, _, split = shown(page)
    assert split == [20] * 6 and shape == [120, 3]
    assert page.locator(".titles span").count() == 6


NOTEBOOK = """async ([script, style, hello, film, height]) => {
  const read = text => Uint8Array.from(atob(text), c => c.charCodeAt(0)), bytes = read(film), heard = [];
  const sheet = new CSSStyleSheet(); sheet.replaceSync(style); document.adoptedStyleSheets = [sheet];
  window.sent = [];
  const model = {
    get: name => ({ hello, height, film: new DataView(bytes.buffer) })[name],
    send: m => sent.push(m), on: (_, f) => heard.push(f), off: () => heard.pop(),
  };
  window.hear = (m, b) => heard.forEach(f => f(m, b ? [new DataView(read(b).buffer)] : []));
  const el = document.body.appendChild(document.createElement('div'));
  const { default: widget } = await import('/widget.js');
  window.forget = widget.render({ model, el });
}"""


@pytest.fixture
def notebook(files, visit):
    """notebook(view) stands in for a notebook: a model with the widget's traits, and messages that go nowhere."""

    def notebook(view, width=900):
        page = visit(f"{files}/index.html", width)
        page.evaluate("document.body.replaceChildren()")
        page.evaluate(NOTEBOOK, [view._esm, view._css, view.hello, base64.b64encode(view.film).decode(), view.height])
        return page

    return notebook


def test_a_stored_run_plays_without_a_kernel(notebook, watch):
    watch.forgiven = ["live", "WebSocket"]  # the page beneath looks for a laboratory
    page = notebook(View(run=RUN))
    until(page, PLAYED)
    assert page.evaluate("sent.length") == 0
    assert page.locator(".lab").get_attribute("class").split() == ["lab", "narrow"]


def test_a_live_widget_asks_for_two_frames_and_then_for_more(notebook, watch):
    watch.forgiven = ["live", "WebSocket"]
    session = Session(link={"p": {"n": 12}})
    page = notebook(View(session))
    until(page, "() => sent.filter(m => 'ack' in m).length === 2")
    session.step(0.1)
    page.evaluate("b => hear({}, b)", base64.b64encode(session.frame()).decode())
    until(page, "() => sent.filter(m => 'ack' in m).length === 3")
    page.evaluate("hear({ say: 'A sentence.' })")
    assert page.locator(".status").inner_text() == "A sentence."
    inputs = "[...document.querySelectorAll('.lab input, .lab select, .lab button')]"
    kept = page.evaluate(f"() => {inputs}.every(e => e.hasAttribute('data-lm-suppress-shortcuts'))")
    assert kept, "JupyterLab would take the arrow keys"
    page.evaluate("forget()")


def test_the_widget_is_one_module():
    script = pages.bundle("widget.js")
    assert script.count("export default") == 1
    assert "\nimport " not in script
