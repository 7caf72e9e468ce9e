"""The integration of many runs: chunks of runs on worker threads, window after window of targets.

XLA releases Python's lock while it computes, so that threads use all cores.
"""

import dataclasses
import logging
import time
from typing import Any

import jax
import numpy as np

from attnflow._common.arrays import AnyArray
from attnflow._common.jit_cache import drop_old_programs
from attnflow._common.progress import Watch
from attnflow.integrate.compiled_loop import TargetWindow, advance, begin
from attnflow.integrate.plan import Plan
from attnflow.integrate.targets import steps_for
from attnflow.integrate.workers import completed_fractions, on_workers, reason_to_stop, worker_count
from attnflow.results.run_arrays import RunArrays
from attnflow.solvers.base import Cursor
from attnflow.solvers.status import Status

log = logging.getLogger(__name__)
SECONDS_PER_COMPILED_CALL = 0.3  # the interval at which progress and time budget are looked at
MAX_SECONDS_LATE = 1.0  # by which a run may exceed its budget, unless its first step alone takes longer


def integrate(plan: Plan, watch: Watch) -> RunArrays:
    """Integrate all runs; Ctrl-C ends the integration early and keeps what was computed."""
    drop_old_programs()
    results = _empty_results(plan)
    pace = Pace()
    starts = range(0, plan.runs, plan.runs_per_call)
    log.info("simulate: %d runs in a compiled call, on %d threads", plan.runs_per_call, worker_count(starts))
    on_workers(lambda first: _integrate_chunk(plan, first, results, watch, pace), starts, watch)
    return results


@dataclasses.dataclass
class Pace:
    """The number of steps of a run in the next compiled call, which all chunks share, and the seconds of one step.

    The first call makes no step, so that its seconds are those of the compilation. The next makes one, since the
    duration of a step is not known and a call cannot be interrupted: a step of 20,000 tokens takes seconds.
    """

    steps: int = 0
    seconds_per_step: float = 0.0
    """Seconds per step of the last call that made one."""

    def measured(self, asked: int, made: int, seconds: float, seconds_left: float) -> None:
        """Choose the next number of steps, after a call of `asked` steps a run made `made` of them in `seconds`."""
        # A call may end before its last step, at its last target: `seconds` is scaled to a call of all steps.
        wanted = min(SECONDS_PER_COMPILED_CALL, max(seconds_left, 0))
        self.steps = steps_for(wanted, asked, seconds * asked / max(made, 1), most=10**9)
        if made:
            self.seconds_per_step = seconds / made

    def is_too_slow(self, seconds_left: float) -> bool:
        """Whether a step that begins now would probably end more than `MAX_SECONDS_LATE` after the budget."""
        return self.seconds_per_step > seconds_left + MAX_SECONDS_LATE


@dataclasses.dataclass(frozen=True)
class Chunk:
    """The runs that share a compiled call, and how far they have come."""

    runs: np.ndarray
    """Their numbers. A short last chunk repeats its last run in the arrays below, since another size compiles again."""
    rng_keys: AnyArray
    cursors: Cursor
    position: np.ndarray
    """The number of targets that each run has reached."""


def _integrate_chunk(plan: Plan, first: int, results: RunArrays, watch: Watch, pace: Pace) -> None:
    """Integrate the runs first, first + 1, ... of one chunk to the end, and write them into `results`."""
    runs = np.arange(first, min(first + plan.runs_per_call, plan.runs))
    if watch.should_stop():
        results.status[runs] = reason_to_stop(watch)
        return
    with plan.precision():
        chunk = _begun(plan, runs, results)
        status = _statuses(plan, chunk)
        while np.any(status == Status.RUNNING):
            if watch.should_stop() or pace.is_too_slow(watch.seconds_left()):
                status = np.where(status == Status.RUNNING, reason_to_stop(watch), status)
                results.status[runs] = status[: len(runs)]
                return
            attempts = _attempts(chunk.cursors)
            chunk = _advanced(plan, chunk, results, watch, pace)
            status = _statuses(plan, chunk)
            _keep_cursors(results, runs, chunk.cursors, status)
            if np.any(_attempts(chunk.cursors) > attempts):
                fraction = _fraction(plan, np.asarray(chunk.cursors.time), status)[: len(runs)].mean()
                watch.report(first, float(fraction), len(runs) / plan.runs, _sentence(chunk.cursors, runs))


def _begun(plan: Plan, runs: np.ndarray, results: RunArrays) -> Chunk:
    """The chunk at the first time, whose saved values are kept."""
    members = np.minimum(np.arange(runs[0], runs[0] + plan.runs_per_call), plan.runs - 1)
    # NumPy chooses the members: every operation of JAX outside `begin` and `advance` compiles a program of its own.
    states = jax.tree.map(lambda leaf: leaf[members], plan.states)
    rng_keys = jax.random.wrap_key_data(jax.device_put(plan.rng_keys[members]))
    cursors, saved = begin(plan.task, np.asarray(plan.start, plan.dtype), states)
    _store(results, runs, saved)
    return Chunk(runs, rng_keys, cursors, np.zeros(plan.runs_per_call, int))


