"""`sweep`: many runs over axes of settings, into one store."""

import json
import logging
import os
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow._common.progress import Progress, Report, reporting
from attnflow.sweeps.assembly import Assembly
from attnflow.sweeps.batches import Batch, can_continue, compute
from attnflow.sweeps.cells import SweepCell, cells_of, cells_to_check, prepared, times_of
from attnflow.sweeps.estimates import (
    batch_bytes_per_run,
    journal_bytes_per_run,
    require_disk,
    require_memory_of_arrays,
)
from attnflow.sweeps.journal import Journal
from attnflow.sweeps.planning import Planner
from attnflow.sweeps.pools import pool_of
from attnflow.sweeps.scheduling import FailedBatch, computed_batches
from attnflow.sweeps.spec_files import spec_named
from attnflow.sweeps.store import Store, has_spec, load_sweep, locked, recorded, spec_of
from attnflow.sweeps.sweep_spec import SweepSpec, differences, require_extension, require_later_times

log = logging.getLogger(__name__)
SECONDS_BETWEEN_ARRAYS = 30.0  # after which the arrays of the store are written anew
SHARE_OF_WRITING = 0.03  # of the time, at most, for these arrays


def sweep(
    source: str | os.PathLike | SweepSpec,
    out: str | os.PathLike,
    *,
    over: Mapping[str, Any] | None = None,
    table: str | os.PathLike | None = None,
    runs: int | None = None,
    seed: int | None = None,
    common_starts: bool | None = None,
    observables: Mapping[str, Any] | Sequence[str] | None = None,
    reduce: Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    extend: bool = False,
    workers: int | None = None,
    dask: Any = None,
    executor: Executor | None = None,
    command: str = "",
    progress: Progress = None,
) -> xr.Dataset:
    """Compute the runs of all cells of a sweep, into a Zarr store that `xarray.open_zarr` opens.

    Every run has a seed of its own, from the seed of the sweep, the values of its cell and its number: workers, sizes
    of batches and their order change no bit. Batches are kept in the store as they are finished. After Ctrl-C, a killed
    process or a full disk the same call continues, and ends with the same numbers. Runs that cannot be computed after
    three attempts are recorded with the reason, and tried again by the next call.

    Parameters
    ----------
    source
        A scenario, the path of a spec (TOML), or a `SweepSpec`.
    out
        The store, a path that ends in ``.zarr``.
    over
        Axes by the name of the setting: lists of values, or text as on the command line ("4:256:7log", "full,causal").
    table
        A CSV file whose rows are the places of one more axis, `row`; its heading names settings.
    runs
        Runs of each cell, 1 by default, each from its own first tokens.
    seed
        Seed of the sweep, 0 by default.
    common_starts
        True: run k starts from the same tokens in all cells with the same n, d and law, so that differences between
        cells are those of the other settings. False by default: all runs are independent.
    observables
        Measures by name, or a list of their words: observables of `simulate` ("mean-cosine", "close-pairs:0.99") and
        "clusters", "final-clusters", "scaled-clusters", "vertices", "leaders", "rank", "captured", "strongly-captured",
        "unaligned", "end-time", "step-count".
    reduce
        Reductions over runs: "mean", "quantiles:0.1,0.5,0.9", "counts", "all". The default is the first two.
    settings
        Settings of all cells, by the names of a file of settings, such as ``{"end": 20.0, "saves": 41}``.
    extend
        True adds runs, values of axes or later times to a store that has fewer, and ends with the numbers of a sweep
        that had them at once. Runs and values are added to the others. To reach later times, runs with fixed steps,
        without noise or lengths of tokens, are continued from their last tokens; all others are computed again, since
        their steps depend on more than these.
    workers
        Number of local processes. By default batches are computed in this process, on all cores.
    dask
        The address of a Dask scheduler, or a ``dask.distributed.Client``.
    executor
        Any ``concurrent.futures.Executor`` whose workers can import attnflow.
    command
        A line that the store records among its commands.
    progress
        As for `simulate`.

    Returns
    -------
    The dataset of the store, as of `load_sweep`.

    Examples
    --------
    >>> import tempfile, attnflow as af
    >>> found = af.sweep(
    ...     "sphere", tempfile.mkdtemp() + "/beta.zarr", over={"beta": [1.0, 9.0]}, runs=4,
    ...     settings={"n": 8, "end": 2.0, "saves": 3}, observables=["mean-cosine"], progress=False,
    ... )
    >>> found.mean_cosine_mean.dims, found.outcome
    (('beta', 'time'), '8 of 8 runs are computed.')
    """
    given = {"runs": runs, "seed": seed, "reduce": reduce, "observables": observables, "over": over, "table": table}
    given |= {"common_starts": common_starts}
    spec = spec_named(source, given, settings or {})
    cells = cells_of(spec)
    checked = cells_to_check(cells)
    times = times_of(spec, checked)
    with locked(out) as store:
        _require_same(store, spec, times, extend)
        per_run, in_batch = _bytes_per_run(spec, checked, len(times))
        require_memory_of_arrays(spec, len(times), per_run)
        journal = store.journal(times)
        gaps = [gap for cell in cells for gap in journal.missing(cell, spec.runs)]
        require_disk(spec, len(times), store.path, sum(gap.count for gap in gaps), per_run)
        with pool_of(workers, dask, executor) as pool, reporting(progress) as report:
            store.write_spec(spec, command)
            planner = Planner(gaps, json.dumps(spec.record()), in_batch, journal.with_state)
            state = SweepState(spec, cells, times, store, journal, report)
            state.begin()
            try:
                for batch, found in computed_batches(planner, pool, compute):
                    if isinstance(found, FailedBatch):
                        state.note_failure(batch, found.reason)
                    else:
                        journal.add(batch, found)
                        state.note(batch)
            finally:
                state.publish()
    return load_sweep(out)


