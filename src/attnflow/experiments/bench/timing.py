"""Interleaved timings of several ways to do the same work, and the machine on which they are made."""

import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attnflow._common import extras

PAUSE = 0.05  # seconds before a timing, until the threads of the way before it, which wait actively, have gone to sleep
BUSY_LOAD_PER_CORE = 0.3  # load average before the first timing, above which other programs slow the timings down


@dataclass(frozen=True)
class Contender:
    """One way to do the work of a row: `compute` does `units` of it and returns numbers to compare."""

    name: str
    compute: Callable[[], np.ndarray]
    units: float = 1.0
    has_same_numbers: bool = True


@dataclass(frozen=True)
class Row:
    """The work of one row of the table; the first contender is attnflow."""

    name: str
    title: str
    unit: str
    contenders: tuple[Contender, ...]


@dataclass(frozen=True)
class Timing:
    """Seconds of a contender for each unit of work, one number per repeat, and its difference from attnflow."""

    name: str
    seconds: np.ndarray
    processor_seconds: np.ndarray
    """Seconds of all cores together, which other programs on the machine change less."""
    difference: float | None
    """The largest difference from attnflow; None where the contender computes something else."""


def timings(row: Row, repeats: int) -> list[Timing]:
    """Time the contenders in turn, again and again, so that a change of the machine's load meets all of them.

    A first call of each compiles and is not timed; its numbers are compared with those of attnflow, over the leading
    axis as far as both have computed it.
    """
    first = [np.asarray(one.compute()) for one in row.contenders]
    seconds = np.array([[_seconds(one) for one in row.contenders] for _ in range(repeats)])
    return [
        Timing(
            one.name,
            *seconds[:, k].T,
            difference=_largest_difference(first[k], first[0]) if one.has_same_numbers else None,
        )
        for k, one in enumerate(row.contenders)
    ]


def ratios(timing: Timing, to: Timing) -> tuple[np.ndarray, np.ndarray]:
    """Seconds, and processor seconds, over those of another contender in the same repeat."""
    return timing.seconds / to.seconds, timing.processor_seconds / to.processor_seconds


def _seconds(contender: Contender) -> tuple[float, float]:
    time.sleep(PAUSE)
    began, processor_began = time.perf_counter(), time.process_time()
    contender.compute()
    ended, processor_ended = time.perf_counter(), time.process_time()
    return (ended - began) / contender.units, max(processor_ended - processor_began, 1e-9) / contender.units


def _largest_difference(numbers: np.ndarray, others: np.ndarray) -> float:
    count = min(len(numbers), len(others))
    return float(np.max(np.abs(numbers[:count] - others[:count])))


def machine() -> dict[str, Any]:
    """The processor, its cores, the load of the last minute, and the versions and extras that timings depend on."""
    import diffrax
    import jax
    import scipy

    from attnflow.model.native import library

    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None  # Windows has none
    return {
        "processor": _processor(),
        "cores": os.cpu_count() or 1,
        "load": load,
        "is_busy": load is not None and load > BUSY_LOAD_PER_CORE * (os.cpu_count() or 1),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "diffrax": diffrax.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "native kernel": library.reason_unused() or "in use",
        "extra fast": "installed" if extras.is_installed("fast") else "not installed: large-run sums over all pairs",
    }


def _processor() -> str:
    """The processor's name as Linux gives it, else as Python does."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text(encoding="utf-8").splitlines() if facts.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
