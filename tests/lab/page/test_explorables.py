"""The explorables in a real browser, as files: nothing serves them."""

import json
from urllib.parse import quote

import numpy as np
import pytest

import tokenfield as tkf
from tests.lab.page.conftest import until
from tokenfield.lab import pages

NAMES = pages.explorables()
TIME = "laboratory.look().frame?.t ?? -1"


def opened(visit, explorables, name, width=1440, height=900, scheme="light", **values):
    page = visit(f"{explorables[name]}#{quote(json.dumps(values))}", width, height, color_scheme=scheme)
    until(page, "() => window.laboratory?.look().frame")
    return page


def test_there_are_five():
    assert NAMES == ["causal", "cone", "equiangular", "noise", "sphere"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_it_moves_and_fits(visit, explorables, name, scheme):
    width, height = (1440, 900) if scheme == "light" else (380, 800)
    page = opened(visit, explorables, name, width, height, scheme)
    t = page.evaluate(TIME)
    until(page, f"t => ({TIME}) > t", t)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    words = page.locator(".words").inner_text()
    assert "What to look for." in words and 90 < len(words.split()) < 250
    assert page.locator("canvas.stage").get_attribute("aria-label")


@pytest.mark.parametrize("name", NAMES)
def test_every_control_may_be_moved_to_its_ends(visit, explorables, name):
    page = opened(visit, explorables, name)
    for control in page.locator("[data-control]").all():
        if not control.is_visible():
            continue
        if control.evaluate("e => e.tagName") == "SELECT":
            for option in control.locator("option").all():
                control.select_option(option.get_attribute("value"))
        else:
            control.focus()
            page.keyboard.press("End")
            page.keyboard.press("Home")
    assert page.evaluate("() => [...laboratory.look().frame.x].every(Number.isFinite)")
    page.locator("[data-act=reset]").click()
    until(page, f"() => ({TIME}) < 1e3")


@pytest.mark.parametrize(("kind", "d"), [("softmax", 3), ("unnormalized", 2)])
def test_a_run_is_the_librarys(visit, explorables, kind, d):
    """From the start that the page shows, the library arrives where the page does, to the page's accuracy."""
    page = opened(visit, explorables, "sphere", attention=kind, d=str(d), n=24, beta=3, speed=1)
    page.locator("[data-act=play]").click()
    until(page, "() => !laboratory.look().frame.play")
    page.locator("[data-act=reset]").click()
    until(page, f"() => ({TIME}) === 0")
    look = "() => { const f = laboratory.look().frame; return [[...f.x], f.x.shape, f.t]; }"
    start, shape, _ = page.evaluate(look)
    page.locator("[data-act=play]").click()
    until(page, f"() => ({TIME}) > 1")
    page.locator("[data-act=play]").click()
    until(page, "() => !laboratory.look().frame.play")
    end, _, t = page.evaluate(look)
    attention = tkf.Softmax(3.0) if kind == "softmax" else tkf.Unnormalized(3.0, scaled=True)
    run = tkf.evolve(
        tkf.Flow(attention, tkf.PostLN()), tkf.Tokens(np.reshape(start, shape)), t=t, save=2, rtol=1e-9, progress=False
    )
    assert np.reshape(end, shape) == pytest.approx(np.asarray(run.final.x), abs=1e-4)


def test_noisy_tokens_find_the_predicted_order(visit, explorables):
    page = opened(visit, explorables, "noise", n=1000, kappa=4, speed=10)
    until(page, f"() => ({TIME}) > 30", seconds=30)
    found, predicted = page.evaluate("laboratory.look().frame.order")
    assert predicted == pytest.approx(0.83146, abs=1e-5)
    assert found == pytest.approx(predicted, abs=0.06)


def test_a_link_is_an_experiment(visit, explorables):
    page = opened(visit, explorables, "sphere", n=10)
    page.locator("[data-exact=beta]").fill("2.5")
    page.keyboard.press("Enter")
    until(page, "() => decodeURIComponent(location.hash).includes('2.5')")
    other = visit(page.url)
    until(other, "() => window.laboratory?.look().frame")
    assert other.locator("[data-exact=beta]").input_value() == "2.5"
    assert other.evaluate("laboratory.look().frame.x.shape[0]") == 10


def test_a_thousand_tokens_move_at_a_bearable_pace(visit, explorables):
    page = opened(visit, explorables, "sphere", n=1000)
    until(page, "() => laboratory.look().frame.seq > 8", seconds=20)