def _require_same(store: Store, spec: SweepSpec, times: np.ndarray, extend: bool) -> None:
    """Raise InputError if the store has another spec, unless the one given extends it and that is wanted."""
    if not has_spec(store.path):
        if extend:
            raise InputError(f"There is no sweep at {store.path} to extend. Leave `extend` out.")
        return
    old = spec_of(store.path)
    found = differences(old, spec)
    if extend:
        require_extension(old, spec)
        require_later_times(times_of(old, cells_of(old)[:1]), times)
    elif found:
        raise InputError(
            f"{store.path} holds another sweep: {'; '.join(found)}. Choose another name, or add runs, values or "
            "later times with `extend` (`--extend`)."
        )


def _bytes_per_run(spec: SweepSpec, cells: list[SweepCell], times: int) -> tuple[float, float]:
    """Bytes of one run of the largest cell: in the journal, and while its batch is computed."""
    runs = [prepared(spec, cell) for cell in {cell.program(): cell for cell in cells}.values()]
    kept = [run.arguments["tokens"].size if can_continue(spec, run) else 0 for run in runs]
    in_batch = [batch_bytes_per_run(spec, times, *run.arguments["tokens"].shape) for run in runs]
    return journal_bytes_per_run(spec, times, max(kept)), max(in_batch)


class SweepState:
    """What is finished of a sweep: counts for the progress, and the arrays that are written now and then."""

    def __init__(
        self,
        spec: SweepSpec,
        cells: list[SweepCell],
        times: np.ndarray,
        store: Store,
        journal: Journal,
        report: Report,
    ):
        self._spec, self._cells, self._times = spec, cells, times
        self._store, self._journal, self._report = store, journal, report
        self._assembly = Assembly(spec, times)
        self._left = {cell.key: sum(gap.count for gap in journal.missing(cell, spec.runs)) for cell in cells}
        self._reasons: dict[str, dict[int, str]] = defaultdict(dict)
        self._total = spec.runs * len(cells)
        self._began = self._written = time.monotonic()
        self._done_before = self._total - sum(self._left.values())
        self._seconds_to_write = 0.0

    def begin(self) -> None:
        """Add the cells that are finished already, and write the arrays, so that the store can be opened."""
        for cell in self._cells:
            if self._left[cell.key] == 0:
                self._assembly.add(cell, self._journal, {})
        if self._done < self._total:
            self._write()

    @property
    def _done(self) -> int:
        return self._total - sum(self._left.values())

    def note(self, batch: Batch) -> None:
        """Count the runs of a batch that is kept."""
        for segment in batch.segments:
            cell = segment.cell
            self._left[cell.key] -= segment.count
            if self._left[cell.key] == 0:
                self._assembly.add(cell, self._journal, self._reasons[cell.key])
        seconds = time.monotonic() - self._written
        if seconds > max(SECONDS_BETWEEN_ARRAYS, self._seconds_to_write / SHARE_OF_WRITING):
            self._write()
        self._report(self._done / self._total, self._sentence())

    def note_failure(self, batch: Batch, reason: str) -> None:
        """Count the runs of a batch that could not be computed."""
        log.warning("sweep: %d runs of %s: %s", batch.runs, batch.segments[0].cell.words(), reason)
        for segment in batch.segments:
            self._reasons[segment.cell.key] |= dict.fromkeys(segment.numbers, reason)
        self.note(batch)

    def publish(self) -> None:
        """Write the arrays, with the runs of unfinished cells."""
        for cell in self._cells:
            if self._left[cell.key] > 0:
                self._assembly.add(cell, self._journal, self._reasons[cell.key])
        self._write()

    def _write(self) -> None:
        began = time.monotonic()
        record = recorded(self._store.path)
        attributes = {name: json.dumps(record[name]) for name in ("begun", "versions", "commands")}
        self._store.publish(self._assembly.dataset(attributes))
        self._written = time.monotonic()
        self._seconds_to_write = self._written - began

    def _sentence(self) -> str:
        rate = (self._done - self._done_before) / max(time.monotonic() - self._began, 1e-9)
        return f"{self._done} of {self._total} runs, {rate:.3g} a second"
