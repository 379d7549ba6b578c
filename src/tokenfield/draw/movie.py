"""A movie of a run: mp4 where ffmpeg is found, a gif otherwise."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tokenfield import _checks as check
from tokenfield._files import whole
from tokenfield._interrupt import pause
from tokenfield.draw.page import BLUE, RED, bare
from tokenfield.draw.panel import scene_of
from tokenfield.draw.view import INK, PAPER, Painter, course, thinned, time_axis
from tokenfield.errors import InputError, StoreError
from tokenfield.measures import Tokens
from tokenfield.progress import Progress
from tokenfield.trajectory import Trajectory

FPS = 25
TURN = 0.6
"""By how much a scene in space turns in the course of a movie."""


def animation(run: Trajectory, path: str | os.PathLike, *, seconds: Any = 8.0, progress: bool | None = None) -> Path:
    """Animate a run into `path` (.mp4 or .gif). Without ffmpeg an .mp4 becomes a .gif; the path written is returned."""
    path = Path(path)
    seconds = check.number("seconds", seconds, positive=True)
    if path.suffix not in (".mp4", ".gif"):
        raise InputError(f"A movie's name must end in .mp4 or .gif, but is {path.name!r}.")
    count = max(1, int(min(FPS * seconds, 2 * len(run))))  # more would be the same states again
    frames = np.unique(np.linspace(0, len(run) - 1, count).round().astype(int))
    figure, show = _scene(run)
    turned = lambda k: show(int(frames[k]), k / max(1, len(frames) - 1))
    return film(figure, turned, len(frames), path, fps=max(2, round(len(frames) / seconds)), progress=progress)


def film(
    figure: Any, show: Callable[[int], Any], count: int, path: Path, *, fps: int = FPS, progress: bool | None = False
) -> Path:
    """A movie of any figure of matplotlib's.

    **Arguments**

    - `figure`: the figure.
    - `show`: changes it to what is seen in frame k, k = 0, 1, ...
    - `count`: how many frames.
    - `path`: where to (.mp4 or .gif). Without ffmpeg an .mp4 becomes a .gif.
    - `fps`: frames a second.
    - `progress`: a bar on the terminal, as `evolve` has it.

    **Returns** the path that was written.

    **Raises** `StoreError` where it cannot be written.
    """
    writer, path = _writer(path, fps)
    try:
        with whole(path) as part, writer.saving(figure, str(part), dpi=110), Progress(progress, "drawing") as bar:
            for k in range(count):
                pause()
                show(k)
                writer.grab_frame(facecolor=PAPER)
                bar.update((k + 1) / count, f"frame {k + 1} of {count}")
    except (OSError, subprocess.CalledProcessError) as error:
        raise StoreError(f"The movie could not be written to {path}: {error}.") from error
    return path


def _writer(path: Path, fps: int) -> tuple[Any, Path]:
    import matplotlib as mpl
    from matplotlib.animation import FFMpegWriter, PillowWriter

    found = ffmpeg()
    if path.suffix == ".gif" or found is None:
        return PillowWriter(fps=fps), path.with_suffix(".gif")
    mpl.rcParams["animation.ffmpeg_path"] = found
    return FFMpegWriter(fps=fps, codec="libx264", extra_args=["-pix_fmt", "yuv420p", "-crf", "20"]), path


def ending() -> str:
    """How the name of a movie ends on this machine: .mp4 where ffmpeg is found, else .gif."""
    return ".gif" if ffmpeg() is None else ".mp4"


def ffmpeg() -> str | None:
    """The ffmpeg of the machine, else the one of the `video` extra, else None."""
    if found := shutil.which("ffmpeg"):
        return found
    try:
        import imageio_ffmpeg

        return imageio_ffmpeg.get_ffmpeg_exe()
    except (ImportError, RuntimeError):
        return None


def _scene(run: Trajectory) -> tuple[Any, Any]:
    """The figure, and a function that shows saved state i at a share of the movie."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 7.2), facecolor=PAPER)
    ax = figure.add_axes((0.04, 0.17, 0.92, 0.77))
    draw, curve = scene_of(run.states, run, ax, TURN)
    title = figure.text(0.5, 0.955, "", ha="center", fontsize=13, color=INK)
    mark = _strip(run, figure, curve)

    def show(i: int, share: float) -> None:
        draw(i, TURN * share)
        t = float(run.times[i])
        title.set_text(f"t = {t:.3f}" if t < 1e5 else f"t = {t:.3g}")
        mark(i)

    return figure, show


@scene_of.register
def _tokens(states: Tokens, run: Trajectory, ax: Any, turn: float) -> tuple[Any, Any]:
    """A function that draws the tokens at saved state i in a scene that has turned, and the curve of the strip."""
    painter = Painter(thinned(run), size=900)
    behind = painter.view.backdrop(ax)
    dots = ax.scatter([], [], linewidths=0, zorder=2)

    def draw(i: int, turn: float) -> None:
        nonlocal behind
        turn = turn if painter.view.name == "space" else 0.0
        if painter.globe:
            for artist in behind:
                artist.remove()
            behind = painter.view.backdrop(ax, turn)
        cloud = painter.cloud(i, turn)
        dots.set_offsets(cloud.places)
        dots.set_sizes(cloud.areas)
        dots.set_facecolor(cloud.paint.tolist())

    return draw, course(run)


def _strip(run: Trajectory, figure: Any, curve: tuple[str, np.ndarray] | None) -> Any:
    """How far the run has come against time, with a mark that moves."""
    if curve is None:
        return lambda i: None
    ax = figure.add_axes((0.13, 0.085, 0.8, 0.075))
    times, (name, values) = np.asarray(run.times), curve
    ax.plot(times, values, color=BLUE, lw=1.4)
    (dot,) = ax.plot([times[0]], [values[0]], "o", color=RED, ms=6)
    time_axis(ax, times)
    ax.set_xlabel("t", fontsize=9, labelpad=1)
    ax.set_ylabel(name.replace(" ", "\n", 1), fontsize=8)
    ax.tick_params(labelsize=8)
    bare(ax)
    return lambda i: dot.set_data([times[i]], [values[i]])
