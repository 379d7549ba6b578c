"""What a probe found: data, a story, a picture, a page, a folder."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenfield._files import whole
from tokenfield._front import front_door
from tokenfield.errors import StoreError
from tokenfield.store import tables
from tokenfield.transformer.outputs import drawn, prepare

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray

DATA, PAGE, PICTURE, PRINT = "probe.zarr", "probe.html", "probe.png", "probe.pdf"
FILES = (DATA, PAGE, PICTURE, PRINT)
"""What the folder of a probe holds."""


@dataclasses.dataclass(frozen=True, eq=False)
class Probe:
    """What `probe` found; it prints as a story.

    - `data`: an xarray data set. Along `variant` are "text", "shuffled" and "untrained"; along `sinks` "with" and "without";
      `layer` counts states from 0, the embedding, and `block` blocks. Of states: cosine, histogram, rank, clusters, radius,
      energy. Of heads: entropy, entropy_share (over log n), beta, beta_concentrated, alignment, first, most. Further:
      sink_tokens, step, theory, lipschitz, exponent, exponent_error, repeated_clusters, repeated_cosine.
    - `about`: what is known beside the numbers: the model, the beginnings of texts, settings, seconds.
    """

    data: "xarray.Dataset"
    about: dict[str, Any]

    def __str__(self) -> str:
        from tokenfield.transformer.probe.story import story

        return story(self)

    def __repr__(self) -> str:
        return f"Probe of {self.about['probe']}: {self.data.sizes['text']} texts, {self.data.sizes['block']} blocks"

    @property
    def html(self) -> str:
        """The report: one page that needs nothing but itself."""
        from tokenfield.transformer.probe.page import page

        return page(self)

    @front_door
    def plot(self, path: str | Path | None = None) -> "matplotlib.figure.Figure | Path":
        """The picture: as a matplotlib figure, or written to a file.

        **Arguments**

        - `path`: such as probe.png or probe.pdf.

        **Returns** the figure, or where a path is given the path.

        **Raises** `StoreError` where it cannot be written.
        """
        from tokenfield.transformer.probe.draw import picture

        figure = picture(self)
        return figure if path is None else drawn(figure, Path(path))

    @front_door
    def save(self, folder: str | Path, *, force: bool = False) -> Path:
        """Write data (probe.zarr), the report (probe.html) and the picture (probe.png, probe.pdf) to a folder.

        **Arguments**

        - `folder`: the folder, which is made.
        - `force`: whether a probe that is there is replaced.

        **Returns** the folder.

        **Raises** `InputError` where the folder holds something else, or a probe that is not to be replaced.
        """
        out = Path(folder)
        prepare(out, force, FILES, "probe")
        tables.save(self.data, out / DATA, self.about)
        for name in (PICTURE, PRINT):
            self.plot(out / name)
        try:
            with whole(out / PAGE) as part:
                part.write_text(self.html, encoding="utf-8")
        except OSError as error:
            raise StoreError(f"The report could not be written to {out / PAGE}: {error.strerror or error}.") from None
        return out

    @staticmethod
    @front_door
    def load(folder: str | Path) -> "Probe":
        """A probe from its folder.

        **Arguments**

        - `folder`: where `save` wrote it.

        **Returns** the probe.

        **Raises** `StoreError` where there is none.
        """
        data, about = tables.load(Path(folder) / DATA)
        if not isinstance(about.get("probe"), str) or "cosine" not in data or "texts" not in about:
            raise StoreError(f"{folder} holds data, but not those of a probe.")
        return Probe(data, about)
