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
        if "ack" in message:
            if session.play or session.seq == 0:
                self._turn(session, [])
        elif session.play and message.get("act") != "play":
            self._answer(session.told(message))
        else:
            self._turn(session, [message])

    def _turn(self, session: Session, mail: list[dict[str, Any]]) -> None:
        now, before = time.monotonic(), session.say
        answers, frame = session.turn(mail, now - self._moved)
        self._moved = now
        self._answer(answers)
        self.send({}, [frame])
        if session.say != before:
            self.send({"say": session.say, "kind": session.kind})

    def _answer(self, answers: list[dict[str, Any]]) -> None:
        for answer in answers:
            self.send(answer)

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
