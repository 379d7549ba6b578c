"""Statements as text: the list on the terminal, and the page docs/theory.md, which `tokenfield verify --page` writes."""

import re
import textwrap

from tokenfield.theory.base import Statement, Verdict
from tokenfield.theory.report import Report
from tokenfield.theory.statements import STATEMENTS

INTRODUCTION = """\
# The theory, checked

Every statement of the sources that the library can test is a small object: it knows where it stands, under which hypotheses it
applies, what it predicts, and how far a measurement may be from that. This page was written by the command that checked them,

```
{command}
```

Sources are keys of [references.bib](references.bib). "Predicted" and "measured" are those of the quantity that came nearest to
failing; each statement below lists all. A check ends as HOLDS, FAILS, NOT APPLICABLE (a hypothesis is not true of what it was
given) or INCONCLUSIVE (the tolerance is too wide to tell, or the run too short). Tolerances are derived, not chosen, and the
derivation stands beside them. The tests check every statement a second time on inputs for which it must not hold.

A statement checks runs of your own as well, and a conjecture of yours is one more: [conjectures.md](conjectures.md).

```
>>> import tokenfield as tkf
>>> run = tkf.evolve(tkf.sa(2.0), tkf.Tokens.uniform_sphere(n=8, d=16, seed=3), t=25.0, rtol=1e-9)
>>> verdict = tkf.theory.statement("hemisphere-rate").check(run)
>>> verdict.outcome.name, verdict.predicted, round(verdict.measured, 2)
('HOLDS', 1.0, 1.0)

```
"""


def listing() -> str:
    """All statements, one per line: name, source, and what it says."""
    width = max(len(name) for name in STATEMENTS)
    rows = []
    for one in STATEMENTS.values():
        words = textwrap.wrap(f"{one.says} [{one.cited}; {one.kind}]", 118 - width)
        rows += [f"{name:<{width}}  {line}" for name, line in zip([one.name, *[""] * len(words)], words, strict=False)]
    return "\n".join(rows)


def page(report: Report, small: bool, pictures: str | None = None) -> str:
    """The page: what this is, the table of verdicts, and a section for every statement, with its picture where `pictures` is the
    folder that has them, as seen from the page."""
    size, drawn = " --small" if small else "", f" --plots docs/{pictures}" if pictures else ""
    command = f"tokenfield verify{size} --page docs/theory.md{drawn}"
    parts = [
        INTRODUCTION.format(command=command),
        f"## Verdicts\n\n{report.summary}\n",
        report.to_markdown(links=True),
        "",
    ]
    parts += [
        "## What checking has taught\n\nWhere a source is wrong, doubtful or not sharp; the sections have the rest.\n"
    ]
    parts += [f"- [{one.name}](#{one.name}): {_first(one.remark)}" for one in _remarked(report)] + [""]
    return "\n".join(parts + [_section(verdict, pictures) for verdict in report])


def _remarked(report: Report) -> list[Statement]:
    return [verdict.statement for verdict in report if verdict.statement.remark]


def _first(text: str) -> str:
    """The first sentence."""
    return re.split(r"(?<=[a-z0-9)\]])\. (?=[A-Z])", text)[0].rstrip(".") + "."


def _section(verdict: Verdict, pictures: str | None) -> str:
    """One statement: what it says, when, what was found, and what checking it has taught."""
    one = verdict.statement
    given = "".join(f"\n- {'given' if true else '**not given**'}: {sentence}" for sentence, true in verdict.hypotheses)
    found = "".join(f"\n- {finding}" for finding in verdict.findings) or f"\n- {verdict.reason}"
    remark = f"\n\n{one.remark}" if one.remark else ""
    outcome = verdict.outcome.name.replace("_", " ")
    drawn = f"\n\n![{one.says}]({pictures}/{one.name}.png)" if pictures and one.pictured and verdict.findings else ""
    return f"## {one.name}\n\n{one.says} *{one.kind}, {one.cited}.* **{outcome}.**\n{given}{found}{remark}{drawn}\n"
