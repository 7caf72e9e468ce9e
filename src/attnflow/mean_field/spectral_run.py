"""Steps in time of a density given by coefficients: exponential Runge-Kutta steps, with more modes where needed."""

import time as clock
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from attnflow._common.progress import Report
from attnflow.mean_field.exponential_steps import compared_steps
from attnflow.mean_field.spectral_equation import AbstractSpectralEquation
from attnflow.solvers.status import Status

RESOLVED = 1e-10  # largest of the last tenth of the coefficients, the mass being 1
ORDER = 4  # of the steps, whose error is proportional to h^5


@dataclass(frozen=True)
class RunLimits:
    """What bounds a run: the times to reach, the tolerance of a step, the number of modes and the deadline."""

    times: np.ndarray
    rtol: float
    max_modes: int
    budget: float | None

    def deadline(self) -> float:
        """The time of the monotonic clock at which a run that begins now ends."""
        return np.inf if self.budget is None else clock.monotonic() + self.budget


@dataclass(frozen=True)
class SavedStates:
    """The states at the saved times and at the end, and how the run ended."""

    saved: Sequence[np.ndarray]
    time: float
    status: Status
    accepted: int
    rejected: int
    last_modes: int


@dataclass(frozen=True)
class SteppedDensity:
    """The state between two steps: coefficients, time, length of the next step, and numbers of steps."""

    coefficients: np.ndarray
    time: float
    length: float
    accepted: int = 0
    rejected: int = 0
    status: Status = Status.RUNNING


def integrated(equation: AbstractSpectralEquation, first: np.ndarray, limits: RunLimits, report: Report) -> SavedStates:
    """The coefficients at the saved times up to the end of the run."""
    times, deadline = limits.times, limits.deadline()
    span = times[-1] - times[0]
    length = min(span, 0.1 / max(equation.largest_speed(first), 1e-300))
    state, kept = SteppedDensity(first, float(times[0]), length), [first]
    try:
        for target in times[1:]:
            while state.status is Status.RUNNING and state.time < target:
                state, equation = _next(equation, state, limits, float(target))
                if clock.monotonic() > deadline:
                    state = replace(state, status=Status.OUT_OF_TIME)
                report((state.time - times[0]) / span, f"t = {state.time:.4g}, {equation.modes} modes")
            if state.status is not Status.RUNNING and state.time < target:
                break
            kept.append(state.coefficients)
    except KeyboardInterrupt:
        state = replace(state, status=Status.INTERRUPTED)
    status = Status.REACHED if len(kept) == len(times) else state.status
    return SavedStates(kept, state.time, status, state.accepted, state.rejected, equation.modes)


def _next(
    equation: AbstractSpectralEquation, state: SteppedDensity, limits: RunLimits, target: float
) -> tuple[SteppedDensity, AbstractSpectralEquation]:
    """The state after one attempted step towards `target`, with more modes where the density needs them."""
    length = min(state.length, target - state.time)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        moved, difference = compared_steps(equation.transport, equation.linear, state.coefficients, length)
    # The first coefficient is the mass. 1e-6: the uniform density itself has no scale.
    scale = limits.rtol * (1e-6 + np.linalg.norm(moved.ravel()[1:]))
    error = float(np.linalg.norm(difference) / scale)
    factor = 0.9 * error ** (-1 / (ORDER + 1)) if error > 0 else 4.0
    if not np.isfinite(error) or error > 1:
        shorter = length * (max(factor, 0.2) if np.isfinite(error) else 0.2)
        is_lost = shorter <= 4 * np.spacing(max(abs(state.time), abs(target)))
        status = Status.STEP_TOO_SMALL if is_lost else Status.RUNNING
        return replace(state, length=shorter, rejected=state.rejected + 1, status=status), equation
    is_narrow = equation.tail(moved) > RESOLVED
    if is_narrow and equation.modes >= limits.max_modes:
        return replace(state, status=Status.UNRESOLVED), equation
    if is_narrow:
        finer = equation.with_modes(min(2 * equation.modes, limits.max_modes))
        return replace(state, coefficients=finer.extended(state.coefficients)), finer
    # A step that was cut short at a saved time says nothing about the next.
    longer = state.length if length < state.length else length * min(factor, 4.0)
    is_there = target - state.time <= length
    time = target if is_there else state.time + length
    return SteppedDensity(moved, time, longer, state.accepted + 1, state.rejected), equation
