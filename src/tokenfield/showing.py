"""What `tokenfield show` says of a folder, whatever wrote it."""

from collections.abc import Iterator
from pathlib import Path

from tokenfield.store import places


def shown(folder: Path) -> Iterator[str]:
    """The story of a run, a sweep, a figure or a probe, and then where its picture was drawn.

    **Arguments**

    - `folder`: what `run`, `demo`, `sweep`, `figure` or `probe` wrote, or a saved run.

    **Raises** `InputError` where it is none of these.
    """
    from tokenfield.sweeps import show

    if show.is_sweep(folder):
        from tokenfield.sweeps.folder import Folder

        sweep = Folder.opened(folder)
        yield show.story(sweep)
        yield f"picture: {show.picture(sweep, folder.with_suffix('.png'))}"
        return
    if places.standing(folder.absolute() / "data.zarr"):
        from tokenfield.figures import folders, load

        plate = load(folder)
        yield str(plate)
        yield f"picture: {folders.save(plate, folder) / plate.made_by.name}.png"
        return
    if places.standing(folder.absolute() / "probe.zarr"):
        from tokenfield.transformer.probe import Probe
        from tokenfield.transformer.probe.result import PICTURE

        found = Probe.load(folder)
        yield str(found)
        yield f"picture: {found.plot(folder / PICTURE)}"
        return
    saved = folder if folder.suffix == ".zarr" else folder / "run.zarr"
    from tokenfield.trajectory import Trajectory

    result = Trajectory.load(saved)
    yield str(result)
    yield f"picture: {result.plot(saved.with_suffix('.png'))}"
