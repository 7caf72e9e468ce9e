"""`replay`: one run of a sweep, computed again with its trajectory."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_count, require_known
from attnflow._common.progress import Progress
from attnflow.experiments import specs
from attnflow.integrate.simulate import simulate
from attnflow.sweeps.axes import value_of
from attnflow.sweeps.cells import OF_NOISE, SweepCell, cells_of, first_tokens, prepared, seed_of, times_of
from attnflow.sweeps.measures import Measured, is_inside, is_over_time, measure
from attnflow.sweeps.store import read_journal, spec_of
from attnflow.sweeps.sweep_spec import SweepSpec

TOLERANCE_OF_VALUES = 1e-9  # relative: a value typed with ten digits names the value of the axis


def replay(path: str | os.PathLike, cell: Mapping[str, Any], run: Any = 0, *, progress: Progress = None) -> xr.Dataset:
    """Compute one run of a sweep again, with its tokens at all times; equal to what the sweep has kept of it.

    Parameters
    ----------
    path
        The store.
    cell
        The value of every axis, by name; of a table, the number of its `row`.
    run
        The number of the run, from 0.
    progress
        As for `simulate`.

    Returns
    -------
    The dataset of `simulate`. Its attribute ``equals_sweep`` is 1 if every number that the sweep has kept of the run is
    the same bit for bit, 0 if one differs (another machine, another version), -1 if the sweep has not computed the run.

    Examples
    --------
    >>> import attnflow as af, tempfile
    >>> store = tempfile.mkdtemp() + "/a.zarr"
    >>> _ = af.sweep("sphere", store, over={"beta": [1.0, 9.0]}, runs=2, settings={"n": 4, "end": 1.0, "saves": 3})
    >>> again = af.replay(store, {"beta": 9.0}, run=1)
    >>> again.tokens.shape, again.equals_sweep
    ((3, 4, 3), 1)
    """
    spec = spec_of(path)
    chosen = cell_named(spec, cell)
    require_count(run, "run", least=0)
    if run >= spec.runs:
        raise InputError(f"`run` must be below {spec.runs}, the number of runs of each cell, but it is {run}.")
    base = prepared(spec, chosen)
    inside = {name: word for name, word in spec.observables.items() if is_inside(word)}
    arguments = {name: value for name, value in base.arguments.items() if name not in ("budget", "keep_tokens")}
    arguments |= {
        "tokens": first_tokens(spec, chosen, base, range(run, run + 1))[0],
        "rng": seed_of(spec, chosen, OF_NOISE, run),
        "observables": {name: specs.observable(word, "observables") for name, word in inside.items()},
    }
    again = simulate(**arguments, progress=progress)
    names = {"sweep": str(path), "sweep_cell": chosen.words(), "sweep_run": run}
    return again.assign_attrs(
        names | {"equals_sweep": _compared(spec, chosen, run, base.arguments["flow"], again, path)}
    )


def cell_named(spec: SweepSpec, given: Mapping[str, Any]) -> SweepCell:
    """The cell with the values given; InputError names an axis that is missing or has no such value."""
    names = [axis.name for axis in spec.axes]
    for name in given:
        require_known(name, names, "axis")
    index = []
    for axis in spec.axes:
        if axis.name not in given:
            raise InputError(
                f"The cell needs a value of axis `{axis.name}`. Known: {_listed(axis.columns, axis.size)}."
            )
        index.append(_place(axis.name, axis.columns, axis.size, given[axis.name]))
    return next(cell for cell in cells_of(spec) if cell.index == tuple(index))


def _place(name: str, columns: Mapping[str, tuple[Any, ...]], size: int, given: Any) -> int:
    """The place of a value along an axis."""
    values = columns.get(name, tuple(range(1, size + 1)))  # a table is asked for by the number of its row
    wanted = value_of(name, given, f"The value of axis `{name}`") if name in columns else _whole(name, given)
    if isinstance(wanted, str):
        require_known(wanted, values, name)
        return values.index(wanted)
    place = int(np.argmin(np.abs(np.array(values, float) - wanted)))
    if not np.isclose(values[place], wanted, rtol=TOLERANCE_OF_VALUES, atol=0):
        raise InputError(f"Axis `{name}` has no value {given}. Known: {_listed(columns, size)}.")
    return place


def _whole(name: str, given: Any) -> int:
    try:
        return int(given)
    except (TypeError, ValueError):
        raise InputError(f"`{name}` must be the number of a row, but it is {given!r}.") from None


def _listed(columns: Mapping[str, tuple[Any, ...]], size: int) -> str:
    values = next(iter(columns.values())) if len(columns) == 1 else tuple(range(1, size + 1))
    shown = ", ".join(str(value) for value in values[:12])
    return f"{shown}, ..." if len(values) > 12 else shown


def _compared(spec: SweepSpec, cell: SweepCell, run: int, flow: Any, again: xr.Dataset, path: str | os.PathLike) -> int:
    """1 if the journal holds the same numbers of the run, 0 if it holds others, -1 if it does not hold the run."""
    found = Measured(flow, again.expand_dims("run"))
    numbers, arrays = read_journal(path, times_of(spec, [cell])).arrays_of(cell, spec.runs)
    if run not in numbers:
        return -1
    kept = {name: values[np.searchsorted(numbers, run)] for name, values in arrays.items()}
    is_same = [float(again[name]) == float(kept[name]) for name in ("status", "final_time", "steps")]
    for name, word in spec.observables.items():
        values = again[name].values if is_inside(word) else measure(word)(found)[0]
        saved = kept[name][: len(values)] if is_over_time(word) else kept[name]
        is_same.append(np.array_equal(values, saved, equal_nan=True))
    return int(all(is_same))
