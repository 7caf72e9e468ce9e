"""Functions over grids of cells, in memory: in this process, in others, or on a cluster."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from attnflow._common.checks import InputError
from attnflow._common.progress import Progress, reporting
from attnflow.sweeps.batches import Computed
from attnflow.sweeps.pools import pool_of
from attnflow.sweeps.scheduling import FailedBatch, computed_batches

FOUND, ERROR = "found", "error"  # what a cell has given


@dataclass(frozen=True, eq=False)
class CellCall:
    """The call of a function for one cell."""

    place: int
    """The number of the cell."""
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def compute_cell(call: CellCall) -> Computed:
    """What the function gives for a cell, or the error that it raises: the same arguments would raise it again."""
    began = time.monotonic()
    try:
        found = {FOUND: call.function(*call.arguments)}
    except Exception as error:
        found = {ERROR: error}
    return Computed(found, time.monotonic() - began, version("attnflow"))


class CallPlanner:
    """Gives one call after the other."""

    def __init__(self, calls: Iterable[CellCall]):
        self._calls = iter(calls)

    def next(self) -> CellCall | None:
        """The next call, or None if all are given out."""
        return next(self._calls, None)

    def measured(self, batch: CellCall, seconds: float) -> None:
        """Do nothing: a call is one cell, however long it takes."""


def computed_cells(
    function: Callable[..., Any],
    cells: Iterable[tuple[Any, ...]],
    *,
    words: Callable[[int], str] | None = None,
    workers: int | None = None,
    dask: Any = None,
    executor: Executor | None = None,
    progress: Progress = False,
) -> list[Any]:
    """What a function gives for the arguments of every cell, in the order of the cells.

    Cells are independent: where they are computed changes no number. The first error that the function raises is
    raised. A process that dies is replaced and its cell computed again, up to three times.

    Parameters
    ----------
    function
        Called with the arguments of a cell; for other processes it must be a function of a module.
    cells
        The arguments of each cell.
    words
        The sentence of the progress, from the number of cells that are done.
    workers, dask, executor, progress
        As for `sweep`.

    Examples
    --------
    >>> computed_cells(pow, [(2, 3), (3, 2)])
    [8, 9]
    """
    calls = [CellCall(place, function, tuple(arguments)) for place, arguments in enumerate(cells)]
    results: list[Any] = [None] * len(calls)
    with pool_of(workers, dask, executor) as pool, reporting(progress) as report:
        for done, (call, found) in enumerate(computed_batches(CallPlanner(calls), pool, compute_cell), start=1):
            results[call.place] = _result(call, found)
            report(done / len(calls), words(done) if words else f"{done} of {len(calls)} cells")
    return results


def _result(call: CellCall, found: Computed | FailedBatch) -> Any:
    """The result of a call; raises what it has raised."""
    if isinstance(found, FailedBatch):
        raise InputError(f"Cell {call.place + 1} could not be computed. {found.reason}")
    if ERROR in found.arrays:
        raise found.arrays[ERROR]
    return found.arrays[FOUND]
