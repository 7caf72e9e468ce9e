"""The integration of many runs by the native library: chunks of runs on worker threads, window after window of times.

The library releases Python's lock and returns after a fraction of a second, so that the host can show progress, respect
a time budget and be interrupted. Runs are independent: chunks, windows and threads change no bit.
"""

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from attnflow._common.jit_cache import drop_old_programs
from attnflow._common.precision import cast
from attnflow._common.progress import Watch
from attnflow.integrate.native_observables import native_observables
from attnflow.integrate.native_problem import NativeProblem
from attnflow.integrate.plan import power_of_two, precision, targets_per_call
from attnflow.integrate.workers import completed_fractions, on_workers, reason_to_stop
from attnflow.model.native.runs import RunsInProgress, advance, memory_bytes
from attnflow.results.run_arrays import RunArrays
from attnflow.results.run_dataset import Request
from attnflow.solvers.status import Status

SECONDS_PER_NATIVE_CALL = 0.1  # the interval at which progress, time budget and Ctrl-C are looked at
MOST_RUNS = 64  # per chunk: few enough for all cores to be busy until the end of most ensembles
PAIRS_AT_A_TIME = 2**16  # over states whose observables are computed together: many are sums over pairs


@dataclass(frozen=True)
class NativePlan:
    """Everything that a worker needs."""

    request: Request
    problem: NativeProblem
    measure: Callable | None
    """Observables at times of shape (times,) of tokens of shape (runs, times, n, d); None without observables."""
    runs: int
    runs_per_chunk: int
    times_per_window: int

    @classmethod
    def of(cls, request: Request) -> "NativePlan":
        """The plan of a request."""
        *runs, n, d = request.tokens.shape
        problem, count = NativeProblem.of(request), runs[0] if runs else 1
        window = targets_per_call(len(request.times)) if request.observables else len(request.times)
        saved = window * n * d * np.dtype(request.dtype).itemsize if request.observables else 0
        workers = os.cpu_count() or 1
        room = int(request.memory / workers // (memory_bytes(problem.struct) + saved))
        fair_share = request.runs_per_call or -(-count // (8 * workers))
        chunk = power_of_two(int(np.clip(min(room, fair_share), 1, MOST_RUNS)))
        return cls(request, problem, _measure_of(request, window), count, chunk, window)

    @property
    def times(self) -> np.ndarray:
        """The saving times in the precision of the runs."""
        return self.request.times.astype(self.request.dtype)


def integrate(request: Request, watch: Watch) -> RunArrays:
    """Integrate all runs; Ctrl-C ends the integration early and keeps what was computed."""
    if _other_observables(request):
        drop_old_programs()
    plan = NativePlan.of(request)
    results = _empty_results(plan)
    starts = range(0, plan.runs, plan.runs_per_chunk)
    on_workers(lambda first: _integrate_chunk(plan, first, results, watch), starts, watch)
    return results


@dataclass(frozen=True)
class _NativeChunk:
    """Some neighbouring runs, which one worker integrates, and the arrays of all runs that take their results."""

    plan: NativePlan
    runs: slice
    """Which of all runs they are."""
    state: RunsInProgress
    results: RunArrays

    @classmethod
    def beginning_at(cls, plan: NativePlan, first: int, results: RunArrays) -> "_NativeChunk":
        """The runs first, first + 1, ... at the first time."""
        runs = slice(first, min(first + plan.runs_per_chunk, plan.runs))
        state = RunsInProgress.begun(plan.problem.struct, plan.times[0], results.tokens[runs])
        return cls(plan, runs, state, results)


def _integrate_chunk(plan: NativePlan, first: int, results: RunArrays, watch: Watch) -> None:
    """Integrate the runs first, first + 1, ... of one chunk to the end, and write them into `results`."""
    chunk = _NativeChunk.beginning_at(plan, first, results)
    for begin in range(0, len(plan.times), plan.times_per_window):
        window = slice(begin, min(begin + plan.times_per_window, len(plan.times)))
        saved = _array_to_save(chunk, window)
        is_complete = _advance_window(chunk, window, saved, watch)
        if plan.measure is not None and saved is not None:
            _keep_measured(chunk, window, saved)
        if not is_complete or np.all(results.status[chunk.runs] != Status.RUNNING):
            return


def _array_to_save(chunk: _NativeChunk, window: slice) -> np.ndarray | None:
    """The array that takes the tokens at the times of a window; the first tokens are at the first time already."""
    plan, results = chunk.plan, chunk.results
    if plan.measure is None:
        return results.saved["tokens"][chunk.runs] if plan.request.keep_tokens else None
    # All places hold tokens at any time: observables of the places that a run does not reach are computed and dropped.
    # A short last chunk repeats its last run: XLA would compile the observables of another number of runs again.
    first = chunk.runs.start
    repeated = np.minimum(np.arange(first, first + plan.runs_per_chunk), plan.runs - 1)
    return np.repeat(results.tokens[repeated, None], plan.times_per_window, axis=1)


def _advance_window(chunk: _NativeChunk, window: slice, saved: np.ndarray | None, watch: Watch) -> bool:
    """Take runs through the times of a window; False if the watch has stopped them before."""
    plan, status, cursors = chunk.plan, chunk.results.status[chunk.runs], chunk.state.cursors
    first, last = window.start - 1, window.stop - 1  # target k is saving time k + 1: the first tokens are no target
    while True:
        seconds = min(SECONDS_PER_NATIVE_CALL, max(0.0, watch.seconds_left()))
        left = 0
        if not watch.should_stop():
            left = advance(plan.problem.struct, chunk.state, saved, first, last, seconds)
        _keep_cursors(chunk)
        is_running = status == Status.RUNNING
        if watch.should_stop() and np.any(is_running):
            status[is_running] = reason_to_stop(watch)
            return False
        fractions = np.where(is_running, completed_fractions(plan.times, cursors["time"]), 1.0)
        share = len(cursors) / plan.runs
        watch.report(chunk.runs.start, float(fractions.mean()), share, f"t = {float(cursors['time'].min()):.4g}")
        if left == 0:
            return True


def _keep_cursors(chunk: _NativeChunk) -> None:
    """Write times, counts and statuses into the results, with the statuses that the library does not know."""
    cursors, results, plan = chunk.state.cursors, chunk.results, chunk.plan
    status = cursors["status"].copy()
    is_running = status == Status.RUNNING
    attempts = cursors["accepted"] + cursors["rejected"]
    status[is_running & (attempts >= plan.request.solver.step_limit)] = Status.OUT_OF_STEPS
    status[is_running & (cursors["position"] >= len(plan.times) - 1)] = Status.REACHED
    results.status[chunk.runs] = status
    for name in ("time", "accepted", "rejected", "drift"):
        getattr(results, name)[chunk.runs] = cursors[name]


def _keep_measured(chunk: _NativeChunk, window: slice, saved: np.ndarray) -> None:
    """Compute the observables of a window and keep what the runs have reached."""
    plan, results, runs = chunk.plan, chunk.results, chunk.runs
    assert plan.measure is not None
    values = plan.measure(np.resize(plan.times[window], plan.times_per_window), saved)
    if plan.request.keep_tokens:
        values["tokens"] = saved
    for row, run in enumerate(range(runs.start, runs.stop)):
        position = chunk.state.cursors["position"][row]  # the number of targets reached
        reached = int(np.clip(position + 1 - window.start, 0, window.stop - window.start))
        places = slice(window.start, window.start + reached)
        for name, array in values.items():
            results.saved[name][run, places] = array[row, :reached]


def _measure_of(request: Request, window: int) -> Callable | None:
    """The observables of tokens of shape (runs, window, n, d), or None without observables.

    The native library computes attnflow's own, and XLA all others.
    """
    if not request.observables:
        return None
    by_library, by_xla = native_observables(request.observables), _xla_measure_of(request, window)

    def measure(times: np.ndarray, tokens: np.ndarray) -> dict[str, np.ndarray]:
        values = {name: one.values(tokens) for name, one in by_library.items()}
        if by_xla is not None:
            with precision(request.dtype):
                values |= {name: np.asarray(array) for name, array in by_xla(times, tokens).items()}
        return values

    return measure


def _other_observables(request: Request) -> dict[str, Any]:
    """The observables that the native library does not know."""
    by_library = native_observables(request.observables)
    return {name: function for name, function in request.observables.items() if name not in by_library}


def _xla_measure_of(request: Request, window: int) -> Callable | None:
    others = _other_observables(request)
    if not others:
        return None
    together = 1
    while 2 * together * request.tokens.shape[-2] ** 2 <= PAIRS_AT_A_TIME and 2 * together <= window:
        together *= 2
    with precision(request.dtype):
        return functools.partial(_measured, cast(others, request.dtype), together)


def _observed(observables: dict[str, Any], time: Any, tokens: Any) -> dict[str, Any]:
    return {name: jnp.asarray(function(time, tokens)) for name, function in observables.items()}


@eqx.filter_jit
def _measured(observables: dict[str, Any], together: int, times: Any, tokens: Any) -> dict[str, Any]:
    """The observables of all states, `together` neighbouring times of a run at once; it divides the number of times."""
    runs, count, *shape = tokens.shape
    groups = (jnp.tile(times, runs).reshape(-1, together), tokens.reshape(-1, together, *shape))
    at_once = jax.vmap(lambda time, x: _observed(observables, time, x))
    values = jax.lax.map(lambda group: at_once(*group), groups)
    return {name: array.reshape(runs, count, *array.shape[2:]) for name, array in values.items()}


def _empty_results(plan: NativePlan) -> RunArrays:
    request, shapes = plan.request, {}
    # The native code reads rows of coordinates, in whichever order the given array has them.
    tokens = np.ascontiguousarray(request.tokens.reshape(plan.runs, *request.tokens.shape[-2:]), request.dtype)
    if request.keep_tokens:
        shapes["tokens"] = tokens[0]
    shapes |= {name: np.zeros((), request.dtype) for name in native_observables(request.observables)}
    others = _other_observables(request)
    if others:
        with precision(request.dtype):
            shapes |= jax.eval_shape(lambda: _observed(others, plan.times[0], jnp.asarray(tokens[0])))
    results = RunArrays.empty(dict(sorted(shapes.items())), len(plan.times), float(request.times[0]), tokens)
    if request.keep_tokens:
        results.saved["tokens"][:, 0] = tokens
    return results
