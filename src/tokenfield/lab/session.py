"""A session: one experiment that moves, what is told to it, and what is seen of it. No web code here.

Whoever carries messages (a websocket, a notebook, a test) hands them to `told`, asks for `step` and sends what `frame` returns.
"""

import base64
import io
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tokenfield import __version__
from tokenfield.errors import InputError
from tokenfield.evolution.live import Late, Live
from tokenfield.lab import film
from tokenfield.lab.controls import MOST, OWN, real
from tokenfield.lab.presets import NAMES, PRESETS, preset
from tokenfield.lab.scenes import PANELS, Scene, scene_of
from tokenfield.lab.setting import FLOW, START, Setting
from tokenfield.lab.wire import pack
from tokenfield.measures import AbstractMeasure
from tokenfield.spec import Spec
from tokenfield.status import Status

Message = dict[str, Any]

FASTEST, SLOWEST = 1 / 60, 1 / 10
"""Seconds of play that a turn stands for, at least and at most."""
FIRST = 0.05
"""In equal ratios of time a run is past its beginning from this time on."""
STEP = 1 / 15
"""Seconds of play that the button for one step stands for."""
BUDGET = 0.05
"""Seconds that a frame may take, if steps are short enough."""
LOOKS = 0.1
"""Seconds between two looks at what panels show, at least; and they take no more than a quarter of the time."""
MOST_DENSE = 6000
"""Tokens without fast sums that still move at a bearable pace."""
SHOWN = ("energy", "clusters", "overlaps", "attention")


