"""Several runs of a figure in one dataset, each with the flow, the solver and the sizes that it records."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

RECORD = "run_record"
"""The variable with what runs record differently: attributes, sizes, and types that padding changes, as JSON."""


def joined(runs: Sequence[xr.Dataset], along: xr.Variable) -> xr.Dataset:
    """Runs along a new axis, shorter ones padded with NaN; `separated` takes them out again.

    The attributes of the dataset are those that all runs share, without `kind`, so that it is not mistaken for a run.
    """
    is_shared = lambda name: all(name in run.attrs and run.attrs[name] == runs[0].attrs[name] for run in runs)
    shared = {name: value for name, value in runs[0].attrs.items() if name != "kind" and is_shared(name)}
    longest = {name: max(run.sizes[name] for run in runs) for name in runs[0].sizes}
    padded = [run.pad({name: (0, most - run.sizes[name]) for name, most in longest.items()}) for run in runs]
    together = xr.concat(padded, along, data_vars="all", coords="different", compat="equals", join="override")
    together.attrs = shared
    return together.assign({RECORD: (along.dims, [json.dumps(_own(run, shared)) for run in runs])})


def separated(data: xr.Dataset) -> list[xr.Dataset]:
    """The runs of `joined`, each a result that all of attnflow takes."""
    axis = str(data[RECORD].dims[0])
    return [_one(data.isel({axis: place}, drop=True)) for place in range(data.sizes[axis])]


def _own(run: xr.Dataset, shared: dict[Any, Any]) -> dict[str, Any]:
    return {
        "attributes": {name: value for name, value in run.attrs.items() if name not in shared},
        "sizes": dict(run.sizes),
        "types": {name: run[name].dtype.str for name in run.variables if run[name].dtype.kind in "biu"},
    }


def _one(run: xr.Dataset) -> xr.Dataset:
    record = json.loads(str(run[RECORD].item()))
    sizes = {name: slice(size) for name, size in record["sizes"].items()}
    whole = run.drop_vars(RECORD).isel(sizes).assign_attrs(record["attributes"])
    types = {name: np.dtype(text) for name, text in record["types"].items() if name in whole.variables}
    return whole.assign({name: whole[name].astype(kind) for name, kind in types.items() if name not in whole.coords})
