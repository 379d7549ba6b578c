"""The live page in a real browser: `python -m benchmarks.page page CONTENDER`, each in a process of its own.

Both contenders show the same tokens of the same live run in headless Chromium with software graphics: tokenfield by its own page,
viser by a point cloud that is sent again for every frame. Frames are counted where they arrive and are answered (tokenfield), or
arrive (viser). The slider is moved by a key; its latency ends with the first frame that was computed after it.
"""

import json
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time

from benchmarks.harness import SMALL

CONTENDERS = ("tokenfield", "viser")
SIZES = (200,) if SMALL else (2_000, 10_000)
WARM, SECONDS, KEYS = (3.0, 2.0, 3) if SMALL else (12.0, 10.0, 9)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class Traffic:
    """What passed the page's websocket, with times."""

    def __init__(self, page):
        self.page, self.sent, self.got = page, [], []
        page.on("websocket", self._listen)

    def _listen(self, socket):
        socket.on("framesent", lambda data: self.sent.append((time.perf_counter(), data)))
        socket.on("framereceived", lambda data: self.got.append((time.perf_counter(), data)))

    def wait(self, seconds, done=lambda: False):
        """Let the page go on for so long, or until something has happened."""
        end = time.perf_counter() + seconds
        while time.perf_counter() < end and not done():
            self.page.wait_for_timeout(4)


def browsed(measure):
    """What is measured in a fresh browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        try:
            page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
            return measure(page, Traffic(page))
        finally:
            browser.close()


def rate(traffic, frames):
    """Frames a second, when all is compiled and warm."""
    traffic.wait(120, lambda: frames() > 5)
    traffic.wait(WARM)
    before, began = frames(), time.perf_counter()
    traffic.wait(SECONDS)
    return (frames() - before) / (time.perf_counter() - began)


def tokenfield(n):
    command = [sys.executable, "-m", "tokenfield", "play", "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = re.search(r"http\S+", server.stdout.readline())[0]
        link = json.dumps({"p": {"n": n}})

        def measure(page, traffic):
            page.goto(f"{address}#{link}")
            fps = rate(traffic, lambda: sum('"ack"' in data for _, data in traffic.sent if isinstance(data, str)))
            slider = page.locator('[data-control="beta"]').first
            return fps, statistics.median(_turned(slider, traffic) for _ in range(KEYS))

        return browsed(measure)
    finally:
        server.terminate()
        server.wait()


def _turned(slider, traffic):
    """Seconds from a key on the slider to the answer to the first frame that came after what the server said of it."""
    slider.focus()
    began = time.perf_counter()
    slider.press("ArrowRight")
    told = lambda: [t for t, data in traffic.got if t > began and isinstance(data, str) and '"link"' in data]
    traffic.wait(5, lambda: bool(told()))
    shown = lambda: [t for t, data in traffic.sent if t > told()[0] and isinstance(data, str) and '"ack"' in data]
    traffic.wait(5, lambda: bool(shown()))
    traffic.wait(0.3)
    return shown()[0] - began


def viser(n):
    import logging

    import numpy as np
    import viser

    import tokenfield as tkf
    from tokenfield.evolution.live import Live

    logging.disable(logging.WARNING)
    server = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
    slider = server.gui.add_slider("beta", 0.0, 64.0, 0.25, 9.0)
    live = Live(tkf.sa(9.0), tkf.Tokens.uniform_sphere(n=n, d=3, seed=0), rtol=1e-4, widest=tkf.sa(64.0))
    colours, stop, turned = np.full((n, 3), 90, np.uint8), threading.Event(), []

    def play():
        β, last = slider.value, time.perf_counter()
        while not stop.is_set():
            if slider.value != β:
                β = slider.value
                live.change(tkf.sa(β))
                turned.append(time.perf_counter())
            now = time.perf_counter()
            live.onward(live.t + min(max(now - last, 1 / 60), 0.1))
            last = now
            server.scene.add_point_cloud("tokens", np.asarray(live.measure.x, np.float32), colours, point_size=0.02)
            time.sleep(max(0.0, 1 / 60 - (time.perf_counter() - now)))

    thread = threading.Thread(target=play, daemon=True)
    thread.start()

    def measure(page, traffic):
        page.goto(f"http://127.0.0.1:{server.get_port()}")
        clouds = lambda after=0.0: [
            t for t, data in traffic.got if t > after and isinstance(data, bytes) and len(data) > 6 * n
        ]
        fps = rate(traffic, lambda: len(clouds()))
        latencies = []
        for _ in range(KEYS):
            count, began = len(turned), time.perf_counter()
            page.locator('[role="slider"]').first.press("ArrowRight")
            traffic.wait(5, lambda count=count: len(turned) > count)
            traffic.wait(5, lambda count=count: len(turned) > count and bool(clouds(turned[count])))
            latencies.append(clouds(turned[count])[0] - began)
            traffic.wait(0.3)
        return fps, statistics.median(latencies)

    try:
        return browsed(measure)
    finally:
        stop.set()
        thread.join(5)
        server.stop()


def main(contender: str) -> None:
    """Seconds a frame, and seconds from the slider to a changed frame."""
    found = {}
    for n in SIZES:
        fps, latency = {"tokenfield": tokenfield, "viser": viser}[contender](n)
        found |= {f"frame, n = {n}": {"seconds": 1 / fps}, f"slider, n = {n}": {"seconds": latency}}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[2])
