"""The native subcycling of `subcycling.cpp`: a few fast tokens integrated along given paths of all others."""

import ctypes
import enum
import functools
from typing import NamedTuple

import numpy as np

from attnflow.model.native.library import library


class StopRule(enum.IntEnum):
    """The event at which a subcycled integration stops."""

    AT_FIRST_MERGE = 0
    """The integration ends at time 1, or where two fast tokens merge before."""
    WITH_MERGE = 1
    """The integration ends at the merge that is expected at time 1, which rounding may put slightly later."""


class SubcycleProblem(ctypes.Structure):
    """The struct of the same name in `subcycling.cpp`."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("tokens", "coordinates", "fast")),
        *((name, ctypes.c_void_p) for name in ("positions", "velocity", "quadratic", "cubic", "log_masses", "rows")),
        *((name, ctypes.c_double) for name in ("beta", "log_scale", "log_divisor", "cutoff")),
        *((name, ctypes.c_double) for name in ("rtol", "gap_floor", "merge", "first_step")),
        *((name, ctypes.c_int64) for name in ("max_steps", "stop_rule", "outputs")),
        ("times", ctypes.c_void_p),
    )


class SubcycleArrays(NamedTuple):
    """Paths (times, fast, d), last velocities (fast, d), the time of the first merge (2: none) and its rows."""

    paths: np.ndarray
    velocities: np.ndarray
    merge_time: float
    pair: np.ndarray


def integrate(
    positions: np.ndarray,
    coefficients: tuple[np.ndarray, np.ndarray, np.ndarray],
    log_masses: np.ndarray,
    rows: np.ndarray,
    times: np.ndarray,
    numbers: tuple[float, ...],
    max_steps: int,
    stop_rule: StopRule,
) -> SubcycleArrays | None:
    """Integrate the fast tokens `rows` from time 0 to 1; None if that takes more than `max_steps` steps.

    Parameters
    ----------
    positions, coefficients
        Positions (tokens, d) at time 0 and the velocity, quadratic and cubic coefficients of the paths of slow tokens.
    log_masses
        One a token.
    rows
        The fast tokens.
    times
        Increasing output times; the last is 1.
    numbers
        The fields `beta` to `first_step` of `SubcycleProblem`.
    max_steps, stop_rule
        Limits of the integration.
    """
    given = (positions, *coefficients, log_masses, rows)
    arrays = [np.ascontiguousarray(array) for array in given]
    times, rows = np.ascontiguousarray(times), arrays[-1]
    coordinates = positions.shape[1]
    paths, velocities = np.zeros((len(times), len(rows), coordinates)), np.zeros((len(rows), coordinates))
    merge_time, pair = ctypes.c_double(), np.zeros(2, np.int64)
    problem = SubcycleProblem(
        *(*positions.shape, len(rows)),
        *(array.ctypes.data for array in arrays),
        *numbers,
        *(max_steps, stop_rule, len(times), times.ctypes.data),
    )
    results = (paths.ctypes.data, velocities.ctypes.data, ctypes.byref(merge_time), pair.ctypes.data)
    steps = _subcycle()(ctypes.byref(problem), *results)
    return None if steps < 0 else SubcycleArrays(paths, velocities, merge_time.value, pair)


def tableau() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes (7), stages (7, 6) and error weights (7) of the Dormand-Prince method in the C++ code."""
    nodes, stages, error_weights = np.zeros(7), np.zeros((7, 6)), np.zeros(7)
    function = library().dormand_prince_tableau
    function.argtypes, function.restype = [ctypes.c_void_p] * 3, None
    function(*(array.ctypes.data for array in (nodes, stages, error_weights)))
    return nodes, stages, error_weights


def error_over_tolerance(errors: np.ndarray, tolerances: np.ndarray) -> float:
    """The largest of the errors (tokens, d) over the tolerances (tokens), in the norm of the C++ code."""
    function = library().error_over_tolerance
    function.argtypes, function.restype = [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 2, ctypes.c_double
    arrays = [np.ascontiguousarray(array, dtype=float) for array in (errors, tolerances)]
    return float(function(*(array.ctypes.data for array in arrays), *errors.shape))


@functools.cache
def _subcycle():
    function = library().subcycle
    function.argtypes = [ctypes.c_void_p] * 5
    function.restype = ctypes.c_int64
    return function
