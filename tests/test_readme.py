"""The README's scripts run as they stand, and every key that a docstring cites is in the bibliography."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)


def test_the_scripts_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for script in SCRIPTS:
        exec(script, names)
    told = capsys.readouterr().out
    assert "Trajectory of n = 1000" in told and "5 clusters" in told
    assert {p.name for p in tmp_path.iterdir()} == {"run.png", "run.zarr"}


def test_the_first_script_is_short():
    assert len(SCRIPTS[0].splitlines()) <= 15


@pytest.mark.parametrize("path", sorted((ROOT / "src").rglob("*.py")), ids=lambda p: p.name)
def test_citations_are_in_the_bibliography(path):
    keys = set(re.findall(r"@\w+\{(\w+),", (ROOT / "docs" / "references.bib").read_text(encoding="utf-8")))
    for key in re.findall(r"\[([a-z]+\d{4})[,\]]", path.read_text(encoding="utf-8")):
        assert key in keys
