"""Batches: some runs of some cells, computed in one call by any process that has attnflow."""

import functools
import json
import time
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.progress import Watch
from attnflow.experiments import specs
from attnflow.experiments.configs.prepared_run import PreparedRun
from attnflow.integrate.request import checked_request
from attnflow.integrate.simulate import simulated
from attnflow.solvers.fixed_step import AbstractFixedStep
from attnflow.sweeps.cells import OF_NOISE, SweepCell, first_tokens, prepared, seed_of
from attnflow.sweeps.measures import Measured, is_inside, is_over_time, measure, needs_path
from attnflow.sweeps.sweep_spec import SweepSpec

MOST_RUNS_PER_CALL = 64  # a call returns only when its last run does
LAST_TOKENS = "last_tokens"  # name of the array of last tokens, of runs that can be continued
CELLS_REMEMBERED = 64  # prepared cells in a process: neighbouring batches have neighbouring cells


@dataclass(frozen=True)
class Segment:
    """Runs first, first + 1, ... of one cell, from their start or from a time at which their tokens are known."""

    cell: SweepCell
    first: int
    count: int
    since: float | None = None
    """The time from which runs are continued; None for runs from their start."""
    tokens: np.ndarray | None = field(default=None, compare=False, repr=False)
    """Tokens at that time, (run, n, d)."""
    steps: np.ndarray | None = field(default=None, compare=False, repr=False)
    """Steps up to that time."""

    @property
    def numbers(self) -> range:
        """The numbers of the runs."""
        return range(self.first, self.first + self.count)

    def divided(self, count: int) -> tuple["Segment", "Segment | None"]:
        """The first `count` runs, and the others if there are any."""
        rest = self.count - count
        others = replace(self, first=self.first + count, count=rest) if rest > 0 else None
        return replace(self, count=min(count, self.count)), others


@dataclass(frozen=True)
class Batch:
    """Segments that are computed and kept together."""

    spec_text: str
    """The record of the spec as JSON, so that a batch travels without classes of its own."""
    segments: tuple[Segment, ...]

    @property
    def runs(self) -> int:
        """The number of runs."""
        return sum(segment.count for segment in self.segments)


@dataclass(frozen=True)
class Computed:
    """The arrays of a batch, over its runs in the order of its segments."""

    arrays: dict[str, Any]
    seconds: float
    version: str
    """The version of attnflow in the process that has computed it."""


def compute(batch: Batch) -> Computed:
    """Compute a batch; Ctrl-C raises KeyboardInterrupt and no run of the batch is kept."""
    began = time.monotonic()
    spec = _spec(batch.spec_text)
    parts = [_of_segment(spec, batch.spec_text, segment) for segment in batch.segments]
    arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return Computed(arrays, time.monotonic() - began, version("attnflow"))


def _of_segment(spec: SweepSpec, spec_text: str, segment: Segment) -> dict[str, np.ndarray]:
    """The arrays of the runs of one cell: status, last time, steps, and every measure."""
    runs = segment_runs(spec, spec_text, segment)
    run = _prepared(spec_text, segment.cell)
    if segment.steps is not None:
        runs = runs.assign(steps=runs.steps + segment.steps)
    arrays = {
        "status": runs.status.values.astype(np.int16),
        "final_time": runs.final_time.values.astype(np.float64),
        "steps": runs.steps.values.astype(np.int32),
    }
    if can_continue(spec, run):
        arrays[LAST_TOKENS] = runs.final_tokens.values
    times, begin = segment_times(run, segment), 0 if segment.since is None else 1
    found = Measured(run.arguments["flow"], runs)
    for name, word in spec.observables.items():
        values = runs[name].values if is_inside(word) else measure(word)(found)
        over_time = _to_all_times(values, len(times))[:, begin:] if is_over_time(word) else None
        arrays[name] = np.asarray(values, np.float64) if over_time is None else over_time
    return arrays


def can_continue(spec: SweepSpec, run: PreparedRun) -> bool:
    """Whether the last tokens of a run determine the rest of it bit for bit.

    Adaptive steps depend on those before them, noise on the number of steps, and lengths are joined with directions.
    """
    flow = run.arguments["flow"]
    has_fixed_steps = isinstance(run.arguments.get("solver"), AbstractFixedStep)
    is_of_path = any(needs_path(word) for word in spec.observables.values())
    return has_fixed_steps and flow.noise is None and not flow.has_radii and not is_of_path


def segment_times(run: PreparedRun, segment: Segment) -> np.ndarray:
    """The times of the runs of a segment, from the one at which they begin."""
    times = np.asarray(run.arguments["times"])
    return times if segment.since is None else times[np.searchsorted(times, segment.since) :]


def segment_runs(spec: SweepSpec, spec_text: str, segment: Segment) -> xr.Dataset:
    """The dataset of the runs of a segment; KeyboardInterrupt after Ctrl-C, even if all runs have reached their end."""
    cell = segment.cell
    run = _prepared(spec_text, cell)
    arguments = {name: value for name, value in run.arguments.items() if name != "budget"}
    inside = {name: word for name, word in spec.observables.items() if is_inside(word)}
    arguments |= {
        "tokens": segment.tokens if segment.tokens is not None else first_tokens(spec, cell, run, segment.numbers),
        "times": segment_times(run, segment),
        "rng": seed_of(spec, cell, OF_NOISE),
        "observables": {name: specs.observable(word, "observables") for name, word in inside.items()},
        "keep_tokens": spec.needs_tokens(),
    }
    request = checked_request(**arguments)
    # One number for the whole sweep, whatever the sizes of batches: compiled programs have it in their shapes.
    together = int(np.clip(spec.runs // 16, 1, MOST_RUNS_PER_CALL))
    watch = Watch(_silent, None)
    runs = simulated(replace(request, first_run=segment.first, runs_per_call=together), watch)
    if watch.is_interrupted:
        raise KeyboardInterrupt
    return runs


def _silent(fraction: float, sentence: str) -> None:
    """Report nothing: the sweep reports batches."""


def _to_all_times(values: np.ndarray, times: int) -> np.ndarray:
    """Values over (run, time) with NaN at the times that no run of the batch has reached."""
    whole = np.full((len(values), times, *values.shape[2:]), np.nan)
    whole[:, : values.shape[1]] = values
    return whole


@functools.lru_cache(maxsize=4)
def _spec(text: str) -> SweepSpec:
    return SweepSpec.of_record(json.loads(text))


@functools.lru_cache(maxsize=CELLS_REMEMBERED)
def _prepared(text: str, cell: SweepCell) -> PreparedRun:
    return prepared(_spec(text), cell)
