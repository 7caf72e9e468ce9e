"""`evolve`: the law of tokens on the circle over time. The method is described in the docstring of the package."""

import time as clock
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import (
    InputError,
    require_count,
    require_positive_number,
    require_resolvable,
    require_times,
)
from attnflow._common.progress import Progress, Report, reporting
from attnflow.mean_field import fourier
from attnflow.mean_field.circle_field import CircleField, circle_field, modes_for, require_circle
from attnflow.mean_field.density_dataset import DensityRequest, SavedStates, dataset
from attnflow.mean_field.exponential_steps import compared_steps
from attnflow.model.dynamics import AbstractDynamics
from attnflow.solvers.status import Status

RESOLVED = 1e-10  # largest |c_k| of the last tenth of the modes, against c_0 = 1
LEAST_MODES = 32
ORDER = 4  # of the steps, whose error is proportional to h^5


def evolve(
    flow: AbstractDynamics,
    start: Callable[[np.ndarray], Any] | Any,
    times: Any,
    *,
    rtol: float = 1e-8,
    modes: int | None = None,
    max_modes: int = 2048,
    budget: float | None = None,
    progress: Progress = None,
) -> xr.Dataset:
    """Integrate the law of infinitely many tokens on the circle: the continuity or Fokker-Planck equation.

    Parameters
    ----------
    flow
        `SphereAttention` with d = 2, softmax or unnormalised attention, a full mask and constant heads with any Q, K
        and V; with `Noise` the density diffuses.
    start
        The first density: a function of the angle (`mean_field.uniform`, `mean_field.von_mises`, your own), or its
        values at equally spaced angles from 0 on. It is divided by its integral.
    times
        Times at which the density is saved, increasing; the first is that of `start`.
    rtol
        Tolerance of a step, relative to the distance of the coefficients from those of the uniform density.
    modes
        Number of Fourier modes at the start. None: as many as beta and `start` need.
    max_modes
        Number of modes up to which it is doubled as the density grows narrow.
    budget
        Seconds after which the run ends with what it has.
    progress
        A callback with the share of time done and a sentence; None for a bar on terminals.

    Returns
    -------
    xarray.Dataset
        `density` over time and angle, the real and imaginary parts `cosine` and `sine` of c_k over time and mode,
        `order` |c_1|, `energy` (if Q^T K = I), `entropy`, `free_energy` (if it decreases by theory), `least_density`
        and `resolution`, the largest of the last coefficients, which is the error of truncation.

    Examples
    --------
    >>> import attnflow as af
    >>> flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta=4.0), noise=af.Noise(kappa=20.0))
    >>> law = af.mean_field.evolve(flow, af.mean_field.uniform(mode=3, amplitude=0.1), [0.0, 5.0])
    >>> bool(law.order[-1] < 1e-12), round(float(np.hypot(law.cosine, law.sine)[-1, 3]), 3)
    (True, 0.144)
    """
    sphere, grid_times = require_circle(flow), require_times(times)
    require_resolvable(rtol, "float64")
    if budget is not None:
        require_positive_number(budget, "budget")
    least, first_modes = _first_modes(modes_for(sphere), modes, max_modes)
    coefficients = _first_coefficients(start, first_modes, max_modes, is_fixed=modes is not None)
    request = DensityRequest(sphere, grid_times, rtol, max(least, len(coefficients) - 1), max_modes)
    with reporting(progress) as report:
        saved = _integrated(request, coefficients, budget, report)
    return dataset(request, saved)


def _first_modes(needed: int, modes: int | None, max_modes: int) -> tuple[int, int]:
    """The number of modes that beta needs, and the number to begin with."""
    require_count(max_modes, "max_modes")
    if modes is not None:
        require_count(modes, "modes")
    largest = max_modes if modes is None else min(modes, max_modes)
    if largest < needed:
        name = "max_modes" if modes is None or max_modes < modes else "modes"
        raise InputError(f"`{name}` must be at least {needed}, which this beta needs, but it is {largest}.")
    return needed, modes if modes is not None else min(max(LEAST_MODES, needed), max_modes)


