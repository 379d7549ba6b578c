"""`tokenfield play` in a real browser."""

import io
import json
import re
import tomllib
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

import tokenfield as tkf
from tests.lab.page.conftest import Laboratory, until
from tokenfield import attention, normalization

ATTENTIONS = [
    kind for kind in attention.KINDS if kind not in ("multi_head", "causal")
]  # those two are a slider and a switch
TIME = "(typeof laboratory === 'undefined' ? -1 : laboratory.look().frame?.t ?? -1)"
READY = "() => typeof laboratory !== 'undefined' && laboratory.look().frame !== null"

CONTROLS = ".lab button, .lab select, .lab input"
NAME = "e => e.dataset.act ?? e.dataset.control ?? e.dataset.exact ?? e.dataset.panel ?? (e.className || '')"
FOCUSED = f"""() => {{
  const e = document.activeElement, style = getComputedStyle(e);
  return [({NAME})(e), style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2];
}}"""
NAMELESS = f"""() => [...document.querySelectorAll('{CONTROLS}, .lab canvas')].filter(e =>
  !(e.labels?.length || e.textContent || e.getAttribute('aria-label'))).length"""
SMALL = """() => [...document.querySelectorAll('.lab *')].filter(e =>
  e.offsetParent && e.textContent && !e.children.length && parseFloat(getComputedStyle(e).fontSize) < 11).length"""
# The token nearest to the eye, and where it is on the stage.
FOREMOST = """() => {
  const { frame, where } = laboratory.look(), eye = [Math.cos(.35) * Math.cos(.9), Math.cos(.35) * Math.sin(.9), Math.sin(.35)];
  const depth = i => eye.reduce((sum, e, k) => sum + e * frame.x[3 * i + k], 0);
  const [first] = [...Array(frame.x.shape[0]).keys()].sort((i, j) => depth(j) - depth(i));
  return [first, ...where(first)];
}"""
# How many pixels of the stage differ from its corner.
INKED = """async () => {
  document.querySelector('[data-act=fit]').click();
  await new Promise(requestAnimationFrame);
  const stage = document.querySelector('canvas.stage'), copy = document.createElement('canvas');
  Object.assign(copy, { width: stage.width, height: stage.height });
  const pen = copy.getContext('2d');
  pen.drawImage(stage, 0, 0);
  const { data } = pen.getImageData(0, 0, copy.width, copy.height);
  let count = 0;
  for (let i = 0; i < data.length; i += 4) count += [0, 1, 2].reduce((sum, k) => sum + Math.abs(data[i + k] - data[k]), 0) > 24;
  return count;
}"""


def state(page):
    """Positions and time that the page shows."""
    x, shape, t = page.evaluate("() => { const f = laboratory.look().frame; return [[...f.x], f.x.shape, f.t]; }")
    return np.reshape(np.array(x, dtype=np.float32), shape), t


def choose(page, name, value):
    """Choose by hand: a menu's option, or a number typed into the field of a range."""
    control = page.locator(f"[data-control={name}]")
    if control.evaluate("e => e.tagName") == "SELECT":
        control.select_option(str(value))
    else:
        field = page.locator(f"[data-exact={name}]")
        field.fill(str(value))
        field.press("Enter")


def press(page, name):
    page.locator(f"[data-act={name}]").click()


def pause(page):
    if page.locator("[data-act=play]").inner_text() == "Pause":
        press(page, "play")
    until(page, "() => !laboratory.look().frame.play")


@pytest.fixture
def opened(laboratory, visit):
    """opened(**values) is a page that shows this experiment, and has its first frame."""

    def opened(**values):
        page = visit(laboratory.at(**{"n": 24, **values}))
        until(page, READY, seconds=40)
        return page

    return opened


def moves_or_is_refused(page, kind, schemes):
    pause(page)
    choose(page, "attention", kind)
    for scheme in schemes:
        choose(page, "normalization", scheme)
        press(page, "reset")
        until(page, f"() => {TIME} === 0 || document.querySelector('.status').dataset.kind === 'refused'")
        start, _ = state(page)
        press(page, "step")
        until(page, f"() => {TIME} > 0 || document.querySelector('.status').dataset.kind === 'refused'", seconds=40)
        said = page.locator(".status").inner_text()
        if page.evaluate("document.querySelector('.status').dataset.kind") == "refused":
            assert re.search(r"\w+ \w+ .*\.", said), (kind, scheme, said)
        else:
            x, _ = state(page)
            assert np.isfinite(x).all() and (x.shape != start.shape or np.abs(x - start).max() > 0), (kind, scheme)


SCHEMES = list(normalization.KINDS)


