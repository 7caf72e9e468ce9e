"""The labelled dataset of a sweep, put together from its journal: values of runs, reductions, and sentences on runs."""

import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import xarray as xr

from attnflow.results.outcome import CAUSES, FAILURES
from attnflow.results.provenance import ResultKind
from attnflow.solvers.status import FIRST_STOP, Status
from attnflow.sweeps import reductions
from attnflow.sweeps.axes import ROW
from attnflow.sweeps.cells import SweepCell, prepared
from attnflow.sweeps.journal import Journal
from attnflow.sweeps.measures import is_over_time
from attnflow.sweeps.sweep_spec import SweepSpec

KIND = "attnflow sweep"  # attribute `kind` of the dataset
UNFINISHED = "Not computed yet."
NO_STEPS = -1  # number of steps of a run that has not been computed


class Assembly:
    """The arrays of a sweep; cells are added as they are finished, and unfinished ones at the end."""

    def __init__(self, spec: SweepSpec, times: np.ndarray):
        self._spec, self._times = spec, times
        per_run = (*spec.shape, spec.runs)
        self._status = np.full(per_run, UNFINISHED, dtype=object)
        self._is_finished = np.zeros(per_run, dtype=bool)  # computed, or given up with a reason
        self._final_time = np.full(per_run, np.nan)
        self._steps = np.full(per_run, NO_STEPS, np.int32)
        self._values = {
            name: np.full((*spec.shape, *shape), np.nan)
            for observable in spec.observables
            for name, shape in _shapes(spec, observable, len(times)).items()
        }
        self._counts: dict[str, dict[tuple[int, ...], np.ndarray]] = {}
        self._sentences: dict[str, dict[int, str]] = {}
        self._finished = 0
        self._failed = 0

    def add(self, cell: SweepCell, journal: Journal, reasons: Mapping[int, str]) -> None:
        """Add the finished runs of a cell; those in `reasons`, by number, could not be computed."""
        runs, arrays = self._spec.runs, {}
        numbers, found = journal.arrays_of(cell, runs)
        if len(numbers):
            self._keep_status(cell, numbers, found)
            for name in self._spec.observables:
                arrays[name] = np.full((runs, *found[name].shape[1:]), np.nan)
                arrays[name][numbers] = found[name]
        for number, reason in reasons.items():
            self._status[(*cell.index, number)] = reason
        is_finished = self._is_finished[cell.index]
        is_finished[[*numbers, *reasons]] = True
        is_whole = bool(is_finished.all())
        self._finished += int(is_finished.sum()) - len(reasons)
        self._failed += len(reasons)
        for name, values in arrays.items():
            self._reduce(name, cell, values, is_whole)

    def _keep_status(self, cell: SweepCell, numbers: np.ndarray, part: dict[str, np.ndarray]) -> None:
        codes, places = np.unique(part["status"], return_inverse=True)
        sentences = np.array([self._sentence(cell, int(code)) for code in codes], dtype=object)
        self._status[cell.index][numbers] = sentences[places]
        self._final_time[cell.index][numbers] = part["final_time"]
        self._steps[cell.index][numbers] = part["steps"]

    def _sentence(self, cell: SweepCell, code: int) -> str:
        known = self._sentences.setdefault(cell.key if code >= FIRST_STOP else "", {})
        if code not in known:
            known[code] = _sentence_of(self._spec, cell, code)
        return known[code]

    def _reduce(self, name: str, cell: SweepCell, values: np.ndarray, is_whole: bool) -> None:
        """Write the reductions of the values of a cell; values of single runs are kept before the cell is whole."""
        for reduction in self._spec.reductions_of(name):
            if reduction.name == "all":
                self._values[name][cell.index] = values
            elif is_whole and reduction.name == "mean":
                self._values[f"{name}_mean"][cell.index] = reductions.mean(values)
                self._values[f"{name}_error"][cell.index] = reductions.mean_error(values)
            elif is_whole and reduction.name == "quantiles":
                self._values[f"{name}_quantiles"][cell.index] = reductions.quantiles(values, reduction.levels)
            elif is_whole:
                self._counts.setdefault(name, {})[cell.index] = reductions.counts(values)
        if is_whole:
            self._values[f"{name}_runs"][cell.index] = reductions.valid_runs(values)

    def dataset(self, attributes: Mapping[str, Any]) -> xr.Dataset:
        """The labelled dataset of what has been added; NaN for all else."""
        axes = tuple(axis.name for axis in self._spec.axes)
        variables: dict[str, Any] = {
            "status": ((*axes, "run"), self._status, {"long_name": "how the run ended"}),
            "final_time": ((*axes, "run"), self._final_time, {"long_name": "time at the end of the run"}),
            "steps": ((*axes, "run"), self._steps, {"long_name": "accepted steps; -1 before the run is computed"}),
        }
        coordinates = _coordinates(self._spec, self._times)
        for name, word in self._spec.observables.items():
            time = ("time",) if is_over_time(word) else ()
            variables |= self._variables_of(name, word, axes, time)
            for reduction in self._spec.reductions_of(name):
                if reduction.name == "quantiles":
                    coordinates[_level_dimension(self._spec, name)] = list(reduction.levels)
            if name in self._counts:
                coordinates[f"{name}_value"] = np.arange(variables[f"{name}_counts"][1].shape[len(axes)])
        return xr.Dataset(variables, coordinates, dict(attributes) | self._summary())

    def _variables_of(self, name: str, word: str, axes: tuple[str, ...], time: tuple[str, ...]) -> dict[str, Any]:
        long_names = {
            name: ((*axes, "run", *time), word),
            f"{name}_mean": ((*axes, *time), f"mean of {word} over runs"),
            f"{name}_error": ((*axes, *time), f"standard error of the mean of {word}"),
            f"{name}_runs": ((*axes, *time), f"number of runs that have a value of {word}"),
            f"{name}_quantiles": ((*axes, _level_dimension(self._spec, name), *time), f"quantiles of {word} over runs"),
        }
        found = {
            key: (dims, self._values[key], {"long_name": text})
            for key, (dims, text) in long_names.items()
            if key in self._values
        }
        if name in self._counts:
            dims = (*axes, f"{name}_value", *time)
            found[f"{name}_counts"] = (dims, self._counted(name), {"long_name": f"number of runs by {word}"})
        return found

    def _counted(self, name: str) -> np.ndarray:
        """The counts of all cells with as many values as the largest needs; NaN for cells without counts yet."""
        parts = self._counts[name]
        most = max(len(part) for part in parts.values())
        rest = next(iter(parts.values())).shape[1:]
        whole = np.full((*self._spec.shape, most, *rest), np.nan)
        for index, part in parts.items():
            whole[index] = 0
            whole[index][: len(part)] = part
        return whole

    def _summary(self) -> dict[str, Any]:
        total = self._spec.cell_count * self._spec.runs
        left = total - self._finished - self._failed
        failures = f", {self._failed} could not be computed" if self._failed else ""
        outcome = f"{self._finished} of {total} runs are computed{failures}{f', {left} are missing' if left else ''}."
        return {
            "kind": KIND,
            "attnflow_version": version("attnflow"),
            "outcome": outcome,
            "runs_computed": self._finished,
            "runs_failed": self._failed,
            "runs_missing": left,
            "spec": json.dumps(self._spec.record()),
        }


