"""A real browser for the tests of the page: Debian's Chromium, driven by Playwright, headless, with software graphics.

Every page that a test opens is watched: a request that leaves the machine, an error on the console or one that nobody caught
fails the test that it happened in."""

import functools
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import quote, urlparse

import pytest

from tokenfield.lab import pages

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data: blob:; connect-src 'self'"
HERE = {"127.0.0.1", "localhost"}


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="the tests of the page need playwright")
    if CHROMIUM is None:
        pytest.skip("the tests of the page need chromium (Debian's package of this name)")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


class Watch:
    """What pages asked for and what went wrong in them. `forgiven`: words of errors that a test expects."""

    def __init__(self):
        self.requests, self.errors, self.forgiven = [], [], []

    def over(self, page):
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("websocket", lambda socket: self.requests.append(socket.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)

    def strangers(self):
        return [
            url
            for url in self.requests
            if urlparse(url).scheme not in ("data", "blob", "file") and urlparse(url).hostname not in HERE
        ]

    def wrong(self):
        return [error for error in self.errors if not any(words in error for words in self.forgiven)]


@pytest.fixture
def watch():
    watch = Watch()
    yield watch
    assert not watch.strangers(), "requests left the machine"
    assert not watch.wrong(), "errors on the page"


@pytest.fixture
def visit(browser, watch):
    """visit(url, width, height, **context) opens a page in a fresh profile."""
    opened = []

    def visit(url, width=1440, height=900, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, accept_downloads=True, **options)
        opened.append(context)
        page = context.new_page()
        watch.over(page)
        page.goto(url)
        return page

    yield visit
    for context in opened:
        context.close()


def until(page, script, argument=None, seconds=20.0):
    """Wait until a script is true of the page, and return what it gave. A strict policy forbids Playwright's own way of waiting."""
    end = time.monotonic() + seconds
    while not (value := page.evaluate(script, argument)):
        assert time.monotonic() < end, f"waited {seconds:g} s in vain for {script}"
        time.sleep(0.05)
    return value


class Files(http.server.SimpleHTTPRequestHandler):
    """The front end's files under a strict policy."""

    def end_headers(self):
        self.send_header("Content-Security-Policy", POLICY)
        super().end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def files():
    """The address of the front end's files, without a laboratory behind them."""
    handler = functools.partial(Files, directory=str(pages.WEB))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="session")
def explorables(tmp_path_factory) -> dict[str, str]:
    """Addresses of the explorables, as files: they need no server."""
    folder = Path(tmp_path_factory.mktemp("explorables"))
    return {path.stem: path.as_uri() for path in pages.write(folder)}


class Laboratory:
    """`tokenfield play` as a process of its own, on a port of its own."""

    def __init__(self, *arguments):
        self.arguments, self.port, self.process = arguments, 0, None
        self.start()

    def start(self):
        command = [
            sys.executable,
            "-m",
            "tokenfield",
            "play",
            "--no-browser",
            "--port",
            str(self.port),
            *self.arguments,
        ]
        quick = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "XLA_FLAGS": "--xla_cpu_use_fusion_emitters=false"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **quick})
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, f"tokenfield play said {line!r}"
        self.address = found[0].rstrip("/")
        self.port = urlparse(self.address).port

    def stop(self):
        self.process.terminate()
        self.process.wait(20)
        self.process.stdout.close()

    def at(self, **values):
        """The address of an experiment."""
        return f"{self.address}/#{quote(json.dumps({'p': values}))}"


@pytest.fixture(scope="session")
def laboratory():
    found = Laboratory()
    yield found
    found.stop()
