"""Data of figures that are sweeps: computed in a temporary store, or in one that is kept."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import xarray as xr

from attnflow._common.progress import Progress
from attnflow.sweeps.spec_files import spec_of_values
from attnflow.sweeps.sweep import sweep


def swept(progress: Progress, spec: Mapping[str, Any], store: str) -> xr.Dataset:
    """The dataset of a sweep with the keys of a file of specs, in memory.

    `store` is a path that ends in ``.zarr``: what it holds of the sweep is not computed again, and the rest is added,
    so that a long figure can be interrupted, or its sweep computed on a cluster. It is temporary if the text is empty.
    """
    if store:
        return sweep(spec_of_values(spec, Path()), store, progress=progress).load()
    with tempfile.TemporaryDirectory() as folder:
        return sweep(spec_of_values(spec, Path()), Path(folder, "figure.zarr"), progress=progress).load()