class Session:
    """One experiment on one page.

    **Arguments**

    - `setting`: what is set at first; the usual values when left out.
    - `link`: what the page's address holds, as far as it says something.

    >>> session = Session(link={"p": {"n": 16, "beta": 4.0}})
    >>> session.step(0.1)
    >>> frame = session.frame()
    >>> session.live.measure.n, round(session.live.t, 6), session.say
    (16, 0.1, '')
    """

    title = "tokenfield laboratory"

    def __init__(self, setting: Setting | None = None, link: Any = None):
        self.given = Setting(NAMES) if setting is None else setting
        self.setting = Setting(NAMES, dict(self.given.own), self.given.start, dict(self.given.values))
        self.play, self.seq, self.say, self.kind = True, 0, "", ""
        self.shown: tuple[str, ...] = SHOWN
        self.held: tuple[int, np.ndarray] | None = None
        self.reel = film.Reel()
        self._first, self._ms, self._next_look = True, 0.0, -math.inf
        self._seen: dict[str, Any] = {}
        self._pictures: dict[str, np.ndarray] = {}
        self._behind = False
        """Whether the start that is set is another than the one that moves, since it was refused."""
        self.live: Live | Late
        self._follow(link)

    def _follow(self, link: Any) -> None:
        """Begin as the link says; what it says in vain is told, and the session begins as it would have without it."""
        try:
            name = link["p"].get("preset") if isinstance(link, dict) and isinstance(link.get("p"), dict) else None
            if isinstance(name, str) and name in PRESETS:
                self._prepare(name)
            self.setting.follow(link)
            if isinstance(link, dict):
                self._choose(link.get("panels"))
            self.reset()
        except InputError as error:
            self.setting = Setting(NAMES, dict(self.given.own), self.given.start, dict(self.given.values))
            self.reset()
            self._refuse(error)

    # What the page is told.

    def hello(self) -> Message:
        """All that the page needs to know before the first frame."""
        setting = self.setting
        return {
            "title": self.title,
            "controls": [control.told() | self._about(control.id) for control in setting.controls.values()],
            "panels": [{"id": name, **panel} for name, panel in PANELS.items()],
            "p": setting.values,
            "shown": list(self.shown),
            "can": list(self.scene.panels),
            "link": self.link(),
            "record": True,
            "version": __version__,
        }

    def _about(self, control: str) -> Message:
        """What the example that is chosen shows, and whose it is."""
        chosen = PRESETS.get(self.setting.values["preset"]) if control == "preset" else None
        return {} if chosen is None else {"help": chosen.shows}

    def link(self) -> Message:
        """What the page's address holds."""
        panels = {} if self.shown == SHOWN else {"panels": list(self.shown)}
        return self.setting.link() | panels

    def state(self) -> Message:
        """The values of all controls as they are now, the panels that there can be, and the link to all this."""
        return {"p": self.setting.values, "can": list(self.scene.panels), "link": self.link()}

    # What is told to it.

    def told(self, message: Message) -> list[Message]:
        """One message of the page's; what is not understood is passed over.

        **Arguments**

        - `message`: plain data from a stranger.

        **Returns** the answers to it.
        """
        answers: list[Message] = []
        for name, answer in _ANSWERS.items():
            if name in message:
                try:
                    answers += answer(self, message[name]) or []
                except InputError as error:
                    self._refuse(error)
        return answers

    def _refuse(self, error: Exception) -> None:
        self.say, self.kind = str(error).split("\n")[0][:400], "refused"

    def _set(self, values: Any) -> list[Message]:
        if not isinstance(values, dict):
            return []
        wanted = values.get("preset")
        if isinstance(wanted, str) and wanted in PRESETS and wanted != self.setting.values["preset"]:
            self._prepare(wanted)
            self._try(self.reset)
            return [self.hello()]
        changed = self.setting.set({name: value for name, value in values.items() if name != "preset"})
        if changed & {*START, *FLOW}:
            self.setting.values["preset"] = OWN
        if changed:
            self._try(lambda: self._change(changed))
        return [self.state()]

    def _try(self, change: Callable[[], None]) -> None:
        """Do what somebody wants; where it is refused, say so."""
        try:
            change()
        except InputError as error:
            self._refuse(error)

    def _prepare(self, name: str) -> None:
        """The setting and the panels of an example."""
        self.setting, self.shown = preset(name), PRESETS[name].panels

    def _change(self, changed: set[str]) -> None:
        """What follows from other values: a new beginning, another flow from here, another pace. While something cannot be
        combined the last good state stays, and nothing moves."""
        if changed & set(START) or self._behind:
            self.reset()
        elif changed & {"rtol", "coalesce"} or (changed & set(FLOW) and self.kind == "refused"):
            self._begin(self.live.measure, self.live.t)
        elif changed & set(FLOW):
            self.live.change(self.setting.flow(), widest=self.setting.widest())
            self._check_pace(self.live)
        elif self.kind == "refused":
            return
        if "view" in changed:
            self.scene = scene_of(self.live.measure, self.setting.values["view"])
        self._clear()

    def reset(self) -> None:
        """Begin anew.

        **Raises** `InputError` where what is set cannot be combined; then nothing has changed.
        """
        self._behind = True
        self._begin(self.setting.measure(), 0.0)
        self._behind = False
        self.held, self._first, self._next_look = None, True, -math.inf
        self._seen, self._pictures = {}, {}
        self.scene: Scene = scene_of(self.live.measure, self.setting.values["view"])
        self._clear()

    def _begin(self, mu: AbstractMeasure, t: float) -> None:
        setting = self.setting
        make = Late if setting.values["coalesce"] else Live
        live = make(setting.flow(), mu, t=t, rtol=setting.rtol, widest=setting.widest())
        self._check_pace(live)
        self.live = live

    def _check_pace(self, live: Live | Late) -> None:
        n = getattr(live.measure, "n", 0)
        if live.sums.startswith("dense") and n > MOST_DENSE:
            raise InputError(
                f"Sums over {n} tokens of this flow take every pair, too long for a page: at most {MOST_DENSE} tokens, or softmax "
                "and unnormalized attention on the circle and the sphere, or `tokenfield run`."
            )

    def _clear(self) -> None:
        self.say = self.kind = ""

    def _act(self, act: Any) -> list[Message]:
        match act:
            case "play" | "pause":
                self.play = act == "play"
            case "step":
                self.play = False
                self.step(STEP)
            case "reset":
                self.reset()
            case "toml":
                spec = Spec.from_dict(self.setting.data(end=float(f"{max(self.live.t, 1e-3):.6g}")))
                return [{"toml": spec.to_toml(), "name": "spec.toml"}]
            case "film":
                return [{"film": self.reel.page(self.title, self.shown), "name": "run.html"}]
            case "data":
                return [{"data": self._data(), "name": "state.npz"}]
        return []

    def _data(self) -> str:
        """The present state, all of its arrays and its time, as an .npz in base64."""
        out = io.BytesIO()
        arrays = {name: np.asarray(array) for name, array in self.live.measure.arrays.items()}
        np.savez(out, allow_pickle=False, t=np.asarray(self.live.t), **arrays)
        return base64.b64encode(out.getvalue()).decode()

    def _choose(self, panels: Any) -> None:
        if isinstance(panels, list):
            self.shown = tuple(dict.fromkeys(name for name in panels if isinstance(name, str) and name in PANELS))
            self._next_look = -math.inf

    def _panels(self, panels: Any) -> list[Message]:
        self._choose(panels)
        return [self.state()]

    # Tokens by hand.

    def _drag(self, place: Any) -> None:
        """Take a token by the hand: it stays there until it is let go."""
        found = self._token(place[0] if isinstance(place, list) and place else None)
        x = None if found is None else self._point(place[1:], found)
        if found is not None and x is not None:
            self.held = found, x
            self._hold()

    def _drop(self, token: Any) -> None:
        self.held = None

    def _hold(self) -> None:
        if self.held is not None:
            mu, (i, x) = self.live.measure, self.held
            points = np.array(mu.x)
            points[i] = x
            self.live.change(mu=mu.with_points(points))

    def _add(self, place: Any) -> list[Message]:
        mu, x = self.live.measure, self._point(place)
        if x is None:
            return []
        if mu.n >= MOST:
            raise InputError("The page has as many tokens as it may have. Remove some.")
        return self._retoken(np.vstack([np.asarray(mu.x), x]), lambda part, end: np.append(part, end))

    def _remove(self, token: Any) -> list[Message]:
        mu, i = self.live.measure, self._token(token)
        if i is None:
            return []
        if mu.n == 1:
            raise InputError("The last token stays: there would be nothing to see.")
        return self._retoken(np.delete(np.asarray(mu.x), i, axis=0), lambda part, _: np.delete(part, i))

    def _retoken(self, x: np.ndarray, changed: Callable[[np.ndarray, float], np.ndarray]) -> list[Message]:
        """Go on with other tokens; a new one weighs as much as the others do on average, and stands behind them."""
        mu: Any = self.live.measure
        w = changed(np.asarray(mu.w), float(np.mean(np.asarray(mu.w))))
        s = None if mu.s is None else changed(np.asarray(mu.s), 1.0)
        values = self.setting.values
        before, values["n"] = values["n"], len(x)
        try:
            flow = self.setting.flow() if values["attention"] == "krause" else None
            self.live.change(flow, type(mu)(x, w / w.sum(), s))
        except InputError:
            values["n"] = before
            raise
        self.held, self._next_look = None, -math.inf
        return [self.state()]

    def _token(self, i: Any) -> int | None:
        n = getattr(self.live.measure, "n", 0) if self._has_tokens else 0
        return i if isinstance(i, int) and not isinstance(i, bool) and 0 <= i < n else None

    @property
    def _has_tokens(self) -> bool:
        return hasattr(self.live.measure, "with_points")

    def _point(self, x: Any, token: int | None = None) -> np.ndarray | None:
        fine = isinstance(x, list) and all(real(v) for v in x)
        return self.scene.lifted(self.live.measure, [float(v) for v in x], token) if fine and self._has_tokens else None

    # What moves, and what is seen.

    def turn(self, mail: Sequence[Message], elapsed: float) -> tuple[list[Message], bytes]:
        """One turn: what was told, a step if it plays, and what is seen then. Whatever goes wrong is said, and the session, which
        stands still then, lives on.

        **Arguments**

        - `mail`: messages of the page's, in their order.
        - `elapsed`: seconds of play since the last turn.

        **Returns** the answers, and a frame.
        """
        answers: list[Message] = []
        try:
            for message in mail:
                answers += self.told(message)
            if self.play and self.seq > 0:
                self.step(min(max(elapsed, FASTEST), SLOWEST))
        except Exception as error:
            self.play, self.kind = False, "ended"
            self.say = str(error).split("\n")[0][:300] or type(error).__name__
        return answers, self.frame()

    def step(self, elapsed: float) -> None:
        """Go on by as much as so many seconds of play are, or as far as a frame's time allows."""
        if self.kind == "refused" or self.live.status is not Status.RUNNING:
            return
        began, t, speed = time.perf_counter(), self.live.clock, self.setting.values["speed"]
        log = self.setting.values["clock"] == "log"
        goal = max(t, FIRST) * math.exp(speed * elapsed) if log else t + speed * elapsed
        self._hold()
        self.live.onward(goal, BUDGET)
        self._ms = 1e3 * (time.perf_counter() - began)
        if self.live.status is not Status.RUNNING:
            self.play, self.say, self.kind = False, self.live.message, "ended"

    def frame(self) -> bytes:
        """What is seen now."""
        self.seq += 1
        mu, now = self.live.measure, time.perf_counter()
        due = self._first or now > self._next_look
        if due:
            self.scene.label(mu)
        picture = self.scene.stage(mu)
        arrays = picture.arrays
        if due:
            looked = self.scene.look(mu, self.live.flow, self.shown)
            self._seen, self._pictures = looked.header, looked.arrays
            arrays = arrays | looked.arrays
            self._next_look = now + max(LOOKS, 4 * (time.perf_counter() - now))
        header = {
            "seq": self.seq,
            "t": self.live.t,
            "first": self._first,
            "play": self.play,
            "log": self.setting.values["clock"] == "log",
            "ms": self._ms,
            "drag": False,
            **picture.header,
            **self._seen,
            "info": self._info(),
            "caption": self._caption(),
        }
        self.reel.keep(header, arrays | self._pictures)
        self._first = False
        return pack(header, arrays)

    def _info(self) -> Message:
        live, count = self.live, self.scene.count
        return {
            "time": f"{live.t:.4g}" if self.setting.values["clock"] == "log" else f"{live.t:.2f}",
            **({"clusters": "many" if count is None else str(count)} if self.scene.clustered else {}),
            "solver steps": f"{live.steps}, {live.rejected} taken again",
            "accuracy": f"{live.rtol:.0e} a step",
            **({"sums": live.sums} if live.sums else {}),
            "computing": f"{self._ms:.0f} ms",
        }

    def _caption(self) -> str:
        return f"{self.live.measure} at time {self.live.t:.3g}"


_ANSWERS: dict[str, Callable[[Session, Any], list[Message] | None]] = {
    "set": Session._set,
    "act": Session._act,
    "drag": Session._drag,
    "drop": Session._drop,
    "add": Session._add,
    "remove": Session._remove,
    "panels": Session._panels,
}
"""What a page may say, and who answers."""
