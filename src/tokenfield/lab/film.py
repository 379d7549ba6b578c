"""Films: a run as one HTML file that plays offline, with the front end, a player and the frames inside."""

import base64
import gzip
import math
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tokenfield._files import whole
from tokenfield.errors import InputError, StoreError
from tokenfield.lab import pages
from tokenfield.lab.scenes import PANELS, scene_of
from tokenfield.lab.wire import pack
from tokenfield.trajectory import Trajectory

MOST_FRAMES = 400
MOST_MEMBERS = 16
MOST_NUMBERS = 2_000_000
"""Coordinates of all frames together that a film holds; of more, there are fewer frames."""
LEVELS = 32767
"""Coordinates are kept as so many steps on either side of 0: 3e-5 of the picture each."""

Frame = tuple[dict[str, Any], dict[str, np.ndarray]]


class Reel:
    """Frames as they come: all until there are many, then every other one, and so on."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.every, self.count = 1, 0

    def keep(self, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Take a frame; a first one begins a new film, one that stands still is not taken twice."""
        if header["first"]:
            self.frames, self.every, self.count = [], 1, 0
        if self.frames and self.frames[-1][0]["t"] == header["t"]:
            return
        if self.count % self.every == 0:
            self.frames.append((header, arrays))
        self.count += 1
        size = arrays["x"].size
        if len(self.frames) > min(MOST_FRAMES, max(2, MOST_NUMBERS // max(size, 1))):
            self.frames, self.every = self.frames[::2], 2 * self.every

    def page(self, title: str, shown: Sequence[str]) -> str:
        """The film so far, as HTML."""
        return page(title, self.frames, hello(title, self.frames, shown))


def film(run: Trajectory, path: str | os.PathLike[str]) -> Path:
    """Write a run as a film.

    **Arguments**

    - `run`: a run, or a batch of them, which become small multiples.
    - `path`: the file, which ends in .html.

    **Returns** the path that was written.

    **Raises** `InputError` where the ending is another, or the run has no states; `StoreError` where it cannot be written.
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"A film is a page: give it the ending .html, not {path.name!r}. `run.animate` writes movies.")
    frames, about = filmed(run)
    try:
        with whole(path) as part:
            part.write_text(page(about["title"], frames, about), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"The film {path} cannot be written: {error.strerror or error}.") from None
    return path


def filmed(run: Trajectory) -> tuple[list[Frame], dict[str, Any]]:
    """The frames of a run, and what the page is told about them."""
    if run.observed is not None:
        raise InputError("This run kept observables instead of its states: there is nothing to film but its last one.")
    if run.batch:
        return _members(run)
    frames = list(_frames(run, title := _title(run)))
    return frames, hello(title, frames, tuple(scene_of(run.final).panels[:4]))


def _title(run: Trajectory) -> str:
    flow = "given states" if run.own_flow is None else str(run.own_flow).removeprefix("Flow: ")
    return f"{run.final}: {flow}"


def _frames(run: Trajectory, title: str) -> Iterator[Frame]:
    """Saved states as frames: all, or as many as a film holds."""
    times, scene = np.asarray(run.times), scene_of(run.final)
    log = len(times) > 3 and float(times[-1] - times[-2]) > 20 * float(times[1] - times[0])
    size = sum(array.size for array in run.final.arrays.values())
    most = min(MOST_FRAMES, max(2, MOST_NUMBERS // max(size, 1)))
    for k, i in enumerate(np.unique(np.linspace(0, len(times) - 1, most).round().astype(int))):
        mu, t = run[int(i)], float(times[i])
        scene.label(mu)
        picture, looked = scene.stage(mu), scene.look(mu, run.own_flow, scene.panels)
        header = {"t": t, "first": k == 0, "log": log, **picture.header, **looked.header, "drag": False}
        header |= {"info": {"time": f"{t:.4g}"}, "caption": f"{title}, at time {t:.3g}"}
        yield header, picture.arrays | looked.arrays


def _members(runs: Trajectory) -> tuple[list[Frame], dict[str, Any]]:
    """Small multiples: the members of a batch side by side, as many as can be seen."""
    every = list(np.ndindex(*runs.batch))
    chosen = [every[i] for i in np.unique(np.linspace(0, len(every) - 1, min(len(every), MOST_MEMBERS)).astype(int))]
    films = [list(_frames(runs.member(*index), "")) for index in chosen]
    count = min(len(frames) for frames in films)
    frames = [_beside([frames[k] for frames in films]) for k in range(count)]
    title = f"{len(every)} runs" + (f", {len(chosen)} of them shown" if len(chosen) < len(every) else "")
    shown = tuple(name for name in scene_of(runs.member(*chosen[0]).final).panels if PANELS[name]["kind"] == "line")
    about = hello(title, frames, shown)
    about["members"] = [{"title": f"run {', '.join(map(str, index))}"} for index in chosen]
    return frames, about


def _beside(frames: list[Frame]) -> Frame:
    """Frames of several members at one time as one: points one after the other, and a line each in the panels."""
    headers, arrays = [header for header, _ in frames], [part for _, part in frames]
    lines = {
        name: [_first(header.get(name)) for header in headers]
        for name, panel in PANELS.items()
        if panel["kind"] == "line" and any(name in header for header in headers)
    }
    joined = {name: np.concatenate([part[name] for part in arrays]) for name in ("x", "label")}
    split = [len(part["x"]) for part in arrays]
    reach = max(header["reach"] for header in headers)
    return headers[0] | lines | {"split": split, "reach": reach, "unit": min(h["unit"] for h in headers)}, joined


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else value


def hello(title: str, frames: Sequence[Frame], shown: Sequence[str]) -> dict[str, Any]:
    """What the page is told of a film: a slider over its frames, and the panels that they have."""
    times = [header["t"] for header, _ in frames]
    known = {name for header, arrays in frames for name, value in {**header, **arrays}.items() if value is not None}
    panels = [{"id": name, **panel} for name, panel in PANELS.items() if name in known]
    last = max(1, len(frames) - 1)
    slider = {
        "id": "frame",
        "label": "time",
        "group": "time",
        "min": 0,
        "max": last,
        "step": 1,
        "whole": True,
        "value": 0,
    }
    return {
        "title": title,
        "controls": [{**slider, "texts": [f"{t:.4g}" for t in times]}],
        "panels": panels,
        "p": {"frame": 0},
        "shown": [name for name in shown if name in known],
        "record": False,
        "film": {"frames": len(frames), "times": times},
    }


def page(title: str, frames: Sequence[Frame], about: Mapping[str, Any]) -> str:
    """The whole film as HTML."""
    if not frames:
        raise InputError("There is nothing to film yet: play first.")
    data = base64.b64encode(rolled(frames)).decode()
    start = (
        f"player(document.querySelector('main'), {pages.quoted(about)}, document.getElementById('film').textContent);"
    )
    return pages.alone(title, "player.js", start, f'<main></main><script type="text/plain" id="film">{data}</script>')


def rolled(frames: Sequence[Frame]) -> bytes:
    """Frames as the player reads them, zipped: coordinates as whole numbers, and as differences to the frame before."""
    reach = max((float(np.abs(arrays["x"]).max(initial=0.0)) for _, arrays in frames), default=1.0)
    reach = reach if math.isfinite(reach) and reach > 0 else 1.0
    parts, before = [], None
    for seq, (header, arrays) in enumerate(frames):
        q = np.round(np.nan_to_num(arrays["x"], posinf=reach, neginf=-reach) / reach * LEVELS).astype(np.int16).T
        q = np.ascontiguousarray(q).view(np.uint16)
        x, delta = (q, False) if before is None or before.shape != q.shape else (q - before, True)
        before = q
        told = {**header, "seq": seq, "range": reach, "delta": delta, "play": True}
        frame = pack(told, {**arrays, "x": x})
        parts.append(struct.pack("<I", len(frame)) + frame)
    return gzip.compress(b"".join(parts), 6, mtime=0)
