"""Members: the single runs of a dataset."""

import xarray as xr


def without_single_axis(run: xr.Dataset) -> xr.Dataset:
    """The run itself of an ensemble of one run; any other dataset as it is."""
    return run.isel(run=0) if run.sizes.get("run") == 1 else run
