"""Whole runs by the native library: the structs of `runs.h`, and the call that takes runs from target to target."""

import ctypes
import enum
import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnflow.model.native.library import library


class NativeSpace(enum.IntEnum):
    """The space of a flow, with the numbers of `Space` in `runs.h`."""

    EUCLIDEAN = 0
    SPHERE = 1
    RESCALED = 2


class NativeMethod(enum.IntEnum):
    """The method of a solver, with the numbers of `Method` in `runs.h`."""

    TSIT5 = 0
    EULER = 1
    HEUN = 2
    RUNGE_KUTTA_4 = 3


class NativeSlowness(enum.IntEnum):
    """The slowness of a normalisation, with the numbers of `Slowness` in `runs.h`."""

    NONE = 0
    SQUARE_ROOT_OF_TIME = 1
    OUTPUT_LENGTH = 2


class NativeStop(enum.IntEnum):
    """The kind of a stopping condition, with the numbers of `StopKind` in `runs.h`."""

    CLUSTERED = 0
    SETTLED = 1
    DIVERGED = 2


class RunsHead(ctypes.Structure):
    """The struct of the same name in `runs.h`."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("coordinates", "channels")),
        *((name, ctypes.c_void_p) for name in ("query", "key", "value", "output")),
        *((name, ctypes.c_double) for name in ("query_scale", "output_scale")),
        ("is_symmetric", ctypes.c_int64),
    )


class RunsStop(ctypes.Structure):
    """The struct of the same name in `runs.h`."""

    _fields_ = (("kind", ctypes.c_int64), ("count", ctypes.c_int64), ("threshold", ctypes.c_double))


class RunsProblem(ctypes.Structure):
    """The struct of the same name in `runs.h`."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("bytes_per_number", "tokens", "dimension", "space", "slowness")),
        *((name, ctypes.c_int64) for name in ("is_normalised", "is_frame_of_head", "before", "after", "heads")),
        *((name, ctypes.c_int64) for name in ("stops", "targets", "method", "step_limit")),
        *((name, ctypes.c_double) for name in ("log_factor", "total_mass", "slowness_scale", "rtol", "atol")),
        *((name, ctypes.c_double) for name in ("min_step", "step", "tie_tolerance")),
        ("head", ctypes.POINTER(RunsHead)),
        ("stop", ctypes.POINTER(RunsStop)),
        *((name, ctypes.c_void_p) for name in ("log_masses", "is_frozen", "rescaling", "target_times")),
    )


class RunsOutput(ctypes.Structure):
    """The struct of the same name in `runs.h`."""

    _fields_ = (("tokens", ctypes.c_void_p), ("run_stride", ctypes.c_int64), ("first", ctypes.c_int64))


CURSOR = np.dtype(  # the struct RunsCursor of `runs.h`
    [(name, np.float64) for name in ("time", "next_time", "step_start", "drift")]
    + [(name, np.int64) for name in ("status", "accepted", "rejected", "position")]
    + [(name, np.int64) for name in ("has_tokens", "is_started", "has_last_stage")]
)


@dataclass(frozen=True)
class RunsInProgress:
    """What the library keeps of some runs between calls; it changes the entries of all arrays in place."""

    cursors: np.ndarray
    """Time, status and counts of every run, of type `CURSOR`, shape (runs,)."""
    memory: np.ndarray
    """The working memory of every run, bytes of shape (runs, `memory_bytes`)."""
    tokens: np.ndarray
    """The present tokens, shape (runs, n, d); before the first call the first ones."""

    @classmethod
    def begun(cls, problem: RunsProblem, time: float, tokens: np.ndarray) -> "RunsInProgress":
        """Runs from `tokens`, which are not copied, before their first step."""
        cursors = np.zeros(len(tokens), CURSOR)
        cursors["time"] = time
        return cls(cursors, np.empty((len(tokens), memory_bytes(problem)), np.uint8), tokens)


class Arrays:
    """Arrays that C++ reads, converted to one precision and kept alive as long as this object."""

    def __init__(self, dtype: str):
        self.dtype = np.dtype(dtype)
        self._kept: list[Any] = []

    def address(self, values: Any, dtype: Any = None) -> int | None:
        """The address of the values as a contiguous array, or None for None."""
        if values is None:
            return None
        self._kept.append(np.ascontiguousarray(values, self.dtype if dtype is None else dtype))
        return self._kept[-1].ctypes.data

    def structs(self, kind: Any, entries: list[Any]) -> Any:
        """A C array of structs, which is kept alive, too."""
        self._kept.append((kind * max(1, len(entries)))(*entries))
        return self._kept[-1]


def memory_bytes(problem: RunsProblem) -> int:
    """Bytes that one run keeps between calls."""
    return int(_functions()[0](ctypes.byref(problem)))


def advance(
    problem: RunsProblem, runs: RunsInProgress, saved: np.ndarray | None, first: int, last: int, seconds: float
) -> int:
    """Take runs to the target `last` (not included) for about `seconds`; the number of runs that are not there yet.

    Parameters
    ----------
    problem
        The flow, the solver, the stopping conditions and the targets, which are the same for all runs.
    runs
        The runs, which are changed.
    saved
        Tokens at targets, shape (runs, targets, n, d), with target `first` at the first place, or None to save nothing.
    first, last
        The target that belongs to the first place of `saved`, and the target at which to stop.
    seconds
        Duration after which no further step begins.
    """
    output = RunsOutput(None, 0, 0)
    if saved is not None:
        output = RunsOutput(saved.ctypes.data, saved.strides[0] // saved.itemsize, first)
    arrays = (runs.cursors, runs.memory, runs.tokens)
    for array in arrays:
        assert array.flags.c_contiguous  # only addresses are passed on
    addresses = [array.ctypes.data for array in arrays]
    take = _functions()[1]
    return int(take(ctypes.byref(problem), len(runs.cursors), *addresses, ctypes.byref(output), last, float(seconds)))


@functools.cache
def _functions() -> tuple[Any, Any]:
    memory, step = library().runs_memory, library().runs_advance
    memory.argtypes, memory.restype = [ctypes.c_void_p], ctypes.c_int64
    step.argtypes = [ctypes.c_void_p, ctypes.c_int64, *[ctypes.c_void_p] * 4, ctypes.c_int64, ctypes.c_double]
    step.restype = ctypes.c_int64
    return memory, step
