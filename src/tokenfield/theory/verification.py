"""`verify`: check statements of the literature, one or all of them, each on its own case."""

import dataclasses
import inspect
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tokenfield import _interrupt
from tokenfield._front import front_door
from tokenfield._types import no_type_check
from tokenfield.errors import InputError, short, suggest
from tokenfield.progress import Progress
from tokenfield.theory.base import Outcome, Statement, Verdict
from tokenfield.theory.report import Report
from tokenfield.theory.statements import STATEMENTS


@front_door
@no_type_check
def statement(name: str) -> Statement:
    """The statement of this name, to be checked on a run of your own.

    **Arguments**

    - `name`: its name; `tokenfield verify --list` has all of them.

    **Returns** the statement.

    **Raises** `InputError` where there is none of this name, with the nearest.

    >>> import tokenfield as tkf
    >>> run = tkf.evolve(tkf.sa(1.0), tkf.Tokens.uniform_sphere(n=4, d=8, seed=1), t=25.0, rtol=1e-9)
    >>> statement("hemisphere-rate").check(run).outcome.name
    'HOLDS'
    """
    if not isinstance(name, str) or name not in STATEMENTS:
        raise InputError(f"There is no statement {short(name)}. {suggest(name, STATEMENTS)}")
    return STATEMENTS[name]


@front_door
@no_type_check
def verify(
    which: str | Statement | Sequence[str | Statement] = "all",
    *,
    small: bool = True,
    progress: bool | None = None,
    plots: str | os.PathLike[str] | None = None,
    watch: Callable[[Verdict], None] | None = None,
) -> Report:
    """Check statements, each on its own case.

    **Arguments**

    - `which`: the name of a statement, a statement of your own, a list of these, or "all".
    - `small`: whether cases are small ones, a few seconds each; else they have their full size.
    - `progress`: a bar on the terminal; None shows one if anyone is watching.
    - `plots`: a folder for pictures of those statements that are better seen.
    - `watch`: called with every verdict as soon as it is there.

    **Returns** a `Report`: `print` it for a table. Interrupted (Ctrl-C), it has what was checked so far.

    **Raises** `InputError` where a name is unknown, with the nearest.

    >>> report = verify("kuramoto")
    >>> report[0].outcome.name, len(report.failed)
    ('HOLDS', 0)
    """
    _refuse_no_watcher(watch)
    chosen = list(_chosen(which))
    verdicts: list[Verdict] = []
    with Progress(progress, "checking") as bar:
        for k, one in enumerate(chosen):
            bar.update(k / len(chosen), one.name)
            verdict = _verdict(one, small, plots)
            if _interrupt.command().asked is not None:
                break
            verdicts.append(verdict)
            if watch is not None:
                watch(verdict)
    return Report(verdicts)


def _refuse_no_watcher(watch: Any) -> None:
    """Refuse what cannot be called with a verdict, where that is known beforehand."""
    if watch is not None and not (callable(watch) and _takes_one(watch)):
        raise InputError(f"Argument `watch` must be a function of a verdict, but is {short(watch)}.")


def _takes_one(function: Callable[..., Any]) -> bool:
    """Whether a function can be called with one argument, as far as it says."""
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def _chosen(which: Any) -> Iterator[Statement]:
    """The statements that are meant, by name or themselves."""
    if isinstance(which, str) and which == "all":
        yield from STATEMENTS.values()
    elif isinstance(which, Statement):
        yield which
    elif isinstance(which, Sequence) and not isinstance(which, str):
        for one in which:
            yield from _chosen(one)
    elif isinstance(which, str):
        yield statement(which)
    else:
        raise InputError(
            f"Argument `which` must be the name of a statement, a Statement, a list of these, or 'all', but is {short(which)}."
        )


def _verdict(one: Statement, small: bool, plots: str | os.PathLike[str] | None) -> Verdict:
    """The statement on its own case, drawn if there is a folder for pictures; the time is that of all."""
    began = time.perf_counter()
    try:
        cases = list(one.cases(small))
        verdict = _together(one, [one.check(**inputs) for inputs in cases])
        if plots is not None and one.pictured:
            _draw(one, cases, Path(plots))
    except InputError as error:  # what a case could not compute is no verdict on the statement
        verdict = Verdict(one, Outcome.INCONCLUSIVE, reason=str(error))
    return dataclasses.replace(verdict, seconds=time.perf_counter() - began)


def _together(one: Statement, verdicts: list[Verdict]) -> Verdict:
    """The verdict of several cases: one to which the statement does not apply, or what all findings come to."""
    for verdict in verdicts:
        if verdict.outcome is Outcome.NOT_APPLICABLE:
            return verdict
    hypotheses = dict.fromkeys(pair for verdict in verdicts for pair in verdict.hypotheses)
    return Verdict.of(one, hypotheses, [finding for verdict in verdicts for finding in verdict.findings], 0.0)


def _draw(one: Statement, cases: list[dict[str, Any]], folder: Path) -> None:
    """The picture of a statement, all cases on one pair of axes, into the folder."""
    from tokenfield.draw.page import bare, blank, written

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"The folder {folder} cannot be made: {error.strerror}. Choose another for pictures."
        ) from None
    figure = blank((5.6, 3.8))
    axes = figure.subplots()
    for inputs in cases:
        one.plot(axes, **inputs)
    axes.set_title(f"{one.name}  [{one.cited}]", fontsize=9)
    bare(axes)
    handles, labels = axes.get_legend_handles_labels()
    once = dict(
        zip(reversed(labels), reversed(handles), strict=True)
    )  # cases that are alike say so once, as the first does
    if axes.get_legend() is not None:
        axes.legend(list(once.values())[::-1], list(once)[::-1], fontsize=7)
    written(figure, folder / f"{one.name}.png")
