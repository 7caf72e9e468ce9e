"""Result files: `save`, `load`, and the digest by which damage is recognised."""

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow._common.files import require_free, require_suffix, written_beside
from attnflow.results.former_names import with_present_names
from attnflow.results.provenance import require_result


def save(run: xr.Dataset, path: str | os.PathLike, *, overwrite: bool = False) -> Path:
    """Write a dataset as Zarr, or as netCDF if the name ends in ``.nc``, and return the path.

    The file is written under a temporary name and renamed when it is complete.
    """
    path = require_free_result(path, overwrite=overwrite)
    require_result(run, "`run`")
    stamped = run.assign_attrs(digest=_digest(run))
    with written_beside(path) as beside:
        if path.suffix.lower() == ".nc":
            stamped.to_netcdf(beside, engine="scipy")
        else:
            stamped.to_zarr(beside, mode="w", consolidated=False)
    return path


def load(path: str | os.PathLike) -> xr.Dataset:
    """The dataset of a file written by `save`, read into memory."""
    path = Path(path)
    if not path.exists():
        raise InputError(f"There is no result file at {path}.")
    try:
        is_netcdf = path.is_file()
        opened = xr.open_dataset(path, engine="scipy") if is_netcdf else xr.open_zarr(path, consolidated=False)
        with opened:
            run = opened.load()
    except Exception as error:
        raise InputError(
            f"{path} cannot be read as a result file: it is damaged, or of another program ({type(error).__name__}). "
            "Compute it again with `attnflow run`."
        ) from error
    require_result(run, str(path))
    # A missing part of a Zarr directory reads as fill values, which only the digest reveals.
    if run.attrs.pop("digest", None) != _digest(run):
        raise InputError(
            f"{path} is damaged: its numbers are not those that were written. Compute it again with `attnflow run`."
        )
    return with_present_names(run)


def _digest(run: xr.Dataset) -> str:
    """A hash of all variables, independent of the number types of a file format."""
    digest = hashlib.sha256()
    for name in sorted(map(str, run.variables)):
        values = run[name].values
        is_text = values.dtype.kind in "OSUT"
        content = json.dumps(values.tolist()).encode() if is_text else np.ascontiguousarray(values, "<f8").tobytes()
        digest.update(f"{name} {values.shape}".encode() + content)
    return digest.hexdigest()


def require_free_result(path: str | os.PathLike, *, overwrite: bool = False) -> Path:
    """The path, if a result can be written to it; only results are overwritten, no other files or directories."""
    require_suffix(path, "A result", ("", ".zarr", ".nc"))
    path = require_free(path, overwrite=overwrite, may_be_directory=True)
    is_netcdf = path.suffix.lower() == ".nc"
    is_foreign = path.is_file() != is_netcdf or (path.is_dir() and not (path / "zarr.json").is_file())
    if path.exists() and is_foreign:
        raise InputError(f"{path} is not a result, and will not be overwritten. Choose another name.")
    return path