def _shapes(spec: SweepSpec, observable: str, times: int) -> dict[str, tuple[int, ...]]:
    """Shapes of the variables of an observable beside the axes; counts are added when their values are known."""
    time = (times,) if is_over_time(spec.observables[observable]) else ()
    shapes: dict[str, tuple[int, ...]] = {f"{observable}_runs": time}
    for reduction in spec.reductions_of(observable):
        if reduction.name == "all":
            shapes[observable] = (spec.runs, *time)
        elif reduction.name == "mean":
            shapes |= {f"{observable}_mean": time, f"{observable}_error": time}
        elif reduction.name == "quantiles":
            shapes[f"{observable}_quantiles"] = (len(reduction.levels), *time)
    return shapes


def _level_dimension(spec: SweepSpec, name: str) -> str:
    """The name of the axis of quantiles: one for all observables with the same levels as the first."""
    levels = {
        other: reduction.levels
        for other in spec.observables
        for reduction in spec.reductions_of(other)
        if reduction.name == "quantiles"
    }
    first = next(iter(levels.values()), ())
    return "quantile" if levels.get(name, first) == first else f"{name}_quantile"


def _coordinates(spec: SweepSpec, times: np.ndarray) -> dict[str, Any]:
    coordinates: dict[str, Any] = {"run": np.arange(spec.runs)}
    for axis in spec.axes:
        if axis.name == ROW and set(axis.columns) != {ROW}:
            coordinates[ROW] = np.arange(1, axis.size + 1)
            coordinates |= {name: (ROW, _labels(values)) for name, values in axis.columns.items()}
        else:
            coordinates[axis.name] = _labels(axis.columns[axis.name])
    if any(is_over_time(word) for word in spec.observables.values()):
        coordinates["time"] = times
    return coordinates


def _labels(values: tuple[Any, ...]) -> np.ndarray:
    return np.array(values, dtype=object) if isinstance(values[0], str) else np.array(values)


def _sentence_of(spec: SweepSpec, cell: SweepCell, code: int) -> str:
    """The sentence of a status, without the numbers of the single run, which are variables of their own."""
    if code >= FIRST_STOP:
        return f"Stopped: {prepared(spec, cell).arguments['stop'][code - FIRST_STOP].sentence()}."
    status = Status(code)
    if status is Status.REACHED:
        return "Reached the end."
    verb = "Failed" if status in FAILURES else "Stopped"
    return f"{verb}: {CAUSES[ResultKind.TRAJECTORY][status]}."
