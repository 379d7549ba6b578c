"""The doors of the laboratory: `play`, `run.view()`, `run.film()`, and what `tokenfield play` does."""

import asyncio
import contextlib
import os
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenfield import _checks as check
from tokenfield import _interrupt
from tokenfield._front import front_door
from tokenfield._types import no_type_check
from tokenfield.errors import InputError
from tokenfield.flow import Flow, no_measure
from tokenfield.lab import setting as settings
from tokenfield.lab.film import film
from tokenfield.lab.presets import NAMES
from tokenfield.lab.session import Session
from tokenfield.lab.setting import Setting
from tokenfield.measures import AbstractMeasure
from tokenfield.spec import Spec
from tokenfield.trajectory import Trajectory

if TYPE_CHECKING:
    from tokenfield.lab.widget import View


@front_door
@no_type_check
def play(flow: Flow, mu0: AbstractMeasure, *, height: int = 600) -> "View":
    """A flow that moves before your eyes, in a notebook: turn β, drag tokens, choose what is plotted.

    In a script, `tkf.play(flow, mu0).serve()` opens the same on a page; so does `tokenfield play` on the command line.

    **Arguments**

    - `flow`, `mu0`: what moves, from where, as `evolve` takes them.
    - `height`: how high the view is, in pixels.

    **Returns** a widget; the last line of a cell shows it.

    **Raises** `InputError` where flow and measure cannot go together, or the `play` extra is not installed.

    >>> import tokenfield as tkf
    >>> view = tkf.play(tkf.sa(beta=9.0), tkf.Tokens.uniform_sphere(n=64, d=3, seed=0))
    >>> view.hello["p"]["beta"]
    9.0
    """
    if not isinstance(flow, Flow):
        raise InputError(f"play(flow, mu0) needs a Flow first, e.g. tkf.sa(beta=9.0), but got {type(flow).__name__}.")
    if not isinstance(mu0, AbstractMeasure):
        raise no_measure(mu0)
    from tokenfield.lab.widget import View

    session = Session(settings.of(flow, mu0, NAMES))
    if session.say:
        raise InputError(session.say)
    return View(session, height=_height(height))


def view(run: Trajectory, height: int = 600) -> "View":
    """A run in a notebook; it plays without a kernel, too.

    **Arguments**

    - `run`: the run, or a batch of them.
    - `height`: how high the view is, in pixels.

    **Returns** a widget.

    **Raises** `InputError` where the run has no states, or the `play` extra is not installed.
    """
    from tokenfield.lab.widget import View

    return View(run=run, height=_height(height))


def filmed(run: Trajectory, path: str | os.PathLike[str]) -> Path:
    """Write a run as a film: one HTML file that plays offline."""
    return film(run, path)


def _height(height: Any) -> int:
    return min(check.whole("height", height, 100, "how high the view is, in pixels"), 10_000)


# The command.


def command(
    spec: Path | None,
    overrides: list[str],
    port: int,
    browser: bool,
    out: Path | None,
    network: tuple[str | None, bool],
) -> None:
    """What `tokenfield play` does: serve the page until Ctrl-C.

    **Arguments**

    - `spec`: the experiment that tabs begin with; None for the usual one. `overrides` change it.
    - `port`, `browser`: the port, 0 for any that is free, and whether to open a browser.
    - `out`: a folder for downloads, which are kept there as well; None to write nothing.
    - `network`: the host to listen on, if that is not this machine alone, and whether that was said to be meant.

    **Raises** `InputError` where something cannot be used.
    """
    setting = None if spec is None else given(Spec.load(spec, overrides))
    if spec is None and overrides:
        raise InputError("--set changes fields of a spec: tokenfield play SPEC --set flow.attention.beta=4.")
    if out is not None:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"The folder {out} cannot be made: {error.strerror}. Choose another --out.") from None
    heard = _interrupt.command()
    heard.patient = True
    opened(setting, port=port, browser=browser, out=out, network=network, asked=lambda: heard.asked is not None)


def given(spec: Spec) -> Setting:
    """The setting of a spec of the user's own, which may name files."""
    spec._refuse_large()
    flow, measure = spec.flow(), spec.measure()
    spec._check(flow, measure)
    return settings.of(flow, measure, NAMES)


def opened(
    setting: Setting | None,
    *,
    port: int = 0,
    browser: bool = True,
    out: Path | None = None,
    network: tuple[str | None, bool] = (None, False),
    asked: Callable[[], bool] = lambda: False,
) -> None:
    """Serve sessions until somebody asks for the end."""
    from tokenfield.lab import server

    host, token = server.open_to_all(network[1], network[0])
    if setting is not None and (words := Session(setting).say):
        raise InputError(words)
    here = server.Server(lambda link: Session(setting, link), host=host, port=port, token=token, out=out)

    def ready(address: str) -> None:
        server.tell(address)
        if browser:
            webbrowser.open(address)

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(server.until(here, ready, asked))
