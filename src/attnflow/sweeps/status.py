"""The state of a store: how many runs are computed, by cell, and what could not be computed."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

from attnflow.sweeps.assembly import UNFINISHED
from attnflow.sweeps.cells import cells_of, times_of
from attnflow.sweeps.store import is_being_written, load_sweep, read_journal, recorded, spec_of


def sweep_status(path: str | os.PathLike) -> dict[str, Any]:
    """Facts about a store, also while another process writes it, as JSON knows them."""
    spec, record = spec_of(path), recorded(path)
    cells = cells_of(spec)
    journal = read_journal(path, times_of(spec, cells[:1]))
    left = [sum(gap.count for gap in journal.missing(cell, spec.runs)) for cell in cells]
    total = spec.cell_count * spec.runs
    return {
        "runs": total,
        "computed": total - sum(left),
        "missing": sum(left),
        "cells": spec.cell_count,
        "finished_cells": sum(1 for one in left if one == 0),
        "axes": {axis.name: {name: list(values) for name, values in axis.columns.items()} for axis in spec.axes},
        "endings": _endings(path),
        "is_being_written": is_being_written(path),
        "begun": record["begun"],
        "versions": record["versions"],
    }


def _endings(path: str | os.PathLike) -> dict[str, int]:
    """The number of runs by the sentence on their ending, of the runs that the arrays have.

    The arrays are written now and then, and may hold fewer runs than are computed.
    """
    if not os.path.isfile(Path(path) / "zarr.json"):
        return {}
    counts = Counter(str(text) for text in load_sweep(path).status.values.ravel())
    return {text: count for text, count in counts.most_common() if text != UNFINISHED}
