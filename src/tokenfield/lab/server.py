"""The laboratory's server: files over HTTP and one websocket a tab, on one port of this machine.

Safe by default. It listens on 127.0.0.1 and answers to its own names alone, so that no other page can reach it, by another origin
or by a name that leads here. Pages may load nothing from elsewhere. What a tab sends is small, not too frequent, and plain data;
controls are declared, and clamped, on this side. An error of one tab is told to that tab and ends nobody.
"""

import asyncio
import base64
import concurrent.futures
import contextlib
import hmac
import http
import json
import os
import secrets
import sys
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenfield.errors import InputError
from tokenfield.lab.pages import WEB
from tokenfield.lab.session import FASTEST, SLOWEST
from tokenfield.lab.wire import dumped

try:
    from websockets.asyncio.server import Server as Sockets
    from websockets.asyncio.server import ServerConnection, serve
    from websockets.datastructures import Headers
    from websockets.exceptions import ConnectionClosed
    from websockets.http11 import Request, Response
except ImportError:
    raise InputError("The laboratory's page needs a library: pip install 'tokenfield[play]'.") from None

HERE = "127.0.0.1"
MOST_TABS = 64
LARGEST = 2**16
"""Bytes of a message."""
MOST_MAIL = 256
"""Messages that wait for a frame."""
RATE, BURST = 250.0, 500.0
"""Messages a second, and at once."""
CREDIT = 2
"""Frames that are under way and not acknowledged."""
PATIENCE = 0.4
"""Seconds after which a tab is told that something is compiled."""
BUSY = {"say": "Compiling this flow, once: some seconds.", "kind": "busy"}
REFUSED, TOO_MUCH = 4403, 4429
"""Close codes: the page does not come back."""
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
SECURITY = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Server:
    """A server of sessions.

    **Arguments**

    - `make`: from the link of a tab to its session; called in a thread.
    - `host`, `port`: where it listens; port 0 takes any that is free.
    - `token`: what every address must hold, where others can reach the port; None where nobody can.
    - `out`: a folder in which downloads are kept as well; None to write nothing at all.
    """

    def __init__(
        self,
        make: Callable[[Any], Any],
        *,
        host: str = HERE,
        port: int = 0,
        token: str | None = None,
        out: Path | None = None,
    ):
        self.make, self.host, self.port, self.token, self.out = make, host, port, token, out
        self.tabs = self.frames = 0
        self.workers = concurrent.futures.ThreadPoolExecutor(max(2, min(4, os.cpu_count() or 2)), "session")
        names = ["index.html", *(path.name for path in WEB.iterdir() if path.suffix in KINDS)]
        self.files = {f"/{name}": WEB / name for name in names} | {"/": WEB / "index.html"}

    @property
    def address(self) -> str:
        """Where a browser finds the page."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{shown}:{self.port}/" + (f"?token={self.token}" if self.token else "")

    async def listen(self) -> Sockets:
        """Begin to listen; `async with` ends it."""
        try:
            sockets = await serve(
                self._live,
                self.host,
                self.port,
                process_request=self._door,
                compression=None,
                max_size=LARGEST,
                max_queue=64,
                close_timeout=2,
                server_header=None,
                logger=_quiet(),
            )
        except OSError as error:
            raise InputError(
                f"Port {self.port} of {self.host} cannot be used: {_reason(error)}. Choose another --port."
            ) from None
        self.port = next(iter(sockets.sockets)).getsockname()[1]
        return sockets

    # The door: every request passes here.

    def _door(self, connection: ServerConnection, request: Request) -> Response | None:
        path, _, query = request.path.partition("?")
        host = _only(request.headers, "Host")
        if self.token is None and host not in {f"{name}:{self.port}" for name in (HERE, "localhost")}:
            return _answer(421, "This laboratory answers to 127.0.0.1 and localhost only.")
        if path in ("/", "/live") and not self._knows(query):
            return _answer(403, "This laboratory is open to those who know its address with the token.")
        if path == "/live":
            if host is None or _only(request.headers, "Origin") != f"http://{host}":
                return _answer(403, "Another page may not steer this laboratory.")
            return _answer(503, "There are too many tabs. Close one.") if self.tabs >= MOST_TABS else None
        file = self.files.get(path)
        if file is None:
            return _answer(404, "There is nothing here.")
        return _answer(200, file.read_bytes(), KINDS[file.suffix])

    def _knows(self, query: str) -> bool:
        if self.token is None:
            return True
        given = urllib.parse.parse_qs(query).get("token", [""])[0]
        return hmac.compare_digest(given.encode(), self.token.encode())

    # One tab.

    async def _live(self, socket: ServerConnection) -> None:
        if self.tabs >= MOST_TABS:
            return await socket.close(TOO_MUCH, "too many tabs")
        self.tabs += 1
        try:
            await Tab(self, socket).run()
        except ConnectionClosed:
            pass
        except (TimeoutError, ValueError, RecursionError):
            await socket.close(REFUSED, "no greeting that can be read")
        finally:
            self.tabs -= 1

    def kept(self, answer: dict[str, Any]) -> None:
        """Write a download to the folder, under a name of this side's choice."""
        kinds = {"toml": ("spec", "toml"), "film": ("run", "html"), "data": ("state", "npz")}
        found = next((kind for kind in kinds if kind in answer), None)
        if self.out is None or found is None:
            return
        stem, ending = kinds[found]
        body = base64.b64decode(answer["data"]) if found == "data" else answer[found].encode()
        number = 1
        while (path := self.out / f"{stem}-{number}.{ending}").exists():
            number += 1
        path.write_bytes(body)


