"""The README's scripts as a type checker sees them, in its strictest mode: arrays are arrays, and a slip is an error."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ASKED = {
    "run.x": "Array",
    "run.final": "Tokens",
    "run.final.x": "Array",
    "run.states": "Tokens",
    "run.at(1.0)": "Tokens",
    "tkf.observe.clusters(run.final)": "Clusters",
    "tkf.observe.clusters(run)": "list[Clusters]",
    "tkf.observe.energy(run, beta=9.0)": "Array",
    "runs.member(1, 3)": "Trajectory[Tokens]",
    "tkf.evolve(flow, tkf.Equiangular(0.0, 10), 1.0).rho": "Array",
    "tkf.evolve(flow, tkf.CircleDensity.uniform(), 1.0).order": "Array",
}
SLIPS = {
    "run.finl": 'Cannot access attribute "finl"',
    "run.rho": 'Cannot access attribute "rho"',
    "tkf.evolve(flow, mu0, t=20.0, sve=200)": 'No parameter named "sve"',
    'tkf.evolve("sa", mu0, t=20.0)': "cannot be assigned",
}


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    """What pyright says of a user's script: the README's, then questions, then slips; by line."""
    folder = tmp_path_factory.mktemp("user")
    scripts = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    lines = "\n".join(scripts).splitlines()
    questions = [f"reveal_type({expression})" for expression in ASKED]
    (folder / "user.py").write_text("\n".join([*lines, *questions, *SLIPS]), encoding="utf-8")
    settings = {"include": ["user.py"], "typeCheckingMode": "strict", "pythonVersion": "3.11"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    said = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)["generalDiagnostics"]
    found: dict[int, list[dict]] = {}
    for one in said:
        found.setdefault(one["range"]["start"]["line"], []).append(one)
    return len(lines), found, lines


def test_the_readme_types_strictly(findings):
    """Nothing is wrong with it but what JAX leaves unknown about itself."""
    count, found, lines = findings
    wrong = [
        (lines[line], one["message"])
        for line in range(count)
        for one in found.get(line, ())
        if one["severity"] == "error"
    ]
    assert [(line, message) for line, message in wrong if not re.search(r"jax\.|jnp\.", line)] == []


def test_results_have_types(findings):
    count, found, _ = findings
    for line, (expression, kind) in enumerate(ASKED.items(), start=count):
        messages = [one["message"] for one in found[line]]
        assert any(message.endswith(f'is "{kind}"') for message in messages), (expression, messages)


def test_slips_are_errors(findings):
    count, found, _ = findings
    for line, (slip, words) in enumerate(SLIPS.items(), start=count + len(ASKED)):
        assert any(words in one["message"] for one in found.get(line, ())), (slip, found.get(line))
