"""Estimates of the disk and memory that a sweep needs, before it starts."""

import shutil
from pathlib import Path

from attnflow._common.checks import InputError
from attnflow._common.memory import in_units, require_memory
from attnflow.sweeps.measures import is_over_time
from attnflow.sweeps.sweep_spec import SweepSpec

NUMBER = 8  # bytes of a float
PER_RUN = 14  # bytes of status, last time and steps in the journal
PER_STATUS = 30  # bytes of a run's pointer to its sentence, last time, steps and what is written of them
PER_FILE = 4096  # bytes of a block of the file system, for each cell at least one


def journal_bytes_per_run(spec: SweepSpec, times: int, last_tokens: int) -> float:
    """Bytes of one run in the journal; `last_tokens` are the coordinates of last tokens that it keeps."""
    values = sum(times if is_over_time(word) else 1 for word in spec.observables.values())
    return PER_RUN + NUMBER * (values + last_tokens)


def array_bytes(spec: SweepSpec, times: int) -> float:
    """Bytes of the arrays of the dataset."""
    total = PER_STATUS * spec.cell_count * spec.runs
    for name, word in spec.observables.items():
        each = NUMBER * spec.cell_count * (times if is_over_time(word) else 1)
        for reduction in spec.reductions_of(name):
            copies = {"mean": 3, "quantiles": len(reduction.levels), "counts": 64, "all": spec.runs}
            total += each * copies[reduction.name]
    return total


def require_memory_of_arrays(spec: SweepSpec, times: int, per_run: float) -> None:
    """Raise InputError if the arrays need more memory than there is; `per_run` are bytes of a run in the journal."""
    # The arrays, and the values of one cell with the copies that sorting and writing make.
    memory = 2 * array_bytes(spec, times) + 4 * spec.runs * per_run
    require_memory(memory, _named(spec, times), "Use fewer runs or times, or leave the reduction 'all' out.")


def require_disk(spec: SweepSpec, times: int, path: Path, missing_runs: int, per_run: float) -> None:
    """Raise InputError if the store needs more disk than is free."""
    # New arrays are written while the old ones are still there.
    disk = missing_runs * per_run + 2 * array_bytes(spec, times) + PER_FILE * min(missing_runs, 1000)
    folder = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    free = shutil.disk_usage(folder).free
    if disk > free:
        raise InputError(
            f"{_named(spec, times)} needs about {in_units(disk)} of disk, but {in_units(free)} are free at {folder}. "
            "Use fewer runs or times, or another disk."
        )


def _named(spec: SweepSpec, times: int) -> str:
    return f"A sweep of {spec.cell_count} cells with {spec.runs} runs at {times} times"


def batch_bytes_per_run(spec: SweepSpec, times: int, n: int, d: int) -> float:
    """Bytes of one run in a batch while it is computed, with its tokens if they are needed at all times."""
    tokens = NUMBER * n * d * (times + 20 if spec.needs_tokens() else 20)
    return journal_bytes_per_run(spec, times, 0) + tokens