class Tab:
    """One tab: it listens to its page, lets its session move in a thread, and sends at most two frames ahead."""

    def __init__(self, server: Server, socket: ServerConnection):
        self.server, self.socket = server, socket
        self.mail: list[dict[str, Any]] = []
        self.credit, self.gone, self.wake = CREDIT, False, asyncio.Event()
        self.allowance, self.heard = BURST, time.monotonic()
        self.said: tuple[str, str] = ("", "")
        self.moved = time.monotonic()

    async def run(self) -> None:
        first = await asyncio.wait_for(self.socket.recv(), 10)
        greeting = json.loads(first) if isinstance(first, str) else None
        if not isinstance(greeting, dict) or "hello" not in greeting:
            raise ValueError
        self.session = await self._patiently(lambda: self.server.make(greeting["hello"]))
        await self.socket.send(dumped(self.session.hello()))
        listener = asyncio.create_task(self._listen())
        try:
            while not self.gone:
                if self.credit > 0 and (self.session.play or self.mail or self.session.seq == 0):
                    await self._frame()
                else:
                    self.wake.clear()
                    await self.wake.wait()
                    self.moved = max(self.moved, time.monotonic() - SLOWEST)
        finally:
            listener.cancel()

    async def _listen(self) -> None:
        try:
            async for text in self.socket:
                if not self._may_speak() or len(self.mail) > MOST_MAIL:
                    await self.socket.close(TOO_MUCH, "too many messages")
                    break
                self._hear(text)
        except ConnectionClosed:
            pass
        finally:
            self.gone = True
            self.wake.set()

    def _may_speak(self) -> bool:
        now = time.monotonic()
        self.allowance = min(BURST, self.allowance + RATE * (now - self.heard)) - 1
        self.heard = now
        return self.allowance > 0

    def _hear(self, text: str | bytes) -> None:
        """Take a message; what cannot be read is passed over."""
        try:
            message = json.loads(text) if isinstance(text, str) else None
        except (ValueError, RecursionError):
            return
        if not isinstance(message, dict):
            return
        if "ack" in message:
            self.credit = min(CREDIT, self.credit + 1)
        if message.keys() - {"ack", "hello"}:
            self.mail = merged([*self.mail, message])
        self.wake.set()

    async def _frame(self) -> None:
        wait = FASTEST - (time.monotonic() - self.moved)
        if wait > 0 and not self.mail:
            await asyncio.sleep(wait)
        elapsed, self.moved = time.monotonic() - self.moved, time.monotonic()
        self.credit -= 1
        mail, self.mail = self.mail, []  # it changes things between two steps, never during one
        answers, frame = await self._patiently(lambda: self.session.turn(mail, elapsed))
        await self._say(self.session.say, self.session.kind)
        for answer in answers:
            self.server.kept(answer)
            await self.socket.send(dumped(answer))
        await self.socket.send(frame)
        self.server.frames += 1

    async def _patiently(self, work: Callable[[], Any]) -> Any:
        """The result of work in a thread; a tab that waits for long is told why."""
        coming = asyncio.get_running_loop().run_in_executor(self.server.workers, work)
        done, _ = await asyncio.wait([coming], timeout=PATIENCE)
        if not done:
            await self._say(BUSY["say"], BUSY["kind"])
        return await coming

    async def _say(self, words: str, kind: str) -> None:
        if (words, kind) != self.said:
            self.said = words, kind
            await self.socket.send(dumped({"say": words, "kind": kind}))


