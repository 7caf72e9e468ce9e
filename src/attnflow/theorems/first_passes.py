"""The first integration of the runs of an ensemble again, from their saved states, all runs at once.

It is what `recorded_equation` asks of each run alone, by the native library where that serves the flow and the solver.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.progress import Watch
from attnflow.integrate import native_runs
from attnflow.integrate.native_problem import reason_not_native
from attnflow.integrate.request import DEFAULT_MEMORY
from attnflow.model.dynamics import AbstractDynamics
from attnflow.results.provenance import ResultKind, kind_of
from attnflow.results.run_dataset import Request
from attnflow.solvers.adaptive import Adaptive
from attnflow.theorems.interval_integration import attempts_of, coarser, most_attempts, recorded
from attnflow.theorems.recorded_equation import Path, path_of, stride_of
from attnflow.theorems.verdict import Hypothesis


@dataclasses.dataclass(frozen=True)
class _Pass:
    """A run that is to be integrated again: its place in the ensemble, its path, its solver and attempted steps."""

    place: int
    path: Path
    solver: Any
    dtype: str
    attempts: int

    @property
    def key(self) -> tuple:
        """Runs with the same key are integrated together."""
        return self.path.times.tobytes(), stride_of(self.path, self.attempts), self.path.states.shape[1:], self.dtype


def first_passes(flow: AbstractDynamics, runs: Sequence[xr.Dataset]) -> list[np.ndarray | None]:
    """For each run the integrated states at the ends of all intervals, NaN where they were not reached.

    None for runs that are to be integrated alone.
    """
    groups: dict[tuple, list[_Pass]] = {}
    for place, run in enumerate(runs):
        if (one := _pass_of(flow, run, place)) is not None:
            groups.setdefault(one.key, []).append(one)
    found: list[np.ndarray | None] = [None] * len(runs)
    for group in groups.values():
        for one, reached in zip(group, _integrated(flow, group), strict=True):
            found[one.place] = reached
    return found


def _pass_of(flow: AbstractDynamics, run: xr.Dataset, place: int) -> _Pass | None:
    """The run to integrate again; None where it is no run of `simulate` that the native library serves."""
    if kind_of(run) is not ResultKind.TRAJECTORY or flow.noise is not None or flow.dimension != run.sizes["coordinate"]:
        return None
    path = path_of(flow, run)
    if isinstance(path, Hypothesis) or len(path.times) < 2:
        return None
    solver = (coarser(flow, run) or recorded(flow, run)).solver
    if isinstance(solver, Adaptive):
        solver = dataclasses.replace(solver, max_steps=most_attempts(run))
    one = _Pass(place, path, solver, run.attrs["dtype"], attempts_of(run))
    request = _request(flow, one, path.states[:1], path.times[:2])
    return one if reason_not_native(request) is None else None


def _request(flow: AbstractDynamics, one: _Pass, states: np.ndarray, times: np.ndarray) -> Request:
    return Request(
        flow=flow,
        tokens=states,
        times=times,
        solver=one.solver,
        stops=(),
        observables={},
        keep_tokens=True,
        seed=np.random.SeedSequence(0),
        dtype=one.dtype,
        memory=DEFAULT_MEMORY,
    )


def _integrated(flow: AbstractDynamics, group: list[_Pass]) -> np.ndarray:
    """The states (runs, intervals, n, d) that the integration of each run reaches."""
    # Runs of one key share their times; the largest number of steps serves all.
    longest = max(group, key=lambda one: one.attempts)
    times, stride = longest.path.times, stride_of(longest.path, longest.attempts)
    states = np.stack([one.path.states for one in group])
    reached = np.full_like(states[:, 1:], np.nan)
    for begun in range(0, len(times) - 1, stride):
        ends = slice(begun, min(begun + stride, len(times) - 1))
        request = _request(flow, longest, states[:, begun], times[begun : ends.stop + 1])
        results = native_runs.integrate(request, Watch(lambda *_: None, None))
        reached[:, ends] = results.saved["tokens"][:, 1:]
    return reached
