"""The journal of a sweep: one file for each finished batch, written beside its name and moved into place.

A file is whole or absent, whenever the process is killed. It says which runs of which cells it holds, so that the next
process finds out what is missing, whatever the sizes and the order of the batches were.
"""

import json
import os
import uuid
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from attnflow._common.checks import InputError
from attnflow.sweeps.batches import Batch, Computed, Segment
from attnflow.sweeps.cells import SweepCell

HEADING = ("cell_keys", "first_runs", "run_counts")  # arrays that say what a file holds


@dataclass(frozen=True)
class Entry:
    """Runs of one cell in one file: where they are in its arrays, and which runs they are."""

    path: Path
    offset: int
    first: int
    count: int


class Journal:
    """The finished batches in a folder; only the process that has the lock of the store may change it."""

    def __init__(self, folder: Path, is_writer: bool):
        self._folder, self._is_writer = folder, is_writer
        self._entries: dict[str, list[Entry]] = defaultdict(list)
        self._read: tuple[Path, dict[str, np.ndarray]] | None = None
        if is_writer:
            folder.mkdir(parents=True, exist_ok=True)
            for leftover in folder.glob("*.part"):  # of a process that was killed
                leftover.unlink(missing_ok=True)
        for path in sorted(folder.glob("*.npz")):
            self._list(path)

    def _list(self, path: Path) -> None:
        """Add the runs of a file; a file that cannot be read does not count, and its runs are computed again."""
        try:
            with np.load(path, allow_pickle=False) as arrays:
                keys, firsts, counts = (arrays[name] for name in HEADING)
                whole = zipfile.ZipFile(path).testzip() is None
            if not whole:
                raise zipfile.BadZipFile
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            if self._is_writer:
                path.unlink(missing_ok=True)
            return
        offset = 0
        for key, first, count in zip(keys, firsts, counts, strict=True):
            self._entries[str(key)].append(Entry(path, offset, int(first), int(count)))
            offset += int(count)

    def add(self, batch: Batch, computed: Computed) -> None:
        """Keep a finished batch; InputError if the disk is full or cannot be written."""
        path = self._folder / f"{uuid.uuid4().hex}.npz"
        heading = {
            "cell_keys": np.array([segment.cell.key for segment in batch.segments]),
            "first_runs": np.array([segment.first for segment in batch.segments]),
            "run_counts": np.array([segment.count for segment in batch.segments]),
        }
        write_whole(path, lambda file: np.savez(file, allow_pickle=False, **heading, **computed.arrays))
        offset = 0
        for segment in batch.segments:
            self._entries[segment.cell.key].append(Entry(path, offset, segment.first, segment.count))
            offset += segment.count

    def missing(self, cell: SweepCell, runs: int) -> list[Segment]:
        """The runs of a cell that are not finished, as segments."""
        gaps, begin = [], 0
        for entry in sorted(self._entries.get(cell.key, []), key=lambda entry: entry.first):
            if entry.first > begin:
                gaps.append(Segment(cell, begin, min(entry.first, runs) - begin))
            begin = max(begin, entry.first + entry.count)
        if begin < runs:
            gaps.append(Segment(cell, begin, runs - begin))
        return [gap for gap in gaps if gap.count > 0]

    def arrays_of(self, cell: SweepCell, runs: int) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
        """Numbers of finished runs of a cell and their arrays, file by file."""
        for entry in self._entries.get(cell.key, []):
            arrays = self._arrays(entry.path)
            numbers = np.arange(entry.first, entry.first + entry.count)
            part = slice(entry.offset, entry.offset + entry.count)
            kept = numbers < runs
            yield numbers[kept], {name: values[part][kept] for name, values in arrays.items() if name not in HEADING}

    def _arrays(self, path: Path) -> dict[str, np.ndarray]:
        """The arrays of a file; the last one read is remembered, since neighbouring cells share a file."""
        if self._read is None or self._read[0] != path:
            with np.load(path, allow_pickle=False) as arrays:
                self._read = (path, {name: arrays[name] for name in arrays.files})
        return self._read[1]


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