def _advanced(plan: Plan, chunk: Chunk, results: RunArrays, watch: Watch, pace: Pace) -> Chunk:
    """The chunk after one compiled call, whose saved values are kept and whose duration sets the pace of the next."""
    began, asked, attempts = time.monotonic(), pace.steps, _attempts(chunk.cursors)
    # In float32 steps are counted in 32 bits, which a limit of 1e12 exceeds.
    left = plan.max_steps - attempts.astype(np.int64)
    allowed = np.minimum(asked, left).astype(chunk.cursors.accepted.dtype)
    windows = _windows(plan, chunk.position)
    cursors, reached, saved = advance(plan.task, chunk.cursors, windows, chunk.rng_keys, allowed)
    position = _keep_reached(plan, results, chunk.runs, chunk.position, np.asarray(reached), saved)
    seconds = time.monotonic() - began
    if asked == 0:
        log.info("simulate: program compiled, or read from the cache, in %.2f s", seconds)
    pace.measured(asked, int(np.max(_attempts(cursors) - attempts)), seconds, watch.seconds_left())
    return dataclasses.replace(chunk, cursors=cursors, position=position)


def _windows(plan: Plan, position: np.ndarray) -> TargetWindow:
    wanted = position[:, None] + np.arange(plan.targets_per_call)
    is_active = wanted < len(plan.saves)
    wanted = np.minimum(wanted, len(plan.saves) - 1)
    return TargetWindow(jax.tree.map(lambda leaf: leaf[wanted], plan.targets), is_active)


def _keep_reached(plan, results, runs, position, reached, saved) -> np.ndarray:
    """Copy the values saved at reached targets into `results`; returns the index of the next target of each run."""
    saved = {name: np.asarray(values) for name, values in saved.items()}
    for row, run in enumerate(runs):
        count = int(np.sum(reached[row]))
        places = plan.saves[position[row] : position[row] + count]
        is_saved = places >= 0
        for name, values in saved.items():
            results.saved[name][run, places[is_saved]] = values[row, :count][is_saved]
    return position + np.sum(reached, axis=1)


def _statuses(plan: Plan, chunk: Chunk) -> np.ndarray:
    status = np.array(chunk.cursors.status)
    is_running = status == Status.RUNNING
    status[is_running & (_attempts(chunk.cursors) >= plan.max_steps)] = Status.OUT_OF_STEPS
    status[is_running & (chunk.position >= len(plan.saves))] = Status.REACHED
    return status


def _attempts(cursors: Cursor) -> np.ndarray:
    return np.asarray(cursors.accepted) + np.asarray(cursors.rejected)


def _keep_cursors(results: RunArrays, runs: np.ndarray, cursors: Cursor, status: np.ndarray) -> None:
    members = slice(0, len(runs))
    results.status[runs] = status[members]
    results.time[runs] = np.asarray(cursors.time)[members]
    results.tokens[runs] = np.asarray(cursors.state.tokens)[members]
    if cursors.state.radii is not None and results.radii is not None:
        results.radii[runs] = np.asarray(cursors.state.radii)[members]
    results.accepted[runs] = np.asarray(cursors.accepted)[members]
    results.rejected[runs] = np.asarray(cursors.rejected)[members]
    results.drift[runs] = np.asarray(cursors.drift)[members]


def _empty_results(plan: Plan) -> RunArrays:
    with plan.precision():
        state = jax.tree.map(lambda leaf: leaf[0], plan.states)
        shapes = jax.eval_shape(plan.task.measure, np.asarray(plan.start, plan.dtype), state)
    count = int(np.max(plan.saves)) + 1
    return RunArrays.empty(shapes, count, plan.start, plan.states.tokens, plan.states.radii)


def _store(results: RunArrays, runs: np.ndarray, saved: dict[str, Any]) -> None:
    for name, values in saved.items():
        results.saved[name][runs, 0] = np.asarray(values)[: len(runs)]


def _fraction(plan: Plan, times: np.ndarray, status: np.ndarray) -> np.ndarray:
    """The completed part of every run: of its targets, and of the time to the next one."""
    done = completed_fractions(np.concatenate([[plan.start], plan.targets.time]), times)
    return np.where(status == Status.RUNNING, done, 1.0)


def _sentence(cursors: Cursor, runs: np.ndarray) -> str:
    return f"t = {float(np.min(np.asarray(cursors.time)[: len(runs)])):.4g}"