def merged(mail: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages in their order; of values that are set one after the other, and of places that one token is dragged to, the last."""
    short: list[dict[str, Any]] = []
    for message in mail:
        last = short[-1] if short else {}
        if set(message) == set(last) == {"set"} and isinstance(message["set"], dict) and isinstance(last["set"], dict):
            short[-1] = {"set": {**last["set"], **message["set"]}}
        elif set(message) == set(last) == {"drag"}:
            short[-1] = message
        else:
            short.append(message)
    return short


def open_to_all(unsafe: bool, host: str | None) -> tuple[str, str | None]:
    """Where to listen, and the token that addresses must then hold.

    **Raises** `InputError` where another host is asked for and nobody has said that this is meant.
    """
    if host is None:
        if unsafe:
            raise InputError("--unsafe-network goes with --host, which says where to listen, e.g. --host 0.0.0.0.")
        return HERE, None
    if not unsafe:
        raise InputError(
            f"--host {host} lets others on the network steer this laboratory, over plain HTTP. If that is meant, add "
            "--unsafe-network; the address then holds a token."
        )
    return host, secrets.token_urlsafe(24)


async def until(server: Server, ready: Callable[[str], None], asked: Callable[[], bool]) -> None:
    """Serve until somebody asks for the end.

    **Arguments**

    - `server`: the server.
    - `ready`: called with the address when it listens.
    - `asked`: whether somebody has asked.
    """
    sockets = await server.listen()
    try:
        ready(server.address)
        while not asked():
            await asyncio.sleep(0.1)
    finally:
        sockets.close(close_connections=True)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(sockets.wait_closed(), 2)
        server.workers.shutdown(wait=False, cancel_futures=True)


def _only(headers: Any, name: str) -> str | None:
    """The one value of a header; None where there is none, or several."""
    values = headers.get_all(name)
    return values[0] if len(values) == 1 else None


def _answer(status: int, body: str | bytes, kind: str = "text/plain") -> Response:
    data = body if isinstance(body, bytes) else f"{body}\n".encode()
    headers = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(data)), **SECURITY}
    return Response(status, http.HTTPStatus(status).phrase, Headers(headers), data)


def _quiet() -> Any:
    """Strangers who knock wrongly are nobody's business."""
    import logging

    logger = logging.getLogger("tokenfield.lab.server")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def tell(address: str) -> None:
    """Say where the page is."""
    print(f"The laboratory is open: {address}\nCtrl-C closes it.", flush=True, file=sys.stdout)


def _reason(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno else str(error)
