"""The laboratory in a notebook: the page's own modules as an anywidget. Every frame that was drawn asks for the next one."""

import time
from typing import Any

from tokenfield.errors import InputError
from tokenfield.lab import film, pages
from tokenfield.lab.session import Session
from tokenfield.trajectory import Trajectory

try:
    import anywidget
    import traitlets
except ImportError:
    raise InputError("The view in a notebook needs a library: pip install 'tokenfield[play]'.") from None

FASTEST, SLOWEST = 1 / 60, 1 / 10
"""Seconds of play that a frame stands for, at least and at most."""


class View(anywidget.AnyWidget):
    """A view of a run, or of a session that moves, as a notebook shows it.

    A run that is over is in the notebook itself, and plays without a kernel. `serve` opens a session on a page of its own.
    """

    _esm = traitlets.Unicode().tag(sync=True)
    _css = traitlets.Unicode().tag(sync=True)
    hello = traitlets.Dict().tag(sync=True)
    height = traitlets.Int(600).tag(sync=True)
    film = traitlets.Bytes(b"").tag(sync=True)

    def __init__(self, session: Session | None = None, run: Trajectory | None = None, height: int = 600):
        self.session, self._moved = session, time.monotonic()
        roll, about = b"", {} if session is None else session.hello()
        if run is not None:
            frames, about = film.filmed(run)
            roll = film.rolled(frames)
        script, style = pages.bundle("widget.js"), (pages.WEB / "lab.css").read_text(encoding="utf-8")
        super().__init__(_esm=script, _css=style, hello=about, film=roll, height=height)
        self.on_msg(self._told)

    def _told(self, _: Any, message: Any, buffers: Any) -> None:
        """A message of the notebook's. While the session plays, the next frame that is asked for shows what came of it."""
        session = self.session
        if session is None or not isinstance(message, dict):
            return
        asked = "ack" in message
        answers = [] if asked else session.told(message)
        for answer in answers:
            self.send(answer)
        if asked and not (session.play or session.seq == 0):
            return
        if not asked and session.play and message.get("act") != "play":
            return
        self._frame(session)

    def _frame(self, session: Session) -> None:
        now = time.monotonic()
        elapsed, self._moved = min(max(now - self._moved, FASTEST), SLOWEST), now
        before = session.say
        if session.play and session.seq > 0:
            session.step(elapsed)
        self.send({}, [session.frame()])
        if session.say or before:
            self.send({"say": session.say, "kind": session.kind})

    def serve(self, port: int = 0, browser: bool = True) -> None:
        """Open the session on a page of its own, until Ctrl-C.

        **Arguments**

        - `port`: the port of this machine; any that is free when left out.
        - `browser`: whether to open the page.

        **Raises** `InputError` where there is no session, or the port cannot be used.
        """
        from tokenfield.lab.front import opened

        if self.session is None:
            raise InputError('A run that is over needs no server: run.film("run.html") writes it as a page.')
        opened(self.session.given, port=port, browser=browser)
