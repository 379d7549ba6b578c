"""Room for compiled programs.

A program takes some hundreds of memory maps, and a process on Linux may have some 65,000; beyond that, XLA crashes while
compiling. A session that comes near, after some hundred runs of different shapes, forgets its programs and goes on.
"""

import gc
from pathlib import Path

MAPS, LIMIT = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")
EVERY = 8
"""How many calls between two looks, which take some milliseconds."""

_calls = 0


def make_room() -> None:
    """Forget compiled programs where memory maps run short."""
    global _calls
    _calls += 1
    if _calls % EVERY == 0 and _crowded():
        import jax

        jax.clear_caches()
        gc.collect()


def _crowded() -> bool:
    try:
        with MAPS.open("rb") as maps:
            return sum(1 for _ in maps) > 0.6 * int(LIMIT.read_text())
    except (OSError, ValueError):  # not Linux
        return False
