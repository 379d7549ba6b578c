"""A progress bar that appears only when a run takes long and someone is watching."""

import sys
import time

PATIENCE = 1.0
"""Seconds before a bar appears."""


class Progress:
    """`with Progress(show, "evolving") as bar: bar.update(0.5, "t = 3")`. show=None: only on a terminal."""

    def __init__(self, show: bool | None, title: str):
        self.show = sys.stderr.isatty() if show is None else show
        self.title, self.bar, self.task, self.began = title, None, None, time.monotonic()
        self.shown = 0.0

    def __enter__(self) -> "Progress":
        return self

    def update(self, fraction: float, note: str = "") -> None:
        if not self.show or time.monotonic() - self.began < PATIENCE:
            return
        if not sys.stderr.isatty():  # asked for, but nowhere to draw: a line every tenth
            if fraction >= self.shown + 0.1:
                self.shown = fraction
                print(f"{self.title} {fraction:4.0%}  {note}", file=sys.stderr, flush=True)
            return
        if self.bar is None:
            self._open()
        assert self.bar is not None
        assert self.task is not None
        self.bar.update(self.task, completed=min(max(fraction, 0.0), 1.0), note=note)

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
        )
        self.bar = Bar(*columns, console=Console(stderr=True), transient=True)
        self.task = self.bar.add_task(self.title, total=1.0, note="")
        self.bar.start()

    def __exit__(self, *_) -> None:
        if self.bar is not None:
            self.bar.stop()
