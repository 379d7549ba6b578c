"""`python -m benchmarks`: every case beside its peers in one run; prints tables of medians and ratios.

Each contender runs in a process of its own, so that none finds caches warm or threads taken by another. Times are
medians of several rounds; a round goes through all contenders before the next begins, so that a slow minute hurts all.
"""

import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

ROUNDS = 5
CASES = {
    "velocity": "one SA velocity, n = 1000, d = 3, β = 9, float64",
    "solve": "one SA solve, n = 1000, d = 3, β = 9, t = 10, rtol 1e-6, float64",
    "gaussians": "10,000 Gaussian flows, softmax attention, d = 2, t = 5, rtol 1e-6",
    "fokker_planck": "noisy USA on the circle, 64 Fourier modes, β = 3, κ = 2, t = 20, tolerances for like errors",
}
CONTENDERS = {
    "velocity": ["tokenfield", "numpy", "torch_sdpa"],
    "solve": ["tokenfield", "scipy_rk45", "torchdiffeq"],
    "gaussians": ["tokenfield", "scipy_loop"],
    "fokker_planck": ["tokenfield", "scipy_bdf"],
}


def measure(case: str, contender: str, with_error: bool) -> dict:
    """One round of one contender, in its own process."""
    command = [sys.executable, "-m", "benchmarks.contenders", case, contender]
    environment = {**os.environ, "BENCHMARK_TIMES_ONLY": "" if with_error else "1"}
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    if result.returncode:
        sys.exit(f"{case}/{contender} failed:\n{result.stderr}")
    return json.loads(result.stdout.splitlines()[-1])


def table(case: str) -> str:
    rounds = {name: [] for name in CONTENDERS[case]}
    for k in range(ROUNDS):
        for name in rounds:
            print(f"  {case}: round {k + 1} of {ROUNDS}, {name}", file=sys.stderr)
            rounds[name].append(measure(case, name, with_error=k == 0))
    median = {name: statistics.median(r["seconds"] for r in found) for name, found in rounds.items()}
    ours = median["tokenfield"]
    lines = [f"### {CASES[case]}", "", "| | median, ms | times tokenfield's | error | note |", "|---|---|---|---|---|"]
    for name, found in rounds.items():
        error, note = found[0]["error"], found[0].get("note", "")
        lines.append(f"| {name} | {1e3 * median[name]:.2f} | {median[name] / ours:.2f} | {error:.1e} | {note} |")
    return "\n".join(lines)


def vocabulary() -> str:
    """Every attention and the deep random Transformer, by three libraries."""
    libraries = ("tokenfield", "numpy", "torch")
    rounds = {library: [] for library in libraries}
    for k in range(3):
        for library in libraries:
            print(f"  vocabulary: round {k + 1} of 3, {library}", file=sys.stderr)
            command = [sys.executable, "-m", "benchmarks.vocabulary", library]
            result = subprocess.run(command, capture_output=True, text=True)
            if result.returncode:
                sys.exit(f"vocabulary/{library} failed:\n{result.stderr}")
            rounds[library].append(json.loads(result.stdout.splitlines()[-1]))
    lines = [
        "### one field of every attention, n = 2048, d = 64, float64",
        "",
        "| | tokenfield, ms | numpy / tokenfield | torch / tokenfield |",
        "|---|---|---|---|",
    ]
    deep = []
    for name in rounds["tokenfield"][0]:
        took = {
            library: statistics.median(found[name]["seconds"] for found in rounds[library])
            for library in libraries
            if name in rounds[library][0]
        }
        checks = [rounds[library][0][name]["check"] for library in took]
        assert max(checks) - min(checks) < 1e-6 * max(map(abs, checks)), (name, checks)
        ours = took["tokenfield"]
        ratios = [f"{took[library] / ours:.2f}" if library in took else "" for library in libraries[1:]]
        row = f"| {name} | {1e3 * ours:.1f} | {' | '.join(ratios)} |"
        (deep if name == "layers" else lines).append(row)
    head = [
        "### 100 layers of a random Transformer, d = 512, n = 256, Post-LN, new Q, K, V a layer, float64",
        "",
        lines[2],
        lines[3],
    ]
    return "\n".join(lines) + "\n\n" + "\n".join(head + deep)


def machine() -> str:
    names = ("jax", "diffrax", "numpy", "scipy", "torch", "torchdiffeq")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, {versions}; medians of {ROUNDS} rounds."


def main() -> None:
    cases = sys.argv[1:] or [*CASES, "vocabulary"]
    text = "\n\n".join([machine(), *(vocabulary() if case == "vocabulary" else table(case) for case in cases)])
    print(text)
    page = Path(__file__).with_name("README.md")
    marker = "<!-- results -->"
    if page.exists() and not sys.argv[1:]:
        page.write_text(page.read_text(encoding="utf-8").split(marker)[0] + f"{marker}\n{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
