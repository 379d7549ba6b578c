"""What `tokenfield sweep` does."""

from collections.abc import Callable, Sequence
from pathlib import Path

from tokenfield.errors import InputError
from tokenfield.spec import Spec
from tokenfield.sweeps import front, ranges
from tokenfield.sweeps.folder import Folder
from tokenfield.sweeps.group import Plan
from tokenfield.sweeps.show import story
from tokenfield.sweeps.study import SpecStudy


def begun(
    spec: Path, overrides: Sequence[str], over: Sequence[str], observe: str, keep: str | None, out: Path
) -> tuple[Folder, Plan]:
    """The sweep of a spec that the words of a command mean, in its folder, which is made or found.

    **Raises** `InputError` where something does not fit; nothing is then overwritten.
    """
    if keep not in (None, "states"):
        raise InputError(f"--keep is 'states' or left out, but is {keep!r}.")
    pairs = [ranges.over(text) for text in over]
    paths = [path for path, _ in pairs]
    if len(set(paths)) < len(paths):
        raise InputError(f"--over has {max(paths, key=paths.count)} twice. Give all of its values at once.")
    names = [name.strip() for name in observe.split(",") if name.strip()]
    study = SpecStudy.of(Spec.load(spec, overrides))
    layout, plan = front.planned(study, dict(pairs), names or None, keep == "states")
    return Folder.begun(out, layout), plan


def swept(
    folder: Folder, plan: Plan, workers: int | None, scheduler: str | None, tell: Callable[[str], None]
) -> tuple[str, bool]:
    """Carry out a sweep, or go on with it.

    **Returns** its story, with what is missing if anything is, and whether it is complete.
    """
    left = front.carry_out(folder, plan, workers, scheduler, None, tell)
    lines = [story(folder), *([left] if left else []), f"`tokenfield show {folder.path}` draws it."]
    return "\n".join(lines), left is None
