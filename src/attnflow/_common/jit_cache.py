"""Compiled programs take memory maps, and Linux ends a process that has too many: old ones are dropped in time.

One shape of tokens takes about 200 maps of the usual 65,530, so that a loop over some 300 numbers
of tokens would otherwise abort. What is dropped and needed again is compiled again.
"""

import itertools
from pathlib import Path

import jax

MAPS, LIMIT = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")
CALLS_BETWEEN_LOOKS = 16  # a look takes milliseconds when there are many maps
_calls = itertools.count()


def drop_old_programs() -> None:
    """Drop compiled programs when half of the memory maps are in use; most calls return without a look."""
    if next(_calls) % CALLS_BETWEEN_LOOKS == 0 and share_taken() > 0.5:
        jax.clear_caches()


def share_taken() -> float:
    """Share of the allowed memory maps that this process uses; zero where the system does not report it."""
    try:
        with MAPS.open("rb") as maps:
            return sum(1 for _ in maps) / int(LIMIT.read_text())
    except (OSError, ValueError):
        return 0.0
