"""What takes long: many tabs at once, and ten minutes of play."""

import time

import pytest

from tests.lab.page.conftest import until
from tests.lab.page.test_page import READY, TIME

HEAP = "() => performance.memory.usedJSHeapSize"


def settled(page):
    """Bytes of the heap after what is no longer used was collected."""
    page.context.new_cdp_session(page).send("HeapProfiler.collectGarbage")
    return page.evaluate(HEAP)


@pytest.mark.slow
def test_memory_is_flat(laboratory, visit):
    """Ten minutes of play, with a slider that moves: the heap does not grow by more than a few megabytes."""
    page = visit(laboratory.at(n=300, speed=0.2))
    until(page, READY, seconds=40)
    sizes = []
    for minute in range(10):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            slider = page.locator("[data-control=beta]")
            slider.focus()
            page.keyboard.press("ArrowRight" if minute % 2 else "ArrowLeft")
            if page.evaluate("document.querySelector('[data-act=play]').textContent") == "Play":
                page.locator("[data-act=play]").click()
            time.sleep(1)
        sizes.append(settled(page))
    assert max(sizes[2:]) < sizes[1] + 4e6, sizes


@pytest.mark.slow
def test_fifty_tabs_have_their_own_states(laboratory, visit):
    pages = [visit(laboratory.at(n=10 + i, rtol="1e-3"), 500, 400) for i in range(50)]
    for i, page in enumerate(pages):
        until(page, READY, seconds=120)
        assert page.evaluate("laboratory.look().frame.x.shape[0]") == 10 + i
    before = [page.evaluate(TIME) for page in pages]
    for page, t in zip(pages, before, strict=True):
        until(page, f"t => {TIME} !== t", t, seconds=60)
