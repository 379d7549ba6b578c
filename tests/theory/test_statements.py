"""Every statement holds on its small case, and is shown able to fail."""

import re
from pathlib import Path

import pytest

from tokenfield.theory import Outcome, verify
from tokenfield.theory.statements import PAPERS, STATEMENTS

ROOT = Path(__file__).parent.parent.parent
NAMES = list(STATEMENTS)


@pytest.mark.parametrize("name", NAMES)
def test_a_statement_holds_on_its_small_case_and_is_able_to_fail(name):
    """With a hypothesis broken, or with other dynamics, it does not say HOLDS; and at least once it says FAILS."""
    one, verdict = STATEMENTS[name], verify(name)[0]
    assert verdict.outcome is Outcome.HOLDS, str(verdict)
    outcomes = {label: one.check(**inputs).outcome for label, inputs in one.broken()}
    assert Outcome.HOLDS not in outcomes.values(), outcomes
    assert Outcome.FAILS in outcomes.values(), outcomes


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_statement_holds_at_full_size(name):
    verdict = verify(name, small=False)[0]
    assert verdict.outcome is Outcome.HOLDS, str(verdict)


@pytest.mark.parametrize("name", NAMES)
def test_a_statement_says_where_it_stands(name):
    one, keys = STATEMENTS[name], re.findall(r"^@\w+\{(\w+)", (ROOT / "docs" / "references.bib").read_text(), re.M)
    assert one.source in keys and one.number and one.says.endswith(".")
    assert one.kind in ("theorem", "conjecture", "observation", "identity")
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", one.name)


def test_names_are_given_once():
    assert len(STATEMENTS) == sum(len(paper.STATEMENTS) for paper in PAPERS)
    assert all(one.source == paper.__name__.rpartition(".")[2] for paper in PAPERS for one in paper.STATEMENTS)
