"""How the house is built: rooms that depend one way, one door upward, short functions, names that answer."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tokenfield as tkf
from tokenfield import _doors

SRC = Path(__file__).parent.parent / "src" / "tokenfield"
DOCS = SRC.parents[1] / "docs"
FILES = sorted(SRC.rglob("*.py"))


def module(path: Path) -> str:
    parts = path.relative_to(SRC.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(name: str) -> str:
    """The room of a module: the first word after the package's."""
    return name.split(".")[1] if "." in name else "tokenfield"


def public_names() -> dict[str, str]:
    """Where the names of the package itself live, which it loads when they are used."""
    stub = ast.parse((SRC / "__init__.pyi").read_text(encoding="utf-8"))
    found = {}
    for node in ast.walk(stub):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found[alias.name] = f"tokenfield.{node.module or alias.name}"
    return found


def imports(path: Path) -> set[str]:
    """All modules of the package that a file imports, inside functions too; not those that only type checkers see. What it asks of
    the package itself, as `tkf.evolve`, it imports from where that lives."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    hidden = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for statement in branch.body
        for node in ast.walk(statement)
    }
    found = set()
    known = public_names()
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "tkf":
            found.add(known.get(node.attr, "tokenfield"))
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module} if node.module != "tokenfield" else {f"tokenfield.{a.name}" for a in node.names}
    return {name for name in found if name.split(".")[0] == "tokenfield"}


def graph() -> dict[str, set[str]]:
    """Which rooms each room imports."""
    found: dict[str, set[str]] = {}
    for path in FILES:
        here = room(module(path))
        found.setdefault(here, set()).update(room(name) for name in imports(path))
    return {here: there - {here} for here, there in found.items()}


def cycles(rooms: dict[str, set[str]]) -> list[list[str]]:
    """Rooms that can reach themselves."""

    def reached(start: str) -> set[str]:
        seen, waiting = set(), list(rooms.get(start, ()))
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += rooms.get(name, ())
        return seen

    return [[name] for name in rooms if name in reached(name)]


def test_no_cycle_of_rooms():
    rooms = graph()
    assert len(rooms) > 20 and "evolution" in rooms["spec"] and "measures" in rooms["attention"]
    assert {"evolution", "observe"} <= rooms["theory"], "statements speak through the public names, which are followed"
    assert cycles(rooms) == []


def test_a_cycle_would_be_found():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a"], ["b"], ["c"]]


def test_there_is_one_door_upward():
    """Only `_doors` (and `__init__`, whose names load when used) import by name; every door leads somewhere."""
    users = {module(path) for path in FILES if "importlib.import_module" in path.read_text(encoding="utf-8")}
    assert users == {"tokenfield._doors"}
    assert all(callable(_doors.door(name)) for name in _doors.ROOMS)


KINDS = "Softmax|Unnormalized|L2|Sinkhorn|Sigmoid|Linear|ReLU|Hardmax|Additive|Causal|Krause|MultiHead|MeanShift"
KINDS += "|PostLN|PreLN|PeriLN|MixLN|NGPT|SqrtScaling|Free|Rescaled|TraceNorm"
KINDS += "|Tokens|Equiangular|Gaussian|CircleDensity|SphereDensity"
KINDS += "|Dense|Circle|Sphere|Euclidean|Sharded|Span|Fourier|Zonal|Spherical|PerLayer|Schedule"
HOMES = {"attention", "normalization", "measures", "summation", "harmonics", "parameters"}


def test_rooms_above_ask_what_a_part_can_do():
    """No `isinstance` on a concrete kind outside the room of that kind, but for theorems and observables, which are about one kind,
    and for the door of `velocity`, which takes tokens alone."""
    asked = []
    for path in FILES:
        here = room(module(path))
        for line in path.read_text(encoding="utf-8").splitlines():
            if here not in HOMES and re.search(rf"isinstance\([^)]*\b({KINDS})\b", line):
                asked.append(f"{module(path)}: {line.strip()}")
    assert {room(line.split(":")[0]) for line in asked} <= {"theory", "observe", "flow"}, asked


def test_a_quarter_of_the_parameters_is_not_any():
    """Parameters are typed: 24% of them were `Any`."""
    total = untyped = 0
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                for argument in node.args.args + node.args.kwonlyargs:
                    total += argument.arg not in ("self", "cls")
                    untyped += argument.annotation is not None and ast.unparse(argument.annotation) == "Any"
    assert untyped / total < 0.2


def test_the_walk_of_a_run_is_as_short_as_the_table_says():
    """From `evolve` to the velocity in at most twenty hops and ten files; docs/architecture.md has the numbers of today."""
    command = [sys.executable, str(DOCS / "walks.py")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"^(\w.*): (\d+ hops, \d+ files)$", printed, re.MULTILINE))
    table = (DOCS / "architecture.md").read_text(encoding="utf-8")
    assert found == dict(re.findall(r"^\| (.*?) \| .*? \| (\d+ hops, \d+ files) \|", table, re.MULTILINE))
    hops, files = map(int, re.findall(r"\d+", found["a run"]))
    assert len(found) == 5 and hops <= 20 and files <= 10


def test_a_near_miss_is_answered():
    with pytest.raises(AttributeError, match="Did you mean 'evolve'"):
        tkf.evolv  # noqa: B018
    assert "evolve" in dir(tkf) and "Tokens" in dir(tkf)


def test_names_load_when_used():
    script = "import sys, tokenfield; assert 'jax' not in sys.modules; tokenfield.Tokens; assert 'jax' in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_what_was_renamed_says_so():
    mu = tkf.Tokens([[1.0, 0.0]])
    with pytest.warns(DeprecationWarning, match="with_points"):
        moved = mu.at(np.array([[0.0, 1.0]]))
    assert moved.x.tolist() == [[0.0, 1.0]]


def kept_in(**environment: str) -> str:
    """Where a process with these settings keeps compiled programs."""
    script = "import tokenfield as t; t.Tokens; import jax; print(jax.config.jax_compilation_cache_dir)"
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in ("TOKENFIELD_CACHE", "JAX_COMPILATION_CACHE_DIR")
    }
    found = subprocess.run(
        [sys.executable, "-c", script], env={**clean, **environment}, capture_output=True, text=True, check=True
    )
    return found.stdout.strip()


def test_where_programs_are_kept(tmp_path):
    """In the user's cache folder, or where TOKENFIELD_CACHE or JAX's own setting says, or nowhere."""
    assert kept_in(XDG_CACHE_HOME=str(tmp_path)) == str(tmp_path / "tokenfield" / "compiled")
    assert kept_in(TOKENFIELD_CACHE=str(tmp_path / "mine")) == str(tmp_path / "mine")
    assert kept_in(TOKENFIELD_CACHE="off") == "None"
    assert kept_in(JAX_COMPILATION_CACHE_DIR=str(tmp_path / "jax")) == str(tmp_path / "jax")
    (tmp_path / "file").write_text("in the way")
    assert kept_in(TOKENFIELD_CACHE=str(tmp_path / "file" / "below")) == "None", (
        "what cannot be written is done without"
    )
