"""The times that a run steps towards: saving times, jumps of the field, and times that no step may cross."""

import numpy as np

from attnflow.model.dynamics import AbstractDynamics
from attnflow.solvers.base import AbstractSolver, Target
from attnflow.solvers.layers import Layers


def targets_of(
    flow: AbstractDynamics, solver: AbstractSolver, times: np.ndarray, dtype: str
) -> tuple[Target, np.ndarray]:
    """All targets after ``times[0]``, and the index in `times` at which each is saved.

    The targets are the saving times and the jumps of the field between them; a target that is only a jump is saved
    nowhere (-1). No step crosses a jump, the last time, or a saving time at which the solver does not interpolate.
    """
    # A layer asks for the weights once, at its start, so a jump needs no step of its own.
    jumps = np.empty(0) if isinstance(solver, Layers) else flow.jumps(times[0], times[-1])
    every = np.union1d(times, jumps)[1:]
    saves = np.where(np.isin(every, times), np.searchsorted(times, every), -1)
    barriers = np.union1d(jumps, times if solver.lands_on_times else times[-1:])
    ahead = barriers[np.searchsorted(barriers, every)]
    return Target(every.astype(dtype), ahead.astype(dtype), np.isin(ahead, jumps)), saves


def next_target(flow: AbstractDynamics, solver: AbstractSolver, now: float, time: float) -> Target:
    """The first target between `now` and `time` of a run without a last time, in float64.

    It is `time`, or the first jump of the field if that comes before.
    """
    jump = np.inf if isinstance(solver, Layers) else flow.next_jump(now)
    target = min(time, jump)
    barrier = min(target, jump) if solver.lands_on_times else jump
    return Target(np.asarray(target), np.asarray(barrier), np.asarray(np.isfinite(jump) and barrier == jump))


def steps_for(seconds: float, last_steps: int, last_seconds: float, most: int) -> int:
    """The number of steps for the next compiled call to take about `seconds`, from the duration of the last one.

    The number changes by a factor of four at most, since one call is a noisy measurement.
    """
    factor = np.clip(seconds / max(last_seconds, 1e-9), 0.25, 4)
    return int(np.clip(last_steps * factor, 1, max(1, most)))
