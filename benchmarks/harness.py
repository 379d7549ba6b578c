"""Contenders in processes of their own, rounds that alternate, medians; and what a report is made of."""

import contextlib
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

SMALL = bool(os.environ.get("BENCHMARK_SMALL"))
"""One round and few tokens, to see that everything runs (`python -m benchmarks --small`); its numbers mean little."""
MAY_BE_MISSING = ("keops", "ducc0", "viser")
"""Contenders that need a compiler or a package that not every machine has: a table says so and goes on."""


class Found(NamedTuple):
    """What one contender found in one setting."""

    seconds: float
    error: float | None
    note: str
    check: float | None
    """A number that all contenders must share, where there is no error."""


def warm(call: Callable[[], Any], least: int = 3, budget: float = 0.5) -> float:
    """The median seconds of a warm call; slow ones are repeated less. Quick ones first run for a while unclocked: threads that
    start on one core take some calls to part."""
    seconds = [_clocked(call)]
    if seconds[0] < 0.2:
        began = time.perf_counter()
        while time.perf_counter() - began < 0.3:
            call()
        seconds = []
    while len(seconds) < least or (len(seconds) < 200 and sum(seconds) < budget):
        seconds.append(_clocked(call))
        if sum(seconds) > 10:
            break
    return statistics.median(seconds)


def _clocked(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def in_process(module: str, *arguments: str, first: bool = True) -> dict:
    """What `python -m benchmarks.<module>` prints last, as JSON. Only the `first` round looks at errors."""
    environment = {**os.environ, "BENCHMARK_TIMES_ONLY": "" if first else "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # nobody's sources are compiled anew at every start
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    if result.returncode == 0:
        return json.loads(result.stdout.splitlines()[-1])
    if any(name in arguments for name in MAY_BE_MISSING):
        reason = (result.stderr.strip().splitlines() or ["no message"])[-1]
        print(f"  {' '.join(command[2:])} failed: {reason}", file=sys.stderr)
        return {"failed": reason}
    sys.exit(f"{' '.join(command[2:])} failed:\n{result.stderr}")


def alternate(module: str, case: str, contenders: Iterable[str], rounds: int) -> dict[str, dict[str, Found]]:
    """All contenders of a case, round after round: for each, its settings with medians over rounds."""
    found: dict[str, list[dict]] = {name: [] for name in contenders}
    rounds = 1 if SMALL else rounds
    for k in range(rounds):
        for name, results in found.items():
            if results and "failed" in results[0]:
                continue
            print(f"  {case}: round {k + 1} of {rounds}, {name}", file=sys.stderr, flush=True)
            results.append(in_process(module, case, name, first=k == 0))
    return {name: _medians(results) for name, results in found.items()}


def _medians(results: list[dict]) -> dict[str, Found]:
    if "failed" in results[0]:
        return {}
    return {
        key: Found(
            statistics.median(r[key]["seconds"] for r in results),
            one.get("error"),
            one.get("note", ""),
            one.get("check"),
        )
        for key, one in results[0].items()
    }


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """Processes that are started here have one core, and know it from their start: so have their threads."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def times_only() -> bool:
    return bool(os.environ.get("BENCHMARK_TIMES_ONLY"))


def furthest(value: np.ndarray, wanted: np.ndarray) -> float:
    """The error of the worst row."""
    return float(np.max(np.linalg.norm(np.asarray(value) - wanted, axis=-1)))


def slope(n: list[int], seconds: list[float]) -> float:
    """The fitted exponent p of seconds ~ n^p; nan from fewer than two points."""
    return float(np.polyfit(np.log(n), np.log(seconds), 1)[0]) if len(n) > 1 else float("nan")


def markdown(title: str, head: list[str], rows: Iterable[Iterable[Any]]) -> str:
    lines = [f"### {title}", ""] if title else []
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


class Demand(NamedTuple):
    """What the project asks of itself: every value at least (or at most) a bound. No value: not measured in this run."""

    what: str
    bound: float
    values: list[float]
    least: bool = True

    def row(self) -> list[str]:
        sign = "≥" if self.least else "≤"
        if not self.values:
            return [self.what, f"{sign} {self.bound:g}", "", "not measured"]
        worst = min(self.values) if self.least else max(self.values)
        kept = worst >= self.bound if self.least else worst <= self.bound
        return [self.what, f"{sign} {self.bound:g}", f"{worst:.3g}", "kept" if kept else "**missed**"]


def demanded(demands: list[Demand]) -> str:
    return markdown("", ["demand", "bound", "worst found", ""], [demand.row() for demand in demands])


def machine(rounds: int) -> str:
    names = ("jax", "jax-finufft", "diffrax", "numpy", "scipy", "torch", "torchdiffeq", "pykeops", "ducc0")
    versions = ", ".join(f"{name} {_version(name)}" for name in names)
    return (
        f"{os.cpu_count()} cores, Python {platform.python_version()}, {versions}; medians of {rounds} rounds, "
        "3 for the slower cases. Only warm calls are timed, but for the case `cold`: compiling is part of no other time."
    )


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"