@pytest.mark.parametrize("i", range(len(ATTENTIONS)), ids=ATTENTIONS)
def test_every_attention_and_every_normalization_moves_or_is_refused(opened, i):
    """Two normalizations for each attention, such that every one has its turns; all pairs in the slow test below."""
    moves_or_is_refused(
        opened(n=8, d=3, beta=1.0, rtol="1e-3"), ATTENTIONS[i], [SCHEMES[(2 * i + k) % len(SCHEMES)] for k in range(2)]
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ATTENTIONS)
def test_every_attention_moves_under_every_normalization_or_is_refused(opened, kind):
    moves_or_is_refused(opened(n=8, d=3, beta=1.0, rtol="1e-3"), kind, SCHEMES)


def test_positions_are_those_of_the_library(opened):
    page = opened(n=20, d=3, beta=4.0, rtol="1e-9", speed=2.0)
    until(page, f"() => {TIME} > 0.5")
    pause(page)
    x, t = state(page)
    run = tkf.evolve(tkf.sa(4.0), tkf.Tokens.uniform_sphere(n=20, d=3, seed=0), t=t, save=2, rtol=1e-9, progress=False)
    assert x == pytest.approx(np.asarray(run.final.x, dtype=np.float32), abs=3e-7)


def test_a_token_is_dragged(opened):
    page = opened(n=12, d=3)
    pause(page)
    canvas = page.locator("canvas.stage")
    box = canvas.bounding_box()
    before, _ = state(page)
    front = page.evaluate(FOREMOST)
    i, x, y = front
    page.mouse.move(box["x"] + x, box["y"] + y)
    page.mouse.down()
    page.mouse.move(box["x"] + x + 30, box["y"] + y - 40, steps=4)
    page.mouse.up()
    near = "([i, x, y]) => { const [a, b] = laboratory.look().where(i); return Math.hypot(a - x, b - y) < 3 }"
    until(page, near, [i, x + 30, y - 40])
    after, _ = state(page)
    assert np.linalg.norm(after, axis=1) == pytest.approx(1.0, abs=1e-5)
    others = np.arange(12) != i
    assert after[others] == pytest.approx(before[others], abs=1e-6)


def test_tokens_come_and_go(opened):
    page = opened(n=12, d=3)
    pause(page)
    press(page, "add")
    until(page, "() => laboratory.look().frame.x.shape[0] === 13")
    until(page, "() => document.querySelector('[data-exact=n]').value === '13'")
    page.locator("canvas.stage").focus()
    page.keyboard.press("n")
    page.keyboard.press("Delete")
    until(page, "() => laboratory.look().frame.x.shape[0] === 12")


def test_reset_begins_again(opened):
    page = opened()
    start, _ = state(page) if page.evaluate(TIME) == 0 else (None, 0)
    until(page, f"() => {TIME} > 0.3")
    pause(page)
    press(page, "reset")
    until(page, f"() => {TIME} === 0")
    first = np.asarray(tkf.Tokens.uniform_sphere(n=24, d=3, seed=0).x, dtype=np.float32)
    assert state(page)[0] == pytest.approx(first, abs=1e-6)
    assert start is None or start == pytest.approx(first, abs=1e-6)


def test_a_link_is_an_experiment(opened, visit):
    page = opened()
    choose(page, "beta", 5.5)
    choose(page, "d", 2)
    until(
        page,
        "() => decodeURIComponent(location.hash).includes('5.5') && laboratory.look().frame.x.shape[1] === 2",
        seconds=40,
    )
    held = json.loads(unquote(page.evaluate("location.hash")[1:]))
    assert held["p"]["beta"] == 5.5
    other = visit(page.url)
    until(other, READY, seconds=40)
    assert other.locator("[data-exact=beta]").input_value() == "5.5"
    assert other.evaluate("laboratory.look().frame.x.shape") == [24, 2]


def saved(page, name):
    with page.expect_download() as waiting:
        press(page, name)
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()


def test_downloads(opened):
    page = opened(beta=3.5)
    until(page, f"() => {TIME} > 0.2")
    pause(page)
    x, _ = state(page)
    name, body = saved(page, "toml")
    assert name.endswith(".toml")
    assert tomllib.loads(body.decode())["flow"]["attention"]["beta"] == 3.5
    name, body = saved(page, "picture")
    assert name.endswith(".png")
    assert body.startswith(b"\x89PNG")
    assert len(body) > 5000
    name, body = saved(page, "data")
    assert name.endswith(".npz")
    with np.load(io.BytesIO(body), allow_pickle=False) as data:
        assert any(np.shape(data[key]) == x.shape and np.allclose(data[key], x, atol=1e-6) for key in data)
    name, body = saved(page, "film")
    assert name.endswith(".html")
    assert b"DecompressionStream" in body


