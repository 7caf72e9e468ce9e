"""Memory: arrays that the machine cannot hold are refused before they are allocated."""

import functools
import math
import os
from pathlib import Path

from attnflow._common.checks import InputError

CONTROL_GROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


def require_memory(needed: int | float, what: str, what_to_do: str = "") -> None:
    """Raise InputError if `what` needs more bytes than the machine has."""
    present = present_bytes()
    if needed > present:
        sentence = f"{what} needs {in_units(needed)} of memory, but the machine has {in_units(present)}."
        raise InputError(f"{sentence} {what_to_do}".strip())


def require_array_memory(*shape: int, what: str, what_to_do: str = "Use smaller numbers.") -> None:
    """Raise InputError if float64 numbers of this shape are more than the machine can hold."""
    require_memory(8 * math.prod(int(size) for size in shape), what, what_to_do)


def present_bytes() -> float:
    """Bytes of memory that a process of this machine or container may use; infinity where it is not known."""
    try:
        machine = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        machine = math.inf
    return min([machine, *(_limit(path) for path in CONTROL_GROUP_LIMITS)])


@functools.cache  # every draw of first tokens asks for it, thousands of times in a sweep
def _limit(path: Path) -> float:
    try:
        return float(path.read_text())
    except (OSError, ValueError):  # no control group, or the word "max"
        return math.inf


def in_units(count: float) -> str:
    """A number of bytes with its unit.

    Examples
    --------
    >>> in_units(80), in_units(2.5e9), in_units(3e30), in_units(10**400)
    ('80 bytes', '2.5 GB', '3e+12 EB', 'more than 1e300 bytes')
    """
    if count > 1e300:  # a whole number that no float holds, perhaps
        return "more than 1e300 bytes"
    unit = min(int(math.log10(max(count, 1)) // 3), len(UNITS) - 1)
    return f"{count / 1000**unit:.3g} {UNITS[unit]}"
