"""`python -m benchmarks [CASE...] [--write] [--small]`: every case beside its peers in one run; prints tables.

Each contender runs in a process of its own, so that none finds caches warm or threads taken by another. Times are
medians of several rounds; a round goes through all contenders before the next begins, so that a slow minute hurts all.
All cases together are written to README.md and images/; single ones only with --write, else their plots go to out/bench.
--small is for trying out: one round, few tokens. `python -m benchmarks costs` checks the cost model that picks a sum.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE, MARKER = Path(__file__).with_name("README.md"), "<!-- results -->"


def main(arguments: list[str]) -> None:
    names = [name for name in arguments if not name.startswith("--")]
    if names == ["costs"]:
        sys.exit(subprocess.run([sys.executable, "-m", "benchmarks.costs"]).returncode)
    small = "--small" in arguments
    write = not small and (not names or "--write" in arguments)
    os.environ["BENCHMARK_SMALL"] = "1" if small else ""
    os.environ["BENCHMARK_IMAGES"] = "" if write else "out/bench"

    from benchmarks import harness, reports  # which read the two settings above

    if unknown := set(names) - set(reports.REPORTS):
        sys.exit(f"Unknown: {', '.join(sorted(unknown))}. Cases: {', '.join(reports.REPORTS)}, costs.")
    header = harness.machine(reports.ROUNDS)
    print(header)
    for name in names or reports.REPORTS:
        section = reports.REPORTS[name](name)
        print(f"\n{section}", flush=True)
        if write:
            _write(header, name, section, list(reports.REPORTS))


def _write(header: str, name: str, section: str, order: list[str]) -> None:
    """The page with this section in its place."""
    text, _, results = PAGE.read_text(encoding="utf-8").partition(MARKER)
    pieces = re.split(r"^<!-- case (\w+) -->\n", results, flags=re.MULTILINE)
    sections = dict(zip(pieces[1::2], pieces[2::2], strict=True)) | {name: section}
    found = "\n\n".join(f"<!-- case {case} -->\n{sections[case].strip()}" for case in order if case in sections)
    PAGE.write_text(f"{text}{MARKER}\n{header}\n\n{found}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
