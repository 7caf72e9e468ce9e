"""Compiled programs are dropped before they take too much memory, or more memory maps than Linux allows.

A new number of tokens takes about 17 MB and 200 of the usual 65,530 memory maps. Two thirds of the memory are in JAX's
caches of traced functions, which cannot be emptied for one program: all programs are dropped together. What is needed
again is compiled again, which takes a few seconds once in about thirty numbers of tokens.
"""

import contextlib
import ctypes
import gc
import itertools
import logging
import os
from pathlib import Path

import jax

log = logging.getLogger(__name__)
MAPS, LIMIT, PAGES = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count"), Path("/proc/self/statm")
CALLS_BETWEEN_LOOKS = 16  # a look at the maps takes milliseconds when there are many
CEILING = 512e6  # bytes by which the process may grow: thirty numbers of tokens, a small share of present machines
_calls = itertools.count()
_least_bytes = float("inf")  # memory of the process after programs were last dropped, or less


def drop_old_programs() -> None:
    """Drop compiled programs when the process has grown by `CEILING`, or half of the memory maps are in use.

    Arrays of the caller count too, since the system does not tell them apart: 512 MB of results also drop programs.
    """
    global _least_bytes
    present = resident_bytes()
    _least_bytes = min(_least_bytes, present)
    has_many_maps = next(_calls) % CALLS_BETWEEN_LOOKS == 0 and share_taken() > 0.5
    if has_many_maps or present > _least_bytes + CEILING:
        log.info("compiled programs dropped: the process holds %.0f MB", present / 1e6)
        jax.clear_caches()
        gc.collect()
        _return_free_memory()
        _least_bytes = resident_bytes()


def resident_bytes() -> int:
    """Memory of this process; zero where the system does not report it."""
    try:
        return int(PAGES.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0


def _return_free_memory() -> None:
    """Return freed memory to the system, which the C library of Linux otherwise keeps."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # other systems
        ctypes.CDLL(None).malloc_trim(0)


def share_taken() -> float:
    """Share of the allowed memory maps that this process uses; zero where the system does not report it."""
    try:
        with MAPS.open("rb") as maps:
            return sum(1 for _ in maps) / int(LIMIT.read_text())
    except (OSError, ValueError):
        return 0.0
