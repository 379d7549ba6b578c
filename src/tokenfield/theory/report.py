"""Verdicts as a table: on the terminal, in Markdown, as JSON."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

from tokenfield.theory.base import Outcome, Verdict

HEAD = ("statement", "source", "predicted", "measured", "verdict", "seconds")
WIDTHS = (26, 32, 22, 12, 14, 7)


class Report(Sequence[Verdict]):
    """Verdicts, in the order in which they came; `print(report)` is a table.

    - `report[i]`, `report["name"]`: one verdict; `report.failed`: those that say FAILS.
    - `report.to_json()`, `report.to_markdown()`: all of them.
    """

    def __init__(self, verdicts: Iterable[Verdict] = ()):
        self.verdicts = tuple(verdicts)

    def __len__(self) -> int:
        return len(self.verdicts)

    @overload
    def __getitem__(self, index: int | str) -> Verdict: ...
    @overload
    def __getitem__(self, index: slice) -> "Report": ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            return next(verdict for verdict in self if verdict.statement.name == index)
        return Report(self.verdicts[index]) if isinstance(index, slice) else self.verdicts[index]

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    @property
    def failed(self) -> "Report":
        """Those that say FAILS."""
        return Report(verdict for verdict in self if verdict.outcome is Outcome.FAILS)

    @property
    def summary(self) -> str:
        """How many came to what, in a line."""
        counts = {outcome: sum(verdict.outcome is outcome for verdict in self) for outcome in Outcome}
        told = ", ".join(f"{count} {outcome.value}" for outcome, count in counts.items() if count)
        return f"{len(self)} checked in {sum(verdict.seconds for verdict in self):.0f} s: {told or 'nothing'}."

    def __str__(self) -> str:
        return "\n".join([head(), *(row(verdict) for verdict in self), self.summary])

    __repr__ = __str__

    def to_json(self) -> str:
        """All verdicts, with hypotheses, findings and derivations, as JSON."""
        return json.dumps([verdict.as_dict() for verdict in self], indent=1, ensure_ascii=False)

    def to_markdown(self, links: bool = False) -> str:
        """The table, in Markdown; with `links` names lead to sections of the same name."""
        named = lambda name: f"[{name}](#{name})" if links else name
        rows = [HEAD, ["---"] * len(HEAD), *((named(name), *rest) for name, *rest in map(cells, self))]
        return "\n".join("| " + " | ".join(str(cell).replace("|", r"\|") for cell in cells) + " |" for cells in rows)


def head() -> str:
    """The head of the table on the terminal."""
    return f"{line(HEAD)}\n{line('─' * width for width in WIDTHS)}"


def cells(verdict: Verdict) -> tuple[str, ...]:
    """What stands in one row of the table."""
    worst = verdict.worst
    predicted, measured = ("", "") if worst is None else (worst.expected, f"{worst.measured:.6g}")
    statement = verdict.statement
    return (
        statement.name,
        statement.cited,
        predicted,
        measured,
        verdict.outcome.name.replace("_", " "),
        f"{verdict.seconds:.1f}",
    )


def row(verdict: Verdict) -> str:
    """One row of the table on the terminal."""
    return line(cells(verdict))


def line(parts: Iterable[str]) -> str:
    """Cells side by side; what does not fit is cut."""
    fitted = lambda part, width: part if len(part) <= width else f"{part[: width - 1]}…"
    return "  ".join(f"{fitted(part, width):<{width}}" for part, width in zip(parts, WIDTHS, strict=True)).rstrip()
