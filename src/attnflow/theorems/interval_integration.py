"""Integration of a run again from one of its saved states, with the recorded solver or a coarser one."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from attnflow._common.precision import cast
from attnflow.integrate.compiled_loop import TargetWindow, Task, advance, begin
from attnflow.integrate.plan import precision, targets_per_call
from attnflow.integrate.targets import targets_of
from attnflow.model.dynamics import AbstractDynamics, State
from attnflow.results.provenance import solver_of
from attnflow.solvers.adaptive import Adaptive
from attnflow.solvers.base import Target
from attnflow.solvers.token_by_token import TokenByToken

COARSE_TOLERANCE = 1e-5  # of a step; an integration takes a quarter of the steps that it takes at 1e-8


class Reached(NamedTuple):
    """The states (times, n, d) at the times after the first, NaN where they were not reached, and attempted steps."""

    states: np.ndarray
    attempts: int


@dataclasses.dataclass(frozen=True)
class IntervalIntegrator:
    """A way to integrate a run again, and the error of its steps."""

    integrate: Callable[[np.ndarray, np.ndarray], Reached]
    """The integration from a state at the first of some times to the others."""
    rtol: float
    atol: float
    solver: Any

    def error(self, size: float) -> float:
        """The error of a step for tokens of a size."""
        return self.rtol * size + self.atol


def recorded(flow: AbstractDynamics, run: xr.Dataset) -> IntervalIntegrator:
    """The integration with the recorded solver."""
    return _integrator(flow, run, solver_of(run))


def coarser(flow: AbstractDynamics, run: xr.Dataset) -> IntervalIntegrator | None:
    """The integration to a coarse tolerance; None where the recorded solver has no tolerance or is as coarse."""
    solver = solver_of(run)
    if isinstance(solver, Adaptive) and float(solver.rtol) < COARSE_TOLERANCE:
        atol = max(float(solver.atol), COARSE_TOLERANCE / 100)
        return _integrator(flow, run, dataclasses.replace(solver, rtol=COARSE_TOLERANCE, atol=atol))
    if isinstance(solver, TokenByToken) and solver.tolerance < COARSE_TOLERANCE:
        return _integrator(flow, run, TokenByToken(COARSE_TOLERANCE))
    return None


def attempts_of(run: xr.Dataset) -> int:
    """The attempted steps of a run."""
    return int(run.steps) + int(run.rejected_steps)


def most_attempts(run: xr.Dataset) -> int:
    """The step limit of a repeated part of a run, which needs more only if its tokens are not those of the run."""
    return 2 * attempts_of(run) + 1000


def _integrator(flow: AbstractDynamics, run: xr.Dataset, solver: Any) -> IntervalIntegrator:
    if isinstance(solver, TokenByToken):
        return IntervalIntegrator(_streamed(flow, solver), solver.rtol, solver.atol, solver)
    integrate = _simulated(flow, run, solver)
    if isinstance(solver, Adaptive):
        # A step of the least length may cross a jump of the field; tokens move on times of order one.
        return IntervalIntegrator(integrate, float(solver.rtol) + float(solver.min_step), float(solver.atol), solver)
    # Steps of fixed length and layers are repeated up to rounding.
    return IntervalIntegrator(integrate, 100 * float(np.finfo(run.attrs["dtype"]).eps), 0.0, solver)


def _simulated(flow: AbstractDynamics, run: xr.Dataset, solver: Any) -> Callable[[np.ndarray, np.ndarray], Reached]:
    """The loop of `simulate`, with arrays of the sizes of the run: what was compiled for the run serves again."""
    dtype = run.attrs["dtype"]
    width = targets_per_call(max(len(json.loads(run.attrs["requested_times"])) - 1, 1))
    limit = most_attempts(run)
    with precision(dtype):
        task = cast(Task(flow, solver, (), {}, True), dtype)

    def integrate(state: np.ndarray, times: np.ndarray) -> Reached:
        targets, saves = targets_of(flow, solver, times, dtype)
        states = np.full((len(times) - 1, *state.shape), np.nan)
        with precision(dtype):
            first = jax.tree.map(lambda leaf: leaf.astype(dtype), State.of(flow, state[None]))
            rng_keys = jax.random.wrap_key_data(jnp.zeros((1, 2), jnp.uint32))  # of noise, which these flows have not
            cursors, _ = begin(task, np.asarray(times[0], dtype), first)
            for begun in range(0, len(saves), width):
                left = np.asarray([limit], cursors.accepted.dtype)
                window = _window(targets, begun, width)
                cursors, reached, saved = advance(task, cursors, window, rng_keys, left)
                places = saves[begun : begun + width]
                is_saved = np.asarray(reached)[0, : len(places)] & (places >= 0)
                states[places[is_saved] - 1] = _with_lengths(saved)[: len(places)][is_saved]
        return Reached(states, int(cursors.accepted[0] + cursors.rejected[0]))

    return integrate


def _window(targets: Target, begun: int, width: int) -> TargetWindow:
    count = len(targets.time)
    wanted = begun + np.arange(width)
    chosen = jax.tree.map(lambda leaf: leaf[np.minimum(wanted, count - 1)][None], targets)
    return TargetWindow(chosen, (wanted < count)[None])


def _with_lengths(saved: dict[str, Any]) -> np.ndarray:
    """The saved tokens of the only run, times their lengths where they have some."""
    tokens = np.asarray(saved["tokens"])[0].astype(float)
    return tokens * np.asarray(saved["radius"])[0][..., None] if "radius" in saved else tokens


def _streamed(flow: AbstractDynamics, solver: TokenByToken) -> Callable[[np.ndarray, np.ndarray], Reached]:
    from attnflow.streaming.stream import stream

    def integrate(state: np.ndarray, times: np.ndarray) -> Reached:
        again = stream(flow, state, times - times[0], tolerance=solver.tolerance, progress=False)
        return Reached(again.tokens.values[1:], attempts_of(again))

    return integrate
