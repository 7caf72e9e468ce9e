"""The journal of a sweep: one file for each finished batch, written beside its name and moved into place.

A file is whole or absent, whenever the process is killed. It says which runs of which cells it holds, so that the next
process finds out what is missing, whatever the sizes and the order of the batches were.
"""

import json
import os
import uuid
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from attnflow._common.checks import InputError
from attnflow.solvers.status import Status
from attnflow.sweeps.batches import LAST_TOKENS, Batch, Computed, Segment
from attnflow.sweeps.cells import SweepCell

HEADING = ("cell_keys", "first_runs", "run_counts", "since", "last_time")  # arrays that say what a file holds


@dataclass(frozen=True)
class Entry:
    """Runs of one cell in one file: where they are in its arrays, and which runs and times they are."""

    path: Path
    offset: int
    first: int
    count: int
    since: float
    """The time after which its values begin: those of a run that was continued; NaN for whole runs."""
    last_time: float
    """The last time that was asked for."""

    @property
    def numbers(self) -> np.ndarray:
        """The numbers of the runs."""
        return np.arange(self.first, self.first + self.count)


class Journal:
    """The finished batches in a folder; only the process that has the lock of the store may change it.

    A file of a sweep with fewer times, which was extended, counts if its runs have kept their last tokens: those that
    were stopped before the end are finished, and the others are continued from there.
    """

    def __init__(self, folder: Path, times: np.ndarray, is_writer: bool):
        self._folder, self._times, self._is_writer = folder, times, is_writer
        self._entries: dict[str, list[Entry]] = defaultdict(list)
        self._read: tuple[Path, dict[str, np.ndarray]] | None = None
        if is_writer:
            folder.mkdir(parents=True, exist_ok=True)
            for leftover in folder.glob("*.part"):  # of a process that was killed
                leftover.unlink(missing_ok=True)
        for path in sorted(folder.glob("*.npz")):
            self._list(path)
        for entries in self._entries.values():
            entries.sort(key=lambda entry: entry.last_time)

    def _list(self, path: Path) -> None:
        """Add the runs of a file; a file that cannot be read does not count, and its runs are computed again."""
        try:
            with np.load(path, allow_pickle=False) as arrays:
                keys, firsts, counts, since, last_time = (arrays[name] for name in HEADING)
                counts_here = float(last_time) == self._times[-1] or LAST_TOKENS in arrays
                whole = zipfile.ZipFile(path).testzip() is None
            if not whole:
                raise zipfile.BadZipFile
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            if self._is_writer:
                path.unlink(missing_ok=True)
            return
        if counts_here:
            self._add_entries(path, zip(keys, firsts, counts, since, strict=True), float(last_time))

    def _add_entries(self, path: Path, segments: Iterable[tuple[Any, ...]], last_time: float) -> None:
        offset = 0
        for key, first, count, since in segments:
            entry = Entry(path, offset, int(first), int(count), float(since), last_time)
            self._entries[str(key)].append(entry)
            offset += int(count)

    def add(self, batch: Batch, computed: Computed) -> None:
        """Keep a finished batch; InputError if the disk is full or cannot be written."""
        path = self._folder / f"{uuid.uuid4().hex}.npz"
        heading = {
            "cell_keys": np.array([segment.cell.key for segment in batch.segments]),
            "first_runs": np.array([segment.first for segment in batch.segments]),
            "run_counts": np.array([segment.count for segment in batch.segments]),
            "since": np.array([segment.since for segment in batch.segments], float),
            "last_time": np.array(self._times[-1]),
        }
        write_whole(path, lambda file: np.savez(file, allow_pickle=False, **heading, **computed.arrays))
        segments = zip(*(heading[name] for name in HEADING[:4]), strict=True)
        self._add_entries(path, segments, float(self._times[-1]))

    def missing(self, cell: SweepCell, runs: int) -> list[Segment]:
        """The runs of a cell that are not finished, as segments; those that can be continued say since which time."""
        since = np.full(runs, np.nan)
        is_missing = np.ones(runs, bool)
        for entry in self._entries.get(cell.key, []):
            kept = entry.numbers[entry.numbers < runs]
            goes_on = self._goes_on(entry)[: len(kept)]
            is_missing[kept] = goes_on
            since[kept] = np.where(goes_on, entry.last_time, np.nan)
        # Neighbouring runs that continue since the same time, or begin, are one segment.
        places = np.flatnonzero(is_missing)
        codes = np.where(np.isnan(since[places]), -1, np.searchsorted(self._times, since[places]))
        cuts = np.flatnonzero((np.diff(places) != 1) | (np.diff(codes) != 0)) + 1
        parts = [part for part in np.split(places, cuts) if len(part)]
        begins = [None if np.isnan(since[part[0]]) else float(since[part[0]]) for part in parts]
        return [Segment(cell, int(part[0]), len(part), begin) for part, begin in zip(parts, begins, strict=True)]

    def _goes_on(self, entry: Entry) -> np.ndarray:
        """Which runs of an entry have later times to reach; those that were stopped before the end have not."""
        if entry.last_time == self._times[-1]:
            return np.zeros(entry.count, bool)
        return self._part(entry, "status") == Status.REACHED

    def with_state(self, segment: Segment) -> Segment:
        """A segment with the tokens and numbers of steps from which its runs are continued; others as they are."""
        if segment.since is None:
            return segment
        parts = {name: [] for name in (LAST_TOKENS, "steps")}
        for entry in self._entries[segment.cell.key]:
            chosen = np.isin(entry.numbers, segment.numbers)
            if entry.last_time == segment.since and chosen.any():
                for name, found in parts.items():
                    found.append((entry.first, self._part(entry, name)[chosen]))
        tokens, steps = (np.concatenate([part for _, part in sorted(found, key=first_of)]) for found in parts.values())
        return replace(segment, tokens=tokens, steps=steps)

    def arrays_of(self, cell: SweepCell, runs: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The numbers of the finished runs of a cell and their arrays, those over time with NaN where there is none."""
        is_done = np.ones(runs, bool)
        for gap in self.missing(cell, runs):
            is_done[gap.first : gap.first + gap.count] = False
        whole: dict[str, np.ndarray] = {}
        for entry in self._entries.get(cell.key, []):
            begin = 0 if np.isnan(entry.since) else int(np.searchsorted(self._times, entry.since)) + 1
            for name in self._arrays(entry.path):
                if name not in (*HEADING, LAST_TOKENS):
                    self._copy(entry, name, begin, whole, runs)
        return np.flatnonzero(is_done), {name: values[is_done] for name, values in whole.items()}

    def _copy(self, entry: Entry, name: str, begin: int, whole: dict[str, np.ndarray], runs: int) -> None:
        """Copy the values of an entry to the places of its runs, and of its times if they are over time."""
        values = self._part(entry, name)
        kept = entry.numbers < runs
        if values.ndim == 1:
            whole.setdefault(name, np.zeros(runs, values.dtype))[entry.numbers[kept]] = values[kept]
            return
        over_time = whole.setdefault(name, np.full((runs, len(self._times)), np.nan))
        over_time[entry.numbers[kept], begin : begin + values.shape[1]] = values[kept]

    def _part(self, entry: Entry, name: str) -> np.ndarray:
        return self._arrays(entry.path)[name][entry.offset : entry.offset + entry.count]

    def _arrays(self, path: Path) -> dict[str, np.ndarray]:
        """The arrays of a file; the last one read is remembered, since neighbouring cells share a file."""
        if self._read is None or self._read[0] != path:
            with np.load(path, allow_pickle=False) as arrays:
                self._read = (path, {name: arrays[name] for name in arrays.files})
        return self._read[1]


def first_of(pair: tuple[int, np.ndarray]) -> int:
    """The number of the first run of a part."""
    return pair[0]


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file beside its name, bring it to the disk, and move it into place; InputError if that fails."""
    beside = path.with_name(f"{path.name}.part")
    try:
        with beside.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise InputError(
            f"{path.parent} cannot be written: {error.strerror or error}. What was finished is kept: the same command "
            "continues the sweep."
        ) from error


def write_json(path: Path, value: object) -> None:
    """Write a value as JSON, whole or not at all."""
    write_whole(path, lambda file: file.write(json.dumps(value, indent=1).encode()))