def test_a_film_plays_without_a_server(opened, visit, tmp_path):
    page = opened()
    until(page, f"() => {TIME} > 0.4")
    pause(page)
    film = tmp_path / "film.html"
    film.write_bytes(saved(page, "film")[1])
    played = visit(film.as_uri())
    until(
        played,
        "() => document.querySelector('[data-control=frame]') && document.querySelector('[data-act=play]').textContent === 'Play'",
    )
    slider = played.locator("[data-control=frame]")
    slider.focus()
    played.keyboard.press("End")
    count = int(slider.get_attribute("max"))
    until(played, f"() => document.querySelector('[data-control=frame]').value === '{count}'")
    assert played.locator("[data-exact=frame]").input_value() != ""
    played.keyboard.press("ArrowLeft")
    until(played, f"() => document.querySelector('[data-control=frame]').value === '{count - 1}'")


def test_the_page_comes_back_after_the_server(visit, watch):
    watch.forgiven = ["ERR_CONNECTION_REFUSED", "WebSocket connection"]
    own = Laboratory()
    try:
        page = visit(own.at(n=10, beta=6.0))
        until(page, READY, seconds=40)
        own.stop()
        until(page, "() => document.querySelector('.lab').classList.contains('lost')")
        assert "does not answer" in page.locator(".status").inner_text()
        own.start()
        until(page, "() => !document.querySelector('.lab').classList.contains('lost')", seconds=30)
        t = page.evaluate(TIME)
        until(page, f"t => {TIME} !== t", t, seconds=40)
        assert page.locator("[data-exact=beta]").input_value() == "6"
    finally:
        own.stop()


def test_a_refusal_keeps_the_last_good_state(opened):
    page = opened(measure="gaussian_measure", attention="softmax", normalization="free", V=-1.0, d=2)
    choose(page, "attention", "relu")
    until(page, "() => /relu/i.test(document.querySelector('.status').textContent)")
    assert page.evaluate("document.querySelector('.status').dataset.kind") in ("refused", "ended")
    choose(page, "attention", "softmax")
    t = page.evaluate(TIME)
    if page.locator("[data-act=play]").inner_text() == "Play":
        press(page, "play")
    until(page, f"t => {TIME} > t", t)


@pytest.mark.parametrize(
    "measure", ["uniform_sphere", "gaussian", "gaussian_measure", "equiangular_measure", "circle_wave", "sphere_wave"]
)
def test_every_measure_is_drawn(opened, measure):
    """The stage is no empty paper: pixels differ from its corner."""
    free = {"normalization": "free"} if measure.startswith("gaussian") else {}
    page = opened(measure=measure, **free)
    until(page, f"() => {TIME} > 0", seconds=40)
    inked = page.evaluate(INKED)
    assert inked > 500


def test_everything_is_reached_by_keyboard(opened):
    """Tab goes through all that is seen of the controls, and what has the focus shows it."""
    page = opened()
    pause(page)
    page.locator("summary").click()
    page.evaluate("document.activeElement.blur()")
    reached = set()
    page.keyboard.press("Tab")
    for _ in range(80):
        focused = page.evaluate(FOCUSED)
        if focused[0]:
            assert focused[1], focused[0]
        reached.add(focused[0])
        page.keyboard.press("Tab")
    wanted = page.evaluate(
        f"() => [...document.querySelectorAll('{CONTROLS}')].filter(e => e.offsetParent).map({NAME})"
    )
    assert set(wanted) - {""} <= reached
    nameless = page.evaluate(NAMELESS)
    assert nameless == 0


def test_space_plays_and_arrows_turn(opened):
    page = opened()
    page.locator("canvas.stage").focus()
    pause(page)
    page.locator("canvas.stage").focus()
    where = page.evaluate("laboratory.look().where(0)")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("laboratory.look().where(0)") != where
    page.keyboard.press(" ")
    until(page, "() => laboratory.look().frame.play")


def test_nothing_starts_by_itself_where_less_motion_is_asked_for(laboratory, visit):
    page = visit(laboratory.at(n=16), reduced_motion="reduce")
    until(page, READY, seconds=40)
    until(page, "() => !laboratory.look().frame.play")
    assert "less motion" in page.locator(".status").inner_text()


def test_panels_are_chosen(opened):
    page = opened()
    page.locator("summary").click()
    before = page.locator("figure").count()
    page.locator("[data-panel=rank]").check()
    until(page, "() => document.querySelector('[data-figure=rank]') !== null")
    assert page.locator("figure").count() == before + 1
    page.locator("[data-panel=energy]").uncheck()
    assert page.locator("[data-figure=energy]").count() == 0
    until(page, "() => laboratory.look().frame.rank !== undefined", seconds=30)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (380, 800)], ids=["desktop", "phone"])
def test_the_page_fits(laboratory, visit, tmp_path, width, height, scheme):
    page = visit(laboratory.at(n=24), width, height, color_scheme=scheme)
    until(page, f"() => {TIME} > 0.2", seconds=40)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    small = page.evaluate(SMALL)
    assert small == 0
    page.screenshot(path=tmp_path / "page.png", full_page=True)
    assert (tmp_path / "page.png").stat().st_size > 20_000