def _first_coefficients(start: Any, modes: int, max_modes: int, *, is_fixed: bool) -> np.ndarray:
    """The coefficients of the first density, with as many modes as it takes to resolve it."""
    while True:
        density = fourier.start_values(start, modes)
        found = fourier.coefficients_of(density, min(modes, (len(density) - 1) // 2))
        found = fourier.with_modes(found, modes)
        if fourier.tail(found) <= RESOLVED or is_fixed:
            return found
        if modes == max_modes:
            raise InputError(
                f"`start` is not resolved by {max_modes} modes: its last coefficients are {fourier.tail(found):.2g} "
                f"and must be at most {RESOLVED:g}. Use a smooth density or a larger `max_modes`."
            )
        modes = min(2 * modes, max_modes)


@dataclass(frozen=True)
class SteppedDensity:
    """The state between two steps: coefficients, time, length of the next step, and numbers of steps."""

    coefficients: np.ndarray
    time: float
    length: float
    accepted: int = 0
    rejected: int = 0
    status: Status = Status.RUNNING


def _integrated(request: DensityRequest, first: np.ndarray, budget: float | None, report: Report) -> SavedStates:
    """The coefficients at the saved times up to the end of the run."""
    times, deadline = request.times, None if budget is None else clock.monotonic() + budget
    span = times[-1] - times[0]
    state, field = SteppedDensity(first, float(times[0]), span), circle_field(request.flow, len(first) - 1)
    state = replace(state, length=min(span, 0.1 / max(np.abs(field.velocity(first)).max(), 1e-300)))
    kept = [first]
    try:
        for target in times[1:]:
            while state.status is Status.RUNNING and state.time < target:
                state, field = _next(request, state, field, float(target))
                if deadline is not None and clock.monotonic() > deadline:
                    state = replace(state, status=Status.OUT_OF_TIME)
                report((state.time - times[0]) / span, f"t = {state.time:.4g}, {field.modes} modes")
            if state.status is not Status.RUNNING and state.time < target:
                break
            kept.append(state.coefficients)
    except KeyboardInterrupt:
        state = replace(state, status=Status.INTERRUPTED)
    if len(kept) == len(times):
        state = replace(state, status=Status.REACHED)
    return SavedStates(kept, state.coefficients, state.time, state.status, state.accepted, state.rejected)


def _next(
    request: DensityRequest, state: SteppedDensity, field: CircleField, target: float
) -> tuple[SteppedDensity, CircleField]:
    """The state after one attempted step towards `target`, with more modes where the density needs them."""
    length = min(state.length, target - state.time)
    linear, rate = _equation(request, field)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        moved, difference = compared_steps(rate, linear, state.coefficients, length)
    scale = request.rtol * (1e-6 + np.linalg.norm(moved[1:]))  # 1e-6: the uniform density itself has no scale
    error = float(np.linalg.norm(difference) / scale)
    factor = 0.9 * error ** (-1 / (ORDER + 1)) if error > 0 else 4.0
    if not np.isfinite(error) or error > 1:
        shorter = length * (max(factor, 0.2) if np.isfinite(error) else 0.2)
        is_lost = shorter <= 4 * np.spacing(max(abs(state.time), abs(target)))
        status = Status.STEP_TOO_SMALL if is_lost else Status.RUNNING
        return replace(state, length=shorter, rejected=state.rejected + 1, status=status), field
    is_narrow = fourier.tail(moved) > RESOLVED
    if is_narrow and field.modes >= request.max_modes:
        return replace(state, status=Status.UNRESOLVED), field
    if is_narrow:
        more = min(2 * field.modes, request.max_modes)
        return replace(state, coefficients=fourier.with_modes(state.coefficients, more)), circle_field(
            request.flow, more
        )
    # A step that was cut short at a saved time says nothing about the next.
    longer = state.length if length < state.length else length * min(factor, 4.0)
    is_there = target - state.time <= length
    time = target if is_there else state.time + length
    return SteppedDensity(moved, time, longer, state.accepted + 1, state.rejected), field


def _equation(request: DensityRequest, field: CircleField) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """The diagonal -k^2 / kappa of diffusion, and the function c -> -i k (rho v)^_k of transport."""
    numbers = np.arange(field.modes + 1)
    points = fourier.POINTS_PER_MODE * field.modes

    def transport(coefficients: np.ndarray) -> np.ndarray:
        flux = fourier.values(coefficients, points) * field.velocity(coefficients)
        return -1j * numbers * fourier.coefficients_of(flux, field.modes)

    return -(numbers.astype(float) ** 2) * request.diffusion, transport
